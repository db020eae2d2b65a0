/* collectives/reduce/copy.c - a reduction of one source. See copy.h. */
#include "collectives/reduce/copy.h"

#include <stdint.h>
#include <string.h>

#include "collectives/reduce/reduce.h"

enum {
    /* below it the caches take the copy without pushing anything out */
    NONTEMPORAL_MIN = 4096,
    PIECE_NBYTES = 4 << 20 /* a quarter of a millisecond; 256 MB take 30 */
};

void copy_memory(void *dst, const void *src, size_t nbytes, bool nontemporal)
{
    static const struct reduce_shape shape = {
        .dtype = HVD_UINT8, .op = HVD_SUM, .nontemporal = true};

    if (!nontemporal || nbytes < NONTEMPORAL_MIN) {
        if (nbytes > 0)
            memcpy(dst, src, nbytes);
        return;
    }
    reduce_many(&shape, dst, &src, 1, nbytes);
}

hvd_status_t copy_in_pieces(const struct verdict *verdict, void *dst,
                            const void *src, size_t nbytes, bool nontemporal)
{
    uint8_t *to = dst;
    const uint8_t *from = src;

    for (size_t i = 0; i < nbytes && to != from; i += PIECE_NBYTES) {
        size_t n = nbytes - i < PIECE_NBYTES ? nbytes - i : PIECE_NBYTES;

        HVD_TRY(verdict_check(verdict));
        copy_memory(to + i, from + i, n, nontemporal);
    }
    return HVD_OK;
}
