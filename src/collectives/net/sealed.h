/* collectives/net/sealed.h - what a connection has more if everything behind
 * its handshake is encrypted: the records of both directions, and the
 * ciphertext that is under way.
 *
 * Each key serves one direction of one connection (handshake_key()). The dialer
 * streams behind its hello, so its first key is made of that alone: who holds
 * hello and stream back may deliver them later, and once. With the listener's
 * answer it goes over to a key that is made of both nonces; so are the
 * listener's records from the first.
 *
 * What is queued is encrypted into a buffer: payloads are free from then on.
 * What arrives is read into another one, and opened straight to where it
 * belongs if a whole record does.
 *
 * No I/O. Threads: whoever drives the connection. Memory: one allocation. */
#ifndef COLLECTIVES_NET_SEALED_H
#define COLLECTIVES_NET_SEALED_H

#include "collectives/net/handshake.h"
#include "collectives/net/records.h"

enum {
    SEALED_SMALL_MAX = 4 << 10, /* headers and payload in one record */
    SEALED_OUT_MAX = 3 * (RECORD_MAX + RECORD_EXTRA_NBYTES),
    SEALED_IN_MAX = 4 * (RECORD_MAX + RECORD_EXTRA_NBYTES)
};

struct sealed {
    struct records out, in;
    struct handshake hello;
    bool forged;      /* a record did not open: nothing more comes */
    uint64_t n_given; /* grows with what is opened */

    /* to be sent: [out_off, out_n), a handshake until has_records */
    size_t out_off, out_n;
    bool has_records;
    /* arrived: [in_off, in_n); opened, and not taken: [clear_off, + clear_n) */
    size_t in_off, in_n, clear_off, clear_n;
    uint8_t out_bytes[SEALED_OUT_MAX];
    uint8_t in_bytes[SEALED_IN_MAX];
};

/* Which cipher a handshake with HANDSHAKE_SEALED has chosen. */
static inline enum aead_cipher sealed_cipher(const struct handshake *h)
{
    return h->flags & HANDSHAKE_AES ? AEAD_AES256_GCM : AEAD_CHACHA20_POLY1305;
}

/* The dialer's, with the hello it sends, or the listener's, who has both. key
 * [MAC_KEY_NBYTES]: the generation's. NULL: out of memory. */
struct sealed *sealed_dial(const struct handshake *hello, const uint8_t *key);
struct sealed *sealed_take(const struct handshake *hello,
                           const struct handshake *reply, const uint8_t *key);
/* The dialer has the reply. */
void sealed_answered(struct sealed *s, const struct handshake *reply,
                     const uint8_t *key);
/* Wipes the keys. NULL is fine. */
void sealed_destroy(struct sealed *s);

/* --- sending --- */

/* What goes out as it is, before any record: a handshake. */
void sealed_put_clear(struct sealed *s, const uint8_t *bytes, size_t nbytes);

/* Seal as much as there is room for: of head [*head_n_p] first, then of payload
 * [*payload_n_p]. The numbers are what is left. */
void sealed_put(struct sealed *s, const uint8_t *head, size_t *head_n_p,
                const uint8_t *payload, size_t *payload_n_p);

static inline bool sealed_idle(const struct sealed *s)
{
    return s->out_off == s->out_n;
}

/* Some of what was put is still to be sent. */
static inline bool sealed_owes(const struct sealed *s)
{
    return s->has_records && !sealed_idle(s);
}

/* All that is to be sent, and last words [last_n] behind it: on the heap,
 * *n_p bytes. NULL: no memory. */
struct sealed_rest {
    const uint8_t *head, *payload, *last;
    size_t head_n, payload_n, last_n;
};
uint8_t *sealed_rest(struct sealed *s, const struct sealed_rest *rest,
                     size_t *n_p);

/* --- receiving --- */

/* Where the next bytes go: *n_p of them at most, 0: nothing more fits. */
uint8_t *sealed_room(struct sealed *s, size_t *n_p);
static inline void sealed_arrived(struct sealed *s, size_t n)
{
    s->in_n += n;
}

/* Where what is opened goes: to dest first, then to in. What has been filled is
 * taken off. */
struct sealed_target {
    uint8_t *dest, *in;
    size_t dest_n, in_n;
};

/* Whether anything was put there. false with s->forged: what came is not what
 * was sent. */
bool sealed_get(struct sealed *s, struct sealed_target *t);

/* Forget what has arrived. */
static inline void sealed_skip(struct sealed *s)
{
    s->in_off = s->in_n = s->clear_n = 0;
}

#endif
