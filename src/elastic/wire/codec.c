/* elastic/wire/codec.c - messages to bytes and back, driven by shapes.c. The
 * fields are fields.c's business, the bytes themselves pack.c's, the table of
 * an ASSIGN is table.c's.
 *
 * Threads: none of its own. Memory: none; spans point into the input. Pure. */
#include "elastic/wire/codec.h"

#include <string.h>

#include "base/array.h"
#include "elastic/wire/pack.h"
#include "elastic/wire/shapes.h"

/* A message is array > map > list. More values than any message has, so that a
 * newer peer's fields pass. */
enum { DEPTH_MAX = 6, N_ITEMS_MAX = 4096 };

long codec_encode(const struct message *m, uint8_t *buf, size_t max)
{
    const struct shape *shape = shape_of((uint64_t)m->type);
    struct pack_writer w = {.buf = buf, .max = max};
    int rc;

    if (!shape)
        return CODEC_UNKNOWN;
    if (shape->check && shape->check(m))
        return CODEC_RANGE;
    if (w.max > WIRE_MESSAGE_MAX)
        w.max = WIRE_MESSAGE_MAX;
    pack_array(&w, 4);
    pack_uint(&w, WIRE_VERSION);
    pack_uint(&w, (uint64_t)m->type);
    rc = fields_encode(&w, m, &shape_envelope);
    if (rc == CODEC_OK)
        rc = fields_encode(&w, m, shape);
    if (rc != CODEC_OK)
        return rc;
    if (w.full)
        return max < WIRE_MESSAGE_MAX ? CODEC_SPACE : CODEC_LIMIT;
    return (long)w.nbytes;
}

/* ---- decode: the bytes have passed pack_scan -------------------------------
 * */

/* A hello is read of any version: it has the release, so that the driver can
 * name who speaks another one. Its fields keep their numbers and meanings. */
static bool is_hello(const struct pack_item *type)
{
    return type->type == PACK_UINT &&
           (type->value == MSG_HELLO || type->value == MSG_AGENT_HELLO);
}

/* The version is looked at before anything else: a peer of another one gets
 * that answer and no other. */
static int decode_head(struct pack_reader *r, struct message *m,
                       const struct shape **shape_p)
{
    struct pack_item head, version, type;

    HVD_ASSERT(pack_next(r, &head) == CODEC_OK);
    if (head.type != PACK_ARRAY || head.count == 0)
        return CODEC_TYPE;
    HVD_ASSERT(pack_next(r, &version) == CODEC_OK);
    if (version.type != PACK_UINT)
        return CODEC_TYPE;
    if (version.value != WIRE_VERSION && head.count != 4)
        return CODEC_VERSION;
    if (head.count != 4)
        return CODEC_TYPE;
    HVD_ASSERT(pack_next(r, &type) == CODEC_OK);
    if (version.value != WIRE_VERSION && !is_hello(&type))
        return CODEC_VERSION;
    if (type.type != PACK_UINT)
        return CODEC_TYPE;
    *shape_p = shape_of(type.value);
    if (!*shape_p)
        return CODEC_UNKNOWN;
    m->type = (enum message_type)type.value;
    return CODEC_OK;
}

static int decode(struct pack_reader *r, struct message *m,
                  const char **field_p)
{
    const struct shape *shape;
    int rc = decode_head(r, m, &shape);

    if (rc == CODEC_OK)
        rc = fields_decode(r, m, &shape_envelope, field_p);
    if (rc == CODEC_OK)
        rc = fields_decode(r, m, shape, field_p);
    if (rc != CODEC_OK || !shape->check)
        return rc;
    *field_p = shape->check(m);
    if (*field_p)
        return CODEC_RANGE;
    *field_p = "";
    return CODEC_OK;
}

int codec_decode(const uint8_t *bytes, size_t nbytes, struct message *m,
                 const char **field_p)
{
    struct pack_reader r = {bytes, bytes + nbytes};
    const char *ignored;
    int rc;

    if (!field_p)
        field_p = &ignored;
    *field_p = "";
    memset(m, 0, sizeof(*m));
    if (nbytes > WIRE_MESSAGE_MAX)
        return CODEC_LIMIT;
    rc = pack_scan(bytes, nbytes, DEPTH_MAX, N_ITEMS_MAX);
    if (rc == CODEC_OK)
        rc = decode(&r, m, field_p);
    if (rc != CODEC_OK)
        m->type = MSG_NONE; /* nobody may take half of it for a message */
    return rc;
}

const char *codec_strerror(int error)
{
    switch (error) {
    case CODEC_OK:
        return "no error";
    case CODEC_FORMAT:
        return "not a message";
    case CODEC_LIMIT:
        return "too large, too deep or too many items";
    case CODEC_TRUNCATED:
        return "truncated";
    case CODEC_TYPE:
        return "a field of the wrong type";
    case CODEC_RANGE:
        return "a field out of range";
    case CODEC_MISSING:
        return "a required field is missing";
    case CODEC_DUPLICATE:
        return "a field appears twice";
    case CODEC_SPACE:
        return "buffer too small";
    case CODEC_VERSION:
        return "another version of the protocol";
    case CODEC_UNKNOWN:
        return "unknown message type";
    case CODEC_BASE:
        return "a change of a table that is not here";
    case CODEC_NOMEM:
        return "out of memory";
    default:
        return "unknown error";
    }
}
