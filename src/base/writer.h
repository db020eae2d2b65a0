/* base/writer.h - what may be slow or hang (a disk, a FIFO, a pipe that nobody
 * reads), done by a thread for somebody who must not wait.
 *
 *   put, put, .. -> queue of records, bounded -> thread: take, take, .. end
 *
 * What finds no room is refused whole; who was refused is woken when there is
 * room again. At the end the thread is waited for, but not for ever: one that
 * the kernel keeps in a call is left behind, with all that it uses, and ends
 * with the process.
 *
 * Threads: one puts, asks and destroys; take and end run on the writer's.
 * Memory: keep_max bytes and one record at most, and the thread.
 */
#ifndef BASE_WRITER_H
#define BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

struct writer;

struct writer_ops {
    /* One record. Waits only in writer_await(), or where the kernel makes it.
     * 0, or an errno. */
    int (*take)(struct writer *w, void *arg, const char *bytes, size_t n);
    /* May the same record be taken later, although take() has failed? Then
     * the thread tries ten times a second. Otherwise, or if this is NULL, the
     * record and all that follow are thrown away. */
    bool (*may_pass)(struct writer *w, void *arg, int error);
    /* After the last one; NULL: nothing to do. 0 or an errno. */
    int (*end)(struct writer *w, void *arg);
};

struct writer_config {
    const struct writer_ops *ops;
    void *arg; /* the thread's alone until writer_destroy() gives it back */
    size_t keep_max; /* bytes that may wait */
    int wake_fd; /* an eventfd that gets 1 when there may be room again after a
                    refusal; -1: none. Borrowed until writer_destroy() */
};

/* HVD_OK, HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t writer_create(const struct writer_config *config,
                           struct writer **writer_p) HVD_MUST_CHECK;

/* A writer whose records are bytes for a descriptor, which may be shared with
 * other processes: it is not made non-blocking. owned: it is the writer's from
 * now on, in every outcome.
 * An error that may pass (a full disk, a quota, a server that is away) makes
 * the thread try again, ten times a second, where it stopped: nothing is lost
 * of the records that it has, and no half record is left before the next. Other
 * errors end it; so does EPIPE, unless the descriptor is a FIFO with a name,
 * which another reader may open. */
hvd_status_t writer_create_fd(int fd, bool owned, size_t keep_max, int wake_fd,
                              struct writer **writer_p) HVD_MUST_CHECK;

/* Copies them. False: no room for all of them, or no memory; nothing is taken.
 */
bool writer_put(struct writer *w, const void *bytes, size_t n) HVD_MUST_CHECK;

/* Would n bytes be taken? False counts as a refusal. */
bool writer_has_room(struct writer *w, size_t n);

/* Bytes that wait, with what is being taken. */
size_t writer_pending(struct writer *w);

/* Lines of the records that wait and of the one that is being taken. */
size_t writer_pending_lines(struct writer *w);

/* The errno of the take that failed for good; 0: none has. */
int writer_error(struct writer *w);

/* Why the last take failed that will be made again; 0: it did not fail. */
int writer_trouble(const struct writer *w);

/* A warning when takes begin to fail that will be made again, seldom: `what
 * "name": <error> -> tried again, up to N KB are kept meanwhile`. */
void writer_tell_trouble(struct writer *w, const char *what, const char *name);

/* Wait until nothing is pending, timeout_ms at most. False: something is. */
bool writer_flush(struct writer *w, int timeout_ms);

/* Wait until all is taken and end() has returned: for total_ms at most, and for
 * stall_ms at most in which nothing moves. Then the thread is told to stop, and
 * takes what is left with writer_stopped() true.
 * *error_p: of take or end; ETIMEDOUT if something was left.
 * True: the thread has ended, arg is the caller's again. False: the kernel
 * keeps it in a call; arg stays its own for ever. */
bool writer_destroy(struct writer *w, int stall_ms, int total_ms, int *error_p);

/* ---- for take and end, on the thread ------------------------------------- */

/* Until fd can be written to, timeout_ms (-1: no limit) at most. 0, or
 * ETIMEDOUT: the time is over, or the writer's is. */
int writer_await(struct writer *w, int fd, int timeout_ms);

/* Something got away: whoever waits in writer_destroy() waits on. */
void writer_moved(struct writer *w);

/* Nobody waits any longer: return soon. Any thread. */
bool writer_stopped(struct writer *w);

#endif
