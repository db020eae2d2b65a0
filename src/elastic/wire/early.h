/* elastic/wire/early.h - what was said before a connection was up: encoded
 * messages in order, a bounded number of bytes.
 *
 * Pure. Memory: one buffer, given back and overwritten when it is empty: it may
 * hold a token. */
#ifndef ELASTIC_WIRE_EARLY_H
#define ELASTIC_WIRE_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct early {
    uint8_t *bytes; /* [max], n of them used: each message after its u32 length
                     */
    size_t n, max;
};

/* Zeroed memory is empty. */
void early_fini(struct early *e);

/* false: there is no room, or no memory. */
bool early_add(struct early *e, const uint8_t *data, uint32_t nbytes);

/* The message at *at_p, which begins at 0 and moves on. false: none. */
bool early_next(const struct early *e, size_t *at_p, const uint8_t **data_p,
                uint32_t *nbytes_p);

/* What lies before `at` has been said. */
void early_drop(struct early *e, size_t at);

#endif
