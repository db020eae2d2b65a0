/* sockets.h - connections between the ranks of a NCCL of host memory, on this
 * machine. */
#ifndef TESTS_GPU_FAKE_SOCKETS_H
#define TESTS_GPU_FAKE_SOCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POLL_MS = 2 };

int fake_listen(uint16_t *port);
int fake_dial(uint16_t port); /* -1: nobody is there */

struct transfer {
    int fd;
    uint8_t *bytes;
    size_t n;
    bool out;
};

enum outcome { DONE, LEFT, DEAD };

/* All of them, in any order; on one connection in that of the list. */
enum outcome fake_move_all(struct transfer *transfers, int n,
                           atomic_bool *leave);

#endif
