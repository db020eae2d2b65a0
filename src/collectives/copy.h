/* collectives/copy.h - copies that can pass the caches by. Threads: any. */
#ifndef COLLECTIVES_COPY_H
#define COLLECTIVES_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* nbytes from src to dst, which do not overlap. stream: the copy is not read
 * soon, write it past the caches where the processor can (memcpy() of the C
 * library starts to do that late). Seen by whoever is told of it afterwards. */
void copy_memory(void *dst, const void *src, size_t nbytes, bool stream);

#endif
