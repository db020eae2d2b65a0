/* collectives/local/ordinary.h - how ordinary buffers are shown to the others
 * of a host: read where they are (process_vm_readv) or copied through staging
 * memory, and then through the caches or past them (stores.h says why). Which
 * is fastest depends on the machine, the size and the number of ranks: so it is
 * measured by some calls of each kind and size (choice.h), from when the last
 * rank has begun one to when the last has ended it. What one rank sees alone
 * says little: where they share cores, who comes late finds it done. All see
 * the same times and so choose the same, if all choose in the same calls; if
 * not, each goes by what it has tried. Each way gives the same bits. (Of an
 * alltoallv nobody knows what the others have to move: all its sizes are one.)
 * Allreduces of 64 MB and more are staged, to attach is not tried.
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_LOCAL_ORDINARY_H
#define COLLECTIVES_LOCAL_ORDINARY_H

#include <stdint.h>

#include "collectives/local/impl.h"

/* First, with each ticket that goes block by block. */
void local_choice_collect(struct local *local);

/* MAILBOX_ATTACH or MAILBOX_STAGED for the phase whose ticket begins now, if
 * this rank has an ordinary buffer to show. run.stage_nontemporal: if it
 * is staged, past the caches. */
uint8_t local_choose(struct local *local, const struct phase *phase);

/* The ticket goes block by block, on all ranks: one of them may have chosen. */
void local_choice_begins(struct local *local);
void local_choice_ends(struct local *local);

#endif
