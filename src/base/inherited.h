/* base/inherited.h - what a process of ours got from the program that started
 * it, and what the programs that it starts get in turn: driver and agent take
 * what they need for themselves, and pass on what the caller had.
 *
 *                   driver and agent           what they start
 *   ignored signals stay ignored               as the caller had them
 *   SIGPIPE,SIGXFSZ ignored: errors instead    as the caller had them
 *   SIGCHLD         default, as its children   default, not blocked
 *                   would not be waited for
 *   blocked signals taken by signalfd          as the caller had them
 *   descriptors 0-2 /dev/null if closed        what the starter puts there
 *   others          closed at an exec          none
 *   umask           never hides our own files  the caller's
 *                   from ourselves
 *   descriptors     as many as can be had      the caller's limit
 *                   (rlimits.h)
 *
 * Threads: the main thread, before there are others. */
#ifndef BASE_INHERITED_H
#define BASE_INHERITED_H

#include <signal.h>

/* First of all in main(): before anything is opened. */
void inherited_take(void);

/* Remove from *set what was ignored at the start: a signal that is blocked is
 * queued for a signalfd whether it is ignored or not. */
void inherited_drop_ignored(sigset_t *set);

/* In a child before its exec, when all that it needs is open. As a process that
 * has taken nothing: all signals default, none blocked. Async-signal-safe. */
void inherited_restore(void);

#endif
