/* tests/fuzz/fuzz_journal.c - libFuzzer's door to the reader of a driver's
 * journal: whatever the bytes, what is read of them can be written anew, and is
 * then the same. The first byte says whether the rest is a file or one entry:
 * with digests, a fuzzer would hardly ever get to the entries. */
#include <string.h>

#include "base/array.h"
#include "elastic/driver/journal.h"
#include "elastic/wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t first[ENTRY_MAX], second[ENTRY_MAX];

static void try_entry(const uint8_t *data, size_t size)
{
    struct entry entry;
    const char *field;
    long n;

    if (entry_decode(data, size, &entry, &field) != CODEC_OK)
        return;
    n = entry_encode(&entry, first, sizeof(first));
    HVD_ASSERT(n > 0 && (size_t)n <= size);
    HVD_ASSERT(entry_decode(first, (size_t)n, &entry, &field) == CODEC_OK);
    HVD_ASSERT(entry_encode(&entry, second, sizeof(second)) == n);
    HVD_ASSERT(memcmp(first, second, (size_t)n) == 0);
}

static void try_journal(const uint8_t *data, size_t size)
{
    struct memory m = {0}, copy = {0};
    struct journal_reading reading;
    struct entry entry;

    HVD_ASSERT(journal_parse(data, size, &m, &reading));
    HVD_ASSERT(reading.n_good <= size);
    HVD_ASSERT(reading.error != CODEC_OK || reading.n_good == size);
    for (size_t i = 0; memory_entry(&m, i, &entry); i++)
        HVD_ASSERT(memory_fold(&copy, &entry));
    HVD_ASSERT(copy.n_hosts == m.n_hosts && copy.n_slots == m.n_slots &&
               copy.n_workers == m.n_workers);
    memory_fini(&m);
    memory_fini(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] & 1)
        try_journal(data + 1, size - 1);
    else
        try_entry(data + 1, size - 1);
    return 0;
}
