/* elastic/driver/journal.c - see journal.h. */
#include "elastic/driver/journal.h"

#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/bytes.h"
#include "elastic/wire/codec.h"

enum { LENGTH_NBYTES = 4, DIGEST_NBYTES = 8 };

/* ---- frames -------------------------------------------------------------- */

long journal_frame(const struct entry *entry, uint8_t *buf, size_t max)
{
    uint8_t *body = buf + JOURNAL_HEAD_NBYTES;
    long n;

    if (max < JOURNAL_HEAD_NBYTES)
        return CODEC_SPACE;
    n = entry_encode(entry, body, max - JOURNAL_HEAD_NBYTES);
    if (n < 0)
        return n;
    bytes_put(buf, (uint64_t)n, LENGTH_NBYTES);
    bytes_put(buf + LENGTH_NBYTES, XXH3_64bits(body, (size_t)n), DIGEST_NBYTES);
    return n + JOURNAL_HEAD_NBYTES;
}

/* The first frame of bytes [nbytes]: its length, or an error. */
static long parse_frame(const uint8_t *bytes, size_t nbytes,
                        struct entry *entry)
{
    const uint8_t *body = bytes + JOURNAL_HEAD_NBYTES;
    const char *field;
    size_t n;
    int error;

    if (nbytes < JOURNAL_HEAD_NBYTES)
        return CODEC_TRUNCATED;
    n = (size_t)bytes_get(bytes, LENGTH_NBYTES);
    if (n > ENTRY_MAX)
        return CODEC_LIMIT;
    if (n > nbytes - JOURNAL_HEAD_NBYTES)
        return CODEC_TRUNCATED;
    if (bytes_get(bytes + LENGTH_NBYTES, DIGEST_NBYTES) != XXH3_64bits(body, n))
        return CODEC_FORMAT;
    error = entry_decode(body, n, entry, &field);
    return error != CODEC_OK ? error : (long)n + JOURNAL_HEAD_NBYTES;
}

bool journal_parse(const uint8_t *bytes, size_t nbytes, struct memory *m,
                   struct journal_reading *reading)
{
    struct entry entry;

    memset(reading, 0, sizeof(*reading));
    while (reading->n_good < nbytes) {
        long n = parse_frame(bytes + reading->n_good, nbytes - reading->n_good,
                             &entry);

        if (n < 0) {
            reading->error = (int)n;
            return true;
        }
        if (!memory_fold(m, &entry))
            return false;
        reading->n_good += (size_t)n;
        reading->n_entries++;
    }
    return true;
}
