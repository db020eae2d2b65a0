/* collectives/net/sealed.c - see sealed.h. */
#include "collectives/net/sealed.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/mac.h"

enum { RECORD_NBYTES = RECORD_MAX + RECORD_EXTRA_NBYTES };

static void make(struct records *r, enum handshake_stream stream,
                 const struct sealed *s, const struct handshake *reply,
                 const uint8_t *key)
{
    uint8_t made[MAC_NBYTES];

    handshake_key(key, stream, &s->hello, reply, made);
    if (stream == HANDSHAKE_RENEWED)
        records_renew(r, made);
    else
        records_init(r, sealed_cipher(&s->hello), made);
    mac_wipe(made, sizeof(made));
}

static struct sealed *create(const struct handshake *hello)
{
    struct sealed *s = aligned_alloc(64, (sizeof(*s) + 63) / 64 * 64);

    /* what the buffers are is not looked at */
    if (s != NULL) {
        memset(s, 0, offsetof(struct sealed, out_bytes));
        s->hello = *hello;
    }
    return s;
}

struct sealed *sealed_dial(const struct handshake *hello, const uint8_t *key)
{
    struct sealed *s = create(hello);

    if (s != NULL)
        make(&s->out, HANDSHAKE_EARLY, s, NULL, key);
    return s;
}

struct sealed *sealed_take(const struct handshake *hello,
                           const struct handshake *reply, const uint8_t *key)
{
    struct sealed *s = create(hello);

    if (s == NULL)
        return NULL;
    make(&s->in, HANDSHAKE_EARLY, s, NULL, key);
    make(&s->in, HANDSHAKE_RENEWED, s, reply, key);
    make(&s->out, HANDSHAKE_ANSWER, s, reply, key);
    return s;
}

void sealed_answered(struct sealed *s, const struct handshake *reply,
                     const uint8_t *key)
{
    make(&s->in, HANDSHAKE_ANSWER, s, reply, key);
    make(&s->out, HANDSHAKE_RENEWED, s, reply, key);
}

void sealed_destroy(struct sealed *s)
{
    if (s == NULL)
        return;
    records_fini(&s->out);
    records_fini(&s->in);
    free(s);
}

/* --- sending --- */

void sealed_put_clear(struct sealed *s, const uint8_t *bytes, size_t nbytes)
{
    HVD_ASSERT(sealed_idle(s) && nbytes <= sizeof(s->out_bytes));
    memcpy(s->out_bytes, bytes, nbytes);
    s->out_off = 0;
    s->out_n = nbytes;
}

static size_t put(struct records *r, const uint8_t *data, size_t nbytes,
                  uint8_t *out)
{
    records_seal(r, data, nbytes, out);
    return nbytes + RECORD_EXTRA_NBYTES;
}

/* A small frame costs one record, and one look at its peer's. */
static size_t put_together(struct records *r, const uint8_t *head,
                           size_t head_n, const uint8_t *payload,
                           size_t payload_n, uint8_t *out)
{
    uint8_t *clear = out + RECORD_HEAD_NBYTES;

    memcpy(clear, head, head_n);
    memcpy(clear + head_n, payload, payload_n);
    return put(r, clear, head_n + payload_n, out);
}

void sealed_put(struct sealed *s, const uint8_t *head, size_t *head_n_p,
                const uint8_t *payload, size_t *payload_n_p)
{
    if (sealed_idle(s))
        s->out_off = s->out_n = 0;
    s->has_records = true;
    if (*head_n_p > 0 && sizeof(s->out_bytes) - s->out_n >= RECORD_NBYTES) {
        size_t n = *head_n_p + *payload_n_p <= SEALED_SMALL_MAX ? *payload_n_p
                                                                : 0;

        HVD_ASSERT(*head_n_p <= SEALED_SMALL_MAX);
        s->out_n += n > 0 ? put_together(&s->out, head, *head_n_p, payload, n,
                                         s->out_bytes + s->out_n)
                          : put(&s->out, head, *head_n_p,
                                s->out_bytes + s->out_n);
        *head_n_p = 0;
        *payload_n_p -= n;
    }
    while (*head_n_p == 0 && *payload_n_p > 0 &&
           sizeof(s->out_bytes) - s->out_n >= RECORD_NBYTES) {
        size_t n = *payload_n_p < RECORD_MAX ? *payload_n_p : RECORD_MAX;

        s->out_n += put(&s->out, payload, n, s->out_bytes + s->out_n);
        payload += n;
        *payload_n_p -= n;
    }
}

