/* arguments.c - see arguments.h: a table of options, and their texts. */
#include "arguments.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "shrink.h"

/* ---- what an option sets ------------------------------------------------- */

static bool number(const char *text, uint64_t *value_p)
{
    char *end;

    *value_p = strtoull(text, &end, 10);
    if (end != text && *end == '\0')
        return true;
    fprintf(stderr, "hvd-sim: \"%s\" is not a number\n", text);
    return false;
}

static bool set_seconds(struct arguments *a, const char *text)
{
    if (!number(text, &a->seconds))
        return false;
    if (a->seconds == 0)
        fprintf(stderr, "hvd-sim: --seconds is 1 or more\n");
    return a->seconds > 0;
}

static bool set_replay(struct arguments *a, const char *text)
{
    a->replay = true;
    return number(text, &a->options.seed);
}

static bool set_size(struct arguments *a, const char *size)
{
    a->options.large = strcmp(size, "large") == 0;
    if (a->options.large || strcmp(size, "small") == 0)
        return true;
    fprintf(stderr, "hvd-sim: --size is small or large, not \"%s\"\n", size);
    return false;
}

static bool set_bug(struct arguments *a, const char *name)
{
    a->options.bug = sim_bug_find(name);
    if (a->options.bug != BUG_none)
        return true;
    fprintf(stderr, "hvd-sim: no bug is called \"%s\"\n", name);
    return false;
}

static bool set_less(struct arguments *a, const char *text)
{
    if (shrink_parse(text, &a->options.less))
        return true;
    fprintf(stderr, "hvd-sim: --less does not understand \"%s\"\n", text);
    return false;
}

static bool set_meddle(struct arguments *a, const char *text)
{
    uint64_t value;

    if (!number(text, &value))
        return false;
    a->options.meddle = (enum sim_meddle)value;
    if (value > MEDDLE_DELAY)
        fprintf(stderr, "hvd-sim: --meddle is at most %d\n", MEDDLE_DELAY);
    return value <= MEDDLE_DELAY;
}

/* ---- the table ----------------------------------------------------------- */

/* A flag has no `takes`; who has no `set` is a number. */
static const struct row {
    const char *name, *takes, *help;
    size_t at; /* in struct arguments */
    bool (*set)(struct arguments *a, const char *text);
} rows[] = {
#define AT(field) offsetof(struct arguments, field)
    {"seeds", "N", "run so many seeds (1)", AT(n_seeds), NULL},
    {"first-seed", "S", "the first of them (0)", AT(options.seed), NULL},
    {"seconds", "N", "run seeds for so long; one line sums up", 0, set_seconds},
    {"replay", "S", "run one seed, print its transcript", 0, set_replay},
    {"size", "small|large", "few workers, or 4,096 on 512 hosts", 0, set_size},
    {"bugs", NULL, "each rule broken on purpose must be found", AT(bugs), NULL},
    {"bug", "NAME", "break this rule on purpose", 0, set_bug},
    {"exhaustive", NULL,
     "one death, one message, one succession at every event", AT(exhaustive),
     NULL},
    {"pairs", "N", "... each with so many deaths behind it (2)", AT(pairs),
     NULL},
    {"keep-going", NULL, "a line for each seed that fails", AT(keep_going),
     NULL},
    {"no-shrink", NULL, "show a seed that fails as it is", AT(no_shrink), NULL},
    {"less", "TEXT", "what shrinking has left out of a seed", 0, set_less},
    {"no-coverage", NULL, "do not mind what never happened", AT(no_coverage),
     NULL},
    {"base", NULL, "4 workers, no fault but these:", AT(options.base), NULL},
    {"kill-event", "N", "the event before which workers die",
     AT(options.kill_event), NULL},
    {"kill", "ID", "one of them", AT(options.kill_worker), NULL},
    {"kill-too", "ID", "another one", AT(options.kill_worker_too), NULL},
    {"succeed-event", "N", "the event before which the driver dies",
     AT(options.succeed_event), NULL},
    {"succeed-lost", "N", "so many entries of its journal are lost",
     AT(options.succeed_lost), NULL},
    {"succeed-us", "US", "its successor comes so much later",
     AT(options.succeed_us), NULL},
    {"meddle", "1|2|3", "a message is dropped, doubled or delayed", 0,
     set_meddle},
    {"meddle-event", "N", "which", AT(options.meddle_event), NULL},
    {"meddle-us", "US", "how long it is delayed", AT(options.meddle_us), NULL},
    {"help", NULL, "say this", AT(help), NULL},
#undef AT
};

void arguments_help(void)
{
    puts("usage: hvd-sim [OPTION]...\n"
         "Runs the cores of driver, agents and workers under a virtual clock, "
         "with faults.\n");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        printf("  --%-14s %-12s %s\n", rows[i].name,
               rows[i].takes ? rows[i].takes : "", rows[i].help);
}

/* ---- parsing ------------------------------------------------------------- */

static bool set(struct arguments *a, const struct row *row)
{
    void *field = (char *)a + row->at;

    if (row->set)
        return row->set(a, optarg);
    if (row->takes)
        return number(optarg, field);
    *(bool *)field = true;
    return true;
}

bool arguments_parse(struct arguments *a, int argc, char **argv)
{
    struct option options[ARRAY_SIZE(rows) + 1] = {{0}};
    int row;

    *a = (struct arguments){
        .n_seeds = 1, .pairs = 2, .options.less = SIM_LESS_NOTHING};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        options[i] = (struct option){
            rows[i].name, rows[i].takes ? required_argument : no_argument, NULL,
            (int)i};
    while ((row = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (row == '?' || !set(a, &rows[row]))
            return false;
    if (optind < argc)
        fprintf(stderr, "hvd-sim: \"%s\" is not an option\n", argv[optind]);
    return optind >= argc;
}
