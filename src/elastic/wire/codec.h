/* elastic/wire/codec.h - messages to bytes and back.
 *
 * On the wire a message is the msgpack array [version, type, envelope, body]:
 * envelope and body are maps with small integer keys (field numbers, never
 * reused); unknown keys are skipped, duplicate, missing and out-of-range ones
 * are errors. One descriptor table per message drives encode, decode and
 * checks. decode() walks the bytes before it unpacks them: size, depth, item
 * count and every claimed length are bounded by what has really arrived, so
 * that no bytes can crash, hang or balloon the process (fuzzed).
 *
 * Pure; the only file that sees msgpack.h is pack.c. */
#ifndef ELASTIC_WIRE_CODEC_H
#define ELASTIC_WIRE_CODEC_H

#include "elastic/wire/message.h"

enum codec_error {
    CODEC_OK = 0,
    CODEC_FORMAT = -1,    /* not msgpack, or trailing bytes */
    CODEC_LIMIT = -2,     /* too large, too deep, too many items */
    CODEC_TRUNCATED = -3, /* a claimed length exceeds the input */
    CODEC_TYPE = -4,      /* a field has the wrong type */
    CODEC_RANGE = -5,     /* a field is out of range */
    CODEC_MISSING = -6,   /* a required field is missing */
    CODEC_DUPLICATE = -7,
    CODEC_SPACE = -8,    /* encode: buffer too small */
    CODEC_VERSION = -9,  /* another major version */
    CODEC_UNKNOWN = -10, /* unknown message type */
    CODEC_NOMEM = -11,
    CODEC_BASE = -12 /* a change of a table that is not here */
};

/* Encode *m into buf [max]; the length, or a codec_error. Never allocates. */
long codec_encode(const struct message *m, uint8_t *buf, size_t max);

/* Decode bytes [nbytes] into *m (zeroed first). Spans in *m point into `bytes`.
 * *field_p (may be NULL) receives the name of the offending field, or "". */
int codec_decode(const uint8_t *bytes, size_t nbytes, struct message *m,
                 const char **field_p);

/* The shared table of an ASSIGN. encode: the length or an error. decode:
 * allocates through array_reserve into *table (which the caller inits to zero
 * and frees with assign_table_fini), and leaves its generation alone. */
long table_encode(const struct assign_table *table, uint8_t *buf, size_t max);

/* Only what is different from `base`, which whoever reads it has: a table of
 * thousands that has lost one row takes some 20 bytes. */
long table_encode_change(const struct assign_table *table,
                         const struct assign_table *base, uint8_t *buf,
                         size_t max);

/* base: the table of base->generation, not *table itself; NULL: there is none.
 * CODEC_BASE: the bytes change another one. */
int table_decode(const uint8_t *bytes, size_t nbytes,
                 const struct assign_table *base, struct assign_table *table);
void assign_table_fini(struct assign_table *table);

/* Upper bound of both encodings for n entries. */
size_t table_encoded_max(size_t n_entries);

const char *codec_strerror(int error);

#endif
