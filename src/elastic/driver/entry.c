/* elastic/driver/entry.c - entries to bytes and back. See entry.h. Pure. */
#include "elastic/driver/entry.h"

#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/fields.h"

enum { DEPTH_MAX = 4, N_ITEMS_MAX = 512 };

#define FIELD(number, member, kind_, ...) \
    FIELD_OF(struct entry, number, member, kind_, __VA_ARGS__)
#define KEY(number, member, kind_) \
    FIELD(number, member, kind_, .lo = 1, .hi = UINT64_MAX)
#define WORD(number, member, kind_) \
    FIELD(number, member, kind_, .hi = UINT64_MAX, .optional = true)

#define UINT(number, member)   WORD(number, member, FIELD_UINT)
#define INT(number, member)    WORD(number, member, FIELD_INT)
#define BOOL(number, member)   WORD(number, member, FIELD_BOOL)
#define TEXT(number, member)   WORD(number, member, FIELD_STR)
#define DIGEST(number, member) WORD(number, member, FIELD_DIGEST)
#define STRINGS(number, member)                                  \
    FIELD(number, member, FIELD_STRINGS, .hi = WIRE_MESSAGE_MAX, \
          .optional = true)

static const struct field job[] = {
    KEY(1, u.job.job, FIELD_UINT),
    KEY(2, u.job.secret, FIELD_DIGEST),
    STRINGS(3, u.job.argv),
    STRINGS(4, u.job.env),
    TEXT(5, u.job.cwd),
    UINT(6, u.job.started_us),
    STRINGS(7, u.job.environment),
};

static const struct field state[] = {
    KEY(1, u.state.term, FIELD_UINT),
    UINT(2, u.state.workers_limit),
    UINT(3, u.state.agents_limit),
    UINT(4, u.state.generations_limit),
    UINT(5, u.state.holds_limit),
    UINT(6, u.state.generation),
    UINT(7, u.state.kind),
    DIGEST(8, u.state.layout),
    TEXT(9, u.state.layout_text),
    BOOL(10, u.state.ever_committed),
    UINT(11, u.state.fruitless),
    UINT(12, u.state.alike),
    UINT(13, u.state.fruitless_us),
    UINT(14, u.state.resets),
    BOOL(15, u.state.interrupted),
    BOOL(16, u.state.stopping),
    BOOL(17, u.state.released),
    BOOL(18, u.state.ended),
    UINT(19, u.state.exit_status),
    TEXT(20, u.state.verdict),
    TEXT(21, u.state.last_failure),
    BOOL(22, u.state.unsure),
    UINT(23, u.state.machine),
};

static const struct field host[] = {
    KEY(1, u.host.name, FIELD_STR),
    BOOL(2, u.host.listed),
    UINT(3, u.host.n_slots),
    UINT(4, u.host.order),
    BOOL(5, u.host.blacklisted),
    UINT(6, u.host.n_blacklisted),
    UINT(7, u.host.blacklisted_until_us),
    UINT(8, u.host.agent),
    BOOL(9, u.host.stopping),
    INT(10, u.host.pid),
    UINT(11, u.host.started),
    UINT(12, u.host.noticed_until_us),
    TEXT(13, u.host.user),
    BOOL(14, u.host.sees_dir),
};

static const struct field slot[] = {
    KEY(1, u.slot.host, FIELD_STR),
    FIELD(2, u.slot.slot, FIELD_UINT, .hi = HOSTS_SLOTS_MAX - 1),
    BOOL(3, u.slot.closed),
    UINT(4, u.slot.next_start_us),
    FIELD(5, u.slot.failed_s, FIELD_LIST,
          .count_offset = offsetof(struct entry, u.slot.n_failed),
          .optional = true),
    UINT(6, u.slot.n_closed),
};

static const struct field worker[] = {
    KEY(1, u.worker.worker, FIELD_UINT),
    BOOL(2, u.worker.gone),
    TEXT(3, u.worker.host),
    FIELD(4, u.worker.slot, FIELD_UINT, .hi = HOSTS_SLOTS_MAX - 1,
          .optional = true),
    UINT(5, u.worker.agent),
    INT(6, u.worker.pid),
    UINT(7, u.worker.started),
    BOOL(9, u.worker.up),
    BOOL(10, u.worker.going),
    BOOL(11, u.worker.released),
    BOOL(12, u.worker.dying),
};

static const struct field places[] = {
    TEXT(1, u.places.control),
    TEXT(2, u.places.output),
};

