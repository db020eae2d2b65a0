/* base/calls.h - are there the system calls without which nothing works? An old
 * kernel lacks some, and a seccomp filter may refuse any. Asked at the start:
 * later a process would wait for ever (waitid), or libzmq would abort it.
 *
 * Each call is made with arguments that no kernel accepts, so nothing happens.
 *
 * Threads: any. */
#ifndef BASE_CALLS_H
#define BASE_CALLS_H

#include <hvd/status.h>

/* For libzmq and our own connections. HVD_ERR_SYSTEM names the first call that
 * is refused. */
hvd_status_t calls_check_sockets(void) HVD_MUST_CHECK;

/* Likewise, for driver and agent, which start and watch processes. */
hvd_status_t calls_check_processes(void) HVD_MUST_CHECK;

#endif
