/* elastic/agent/main.c - hvd-agent: one per host, started by hvd-elastic,
 * starts and watches the workers of that host. Not meant to be started by hand.
 *
 * Learns who it is from the environment (wire/env.h), its token from an
 * inherited memfd; with --stdin all of it from stdin (handed.h), which is then
 * its lifeline. Exit status: 0 after an ordered end or a lost driver, 1 when
 * the driver was never reached or processes would not die, 2 for usage.
 *
 * Threads: the main thread runs the loop (loop.h). Memory: see there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/inherited.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/proc.h"
#include "base/rlimits.h"
#include "base/version.h"
#include "elastic/agent/handed.h"
#include "elastic/agent/loop.h"
#include "elastic/wire/address.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
    "usage: hvd-agent [--help] [--version] [--stdin]\n"
    "\n"
    "Starts, watches and ends the workers of one host and forwards their\n"
    "output. Started by hvd-elastic, which tells it by the environment\n"
    "(HVD_DRIVER, HVD_OUTPUT, HVD_JOB, HVD_AGENT, HVD_HOST, HVD_SECRET_FD,\n"
    "HVD_LIFELINE_FD) whom it belongs to, or, with --stdin, on stdin; not\n"
    "meant to be started by hand.\n";

/* ---- what it was told ---------------------------------------------------- */

static struct handover handed; /* with --stdin; as long as the process */
static bool by_stdin;

static const char *told(const char *name)
{
    return by_stdin ? handover_value(&handed, name) : getenv(name);
}

static hvd_status_t env_text(const char *name, const char **text_p)
{
    const char *text = told(name);

    if (!text || !*text)
        return error_set(HVD_ERR_INVALID,
                         "%s is not set: hvd-agent is started by hvd-elastic",
                         name);
    *text_p = text;
    return HVD_OK;
}

static hvd_status_t env_u64(const char *name, uint64_t max, uint64_t *value_p)
{
    const char *text;
    char *end;
    unsigned long long value;

    HVD_TRY(env_text(name, &text));
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end || text[0] < '0' || text[0] > '9' || value > max)
        return error_set(HVD_ERR_INVALID, "%s=%s is not a number it can have",
                         name, text);
    *value_p = value;
    return HVD_OK;
}

/* An inherited descriptor; from now on it is ours alone. */
static hvd_status_t env_fd(const char *name, int *fd_p)
{
    uint64_t fd;

    HVD_TRY(env_u64(name, INT32_MAX, &fd));
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
        return error_set(HVD_ERR_INVALID, "%s=%d is not an open descriptor",
                         name, (int)fd);
    *fd_p = (int)fd;
    return HVD_OK;
}

static hvd_status_t read_hello(const struct loop_options *o,
                               struct msg_agent_hello *hello)
{
    size_t n = strlen(o->site.host);

    HVD_TRY(env_u64(ENV_AGENT, UINT64_MAX, &hello->agent));
    if (n >= sizeof(hello->host))
        return error_set(HVD_ERR_INVALID, ENV_HOST "=%s is too long",
                         o->site.host);
    memcpy(hello->host, o->site.host, n + 1);
    snprintf(hello->version, sizeof(hello->version), VERSION_RELEASE "%s",
             version_commit);
    hello->pid = getpid();
    hello->started = proc_started(getpid());
    return HVD_OK;
}

static hvd_status_t read_secrets(struct wire_secrets *secrets)
{
    hvd_status_t status;
    int fd;

    HVD_TRY(env_fd(ENV_SECRET_FD, &fd));
    status = wire_secret_read(fd, secrets, sizeof(*secrets));
    close(fd);
    return status;
}

/* How the lifeline and the secrets come. */
static hvd_status_t read_inheritance(struct loop_options *o)
{
    if (by_stdin) {
        o->lifeline_fd = STDIN_FILENO;
        o->secrets = handed.secrets;
        explicit_bzero(&handed.secrets, sizeof(handed.secrets));
        return HVD_OK;
    }
    if (getenv(ENV_LIFELINE_FD))
        HVD_TRY(env_fd(ENV_LIFELINE_FD, &o->lifeline_fd));
    return read_secrets(&o->secrets);
}

