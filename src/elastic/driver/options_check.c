/* elastic/driver/options_check.c - what follows from the options, what
 * contradicts them, and the files that can be looked at before the start. See
 * options.h.
 *
 * Whether the program exists is not checked: it may be only on the hosts. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/interfaces.h"
#include "base/number.h"
#include "base/tracefile.h"
#include "base/verify_rule.h"
#include "discovery/name_query.h"
#include "discovery/script.h"
#include "elastic/driver/options_internal.h"
#include "elastic/driver/slurm.h"
#include "elastic/wire/address.h"
#include "elastic/wire/env.h"

enum {
    HOSTFILE_MAX = 4 << 20,
    HOSTFILE_MS = 10000, /* for the bytes of a pipe */
    NETWORK_MAX = 300,
    NAME_MS = 2000, /* for a name service's answer */
    DISCOVERY_US = 1000000,
    DISCOVERY_SLURM_US = 10000000 /* slurmctld has others to answer */
};

/* ---- hosts -------------------------------------------------------------- */

static bool check_one_source(const struct options *o, FILE *err)
{
    const char *given[3];
    size_t n = 0;

    if (o->hosts_text)
        given[n++] = "-H";
    if (o->hostfile)
        given[n++] = "--hostfile";
    if (o->script)
        given[n++] = "--host-discovery-script";
    if (n < 2)
        return true;
    return options_refuse(err, "%s and %s exclude each other", given[0],
                          given[1]);
}

static bool check_script(const struct options *o, FILE *err)
{
    struct command script;
    hvd_status_t status = script_init(&script, o->script,
                                      o->discovery_timeout_us);

    command_fini(&script);
    return status == HVD_OK || options_refuse(err, "%s", error_text());
}

/* What a job of its own is made for, unless it is said. Nodes that go are why
 * there is a job at all. */
static void size_by_slurm(struct options *o)
{
    if (o->np > 0 || slurm_pool())
        return;
    o->np = slurm_tasks(OPTIONS_NP_MAX);
    if (o->max_np > 0 && o->np > o->max_np)
        o->np = o->max_np;
    if (o->np > 0 && o->min_np == 0)
        o->min_np = 1;
}

static bool hosts_by_slurm(struct options *o, FILE *err)
{
    o->found_script = malloc(PATH_MAX);
    if (!o->found_script)
        return options_refuse(err, "out of memory");
    if (slurm_find_discovery(o->found_script) != HVD_OK)
        return options_refuse(err, "%s", error_text());
    o->script = o->found_script;
    if (o->discovery_interval_us == 0)
        o->discovery_interval_us = DISCOVERY_SLURM_US;
    size_by_slurm(o);
    return true;
}

/* Inside an allocation no option is needed. */
static bool choose_slurm(struct options *o, FILE *err)
{
    bool given = o->hosts_text || o->hostfile || o->script;

    if (o->launcher == LAUNCHER_AUTO && !given && slurm_is_here())
        o->launcher = LAUNCHER_SLURM;
    if (o->launcher != LAUNCHER_SLURM)
        return true;
    if (!slurm_job() && !slurm_pool())
        return options_refuse(err, "--launcher slurm: neither SLURM_JOB_ID nor "
                                   "HVD_SLURM_JOB_NAME is set: not inside "
                                   "salloc or sbatch");
    return given || hosts_by_slurm(o, err);
}

static bool check_ssh(const struct options *o, FILE *err)
{
    const char *key = o->ssh_identity_file;
    struct command command;
    struct stat st;
    hvd_status_t status;

    if (key && stat(key, &st) == 0 && !S_ISREG(st.st_mode))
        return options_refuse(err,
                              "--ssh-identity-file: \"%s\" is not a regular "
                              "file",
                              key);
    if (key && access(key, R_OK) != 0)
        return options_refuse(err, "--ssh-identity-file: \"%s\": %s", key,
                              strerror(errno));
    if (!o->ssh_command)
        return true;
    status = command_init(&command, "--ssh-command", o->ssh_command, 0);
    command_fini(&command);
    return status == HVD_OK || options_refuse(err, "%s", error_text());
}

