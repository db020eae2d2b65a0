/* collectives/arena.h - the process's arena: one memfd that the other ranks of
 * the host map as well, mapped here once, from which hvd_alloc takes.
 *
 * Its size is virtual (at least the machine's memory, but 256 GiB at most, and
 * less where address space is short; pages come and go with hvd_alloc and
 * hvd_free) and sealed, so that nobody who has it mapped can be hurt by a
 * truncation. It has no name and lives as long as somebody maps it.
 * Where it cannot be had, or is full, hvd_alloc gives private memory.
 *
 * Threads: any. */
#ifndef COLLECTIVES_ARENA_H
#define COLLECTIVES_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The process's. -1: there is no arena, or it was closed. */
int arena_fd(void);

/* The whole mapping. 0, NULL: there is no arena. */
size_t arena_nbytes(void);
uint8_t *arena_base(void);

/* Do all of these bytes lie in the arena? *offset_p: where. */
bool arena_find(const void *ptr, size_t nbytes, uint64_t *offset_p);

/* Nobody will be handed the descriptor any more: hvd_shutdown, and in a forked
 * child, which does not have the memory either. What was allocated stays, and
 * hvd_alloc and hvd_free work on. Async-signal-safe. */
void arena_close(void);

#endif
