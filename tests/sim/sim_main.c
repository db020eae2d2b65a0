/* sim_main.c - the program hvd-sim: many seeds, one seed with its transcript,
 * one death at every event, or seeds for a while. What it takes is arguments.c.
 *
 * Exit status 0: every invariant held and everything in the coverage table has
 * happened; 1: not; 2: usage. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arguments.h"
#include "shrink.h"

#define ULL(x) ((unsigned long long)(x))

struct tally {
    uint64_t n_runs, n_events, n_workers, end_us;
    uint64_t cover[N_COVER];
};

/* How jobs end, by the first words of their sentence. */
enum { ENDS_MAX = 24, END_MAX = 40 };
static struct {
    char words[END_MAX];
    uint64_t n;
} ends[ENDS_MAX];

static struct sim_result result; /* large: not on the stack */

static void count_end(const char *verdict)
{
    size_t n = strcspn(verdict, ":0123456789"), i = 0;

    if (n >= END_MAX)
        n = END_MAX - 1;
    while (i < ENDS_MAX - 1 && ends[i].n > 0 &&
           (strncmp(ends[i].words, verdict, n) != 0 || ends[i].words[n]))
        i++;
    memcpy(ends[i].words, verdict, n);
    ends[i].words[n] = '\0';
    ends[i].n++;
}

static void tally_add(struct tally *t)
{
    t->n_runs++;
    count_end(result.ok ? result.verdict : "violation");
    t->n_events += result.n_events;
    t->n_workers += result.n_workers;
    t->end_us += result.end_us;
    for (int i = 0; i < N_COVER; i++)
        t->cover[i] += result.cover[i];
}

static void tally_print(const struct tally *t)
{
    printf("runs %llu  events %llu  workers %llu  virtual time %llu s\n",
           ULL(t->n_runs), ULL(t->n_events), ULL(t->n_workers),
           ULL(t->end_us / 1000000));
    for (int i = 0; i < N_COVER; i++)
        printf("  %-24s %llu\n", sim_counter_names[i], ULL(t->cover[i]));
    for (int i = 0; i < ENDS_MAX && ends[i].n > 0; i++)
        printf("  ended %10llu x \"%s\"\n", ULL(ends[i].n), ends[i].words);
}

/* where: 0: everything is wanted. */
static bool covers_all(const struct tally *t, unsigned where)
{
    bool all = true;

    for (int i = 0; i < N_COVER; i++) {
        if (t->cover[i] > 0 || (where && !(sim_counter_where[i] & where)))
            continue;
        printf("never happened: %s\n", sim_counter_names[i]);
        all = false;
    }
    return all;
}

static void print_lines(void)
{
    uint64_t first = result.n_lines > SIM_LINES ? result.n_lines - SIM_LINES
                                                : 0;

    for (uint64_t i = first; i < result.n_lines; i++)
        puts(result.lines[i % SIM_LINES]);
}

static void how_to_replay(const struct sim_options *o)
{
    char less[SHRINK_TEXT_MAX];

    printf("replay: hvd-sim --replay %llu", ULL(o->seed));
    if (o->large)
        printf(" --size large");
    if (o->bug != BUG_none)
        printf(" --bug %s", sim_bug_name(o->bug));
    if (o->base)
        printf(" --base --kill-event %llu --kill %llu", ULL(o->kill_event),
               ULL(o->kill_worker));
    if (o->kill_worker_too)
        printf(" --kill-too %llu", ULL(o->kill_worker_too));
    if (o->succeed_event)
        printf(" --succeed-event %llu --succeed-lost %llu --succeed-us %llu",
               ULL(o->succeed_event), ULL(o->succeed_lost), ULL(o->succeed_us));
    if (memcmp(&o->less, &SIM_LESS_NOTHING, sizeof(o->less)) != 0) {
        shrink_print(&o->less, less);
        printf(" --less %s", less);
    }
    if (o->meddle != MEDDLE_NOT)
        printf(" --meddle %d --meddle-event %llu --meddle-us %llu",
               (int)o->meddle, ULL(o->meddle_event), ULL(o->meddle_us));
    puts("");
}

static bool shows_as_it_is; /* --no-shrink */

static void make_smaller(struct sim_options *options)
{
    struct shrink_report report;

    shrink(options, &SHRINK_LIMITS, &report);
    printf("shrunk in %llu runs: of %llu faults %llu are left\n",
           ULL(report.n_runs), ULL(report.faults_before),
           ULL(report.faults_after));
}

