/* elastic/wire/fields.c - records to bytes and back. See fields.h.
 *
 * Threads: none of its own. Memory: none; spans point into the input. Pure. */
#include "elastic/wire/fields.h"

#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"

enum { FIELDS_MAX = 64 };

static const void *member(const void *record, const struct field *f)
{
    return (const uint8_t *)record + f->offset;
}

static uint64_t load_uint(const void *p, uint32_t size)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    switch (size) {
    case 1:
        memcpy(&u8, p, sizeof(u8));
        return u8;
    case 2:
        memcpy(&u16, p, sizeof(u16));
        return u16;
    case 4:
        memcpy(&u32, p, sizeof(u32));
        return u32;
    default:
        HVD_ASSERT(size == 8);
        memcpy(&u64, p, sizeof(u64));
        return u64;
    }
}

static void store_uint(void *p, uint32_t size, uint64_t value)
{
    uint8_t u8 = (uint8_t)value;
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;

    switch (size) {
    case 1:
        memcpy(p, &u8, sizeof(u8));
        break;
    case 2:
        memcpy(p, &u16, sizeof(u16));
        break;
    case 4:
        memcpy(p, &u32, sizeof(u32));
        break;
    default:
        HVD_ASSERT(size == 8);
        memcpy(p, &value, sizeof(value));
    }
}

static bool in_range(const struct field *f, uint64_t value)
{
    if (f->size < 8 && value >> (8 * f->size) != 0)
        return false;
    return value >= f->lo && value <= f->hi;
}

/* Strings come packed, each with its NUL. */
static bool strings_are_whole(const char *data, uint32_t nbytes)
{
    return nbytes == 0 || data[nbytes - 1] == '\0';
}

static bool all_zero(const void *p, size_t nbytes)
{
    const uint8_t *bytes = p;

    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* ---- encode ---------------------------------------------------------------
 */

static uint32_t list_count(const void *record, const struct field *f)
{
    uint32_t n;

    memcpy(&n, (const uint8_t *)record + f->count_offset, sizeof(n));
    return n;
}

/* Whether an optional field has nothing to say. */
static bool is_empty(const void *record, const struct field *f)
{
    const void *p = member(record, f);
    struct wire_span span;
    struct wire_strings strings;

    switch ((enum field_kind)f->kind) {
    case FIELD_STR:
        return *(const char *)p == '\0';
    case FIELD_SPAN:
        memcpy(&span, p, sizeof(span));
        return span.nbytes == 0;
    case FIELD_STRINGS:
        memcpy(&strings, p, sizeof(strings));
        return strings.nbytes == 0;
    case FIELD_LIST:
        return list_count(record, f) == 0;
    default:
        return all_zero(p, f->size);
    }
}

static int encode_str(struct pack_writer *w, const struct field *f,
                      const char *text)
{
    size_t nbytes = strnlen(text, f->size);

    if (nbytes == f->size)
        return CODEC_RANGE;
    pack_str(w, text, nbytes);
    return CODEC_OK;
}

static int encode_span(struct pack_writer *w, const struct field *f,
                       const void *p)
{
    struct wire_span span;

    memcpy(&span, p, sizeof(span));
    if (span.nbytes > f->hi)
        return CODEC_RANGE;
    pack_bin(w, span.data, span.nbytes);
    return CODEC_OK;
}

static int encode_strings(struct pack_writer *w, const struct field *f,
                          const void *p)
{
    struct wire_strings strings;

    memcpy(&strings, p, sizeof(strings));
    if (strings.nbytes < f->lo || strings.nbytes > f->hi ||
        !strings_are_whole(strings.data, strings.nbytes))
        return CODEC_RANGE;
    pack_bin(w, strings.data, strings.nbytes);
    return CODEC_OK;
}

static int encode_list(struct pack_writer *w, const void *record,
                       const struct field *f)
{
    const uint8_t *items = member(record, f);
    uint32_t n = list_count(record, f);

    if (n > f->size / sizeof(uint32_t))
        return CODEC_RANGE;
    pack_array(w, n);
    for (uint32_t i = 0; i < n; i++)
        pack_uint(w, load_uint(items + i * sizeof(uint32_t), 4));
    return CODEC_OK;
}

static int encode_field(struct pack_writer *w, const void *record,
                        const struct field *f)
{
    const void *p = member(record, f);
    struct state_id id;

    pack_uint(w, f->key);
    switch ((enum field_kind)f->kind) {
    case FIELD_UINT:
        if (!in_range(f, load_uint(p, f->size)))
            return CODEC_RANGE;
        pack_uint(w, load_uint(p, f->size));
        return CODEC_OK;
    case FIELD_INT:
        pack_int(w, (int64_t)load_uint(p, f->size));
        return CODEC_OK;
    case FIELD_BOOL:
        pack_bool(w, *(const bool *)p);
        return CODEC_OK;
    case FIELD_STR:
        return encode_str(w, f, p);
    case FIELD_DIGEST:
        pack_bin(w, p, f->size);
        return CODEC_OK;
    case FIELD_SPAN:
        return encode_span(w, f, p);
    case FIELD_STRINGS:
        return encode_strings(w, f, p);
    case FIELD_STATE_ID:
        memcpy(&id, p, sizeof(id));
        pack_array(w, 2);
        pack_uint(w, id.generation);
        pack_uint(w, id.version);
        return CODEC_OK;
    case FIELD_LIST:
        return encode_list(w, record, f);
    }
    return CODEC_TYPE;
}

int fields_encode(struct pack_writer *w, const void *record,
                  const struct shape *shape)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < shape->n_fields; i++)
        n += !shape->fields[i].optional || !is_empty(record, &shape->fields[i]);
    pack_map(w, n);
    for (uint32_t i = 0; i < shape->n_fields; i++) {
        const struct field *f = &shape->fields[i];
        int rc;

        if (f->optional && is_empty(record, f))
            continue;
        rc = encode_field(w, record, f);
        if (rc != CODEC_OK)
            return rc;
    }
    return CODEC_OK;
}

