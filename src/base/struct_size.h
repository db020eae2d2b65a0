/* base/struct_size.h - structs of a program that was compiled with other
 * headers than the library: their first field, struct_size, says how many bytes
 * it knows. Threads: any. */
#ifndef BASE_STRUCT_SIZE_H
#define BASE_STRUCT_SIZE_H

#include <stddef.h>

#include <hvd/status.h>

/* to [size] holds the defaults, and gets what `from` [from_size] says. A
 * program with older headers has fewer fields. One with newer headers has more:
 * those are refused unless they are zero, their default. HVD_ERR_INVALID:
 * from_size cannot be right; HVD_ERR_UNSUPPORTED: a newer field is used. */
hvd_status_t struct_adopt(void *to, size_t size, const void *from,
                          size_t from_size) HVD_MUST_CHECK;

/* The other way: whether a call may write to the program's struct `to`.
 * HVD_ERR_INVALID: "NAME is NULL", or its struct_size is not set. */
hvd_status_t struct_check(const void *to, const char *name) HVD_MUST_CHECK;

/* `to` has passed struct_check. It gets as much of `from` [size] as it knows,
 * and its struct_size says how much that is. */
void struct_give(void *to, const void *from, size_t size);

#endif
