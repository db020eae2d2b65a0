/* elastic/driver/output_files.h - the files of --output-filename. A thread
 * opens and writes them: their disk may be slow, full, or hang, a FIFO in their
 * place may have no reader.
 *
 *   room     no room             no room for hold_us
 *   takes -> takes not: agents -> takes, and what comes is lost, until half of
 *     ^      and workers wait     what waits is written
 *     +------------------------------+
 *
 * What a file lacks, for this or any other reason, is told in it by a line in
 * its place as soon as it can be written again, and in sum at the end.
 *
 * Part of output.c. Threads: the driver's loop, and the one that writes.
 * Memory: FILES_KEEP_MAX bytes that wait, a name for each file that lacks
 * lines. */
#ifndef ELASTIC_DRIVER_OUTPUT_FILES_H
#define ELASTIC_DRIVER_OUTPUT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum { FILES_KEEP_MAX = 8 << 20 };

struct output_files {
    const char *dir; /* borrowed */
    struct writer *writer;
    struct scribe *scribe; /* the thread's */
    uint64_t hold_us;
    uint64_t full_us; /* since when there has been no room; 0: there is */
    bool gave_up;     /* no room for hold_us: nobody is kept waiting */
    bool warned;
    uint64_t n_lost; /* lines that found no room */
};

/* wake_fd as in writer_create(). */
hvd_status_t output_files_open(struct output_files *f, const char *dir,
                               uint64_t hold_us, int wake_fd) HVD_MUST_CHECK;

/* May more output be asked for? If not, then at output_files_deadline(), or
 * when wake_fd is readable. */
bool output_files_takes(struct output_files *f, uint64_t now_us);
uint64_t output_files_deadline(const struct output_files *f);

/* Append bytes [n] to the file dir/path. Without room they are lost, and their
 * lines counted. mid_line: they follow bytes that did not end a line. */
void output_files_put(struct output_files *f, const char *path, bool mid_line,
                      const char *bytes, size_t n);

/* Has something gone wrong? That is told, once. */
void output_files_check(struct output_files *f);

/* Wait until all is written, as long as something is; tell what is missing. */
void output_files_close(struct output_files *f);

#endif
