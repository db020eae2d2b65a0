/* elastic/driver/loop.c - the driver's loop. See loop.h and loop_internal.h.
 *
 * The two routers' descriptors are edge-triggered: both are drained at the
 * start of each turn, so much of them as a turn may take, and a turn that has
 * left or sent something does not sleep. TIMEOUT is fed when the control socket
 * was empty: silence is judged last (M5). Somebody may see to it that it never
 * is; a tenth of a second later TIMEOUT is fed all the same, as by then each of
 * the others' messages had its turn. */
#include "elastic/driver/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rlimits.h"
#include "discovery/local.h"
#include "elastic/driver/loop_internal.h"

enum {
    CONNECT_MIN_US = 2000000,
    CONNECT_MAX_US = 10000000,
    TICK_LATE_US = 100000, /* less than what base/stall.h calls a stall */
    EPOLL_EVENTS = 64
};

#define LOOPBACK "127.0.0.1" /* other addresses: loop_network.c */

/* ---- feeding the core ---------------------------------------------------- */

static void feed_one(struct loop *l, const struct driver_event *ev)
{
    const struct driver_action *actions;
    uint64_t now_us = clock_now_us();
    bool was_stopping = l->driver.phase >= DRIVER_STOPPING, verdict;
    size_t n;

    if (!loop_acts(l))
        return;
    if (driver_step(&l->driver, ev, now_us, &actions, &n) != HVD_OK)
        log_warn("event %d was rejected", (int)ev->type);
    verdict = !was_stopping && l->driver.phase >= DRIVER_STOPPING;
    if (verdict && loop_acts(l)) /* a successor must know that they were told */
        lead_step(&l->lead, &l->driver, actions, n, true);
    /* what others wait for first, what is told about it then */
    for (size_t i = 0; i < n; i++)
        if (actions[i].type != DRIVER_ACT_RECORD && loop_acts(l))
            perform(l, &actions[i], now_us);
    for (size_t i = 0; i < n; i++)
        if (actions[i].type == DRIVER_ACT_RECORD && loop_acts(l))
            perform(l, &actions[i], now_us);
    if (loop_acts(l))
        lead_step(&l->lead, &l->driver, actions, n, false);
}

static void bury_stillborn(struct loop *l)
{
    while (l->n_stillborn > 0) {
        struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE};

        ev.u.agent.agent = l->stillborn[--l->n_stillborn];
        ev.u.agent.text = l->stillborn_text;
        ev.u.agent.here = true;
        feed_one(l, &ev);
    }
}

static void give_up_untold(struct loop *l)
{
    struct driver_event ev = {.type = DRIVER_EV_UNSAYABLE};

    if (l->untold_generation == 0)
        return;
    ev.u.unsayable.generation = l->untold_generation;
    ev.u.unsayable.text = l->untold_text;
    l->untold_generation = 0;
    feed_one(l, &ev);
}

void loop_feed(struct loop *l, const struct driver_event *ev)
{
    feed_one(l, ev);
    bury_stillborn(l);
    give_up_untold(l);
}

/* ---- discovery ----------------------------------------------------------- */

static void feed_bad_discovery(struct loop *l, bool lasts)
{
    struct driver_event ev = {.type = DRIVER_EV_DISCOVERY_BAD,
                              .u.discovery = {error_text(), lasts}};

    l->script_fails = true;
    loop_feed(l, &ev);
}

static void tell_that_it_works(struct loop *l)
{
    if (l->script_fails)
        log_info("discovery works again");
    l->script_fails = false;
}

static void start_script(struct loop *l, uint64_t now_us)
{
    l->next_discovery_us = now_us + l->options->discovery_interval_us;
    if (command_start(&l->script, now_us) != HVD_OK)
        feed_bad_discovery(l, false);
    else if (!loop_watch(l, l->script.epoll_fd))
        log_error("epoll_ctl failed -> discovery is judged by its deadline");
}

/* --launcher local starts agents on this machine only; options_check.c says the
 * same of fixed hosts. A name that begins with this machine's own is taken for
 * it: nobody waits for a name service here. */
static bool may_be_used(const struct loop *l, const struct hosts *hosts)
{
    if (l->options->launcher != LAUNCHER_LOCAL)
        return true;
    for (size_t i = 0; i < hosts->n; i++) {
        if (local_has(&l->launch.local, hosts->items[i].name) ||
            local_doubts(&l->launch.local, hosts->items[i].name))
            continue;
        error_set(HVD_ERR_INVALID,
                  "host \"%s\" is not this machine, and --launcher local "
                  "starts workers only here",
                  hosts->items[i].name);
        return false;
    }
    return true;
}

