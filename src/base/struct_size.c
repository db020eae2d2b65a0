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

static size_t size_said_by(const void *to)
{
    size_t size;

    memcpy(&size, to, sizeof(size));
    return size;
}

hvd_status_t struct_check(const void *to, const char *name)
{
    if (!to)
        return error_set(HVD_ERR_INVALID, "%s is NULL", name);
    if (size_said_by(to) <= sizeof(size_t))
        return error_set(HVD_ERR_INVALID, "struct_size is not set");
    return HVD_OK;
}

void struct_give(void *to, const void *from, size_t size)
{
    if (size_said_by(to) < size)
        size = size_said_by(to);
    memcpy(to, from, size);
    memcpy(to, &size, sizeof(size));
}