static size_t put_all(struct records *r, const uint8_t *data, size_t nbytes,
                      uint8_t *out)
{
    size_t made = 0, n;

    for (; nbytes > 0; nbytes -= n, data += n) {
        n = nbytes < RECORD_MAX ? nbytes : RECORD_MAX;
        made += put(r, data, n, out + made);
    }
    return made;
}

uint8_t *sealed_rest(struct sealed *s, const struct sealed_rest *rest,
                     size_t *n_p)
{
    size_t n = s->out_n - s->out_off;
    uint8_t *bytes = malloc(n + records_nbytes(rest->head_n) +
                            records_nbytes(rest->payload_n) +
                            records_nbytes(rest->last_n) + 1);

    *n_p = 0;
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, s->out_bytes + s->out_off, n);
    n += put_all(&s->out, rest->head, rest->head_n, bytes + n);
    n += put_all(&s->out, rest->payload, rest->payload_n, bytes + n);
    n += put_all(&s->out, rest->last, rest->last_n, bytes + n);
    s->out_off = s->out_n = 0;
    *n_p = n;
    return bytes;
}

/* --- receiving --- */

/* What is of use to the front, where there is no room for a record behind it.
 */
static void compact(struct sealed *s)
{
    size_t from = s->clear_n > 0 ? s->clear_off : s->in_off;

    if (from == s->in_n)
        s->in_off = s->in_n = 0;
    if (from == 0 || from >= s->in_n ||
        sizeof(s->in_bytes) - s->in_n >= RECORD_NBYTES)
        return;
    memmove(s->in_bytes, s->in_bytes + from, s->in_n - from);
    s->clear_off -= s->clear_n > 0 ? from : 0;
    s->in_off -= from;
    s->in_n -= from;
}

uint8_t *sealed_room(struct sealed *s, size_t *n_p)
{
    compact(s);
    *n_p = sizeof(s->in_bytes) - s->in_n;
    return s->in_bytes + s->in_n;
}

static size_t give(uint8_t **to, size_t *room_p, const uint8_t *from, size_t n)
{
    if (n > *room_p)
        n = *room_p;
    if (n == 0)
        return 0;
    memcpy(*to, from, n);
    *to += n;
    *room_p -= n;
    return n;
}

static size_t hand_over(struct sealed *s, struct sealed_target *t)
{
    const uint8_t *from = s->in_bytes + s->clear_off;
    size_t n = give(&t->dest, &t->dest_n, from, s->clear_n);

    n += give(&t->in, &t->in_n, from + n, s->clear_n - n);
    s->clear_off += n;
    s->clear_n -= n;
    return n;
}

/* The record at in_off, of which there are nbytes inside. */
static bool open_one(struct sealed *s, size_t nbytes, struct sealed_target *t)
{
    uint8_t *record = s->in_bytes + s->in_off;
    bool whole = nbytes <= t->dest_n;

    s->forged = !records_open(&s->in, record,
                              whole ? t->dest : record + RECORD_HEAD_NBYTES);
    if (s->forged)
        return false;
    if (whole) {
        t->dest += nbytes;
        t->dest_n -= nbytes;
    } else {
        s->clear_off = s->in_off + RECORD_HEAD_NBYTES;
        s->clear_n = nbytes;
    }
    s->in_off += nbytes + RECORD_EXTRA_NBYTES;
    return true;
}

bool sealed_get(struct sealed *s, struct sealed_target *t)
{
    bool any = false;

    while (!s->forged && t->dest_n + t->in_n > 0) {
        size_t n = s->in_n - s->in_off, size;

        if (s->clear_n > 0) {
            any |= hand_over(s, t) > 0;
            continue;
        }
        size = records_peek(s->in_bytes + s->in_off, n);
        s->forged = size == SIZE_MAX;
        if (size == 0 || size > n ||
            !open_one(s, size - RECORD_EXTRA_NBYTES, t))
            break;
        any |= s->clear_n == 0;
    }
    s->n_given += any;
    return any;
}
