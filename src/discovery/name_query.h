/* discovery/name_query.h - asks the name service whether a name is one of this
 * machine's addresses. A server may take as long as it likes: a thread of its
 * own asks, and the caller waits on a descriptor as long as it wants to.
 *
 * Threads: the caller's, and one for each query, which ends when the resolver
 * does. Memory: the last of the two frees it. */
#ifndef DISCOVERY_NAME_QUERY_H
#define DISCOVERY_NAME_QUERY_H

#include <stdbool.h>

struct name_query;

/* NULL: no memory, descriptor or thread. */
struct name_query *name_query_start(const char *name);
/* Readable when there is an answer. */
int name_query_fd(const struct name_query *q);
/* false: there is none yet. */
bool name_query_answer(struct name_query *q, bool *here_p);
/* The answer is not wanted any more. NULL is fine. */
void name_query_end(struct name_query *q);

/* Is it this machine, as local_is_this_host() knows or, where that is in doubt,
 * a name service says within timeout_ms? Waits for it. */
bool name_query_is_here(const char *name, int timeout_ms);

#endif
