/* collectives/net/records.h - one direction of an encrypted connection, cut
 * into records:
 *
 *    0 length 4, little endian; the highest bit: under a new key
 *    4 ciphertext [length], 1 .. RECORD_MAX
 *      tag 16, over the length too
 *
 * A record's number is its nonce and is not sent: one that is missing, doubled,
 * out of its place or of another connection does not open. After so many
 * records each side makes the next key of the last, so no number comes twice.
 * That one was cut off behind a whole record is not seen here: the frames
 * inside end with a goodbye.
 *
 * No I/O, no time. Threads: whoever drives the connection. Memory: the
 * caller's. */
#ifndef COLLECTIVES_NET_RECORDS_H
#define COLLECTIVES_NET_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/aead.h"

enum {
    RECORD_MAX = 16 << 10, /* larger ones are not faster, and wait longer */
    RECORD_HEAD_NBYTES = 4,
    RECORD_EXTRA_NBYTES = RECORD_HEAD_NBYTES + AEAD_TAG_NBYTES,
    RECORDS_PER_KEY = 1 << 24 /* 256 GiB: far below what either cipher bears */
};

struct records {
    struct aead aead;
    uint8_t key[AEAD_KEY_NBYTES];
    uint8_t new_key[AEAD_KEY_NBYTES];
    bool renews;     /* new_key comes with the next record (out), or may come
                        with any (in) */
    uint64_t number; /* of the next one under this key */
};

/* key [AEAD_KEY_NBYTES], for this direction of this connection alone. */
void records_init(struct records *r, enum aead_cipher cipher,
                  const uint8_t *key);
/* Wipes the keys. */
void records_fini(struct records *r);

/* A key that is better than the first one, once: whoever writes goes over to it
 * with the next record, whoever reads when it comes. */
void records_renew(struct records *r, const uint8_t *key);

/* out [nbytes + RECORD_EXTRA_NBYTES] = a record of data [nbytes], which may be
 * out + RECORD_HEAD_NBYTES, or does not overlap it. */
void records_seal(struct records *r, const void *data, size_t nbytes,
                  uint8_t *out);

/* What n records' bytes take for nbytes in all. */
static inline size_t records_nbytes(size_t nbytes)
{
    return nbytes +
           (nbytes + RECORD_MAX - 1) / RECORD_MAX * RECORD_EXTRA_NBYTES;
}

/* in [n]: how long is the record that begins there, with all? 0: not told yet;
 * SIZE_MAX: that is none. */
size_t records_peek(const uint8_t *in, size_t n);

/* Open the whole record at in: out [its size - RECORD_EXTRA_NBYTES], which may
 * be in + RECORD_HEAD_NBYTES, or does not overlap it. false: it is not the one
 * that was sealed next; no other will open. */
bool records_open(struct records *r, const uint8_t *in, uint8_t *out);

#endif
