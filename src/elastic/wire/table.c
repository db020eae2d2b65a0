/* elastic/wire/table.c - the table that all members of a generation share, as
 * bytes: [table_base, [item, ...]]. An item is
 *   [worker, host, slot, port, source, address, abilities]   a row
 *   [first, n, source]    n rows of the table of generation table_base, from
 *                         `first` on, but for their `source`
 *
 * An address of nil repeats that of the row before: ranks are host-major, so
 * most rows are 8 to 20 bytes. Columns added later come at the end of a row and
 * are skipped by who does not know them; who sends fewer has the abilities 0. A
 * table_base of 0 is none: all items are rows.
 *
 * Threads: none of its own. Memory: the caller's buffer; the entries grow
 * through array_reserve. Pure. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/pack.h"

enum {
    N_COLUMNS = 7,
    N_COLUMNS_MIN = 6, /* of an older peer */
    N_RUN_COLUMNS = 3,
    ROW_COLUMNS_MAX = 16, /* of a newer peer */
    DEPTH_MAX = 4,
    N_ITEMS_MAX = (ROW_COLUMNS_MAX + 1) * WIRE_RANKS_MAX,
    /* head, worker, host, slot, port, source, address with its head,
       abilities */
    ROW_NBYTES_MAX = 1 + 9 + 5 + 5 + 3 + 1 + 2 + WIRE_ADDRESS_MAX + 2,
    HEAD_NBYTES_MAX = 1 + 9 + 5
};

size_t table_encoded_max(size_t n_entries)
{
    return HEAD_NBYTES_MAX + n_entries * ROW_NBYTES_MAX;
}

static int encode_row(struct pack_writer *w, const struct assign_entry *entry,
                      const struct assign_entry *before)
{
    size_t nbytes = strnlen(entry->address, sizeof(entry->address));

    if (entry->worker == 0 || nbytes == sizeof(entry->address))
        return CODEC_RANGE;
    pack_array(w, N_COLUMNS);
    pack_uint(w, entry->worker);
    pack_uint(w, entry->host);
    pack_uint(w, entry->slot);
    pack_uint(w, entry->port);
    pack_bool(w, entry->source);
    if (before && strcmp(before->address, entry->address) == 0)
        pack_nil(w);
    else
        pack_str(w, entry->address, nbytes);
    pack_uint(w, entry->abilities);
    return CODEC_OK;
}

/* Where rows of a table lie in the one before it. */
struct change {
    const struct assign_table *table, *base; /* base NULL: none */
    size_t next;     /* where the next row is likely to lie in the base */
    uint64_t newest; /* worker of the base */
};

static struct change change_of(const struct assign_table *table,
                               const struct assign_table *base)
{
    struct change c = {.table = table, .base = base};

    for (size_t i = 0; base && i < base->n_entries; i++)
        if (base->entries[i].worker > c.newest)
            c.newest = base->entries[i].worker;
    return c;
}

static bool is_same(const struct assign_entry *a, const struct assign_entry *b)
{
    return a->worker == b->worker && a->host == b->host && a->slot == b->slot &&
           a->port == b->port && a->abilities == b->abilities &&
           strcmp(a->address, b->address) == 0;
}

/* Of the row's worker; n_entries of the base: it is none of those. */
static size_t find_in_base(const struct change *c,
                           const struct assign_entry *entry)
{
    size_t n = c->base ? c->base->n_entries : 0;

    if (entry->worker > c->newest)
        return n;
    for (size_t k = 0; k < n; k++) {
        size_t at = (c->next + k) % n;

        if (c->base->entries[at].worker == entry->worker)
            return at;
    }
    return n;
}

/* How many rows from `at` on are rows of the base, one after the other, which
 * begin at *first_p, and alike in being sources. 0: this one is new. */
static size_t run_at(struct change *c, size_t at, size_t *first_p)
{
    const struct assign_table *t = c->table, *base = c->base;
    size_t first = find_in_base(c, &t->entries[at]), n = 0;

    while (base && at + n < t->n_entries && first + n < base->n_entries &&
           is_same(&t->entries[at + n], &base->entries[first + n]) &&
           t->entries[at + n].source == t->entries[at].source)
        n++;
    if (base && first < base->n_entries)
        c->next = first + (n > 0 ? n : 1);
    *first_p = first;
    return n;
}

