/* elastic/driver/launch_client.h - what the ways to start agents on other
 * machines share: a client (ssh, srun) as a child of this driver, and the agent
 * at its other end.
 *
 * Who the agent is, and its secrets, go through the client's stdin
 * (wire/handover.h), which then stays open: its end is what ends the agent, as
 * a client that is killed may leave what it has started running. The client has
 * no terminal, so that it neither asks anybody nor gets a Ctrl-C; what it says
 * on stderr is the reason that a person is told.
 *
 * Memory: a client is zeroed, and borrows the words of its command line until
 * launch_client_start() is over. Threads: the driver's main thread. */
#ifndef ELASTIC_DRIVER_LAUNCH_CLIENT_H
#define ELASTIC_DRIVER_LAUNCH_CLIENT_H

#include <limits.h>
#include <stdbool.h>

#include <hvd/status.h>

#include "elastic/driver/launch.h"
#include "elastic/wire/handover.h"

/* The script of the far side. $0 is the agent's path, $1, if there is one, a
 * path of libraries. It starts the agent of the same place as here, or else
 * the one in PATH. It has no quote, backslash or exclamation mark, so that any
 * shell leaves it as it is in single quotes. */
#define LAUNCH_CLIENT_SCRIPT                                               \
    "if [ \"$1\" ]; then "                                                 \
    "export LD_LIBRARY_PATH=\"$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"; " \
    "fi; "                                                                 \
    "if [ -f \"$0\" ] && [ -x \"$0\" ]; then exec \"$0\" --stdin; fi; "    \
    "if command -v hvd-agent >/dev/null 2>&1; "                            \
    "then exec hvd-agent --stdin; fi; "                                    \
    "echo \"no hvd-agent at $0 nor in PATH\" >&2; exit 127"

enum { LAUNCH_CLIENT_WORDS = 64 };

struct launch_client {
    char path[PATH_MAX];  /* of the client */
    char agent[PATH_MAX]; /* of the agent, there as here */
    char notice[PATH_MAX];
    char *argv[LAUNCH_CLIENT_WORDS + 1];
    size_t n;
    char **envp; /* heap; strings are environ's */
    char header[HANDOVER_MAX];
    size_t header_nbytes;
};

/* Sets c->path, that of `program`, and c->agent. HVD_ERR_SYSTEM: it is not in
 * PATH, with the sentence. */
hvd_status_t launch_client_find(struct launch_client *c,
                                const struct launch_config *config,
                                const char *program) HVD_MUST_CHECK;

void launch_client_add(struct launch_client *c, const char *word);

/* Start it, as launch_ops.start: `is_kept` says which NAME=VALUE of our
 * environment it has; NULL: all but ours. */
hvd_status_t launch_client_start(struct launch_client *c,
                                 const struct launch_config *config,
                                 bool (*is_kept)(const char *entry),
                                 struct launched *item) HVD_MUST_CHECK;

/* ---- what it prints on stderr ---- */

/* Read some of it; lines of an agent that is up are logged. True: there may be
 * more. */
bool launch_client_hear(struct launched *item, uint64_t now_us);
/* The client has ended: a bounded rest of it. */
void launch_client_hear_last(struct launched *item);

#endif
