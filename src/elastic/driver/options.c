/* elastic/driver/options.c - parsing by one table, and --help from it.
 *
 * getopt_long does the splitting, also abbreviations and --name=value, as
 * horovodrun's parser does; it stops at the first word that is no option, which
 * is the program. Memory: a copy of argv's pointers during the parse, because
 * horovodrun's one-dash words (-np) are respelled for getopt. */
#include "elastic/driver/options_internal.h"

#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "elastic/wire/env.h"

#define AT(field)     offsetof(struct options, field)
#define SECONDS_MAX   1e8
#define COUNT(field)  KIND_COUNT, AT(field), 1, OPTIONS_NP_MAX
#define SECONDS(from) from, SECONDS_MAX
#define TEXT(field)   KIND_TEXT, AT(field), 0, 0

const struct options_row options_table[] = {
    {"num-proc", NULL, "-np", "N", COUNT(np),
     "workers of the first generation"},
    {"min-np", "min-num-proc", NULL, "N", COUNT(min_np),
     "fewest workers that train (-np)"},
    {"max-np", "max-num-proc", NULL, "N", COUNT(max_np),
     "most workers that train (16384)"},
    {"hosts", NULL, "-H", "HOST:SLOTS,...", TEXT(hosts_text),
     "fixed hosts (localhost)"},
    {"hostfile", NULL, NULL, "FILE", TEXT(hostfile),
     "fixed hosts, one per line: HOST slots=N"},
    {"host-discovery-script", NULL, NULL, "FILE", TEXT(script),
     "script that prints hosts, HOST:SLOTS each"},
    {"slots-per-host", NULL, NULL, "N", KIND_COUNT, AT(slots_per_host), 1,
     HOSTS_SLOTS_MAX, "slots of hosts without a count (1)"},
    {"discovery-interval", NULL, NULL, "S", KIND_SECONDS,
     AT(discovery_interval_us), SECONDS(0.01), NULL},
    {"discovery-timeout", NULL, NULL, "S", KIND_SECONDS,
     AT(discovery_timeout_us), SECONDS(0.01), NULL},
    {"notice-script", NULL, NULL, "FILE", TEXT(notice_script),
     "script that announces its host's end"},
    {"elastic-timeout", NULL, NULL, "S", KIND_SECONDS, AT(elastic_timeout_us),
     SECONDS(0), "wait for enough workers at most S (600)"},
    {"start-timeout", NULL, NULL, "S", KIND_SECONDS, AT(start_timeout_us),
     SECONDS(0.01), "a worker's time to become ready (300)"},
    {"drain-timeout", NULL, NULL, "S", KIND_SECONDS, AT(drain_timeout_us),
     SECONDS(0), "a removed worker's time to leave (30)"},
    {"exit-timeout", NULL, NULL, "S", KIND_SECONDS, AT(exit_timeout_us),
     SECONDS(0), NULL},
    {"commit-timeout", NULL, NULL, "S", KIND_SECONDS, AT(commit_timeout_us),
     SECONDS(0), NULL},
    {"heartbeat-interval", NULL, NULL, "S", KIND_SECONDS,
     AT(heartbeat_interval_us), SECONDS(0.01), NULL},
    {"heartbeat-timeout", NULL, NULL, "S", KIND_SECONDS,
     AT(heartbeat_timeout_us), SECONDS(0.01),
     "a worker silent for S is dead (2)"},
    {"driver-timeout", NULL, NULL, "S", KIND_SECONDS, AT(driver_timeout_us),
     SECONDS(1), "workers end after S without driver (600)"},
    {"hang-timeout", NULL, NULL, "S", KIND_SECONDS, AT(hang_timeout_us),
     SECONDS(0), NULL},
    {"stall-check-time", NULL, NULL, "S", KIND_SECONDS, AT(stall_check_us),
     SECONDS(0), NULL},
    {"stall-shutdown-time", NULL, NULL, "S", KIND_SECONDS,
     AT(stall_shutdown_us), SECONDS(0), NULL},
    {"reset-limit", NULL, NULL, "N", KIND_LIMIT, AT(reset_limit), 0, 1e9,
     "changes of the group at most (no limit)"},
    {"slot-restarts", NULL, NULL, "N", KIND_COUNT, AT(slot_restarts), 0, 32,
     "failures of a slot in 10 minutes (3)"},
    {"strict-blacklist", NULL, NULL, NULL, KIND_FLAG, AT(strict_blacklist), 0,
     0, "one failure blacklists its host"},
    {"blacklist-cooldown-range", NULL, NULL, "LOW HIGH", KIND_COOLDOWN, 0,
     SECONDS(0.001), NULL},
    {"encrypt-data", NULL, NULL, NULL, KIND_FLAG, AT(encrypt_data), 0, 0,
     "encrypt data between workers over TCP"},
    {"verify-state", NULL, NULL, "N", TEXT(verify_state),
     "compare states at every N-th commit"},
    {"fusion-threshold", NULL, NULL, "BYTES", TEXT(fusion_threshold), NULL},
    {"cache-capacity", NULL, NULL, "N", TEXT(cache_capacity), NULL},
    {"autotune", NULL, NULL, NULL, KIND_FLAG, AT(autotune), 0, 0, NULL},
    {"autotune-log", "autotune-log-file", NULL, "FILE", TEXT(autotune_log),
     NULL},
    {"launcher", NULL, NULL, "LAUNCHER", KIND_LAUNCHER, 0, 0, 0,
     "how agents start: local ssh slurm (auto)"},
    {"ssh-port", NULL, "-p", "N", KIND_COUNT, AT(ssh_port), 1, 65535, NULL},
    {"ssh-identity-file", NULL, "-i", "FILE", TEXT(ssh_identity_file), NULL},
    {"ssh-command", NULL, NULL, "FILE", TEXT(ssh_command), NULL},
    {"env", NULL, "-x", "NAME[=VALUE]", KIND_ENV, 0, 0, 0,
     "set a variable of workers; repeatable"},
    {"network-interface", NULL, NULL, "A,B", TEXT(network_interface),
     "networks of the job, on all hosts (all)"},
    {"control-port", NULL, NULL, "N", KIND_COUNT, AT(control_port), 1, 65534,
     NULL},
    {"data-ports", NULL, NULL, "LOW-HIGH", TEXT(data_ports), NULL},
    {"output-filename", NULL, NULL, "DIR", TEXT(output_dir),
     "copy output to DIR/rank.N/stdout, stderr"},
    {"prefix-output-with-timestamp", NULL, NULL, NULL, KIND_FLAG,
     AT(timestamps), 0, 0, "time on each line of output"},
    {"event-log", NULL, NULL, "FILE", TEXT(event_log),
     "log of events, as JSON lines"},
    {"timeline", "timeline-filename", NULL, "FILE", TEXT(timeline),
     "trace for Chrome or Perfetto"},
    {"log-level", NULL, NULL, "LEVEL", KIND_LOG_LEVEL, 0, 0, 0,
     "error warn info debug trace (info)"},
    {"verbose", NULL, NULL, NULL, KIND_VERBOSE, 0, 0, 0, NULL},
    {"job-dir", NULL, NULL, "DIR", TEXT(job_dir),
     "lets the job outlive its driver"},
    {"resume", NULL, NULL, "DIR", TEXT(resume),
     "continue a job whose driver has died"},
    {"standby", NULL, NULL, "DIR", TEXT(standby),
     "resume it when its driver dies"},
    {"take-over", NULL, NULL, NULL, KIND_FLAG, AT(take_over), 0, 0,
     "with --resume: replace a hung driver"},
    {"check-build", NULL, NULL, NULL, KIND_CHECK_BUILD, 0, 0, 0,
     "print the features of this build"},
    {"help-env", NULL, NULL, NULL, KIND_HELP_ENV, 0, 0, 0,
     "print the variables of a worker"},
    {"version", NULL, "-v", NULL, KIND_VERSION, 0, 0, 0, "print the version"},
    {"help", NULL, "-h", NULL, KIND_HELP, 0, 0, 0, "print this text"},
};