static size_t count_items(struct change c)
{
    size_t n = 0, first;

    for (size_t at = 0; at < c.table->n_entries; n++) {
        size_t n_run = run_at(&c, at, &first);

        at += n_run > 0 ? n_run : 1;
    }
    return n;
}

static void encode_run(struct pack_writer *w, size_t first, size_t n,
                       bool source)
{
    pack_array(w, N_RUN_COLUMNS);
    pack_uint(w, first);
    pack_uint(w, n);
    pack_bool(w, source);
}

static int encode_items(struct pack_writer *w, struct change c)
{
    const struct assign_entry *entries = c.table->entries;
    size_t first;

    pack_array(w, count_items(c));
    for (size_t at = 0; at < c.table->n_entries;) {
        size_t n = run_at(&c, at, &first);
        int rc;

        if (n > 0) {
            encode_run(w, first, n, entries[at].source);
            at += n;
            continue;
        }
        rc = encode_row(w, &entries[at], at > 0 ? &entries[at - 1] : NULL);
        if (rc != CODEC_OK)
            return rc;
        at++;
    }
    return CODEC_OK;
}

static long encode(struct change c, uint8_t *buf, size_t max)
{
    struct pack_writer w = {.buf = buf, .max = max};
    int rc;

    if (c.table->n_entries > WIRE_RANKS_MAX)
        return CODEC_LIMIT;
    pack_array(&w, 2);
    pack_uint(&w, c.base ? c.base->generation : 0);
    rc = encode_items(&w, c);
    if (rc != CODEC_OK)
        return rc;
    return w.full ? CODEC_SPACE : (long)w.nbytes;
}

long table_encode(const struct assign_table *table, uint8_t *buf, size_t max)
{
    return encode(change_of(table, NULL), buf, max);
}

long table_encode_change(const struct assign_table *table,
                         const struct assign_table *base, uint8_t *buf,
                         size_t max)
{
    HVD_ASSERT(base->generation != 0);
    return encode(change_of(table, base), buf, max);
}

static int decode_uint(struct pack_reader *r, uint64_t hi, uint64_t *value_p)
{
    struct pack_item item;

    HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
    if (item.type != PACK_UINT)
        return CODEC_TYPE;
    if (item.value > hi)
        return CODEC_RANGE;
    *value_p = item.value;
    return CODEC_OK;
}

static int decode_numbers(struct pack_reader *r, struct assign_entry *entry)
{
    static const uint64_t hi[] = {UINT64_MAX, UINT32_MAX, UINT32_MAX,
                                  UINT16_MAX};
    uint64_t value[ARRAY_SIZE(hi)];

    for (size_t i = 0; i < ARRAY_SIZE(hi); i++) {
        int rc = decode_uint(r, hi[i], &value[i]);

        if (rc != CODEC_OK)
            return rc;
    }
    if (value[0] == 0)
        return CODEC_RANGE;
    entry->worker = value[0];
    entry->host = (uint32_t)value[1];
    entry->slot = (uint32_t)value[2];
    entry->port = (uint16_t)value[3];
    return CODEC_OK;
}

static int decode_address(struct pack_reader *r, struct assign_entry *entry,
                          const struct assign_entry *before)
{
    struct pack_item item;

    HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
    memset(entry->address, 0, sizeof(entry->address));
    if (item.type == PACK_NIL && before) {
        memcpy(entry->address, before->address, sizeof(entry->address));
        return CODEC_OK;
    }
    if (item.type != PACK_STR)
        return CODEC_TYPE;
    if (item.count >= sizeof(entry->address) ||
        memchr(item.data, 0, item.count))
        return CODEC_RANGE;
    memcpy(entry->address, item.data, item.count);
    return CODEC_OK;
}

static int decode_abilities(struct pack_reader *r, uint32_t n_columns,
                            struct assign_entry *entry)
{
    uint64_t value = 0;
    int rc = CODEC_OK;

    if (n_columns > N_COLUMNS_MIN)
        rc = decode_uint(r, UINT8_MAX, &value);
    entry->abilities = (uint8_t)value;
    return rc;
}

static int decode_row(struct pack_reader *r, uint32_t n_columns,
                      struct assign_entry *entry,
                      const struct assign_entry *before)
{
    struct pack_item source, extra;
    int rc = decode_numbers(r, entry);

    if (rc != CODEC_OK)
        return rc;
    HVD_ASSERT(pack_next(r, &source) == CODEC_OK);
    if (source.type != PACK_BOOL)
        return CODEC_TYPE;
    entry->source = source.value != 0;
    rc = decode_address(r, entry, before);
    if (rc == CODEC_OK)
        rc = decode_abilities(r, n_columns, entry);
    for (uint32_t i = N_COLUMNS; rc == CODEC_OK && i < n_columns; i++) {
        HVD_ASSERT(pack_next(r, &extra) == CODEC_OK);
        pack_skip(r, &extra);
    }
    return rc;
}