/* A run that fails: as small as it gets, with its transcript. */
static void show(const struct sim_options *options)
{
    struct sim_options again = *options;

    if (!shows_as_it_is && !options->base)
        make_smaller(&again);
    again.trace = true;
    sim_run(&again, &result);
    printf("seed %llu violates: %s\n", ULL(again.seed), result.violation);
    print_lines();
    how_to_replay(&again);
}

static bool run(const struct sim_options *options, struct tally *tally)
{
    sim_run(options, &result);
    tally_add(tally);
    if (result.ok)
        return true;
    show(options);
    return false;
}

/* One run, and a line if it fails. */
static bool run_briefly(const struct sim_options *options, struct tally *tally)
{
    sim_run(options, &result);
    tally_add(tally);
    if (!result.ok)
        printf("seed %llu violates: %s\n", ULL(options->seed),
               result.violation);
    return result.ok;
}

/* How many seeds fail. */
static uint64_t run_all(const struct arguments *a, struct tally *tally)
{
    struct sim_options options = a->options;
    uint64_t n_failed = 0;

    for (uint64_t i = 0; i < a->n_seeds; i++) {
        n_failed += !run_briefly(&options, tally);
        options.seed++;
    }
    return n_failed;
}

static bool run_until_one_fails(const struct arguments *a, struct tally *tally)
{
    struct sim_options options = a->options;

    for (uint64_t i = 0; i < a->n_seeds; i++) {
        if (!run(&options, tally))
            return false;
        options.seed++;
    }
    return true;
}

static int run_seeds(const struct arguments *a)
{
    struct tally tally = {0};
    const struct sim_options options = a->options;
    bool judged = !a->no_coverage && options.bug == BUG_none, failed;

    failed = a->keep_going ? run_all(a, &tally) > 0
                           : !run_until_one_fails(a, &tally);
    if (failed && !a->keep_going)
        return 1;
    tally_print(&tally);
    if (failed || !judged)
        return failed;
    return covers_all(&tally, options.large ? SIM_IN_LARGE : 0) ? 0 : 1;
}

/* ---- for a while --------------------------------------------------------- */

static uint64_t real_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The first that fails is shown, of each other one the rule. */
static uint64_t run_while(const struct arguments *a, struct tally *tally)
{
    struct sim_options options = a->options;
    uint64_t until_ms = real_ms() + a->seconds * 1000, n_failed = 0;

    for (; real_ms() < until_ms; options.seed++) {
        if (n_failed == 0) {
            n_failed += !run(&options, tally);
            continue;
        }
        n_failed += !run_briefly(&options, tally);
    }
    return n_failed;
}

static int run_soak(const struct arguments *a)
{
    struct tally tally = {0};
    uint64_t n_failed = run_while(a, &tally);

    printf("simulated: %llu runs (seeds from %llu), %llu losses, %llu "
           "recoveries, %llu violations\n",
           ULL(tally.n_runs), ULL(a->options.seed),
           ULL(tally.cover[COVER_ended_lost]),
           ULL(tally.cover[COVER_recovered]), ULL(n_failed));
    return n_failed > 0 ? 1 : 0;
}

static int run_replay(const struct arguments *a)
{
    struct sim_options options = a->options;

    options.print = true;
    sim_run(&options, &result);
    if (result.ok)
        printf("ok: status %d: %s\n", result.status, result.verdict);
    else
        printf("violation: %s\n", result.violation);
    return result.ok ? 0 : 1;
}

/* ---- exhaustive ---------------------------------------------------------- */

/* The base schedule of a seed again and again; each time another worker (now
 * and then with the one after it) dies just before another event. */
static bool every_death(struct sim_options o, uint64_t n_events,
                        uint64_t n_workers, struct tally *tally)
{
    for (uint64_t k = 1; k <= n_events; k++) {
        for (uint64_t w = 1; w <= n_workers; w++) {
            o.kill_event = k;
            o.kill_worker = w;
            o.kill_worker_too = k % 4 == 3 ? 1 + w % n_workers : 0;
            if (!run(&o, tally))
                return false;
        }
    }
    return true;
}

/* The driver dies just before each event; its successor comes soon or later,
 * and lacks none or some of what was written down last. Alone, and with a death
 * at `pairs` moments around it. */