enum { N_ROWS = ARRAY_SIZE(options_table), ROW_BASE = 256 };

const size_t options_n_rows = N_ROWS;

/* One parse. */
struct parse {
    int argc;
    char **argv; /* [argc + 1], own copy of the pointers */
    struct options *o;
    FILE *out, *err;
    int exit_status;
    const char *foreign; /* an option that a successor does not take */
};

bool options_refuse(FILE *err, const char *fmt, ...)
{
    va_list ap;

    fputs("hvd-elastic: ", err);
    va_start(ap, fmt);
    vfprintf(err, fmt, ap);
    va_end(ap);
    fputc('\n', err);
    return false;
}

/* ---- values ------------------------------------------------------------- */

static bool is_number(const char *text, const char *allowed)
{
    return *text != '\0' && text[strspn(text, allowed)] == '\0';
}

static bool parse_integer(struct parse *p, const struct options_row *row,
                          const char *text, int64_t *value_p)
{
    /* more digits than any limit here has would overflow strtoll */
    if (is_number(text, "0123456789") && strlen(text) < 18) {
        int64_t value = strtoll(text, NULL, 10);

        if (value >= (int64_t)row->low && value <= (int64_t)row->high) {
            *value_p = value;
            return true;
        }
    }
    return options_refuse(p->err,
                          "--%s: \"%s\" is not a number from %.0f to %.0f",
                          row->name, text, row->low, row->high);
}

