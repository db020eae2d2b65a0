/* tests/collectives/process_rank.h - a rank that is a process of its own, on
 * this host: its endpoint, and its comm once the ports of all are known. */
#ifndef TESTS_COLLECTIVES_PROCESS_RANK_H
#define TESTS_COLLECTIVES_PROCESS_RANK_H

#include "group.h"

static inline hvd_status_t process_rank_listen(int rank,
                                               struct endpoint **endpoint_p)
{
    struct endpoint_config config = {.addresses = "127.0.0.1",
                                     .job = GROUP_JOB,
                                     .worker = 100 + (uint64_t)rank,
                                     .connect_timeout_us = 10000000,
                                     .job_key = GROUP_JOB_KEY};

    return endpoint_create(&config, endpoint_p);
}

/* ports [size], size <= GROUP_MAX */
static inline hvd_status_t process_rank_join(struct endpoint *endpoint,
                                             int rank, int size,
                                             const uint16_t *ports,
                                             enum comm_ordinary ordinary,
                                             struct comm **comm_p)
{
    struct comm_peer peers[GROUP_MAX] = {{0}};
    struct comm_config config = {.endpoint = endpoint,
                                 .job = GROUP_JOB,
                                 .generation = 3,
                                 .rank = rank,
                                 .size = size,
                                 .peers = peers,
                                 .connect_timeout_us = 10000000,
                                 .device_join_us = 5000000,
                                 .ordinary = ordinary};

    for (int i = 0; i < size; i++) {
        peers[i].worker = 100 + (uint64_t)i;
        peers[i].port = ports[i];
        peers[i].abilities = COMM_CAN_ALL;
        strcpy(peers[i].addresses, "127.0.0.1");
    }
    return comm_create(&config, comm_p);
}

#endif