static hvd_status_t read_told(struct loop_options *o)
{
    o->lifeline_fd = -1;
    o->site.secrets = &o->secrets;
    HVD_TRY(env_text(ENV_DRIVER, &o->driver));
    HVD_TRY(env_text(ENV_OUTPUT, &o->output));
    HVD_TRY(env_text(ENV_HOST, &o->site.host));
    HVD_TRY(env_u64(ENV_JOB, UINT64_MAX, &o->site.job));
    if (told(ENV_TERM)) /* else any driver that it finds is another */
        HVD_TRY(env_u64(ENV_TERM, UINT64_MAX, &o->config.term));
    o->network = told(ENV_NETWORK);
    if (told(ENV_DATA_PORTS) &&
        !address_ports(told(ENV_DATA_PORTS), &o->port_low, &o->port_high))
        return error_set(HVD_ERR_INVALID, ENV_DATA_PORTS "=%s is not LOW-HIGH",
                         told(ENV_DATA_PORTS));
    o->job_dir = told(ENV_JOB_DIR);
    o->site.job_dir = o->job_dir;
    o->notice_script = told(ENV_NOTICE_SCRIPT);
    o->far_dir = told(ENV_OUTLIVES);
    o->config.survives = o->job_dir || o->far_dir;
    o->config.remote = by_stdin && o->network;
    o->config.job = o->site.job;
    HVD_TRY(read_inheritance(o));
    return read_hello(o, &o->config.hello);
}

/* ---- process ------------------------------------------------------------- */

/* Signals become descriptors; the driver's death becomes a signal; workers'
 * orphans become our children. */
static hvd_status_t prepare_process(const struct loop_options *o)
{
    sigset_t set;

    HVD_TRY(rlimits_prepare());
    if (by_stdin && o->config.survives)
        (void)setsid(); /* the end of the login's session is not its end */
    loop_signals(&set);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return error_errno("cannot block signals");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return error_errno("cannot become a subreaper");
    /* only of the driver itself: another parent, as sshd is, may end before it,
     * and is told of by the lifeline */
    if (o->lifeline_fd >= 0 && !by_stdin &&
        prctl(PR_SET_PDEATHSIG, SIGHUP) != 0)
        return error_errno("cannot ask for a signal at the driver's death");
    return mac_init();
}

static void start_log(void)
{
    enum log_level level = LOG_LEVEL_WARN;
    const char *name = told(ENV_LOG_LEVEL);

    if (name)
        log_level_parse(name, &level); /* a wrong one: the default */
    log_init("hvd-agent", level);
}

static int parse_arguments(int argc, char **argv)
{
    by_stdin = argc == 2 && strcmp(argv[1], "--stdin") == 0;
    if (argc == 1 || by_stdin)
        return -1;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("hvd-agent " VERSION_RELEASE "%s\n", version_commit);
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "hvd-agent: error: unknown argument \"%s\"\n", argv[1]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct loop_options options = {.config = AGENT_CONFIG_DEFAULTS};
    int exit_status;

    inherited_take();
    exit_status = parse_arguments(argc, argv);
    if (exit_status >= 0)
        return exit_status;
    if (by_stdin && handed_read(STDIN_FILENO, &handed) != HVD_OK) {
        fprintf(stderr, "hvd-agent: error: %s\n", error_text());
        return EXIT_USAGE;
    }
    start_log();
    if (read_told(&options) != HVD_OK) {
        log_error("%s", error_text());
        return EXIT_USAGE;
    }
    log_set_prefix(options.site.host);
    if (prepare_process(&options) != HVD_OK ||
        loop_run(&options, &exit_status) != HVD_OK) {
        log_error("%s", error_text());
        return EXIT_FAILURE;
    }
    return exit_status;
}