/* All hosts have it where it is here. */
static bool check_notice_script(const struct options *o, FILE *err)
{
    struct command script;
    hvd_status_t status = HVD_OK;

    if (!o->notice_script)
        return true;
    if (strlen(o->notice_script) >= PATH_MAX)
        return options_refuse(err, "--notice-script: %s",
                              strerror(ENAMETOOLONG));
    status = command_init(&script, "--notice-script", o->notice_script, 0);
    command_fini(&script);
    return status == HVD_OK || options_refuse(err, "%s", error_text());
}

/* ETIMEDOUT: a pipe, and nobody writes to it. */
static ssize_t read_in_time(int fd, char *to, size_t n)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    errno = ETIMEDOUT;
    return poll(&p, 1, HOSTFILE_MS) > 0 ? read(fd, to, n) : -1;
}

/* malloc'ed text of a small file; NULL with errno. */
static char *read_file(const char *path, size_t *nbytes_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), saved;
    char *text = malloc(HOSTFILE_MAX);
    size_t n = 0;
    ssize_t got = fd >= 0 && text ? 1 : -1;

    while (got > 0 && n < HOSTFILE_MAX) {
        got = read_in_time(fd, text + n, HOSTFILE_MAX - n);
        n += got > 0 ? (size_t)got : 0;
    }
    saved = got > 0 ? EFBIG : errno;
    if (fd >= 0)
        close(fd);
    if (got == 0) {
        *nbytes_p = n;
        return text;
    }
    free(text);
    errno = saved;
    return NULL;
}

static bool read_hostfile(struct options *o, FILE *err)
{
    char sentence[HOSTS_ERROR_MAX];
    size_t nbytes;
    char *text = read_file(o->hostfile, &nbytes);
    bool ok;

    if (!text)
        return options_refuse(err, "--hostfile: \"%s\": %s", o->hostfile,
                              errno == ETIMEDOUT
                                  ? "it is a pipe, and nothing came for 10 s"
                                  : strerror(errno));
    ok = hosts_parse(text, nbytes, HOSTS_FILE, o->slots_per_host, &o->hosts,
                     sentence);
    free(text);
    return ok ||
           options_refuse(err, "--hostfile: \"%s\": %s", o->hostfile, sentence);
}

static bool read_hosts(struct options *o, FILE *err)
{
    char sentence[HOSTS_ERROR_MAX];

    if (o->hostfile)
        return read_hostfile(o, err);
    return hosts_parse(o->hosts_text, strlen(o->hosts_text), HOSTS_COMMAS,
                       o->slots_per_host, &o->hosts, sentence) ||
           options_refuse(err, "-H: %s", sentence);
}

bool options_is_descriptor(const char *path)
{
    size_t n;

    if (strncmp(path, "/dev/fd/", 8) == 0)
        return true;
    if (strncmp(path, "/proc/", 6) != 0)
        return false;
    path += 6;
    n = strcspn(path, "/");
    return strncmp(path + n, "/fd/", 4) == 0;
}

/* --launcher local starts agents on this machine only. gpu3.example.org may be
 * gpu3, which a name service knows. */
static bool check_local(const struct options *o, FILE *err)
{
    if (o->launcher != LAUNCHER_LOCAL)
        return true;
    for (size_t i = 0; i < o->hosts.n; i++)
        if (!name_query_is_here(o->hosts.items[i].name, NAME_MS))
            return options_refuse(
                err,
                "%s: host \"%s\" is not this machine, and --launcher local "
                "starts workers only here",
                o->hostfile ? "--hostfile" : "-H", o->hosts.items[i].name);
    return true;
}

/* ---- numbers ------------------------------------------------------------ */

static uint64_t count_slots(const struct hosts *hosts)
{
    uint64_t n = 0;

    for (size_t i = 0; i < hosts->n; i++)
        n += hosts->items[i].slots;
    return n;
}

/* "hvd-elastic prog -np 2": -np is one of the program's arguments. */
static bool check_behind(const struct options *o, FILE *err)
{
    for (int i = 1; i < o->n_program; i++)
        if (options_is_option(o->program[i]))
            return options_refuse(err,
                                  "-np is missing: options go before the "
                                  "program, and \"%.40s\" stands behind "
                                  "\"%.40s\"",
                                  o->program[i], o->program[0]);
    return true;
}

