/* collectives/encryption.c - see encryption.h. */
#include "collectives/encryption.h"

uint8_t encryption_flags(const struct comm *comm, int peer, int channel)
{
    uint8_t both = comm->peers[peer].abilities &
                   comm->peers[comm->config.rank].abilities;

    if (!comm->config.encrypt || channel == CHANNEL_LOCAL)
        return 0;
    return both & COMM_CAN_AES && aead_has_aes()
               ? HANDSHAKE_SEALED | HANDSHAKE_AES
               : HANDSHAKE_SEALED;
}

bool encryption_can_read(const struct handshake *hello)
{
    return !(hello->flags & HANDSHAKE_AES) || aead_has_aes();
}

static bool is_sealed(const struct handshake *h)
{
    return h->flags & HANDSHAKE_SEALED;
}

static hvd_status_t differs(struct comm *comm, int peer)
{
    int rank = comm->config.rank;

    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d encrypts its data connections, rank %d does not: "
                     "they were told different options",
                     comm->config.encrypt ? rank : peer,
                     comm->config.encrypt ? peer : rank);
}

hvd_status_t encryption_dialed(struct comm *comm, struct connection *c,
                               const struct handshake *hello)
{
    struct sealed *sealed;

    if (!is_sealed(hello))
        return HVD_OK;
    sealed = sealed_dial(hello, comm->config.key);
    if (sealed == NULL)
        return error_set(HVD_ERR_NOMEM, "connection to rank %d", c->peer);
    connection_seal(c, sealed);
    return HVD_OK;
}

bool encryption_take(struct comm *comm, struct connection *c, int fd,
                     const struct handshake *hello)
{
    uint8_t bytes[HANDSHAKE_NBYTES];
    struct handshake reply = handshake_reply(hello, comm->config.encrypt,
                                             comm->config.key, bytes);
    bool both = is_sealed(hello) && is_sealed(&reply);
    struct sealed *sealed = NULL;

    if (is_sealed(hello) != comm->config.encrypt)
        (void)differs(comm, c->peer);
    if (both) {
        sealed = sealed_take(hello, &reply, comm->config.key);
        if (sealed == NULL)
            return false;
    }
    connection_take(c, fd, bytes);
    if (sealed != NULL)
        connection_seal(c, sealed);
    return true;
}

hvd_status_t encryption_answered(struct comm *comm, struct connection *c,
                                 const struct handshake *reply)
{
    bool sealed = c->sealed != NULL;

    if (sealed != is_sealed(reply))
        return differs(comm, c->peer);
    if (!sealed)
        return HVD_OK;
    if (reply->flags != c->sealed->hello.flags)
        return links_lost(comm, c, "its handshake is not authentic");
    sealed_answered(c->sealed, reply, comm->config.key);
    return HVD_OK;
}
