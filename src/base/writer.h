/* base/writer.h - bytes on their way to a file that may be slow (a FIFO whose
 * reader sleeps, a disk that hangs): who has something to write never waits. A
 * thread of its own writes, in order; what finds no room is refused whole.
 *
 * Threads: one puts and closes. Memory: keep_max bytes at most, and the thread.
 */
#ifndef BASE_WRITER_H
#define BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

struct writer;

/* The descriptor is the writer's from now on, in every outcome, and no longer
 * blocks: nobody else may have its open file description. HVD_OK,
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t writer_create(int fd, size_t keep_max,
                           struct writer **writer_p) HVD_MUST_CHECK;

/* Copies them. False: no room for all of them, nothing is taken. */
bool writer_put(struct writer *w, const void *bytes, size_t n) HVD_MUST_CHECK;

/* The errno of the first write that failed, after which bytes are thrown away;
 * 0: none has. */
int writer_error(struct writer *w);

/* Wait until all is written, timeout_ms at most, and close the descriptor.
 * *error_p: as writer_error(), ETIMEDOUT if something was left. (A write that
 * a disk holds in the kernel is waited for: so would the process's end.) */
void writer_destroy(struct writer *w, int timeout_ms, int *error_p);

#endif
