/* collectives/local_choice.h - how ordinary buffers are shown to the others of
 * a host: read where they are (process_vm_readv) or copied through staging
 * memory. Which is faster depends on the machine, the size and the number of
 * ranks: so it is measured by some calls of each kind and size (choice.h). Each
 * rank decides for its own buffers; either way gives the same bits.
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_LOCAL_CHOICE_H
#define COLLECTIVES_LOCAL_CHOICE_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/local_impl.h"

/* MAILBOX_ATTACH or MAILBOX_STAGED for a call that begins now. */
uint8_t local_choose(struct local *local, int kind, size_t nbytes);

/* All ranks have begun it: how late they were is not the way's fault. */
void local_choice_begins(struct local *local);

/* The call is over. */
void local_choice_ends(struct local *local);

#endif
