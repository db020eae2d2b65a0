/* elastic/driver/loop_env.c - how a job's processes come to be on hosts: what
 * every SPAWN says of the environment, and who starts agents. See
 * loop_internal.h.
 *
 * A worker on this machine has the driver's environment through its agent. An
 * agent on another one has what a login there has, so SPAWN brings the driver's
 * own, without what is true of this machine, user or session only.
 *
 * Memory: the two texts, the loop's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/driver/loop_internal.h"
#include "elastic/wire/env.h"
#include "elastic/wire/env_check.h"

enum { ENV_NBYTES_MAX = 1 << 20 };

/* NAME=VALUE strings, each with its NUL. */
struct env {
    char *text;
    size_t n, max;
};

/* ---- what goes to other machines ----------------------------------------- */

static bool has_name(const char *entry, const char *name)
{
    size_t n = strlen(name);

    if (name[n - 1] == '*')
        return strncmp(entry, name, n - 1) == 0;
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static bool is_exportable(const char *entry)
{
    static const char *const kept_here[] = {
        /* who is logged in, and where from: there it is what it is there */
        "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "SSH_*", "KRB5CCNAME",
        /* the machine, and directories that may be on it alone */
        "HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "TMPDIR", "TMP", "TEMP",
        "XDG_*",
        /* the terminal and the desktop in front of this one */
        "TERM", "TERMCAP", "TERM_*", "COLORTERM", "COLUMNS", "LINES",
        "LS_COLORS", "TMUX*", "STY", "WINDOW*", "DISPLAY", "WAYLAND_*",
        "XAUTHORITY", "DBUS_*", "SESSION_MANAGER", "GPG_AGENT_INFO", "GPG_TTY",
        /* the shell's own, and its functions, as horovodrun has it */
        "PWD", "OLDPWD", "SHLVL", "_", "BASH_FUNC_*", "INVOCATION_ID",
        "JOURNAL_STREAM",
        /* devices of this machine, as horovodrun has it */
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK",
        /* ours */
        "HVD_*"};

    if (!strchr(entry, '='))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(kept_here); i++)
        if (has_name(entry, kept_here[i]))
            return false;
    return true;
}

/* ---- packing ------------------------------------------------------------- */

static hvd_status_t add(struct env *env, const char *entry, size_t n_name,
                        const char *value)
{
    size_t n_value = strlen(value) + 1;
    size_t n = n_name + 1 + n_value;

    if (env->n + n > ENV_NBYTES_MAX)
        return error_set(HVD_ERR_INVALID,
                         "the environment for workers is longer than %d bytes "
                         "(at %.*s)",
                         ENV_NBYTES_MAX, n_name < 64 ? (int)n_name : 64, entry);
    if (!array_reserve(&env->text, &env->max, env->n + n))
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    memcpy(env->text + env->n, entry, n_name);
    env->text[env->n + n_name] = '=';
    memcpy(env->text + env->n + n_name + 1, value, n_value);
    env->n += n;
    return HVD_OK;
}

static hvd_status_t add_value(struct env *env, const char *name,
                              const char *value)
{
    return add(env, name, strlen(name), value);
}

/* NAME or NAME=VALUE. A successor has the environment that it was set in. */
static hvd_status_t add_given(struct env *env, const char *given)
{
    size_t n_name = strcspn(given, "=");
    const char *value = given[n_name] ? given + n_name + 1 : getenv(given);

    return add(env, given, n_name, value ? value : "");
}

/* The last value that -x gives it, else the environment's; NULL: none. */
static const char *value_given(const struct options *o, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = o->n_env; i-- > 0;)
        if (strncmp(o->env[i], name, n) == 0 && o->env[i][n] == '=')
            return o->env[i] + n + 1;
    return getenv(name);
}

/* An option of its own counts for more than -x. */
static const char *knob_of(const struct options *o, const char *name)
{
    const struct {
        const char *name, *value;
    } options[] = {{ENV_FUSION_THRESHOLD, o->fusion_threshold},
                   {ENV_CACHE_CAPACITY, o->cache_capacity},
                   {ENV_AUTOTUNE, o->autotune ? "1" : NULL},
                   {ENV_AUTOTUNE_LOG, o->autotune_log},
                   {ENV_VERIFY_STATE, o->verify_state}};

    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        if (options[i].value && strcmp(name, options[i].name) == 0)
            return options[i].value;
    return value_given(o, name);
}

static hvd_status_t add_knobs(struct env *env, const struct options *o)
{
    static const char *const knobs[] = {ENV_KNOBS};

    for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
        const char *value = knob_of(o, knobs[i]);

        if (value && strlen(value) > ENV_KNOB_MAX)
            return error_set(HVD_ERR_INVALID, "%s: longer than %d bytes",
                             knobs[i], ENV_KNOB_MAX);
        if (!value)
            continue;
        HVD_TRY(env_check(knobs[i], value));
        HVD_TRY(add_value(env, knobs[i], value));
    }
    return HVD_OK;
}

