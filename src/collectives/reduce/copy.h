/* collectives/reduce/copy.h - copies that can pass the caches by. Threads: any.
 */
#ifndef COLLECTIVES_REDUCE_COPY_H
#define COLLECTIVES_REDUCE_COPY_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

#include "base/verdict.h"

/* nbytes from src to dst, which do not overlap. nontemporal: the copy is not
 * read soon, write it past the caches where the processor can (the C library's
 * memcpy() starts to do that late). Who is told of it afterwards sees it. */
void copy_memory(void *dst, const void *src, size_t nbytes, bool nontemporal);

/* The same in pieces between which the verdict is heard: then it is returned,
 * and the copy is not complete. dst may be src: nothing is done. */
hvd_status_t copy_in_pieces(const struct verdict *verdict, void *dst,
                            const void *src, size_t nbytes,
                            bool nontemporal) HVD_MUST_CHECK;

#endif
