/* elastic/agent/orphans.h - ends what ended workers leave behind: processes
 * that left their worker's group, and became children of the agent when their
 * parent died (the agent is a subreaper).
 *
 * Whose an orphan is says its environment, which is read once, when the orphan
 * is new, and again whenever a worker has ended. The read waits while the
 * process holds its memory map, perhaps for ever, so a thread does it, and the
 * agent's loop never waits. A thread that is kept waiting by one process is
 * left behind for a new one, which looks at the others.
 *
 * Threads: the functions from the main thread; the looking on threads of its
 * own. Memory: the heap: two lists of what is alive, and the threads. */
#ifndef ELASTIC_AGENT_ORPHANS_H
#define ELASTIC_AGENT_ORPHANS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct orphans;

/* NULL: no memory, or no thread. Then orphans live until the agent ends: each
 * of the functions takes NULL, too. */
struct orphans *orphans_create(void);
void orphans_destroy(struct orphans *o);

/* To be called before a worker is forked: its orphans are left alone. False: no
 * memory. */
bool orphans_add(struct orphans *o, uint64_t worker);

/* A worker has ended: SIGKILL to its orphans, also to those that come later. */
void orphans_end(struct orphans *o, uint64_t worker);

/* There may be new ones. */
void orphans_look(struct orphans *o, uint64_t now_us);

/* Start another thread if one is kept waiting. To be called now and then. */
void orphans_tick(struct orphans *o, uint64_t now_us);

/* visit(arg, pid) for each child of the main thread. */
void orphans_visit(void (*visit)(void *arg, pid_t pid), void *arg);

#endif
