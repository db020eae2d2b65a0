/* elastic/agent/loop.h - the agent's one loop: sockets, pidfds, pipes and
 * signals in, the core's actions out.
 *
 * Threads: the main thread; libzmq has its own. SIGTERM, SIGINT, SIGHUP and
 * SIGCHLD must be blocked before the wire context is created. */
#ifndef ELASTIC_AGENT_LOOP_H
#define ELASTIC_AGENT_LOOP_H

#include <signal.h>

#include <hvd/status.h>

#include "elastic/agent/core.h"
#include "elastic/agent/spawn.h"

struct loop_options {
    struct agent_config config;
    struct spawn_site site; /* lifeline_fd is filled in by the loop */
    struct wire_secrets secrets;
    const char *driver, *output; /* endpoints of the driver's sockets: as many,
                                    with commas, each beside its own */
    const char *network; /* names of interfaces.h, or "*"; NULL: loopback */
    uint16_t port_low, port_high; /* where probes are answered; 0: anywhere */
    int lifeline_fd;              /* the driver's; -1: none */
    const char *notice_script;    /* says whether this host will go; or NULL */
    const char *job_dir; /* where a successor says where it is; NULL: it does
                            not, or none will come (config.survives) */
    const char *far_dir; /* the same of a driver on another machine, which this
                            one may see or not; NULL likewise */
};

/* The signals that the loop takes by signalfd: block them first. SIGHUP is what
 * the kernel is told to send when the driver dies. */
void loop_signals(sigset_t *set);

/* Run until the end. HVD_OK with the exit status in *exit_p. */
hvd_status_t loop_run(const struct loop_options *options,
                      int *exit_p) HVD_MUST_CHECK;

#endif
