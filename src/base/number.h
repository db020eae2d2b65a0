/* base/number.h - numbers that people write. Pure. Threads: any. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Of calls by name (--fusion-threshold, --cache-capacity). */
#define NAMES_FUSION_MAX (UINT64_C(1) << 40)
#define NAMES_KNOWN_MAX  UINT64_C(1000000)

/* Digits, and K, M or G behind them for 2^10, 2^20, 2^30; at most `max`. */
bool number_parse_size(const char *text, uint64_t max, uint64_t *size_p);

#endif
