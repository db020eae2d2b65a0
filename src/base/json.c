/* base/json.c - writing JSON. See json.h. Numbers are formatted by hand: this
 * file is pure, and printf's decimal point follows the locale. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void json_init(struct json *j)
{
    *j = (struct json){0};
}

void json_init_fixed(struct json *j, char *buffer, size_t max)
{
    HVD_ASSERT(max > 0);
    *j = (struct json){.text = buffer, .max = max, .fixed = true};
    buffer[0] = '\0';
}

void json_fini(struct json *j)
{
    if (!j->fixed)
        free(j->text);
    *j = (struct json){0};
}

void json_reset(struct json *j)
{
    j->n = 0;
    j->failed = j->comma = false;
    if (j->max > 0)
        j->text[0] = '\0';
}

const char *json_text(const struct json *j)
{
    if (j->failed)
        return NULL;
    return j->text ? j->text : "";
}

static void put(struct json *j, const char *text, size_t n)
{
    if (j->failed)
        return;
    if (j->fixed ? n >= j->max - j->n
                 : !array_reserve(&j->text, &j->max, j->n + n + 1)) {
        j->failed = true;
        return;
    }
    memcpy(j->text + j->n, text, n);
    j->n += n;
    j->text[j->n] = '\0';
}

static void put_char(struct json *j, char c)
{
    put(j, &c, 1);
}

/* ---- strings ------------------------------------------------------------ */

/* Bytes of the UTF-8 sequence at s [n], n > 0; 0: it is none. RFC 3629. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    size_t length;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* overlong, surrogates, above U+10FFFF */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

static void put_control(struct json *j, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    if (c == '\n')
        put(j, "\\n", 2);
    else if (c == '\t')
        put(j, "\\t", 2);
    else
        put(j, escape, sizeof(escape));
}

static void put_quoted(struct json *j, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;

    put_char(j, '"');
    while (i < n) {
        size_t length = utf8_length(s + i, n - i);

        if (length == 0)
            put(j, "\xef\xbf\xbd", 3);
        else if (s[i] < 0x20 || s[i] == 0x7f)
            put_control(j, s[i]);
        else if (s[i] == '"' || s[i] == '\\')
            put(j, (const char[]){'\\', (char)s[i]}, 2);
        else
            put(j, text + i, length);
        i += length ? length : 1;
    }
    put_char(j, '"');
}

static void begin_value(struct json *j, const char *key)
{
    if (j->comma)
        put_char(j, ',');
    j->comma = true;
    if (key) {
        put_quoted(j, key, strlen(key));
        put_char(j, ':');
    }
}

void json_str_n(struct json *j, const char *key, const char *value, size_t n)
{
    begin_value(j, key);
    put_quoted(j, value, n);
}

void json_str(struct json *j, const char *key, const char *value)
{
    if (value)
        json_str_n(j, key, value, strlen(value));
    else
        json_null(j, key);
}

/* ---- structure ---------------------------------------------------------- */

static void open_value(struct json *j, const char *key, char bracket)
{
    begin_value(j, key);
    put_char(j, bracket);
    j->comma = false;
}

static void close_value(struct json *j, char bracket)
{
    put_char(j, bracket);
    j->comma = true;
}

void json_object_begin(struct json *j, const char *key)
{
    open_value(j, key, '{');
}

void json_object_end(struct json *j)
{
    close_value(j, '}');
}

void json_array_begin(struct json *j, const char *key)
{
    open_value(j, key, '[');
}

void json_array_end(struct json *j)
{
    close_value(j, ']');
}

void json_newline(struct json *j)
{
    put_char(j, '\n');
    j->comma = false;
}

void json_raw(struct json *j, const char *key, const char *text, size_t n)
{
    begin_value(j, key);
    put(j, text, n);
}

void json_bool(struct json *j, const char *key, bool value)
{
    if (value)
        json_raw(j, key, "true", 4);
    else
        json_raw(j, key, "false", 5);
}

void json_null(struct json *j, const char *key)
{
    json_raw(j, key, "null", 4);
}

/* ---- numbers ------------------------------------------------------------ */

enum { DIGITS_MAX = 20 }; /* of a u64 */

/* At least min_digits of them, zeros in front. */
static void put_digits(struct json *j, uint64_t value, unsigned min_digits)
{
    char digits[DIGITS_MAX];
    size_t n = sizeof(digits);

    while (value || sizeof(digits) - n < min_digits) {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    }
    put(j, digits + n, sizeof(digits) - n);
}

static uint64_t power_of_ten(unsigned n)
{
    uint64_t p = 1;

    HVD_ASSERT(n < DIGITS_MAX);
    while (n-- > 0)
        p *= 10;
    return p;
}

static void put_scaled(struct json *j, uint64_t value, unsigned digits)
{
    uint64_t unit = power_of_ten(digits);

    put_digits(j, value / unit, 1);
    if (digits > 0) {
        put_char(j, '.');
        put_digits(j, value % unit, digits);
    }
}

void json_scaled(struct json *j, const char *key, uint64_t value,
                 unsigned digits)
{
    begin_value(j, key);
    put_scaled(j, value, digits);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    put_digits(j, value, 1);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    if (value < 0)
        put_char(j, '-');
    put_digits(j, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

/* value in [1e14, 1e15) times 10^-*shift_p; value > 0, finite. */
static uint64_t to_15_digits(double value, int *shift_p)
{
    int shift = 0;

    while (value >= 1e15) {
        value /= 10;
        shift--;
    }
    if (value < 1e14) { /* one exact power of ten where there is one */
        double scaled = value;
        double power = 1;

        while (scaled < 1e14) {
            shift++;
            if (shift <= 22) {
                power *= 10;
                scaled = value * power;
            } else {
                scaled *= 10;
            }
        }
        value = scaled;
    }
    *shift_p = shift;
    return (uint64_t)(value + 0.5);
}

/* digits * 10^-shift as people write it: plain between 1e-5 and 1e15. */
static void put_decimal(struct json *j, uint64_t digits, int shift)
{
    int n_digits = 1, exponent;

    while (digits % 10 == 0) {
        digits /= 10;
        shift--;
    }
    for (uint64_t d = digits; d >= 10; d /= 10)
        n_digits++;
    exponent = n_digits - 1 - shift;
    if (shift < 0 && exponent < 15) {
        put_digits(j, digits * power_of_ten((unsigned)-shift), 1);
        return;
    }
    if (shift >= 0 && shift < DIGITS_MAX && exponent >= -5) {
        put_scaled(j, digits, (unsigned)shift);
        return;
    }
    put_scaled(j, digits, (unsigned)(n_digits - 1));
    put(j, exponent < 0 ? "e-" : "e+", 2);
    put_digits(j, (uint64_t)(exponent < 0 ? -exponent : exponent), 1);
}

void json_f64(struct json *j, const char *key, double value)
{
    uint64_t digits;
    int shift;

    if (value - value != 0) { /* NaN or infinite */
        json_null(j, key);
        return;
    }
    begin_value(j, key);
    if (value < 0) {
        put_char(j, '-');
        value = -value;
    }
    if (value == 0) {
        put_char(j, '0');
        return;
    }
    digits = to_15_digits(value, &shift);
    put_decimal(j, digits, shift);
}