/* ---- decode: the bytes have passed pack_scan -------------------------------
 */

static int decode_str(const struct pack_item *item, const struct field *f,
                      char *text)
{
    if (item->type != PACK_STR)
        return CODEC_TYPE;
    if (item->count >= f->size || memchr(item->data, 0, item->count))
        return CODEC_RANGE;
    memcpy(text, item->data, item->count); /* the rest is zero already */
    return CODEC_OK;
}

static int decode_digest(const struct pack_item *item, const struct field *f,
                         void *p)
{
    if (item->type != PACK_BIN)
        return CODEC_TYPE;
    if (item->count != f->size)
        return CODEC_RANGE;
    memcpy(p, item->data, item->count);
    return CODEC_OK;
}

static int decode_span(const struct pack_item *item, const struct field *f,
                       void *p)
{
    struct wire_span span = {item->data, item->count};

    if (item->type != PACK_BIN)
        return CODEC_TYPE;
    if (item->count > f->hi)
        return CODEC_RANGE;
    memcpy(p, &span, sizeof(span));
    return CODEC_OK;
}

static int decode_strings(const struct pack_item *item, const struct field *f,
                          void *p)
{
    struct wire_strings strings = {(const char *)item->data, item->count};

    if (item->type != PACK_BIN)
        return CODEC_TYPE;
    if (strings.nbytes < f->lo || strings.nbytes > f->hi ||
        !strings_are_whole(strings.data, strings.nbytes))
        return CODEC_RANGE;
    memcpy(p, &strings, sizeof(strings));
    return CODEC_OK;
}

static int decode_state_id(struct pack_reader *r, const struct pack_item *item,
                           void *p)
{
    struct pack_item generation, version;
    struct state_id id;

    if (item->type != PACK_ARRAY)
        return CODEC_TYPE;
    if (item->count != 2)
        return CODEC_RANGE;
    HVD_ASSERT(pack_next(r, &generation) == CODEC_OK);
    if (generation.type != PACK_UINT)
        return CODEC_TYPE;
    HVD_ASSERT(pack_next(r, &version) == CODEC_OK);
    if (version.type != PACK_UINT)
        return CODEC_TYPE;
    id = (struct state_id){generation.value, version.value};
    memcpy(p, &id, sizeof(id));
    return CODEC_OK;
}

