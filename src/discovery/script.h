/* discovery/script.h - the discovery script: a command (base/command.h) whose
 * output is a list of hosts.
 *
 * Threads: the driver's loop. */
#ifndef DISCOVERY_SCRIPT_H
#define DISCOVERY_SCRIPT_H

#include "base/command.h"
#include "discovery/hosts.h"

/* As command_init(). */
hvd_status_t script_init(struct command *c, const char *path,
                         uint64_t timeout_us) HVD_MUST_CHECK;

enum script_result {
    SCRIPT_RUNNING,
    SCRIPT_HOSTS,  /* *hosts was replaced */
    SCRIPT_FAILED, /* error_text(): what command_step() says */
    SCRIPT_WRONG   /* as FAILED, but no later run is likely to do better: it
                      cannot be run, it exited with 2 (a mistake in its use; the
                      job of Slurm is over), 126 or 127, or error_text() has the
                      line that is no host */
};

/* command_step(), and what has come of it. HOSTS: skipped [HOSTS_ERROR_MAX]
 * gets a sentence about the lines that are no hosts, or "". */
enum script_result script_step(struct command *c, uint64_t now_us,
                               uint32_t default_slots, struct hosts *hosts,
                               char *skipped);

#endif
