/* elastic/worker/sample.h - how far this process is, which each event tells the
 * core. Threads: any, under the lock of control.c, which keeps the comm and the
 * state. */
#ifndef ELASTIC_WORKER_SAMPLE_H
#define ELASTIC_WORKER_SAMPLE_H

#include <stdint.h>

#include "elastic/worker/core.h"

/* Fills in the sampled fields of struct worker_event, but for `waiting`, `gone`
 * and `settings`. */
void worker_sample(struct worker_event *ev, uint64_t now_us);

#endif
