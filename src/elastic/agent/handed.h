/* elastic/agent/handed.h - what an agent is handed on its stdin
 * (wire/handover.h), read as it comes.
 *
 * Touches the world: waits for stdin, up to HANDED_MS in all. Threads: before
 * any is started. */
#ifndef ELASTIC_AGENT_HANDED_H
#define ELASTIC_AGENT_HANDED_H

#include <hvd/status.h>

#include "elastic/wire/handover.h"

enum { HANDED_MS = 20000 };

/* *h, zeroed, becomes whole. fd is non-blocking and closed in children from
 * then on, and what else comes on it is for nobody. HVD_ERR_INVALID with the
 * sentence: it was not whole, or there was something wrong with it;
 * HVD_ERR_SYSTEM. */
hvd_status_t handed_read(int fd, struct handover *h) HVD_MUST_CHECK;

enum handed { HANDED_NOTHING, HANDED_ENDED, HANDED_STOP };

/* Look at the other end: it may have ended, or have sent the word to stop
 * before that. Other bytes are thrown away, a bounded amount of them. */
enum handed handed_look(int fd);

#endif
