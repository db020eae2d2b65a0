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
    TRACEFILE_TROUBLE_MAX = 512
};

struct tracefile {
    char path[PATH_MAX]; /* of part 0 */
    char header[TRACEFILE_HEADER_MAX];
    size_t header_nbytes;
    unsigned part;
    _Atomic int fd;           /* -1: closed, or given up */
    uint64_t end;             /* where the events of this part must end */
    uint64_t page_at;         /* offset of the page that is being filled */
    size_t n_written, n_used; /* of that page */
    char page[TRACEFILE_PAGE];
    char trouble
        [TRACEFILE_TROUBLE_MAX]; /* why it was given up; "": it was not */
};

/* Make part 0. header: one or more events, joined by ",\n", that begin every
 * part; copied. HVD_ERR_SYSTEM with the sentence. */
hvd_status_t tracefile_open(struct tracefile *f, const char *path,
                            const char *header) HVD_MUST_CHECK;

/* One event, a JSON object in one line without its comma. It is in the file
 * after tracefile_flush(), or before. When that fails, `trouble` says why, and
 * everything later is thrown away. */
void tracefile_add(struct tracefile *f, const char *event, size_t nbytes);
void tracefile_flush(struct tracefile *f);

/* Open for writing, emptied; no reader of a FIFO is waited for. -1 with errno:
 * EEXIST, if something else than a file is there. */
int tracefile_create(const char *path);

/* May a file of this process be that long (RLIMIT_FSIZE)? false with EFBIG: a
 * write beyond would be SIGXFSZ, which ends the user's program. */
bool tracefile_may_be(uint64_t nbytes);

/* Is nothing there, or a file? Renaming would replace a device, a FIFO or a
 * socket for everybody on the machine. */
bool tracefile_may_replace(const char *path);

void tracefile_close(struct tracefile *f);
void tracefile_forget(struct tracefile *f);

/* The name of a part: trace.json, 2 -> trace.part2.json. Part 0 is `path`
 * itself. out [PATH_MAX]; false: too long. */
bool tracefile_part(const char *path, unsigned part, char *out);

/* The same with any word: trace.json, "7" -> trace.7.json. */
bool tracefile_name(const char *path, const char *word, char *out);

#endif
