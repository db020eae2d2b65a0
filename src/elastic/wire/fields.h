/* elastic/wire/fields.h - plain structs to bytes and back, driven by a table:
 * one row per field. What messages look like is in shapes.h; a table may
 * describe any other struct as well.
 *
 * A record is a msgpack map with small integer keys: the numbers of its fields.
 * A number is never reused; a field added later is optional, so that what an
 * older program wrote stays valid. Unknown keys are skipped; duplicate, missing
 * and out-of-range ones are errors.
 *
 * Threads: none of its own. Memory: none; spans borrow the input. Pure. */
#ifndef ELASTIC_WIRE_FIELDS_H
#define ELASTIC_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/wire/pack.h"

enum field_kind {
    FIELD_UINT,     /* uint8_t .. uint64_t, in lo..hi */
    FIELD_INT,      /* int64_t */
    FIELD_BOOL,     /* bool */
    FIELD_STR,      /* char[size], with its NUL, none inside */
    FIELD_DIGEST,   /* uint8_t[size]; all of them, or absent = zero */
    FIELD_SPAN,     /* struct wire_span of hi bytes at most */
    FIELD_STRINGS,  /* struct wire_strings of lo..hi bytes */
    FIELD_STATE_ID, /* struct state_id */
    FIELD_LIST      /* uint32_t[], used ones counted at count_offset */
};

struct field {
    const char *name;
    uint64_t lo, hi;
    uint32_t offset, size; /* of the member in the record */
    uint32_t count_offset; /* LIST: of its uint32_t count */
    uint8_t key, kind;     /* number on the wire; enum field_kind */
    bool optional;         /* not written when zero or empty */
};

struct shape {
    const char *name; /* "READY"; NULL: there is none */
    const struct field *fields;
    uint32_t n_fields; /* 64 at most */
    /* What a single field cannot say. NULL, or the name of the bad one. */
    const char *(*check)(const void *record);
};

/* Field `member` of `type` with number `number`. */
#define FIELD_OF(type, number, member, kind_, ...)                             \
    {                                                                          \
        .name = #member, .offset = offsetof(type, member),                     \
        .size = sizeof(((type *)0)->member), .key = (number), .kind = (kind_), \
        __VA_ARGS__                                                            \
    }

/* CODEC_OK or an error of codec.h. That there was room is w's to say. */
int fields_encode(struct pack_writer *w, const void *record,
                  const struct shape *shape);

/* The next value, which must be a map; the bytes have passed pack_scan(). The
 * record is zeroed before. *field_p names the offending field, or is "". */
int fields_decode(struct pack_reader *r, void *record,
                  const struct shape *shape, const char **field_p);

#endif