static void step_script(struct loop *l, uint64_t now_us)
{
    struct hosts hosts = {0};
    char skipped[HOSTS_ERROR_MAX];

    switch (script_step(&l->script, now_us, l->options->slots_per_host, &hosts,
                        skipped)) {
    case SCRIPT_HOSTS:
        loop_tell_skipped(l, skipped, now_us);
        if (may_be_used(l, &hosts)) {
            tell_that_it_works(l);
            loop_feed_hosts(l, &hosts);
        } else {
            feed_bad_discovery(l, true);
        }
        break;
    case SCRIPT_FAILED:
        feed_bad_discovery(l, false);
        break;
    case SCRIPT_WRONG:
        feed_bad_discovery(l, true);
        break;
    case SCRIPT_RUNNING:
        break;
    }
    hosts_fini(&hosts);
}

static void discover(struct loop *l, uint64_t now_us)
{
    if (!l->script_open)
        return;
    if (l->script.running)
        step_script(l, now_us);
    else if (now_us >= l->next_discovery_us)
        start_script(l, now_us);
}

static uint64_t discovery_deadline(const struct loop *l)
{
    if (!l->script_open)
        return CLOCK_NEVER;
    return l->script.running ? l->script.deadline_us : l->next_discovery_us;
}

/* ---- one turn ------------------------------------------------------------ */

static void hide_status(void *arg)
{
    status_hide(arg);
}