static hvd_status_t add_all(struct env *env, const struct loop *l)
{
    const char *level = value_given(l->options, ENV_LOG_LEVEL);

    /* -x first: a worker takes the last entry of a name */
    for (size_t i = 0; i < l->options->n_env; i++)
        HVD_TRY(add_given(env, l->options->env[i]));
    /* what is longer than a name of a level is none */
    HVD_TRY(add_value(env, ENV_LOG_LEVEL,
                      level && strlen(level) < 16 ? level : "warn"));
    if (l->options->data_ports)
        HVD_TRY(add_value(env, ENV_DATA_PORTS, l->options->data_ports));
    if (l->events.trace.on)
        HVD_TRY(add_value(env, ENV_TIMELINE, l->events.trace.path));
    HVD_TRY(add_knobs(env, l->options));
    return HVD_OK;
}

static hvd_status_t pack_own(struct loop *l)
{
    struct env env = {0};
    hvd_status_t status = add_all(&env, l);

    l->env = env.text;
    l->env_nbytes = (uint32_t)env.n;
    return status;
}

/* Each agent that is a step of Slurm's has its own. */
static bool is_of_step(const struct loop *l, const char *entry)
{
    return l->options->launcher == LAUNCHER_SLURM && has_name(entry, "SLURM_*");
}

/* What is said later counts: the same for all, after what is ours. */
static hvd_status_t add_elsewhere(struct env *env, const struct loop *l)
{
    for (size_t i = 0; environ[i]; i++)
        if (is_exportable(environ[i]) && !is_of_step(l, environ[i]))
            HVD_TRY(add(env, environ[i], strcspn(environ[i], "="),
                        strchr(environ[i], '=') + 1));
    for (size_t at = 0; at < l->env_nbytes; at += strlen(l->env + at) + 1)
        HVD_TRY(add_given(env, l->env + at));
    return HVD_OK;
}

static hvd_status_t pack_elsewhere(struct loop *l)
{
    struct env env = {0};
    hvd_status_t status = add_elsewhere(&env, l);

    l->env_elsewhere = env.text;
    l->env_elsewhere_nbytes = (uint32_t)env.n;
    return status;
}

/* An environment that is too long for it is no matter to who stays here. */
static bool may_go_elsewhere(const struct options *o)
{
    if (o->launcher != LAUNCHER_AUTO || o->script)
        return o->launcher != LAUNCHER_LOCAL;
    for (size_t i = 0; i < o->hosts.n; i++)
        if (!local_is_this_host(o->hosts.items[i].name))
            return true;
    return false;
}

hvd_status_t loop_pack_env(struct loop *l)
{
    if (!l->heir || !loop_inherit_env(l))
        HVD_TRY(pack_own(l));
    return may_go_elsewhere(l->options) ? pack_elsewhere(l) : HVD_OK;
}

/* ---- the program --------------------------------------------------------- */

/* An agent on this machine inherits what is left of it, as its workers do. */
static void lack_directory(struct loop *l)
{
    log_warn("the working directory: %s -> workers begin without one: relative "
             "paths may fail, and ssh begins in the home directory",
             strerror(errno));
    l->cwd[0] = '\0';
}

hvd_status_t loop_pack_program(struct loop *l)
{
    const struct options *o = l->options;
    size_t nbytes = 0;

    for (int i = 0; i < o->n_program; i++)
        nbytes += strlen(o->program[i]) + 1;
    if (nbytes > WIRE_MESSAGE_MAX / 2)
        return error_set(HVD_ERR_INVALID, "the program's arguments are longer "
                                          "than 2 MiB");
    l->argv_packed = malloc(nbytes);
    if (!l->argv_packed)
        return error_set(HVD_ERR_NOMEM, "no memory for the arguments");
    for (int i = 0; i < o->n_program; i++) {
        size_t n = strlen(o->program[i]) + 1;

        memcpy(l->argv_packed + l->argv_nbytes, o->program[i], n);
        l->argv_nbytes += (uint32_t)n;
    }
    if (l->heir) /* it may not be there just now */
        memcpy(l->cwd, l->heir->memory.job.cwd, sizeof(l->cwd));
    else if (!getcwd(l->cwd, sizeof(l->cwd)))
        lack_directory(l);
    return HVD_OK;
}

/* ---- who starts agents --------------------------------------------------- */

hvd_status_t loop_open_launch(struct loop *l)
{
    static const struct launch_ops *const ops[] = {
        [LAUNCHER_AUTO] = NULL,
        [LAUNCHER_LOCAL] = &launch_local,
        [LAUNCHER_SSH] = &launch_ssh,
        [LAUNCHER_SLURM] = &launch_slurm};
    const struct options *o = l->options;
    struct launch_config config = {
        .endpoint = l->endpoint,
        .output_endpoint = l->output_endpoint,
        .job = l->job,
        .term = l->driver.config.term,
        .secret = l->secret,
        .data_ports = o->data_ports,
        .job_dir = o->job_dir,
        .notice_script = o->notice_script,
        .log_level = o->log_level,
        .ops = ops[o->launcher],
        .ssh_port = o->ssh_port,
        .ssh_identity_file = o->ssh_identity_file,
        .ssh_command = o->ssh_command,
        .start_timeout_us = o->start_timeout_us,
        .heartbeat_timeout_us = o->heartbeat_timeout_us};

    HVD_TRY(launch_init(&l->launch, &config));
    if (!loop_watch(l, l->launch.epoll_fd))
        return error_errno("cannot watch agents");
    return HVD_OK;
}