static bool parse_seconds(struct parse *p, const struct options_row *row,
                          const char *text, uint64_t *us_p)
{
    char *end;
    double value = strtod(text, &end);

    if (is_number(text, "0123456789.") && *end == '\0' && value >= row->low &&
        value <= row->high) {
        *us_p = (uint64_t)(value * 1e6 + 0.5);
        return true;
    }
    return options_refuse(
        p->err, "--%s: \"%s\" is not a number of seconds from %g to %.0f",
        row->name, text, row->low, row->high);
}

/* Two words: getopt has taken the first. */
static bool parse_cooldown(struct parse *p, const struct options_row *row,
                           const char *low)
{
    struct blacklist_config *config = &p->o->blacklist;

    if (optind >= p->argc)
        return options_refuse(p->err, "--%s: needs two values, LOW and HIGH",
                              row->name);
    if (!parse_seconds(p, row, low, &config->low_us) ||
        !parse_seconds(p, row, p->argv[optind], &config->high_us))
        return false;
    if (config->low_us > config->high_us)
        return options_refuse(p->err, "--%s: LOW %s is above HIGH %s",
                              row->name, low, p->argv[optind]);
    optind++;
    config->cooldown = true;
    return true;
}

static bool parse_launcher(struct parse *p, const struct options_row *row,
                           const char *text)
{
    static const char *const names[] = {[LAUNCHER_AUTO] = "auto",
                                        [LAUNCHER_LOCAL] = "local",
                                        [LAUNCHER_SSH] = "ssh",
                                        [LAUNCHER_SLURM] = "slurm"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(text, names[i]) == 0) {
            p->o->launcher = (enum launcher)i;
            return true;
        }
    return options_refuse(p->err,
                          "--%s: \"%s\" is no launcher, try auto, local, ssh "
                          "or slurm",
                          row->name, text);
}

static bool is_name(const char *text, size_t n)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";

    return n > 0 && strchr(first, text[0]) &&
           strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") >= n;
}

/* A user sets it: HVD_ALGORITHM, but not HVD_HOST. */
static bool is_knob(const char *name, size_t n)
{
    static const char *const knobs[] = {ENV_LOG_LEVEL, ENV_KNOBS};

    for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
        if (strlen(knobs[i]) == n && memcmp(knobs[i], name, n) == 0)
            return true;
    return false;
}

static bool parse_env(struct parse *p, const char *text)
{
    struct options *o = p->o;
    size_t n = strcspn(text, "=");

    if (!is_name(text, n))
        return options_refuse(p->err, "-x: \"%s\" is not NAME or NAME=VALUE",
                              text);
    if (strncmp(text, "HVD_", 4) == 0 && !is_knob(text, n))
        return options_refuse(p->err,
                              "-x: %.*s is none of the HVD_ variables that a "
                              "user sets (see --help-env)",
                              (int)n, text);
    if (text[n] == '\0' && !getenv(text))
        return options_refuse(p->err, "-x: %s is not set here", text);
    if (o->n_env == OPTIONS_ENV_MAX)
        return options_refuse(p->err, "-x: more than %d of them",
                              OPTIONS_ENV_MAX);
    if (!o->env)
        o->env = calloc(OPTIONS_ENV_MAX, sizeof(*o->env));
    if (!o->env)
        return options_refuse(p->err, "out of memory");
    o->env[o->n_env++] = text;
    return true;
}

