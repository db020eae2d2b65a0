/* base/struct_size.c - see struct_size.h. */
#include "base/struct_size.h"

#include <string.h>

#include "base/error.h"

enum { SIZE_LIMIT = 4096 };

hvd_status_t struct_adopt(void *to, size_t size, const void *from,
                          size_t from_size)
{
    const unsigned char *bytes = from;

    if (from_size <= sizeof(size_t) || from_size > SIZE_LIMIT)
        return error_set(HVD_ERR_INVALID,
                         "struct_size is %zu: it was not initialised",
                         from_size);
    for (size_t i = size; i < from_size; i++)
        if (bytes[i] != 0)
            return error_set(HVD_ERR_UNSUPPORTED,
                             "byte %zu is a field of a newer release", i);
    memcpy(to, from, from_size < size ? from_size : size);
    return HVD_OK;
}
