/* base/command.h - run somebody's program as a child with a deadline, and read
 * what it says, without ever blocking the caller.
 *
 * It runs in its own process group with stdin /dev/null, stdout and stderr a
 * pipe, PDEATHSIG KILL; lines of stderr are logged behind the option's name. At
 * its deadline the whole group is killed and reaped. Output above 4 MiB is an
 * error. One run at a time; one that does not end when it is killed (it waits
 * in the kernel, for a file system that does not answer) is left behind for a
 * new one, and reaped when it ends.
 *
 * Threads: the main thread (PDEATHSIG follows it). Owns a pidfd, a pipe and an
 * epoll fd: all closed when a run ends and in command_fini. The pipe of stderr
 * is kept until then, as processes that a run leaves behind may write to it. */
#ifndef BASE_COMMAND_H
#define BASE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hvd/status.h>

#include "base/words.h"

enum { COMMAND_STUCK_MAX = 8 };

struct command {
    const char *who; /* borrowed, as is the path: its option, for sentences */
    const char *path;
    uint64_t timeout_us;
    uint64_t death_us; /* a killed run may take so long to end (5 s) */
    int epoll_fd; /* readable: command_step() has something to do; -1: none */
    int pidfd, out_fd;
    int words_fds[2]; /* stderr */
    struct words words;
    int error_fd; /* a struct program_failure comes here */
    pid_t pid;
    uint64_t deadline_us; /* command_step() is due; never while none runs */
    bool running, eof, exited;
    bool killed, too_long; /* why it was killed */
    int wait_status;
    pid_t stuck[COMMAND_STUCK_MAX]; /* [n_stuck] runs that were left behind */
    size_t n_stuck;
    char *output; /* [n_output], of the newest run */
    size_t n_output, output_max;
};

/* Checks that path exists, is a regular file and executable: HVD_ERR_INVALID
 * with the sentence. Starts nothing. */
hvd_status_t command_init(struct command *c, const char *who, const char *path,
                          uint64_t timeout_us) HVD_MUST_CHECK;
/* Kills and reaps a running one, or leaves it behind after a second. */
void command_fini(struct command *c);

/* HVD_ERR_SYSTEM with the sentence: no process, or COMMAND_STUCK_MAX of them
 * that cannot be killed. */
hvd_status_t command_start(struct command *c, uint64_t now_us) HVD_MUST_CHECK;

enum command_result {
    COMMAND_RUNNING,
    COMMAND_DONE,  /* exit status 0: output is all it has said */
    COMMAND_FAILED /* error_text(): exit status, signal, deadline, or that it
                      was left behind */
};

/* Read what is there, reap, judge the deadline. Call when epoll_fd is readable
 * and at deadline_us. */
enum command_result command_step(struct command *c, uint64_t now_us);

#endif
