/* collectives/completion.h - waiting for requests without driving them: a
 * thread with a time limit, and a program's event loop.
 *
 * Threads: any, but for completion_close(). Memory: one descriptor. */
#ifndef COLLECTIVES_COMPLETION_H
#define COLLECTIVES_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

struct hvd_request;

/* A request has just become DONE. Never blocks. */
void completion_tell(void);

/* Sleep until the request is DONE, or until_us has come. Is it DONE? */
bool completion_await(const struct hvd_request *request, uint64_t until_us);

/* The descriptor that completion_tell() makes readable; it is there from the
 * first call to completion_close(). HVD_ERR_SYSTEM. */
hvd_status_t completion_fd(int *fd_p) HVD_MUST_CHECK;
/* Does the descriptor exist? An event loop may sleep in poll(2) then, where it
 * wakes no thread of ours. */
bool completion_is_watched(void);
void completion_close(void);

#endif
