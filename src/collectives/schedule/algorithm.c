/* collectives/schedule/algorithm.c - see algorithm.h. Pure. */
#include "collectives/schedule/algorithm.h"

#include <limits.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "collectives/schedule/kinds.h"

static const char *const names[ALGORITHM_COUNT] = {
    [ALGORITHM_AUTO] = "auto",
    [ALGORITHM_RING] = "ring",
    [ALGORITHM_DOUBLING] = "doubling",
    [ALGORITHM_HALVING] = "halving",
    [ALGORITHM_STAR] = "star",
    [ALGORITHM_TREE] = "tree",
    [ALGORITHM_CHAIN] = "chain",
    [ALGORITHM_SCATTER] = "scatter",
    [ALGORITHM_BRUCK] = "bruck",
    [ALGORITHM_PAIRWISE] = "pairwise",
    [ALGORITHM_DISSEMINATION] = "dissemination",
    [ALGORITHM_FLAT] = "flat",
    [ALGORITHM_TWO_LEVEL] = "two-level",
};

/* --- choosing --- */

#define ANY INT_MAX, SIZE_MAX

/* By bench/algorithms for 2, 3, 4 and 8 ranks of one machine, whose TCP costs
 * what copying and switching costs. Between machines latencies are longer and
 * fewer steps pay for larger vectors still. */
static const struct algorithm_rule rules[] = {
    {COLLECTIVE_ALLREDUCE, ALGORITHM_DOUBLING, 3, 128 << 10},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_DOUBLING, INT_MAX, 32 << 10},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_RING, 3, SIZE_MAX},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_HALVING, INT_MAX, 4 << 20},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_RING, ANY},
    {COLLECTIVE_BROADCAST, ALGORITHM_STAR, 3, 128 << 10},
    {COLLECTIVE_BROADCAST, ALGORITHM_STAR, 8, 8 << 10},
    {COLLECTIVE_BROADCAST, ALGORITHM_TREE, INT_MAX, 512 << 10},
    {COLLECTIVE_BROADCAST, ALGORITHM_CHAIN, 3, SIZE_MAX},
    {COLLECTIVE_BROADCAST, ALGORITHM_SCATTER, INT_MAX, 4 << 20},
    {COLLECTIVE_BROADCAST, ALGORITHM_CHAIN, ANY},
    {COLLECTIVE_ALLGATHER, ALGORITHM_BRUCK, INT_MAX, 1 << 20},
    {COLLECTIVE_ALLGATHER, ALGORITHM_RING, ANY},
    {COLLECTIVE_ALLGATHERV, ALGORITHM_RING, ANY},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_HALVING, INT_MAX, 1 << 20},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_RING, ANY},
    {COLLECTIVE_ALLTOALL, ALGORITHM_PAIRWISE, ANY},
    {COLLECTIVE_ALLTOALLV, ALGORITHM_PAIRWISE, ANY},
    {COLLECTIVE_BARRIER, ALGORITHM_DISSEMINATION, ANY},
};

const struct algorithm_table algorithm_default = {rules, ARRAY_SIZE(rules)};

bool algorithm_fits(int kind, enum algorithm algorithm)
{
    HVD_ASSERT(kind_of(kind) != NULL);
    return algorithm == ALGORITHM_AUTO ||
           (kind_of(kind)->algorithms & (1u << algorithm)) != 0;
}

enum algorithm algorithm_choose(int kind, int size, size_t nbytes,
                                const struct algorithm_table *table)
{
    HVD_ASSERT(kind_of(kind) != NULL);
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct algorithm_rule *rule = &table->rules[i];

        if (rule->kind == kind && size <= rule->size_max &&
            nbytes <= rule->nbytes_max)
            return rule->algorithm;
    }
    return kind_of(kind)->fallback;
}

const char *algorithm_name(enum algorithm algorithm)
{
    return (unsigned)algorithm < ALGORITHM_COUNT ? names[algorithm] : "?";
}

/* --- reading --- */

struct word {
    const char *text;
    size_t n;
};

static bool is(struct word word, const char *name)
{
    return strlen(name) == word.n && memcmp(word.text, name, word.n) == 0;
}

enum { SHOWN_MAX = 40 }; /* of a bad word */

static void say_quoted(struct text *t, struct word word)
{
    text_add(t, "'");
    text_add_n(t, word.text, word.n < SHOWN_MAX ? word.n : (size_t)SHOWN_MAX);
    text_add(t, "'");
}

static void say_algorithms(struct text *t, unsigned fits)
{
    text_add(t, names[ALGORITHM_AUTO]);
    for (int a = 1; a < ALGORITHM_COUNT; a++)
        if (fits & (1u << a)) {
            text_add(t, ", ");
            text_add(t, names[a]);
        }
}

static bool unknown_algorithm(char *error, struct word name, int kind)
{
    struct text t = text_into(error, ALGORITHM_ERROR_MAX);
    unsigned fits = 0;

    for (int k = 1; k < KINDS_MAX; k++)
        fits |= kind == 0 || k == kind ? kind_of(k)->algorithms : 0;
    say_quoted(&t, name);
    text_add(&t, " is no algorithm");
    if (kind != 0) {
        text_add(&t, " of ");
        text_add(&t, kind_of(kind)->name);
    }
    text_add(&t, "; valid: ");
    say_algorithms(&t, fits);
    return false;
}

static bool unknown_kind(char *error, struct word name)
{
    struct text t = text_into(error, ALGORITHM_ERROR_MAX);

    say_quoted(&t, name);
    text_add(&t, " is no collective; valid: ");
    for (int k = 1; k < KINDS_MAX; k++) {
        text_add(&t, k == 1 ? "" : ", ");
        text_add(&t, kind_of(k)->name);
    }
    return false;
}

static bool parse_entry(struct word entry, struct algorithm_override *o,
                        char *error)
{
    const char *colon = memchr(entry.text, ':', entry.n);
    struct word kind_name = {entry.text, 0}, name = entry;
    int kind = 0, a = 0;
    bool set = false;

    if (colon != NULL) {
        kind_name.n = (size_t)(colon - entry.text);
        name = (struct word){colon + 1, entry.n - kind_name.n - 1};
        for (int k = 1; k < KINDS_MAX; k++)
            if (is(kind_name, kind_of(k)->name))
                kind = k;
        if (kind == 0)
            return unknown_kind(error, kind_name);
    }
    while (a < ALGORITHM_COUNT && !is(name, names[a]))
        a++;
    for (int k = 1; a < ALGORITHM_COUNT && k < KINDS_MAX; k++)
        if ((kind == 0 || k == kind) && algorithm_fits(k, (enum algorithm)a)) {
            o->by_kind[k] = (uint8_t)a;
            set = true;
        }
    return set || unknown_algorithm(error, name, kind);
}

bool algorithm_parse(const char *text, struct algorithm_override *override_p,
                     char *error)
{
    struct algorithm_override o = *override_p;
    const char *at = text, *end;

    do {
        end = strchr(at, ',');
        if (end == NULL)
            end = at + strlen(at);
        if (!parse_entry((struct word){at, (size_t)(end - at)}, &o, error))
            return false;
        at = end + 1;
    } while (*end != '\0');
    *override_p = o;
    return true;
}
