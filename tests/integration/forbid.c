/* tests/integration/forbid.c - run a program to which some system calls do not
 * exist, as in an old kernel or a sandbox:
 *
 *   forbid [--eperm] NAME[,NAME...] PROGRAM [ARGUMENT...]
 *
 * They fail with ENOSYS, or EPERM. Status 125: the filter cannot be installed
 * here. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { CALLS_MAX = 8, CANNOT = 125 };

static const struct call {
    const char *name;
    int number;
} calls[] = {
    {"memfd_create", SYS_memfd_create},
    {"process_vm_readv", SYS_process_vm_readv},
    {"pidfd_open", SYS_pidfd_open},
    {"close_range", SYS_close_range},
    {"waitid", SYS_waitid},
    {"prlimit64", SYS_prlimit64},
    {"accept4", SYS_accept4},
    {"sched_setscheduler", SYS_sched_setscheduler},
};

static int number_of(const char *name)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    return -1;
}

/* numbers [n]. One architecture: what runs here was built with this. */
static int install(const int *numbers, unsigned n, int error)
{
    struct sock_filter code[2 * CALLS_MAX + 2];
    struct sock_fprog program = {.filter = code};
    unsigned at = 0;

    code[at++] = (struct sock_filter)BPF_STMT(
        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < n; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                  (unsigned)numbers[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(
            BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                              SECCOMP_RET_ALLOW);
    program.len = (unsigned short)at;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    int numbers[CALLS_MAX], error = ENOSYS;
    unsigned n = 0;

    if (argc > 1 && strcmp(argv[1], "--eperm") == 0) {
        error = EPERM;
        argv++;
        argc--;
    }
    if (argc < 3) {
        fputs("forbid [--eperm] NAME[,NAME...] PROGRAM [ARGUMENT...]\n",
              stderr);
        return 2;
    }
    for (char *name = strtok(argv[1], ","); name && n < CALLS_MAX;
         name = strtok(NULL, ",")) {
        numbers[n] = number_of(name);
        if (numbers[n++] < 0) {
            fprintf(stderr, "forbid: no call \"%s\"\n", name);
            return 2;
        }
    }
    if (install(numbers, n, error) != 0) {
        perror("forbid: seccomp");
        return CANNOT;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
