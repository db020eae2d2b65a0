/* elastic/wire/shared.c - see shared.h. */
#include "elastic/wire/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

#include "base/error.h"
#include "elastic/wire/seal.h"
#include "elastic/wire/socket.h"

struct wire_shared {
    zmq_msg_t msg; /* copies of it refer to the same bytes */
    uint8_t digest[SEAL_NBYTES];
};

const uint8_t *shared_digest(const struct wire_shared *shared)
{
    return shared->digest;
}

static void free_shared(void *bytes, void *hint)
{
    (void)hint;
    free(bytes);
}

hvd_status_t wire_shared_create(uint8_t *bytes, size_t nbytes,
                                struct wire_shared **shared_p)
{
    struct wire_shared *shared = malloc(sizeof(*shared));

    if (!shared || zmq_msg_init_data(&shared->msg, bytes, nbytes, free_shared,
                                     NULL) != 0) {
        free(shared);
        return error_set(HVD_ERR_NOMEM, "no memory for a message");
    }
    seal_digest(bytes, nbytes, shared->digest);
    *shared_p = shared;
    return HVD_OK;
}

void wire_shared_destroy(struct wire_shared *shared)
{
    if (!shared)
        return;
    zmq_msg_close(&shared->msg);
    free(shared);
}

int shared_send(void *socket, struct wire_shared *shared)
{
    zmq_msg_t copy;
    int rc;

    zmq_msg_init(&copy);
    rc = zmq_msg_copy(&copy, &shared->msg);
    while (rc >= 0 && (rc = zmq_msg_send(&copy, socket, ZMQ_DONTWAIT)) < 0 &&
           errno == EINTR)
        rc = 0;
    if (rc < 0)
        zmq_msg_close(&copy);
    return rc;
}
