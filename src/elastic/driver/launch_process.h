/* elastic/driver/launch_process.h - what the ways to start an agent share: a
 * child process of the driver, and where this machine's agent lies.
 *
 * Threads: the driver's main thread (PDEATHSIG follows it). */
#ifndef ELASTIC_DRIVER_LAUNCH_PROCESS_H
#define ELASTIC_DRIVER_LAUNCH_PROCESS_H

#include <stdbool.h>

#include <hvd/status.h>

#include "elastic/driver/launch.h"
#include "elastic/wire/socket.h"

/* All that the child is; borrowed until it runs. */
struct launch_image {
    const char *path;
    char **argv, **envp;
    int stdin_fd;  /* -1: /dev/null */
    int stderr_fd; /* -1: ours, as stdout is; else that becomes /dev/null */
    int kept[2];   /* stay open under their numbers; -1: none */
    bool apart;    /* in a session of its own, not only a group: it has no
                      terminal to ask somebody at */
    bool outlives; /* the driver, as its agent does */
};

/* The child dies with this thread, unless it outlives it. pid, pidfd and
 * report_fd of *item are set. Does not wait until it runs. HVD_ERR_SYSTEM with
 * the sentence: there is none. */
hvd_status_t launch_process(const struct launch_image *image,
                            struct launched *item) HVD_MUST_CHECK;

/* path [PATH_MAX]: installed beside the driver, or where the build tree has
 * it. */
hvd_status_t launch_find_agent(char *path) HVD_MUST_CHECK;

/* path [PATH_MAX]: the first of `relative` [n] to the directory of hvd-elastic
 * that is there and can be executed. False: there is none. */
bool launch_find_beside(const char *const *relative, size_t n,
                        char *path) HVD_MUST_CHECK;

/* path [PATH_MAX]: that of a program in PATH. False: there is none. */
bool launch_find_program(const char *name, char *path) HVD_MUST_CHECK;

/* Find the agent, and the client of `ops`. */
void launch_paths_find(struct launch_paths *paths,
                       const struct launch_ops *ops);

/* What an agent is handed, to say who it is. */
void launch_secrets(const struct launch_config *config, uint64_t agent,
                    struct wire_secrets *secrets);

const char *launch_level_name(enum log_level level);

#endif
