/* shrink.c - see shrink.h. In turns, until none makes it smaller: each kind of
 * mishap is left out; the planned faults, by halves, quarters ... one by one;
 * the messages that are late, lost or doubled, from their end and from their
 * beginning; and each fault that is left is put off, which makes a run smaller
 * if less happens in it. */
#include "shrink.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RULE_MAX = 80, PUT_OFF_MS = 500 };

struct shrinking {
    struct sim_options best;
    uint64_t n_faults, n_events, n_messages; /* of the best */
    char rule[RULE_MAX];
    const struct shrink_limits *limits;
    uint64_t n_runs, until_ms;
};

static struct sim_result result; /* large: not on the stack */

static uint64_t real_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Which invariant it was: its words as far as they are general. */
static void rule_of(const char *violation, char rule[RULE_MAX])
{
    size_t n = 0;

    for (; *violation && *violation != ':' && n < RULE_MAX - 1; violation++)
        if (!isdigit((unsigned char)*violation))
            rule[n++] = *violation;
    rule[n] = '\0';
}

static void note_best(struct shrinking *sh, const struct sim_options *options)
{
    sh->best = *options;
    sh->n_faults = result.n_faults;
    sh->n_events = result.n_events;
    sh->n_messages = result.n_messages;
}

static bool is_smaller(const struct shrinking *sh)
{
    return result.n_faults < sh->n_faults ||
           (result.n_faults == sh->n_faults && result.n_events < sh->n_events);
}

static bool is_spent(const struct shrinking *sh)
{
    return sh->n_runs >= sh->limits->n_runs || real_ms() >= sh->until_ms;
}

/* Does it fail all the same, and does less go wrong? */
static bool try(struct shrinking *sh, const struct sim_less *less)
{
    struct sim_options options = sh->best;
    char rule[RULE_MAX];

    if (is_spent(sh))
        return false;
    sh->n_runs++;
    options.less = *less;
    sim_run(&options, &result);
    rule_of(result.violation, rule);
    if (result.ok || strcmp(rule, sh->rule) != 0 || !is_smaller(sh))
        return false;
    note_best(sh, &options);
    return true;
}

/* ---- the turns ----------------------------------------------------------- */

static bool fewer_mishaps(struct shrinking *sh)
{
    bool any = false;

    for (int what = 0; what < N_MISHAPS; what++) {
        struct sim_less less = sh->best.less;

        less.mishaps |= UINT64_C(1) << what;
        any |= less.mishaps != sh->best.less.mishaps && try(sh, &less);
    }
    return any;
}

static uint64_t bits(unsigned first, unsigned n)
{
    return (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX) << first;
}

static bool fewer_faults(struct shrinking *sh)
{
    bool any = false;

    for (unsigned n = SIM_FAULTS_MAX; n > 0; n /= 2) {
        for (unsigned first = 0; first < SIM_FAULTS_MAX; first += n) {
            struct sim_less less = sh->best.less;

            less.faults |= bits(first, n);
            any |= less.faults != sh->best.less.faults && try(sh, &less);
        }
    }
    return any;
}

static bool fewer_messages_at_the_end(struct shrinking *sh)
{
    uint64_t low = sh->best.less.first_message, high = sh->n_messages;
    bool any = false;

    while (low < high) {
        struct sim_less less = sh->best.less;

        less.last_message = low + (high - low) / 2;
        if (try(sh, &less)) {
            any = true;
            high = less.last_message;
        } else {
            low = less.last_message + 1;
        }
    }
    return any;
}

static bool fewer_messages_at_the_beginning(struct shrinking *sh)
{
    uint64_t low = sh->best.less.first_message, high = sh->n_messages;
    bool any = false;

    while (low < high) {
        struct sim_less less = sh->best.less;

        less.first_message = low + (high - low + 1) / 2;
        if (try(sh, &less)) {
            any = true;
            low = less.first_message;
        } else {
            high = less.first_message - 1;
        }
    }
    return any;
}

static bool later_faults(struct shrinking *sh)
{
    bool any = false;

    for (unsigned i = SIM_FAULTS_MAX; i-- > 0;) {
        struct sim_less less = sh->best.less;

        if (less.faults >> i & 1)
            continue;
        less.put_off_ms[i] += PUT_OFF_MS;
        any |= try(sh, &less);
    }
    return any;
}

/* ---- the door ------------------------------------------------------------ */

void shrink(struct sim_options *options, const struct shrink_limits *limits,
            struct shrink_report *report_p)
{
    struct shrinking sh = {.limits = limits,
                           .until_ms = real_ms() + limits->ms};
    bool any;

    sim_run(options, &result);
    rule_of(result.violation, sh.rule);
    note_best(&sh, options);
    report_p->faults_before = sh.n_faults;
    do {
        any = fewer_mishaps(&sh);
        any |= fewer_faults(&sh);
        any |= fewer_messages_at_the_end(&sh);
        any |= fewer_messages_at_the_beginning(&sh);
        any |= later_faults(&sh);
    } while (any && !is_spent(&sh));
    *options = sh.best;
    report_p->faults_after = sh.n_faults;
    report_p->n_runs = sh.n_runs;
}

/* ---- as text ------------------------------------------------------------- */

void shrink_print(const struct sim_less *less, char text[SHRINK_TEXT_MAX])
{
    int n = snprintf(
        text, SHRINK_TEXT_MAX, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
        less->faults, less->mishaps, less->first_message, less->last_message);

    for (int i = 0; i < SIM_FAULTS_MAX && n < SHRINK_TEXT_MAX; i++)
        if (less->put_off_ms[i] > 0 && !(less->faults >> i & 1))
            n += snprintf(text + n, SHRINK_TEXT_MAX - (size_t)n, ",%d:%" PRIu32,
                          i, less->put_off_ms[i]);
}

static bool take(const char **text_p, char before, uint64_t *value_p)
{
    char *end;

    if (before && *(*text_p)++ != before)
        return false;
    *value_p = strtoull(*text_p, &end, 10);
    if (end == *text_p)
        return false;
    *text_p = end;
    return true;
}

bool shrink_parse(const char *text, struct sim_less *less_p)
{
    uint64_t fault, ms;

    memset(less_p, 0, sizeof(*less_p));
    if (!take(&text, 0, &less_p->faults) ||
        !take(&text, ',', &less_p->mishaps) ||
        !take(&text, ',', &less_p->first_message) ||
        !take(&text, ',', &less_p->last_message))
        return false;
    while (*text) {
        if (!take(&text, ',', &fault) || !take(&text, ':', &ms) ||
            fault >= SIM_FAULTS_MAX || ms > UINT32_MAX)
            return false;
        less_p->put_off_ms[fault] = (uint32_t)ms;
    }
    return true;
}
