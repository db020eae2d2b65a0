/* base/tracefile.h - a file of trace events that is a valid JSON array at every
 * moment, also when its writer is killed while it writes.
 *
 *     [\n{header},\n{header},\n{event},\n{event}      spaces      \n]\n
 *
 * A file is made whole, under another name, and then renamed: header, spaces,
 * closing bracket. Events overwrite spaces, each pwrite(2) within one page of
 * 4 KiB: the kernel copies that much without looking at SIGKILL. Text that
 * does not fit into the rest of a page goes to the next one. The bracket never
 * moves: a file that is full is followed by another part, twice as large:
 * trace.json, trace.part1.json, trace.part2.json, ... (256 KiB .. 64 MiB).
 *
 * After an error (a full disk, a directory that is gone) the next call tries
 * again. No event that was added is lost by that.
 *
 * Not promised: that the last events survive the machine's own death; and a
 * reader that copies the very page which is being written at that moment may
 * see half of it (it has to read again).
 *
 * Threads: one writer. tracefile_forget() in a forked child. */
#ifndef BASE_TRACEFILE_H
#define BASE_TRACEFILE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum {
    TRACEFILE_PAGE = 4096,
    TRACEFILE_HEADER_MAX = 2048,
    TRACEFILE_EVENT_MAX = 2048,
    TRACEFILE_EVENTS_MAX = 3072 /* those that are added at once */
};

struct tracefile {
    char path[PATH_MAX]; /* of part 0 */
    char header[TRACEFILE_HEADER_MAX];
    size_t header_nbytes;
    unsigned part;    /* the one that is or was open */
    unsigned n_parts; /* that were made */
    unsigned n_doubled;
    _Atomic int fd;           /* -1: no part is open */
    int error;                /* errno of the last failure; 0: it is mended */
    uint64_t end;             /* where the events of this part must end */
    uint64_t page_at;         /* offset of the page that is being filled */
    size_t n_written, n_used; /* of that page */
    char page[TRACEFILE_PAGE];
};

/* Make part 0. header: one or more events, joined by ",\n", that begin every
 * part; copied. HVD_ERR_SYSTEM with the sentence: it may be closed, or used as
 * if it were open, and is then tried again. */
hvd_status_t tracefile_open(struct tracefile *f, const char *path,
                            const char *header) HVD_MUST_CHECK;

/* Events joined by ",\n", each a JSON object in one line. All get into the same
 * part. They are in the file after tracefile_flush(), or before. False: they
 * find no room now, and were not taken; `error` says why. */
bool tracefile_add(struct tracefile *f, const char *events,
                   size_t nbytes) HVD_MUST_CHECK;

/* False: not all events are in the file yet; `error` says why. A part that is
 * stale (ESTALE) is left with a warning, which counts what is lost with it. */
bool tracefile_flush(struct tracefile *f) HVD_MUST_CHECK;

/* Open for writing, emptied; no reader of a FIFO is waited for. -1 with errno:
 * EEXIST, if something else than a file is there. */
int tracefile_create(const char *path);

/* May a file of this process be that long (RLIMIT_FSIZE)? false with EFBIG: a
 * write beyond would be SIGXFSZ, which ends the user's program. */
bool tracefile_may_be(uint64_t nbytes);

/* Is nothing there, or a file? Renaming would replace a device, a FIFO or a
 * socket for everybody on the machine. */
bool tracefile_may_replace(const char *path);

/* Returns how many events are lost, as they could not be written. */
size_t tracefile_close(struct tracefile *f);
void tracefile_forget(struct tracefile *f);

/* The name of a part: trace.json, 2 -> trace.part2.json. Part 0 is `path`
 * itself. out [PATH_MAX]; false: too long. */
bool tracefile_part(const char *path, unsigned part, char *out);

/* The same with any word: trace.json, "7" -> trace.7.json. */
bool tracefile_name(const char *path, const char *word, char *out);

#endif