/* Ours in any case, and the names that horovodrun has beside them. */
static bool parse_log_level(struct parse *p, const struct options_row *row,
                            const char *text)
{
    static const struct {
        const char *name;
        enum log_level level;
    } names[] = {{"fatal", LOG_LEVEL_ERROR}, {"error", LOG_LEVEL_ERROR},
                 {"warn", LOG_LEVEL_WARN},   {"warning", LOG_LEVEL_WARN},
                 {"info", LOG_LEVEL_INFO},   {"debug", LOG_LEVEL_DEBUG},
                 {"trace", LOG_LEVEL_TRACE}};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcasecmp(text, names[i].name) == 0) {
            p->o->log_level = names[i].level;
            return true;
        }
    return options_refuse(
        p->err, "--%s: \"%s\" is none of error, warn, info, debug, trace",
        row->name, text);
}

static bool print_and_leave(struct parse *p, void (*print)(FILE *out))
{
    print(p->out);
    p->exit_status = 0;
    return false;
}

/* An option whose value lists things: a second one would replace the list. */
static bool check_once(struct parse *p, const struct options_row *row,
                       const char *before, const char *text)
{
    static const struct {
        const char *name, *remedy;
    } once[] = {{"hosts", "write one list, with a comma between hosts"},
                {"hostfile", "write all hosts into one file"},
                {"host-discovery-script", "one script prints all hosts"},
                {"network-interface", "write one list, with commas"}};

    for (size_t i = 0; before && i < ARRAY_SIZE(once); i++)
        if (strcmp(row->name, once[i].name) == 0)
            return options_refuse(
                p->err, "--%s is given twice, \"%.40s\" and \"%.40s\": %s",
                row->name, before, text, once[i].remedy);
    return true;
}

/* The kinds that fill in one field. */
static bool set_field(struct parse *p, const struct options_row *row,
                      const char *text)
{
    char *field = (char *)p->o + row->offset;
    int64_t value = 0;

    switch (row->kind) {
    case KIND_COUNT:
        if (!parse_integer(p, row, text, &value))
            return false;
        *(uint32_t *)(void *)field = (uint32_t)value;
        return true;
    case KIND_LIMIT:
        return parse_integer(p, row, text, (int64_t *)(void *)field);
    case KIND_SECONDS:
        return parse_seconds(p, row, text, (uint64_t *)(void *)field);
    case KIND_TEXT:
        if (!check_once(p, row, *(const char **)(void *)field, text))
            return false;
        *(const char **)(void *)field = text;
        return true;
    default:
        *(bool *)field = true;
        return true;
    }
}

static bool set_option(struct parse *p, const struct options_row *row,
                       const char *text)
{
    switch (row->kind) {
    case KIND_COOLDOWN:
        return parse_cooldown(p, row, text);
    case KIND_ENV:
        return parse_env(p, text);
    case KIND_LAUNCHER:
        return parse_launcher(p, row, text);
    case KIND_LOG_LEVEL:
        return parse_log_level(p, row, text);
    case KIND_VERBOSE:
        p->o->log_level = LOG_LEVEL_DEBUG;
        return true;
    case KIND_CHECK_BUILD:
        return print_and_leave(p, options_print_check_build);
    case KIND_HELP_ENV:
        return print_and_leave(p, options_print_help_env);
    case KIND_VERSION:
        return print_and_leave(p, options_print_version);
    case KIND_HELP:
        return print_and_leave(p, options_print_help);
    default:
        return set_field(p, row, text);
    }
}

/* What concerns only the words of the driver that is started with it, or says
 * which job it is. */
static bool is_successors(const char *name)
{
    static const char *const names[] = {
        "resume",    "standby",   "take-over", "output-filename",
        "event-log", "log-level", "verbose",   "prefix-output-with-timestamp"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* ---- getopt ------------------------------------------------------------- */

static const struct options_row *row_of_letter(int letter)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (options_table[i].dashed && options_table[i].dashed[1] == letter &&
            options_table[i].dashed[2] == '\0')
            return &options_table[i];
    return NULL;
}

/* names [2 * N_ROWS + 1] */
static void fill_names(struct option *names)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        struct option name = {
            .name = options_table[i].name,
            .has_arg = options_table[i].value ? required_argument : no_argument,
            .val = ROW_BASE + (int)i};

        *names++ = name;
        name.name = options_table[i].alias;
        if (name.name)
            *names++ = name;
    }
    *names = (struct option){0};
}

/* horovodrun's one-dash words, which getopt would take for letters; -n, as in
 * mpirun and srun. */
