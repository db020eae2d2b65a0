/* elastic/driver/journal.h - the file in which a driver keeps what its
 * successor must know (entry.h).
 *
 * A frame is {nbytes u32, digest u64, an entry of nbytes}, little-endian; the
 * digest is XXH3-64 of the entry. Frames are appended by a thread, and nobody
 * waits for them: after a kill the last ones may be missing. A frame that was
 * torn or changed is left out, and reading goes on with the next frame that is
 * whole. The first two entries, JOB and STATE, without which there is no job,
 * are written twice whenever all is written. When it has grown, all that still
 * counts is written anew, beside it, and takes its name.
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
#include "elastic/wire/beacon.h"

enum { JOURNAL_HEAD_NBYTES = 12 };

/* ---- frames (pure) ------------------------------------------------------- */

/* Encode into buf [max]: the frame's length, or an error of codec.h. */
long journal_frame(const struct entry *entry, uint8_t *buf, size_t max);

struct journal_reading {
    size_t n_entries, n_good; /* entries; bytes that they take */
    int error; /* of the last frame that was left out; CODEC_OK: none was */
};

/* Fold all entries of bytes [nbytes] but those that are damaged; an entry of
 * another version ends it. False: out of memory. */
bool journal_parse(const uint8_t *bytes, size_t nbytes, struct memory *m,
                   struct journal_reading *reading);

/* ---- a file -------------------------------------------------------------- */

/* How much is kept for a disk that does not keep up. */
enum { JOURNAL_KEEP_MAX = 32 << 20 };

/* Read the newest journal of directory `dir` into *m, which is zeroed.
 * *cut_p: bytes that are damaged, and left out.
 *
 * HVD_ERR_INVALID: there is none, it says of no job, or it is of another
 * version; HVD_ERR_SYSTEM; HVD_ERR_NOMEM. */
hvd_status_t journal_read(const char *dir, struct memory *m,
                          size_t *cut_p) HVD_MUST_CHECK;

/* Those of other terms, when this one has been named in DIR/driver. */
void journal_remove_others(const char *dir, uint64_t term);

struct journal;

/* Write *m, which becomes the journal's own and is zeroed, as the journal of
 * the term that it says. Waits for the disk. */
hvd_status_t journal_create(const char *dir, struct memory *m,
                            struct journal **journal_p) HVD_MUST_CHECK;

/* All that has been put. */
const struct memory *journal_memory(const struct journal *j);

/* Fold and append; never waits. What finds no room is not written, but all is
 * written anew as soon as there is room again. False: out of memory. */
bool journal_put(struct journal *j, const struct entry *entry);

/* The thread keeps the files of the directory from those who remove what is
 * old, and restores those that are gone: DIR/driver, which says *own, the
 * journal, and the lock of its term. Never waits. */
void journal_keep(struct journal *j, const struct beacon *own);

/* Is its file there, under its name? */
bool journal_is_there(const struct journal *j);

/* Now and then: write anew what has to be. */
void journal_tick(struct journal *j);

/* Until all is with the kernel, timeout_ms at most. */
void journal_flush(struct journal *j, int timeout_ms);

/* The errno of the last write; 0: it was good. Until then nothing that was put
 * is in the file. */
int journal_error(const struct journal *j);

/* What is not written in two seconds never is. NULL is fine. The file stays. */
void journal_close(struct journal *j);

#endif
