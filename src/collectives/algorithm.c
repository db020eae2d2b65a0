/* collectives/algorithm.c - see algorithm.h. Pure. */
#include "collectives/algorithm.h"

#include <limits.h>
#include <string.h>

#include "base/array.h"
#include "collectives/comm.h"

_Static_assert(ALGORITHM_KINDS == COLLECTIVE_BARRIER + 1, "every kind");

#define BIT(algorithm) (1u << ALGORITHM_##algorithm)

enum { SHARED = BIT(FLAT) | BIT(TWO_LEVEL) };

static const struct {
    const char *name;
    uint8_t fallback; /* serves any size */
    unsigned fits;
} kinds[ALGORITHM_KINDS] = {
    [COLLECTIVE_ALLREDUCE] = {"allreduce", ALGORITHM_RING,
                              BIT(RING) | BIT(DOUBLING) | BIT(HALVING) |
                                  SHARED},
    [COLLECTIVE_BROADCAST] = {"broadcast", ALGORITHM_CHAIN,
                              BIT(STAR) | BIT(TREE) | BIT(CHAIN) |
                                  BIT(SCATTER) | SHARED},
    [COLLECTIVE_ALLGATHER] = {"allgather", ALGORITHM_RING,
                              BIT(RING) | BIT(BRUCK) | SHARED},
    [COLLECTIVE_ALLGATHERV] = {"allgatherv", ALGORITHM_RING,
                               BIT(RING) | SHARED},
    [COLLECTIVE_REDUCE_SCATTER] = {"reduce_scatter", ALGORITHM_RING,
                                   BIT(RING) | BIT(HALVING) | BIT(PAIRWISE) |
                                       SHARED},
    [COLLECTIVE_ALLTOALL] = {"alltoall", ALGORITHM_PAIRWISE,
                             BIT(PAIRWISE) | SHARED},
    [COLLECTIVE_ALLTOALLV] = {"alltoallv", ALGORITHM_PAIRWISE,
                              BIT(PAIRWISE) | SHARED},
    [COLLECTIVE_BARRIER] = {"barrier", ALGORITHM_DISSEMINATION,
                            BIT(DISSEMINATION) | SHARED},
};

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
    HVD_ASSERT(kind > 0 && kind < ALGORITHM_KINDS);
    return algorithm == ALGORITHM_AUTO ||
           (kinds[kind].fits & (1u << algorithm)) != 0;
}

enum algorithm algorithm_choose(int kind, int size, size_t nbytes,
                                const struct algorithm_table *table)
{
    HVD_ASSERT(kind > 0 && kind < ALGORITHM_KINDS);
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct algorithm_rule *rule = &table->rules[i];

        if (rule->kind == kind && size <= rule->size_max &&
            nbytes <= rule->nbytes_max)
            return rule->algorithm;
    }
    return kinds[kind].fallback;
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

/* Appends what fits; the sentence may end early, but always ends. */
static void say(char *error, struct word word)
{
    size_t used = strlen(error), room = ALGORITHM_ERROR_MAX - 1 - used;
    size_t n = word.n < room ? word.n : room;

    memcpy(error + used, word.text, n);
    error[used + n] = '\0';
}

static void say_text(char *error, const char *text)
{
    say(error, (struct word){text, strlen(text)});
}

static void say_algorithms(char *error, unsigned fits)
{
    say_text(error, names[ALGORITHM_AUTO]);
    for (int a = 1; a < ALGORITHM_COUNT; a++)
        if (fits & (1u << a)) {
            say_text(error, ", ");
            say_text(error, names[a]);
        }
}

static bool unknown_algorithm(char *error, struct word name, int kind)
{
    enum { SHOWN_MAX = 40 };
    unsigned fits = 0;

    for (int k = 1; k < ALGORITHM_KINDS; k++)
        fits |= kind == 0 || k == kind ? kinds[k].fits : 0;
    error[0] = '\0';
    say_text(error, "'");
    say(error, (struct word){name.text,
                             name.n < SHOWN_MAX ? name.n : (size_t)SHOWN_MAX});
    say_text(error, "' is no algorithm");
    if (kind != 0) {
        say_text(error, " of ");
        say_text(error, kinds[kind].name);
    }
    say_text(error, "; valid: ");
    say_algorithms(error, fits);
    return false;
}

static bool unknown_kind(char *error, struct word name)
{
    enum { SHOWN_MAX = 40 };

    error[0] = '\0';
    say_text(error, "'");
    say(error, (struct word){name.text,
                             name.n < SHOWN_MAX ? name.n : (size_t)SHOWN_MAX});
    say_text(error, "' is no collective; valid: ");
    for (int k = 1; k < ALGORITHM_KINDS; k++) {
        say_text(error, k == 1 ? "" : ", ");
        say_text(error, kinds[k].name);
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
        for (int k = 1; k < ALGORITHM_KINDS; k++)
            if (is(kind_name, kinds[k].name))
                kind = k;
        if (kind == 0)
            return unknown_kind(error, kind_name);
    }
    while (a < ALGORITHM_COUNT && !is(name, names[a]))
        a++;
    for (int k = 1; a < ALGORITHM_COUNT && k < ALGORITHM_KINDS; k++)
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
