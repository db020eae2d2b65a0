/* collectives/encryption.h - which connections of a comm are encrypted, and
 * how: all over TCP or none, as config.encrypt says; between two processors
 * that both have instructions for AES with that, else with ChaCha20. How it is
 * done is net/sealed.h's.
 *
 * Threads: whoever drives the comm. Memory: a connection's. */
#ifndef COLLECTIVES_ENCRYPTION_H
#define COLLECTIVES_ENCRYPTION_H

#include "collectives/comm_impl.h"

/* Of the hello to a peer: enum handshake_flag. */
uint8_t encryption_flags(const struct comm *comm, int peer, int channel);

/* A cipher of its hello that this processor has? */
bool encryption_can_read(const struct handshake *hello);

/* The hello is on its way. HVD_ERR_NOMEM. */
hvd_status_t encryption_dialed(struct comm *comm, struct connection *c,
                               const struct handshake *hello) HVD_MUST_CHECK;

/* Take a connection over TCP, and answer it. One whose peer encrypts, and this
 * rank does not, or the reverse, ends the comm; it is answered all the same: by
 * that its dialer knows, too. false: no memory, fd is still the caller's. */
bool encryption_take(struct comm *comm, struct connection *c, int fd,
                     const struct handshake *hello);

/* The reply is authentic; what follows it, and what is said from now on, is
 * under keys of both. HVD_ERR_MISMATCH: the comm's reason. */
hvd_status_t encryption_answered(struct comm *comm, struct connection *c,
                                 const struct handshake *reply) HVD_MUST_CHECK;

#endif