static void handle_ready(struct loop *l, int fd)
{
    eventfd_t n;

    if (fd == l->signal_fd)
        loop_hear_signals(l);
    else if (fd == l->wake_fd)
        (void)eventfd_read(fd, &n); /* the next turn looks what there is room
                                       for */
    else if (fd == l->launch.epoll_fd)
        clients_reap(l); /* of the others each turn takes what there is */
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_deadline(struct loop *l, uint64_t now_us)
{
    uint64_t t = driver_deadline(&l->driver);

    t = earliest(t, discovery_deadline(l));
    t = earliest(t, loop_names_deadline(l));
    t = earliest(t, launch_tick(&l->launch, now_us));
    t = earliest(t, status_deadline(&l->status));
    t = earliest(t, loop_status_deadline(l));
    t = earliest(t, lead_deadline(&l->lead));
    t = earliest(t, clients_deadline(l));
    t = earliest(t, loop_listen_deadline(l));
    t = earliest(t, network_deadline(&l->network, now_us));
    return earliest(t, output_deadline(&l->output));
}

static void wait_events(struct loop *l, bool busy)
{
    struct epoll_event events[EPOLL_EVENTS];
    uint64_t now_us = clock_now_us();
    int timeout_ms = busy ? 0 : clock_poll_ms(now_us, next_deadline(l, now_us));
    int n = epoll_wait(l->epoll_fd, events, EPOLL_EVENTS, timeout_ms);

    if (!loop_leads(l))
        return;
    for (int i = 0; i < n && loop_acts(l); i++)
        handle_ready(l, events[i].data.fd);
}

static void tick(struct loop *l, uint64_t now_us)
{
    struct driver_event ev = {.type = DRIVER_EV_TIMEOUT};

    if (now_us >= driver_deadline(&l->driver))
        loop_feed(l, &ev);
    if (!loop_acts(l))
        return;
    (void)launch_tick(&l->launch, now_us);
    if (l->launch.n_over > 0)
        clients_reap(l);
    guests_tell_refused(l);
    loop_show_status(l, now_us);
    status_tick(&l->status, now_us);
}

/* The control socket is never empty. */
static bool is_held_up(const struct loop *l, uint64_t now_us)
{
    uint64_t due_us = driver_deadline(&l->driver);

    return now_us >= due_us && now_us - due_us >= TICK_LATE_US;
}

/* The core hears of them when it knows who is there. */
static void feed_fixed_hosts(struct loop *l)
{
    if (!l->hosts_due || l->driver.phase == DRIVER_ADOPTING)
        return;
    l->hosts_due = false;
    loop_feed_hosts(l, &l->options->hosts);
}

static void turn(struct loop *l)
{
    bool empty, busy;
    uint64_t now_us;

    guests_close_gate(l);
    feed_fixed_hosts(l);
    l->sent = false;
    busy = inbox_drain(l, &empty);
    busy |= inbox_drain_output(l);
    now_us = clock_now_us();
    discover(l, now_us);
    loop_hear_names(l, now_us);
    network_look(l, now_us);
    clients_look(l, now_us);
    if (empty || is_held_up(l, now_us))
        tick(l, now_us);
    output_watch(&l->output, l->driver.first_failed);
    output_flush(&l->output);
    if (loop_acts(l) && !l->finished)
        wait_events(l, busy || l->sent);
}

/* ---- from options to a loop ---------------------------------------------- */

/* A peer that nothing is heard of when it is dialled is silent, as one that has
 * answered: but two SYNs may be lost, and the first is sent again after 1 s. */
static uint64_t connect_timeout(const struct options *o)
{
    uint64_t timeout_us = 2 * o->heartbeat_timeout_us;

    if (timeout_us < CONNECT_MIN_US)
        return CONNECT_MIN_US;
    return timeout_us < CONNECT_MAX_US ? timeout_us : CONNECT_MAX_US;
}

static void configure(const struct loop *l, struct driver_config *c)
{
    const struct options *o = l->options;

    *c = (struct driver_config){
        .job = l->job,
        .term = l->heir ? l->heir->term : 1,
        .np = o->np,
        .min_np = o->min_np,
        .max_np = o->max_np ? o->max_np : OPTIONS_NP_MAX,
        .reset_limit = o->reset_limit,
        .slot_restarts = o->slot_restarts,
        .strict_blacklist = o->strict_blacklist,
        .blacklist = o->blacklist,
        .hosts_fixed = o->script == NULL,
        .elastic_timeout_us = o->elastic_timeout_us,
        .start_timeout_us = o->start_timeout_us,
        .drain_timeout_us = o->drain_timeout_us,
        .exit_timeout_us = o->exit_timeout_us,
        .commit_timeout_us = o->commit_timeout_us,
        .heartbeat_us = o->heartbeat_interval_us,
        .heartbeat_timeout_us = o->heartbeat_timeout_us,
        .hang_timeout_us = o->hang_timeout_us,
        .stall_check_us = o->stall_check_us,
        .stall_shutdown_us = o->stall_shutdown_us,
        .driver_timeout_us = o->driver_timeout_us,
        .answers = o->job_dir != NULL,
        .before_may_live = l->heir && l->heir->may_live,
        .connect_timeout_us = connect_timeout(o),
        .doubts = o->launcher != LAUNCHER_LOCAL,
        .encrypt_data = o->encrypt_data,
        .seed = l->job,
    };
}

/* Agents and workers on this machine dial us there. No packet is sent. */
static hvd_status_t check_loopback(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool reached;
    int error;

    inet_pton(AF_INET, LOOPBACK, &to.sin_addr);
    reached = fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
    error = errno;
    fd_close(&fd);
    return reached ? HVD_OK
                   : error_set(HVD_ERR_SYSTEM,
                               LOOPBACK ": %s -> workers cannot reach the "
                                        "driver: is the network interface lo "
                                        "down? (ip link set lo up)",
                               strerror(error));
}

static hvd_status_t open_sockets(struct loop *l)
{
    HVD_TRY(check_loopback());
    HVD_TRY(loop_make_secret(l));
    HVD_TRY(wire_context_create(&l->context));
    HVD_TRY(wire_gate_create(l->context, l->secret, &l->gate));
    l->gate_open = l->heir != NULL; /* before anybody learns where we are */
    wire_gate_open(l->gate, l->gate_open);
    HVD_TRY(wire_router_create(l->context, l->gate, LOOPBACK, l->endpoint,
                               sizeof(l->endpoint), &l->router));
    HVD_TRY(wire_router_create(l->context, l->gate, LOOPBACK,
                               l->output_endpoint, sizeof(l->output_endpoint),
                               &l->output_router));
    l->output_peers.overlaps = true;
    if (!loop_watch(l, wire_router_fd(l->router)) ||
        !loop_watch(l, wire_router_fd(l->output_router)))
        return error_errno("cannot watch the sockets");
    return HVD_OK;
}

static hvd_status_t open_discovery(struct loop *l)
{
    hvd_status_t status;

    if (!l->options->script)
        return HVD_OK;
    status = script_init(&l->script, l->options->script,
                         l->options->discovery_timeout_us);
    l->script_open = status == HVD_OK || l->heir;
    if (!l->heir)
        return status;
    error_clear(); /* its first run tells what is wrong */
    return HVD_OK;
}

static void say(enum log_level level, const char *line, void *arg)
{
    output_say(arg, line);
}

static hvd_status_t open_output(struct loop *l)
{
    uint32_t n_ranks = l->options->max_np ? l->options->max_np : l->options->np;
    struct output_config config = {.out_fd = STDOUT_FILENO,
                                   .err_fd = STDERR_FILENO,
                                   .timestamps = l->options->timestamps,
                                   .dir = l->options->output_dir,
                                   .rank_width = output_rank_width(n_ranks),
                                   .hold_us = loop_hold_time(l),
                                   .wake_fd = l->wake_fd,
                                   .before_write = hide_status,
                                   .before_write_arg = &l->status};

    HVD_TRY(output_init(&l->output, &config));
    status_init(&l->status, STDERR_FILENO, &l->output);
    log_set_sink(say, &l->output);
    return HVD_OK;
}

/* ---- open and close ------------------------------------------------------ */

static hvd_status_t open_core(struct loop *l, uint64_t now_us)
{
    struct driver_config config;

    configure(l, &config);
    if (!driver_init(&l->driver, &config, now_us) ||
        (l->heir && !driver_inherit(&l->driver, &l->heir->memory)))
        return error_set(HVD_ERR_NOMEM, "no memory for the driver");
    return HVD_OK;
}

static hvd_status_t loop_open(struct loop *l, uint64_t now_us)
{
    HVD_TRY(mac_init());
    loop_identify(l, now_us);
    HVD_TRY(rlimits_prepare());
    HVD_TRY(loop_open_signals(l));
    HVD_TRY(open_sockets(l));
    HVD_TRY(loop_pack_program(l));
    HVD_TRY(open_discovery(l));
    HVD_TRY(loop_open_sinks(l));
    HVD_TRY(loop_pack_env(l));
    HVD_TRY(open_core(l, now_us));
    HVD_TRY(loop_open_launch(l));
    if (l->heir)
        HVD_TRY(loop_inherit_network(l, &l->heir->memory));
    return loop_open_lead(l);
}

static void loop_close(struct loop *l)
{
    if (loop_acts(l))
        launch_fini(&l->launch);
    if (!l->lead.replaced)
        trace_close(&l->events.trace, clock_now_us());
    launch_abandon(&l->launch);
    lead_close(&l->lead);
    if (l->script_open)
        command_fini(&l->script);
    loop_forget_names(l);
    wire_router_destroy(l->router);
    wire_router_destroy(l->output_router);
    wire_gate_destroy(l->gate);
    wire_context_destroy(l->context);
    peers_fini(&l->peers);
    peers_fini(&l->output_peers);
    speakers_fini(&l->speakers);
    network_fini(&l->network);
    free(l->partings);
    free(l->bereft);
    driver_fini(&l->driver);
    eventlog_close(&l->events.log);
    wire_shared_destroy(l->table);
    wire_shared_destroy(l->change);
    free(l->argv_packed);
    free(l->env);
    free(l->env_elsewhere);
    free(l->stillborn);
    fd_close(&l->epoll_fd);
    fd_close(&l->signal_fd);
    if (l->heir && !l->heir->leads) /* it may try again, and be interrupted */
        sigprocmask(SIG_UNBLOCK, &l->signals, NULL);
}

static int run(struct loop *l, uint64_t now_us)
{
    struct driver_record started = {.type = RECORD_JOB_STARTED};

    if (l->heir) {
        loop_say_succession(l);
        started.type = RECORD_JOB_RESUMED;
        started.n = l->driver.config.term;
    }
    events_write(&l->events, &l->driver, &started, now_us);
    l->hosts_due = !l->script_open;
    if (l->heir)
        loop_adopt_agents(l);
    while (!l->finished)
        turn(l);
    if (!l->lead.replaced)
        loop_collect_output(l);
    if (!l->lead.replaced && l->exit_status == 0)
        loop_tell_finished(l, l->driver.generation);
    return l->exit_status;
}

int loop_run(const struct options *options, struct heir *heir)
{
    struct loop *l = calloc(1, sizeof(*l));
    uint64_t now_us = clock_now_us(), failed;
    int exit_status = 1;

    if (!l) {
        log_error("no memory for the driver");
        return 1;
    }
    l->options = options;
    l->heir = heir;
    l->began_us = now_us;
    l->epoll_fd = l->signal_fd = -1;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (open_output(l) != HVD_OK) {
        if (heir)
            snprintf(heir->why, sizeof(heir->why), "%s", error_text());
        else
            log_error("%s", error_text());
        output_fini(&l->output);
        fd_close(&l->wake_fd);
        free(l);
        return 1;
    }
    if (loop_open(l, now_us) != HVD_OK)
        loop_cannot_begin(l, error_text());
    else
        exit_status = run(l, now_us);
    failed = l->driver.first_failed;
    loop_close(l);
    loop_close_output(l, exit_status, failed);
    free(l);
    return exit_status;
}
