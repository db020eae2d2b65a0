/* elastic/worker/waiting.h - which calls by name of this worker wait for other
 * ranks, for the driver to find out who has not posted them. Threads: control,
 * under its lock. */
#ifndef ELASTIC_WORKER_WAITING_H
#define ELASTIC_WORKER_WAITING_H

#include <stdint.h>

#include "collectives/comm.h"
#include "elastic/wire/message.h"

/* *waiting is filled in, but for the generation, and returned. NULL: there is
 * no comm. */
const struct msg_waiting *
waiting_sample(struct comm *comm, struct msg_waiting *waiting, uint64_t now_us);

#endif
