/* base/proc.h - which process a pid is: a number is used again, a number and
 * the moment at which its process began are not.
 *
 * Touches the world: /proc. Threads: any. */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When it began, in clock ticks since the machine did. 0: there is no such
 * process, or nobody may know. */
uint64_t proc_started(pid_t pid);

/* The process that it is a child of; 0: none, or nobody may know. */
pid_t proc_parent(pid_t pid);

enum { PROC_LINE_MAX = 64 };

/* It, its parent, the parent of that, and so on, as far as they can be read:
 * how many. */
size_t proc_line(pid_t pid, pid_t line[PROC_LINE_MAX]);

/* Whether its real user is this one. */
bool proc_is_of(pid_t pid, uid_t uid);
/* The wait status of a process that has begun to end, as wait(2) will tell it;
 * -1: it is not known. */
int proc_exit_status(pid_t pid);

/* A pidfd of the process that has this number and began then; -1: it has
 * ended. */
int proc_open(pid_t pid, uint64_t started);

/* Signal it; nothing happens if it has ended. */
void proc_signal(int pidfd, int signo);

#endif
