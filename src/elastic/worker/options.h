/* elastic/worker/options.h - hvd_options_t of a call becomes a part of its
 * struct collective_args. Threads: any. Memory: the caller's. */
#ifndef ELASTIC_WORKER_OPTIONS_H
#define ELASTIC_WORKER_OPTIONS_H

#include <stdbool.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/comm.h"

/* What says where a call runs, and is no part of its arguments. */
struct route {
    hvd_comm_t *comm; /* HVD_WORLD, or a communicator */
    bool by_name;
};

/* args: the arguments of the call, without options. options NULL: the defaults.
 * grouped: it is a group. HVD_ERR_INVALID names a field that is not
 * initialised, has an unknown value, or is not for this kind of call;
 * HVD_ERR_UNSUPPORTED: a field of a newer release is used. */
hvd_status_t options_adopt(const hvd_options_t *options, bool grouped,
                           struct collective_args *args,
                           struct route *route_p) HVD_MUST_CHECK;

#endif
