/* tests/wire/property.c - see property.h. */
#include "property.h"

#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "samples.h"

static uint8_t first[WIRE_MESSAGE_MAX], second[WIRE_MESSAGE_MAX];

bool property_message(const uint8_t *bytes, size_t nbytes)
{
    static struct message m;
    const char *field;
    long n;

    if (codec_decode(bytes, nbytes, &m, &field) != CODEC_OK) {
        HVD_ASSERT(field && m.type == MSG_NONE);
        return false;
    }
    n = codec_encode(&m, first, sizeof(first));
    HVD_ASSERT(n > 0 && (size_t)n <= nbytes);
    HVD_ASSERT(codec_decode(first, (size_t)n, &m, &field) == CODEC_OK);
    HVD_ASSERT(codec_encode(&m, second, sizeof(second)) == n);
    HVD_ASSERT(memcmp(first, second, (size_t)n) == 0);
    return true;
}

/* Whatever changes the sample becomes a table that can be told whole, and as a
 * change of it. */
bool property_table(const uint8_t *bytes, size_t nbytes)
{
    struct assign_table base = sample_table, table = {0};
    bool accepted;
    long n;

    base.generation = SAMPLE_GENERATION;
    accepted = table_decode(bytes, nbytes, &base, &table) == CODEC_OK;
    if (accepted) {
        n = table_encode(&table, first, sizeof(first));
        HVD_ASSERT(n > 0 && (size_t)n <= table_encoded_max(table.n_entries));
        HVD_ASSERT(table_decode(first, (size_t)n, NULL, &table) == CODEC_OK);
        n = table_encode_change(&table, &base, second, sizeof(second));
        HVD_ASSERT(n > 0 && (size_t)n <= table_encoded_max(table.n_entries));
        HVD_ASSERT(table_decode(second, (size_t)n, NULL, &table) == CODEC_BASE);
        HVD_ASSERT(table_decode(second, (size_t)n, &base, &table) == CODEC_OK);
        n = table_encode(&table, second, sizeof(second));
        HVD_ASSERT(memcmp(first, second, (size_t)n) == 0);
    }
    HVD_ASSERT(accepted || table.n_entries == 0);
    assign_table_fini(&table);
    return accepted;
}
