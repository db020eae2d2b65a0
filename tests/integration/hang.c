/* tests/integration/hang.c - run a program on a disk that hangs at times:
 *
 *   hang DIRECTORY FILE PROGRAM [ARGUMENT...]
 *
 * As long as FILE exists, calls of the program and its children that open,
 * write, rename or remove a path that begins with DIRECTORY do not return;
 * SIGKILL ends them all the same, as it does with a file server that is away.
 * Status 125: it cannot be done here.
 *
 * Seccomp hands these calls to a process of ours, which lets them go on when
 * their time has come. It is a child of PROGRAM, so that PROGRAM has the pid
 * that was started, and ends when nobody is left to hand it anything. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CANNOT = 125, HELD_MAX = 256, LOOK_MS = 10 };

/* What the calls are about: a path, or a descriptor. */
static const struct call {
    int number;
    int path; /* argument; -1: none */
    int fd;
} calls[] = {
    {SYS_openat, 1, -1},   {SYS_write, -1, 0},    {SYS_pwrite64, -1, 0},
    {SYS_pwritev, -1, 0},  {SYS_writev, -1, 0},   {SYS_ftruncate, -1, 0},
    {SYS_renameat, 1, -1}, {SYS_unlinkat, 1, -1}, {SYS_mkdirat, 1, -1},
#ifdef SYS_rename
    {SYS_rename, 0, -1},   {SYS_unlink, 0, -1},   {SYS_mkdir, 0, -1},
    {SYS_open, 0, -1},
#endif
};

enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

static const char *directory, *file;

/* ---- the process that holds calls back ----------------------------------- */

static bool read_path(pid_t pid, uint64_t address, char *path)
{
    struct iovec here = {path, PATH_MAX - 1};
    struct iovec there = {(void *)(uintptr_t)address, PATH_MAX - 1};
    ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

    if (n <= 0) { /* it ends with its page */
        there.iov_len = here.iov_len = 4096 - address % 4096;
        if (here.iov_len >= PATH_MAX)
            here.iov_len = there.iov_len = PATH_MAX - 1;
        n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    }
    path[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool path_of(const struct seccomp_notif *call, char *path)
{
    char link[64];
    ssize_t n;

    for (int i = 0; i < N_CALLS; i++) {
        if (calls[i].number != call->data.nr)
            continue;
        if (calls[i].path >= 0)
            return read_path((pid_t)call->pid, call->data.args[calls[i].path],
                             path);
        snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)call->pid,
                 (int)call->data.args[calls[i].fd]);
        n = readlink(link, path, PATH_MAX - 1);
        path[n > 0 ? n : 0] = '\0';
        return n > 0;
    }
    return false;
}

static bool must_wait(const struct seccomp_notif *call)
{
    char path[PATH_MAX];

    return access(file, F_OK) == 0 && path_of(call, path) &&
           strncmp(path, directory, strlen(directory)) == 0;
}

static void let_go(int listener, uint64_t id)
{
    struct seccomp_notif_resp answer = {
        .id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* or it was killed */
}

static void supervise(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    uint64_t held[HELD_MAX];
    unsigned n_held = 0;

    while (!(p.revents & POLLHUP)) {
        struct seccomp_notif call = {0};

        if (n_held > 0 && access(file, F_OK) != 0)
            while (n_held > 0)
                let_go(listener, held[--n_held]);
        if (poll(&p, 1, n_held > 0 ? LOOK_MS : -1) <= 0 ||
            !(p.revents & POLLIN) ||
            ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
            continue;
        if (n_held < HELD_MAX && must_wait(&call))
            held[n_held++] = call.id;
        else
            let_go(listener, call.id);
    }
}

/* ---- from one process to the other --------------------------------------- */

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static bool send_fd(int socket, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union control control = {0};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    return sendmsg(socket, &m, 0) == 1;
}

static int receive_fd(int socket)
{
    char byte;
    struct iovec part = {&byte, 1};
    union control control = {0};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    int fd = -1;

    if (recvmsg(socket, &m, 0) == 1 && m.msg_controllen > 0)
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    return fd;
}

static int install(void)
{
    struct sock_filter code[2 * N_CALLS + 2];
    struct sock_fprog program = {.filter = code};
    unsigned at = 0;

    code[at++] = (struct sock_filter)BPF_STMT(
        BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                                  SECCOMP_RET_USER_NOTIF);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                              SECCOMP_RET_ALLOW);
    program.len = (unsigned short)at;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

int main(int argc, char **argv)
{
    int sockets[2], listener;

    if (argc < 4) {
        fputs("hang DIRECTORY FILE PROGRAM [ARGUMENT...]\n", stderr);
        return 2;
    }
    directory = argv[1];
    file = argv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        return CANNOT;
    if (fork() == 0) {
        close(sockets[0]); /* its end is all we would hear of a failure */
        listener = receive_fd(sockets[1]);
        close_range(0, 2, 0);
        if (listener >= 0)
            supervise(listener);
        _exit(0);
    }
    close(sockets[1]);
    listener = install();
    if (listener < 0 || !send_fd(sockets[0], listener))
        _exit(CANNOT); /* whoever waits for the descriptor ends, too */
    close(listener);
    execvp(argv[3], argv + 3);
    _exit(127);
}
