/* base/array.h - growing arrays, and the assertion that stays on in release.
 * Threads: none of its own. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* One line on stderr, and abort(). assert.c */
void assert_failed(const char *place, const char *condition)
    __attribute__((noreturn, cold));

#define ASSERT_TEXT(line)  #line
#define ASSERT_PLACE(line) __FILE__ ":" ASSERT_TEXT(line)

/* For our mistakes, never for the world's; pure code may call it. */
#define HVD_ASSERT(condition)                                  \
    do {                                                       \
        if (__builtin_expect(!(condition), 0))                 \
            assert_failed(ASSERT_PLACE(__LINE__), #condition); \
    } while (0)

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Make room for `need` elements of `elem_nbytes` at *items_p; *max_p is the
 * capacity. New elements are zeroed. false: out of memory, nothing changed. */
bool array_reserve_bytes(void **items_p, size_t *max_p, size_t need,
                         size_t elem_nbytes);

#define array_reserve(items_p, max_p, need)                  \
    array_reserve_bytes((void **)(items_p), (max_p), (need), \
                        sizeof(**(items_p)))

/* The same, but new elements are not touched: of a large array the system gives
 * memory only for what has been written to. */
bool array_reserve_unset_bytes(void **items_p, size_t *max_p, size_t need,
                               size_t elem_nbytes);

#define array_reserve_unset(items_p, max_p, need)                  \
    array_reserve_unset_bytes((void **)(items_p), (max_p), (need), \
                              sizeof(**(items_p)))

/* Free *items_p (NULL is fine), which becomes NULL, and *max_p 0. */
void array_free_bytes(void **items_p, size_t *max_p);

#define array_free(items_p, max_p) array_free_bytes((void **)(items_p), (max_p))

#endif
