/* collectives/copy.c - a reduction of one source. See copy.h. */
#include "collectives/copy.h"

#include <string.h>

#include "collectives/reduce.h"

/* Below it the caches take the copy without pushing anything out. */
enum { STREAM_BYTES_MIN = 4096 };

void copy_memory(void *dst, const void *src, size_t nbytes, bool stream)
{
    static const struct reduce_shape shape = {
        .dtype = HVD_UINT8, .op = HVD_SUM, .stream = true};

    if (!stream || nbytes < STREAM_BYTES_MIN) {
        if (nbytes > 0)
            memcpy(dst, src, nbytes);
        return;
    }
    reduce_many(&shape, dst, &src, 1, nbytes);
}
