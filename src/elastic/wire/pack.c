/* elastic/wire/pack.c - see pack.h. The only file that sees msgpack.h.
 *
 * Format: https://github.com/msgpack/msgpack/blob/master/spec.md
 * Threads: none of its own. Memory: none. Pure. */
#include "elastic/wire/pack.h"

#include <msgpack.h>
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"

/* ---- writer ---------------------------------------------------------------
 */

static int append(void *data, const char *bytes, size_t nbytes)
{
    struct pack_writer *w = data;

    if (w->full || nbytes > w->max - w->nbytes) {
        w->full = true;
        return -1;
    }
    if (nbytes > 0)
        memcpy(w->buf + w->nbytes, bytes, nbytes);
    w->nbytes += nbytes;
    return 0;
}

static msgpack_packer packer(struct pack_writer *w)
{
    return (msgpack_packer){.data = w, .callback = append};
}

void pack_nil(struct pack_writer *w)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_nil(&pk);
}

void pack_bool(struct pack_writer *w, bool value)
{
    msgpack_packer pk = packer(w);

    if (value)
        msgpack_pack_true(&pk);
    else
        msgpack_pack_false(&pk);
}

void pack_uint(struct pack_writer *w, uint64_t value)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_uint64(&pk, value);
}

void pack_int(struct pack_writer *w, int64_t value)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_int64(&pk, value);
}

void pack_str(struct pack_writer *w, const char *text, size_t nbytes)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_str(&pk, nbytes);
    append(w, text, nbytes);
}

void pack_bin(struct pack_writer *w, const void *data, size_t nbytes)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_bin(&pk, nbytes);
    append(w, data, nbytes);
}

void pack_array(struct pack_writer *w, size_t count)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_array(&pk, count);
}

void pack_map(struct pack_writer *w, size_t n_pairs)
{
    msgpack_packer pk = packer(w);

    msgpack_pack_map(&pk, n_pairs);
}

/* ---- reader ---------------------------------------------------------------
 */

/* First bytes 0xc0..0xdf: what follows and in how many bytes its value or
 * length is. Type NONE: the byte that msgpack never uses, and extensions. */
static const struct {
    uint8_t type, width;
} forms[32] = {
    [0x00] = {PACK_NIL, 0},   [0x02] = {PACK_BOOL, 0},
    [0x03] = {PACK_BOOL, 0},  [0x04] = {PACK_BIN, 1},
    [0x05] = {PACK_BIN, 2},   [0x06] = {PACK_BIN, 4},
    [0x0a] = {PACK_FLOAT, 4}, [0x0b] = {PACK_FLOAT, 8},
    [0x0c] = {PACK_UINT, 1},  [0x0d] = {PACK_UINT, 2},
    [0x0e] = {PACK_UINT, 4},  [0x0f] = {PACK_UINT, 8},
    [0x10] = {PACK_INT, 1},   [0x11] = {PACK_INT, 2},
    [0x12] = {PACK_INT, 4},   [0x13] = {PACK_INT, 8},
    [0x19] = {PACK_STR, 1},   [0x1a] = {PACK_STR, 2},
    [0x1b] = {PACK_STR, 4},   [0x1c] = {PACK_ARRAY, 2},
    [0x1d] = {PACK_ARRAY, 4}, [0x1e] = {PACK_MAP, 2},
    [0x1f] = {PACK_MAP, 4},
};

static size_t left(const struct pack_reader *r)
{
    return (size_t)(r->end - r->at);
}

static uint64_t big_endian(const uint8_t *p, unsigned width)
{
    uint64_t value = 0;

    while (width-- > 0)
        value = value << 8 | *p++;
    return value;
}

/* msgpack lets a non-negative number be written as a signed one. */
static void set_signed(struct pack_item *item, uint64_t value, unsigned width)
{
    unsigned bits = 8 * width;

    if (value >> (bits - 1) == 0) {
        item->type = PACK_UINT;
        item->value = value;
        return;
    }
    item->type = PACK_INT;
    item->value = bits == 64 ? value : value | UINT64_MAX << bits;
}

/* STR, BIN, ARRAY or MAP whose head has been read. */
static int take_body(struct pack_reader *r, struct pack_item *item,
                     enum pack_type type, uint64_t count)
{
    uint64_t need = type == PACK_MAP ? 2 * count : count;

    if (need > left(r))
        return CODEC_TRUNCATED;
    item->type = type;
    item->count = (uint32_t)count;
    item->data = r->at;
    if (type == PACK_STR || type == PACK_BIN)
        r->at += count;
    return CODEC_OK;
}

static int next_long(struct pack_reader *r, uint8_t first,
                     struct pack_item *item)
{
    enum pack_type type = (enum pack_type)forms[first - 0xc0].type;
    unsigned width = forms[first - 0xc0].width;
    uint64_t value;

    if (type == PACK_NONE)
        return CODEC_FORMAT;
    if (width > left(r))
        return CODEC_TRUNCATED;
    value = big_endian(r->at, width);
    r->at += width;
    if (type >= PACK_STR)
        return take_body(r, item, type, value);
    item->type = type;
    item->value = type == PACK_BOOL ? first & 1u : value;
    if (type == PACK_INT)
        set_signed(item, value, width);
    return CODEC_OK;
}

int pack_next(struct pack_reader *r, struct pack_item *item)
{
    uint8_t first;

    memset(item, 0, sizeof(*item));
    if (r->at == r->end)
        return CODEC_TRUNCATED;
    first = *r->at++;
    if (first < 0x80 || first >= 0xe0) {
        set_signed(item, first, 1);
        return CODEC_OK;
    }
    if (first < 0x90)
        return take_body(r, item, PACK_MAP, first & 15u);
    if (first < 0xa0)
        return take_body(r, item, PACK_ARRAY, first & 15u);
    if (first < 0xc0)
        return take_body(r, item, PACK_STR, first & 31u);
    return next_long(r, first, item);
}

static uint64_t n_children(const struct pack_item *item)
{
    if (item->type == PACK_MAP)
        return 2 * (uint64_t)item->count;
    return item->type == PACK_ARRAY ? item->count : 0;
}

void pack_skip(struct pack_reader *r, const struct pack_item *item)
{
    uint64_t n_left = n_children(item);
    struct pack_item child;

    while (n_left > 0) {
        HVD_ASSERT(pack_next(r, &child) == CODEC_OK);
        n_left += n_children(&child);
        n_left--;
    }
}

int pack_scan(const uint8_t *bytes, size_t nbytes, unsigned depth_max,
              uint32_t n_items_max)
{
    struct pack_reader r = {bytes, bytes + nbytes};
    uint64_t n_left[33] = {1}; /* values still expected at each depth */
    uint64_t n_items = 1;
    unsigned depth = 0;
    struct pack_item item;
    int rc;

    HVD_ASSERT(depth_max < ARRAY_SIZE(n_left));
    for (;;) {
        while (depth > 0 && n_left[depth] == 0)
            depth--;
        if (n_left[depth] == 0)
            return r.at == r.end ? CODEC_OK : CODEC_FORMAT;
        rc = pack_next(&r, &item);
        if (rc != CODEC_OK)
            return rc;
        n_left[depth]--;
        n_items += n_children(&item);
        if (n_items > n_items_max)
            return CODEC_LIMIT;
        if (n_children(&item) > 0) {
            if (depth == depth_max)
                return CODEC_LIMIT;
            n_left[++depth] = n_children(&item);
        }
    }
}
