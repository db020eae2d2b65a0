/* elastic/wire/shapes.h - what each message looks like on the wire: one row per
 * field. The codec and the tests walk these tables; nothing else knows a field
 * number. A number is never reused; a field added later is optional, so that an
 * older peer's message stays valid.
 *
 * Threads, memory: constant tables. Pure. */
#ifndef ELASTIC_WIRE_SHAPES_H
#define ELASTIC_WIRE_SHAPES_H

#include "elastic/wire/message.h"

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
    uint32_t offset, size; /* of the member in struct message */
    uint32_t count_offset; /* LIST: of its uint32_t count */
    uint8_t key, kind;     /* number on the wire; enum field_kind */
    bool optional;         /* not written when zero or empty */
};

struct shape {
    const char *name; /* "READY"; NULL: no such message */
    const struct field *fields;
    uint32_t n_fields; /* 64 at most */
    /* What a single field cannot say. NULL, or the name of the bad one. */
    const char *(*check)(const struct message *m);
};

/* job, term, generation, worker */
extern const struct shape shape_envelope;

/* NULL for an unknown type. */
const struct shape *shape_of(uint64_t type);

#endif
