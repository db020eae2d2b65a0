/* base/text.h - sentences put together piece by piece, without stdio: what does
 * not fit is cut off, and what there is always ends with NUL.
 *
 * Pure. Threads: any. Memory: the caller's. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char *buf;
    size_t n, max; /* n < max */
};

/* buf [max], max > 0, becomes "". */
struct text text_into(char *buf, size_t max);
void text_add(struct text *t, const char *words);
void text_add_n(struct text *t, const char *words, size_t n);
void text_u64(struct text *t, uint64_t value);
/* value / 10^digits with exactly that many decimals, and a point in front of
 * them whatever the locale says: 1234, 3 -> 1.234. */
void text_scaled(struct text *t, int64_t value, unsigned digits);
/* "SIGKILL"; "signal 64" where a number has no name. */
void text_signal(struct text *t, int64_t signo);
/* "was killed by signal 9 (SIGKILL)", and of which limit the signal is. */
void text_killed(struct text *t, int64_t signo);

#endif
