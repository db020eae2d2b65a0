/* discovery/script.h - run the discovery script as a child with a deadline,
 * without ever blocking the caller.
 *
 * The script runs in its own process group with stdin /dev/null, stdout a pipe,
 * stderr inherited, PDEATHSIG KILL; at its deadline the whole group is killed
 * and reaped. Output above 4 MiB is an error. One run at a time; one that does
 * not end when it is killed (it waits in the kernel, for a file system that
 * does not answer) is left behind for a new one, and reaped when it ends.
 *
 * Threads: the driver's loop. Owns a pidfd, a pipe and an epoll fd: all closed
 * when a run ends and in script_fini. */
#ifndef DISCOVERY_SCRIPT_H
#define DISCOVERY_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hvd/status.h>

#include "discovery/hosts.h"

enum { SCRIPT_STUCK_MAX = 8 };

struct script {
    const char *path; /* borrowed */
    uint64_t timeout_us;
    uint64_t death_us; /* a killed run may take so long to end (5 s) */
    int epoll_fd; /* readable: script_step() has something to do; -1: none */
    int pidfd, out_fd;
    int error_fd; /* errno of a failed exec comes here */
    pid_t pid;
    uint64_t deadline_us;
    bool running, eof, exited;
    bool killed, too_long; /* why it was killed */
    int wait_status;
    pid_t stuck[SCRIPT_STUCK_MAX]; /* [n_stuck] runs that were left behind */
    size_t n_stuck;
    char *output;
    size_t n_output, output_max;
};

/* Checks that path exists, is a regular file and executable: HVD_ERR_INVALID
 * with the sentence. Starts nothing. */
hvd_status_t script_init(struct script *s, const char *path,
                         uint64_t timeout_us) HVD_MUST_CHECK;
/* Kills and reaps a running one, or leaves it behind after a second. */
void script_fini(struct script *s);

/* HVD_ERR_SYSTEM with the sentence: no process, or SCRIPT_STUCK_MAX of them
 * that cannot be killed. */
hvd_status_t script_start(struct script *s, uint64_t now_us) HVD_MUST_CHECK;

enum script_result {
    SCRIPT_RUNNING,
    SCRIPT_HOSTS, /* *hosts was replaced */
    SCRIPT_FAILED /* error_text(): exit status, signal, deadline, line, or
                     that it was left behind */
};

/* Read what is there, reap, judge the deadline. Call when epoll_fd is readable
 * and at deadline_us. */
enum script_result script_step(struct script *s, uint64_t now_us,
                               uint32_t default_slots, struct hosts *hosts);

#endif
