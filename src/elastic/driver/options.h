/* elastic/driver/options.h - the command line of hvd-elastic.
 *
 * One table (options.c) drives parsing and --help. options_check.c fills in
 * what follows from other options and refuses what contradicts them. Whatever
 * is wrong is told in one line that names the culprit, with exit status 2.
 *
 * Touches the world: reads the host file, looks at the script, makes the output
 * directory and the event log. Threads: before any is started (getopt). */
#ifndef ELASTIC_DRIVER_OPTIONS_H
#define ELASTIC_DRIVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "discovery/blacklist.h"
#include "discovery/hosts.h"

enum {
    OPTIONS_NP_MAX = 16384,
    OPTIONS_ENV_MAX = 1024, /* -x */
    OPTIONS_EXIT_USAGE = 2
};

enum launcher {
    LAUNCHER_AUTO, /* here without, elsewhere with ssh; options_check() makes
                      LAUNCHER_SLURM of it where that is meant */
    LAUNCHER_LOCAL,
    LAUNCHER_SSH,
    LAUNCHER_SLURM
};

struct options {
    /* min_np <= np <= max_np */
    uint32_t np;     /* workers of the first generation */
    uint32_t min_np; /* fewest of any later one */
    uint32_t max_np; /* 0: unbounded */

    const char *script; /* discovery script, or NULL: `hosts` never changes */
    struct hosts
        hosts; /* from -H, --hostfile or localhost; empty with script */
    uint32_t slots_per_host; /* of hosts listed without a number */
    const char *hosts_text;  /* -H as given, or NULL */
    const char *hostfile;    /* or NULL */
    uint64_t discovery_interval_us, discovery_timeout_us;

    enum launcher launcher;
    uint32_t ssh_port;             /* 0: as ssh is configured */
    const char *ssh_identity_file; /* can be read; or NULL */
    const char *ssh_command;       /* can be executed; or NULL */
    const char **env; /* heap: [n_env] of -x, NAME=VALUE, or NAME that is set */
    size_t n_env;

    const char *notice_script; /* run by each agent; or NULL */

    uint64_t elastic_timeout_us; /* below the gate */
    uint64_t start_timeout_us;   /* spawn to READY */
    uint64_t drain_timeout_us;   /* of a member that has to leave */
    uint64_t exit_timeout_us;    /* from the release to an exit; 0: none */
    uint64_t commit_timeout_us;  /* without a commit; 0: none */
    uint64_t heartbeat_interval_us, heartbeat_timeout_us;
    uint64_t hang_timeout_us;   /* 0: never evict for lack of progress */
    uint64_t stall_check_us;    /* 0: no call by name that waits is named */
    uint64_t stall_shutdown_us; /* 0: nobody is evicted for one */
    uint64_t driver_timeout_us; /* silence of the driver that ends the rest */

    int64_t reset_limit; /* generations after the first; < 0: no limit */
    uint32_t slot_restarts;
    bool strict_blacklist;
    struct blacklist_config blacklist;

    const char *network_interface; /* names, with commas; NULL: all there are */
    uint32_t control_port;         /* and the one above; 0: any */
    bool encrypt_data;             /* between workers, on the network */
    const char *verify_state;      /* base/verify_rule.h; or NULL */
    const char *fusion_threshold;  /* of calls by name, bytes; or NULL */
    const char *cache_capacity;    /* names; or NULL */
    bool autotune;                 /* calls by name */
    const char *autotune_log;      /* a file of rank 0; or NULL */

    const char *output_dir; /* exists; or NULL */
    const char *data_ports; /* LOW-HIGH; NULL: any */
    const char *event_log;  /* can be written; or NULL */
    const char *timeline;   /* can be made; or NULL */
    bool timestamps;        /* in front of lines of output */
    enum log_level log_level;

    const struct hosts *known;    /* a successor's: those of the journal, oldest
                                     first; borrowed. NULL: no successor */
    const char *job_dir;          /* the job outlives this driver; or NULL */
    const char *resume, *standby; /* of another's job; or NULL. Then nothing but
                                     what concerns this driver's own words is
                                     given here, the rest comes from there */
    bool resume_auto;             /* begin the job of job_dir, or resume it */
    bool take_over;               /* with resume: though its driver lives */
    char *words;                  /* heap: what argv borrows then */
    char *found_script;           /* heap: what `script` borrows from Slurm's */
    int argc;                     /* as it was started */
    char **argv;

    char **program; /* [n_program], then NULL: the end of argv */
    int n_program;
};

/* Parse argv [argc + 1]; o borrows from it. true: options_fini() is due, and,
 * but for a successor, options_check() before. false: leave with *exit_p,
 * everything has been said (--help and its like: 0). */
bool options_parse(int argc, char **argv, struct options *o, int *exit_p);
void options_fini(struct options *o);

/* A successor's: those of the job, as its first driver was started with
 * (argv_packed [nbytes]: strings with their NULs), and over them what
 * `given` says of its own words. A running driver tolerates that a script, a
 * hostfile or a log is missing, so nothing of that kind is refused here: a
 * hostfile that cannot be used is replaced by `known`, with a line on err.
 * False: one line on err. */
bool options_inherit(const char *argv_packed, size_t nbytes,
                     const struct options *given, const struct hosts *known,
                     struct options *o, FILE *err);

/* The path is a descriptor of the process that was given it, as <(...) is:
 * another process may have something else there. */
bool options_is_descriptor(const char *path);

/* Both, with its words going elsewhere than stdout and stderr: for tests. */
bool options_parse_to(int argc, char **argv, struct options *o, int *exit_p,
                      FILE *out, FILE *err);

/* Defaults, contradictions, files (options_check.c). false: one line on err. */
bool options_check(struct options *o, FILE *err);

/* No file that this driver writes is another option's, or its own stdout or
 * stderr. False: one line on err. */
bool options_check_own_files(const struct options *o, FILE *err);

/* "hvd-elastic: <sentence>" on err; false, so that callers can return it. */
bool options_refuse(FILE *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));

#endif