static bool every_succession(struct sim_options o, uint64_t n_events,
                             uint64_t n_workers, uint64_t pairs,
                             struct tally *tally)
{
    static const uint64_t lost[] = {0, 1, 4}, delays_us[] = {3000, 1300000};

    for (uint64_t k = 1; k <= n_events; k++) {
        for (size_t i = 0; i < 6; i++) {
            o.succeed_event = k;
            o.succeed_lost = lost[i % 3];
            o.succeed_us = delays_us[i / 3];
            o.kill_event = 0;
            if (!run(&o, tally))
                return false;
            for (uint64_t j = 1; j <= pairs; j++) {
                o.kill_event = k + j * j - 2 < n_events ? k + j * j - 2 : k;
                o.kill_worker = 1 + (k + i + j) % n_workers;
                if (!run(&o, tally))
                    return false;
            }
        }
    }
    return true;
}

static const struct {
    enum sim_meddle meddle;
    uint64_t us;
} meddles[] = {{MEDDLE_DROP, 0},
               {MEDDLE_DOUBLE, 0},
               {MEDDLE_DELAY, 2000},
               {MEDDLE_DELAY, 40000},
               {MEDDLE_DELAY, 1200000}};
enum { N_MEDDLES = sizeof(meddles) / sizeof(meddles[0]) };

/* Each message is lost, doubled or overtaken by others; alone, and with a death
 * at `pairs` later moments. */
static bool every_message(struct sim_options o, uint64_t n_events,
                          uint64_t n_workers, uint64_t pairs,
                          struct tally *tally)
{
    for (uint64_t k = 1; k <= n_events; k++) {
        for (size_t i = 0; i < N_MEDDLES; i++) {
            o.meddle = meddles[i].meddle;
            o.meddle_us = meddles[i].us;
            o.meddle_event = k;
            o.kill_event = 0;
            if (!run(&o, tally))
                return false;
            for (uint64_t j = 1; j <= pairs; j++) {
                o.kill_event = k + j * j;
                o.kill_worker = 1 + (k + i + j) % n_workers;
                if (!run(&o, tally))
                    return false;
            }
        }
    }
    return true;
}

static int run_exhaustive(const struct arguments *a)
{
    struct tally tally = {0};
    struct sim_options options = a->options;

    options.base = true;
    for (uint64_t i = 0; i < a->n_seeds; i++) {
        uint64_t n_events, n_workers;

        options.kill_event = 0;
        if (!run(&options, &tally))
            return 1;
        n_events = result.n_events;
        n_workers = result.n_workers;
        if (!every_death(options, n_events, n_workers, &tally) ||
            !every_message(options, n_events, n_workers, a->pairs, &tally) ||
            !every_succession(options, n_events, n_workers, a->pairs, &tally))
            return 1;
        options.seed++;
    }
    tally_print(&tally);
    if (a->no_coverage)
        return 0;
    return covers_all(&tally, SIM_IN_EXHAUSTIVE) ? 0 : 1;
}

/* A row of a table. */
static void print_bug(enum sim_bug bug, uint64_t n_seeds)
{
    printf("| %s | %s | ", sim_bug_name(bug), sim_bug_text(bug));
    if (result.ok)
        puts("not found | |");
    else
        printf("%llu | %s |\n", ULL(n_seeds), result.violation);
}

/* Each broken rule must be found by some seed. */
static int run_bugs(const struct arguments *a)
{
    struct sim_options options = a->options;
    int n_missed = 0;

    puts("| bug | the rule that is broken | seeds | what is seen |\n"
         "|---|---|---|---|");
    for (int bug = BUG_none + 1; bug < N_BUG; bug++) {
        uint64_t seed = 0;

        options.bug = (enum sim_bug)bug;
        do {
            options.seed = a->options.seed + seed;
            sim_run(&options, &result);
        } while (result.ok && ++seed < a->n_seeds);
        n_missed += result.ok;
        print_bug(options.bug, seed + 1);
    }
    return n_missed > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct arguments a;

    /* runs take and free the same 50 MB again and again: keep them */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (!arguments_parse(&a, argc, argv))
        return 2;
    if (a.help) {
        arguments_help();
        return 0;
    }
    shows_as_it_is = a.no_shrink;
    if (a.replay)
        return run_replay(&a);
    if (a.bugs)
        return run_bugs(&a);
    if (a.exhaustive)
        return run_exhaustive(&a);
    return a.seconds > 0 ? run_soak(&a) : run_seeds(&a);
}
