/* base/json.h - writing JSON: one value after the other into a buffer.
 *
 * Commas and colons come by themselves. Inside an object every value has a key,
 * inside an array and at the top the key is NULL. Text that is not UTF-8 is
 * repaired (U+FFFD for each bad byte); NaN and infinities become null. Once
 * memory or the fixed buffer is exhausted the text is void and json_text() says
 * NULL: callers check once, at the end. Reading JSON is not done here.
 *
 * Threads: none of its own. Pure. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text;
    size_t n, max;
    bool fixed;  /* the caller's buffer: does not grow */
    bool failed; /* did not fit */
    bool comma;  /* the next value needs one in front */
};

void json_init(struct json *j); /* grows on the heap */
void json_init_fixed(struct json *j, char *buffer, size_t max);
void json_fini(struct json *j);
void json_reset(struct json *j); /* empty again, keeps its memory */

void json_object_begin(struct json *j, const char *key);
void json_object_end(struct json *j);
void json_array_begin(struct json *j, const char *key);
void json_array_end(struct json *j);

void json_str(struct json *j, const char *key, const char *value);
void json_str_n(struct json *j, const char *key, const char *value, size_t n);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* Up to 15 significant digits, no more than needed. */
void json_f64(struct json *j, const char *key, double value);

/* value / 10^digits with exactly that many decimals: 1234567, 6 -> 1.234567. */
void json_scaled(struct json *j, const char *key, uint64_t value,
                 unsigned digits);

/* text [n] is JSON already. */
void json_raw(struct json *j, const char *key, const char *text, size_t n);

/* A line break between two top-level values, for JSON lines. */
void json_newline(struct json *j);

/* What was written, NUL-terminated, j->n bytes; NULL if it did not fit. Valid
 * until the next json_* call. */
const char *json_text(const struct json *j);

#endif