/* Without -np: all slots of fixed hosts, but max_np at most; else min_np. */
static bool default_np(struct options *o, FILE *err)
{
    uint64_t slots = count_slots(&o->hosts);

    if (o->np > 0)
        return true;
    if (o->hosts_text || o->hostfile) {
        if (slots == 0)
            return options_refuse(err, "%s: no slots",
                                  o->hostfile ? "--hostfile" : "-H");
        if (o->max_np > 0 && slots > o->max_np)
            slots = o->max_np;
        o->np = (uint32_t)(slots < OPTIONS_NP_MAX ? slots : OPTIONS_NP_MAX);
        return true;
    }
    o->np = o->min_np;
    if (o->np > 0)
        return true;
    if (!check_behind(o, err))
        return false;
    if (o->found_script)
        return options_refuse(err,
                              "-np is missing: nothing says how many tasks "
                              "this job of Slurm has (on this machine "
                              "alone: -H localhost:N)");
    return options_refuse(err, o->script ? "-np (or --min-np) is needed with "
                                           "--host-discovery-script"
                                         : "-np is missing: how many workers?");
}

static bool check_counts(struct options *o, FILE *err)
{
    uint64_t slots = count_slots(&o->hosts);

    if (o->min_np > 0 && o->max_np > 0 && o->min_np > o->max_np)
        return options_refuse(err, "--min-np %u is above --max-np %u",
                              o->min_np, o->max_np);
    if (!default_np(o, err))
        return false;
    /* nothing elastic was asked for: a world of fixed size */
    if (o->min_np == 0 && o->max_np == 0 && !o->script)
        o->max_np = o->np;
    if (o->min_np == 0)
        o->min_np = o->np;
    if (o->np < o->min_np)
        return options_refuse(err, "-np %u is below --min-np %u", o->np,
                              o->min_np);
    if (o->max_np > 0 && o->np > o->max_np)
        return options_refuse(err, "-np %u is above --max-np %u", o->np,
                              o->max_np);
    if (o->hosts.n > 0 && o->np > slots && !o->known)
        return options_refuse(err, "-np %u is more than the %llu slots of %s",
                              o->np, (unsigned long long)slots,
                              o->hostfile ? "--hostfile" : "-H");
    return true;
}

/* Fixed hosts, and the numbers that follow from them. */
static bool settle_hosts(struct options *o, FILE *err)
{
    if ((o->hosts_text || o->hostfile) &&
        (!read_hosts(o, err) || !check_local(o, err)))
        return false;
    return check_counts(o, err);
}

/* A fifo, or a descriptor of another process, may say nothing for ever. */
static bool is_file(const char *path)
{
    struct stat st;

    return !options_is_descriptor(path) &&
           (stat(path, &st) != 0 || S_ISREG(st.st_mode));
}

/* Returns a sentence that refuses the hostfile, malloc'ed; NULL: it is good, or
 * there is no memory for the sentence. */
