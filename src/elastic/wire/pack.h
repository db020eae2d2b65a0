/* elastic/wire/pack.h - msgpack values in a bounded buffer: a writer that
 * cannot overrun and a reader that cannot be lied to. What the values mean is
 * the business of codec.c and table.c.
 *
 * The reader is ours because msgpack-c's allocates what a header claims (five
 * bytes ask for 16 GB) before it looks whether the bytes are there. It takes
 * nothing on trust: a string must lie inside the input, and a container must
 * have at least one byte left per child. Extension types are refused: we use
 * none.
 *
 * Memory: none of its own; strings borrow the input. Pure. */
#ifndef ELASTIC_WIRE_PACK_H
#define ELASTIC_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writer: sticky error, so only the end needs a check ------------------
 */

struct pack_writer {
    uint8_t *buf; /* [max] bytes, borrowed */
    size_t max;
    size_t nbytes;
    bool full; /* something did not fit; nbytes is meaningless */
};

void pack_nil(struct pack_writer *w);
void pack_bool(struct pack_writer *w, bool value);
void pack_uint(struct pack_writer *w, uint64_t value);
void pack_int(struct pack_writer *w, int64_t value);
void pack_str(struct pack_writer *w, const char *text, size_t nbytes);
void pack_bin(struct pack_writer *w, const void *data, size_t nbytes);
void pack_array(struct pack_writer *w, size_t count);
void pack_map(struct pack_writer *w, size_t n_pairs);

/* ---- reader ---------------------------------------------------------------
 */

enum pack_type {
    PACK_NONE = 0,
    PACK_NIL,
    PACK_BOOL,
    PACK_UINT,
    PACK_INT, /* negative */
    PACK_FLOAT,
    PACK_STR,
    PACK_BIN,
    PACK_ARRAY,
    PACK_MAP
};

struct pack_item {
    enum pack_type type;
    uint64_t value; /* BOOL, UINT; INT: two's complement */
    uint32_t count; /* STR, BIN: bytes; ARRAY: values; MAP: pairs */
    const uint8_t *data;
};

struct pack_reader {
    const uint8_t *at, *end;
};

/* The next value; of a container only its head, its children follow. CODEC_OK,
 * CODEC_FORMAT or CODEC_TRUNCATED (codec.h). */
int pack_next(struct pack_reader *r, struct pack_item *item);

/* Step over the children of `item`, the last one that pack_next returned; the
 * bytes have passed pack_scan. */
void pack_skip(struct pack_reader *r, const struct pack_item *item);

/* bytes [nbytes] are exactly one value, containers nested at most depth_max
 * deep (32 at most) and n_items_max values in all. Linear, no recursion.
 * CODEC_OK, or CODEC_FORMAT, CODEC_TRUNCATED, CODEC_LIMIT. */
int pack_scan(const uint8_t *bytes, size_t nbytes, unsigned depth_max,
              uint32_t n_items_max);

#endif
