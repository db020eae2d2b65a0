/* elastic/wire/env_check.c - see env_check.h. */
#include "elastic/wire/env_check.h"

#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/number.h"
#include "base/verify_rule.h"
#include "elastic/wire/env.h"

/* The first word is the default. */
static const struct choice {
    const char *variable, *words; /* ", " between them */
} choices[] = {
    {"HVD_TRANSPORT", "auto, tcp"},
    {"HVD_LOCAL_BUFFERS", "measured, staged, attached"},
    {"HVD_TCP_CONNECTIONS", "1, 2, 3, 4, 5, 6, 7, 8"},
    {"HVD_SIMD", "auto, scalar, avx2, avx512, neon"},
    {"HVD_DEVICE_SHARED", "0, 1"},
    {"HVD_DEVICE_SYNC", "auto, host, nccl"},
    {"HVD_STDOUT_BUFFERING", "line, block"},
    {ENV_AUTOTUNE, "0, 1"},
};

/* NULL: it takes other values than words. */
static const char *words_of(const char *variable)
{
    for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
        if (strcmp(choices[i].variable, variable) == 0)
            return choices[i].words;
    return NULL;
}

static int find_word(const char *words, const char *value)
{
    for (int i = 0; words; i++) {
        const char *end = strstr(words, ", ");
        size_t n = end ? (size_t)(end - words) : strlen(words);

        if (strlen(value) == n && memcmp(words, value, n) == 0)
            return i;
        words = end ? end + 2 : NULL;
    }
    return -1;
}

int env_choose(const char *variable, const char *value)
{
    const char *words = words_of(variable);
    int i;

    HVD_ASSERT(words);
    i = *value ? find_word(words, value) : 0;
    if (i < 0)
        (void)error_set(HVD_ERR_INVALID, "%s: \"%s\" is none of %s", variable,
                        value, words);
    return i;
}

static hvd_status_t refuse(const char *variable, const char *value,
                           const char *why)
{
    return error_set(HVD_ERR_INVALID, "%s: \"%s\" is %s", variable, value, why);
}

hvd_status_t env_check(const char *variable, const char *value)
{
    struct verify_rule rule;
    uint64_t n;

    if (words_of(variable))
        return env_choose(variable, value) < 0 ? HVD_ERR_INVALID : HVD_OK;
    if (strcmp(variable, ENV_VERIFY_STATE) == 0 &&
        !verify_rule_parse(value, &rule))
        return refuse(variable, value, "none of " VERIFY_RULE_WORDS);
    if (*value == '\0')
        return HVD_OK;
    if (strcmp(variable, ENV_FUSION_THRESHOLD) == 0 &&
        !number_parse_size(value, NAMES_FUSION_MAX, &n))
        return refuse(variable, value,
                      "no number of bytes, as 128M, up to 1024G");
    if (strcmp(variable, ENV_CACHE_CAPACITY) == 0 &&
        !number_parse_size(value, NAMES_KNOWN_MAX, &n))
        return refuse(variable, value, "no number up to 1000000");
    return HVD_OK;
}