static int decode_list(struct pack_reader *r, const struct pack_item *item,
                       void *record, const struct field *f)
{
    uint8_t *items = (uint8_t *)record + f->offset;
    struct pack_item child;

    if (item->type != PACK_ARRAY)
        return CODEC_TYPE;
    if (item->count > f->size / sizeof(uint32_t))
        return CODEC_RANGE;
    for (uint32_t i = 0; i < item->count; i++) {
        HVD_ASSERT(pack_next(r, &child) == CODEC_OK);
        if (child.type != PACK_UINT)
            return CODEC_TYPE;
        if (child.value > UINT32_MAX)
            return CODEC_RANGE;
        store_uint(items + i * sizeof(uint32_t), 4, child.value);
    }
    memcpy((uint8_t *)record + f->count_offset, &item->count,
           sizeof(item->count));
    return CODEC_OK;
}

static int decode_number(const struct pack_item *item, const struct field *f,
                         void *p)
{
    if (f->kind == FIELD_BOOL) {
        if (item->type != PACK_BOOL)
            return CODEC_TYPE;
    } else if (f->kind == FIELD_INT) {
        if (item->type != PACK_UINT && item->type != PACK_INT)
            return CODEC_TYPE;
        if (item->type == PACK_UINT && item->value > INT64_MAX)
            return CODEC_RANGE;
    } else {
        if (item->type != PACK_UINT)
            return CODEC_TYPE;
        if (!in_range(f, item->value))
            return CODEC_RANGE;
    }
    store_uint(p, f->size, item->value);
    return CODEC_OK;
}

static int decode_field(struct pack_reader *r, void *record,
                        const struct field *f)
{
    void *p = (uint8_t *)record + f->offset;
    struct pack_item item;

    HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
    switch ((enum field_kind)f->kind) {
    case FIELD_UINT:
    case FIELD_INT:
    case FIELD_BOOL:
        return decode_number(&item, f, p);
    case FIELD_STR:
        return decode_str(&item, f, p);
    case FIELD_DIGEST:
        return decode_digest(&item, f, p);
    case FIELD_SPAN:
        return decode_span(&item, f, p);
    case FIELD_STRINGS:
        return decode_strings(&item, f, p);
    case FIELD_STATE_ID:
        return decode_state_id(r, &item, p);
    case FIELD_LIST:
        return decode_list(r, &item, record, f);
    }
    return CODEC_TYPE;
}

/* Index of the field with this number; n_fields if there is none. */
static uint32_t find_field(const struct shape *shape, uint64_t key)
{
    uint32_t i = 0;

    while (i < shape->n_fields && shape->fields[i].key != key)
        i++;
    return i;
}

/* Name the first required field that `seen` lacks. */
static int check_missing(const struct shape *shape, uint64_t seen,
                         const char **field_p)
{
    for (uint32_t i = 0; i < shape->n_fields; i++) {
        if (shape->fields[i].optional || (seen >> i & 1))
            continue;
        *field_p = shape->fields[i].name;
        return CODEC_MISSING;
    }
    return CODEC_OK;
}

static int decode_pair(struct pack_reader *r, void *record,
                       const struct shape *shape, uint64_t *seen,
                       const char **field_p)
{
    struct pack_item item;
    uint32_t i;

    HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
    if (item.type != PACK_UINT)
        return CODEC_TYPE;
    i = find_field(shape, item.value);
    if (i == shape->n_fields) { /* a newer peer's */
        HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
        pack_skip(r, &item);
        return CODEC_OK;
    }
    *field_p = shape->fields[i].name;
    if (*seen >> i & 1)
        return CODEC_DUPLICATE;
    *seen |= UINT64_C(1) << i;
    return decode_field(r, record, &shape->fields[i]);
}

int fields_decode(struct pack_reader *r, void *record,
                  const struct shape *shape, const char **field_p)
{
    struct pack_item item;
    uint64_t seen = 0;
    int rc;

    HVD_ASSERT(shape->n_fields <= FIELDS_MAX);
    HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
    if (item.type != PACK_MAP)
        return CODEC_TYPE;
    for (uint32_t i = 0; i < item.count; i++) {
        rc = decode_pair(r, record, shape, &seen, field_p);
        if (rc != CODEC_OK)
            return rc;
        *field_p = "";
    }
    return check_missing(shape, seen, field_p);
}