static void respell(char **word)
{
    static char num_proc[] = "--num-proc", hostfile[] = "--hostfile",
                check_build[] = "--check-build";

    if (strcmp(*word, "-np") == 0 || strcmp(*word, "-n") == 0)
        *word = num_proc;
    else if (strcmp(*word, "-hostfile") == 0)
        *word = hostfile;
    else if (strcmp(*word, "-cb") == 0)
        *word = check_build;
}

/* One dash and several letters: getopt would take -host for -h -o -s -t. */
static bool is_cluster(const char *word)
{
    return word[0] == '-' && word[1] != '-' && strlen(word) > 2;
}

static bool is_ambiguous(const char *word)
{
    size_t n = strcspn(word, "=");

    if (strncmp(word, "--", 2) != 0 || n < 3)
        return false;
    for (size_t i = 0; i < N_ROWS; i++)
        if (strncmp(options_table[i].name, word + 2, n - 2) == 0)
            return true;
    return false;
}

/* Refuse `word` in one line; `verdict` is getopt's ':' or '?'. */
static bool refuse_word(struct parse *p, int verdict, const char *word)
{
    char meant[80];

    if (verdict == ':')
        return options_refuse(p->err, "%s: a value is missing", word);
    if (!is_cluster(word) && optopt >= ROW_BASE)
        return options_refuse(p->err, "--%s: takes no value",
                              options_table[optopt - ROW_BASE].name);
    if (options_near(word, meant, sizeof(meant)))
        return options_refuse(p->err,
                              "%s is no option: did you mean %s? (see "
                              "--help)",
                              word, meant);
    if (is_ambiguous(word))
        return options_refuse(p->err, "option %s could be several (see --help)",
                              word);
    return options_refuse(p->err, "unknown option %s (see --help)", word);
}

static bool parse_words(struct parse *p)
{
    struct option names[2 * N_ROWS + 1];
    const struct options_row *row;
    int at, found;

    fill_names(names);
    optind = 0; /* glibc: forget an earlier parse */
    opterr = 0;
    while (true) {
        at = optind > 0 ? optind : 1;
        if (at < p->argc) {
            respell(&p->argv[at]);
            if (is_cluster(p->argv[at]))
                return refuse_word(p, '?', p->argv[at]);
        }
        found = getopt_long(p->argc, p->argv, "+:H:hi:p:vx:", names, NULL);
        if (found == -1)
            return true;
        if (found == '?' || found == ':')
            return refuse_word(p, found, p->argv[at]);
        row = found >= ROW_BASE ? &options_table[found - ROW_BASE]
                                : row_of_letter(found);
        if (!is_successors(row->name))
            p->foreign = row->name;
        if (!set_option(p, row, optarg))
            return false;
    }
}

/* A directory may have this name, but then no other is given. */
static void see_auto(struct options *o)
{
    if (!o->resume || !o->job_dir || strcmp(o->resume, "auto") != 0)
        return;
    o->resume_auto = true;
    o->resume = NULL;
}

static bool check_successor(struct parse *p)
{
    const struct options *o = p->o;
    const char *which = o->resume ? "--resume" : "--standby";

    if (o->resume && o->standby)
        return options_refuse(p->err, "--resume and --standby exclude each "
                                      "other");
    if (o->resume_auto && o->standby)
        return options_refuse(p->err, "--resume auto and --standby exclude "
                                      "each other");
    if (o->take_over && !o->resume && !o->resume_auto)
        return options_refuse(p->err, "--take-over goes with --resume");
    if (!o->resume && !o->standby)
        return true;
    if (p->foreign)
        return options_refuse(p->err, "%s takes --%s from the job", which,
                              p->foreign);
    if (o->n_program > 0)
        return options_refuse(p->err, "%s takes the program from the job",
                              which);
    return options_check_own_files(o, p->err);
}

static const struct options defaults = {
    .slots_per_host = 1,
    .discovery_timeout_us = 10000000,
    .elastic_timeout_us = 600000000,
    .start_timeout_us = 300000000,
    .drain_timeout_us = 30000000,
    .exit_timeout_us = 3600000000,
    .commit_timeout_us = 3600000000,
    .stall_check_us = 60000000,
    .heartbeat_interval_us = 1000000,
    .heartbeat_timeout_us = 2000000,
    .driver_timeout_us = 600000000,
    .reset_limit = -1,
    .slot_restarts = 3,
    .log_level = LOG_LEVEL_INFO,
};

