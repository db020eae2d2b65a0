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

/* Of the frame at the beginning of bytes [nbytes]; an error: it is not
 * whole, or was changed. */
static long frame_length(const uint8_t *bytes, size_t nbytes)
{
    size_t n;

    if (nbytes < JOURNAL_HEAD_NBYTES)
        return CODEC_TRUNCATED;
    n = (size_t)bytes_get(bytes, LENGTH_NBYTES);
    if (n > ENTRY_MAX)
        return CODEC_LIMIT;
    if (n > nbytes - JOURNAL_HEAD_NBYTES)
        return CODEC_TRUNCATED;
    if (bytes_get(bytes + LENGTH_NBYTES, DIGEST_NBYTES) !=
        XXH3_64bits(bytes + JOURNAL_HEAD_NBYTES, n))
        return CODEC_FORMAT;
    return (long)n + JOURNAL_HEAD_NBYTES;
}

/* The first frame of bytes [nbytes]: its length, or an error. */
static long parse_frame(const uint8_t *bytes, size_t nbytes,
                        struct entry *entry)
{
    long n = frame_length(bytes, nbytes);
    const char *field;
    int error;

    if (n < 0)
        return n;
    error = entry_decode(bytes + JOURNAL_HEAD_NBYTES,
                         (size_t)n - JOURNAL_HEAD_NBYTES, entry, &field);
    return error != CODEC_OK ? error : n;
}

/* The next whole frame behind the damaged one at `at`, or nbytes. */
static size_t next_frame(const uint8_t *bytes, size_t nbytes, size_t at)
{
    long n = frame_length(bytes + at, nbytes - at);

    if (n > 0)
        return at + (size_t)n; /* whole, and nothing that is known */
    do
        at++;
    while (at < nbytes && frame_length(bytes + at, nbytes - at) < 0);
    return at;
}

bool journal_parse(const uint8_t *bytes, size_t nbytes, struct memory *m,
                   struct journal_reading *reading)
{
    struct entry entry;
    size_t at = 0;

    memset(reading, 0, sizeof(*reading));
    while (at < nbytes) {
        long n = parse_frame(bytes + at, nbytes - at, &entry);

        if (n < 0) {
            reading->error = (int)n;
            if (n == CODEC_VERSION)
                return true;
            at = next_frame(bytes, nbytes, at);
            continue;
        }
        if (!memory_fold(m, &entry))
            return false;
        at += (size_t)n;
        reading->n_good += (size_t)n;
        reading->n_entries++;
    }
    return true;
}