static char *try_hostfile(struct options *o)
{
    char *text = NULL;
    size_t n = 0;
    FILE *words;
    bool good;

    if (!is_file(o->hostfile))
        return strdup("hvd-elastic: --hostfile: it is no file that can be "
                      "read again");
    words = open_memstream(&text, &n);
    good = words && settle_hosts(o, words);
    if (words)
        fclose(words);
    if (!good && text) {
        text[strcspn(text, "\n")] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

/* A hostfile may have been a temporary one; the journal has the hosts. */
static bool settle_inherited(struct options *o, FILE *err)
{
    struct options before = *o;
    char *wrong;

    if (!o->hostfile || (o->known->n == 0 && is_file(o->hostfile)))
        return settle_hosts(o, err);
    wrong = try_hostfile(o);
    if (!wrong && o->hosts.n > 0)
        return true;
    hosts_fini(&o->hosts);
    *o = before;
    fprintf(err, "%s -> the hosts of the journal are used\n",
            wrong ? wrong : "hvd-elastic: --hostfile lists no host");
    free(wrong);
    return (hosts_copy(o->known, &o->hosts) ||
            options_refuse(err, "out of memory")) &&
           check_counts(o, err);
}

/* horovodrun's default: as many slots here as workers. */
static bool default_hosts(struct options *o, FILE *err)
{
    char text[32], sentence[HOSTS_ERROR_MAX];

    snprintf(text, sizeof(text), "localhost:%u", o->np);
    return hosts_parse(text, strlen(text), HOSTS_COMMAS, 0, &o->hosts,
                       sentence) ||
           options_refuse(err, "-np %u: %s", o->np, sentence);
}

static bool check_times(const struct options *o, FILE *err)
{
    double interval_s = (double)o->heartbeat_interval_us / 1e6;

    if (o->heartbeat_timeout_us <= o->heartbeat_interval_us)
        return options_refuse(
            err, "--heartbeat-timeout %g is not above --heartbeat-interval %g",
            (double)o->heartbeat_timeout_us / 1e6, interval_s);
    if (o->driver_timeout_us <= 2 * o->heartbeat_interval_us)
        return options_refuse(
            err,
            "--driver-timeout %g is not above twice --heartbeat-interval %g",
            (double)o->driver_timeout_us / 1e6, interval_s);
    return true;
}

static bool check_ports(const struct options *o, FILE *err)
{
    uint16_t low, high;

    return !o->data_ports || address_ports(o->data_ports, &low, &high) ||
           options_refuse(err,
                          "--data-ports: \"%s\" is not LOW-HIGH, two ports "
                          "from 1 to 65535",
                          o->data_ports);
}

/* ---- files -------------------------------------------------------------- */

static bool make_directory(const char *path)
{
    struct stat st;

    if (!directory_make(path) || stat(path, &st) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) == 0;
}

/* What is wrong with it, or NULL. It is made under another name and then
 * renamed: the directory is what counts, and that nothing is lost by it, as
 * /dev/null would be. */
static const char *timeline_wrong(const char *path)
{
    char directory[PATH_MAX];
    struct stat st;

    if (strlen(path) >= sizeof(directory))
        return strerror(ENAMETOOLONG);
    strcpy(directory, path);
    if (access(dirname(directory), W_OK | X_OK) != 0)
        return strerror(errno);
    if (!*path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return strerror(EISDIR);
    return tracefile_may_replace(path) ? NULL : "not a regular file";
}

/* Or will be; /dev/null takes the words of many. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    if (stat(a, &x) != 0 || stat(b, &y) != 0)
        return strcmp(a, b) == 0;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Descriptor `fd` is `path`, a regular file. */
static bool is_open_as(const char *path, int fd)
{
    struct stat x, y;

    return stat(path, &x) == 0 && fstat(fd, &y) == 0 && S_ISREG(y.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* No other option and no output of this driver has the file of `option`, which
 * the job writes: one would overwrite the other. */
static bool check_alone(const struct options *o, const char *option,
                        const char *path, FILE *err)
{
    const struct {
        const char *name, *path;
    } others[] = {{"--timeline", o->timeline},
                  {"--hostfile", o->hostfile},
                  {"--host-discovery-script", o->script},
                  {"--notice-script", o->notice_script},
                  {"--ssh-identity-file", o->ssh_identity_file},
                  {"--ssh-command", o->ssh_command},
                  {"--autotune-log", o->autotune_log}};
    static const struct {
        const char *name;
        int fd;
    } outputs[] = {{"standard output", STDOUT_FILENO},
                   {"standard error", STDERR_FILENO}};

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (others[i].path && strcmp(option, others[i].name) != 0 &&
            is_same_file(path, others[i].path))
            return options_refuse(err, "%s and %s: both are \"%s\"", option,
                                  others[i].name, path);
    for (size_t i = 0; i < ARRAY_SIZE(outputs); i++)
        if (is_open_as(path, outputs[i].fd))
            return options_refuse(err, "%s and %s: both are \"%s\"", option,
                                  outputs[i].name, path);
    return true;
}

bool options_check_own_files(const struct options *o, FILE *err)
{
    return (!o->event_log ||
            check_alone(o, "--event-log", o->event_log, err)) &&
           (!o->timeline || check_alone(o, "--timeline", o->timeline, err));
}

/* A successor goes on without a log that is missing, and looks for it again. */
static bool check_inherited_output(const struct options *o, FILE *err)
{
    if (o->output_dir && !make_directory(o->output_dir))
        options_refuse(err,
                       "--output-filename: \"%s\": %s -> files are "
                       "incomplete until it is there",
                       o->output_dir, strerror(errno));
    return true;
}

static bool check_output(const struct options *o, FILE *err)
{
    const char *wrong = o->timeline ? timeline_wrong(o->timeline) : NULL;
    int fd = -1;

    if (o->output_dir && !make_directory(o->output_dir))
        return options_refuse(err, "--output-filename: \"%s\": %s",
                              o->output_dir, strerror(errno));
    if (wrong)
        return options_refuse(err, "--timeline: \"%s\": %s", o->timeline,
                              wrong);
    if (o->event_log)
        fd = open(o->event_log, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK,
                  0666);
    if (o->event_log && fd < 0)
        return options_refuse(err, "--event-log: \"%s\": %s", o->event_log,
                              strerror(errno));
    if (fd >= 0)
        close(fd);
    return options_check_own_files(o, err);
}

/* As workers read them from their environment. */
static bool check_knobs(const struct options *o, FILE *err)
{
    struct verify_rule rule;
    uint64_t n;

    if (o->verify_state && !verify_rule_parse(o->verify_state, &rule))
        return options_refuse(
            err, "--verify-state: \"%s\" is none of " VERIFY_RULE_WORDS,
            o->verify_state);
    if (o->fusion_threshold &&
        !number_parse_size(o->fusion_threshold, NAMES_FUSION_MAX, &n))
        return options_refuse(err,
                              "--fusion-threshold: \"%s\" is no number of "
                              "bytes, as 128M, up to 1024G",
                              o->fusion_threshold);
    if (o->cache_capacity &&
        (!number_parse_size(o->cache_capacity, NAMES_KNOWN_MAX, &n) || n == 0))
        return options_refuse(err,
                              "--cache-capacity: \"%s\" is no number from 1 "
                              "to 1000000",
                              o->cache_capacity);
    if (o->autotune_log &&
        (*o->autotune_log == '\0' || strlen(o->autotune_log) > ENV_KNOB_MAX))
        return options_refuse(err,
                              "--autotune-log: \"%.40s\" is no path of at most "
                              "%d bytes",
                              o->autotune_log, ENV_KNOB_MAX);
    return true;
}

/* As agents read it from their environment. */
static bool check_interfaces(const struct options *o, FILE *err)
{
    const char *names = o->network_interface;

    if (!names)
        return true;
    for (const char *name = names; *name || name == names;) {
        size_t n = strcspn(name, ",");

        if (n == 0 || n >= INTERFACE_NAME_MAX || strlen(names) > NETWORK_MAX)
            return options_refuse(err,
                                  "--network-interface: \"%s\" is no list of "
                                  "names of interfaces, as eth0,ib0",
                                  names);
        name += n + (name[n] == ',');
    }
    return true;
}

/* A successor does not look for programs: like a running driver it goes on when
 * one is away. */
static bool check_programs(const struct options *o, FILE *err)
{
    if (o->known)
        return true;
    return (!o->script || check_script(o, err)) &&
           check_notice_script(o, err) && check_ssh(o, err);
}

bool options_check(struct options *o, FILE *err)
{
    if (o->n_program == 0)
        return options_refuse(err, "no program to run (see --help)");
    if (!check_one_source(o, err) || !choose_slurm(o, err))
        return false;
    if (o->discovery_interval_us == 0)
        o->discovery_interval_us = DISCOVERY_US;
    if (!check_times(o, err) || !check_knobs(o, err) ||
        !check_interfaces(o, err) || !check_ports(o, err))
        return false;
    if (!check_programs(o, err))
        return false;
    if (!(o->known ? settle_inherited : settle_hosts)(o, err))
        return false;
    if (!o->script && o->hosts.n == 0 && !default_hosts(o, err))
        return false;
    return o->known ? check_inherited_output(o, err) : check_output(o, err);
}
