/* collectives/transfer.c - state from one rank to another, on a connection of
 * its own: an operation of one step for the same engine. See comm.h.
 *
 * Threads: the issuing thread. Memory: the caller's buffers. */
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/progress.h"

static hvd_status_t run(struct comm *comm, int peer, const void *src, void *dst,
                        size_t nbytes)
{
    struct operation *op = &comm->op;
    struct schedule_step *step = &comm->steps[0];
    struct connection *c;

    if (comm_status(comm, NULL) != HVD_OK)
        return comm_end(comm);
    *step = (struct schedule_step){
        .send_peer = dst == NULL ? peer : -1,
        .recv_peer = dst == NULL ? -1 : peer,
        .send_after = SCHEDULE_FREE,
        .send_nbytes = nbytes,
        .recv_nbytes = nbytes,
    };
    *op = (struct operation){
        .head = {.kind = CALL_TRANSFER, .count = nbytes},
        .elem_nbytes = 1,
        .n_phases = 1,
        .phases[0] = {.ops = &stream_phase,
                      .src = src,
                      .dst = dst,
                      .channel = CHANNEL_TRANSFER,
                      .steps = step,
                      .n_steps = 1},
    };
    HVD_TRY(engine_run(comm));
    c = comm_link(comm, CHANNEL_TRANSFER, peer);
    c->n_sent += dst == NULL;
    c->n_received += dst != NULL;
    return HVD_OK;
}

static hvd_status_t transfer(struct comm *comm, int peer, const void *src,
                             void *dst, size_t nbytes)
{
    hvd_status_t status;

    if (peer < 0 || peer >= comm->config.size || peer == comm->config.rank)
        return error_set(HVD_ERR_INVALID, "transfer with rank %d", peer);
    if (nbytes > 0 && src == NULL && dst == NULL)
        return error_set(HVD_ERR_INVALID, "transfer: buf is NULL");
    progress_take(comm);
    progress_run(comm);
    status = run(comm, peer, src, dst, nbytes);
    progress_give(comm);
    return status;
}

hvd_status_t comm_transfer_send(struct comm *comm, int peer, const void *buf,
                                size_t nbytes)
{
    return transfer(comm, peer, buf, NULL, nbytes);
}

hvd_status_t comm_transfer_recv(struct comm *comm, int peer, void *buf,
                                size_t nbytes)
{
    static uint8_t none[1]; /* a target for 0 bytes: NULL means sending */

    if (buf == NULL && nbytes > 0)
        return error_set(HVD_ERR_INVALID, "transfer: buf is NULL");
    return transfer(comm, peer, NULL, buf == NULL ? none : buf, nbytes);
}

hvd_status_t comm_distrust(struct comm *comm, int peer, const char *text)
{
    hvd_status_t status;

    progress_take(comm);
    comm_accuse(comm, peer, true);
    comm_accuse(comm, comm->config.rank, true);
    (void)comm_fail(comm, HVD_PEER_LOST, "%s", text);
    status = comm_end(comm);
    progress_give(comm);
    return status;
}
