/* elastic/wire/table.c - the table that all members of a generation share, as
 * bytes: [table_base, [[worker, host, slot, port, source, address,
 * abilities], ...]].
 *
 * An address of nil repeats that of the row before: ranks are host-major, so
 * most rows are 8 to 20 bytes. Columns added later come at the end of a row and
 * are skipped by who does not know them; who sends fewer has the abilities 0.
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
    N_COLUMNS_MIN = 6,    /* of an older peer */
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

long table_encode(const struct assign_table *table, uint8_t *buf, size_t max)
{
    struct pack_writer w = {.buf = buf, .max = max};

    if (table->n_entries > WIRE_RANKS_MAX)
        return CODEC_LIMIT;
    pack_array(&w, 2);
    pack_uint(&w, table->table_base);
    pack_array(&w, table->n_entries);
    for (size_t i = 0; i < table->n_entries; i++) {
        const struct assign_entry *entry = &table->entries[i];
        int rc = encode_row(&w, entry, i > 0 ? entry - 1 : NULL);

        if (rc != CODEC_OK)
            return rc;
    }
    return w.full ? CODEC_SPACE : (long)w.nbytes;
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

static int decode_row(struct pack_reader *r, struct assign_entry *entry,
                      const struct assign_entry *before)
{
    struct pack_item row, source, extra;
    int rc;

    HVD_ASSERT(pack_next(r, &row) == CODEC_OK);
    if (row.type != PACK_ARRAY || row.count < N_COLUMNS_MIN)
        return CODEC_TYPE;
    rc = decode_numbers(r, entry);
    if (rc != CODEC_OK)
        return rc;
    HVD_ASSERT(pack_next(r, &source) == CODEC_OK);
    if (source.type != PACK_BOOL)
        return CODEC_TYPE;
    entry->source = source.value != 0;
    rc = decode_address(r, entry, before);
    if (rc == CODEC_OK)
        rc = decode_abilities(r, row.count, entry);
    for (uint32_t i = N_COLUMNS; rc == CODEC_OK && i < row.count; i++) {
        HVD_ASSERT(pack_next(r, &extra) == CODEC_OK);
        pack_skip(r, &extra);
    }
    return rc;
}

static int decode_rows(struct pack_reader *r, struct assign_table *table)
{
    struct pack_item rows;
    int rc = CODEC_OK;

    HVD_ASSERT(pack_next(r, &rows) == CODEC_OK);
    if (rows.type != PACK_ARRAY)
        return CODEC_TYPE;
    if (rows.count > WIRE_RANKS_MAX)
        return CODEC_LIMIT;
    if (!array_reserve(&table->entries, &table->entries_max, rows.count))
        return CODEC_NOMEM;
    for (uint32_t i = 0; rc == CODEC_OK && i < rows.count; i++) {
        struct assign_entry *entry = &table->entries[i];

        rc = decode_row(r, entry, i > 0 ? entry - 1 : NULL);
    }
    if (rc == CODEC_OK)
        table->n_entries = rows.count;
    return rc;
}

int table_decode(const uint8_t *bytes, size_t nbytes,
                 struct assign_table *table)
{
    struct pack_reader r = {bytes, bytes + nbytes};
    struct pack_item head;
    int rc;

    table->n_entries = 0;
    table->table_base = 0;
    if (nbytes > WIRE_MESSAGE_MAX)
        return CODEC_LIMIT;
    rc = pack_scan(bytes, nbytes, DEPTH_MAX, N_ITEMS_MAX);
    if (rc != CODEC_OK)
        return rc;
    HVD_ASSERT(pack_next(&r, &head) == CODEC_OK);
    if (head.type != PACK_ARRAY || head.count != 2)
        return CODEC_TYPE;
    rc = decode_uint(&r, UINT64_MAX, &table->table_base);
    return rc == CODEC_OK ? decode_rows(&r, table) : rc;
}

void assign_table_fini(struct assign_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof(*table));
}
