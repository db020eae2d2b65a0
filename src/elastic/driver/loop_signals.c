/* elastic/driver/loop_signals.c - signals of persons and of programs that end a
 * job. See loop_internal.h. The core decides what each asks for.
 *
 * Threads: the main thread. Memory: none. */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/inherited.h"
#include "base/log.h"
#include "base/text.h"
#include "elastic/driver/loop_internal.h"

hvd_status_t loop_open_signals(struct loop *l)
{
    sigset_t *set = &l->signals;

    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);           /* Slurm's, before the end of a job */
    sigaddset(set, SIGUSR2);           /* a line about where the job is */
    inherited_drop_ignored(set);       /* nohup, SIGINT behind a shell's & */
    sigprocmask(SIG_BLOCK, set, NULL); /* before libzmq starts its threads */
    l->signal_fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->signal_fd < 0 || l->epoll_fd < 0 || !loop_watch(l, l->signal_fd) ||
        !loop_watch(l, l->wake_fd))
        return error_errno("cannot watch signals");
    return HVD_OK;
}

static void log_signal(const struct loop *l, int signo)
{
    char name[32];
    struct text t = text_into(name, sizeof(name));
    const char *what = "draining; once more kills";

    if (!driver_heeds(&l->driver, signo, clock_now_us()))
        what = "ending already";
    else if (l->driver.interrupts > 0)
        what = "killing the workers";
    else if (l->driver.phase >= DRIVER_STOPPING)
        what = "ending; once more kills";
    text_signal(&t, signo);
    log_info("%s: %s", name, what);
}

void loop_hear_signals(struct loop *l)
{
    struct signalfd_siginfo info;

    while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        struct driver_event ev = {.type = DRIVER_EV_INTERRUPT,
                                  .u.signal = (int)info.ssi_signo};

        if (ev.u.signal == SIGUSR2) {
            loop_tell_status(l);
            continue;
        }
        log_signal(l, ev.u.signal);
        loop_feed(l, &ev);
    }
}
