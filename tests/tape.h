/* tests/tape.h - a tape that stands for the state channel of a comm: what a
 * source writes is what a receiver reads, and it can end at any byte. Linked in
 * place of collectives/transfer.c: for one file of a test program. Allocates
 * nothing. */
#ifndef TESTS_TAPE_H
#define TESTS_TAPE_H

#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/comm.h"

static struct {
    uint8_t bytes[4 << 20];
    size_t n_written, n_read;
    size_t end; /* reading beyond it is a loss */
    int n_distrusted;
} tape;

static inline void tape_clear(void)
{
    tape.n_written = tape.n_read = tape.end = 0;
    tape.n_distrusted = 0;
}

hvd_status_t comm_transfer_send(struct comm *comm, int peer, const void *buf,
                                size_t nbytes)
{
    (void)comm, (void)peer;
    HVD_ASSERT(tape.n_written + nbytes <= sizeof(tape.bytes));
    memcpy(tape.bytes + tape.n_written, buf, nbytes);
    tape.n_written += nbytes;
    tape.end = tape.n_written;
    return HVD_OK;
}

hvd_status_t comm_transfer_recv(struct comm *comm, int peer, void *buf,
                                size_t nbytes)
{
    (void)comm;
    if (tape.n_read + nbytes > tape.end) {
        /* what came before the loss has been written */
        memcpy(buf, tape.bytes + tape.n_read, tape.end - tape.n_read);
        return error_set(HVD_PEER_LOST, "rank %d is gone", peer);
    }
    memcpy(buf, tape.bytes + tape.n_read, nbytes);
    tape.n_read += nbytes;
    return HVD_OK;
}

hvd_status_t comm_distrust(struct comm *comm, int peer, const char *text)
{
    (void)comm;
    HVD_ASSERT(peer == 0);
    tape.n_distrusted++;
    return error_set(HVD_PEER_LOST, "%s", text);
}

#endif