static const char *check_host(const void *record)
{
    const struct entry *e = record;

    if (e->u.host.name[0] == '\0')
        return "u.host.name";
    return e->u.host.n_slots > HOSTS_SLOTS_MAX ? "u.host.n_slots" : NULL;
}

static const char *check_slot(const void *record)
{
    const struct entry *e = record;

    return e->u.slot.host[0] == '\0' ? "u.slot.host" : NULL;
}

static const char *check_worker(const void *record)
{
    const struct entry *e = record;

    return !e->u.worker.gone && e->u.worker.host[0] == '\0' ? "u.worker.host"
                                                            : NULL;
}

#define SHAPE(name_, fields_, check_)                                          \
    {                                                                          \
        .name = (name_), .fields = (fields_), .n_fields = ARRAY_SIZE(fields_), \
        .check = (check_)                                                      \
    }

static const struct shape shapes[] = {
    [ENTRY_JOB] = SHAPE("JOB", job, NULL),
    [ENTRY_STATE] = SHAPE("STATE", state, NULL),
    [ENTRY_HOST] = SHAPE("HOST", host, check_host),
    [ENTRY_SLOT] = SHAPE("SLOT", slot, check_slot),
    [ENTRY_WORKER] = SHAPE("WORKER", worker, check_worker),
    [ENTRY_PLACES] = SHAPE("PLACES", places, NULL),
};

static const struct shape *shape_of_entry(uint64_t type)
{
    if (type >= ARRAY_SIZE(shapes) || !shapes[type].name)
        return NULL;
    return &shapes[type];
}

long entry_encode(const struct entry *entry, uint8_t *buf, size_t max)
{
    const struct shape *shape = shape_of_entry((uint64_t)entry->type);
    struct pack_writer w = {.buf = buf, .max = max};
    int rc;

    if (!shape)
        return CODEC_UNKNOWN;
    if (shape->check && shape->check(entry))
        return CODEC_RANGE;
    pack_array(&w, 3);
    pack_uint(&w, ENTRY_VERSION);
    pack_uint(&w, (uint64_t)entry->type);
    rc = fields_encode(&w, entry, shape);
    if (rc != CODEC_OK)
        return rc;
    return w.full ? CODEC_SPACE : (long)w.nbytes;
}

static int decode_head(struct pack_reader *r, struct entry *entry,
                       const struct shape **shape_p)
{
    struct pack_item head, version, type;

    HVD_ASSERT(pack_next(r, &head) == CODEC_OK);
    if (head.type != PACK_ARRAY || head.count == 0)
        return CODEC_TYPE;
    HVD_ASSERT(pack_next(r, &version) == CODEC_OK);
    if (version.type != PACK_UINT)
        return CODEC_TYPE;
    if (version.value != ENTRY_VERSION)
        return CODEC_VERSION;
    if (head.count != 3)
        return CODEC_TYPE;
    HVD_ASSERT(pack_next(r, &type) == CODEC_OK);
    if (type.type != PACK_UINT)
        return CODEC_TYPE;
    *shape_p = shape_of_entry(type.value);
    if (!*shape_p)
        return CODEC_UNKNOWN;
    entry->type = (enum entry_type)type.value;
    return CODEC_OK;
}

static int decode(struct pack_reader *r, struct entry *entry,
                  const char **field_p)
{
    const struct shape *shape;
    int rc = decode_head(r, entry, &shape);

    if (rc == CODEC_OK)
        rc = fields_decode(r, entry, shape, field_p);
    if (rc != CODEC_OK || !shape->check)
        return rc;
    *field_p = shape->check(entry);
    if (*field_p)
        return CODEC_RANGE;
    *field_p = "";
    return CODEC_OK;
}

int entry_decode(const uint8_t *bytes, size_t nbytes, struct entry *entry,
                 const char **field_p)
{
    struct pack_reader r = {bytes, bytes + nbytes};
    int rc;

    *field_p = "";
    memset(entry, 0, sizeof(*entry));
    if (nbytes > ENTRY_MAX)
        return CODEC_LIMIT;
    rc = pack_scan(bytes, nbytes, DEPTH_MAX, N_ITEMS_MAX);
    if (rc == CODEC_OK)
        rc = decode(&r, entry, field_p);
    if (rc != CODEC_OK)
        entry->type = ENTRY_NONE; /* nobody may take half of it for one */
    return rc;
}
