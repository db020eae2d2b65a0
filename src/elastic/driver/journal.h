/* elastic/driver/journal.h - the file in which a driver keeps what its
 * successor must know (entry.h).
 *
 * A frame is {nbytes u32, digest u64, an entry of nbytes}, little-endian; the
 * digest is XXH3-64 of the entry. Frames are appended by a thread, and nobody
 * waits for them: after a kill the last ones may be missing. What was torn or
 * changed ends the journal there; what follows is not looked at. When it has
 * grown, all that still counts is written anew, beside it, and takes its name.
 *
 * The journal of term T is DIR/journal.T, and only the driver of that term ever
 * writes to it: one that was replaced while it stood still can do no harm when
 * it goes on.
 *
 * Threads: the driver's main thread; a writer's (base/writer.h). Memory: the
 * fold of what was put, and what the thread has not written yet. */
#ifndef ELASTIC_DRIVER_JOURNAL_H
#define ELASTIC_DRIVER_JOURNAL_H

#include <hvd/status.h>

#include "elastic/driver/memory.h"

enum { JOURNAL_HEAD_NBYTES = 12 };

/* ---- frames (pure) ------------------------------------------------------- */

/* Encode into buf [max]: the frame's length, or an error of codec.h. */
long journal_frame(const struct entry *entry, uint8_t *buf, size_t max);

struct journal_reading {
    size_t n_entries, n_good; /* entries; bytes that they take */
    int error; /* why it ends there: CODEC_OK: there are no more bytes */
};

/* Fold all entries of bytes [nbytes] up to the first that is damaged. False:
 * out of memory. */
bool journal_parse(const uint8_t *bytes, size_t nbytes, struct memory *m,
                   struct journal_reading *reading);

#endif
