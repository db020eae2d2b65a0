/* elastic/worker/settings.h - what the environment says that has to be equal on
 * all ranks, or they would wait for each other for ever, or end as ranks that
 * disagree: HVD_ALGORITHM, HVD_FUSION_THRESHOLD and HVD_CACHE_CAPACITY
 * (knobs.h). The driver hands the same to all, but what starts the program may
 * set others on one host.
 *
 * So each worker tells its own with READY, and takes on rank 0's with ASSIGN.
 * From then on it tells those: whoever is rank 0 later has them too.
 *
 * Threads: app. */
#ifndef ELASTIC_WORKER_SETTINGS_H
#define ELASTIC_WORKER_SETTINGS_H

#include <stdint.h>

#include <hvd/status.h>

#include "collectives/comm.h"
#include "elastic/wire/message.h"

struct settings {
    struct algorithm_override algorithms;
    uint64_t fusion_nbytes, names_known; /* as struct comm_config has them */
    char text[WIRE_SETTINGS_MAX];        /* what is set: "NAME=value\n" each */
};

/* The environment's. HVD_ERR_INVALID names the variable and what it may be;
 * nothing is changed then. */
hvd_status_t settings_read(struct settings *settings) HVD_MUST_CHECK;

/* Those of rank 0, as its text has them, each that differs with a warning.
 * HVD_ERR_MISMATCH: one of them is nothing here, and nothing is changed. */
hvd_status_t settings_take(struct settings *settings,
                           const char *text) HVD_MUST_CHECK;

#endif
