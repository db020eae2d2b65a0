/* collectives/completion.h - who waits for requests without driving them: a
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

/* Sleep until it is DONE, or until then. Is it? */
bool completion_await(const struct hvd_request *request, uint64_t until_us);

/* The descriptor that completion_tell() makes readable; it is there from the
 * first call to completion_close(). HVD_ERR_SYSTEM. */
hvd_status_t completion_fd(int *fd_p) HVD_MUST_CHECK;
/* Does an event loop wait? It calls nothing that would wake a thread. */
bool completion_is_watched(void);
void completion_close(void);

#endif
