/* base/calls.c - see calls.h. */
#include "base/calls.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"

struct call {
    const char *name;
    long number;
};

static const struct call sockets[] = {
    {"accept4", SYS_accept4},
    {"connect", SYS_connect},
    {"epoll_create1", SYS_epoll_create1},
    {"epoll_ctl", SYS_epoll_ctl},
    {"fcntl", SYS_fcntl},
    {"getsockname", SYS_getsockname},
    {"getsockopt", SYS_getsockopt},
#ifdef SYS_poll
    {"poll", SYS_poll},
#endif
    {"recvfrom", SYS_recvfrom},
    {"recvmsg", SYS_recvmsg},
    {"rt_sigprocmask", SYS_rt_sigprocmask},
    {"sched_getparam", SYS_sched_getparam},
    {"sched_getscheduler", SYS_sched_getscheduler},
    {"sched_setscheduler", SYS_sched_setscheduler},
    {"sendmsg", SYS_sendmsg},
    {"sendto", SYS_sendto},
    {"setsockopt", SYS_setsockopt},
};

static const struct call processes[] = {
#ifdef SYS_access
    {"access", SYS_access},         {"dup2", SYS_dup2},
#endif
    {"chdir", SYS_chdir},           {"dup3", SYS_dup3},
    {"pidfd_open", SYS_pidfd_open}, {"pipe2", SYS_pipe2},
    {"prctl", SYS_prctl},           {"waitid", SYS_waitid},
};

/* No process, descriptor, address or option has the number -1: a call that is
 * there refuses it as EINVAL, EBADF or EFAULT. */
static hvd_status_t check(const struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (syscall(calls[i].number, -1L, -1L, -1L, -1L, -1L, -1L) >= 0 ||
            (errno != ENOSYS && errno != EPERM && errno != EACCES))
            continue;
        return error_set(HVD_ERR_SYSTEM,
                         "system call %s: %s -> nothing works without it: "
                         "allow it in the sandbox (a seccomp filter)",
                         calls[i].name, strerror(errno));
    }
    return HVD_OK;
}

hvd_status_t calls_check_sockets(void)
{
    return check(sockets, ARRAY_SIZE(sockets));
}

hvd_status_t calls_check_processes(void)
{
    return check(processes, ARRAY_SIZE(processes));
}
