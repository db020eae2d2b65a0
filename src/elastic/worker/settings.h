/* elastic/worker/settings.h - variables of the environment that must be equal
 * on all ranks: HVD_ALGORITHM, HVD_FUSION_THRESHOLD, HVD_CACHE_CAPACITY and
 * HVD_VERIFY_STATE (knobs.h). Ranks that differ in them would wait for each
 * other for ever, or end as ranks that disagree. The driver gives all workers
 * the same values, but a script that starts the program may change them on one
 * host.
 *
 * So each worker reports its own values in READY, and uses those of rank 0 from
 * ASSIGN on. It reports these from then on, so a later rank 0 has them too.
 *
 * Threads: app. */
#ifndef ELASTIC_WORKER_SETTINGS_H
#define ELASTIC_WORKER_SETTINGS_H

#include <stdint.h>

#include <hvd/status.h>

#include "base/verify_rule.h"
#include "collectives/comm.h"
#include "elastic/wire/message.h"

struct settings {
    struct algorithm_override algorithms;
    uint64_t fusion_nbytes, names_known; /* as struct comm_config has them */
    struct verify_rule verify;
    char text[WIRE_SETTINGS_MAX]; /* what is set: "NAME=value\n" each */
};

/* The environment's. HVD_ERR_INVALID names the variable and what it may be;
 * nothing is changed then. */
hvd_status_t settings_read(struct settings *settings) HVD_MUST_CHECK;

/* Those of rank 0, as its text has them, each that differs with a warning.
 * HVD_ERR_MISMATCH: one of them is nothing here, and nothing is changed. */
hvd_status_t settings_take(struct settings *settings,
                           const char *text) HVD_MUST_CHECK;

#endif