/* Unless it is said otherwise; by Horovod's rule it is for good. */
static const struct blacklist_config cooldown = {true, 10000000, 600000000};

static bool parse(int argc, char **argv, const struct hosts *known,
                  struct options *o, int *exit_p, FILE *out, FILE *err)
{
    struct parse p = {.argc = argc,
                      .o = o,
                      .out = out,
                      .err = err,
                      .exit_status = OPTIONS_EXIT_USAGE};
    bool ok;

    *o = defaults;
    o->known = known;
    p.argv = calloc((size_t)argc + 1, sizeof(*p.argv));
    if (!p.argv) {
        *exit_p = 1;
        return options_refuse(err, "out of memory");
    }
    memcpy(p.argv, argv, (size_t)argc * sizeof(*argv));
    ok = parse_words(&p);
    free(p.argv);
    if (ok) {
        o->argc = argc;
        o->argv = argv;
        o->program = argv + optind;
        o->n_program = argc - optind;
        if (!o->blacklist.cooldown && !o->strict_blacklist)
            o->blacklist = cooldown;
        see_auto(o);
        ok = check_successor(&p);
    }
    if (!ok) {
        options_fini(o);
        *exit_p = p.exit_status;
    }
    return ok;
}

bool options_parse_to(int argc, char **argv, struct options *o, int *exit_p,
                      FILE *out, FILE *err)
{
    if (!parse(argc, argv, NULL, o, exit_p, out, err))
        return false;
    if (o->resume || o->standby || options_check(o, err))
        return true;
    options_fini(o);
    *exit_p = OPTIONS_EXIT_USAGE;
    return false;
}

bool options_parse(int argc, char **argv, struct options *o, int *exit_p)
{
    return parse(argc, argv, NULL, o, exit_p, stdout, stderr);
}

/* ---- a successor's ------------------------------------------------------- */

static bool unpack(struct options *o, const char *packed, size_t nbytes,
                   char ***argv_p, int *argc_p)
{
    int argc = 0;

    for (size_t i = 0; i < nbytes; i++)
        argc += packed[i] == '\0';
    o->words = malloc(nbytes + 1 + ((size_t)argc + 1) * sizeof(char *) +
                      sizeof(char *));
    if (!o->words)
        return false;
    /* the pointers first, where they are aligned */
    *argv_p = (char **)(void *)o->words;
    memcpy(*argv_p + argc + 1, packed, nbytes);
    packed = (char *)(*argv_p + argc + 1);
    for (int i = 0; i < argc; i++, packed += strlen(packed) + 1)
        (*argv_p)[i] = (char *)(uintptr_t)packed;
    (*argv_p)[argc] = NULL;
    *argc_p = argc;
    return true;
}

/* A number of a descriptor means another file in this process. */
static void drop_descriptors(struct options *o, FILE *err)
{
    if (!o->event_log || !options_is_descriptor(o->event_log))
        return;
    fprintf(err,
            "hvd-elastic: --event-log: \"%s\" was a descriptor of the driver "
            "before -> there is no event log from now on\n",
            o->event_log);
    o->event_log = NULL;
}

static void take_words(struct options *o, const struct options *given)
{
    if (given->event_log)
        o->event_log = given->event_log;
    if (given->output_dir)
        o->output_dir = given->output_dir;
    if (given->log_level != defaults.log_level)
        o->log_level = given->log_level;
    o->timestamps |= given->timestamps;
}

bool options_inherit(const char *argv_packed, size_t nbytes,
                     const struct options *given, const struct hosts *known,
                     struct options *o, FILE *err)
{
    struct options unpacked = {0};
    char **argv;
    int argc, exit_status;

    if (!unpack(&unpacked, argv_packed, nbytes, &argv, &argc))
        return options_refuse(err, "out of memory");
    if (!parse(argc, argv, known, o, &exit_status, err, err)) {
        free(unpacked.words);
        return false;
    }
    o->words = unpacked.words;
    if (!options_check(o, err)) {
        options_fini(o);
        return false;
    }
    if (given->event_log)
        o->event_log = NULL;
    drop_descriptors(o, err);
    take_words(o, given);
    return true;
}

void options_fini(struct options *o)
{
    hosts_fini(&o->hosts);
    free(o->env);
    o->env = NULL;
    o->n_env = 0;
    free(o->words);
    o->words = NULL;
    free(o->found_script);
    o->found_script = NULL;
}
