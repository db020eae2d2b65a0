/* base/verify_rule.c - see verify_rule.h. Pure. */
#include "base/verify_rule.h"

#include <string.h>

/* The text goes on with `word`, and ends there or with a comma. */
static bool skip(const char **at, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*at, word, n) != 0 || ((*at)[n] != '\0' && (*at)[n] != ','))
        return false;
    *at += n;
    return true;
}

static bool skip_number(const char **at, uint64_t *n_p)
{
    uint64_t n = 0;
    const char *first = *at;

    for (; **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(**at - '0'), &n))
            return false;
    *n_p = n;
    return *at > first && n > 0;
}

bool verify_rule_parse(const char *text, struct verify_rule *rule_p)
{
    struct verify_rule rule = {.off = false};
    const char *at = text;

    if (skip(&at, "off"))
        rule.off = true;
    else if (*at != '\0' && !skip(&at, "first") &&
             !skip_number(&at, &rule.every))
        return false;
    if (strcmp(at, ",warn") == 0 && at != text && !rule.off)
        rule.warns = true;
    else if (*at != '\0')
        return false;
    *rule_p = rule;
    return true;
}

bool verify_rule_applies(const struct verify_rule *rule, uint64_t n)
{
    if (rule->off)
        return false;
    return n <= VERIFY_FIRST_COMMITS ||
           (rule->every > 0 && n % rule->every == 0);
}