static int add_row(struct pack_reader *r, uint32_t n_columns,
                   struct assign_table *table)
{
    struct assign_entry *entry;
    size_t n = table->n_entries;
    int rc;

    if (n == WIRE_RANKS_MAX)
        return CODEC_LIMIT;
    if (!array_reserve(&table->entries, &table->entries_max, n + 1))
        return CODEC_NOMEM;
    entry = &table->entries[n];
    rc = decode_row(r, n_columns, entry, n > 0 ? entry - 1 : NULL);
    table->n_entries += rc == CODEC_OK;
    return rc;
}

static int copy_run(const struct assign_table *base, uint64_t first, uint64_t n,
                    bool source, struct assign_table *table)
{
    if (first > base->n_entries || n > base->n_entries - first)
        return CODEC_RANGE;
    if (n > WIRE_RANKS_MAX - table->n_entries)
        return CODEC_LIMIT;
    if (!array_reserve(&table->entries, &table->entries_max,
                       table->n_entries + n))
        return CODEC_NOMEM;
    for (uint64_t i = 0; i < n; i++) {
        struct assign_entry *entry = &table->entries[table->n_entries++];

        *entry = base->entries[first + i];
        entry->source = source;
    }
    return CODEC_OK;
}

static int add_run(struct pack_reader *r, const struct assign_table *base,
                   struct assign_table *table)
{
    struct pack_item source;
    uint64_t first, n;
    int rc = decode_uint(r, WIRE_RANKS_MAX, &first);

    if (rc == CODEC_OK)
        rc = decode_uint(r, WIRE_RANKS_MAX, &n);
    if (rc != CODEC_OK)
        return rc;
    HVD_ASSERT(pack_next(r, &source) == CODEC_OK);
    if (source.type != PACK_BOOL)
        return CODEC_TYPE;
    return copy_run(base, first, n, source.value != 0, table);
}

static int decode_items(struct pack_reader *r, const struct assign_table *base,
                        struct assign_table *table)
{
    struct pack_item items, item;
    int rc = CODEC_OK;

    HVD_ASSERT(pack_next(r, &items) == CODEC_OK);
    if (items.type != PACK_ARRAY)
        return CODEC_TYPE;
    for (uint32_t i = 0; rc == CODEC_OK && i < items.count; i++) {
        HVD_ASSERT(pack_next(r, &item) == CODEC_OK);
        if (item.type != PACK_ARRAY)
            rc = CODEC_TYPE;
        else if (item.count >= N_COLUMNS_MIN)
            rc = add_row(r, item.count, table);
        else if (item.count == N_RUN_COLUMNS && base)
            rc = add_run(r, base, table);
        else
            rc = CODEC_TYPE;
    }
    return rc;
}

static int decode(struct pack_reader *r, const struct assign_table *base,
                  struct assign_table *table)
{
    uint64_t changes;
    struct pack_item head;
    int rc;

    HVD_ASSERT(pack_next(r, &head) == CODEC_OK);
    if (head.type != PACK_ARRAY || head.count != 2)
        return CODEC_TYPE;
    rc = decode_uint(r, UINT64_MAX, &changes);
    if (rc != CODEC_OK)
        return rc;
    if (changes != 0 && (!base || base->generation != changes))
        return CODEC_BASE;
    return decode_items(r, changes != 0 ? base : NULL, table);
}

int table_decode(const uint8_t *bytes, size_t nbytes,
                 const struct assign_table *base, struct assign_table *table)
{
    struct pack_reader r = {bytes, bytes + nbytes};
    int rc;

    HVD_ASSERT(base != table);
    table->n_entries = 0;
    if (nbytes > WIRE_MESSAGE_MAX)
        return CODEC_LIMIT;
    rc = pack_scan(bytes, nbytes, DEPTH_MAX, N_ITEMS_MAX);
    if (rc == CODEC_OK)
        rc = decode(&r, base, table);
    if (rc != CODEC_OK)
        table->n_entries = 0;
    return rc;
}

void assign_table_fini(struct assign_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof(*table));
}
