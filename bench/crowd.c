/* bench/crowd.c - many workers that cost little: stands in for hvd-agent, and
 * is its workers as well. bench/size puts it beside a copy of hvd-elastic.
 *
 * Each worker is the real core of the worker's half of the protocol with a
 * connection of its own to the driver, and a program that does nothing: it is
 * READY at once, commits once in each generation, leaves at the cut, and never
 * finishes. Nobody has an address where others could reach him.
 *
 * SIGUSR1: the worker that was started last dies. SIGTERM, the end of the
 * lifeline, AGENT_SHUTDOWN: all do, and the agent.
 *
 * Threads: one, and libzmq's. Memory: a row and a connection per worker. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rlimits.h"
#include "base/version.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"
#include "elastic/worker/core.h"

enum { EVENTS_MAX = 64, TICK_US = 20000 };

struct member {
    uint64_t id; /* 0: has ended */
    struct wire_dealer *dealer;
    struct worker_core core;
    struct state_id state;
    uint64_t left; /* the generation that it has left */
};

struct crowd {
    struct wire_context *context;
    struct wire_dealer *control, *output;
    uint64_t job, agent;
    struct wire_secrets secrets;
    const char *driver;
    struct member **members; /* [n] */
    size_t n, max, n_alive;
    int epoll_fd, signal_fd, lifeline_fd;
    uint64_t beat_us, next_beat_us;
    bool welcome, over;
};

static void fail(const char *what)
{
    fprintf(stderr, "crowd: %s: %s\n", what, error_text());
    exit(1);
}

static void watch(struct crowd *c, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

    if (fd >= 0 && epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        fail("epoll_ctl");
}

/* ---- what the agent says ------------------------------------------------- */

static void tell(struct crowd *c, struct message *m)
{
    m->job = c->job;
    if (wire_dealer_send(c->control, m) != HVD_OK)
        fprintf(stderr, "crowd: %s\n", error_text());
}

static void say_hello(struct crowd *c, struct wire_dealer *dealer)
{
    struct message m = {.type = MSG_AGENT_HELLO, .job = c->job};

    m.u.agent_hello.agent = c->agent;
    m.u.agent_hello.pid = getpid();
    snprintf(m.u.agent_hello.host, WIRE_HOST_MAX, "%s", getenv(ENV_HOST));
    version_text(m.u.agent_hello.version);
    if (wire_dealer_send(dealer, &m) != HVD_OK)
        fail("AGENT_HELLO");
}

static void beat(struct crowd *c, uint64_t now_us)
{
    struct message m = {.type = MSG_AGENT_PING};

    if (now_us < c->next_beat_us)
        return;
    c->next_beat_us = now_us + c->beat_us;
    if (!c->welcome) {
        say_hello(c, c->control);
        return;
    }
    m.u.agent_ping.stamp_us = now_us;
    m.u.agent_ping.n_alive = c->n_alive;
    tell(c, &m);
}

static void tell_exit(struct crowd *c, uint64_t worker, int64_t signal)
{
    struct message m = {.type = MSG_WORKER_EXITED};

    m.u.worker_exited.worker = worker;
    m.u.worker_exited.pid = getpid();
    m.u.worker_exited.signal = signal;
    tell(c, &m);
}

static void end(struct crowd *c, struct member *w, int64_t signal)
{
    wire_dealer_destroy(w->dealer);
    w->dealer = NULL;
    tell_exit(c, w->id, signal);
    w->id = 0;
    c->n_alive--;
}

/* ---- a worker ------------------------------------------------------------ */

static void feed(struct member *w, struct worker_event *ev);

static void perform(struct member *w, const struct worker_action *a)
{
    struct worker_event ev = {.type = WORKER_EV_COUNTED};

    if (a->type == WORKER_ACT_SEND) {
        if (wire_dealer_send(w->dealer, &a->u.message) != HVD_OK)
            fprintf(stderr, "crowd: %s\n", error_text());
    } else if (a->type == WORKER_ACT_HOLD) {
        feed(w, &ev); /* it is at no boundary yet */
    }
}

static void feed(struct member *w, struct worker_event *ev)
{
    const struct worker_action *actions;
    struct worker_action copy[WORKER_ACTIONS_MAX];
    size_t n;

    ev->id = w->state;
    if (worker_step(&w->core, ev, clock_now_us(), &actions, &n) != HVD_OK)
        return;
    memcpy(copy, actions, n * sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        perform(w, &copy[i]);
}

static void report(struct member *w, enum report_what what)
{
    struct worker_event ev = {.type = WORKER_EV_REPORT};

    ev.u.report.generation = w->core.generation;
    ev.u.report.what = (uint8_t)what;
    ev.u.report.duration_ns = 1000;
    feed(w, &ev);
}

static void enter(struct member *w)
{
    struct worker_event ev = {.type = WORKER_EV_ENTER};

    ev.u.enter.kind = READY_ELASTIC;
    ev.u.enter.abilities = READY_CAN_ALL;
    ev.u.enter.layout_text = "nothing";
    feed(w, &ev);
}

static void train(struct member *w)
{
    if (w->state.generation == w->core.generation)
        return;
    report(w, REPORT_FIRST_COLLECTIVE);
    w->state = (struct state_id){w->core.generation,
                                 w->core.assign.base.version + 2};
    report(w, REPORT_FIRST_COMMIT);
}

static void leave(struct member *w, enum worker_event_type how)
{
    struct worker_event ev = {.type = how, .boundary = w->core.cut};

    if (w->left == w->core.generation)
        return;
    w->left = w->core.generation;
    ev.u.lost.generation = w->core.generation;
    feed(w, &ev);
}

/* What its program does now. */
static void live(struct crowd *c, struct member *w)
{
    struct worker_core *core = &w->core;

    if (core->phase == WORKER_IDLE)
        enter(w);
    if (core->phase == WORKER_RUNNING && core->aborted)
        leave(w, WORKER_EV_LOST);
    else if (core->phase == WORKER_RUNNING && core->hold && core->cut_known)
        leave(w, WORKER_EV_LEFT);
    else if (core->phase == WORKER_RUNNING)
        train(w);
    if (core->phase == WORKER_LEFT)
        end(c, w, 0);
}

static void listen_to(struct crowd *c, struct member *w)
{
    struct worker_event ev = {.type = WORKER_EV_MESSAGE};
    struct message m;

    while (w->id != 0 && wire_dealer_receive(w->dealer, &m)) {
        ev.u.message = &m;
        feed(w, &ev);
        live(c, w);
    }
}

static void tick(struct crowd *c, struct member *w, uint64_t now_us)
{
    struct worker_event ev = {.type = WORKER_EV_TICK};

    if (w->id == 0 || now_us < worker_deadline(&w->core))
        return;
    feed(w, &ev);
    live(c, w);
    if (w->id != 0) /* sending may have swallowed the descriptor's word */
        listen_to(c, w);
}

/* ---- what the agent is told ---------------------------------------------- */

static struct member *find(struct crowd *c, uint64_t worker)
{
    for (size_t i = c->n; i-- > 0;)
        if (c->members[i]->id == worker)
            return c->members[i];
    return NULL;
}

static void spawn(struct crowd *c, uint64_t worker)
{
    struct worker_config config = {.job = c->job,
                                   .worker = worker,
                                   .heartbeat_us = 200000,
                                   .driver_timeout_us = 600000000};
    struct message m = {.type = MSG_SPAWNED};
    struct member *w = calloc(1, sizeof(*w));
    struct wire_secrets secrets = c->secrets;
    char name[32];

    if (!w || !array_reserve(&c->members, &c->max, c->n + 1))
        fail("no memory");
    snprintf(name, sizeof(name), "w%" PRIu64, worker);
    wire_token_derive(c->secrets.token, WIRE_TOKEN_WORKER, worker,
                      secrets.token);
    if (wire_dealer_create(c->context, c->driver, name, &secrets, &w->dealer) !=
        HVD_OK)
        fail(name);
    w->id = worker;
    config.hello.pid = getpid();
    config.hello.port = 1;
    version_text(config.hello.version);
    snprintf(config.hello.address, WIRE_ADDRESS_MAX, "127.0.0.1");
    worker_core_init(&w->core, &config, clock_now_us());
    watch(c, wire_dealer_fd(w->dealer));
    c->members[c->n++] = w;
    c->n_alive++;
    m.u.spawned.worker = worker;
    m.u.spawned.pid = getpid();
    tell(c, &m);
}

static void hear(struct crowd *c, const struct message *m)
{
    struct member *w;

    switch (m->type) {
    case MSG_AGENT_WELCOME:
        c->welcome = true;
        c->beat_us = m->u.welcome.heartbeat_ms * 1000;
        break;
    case MSG_SPAWN:
        if (!find(c, m->u.spawn.worker))
            spawn(c, m->u.spawn.worker);
        break;
    case MSG_KILL:
        w = find(c, m->u.kill.worker);
        if (w)
            end(c, w, SIGKILL);
        else
            tell_exit(c, m->u.kill.worker, SIGKILL);
        break;
    case MSG_AGENT_SHUTDOWN:
        c->over = true;
        break;
    default:
        break;
    }
}

static void drain_control(struct crowd *c)
{
    struct message m;

    while (wire_dealer_receive(c->control, &m))
        hear(c, &m);
    while (wire_dealer_receive(c->output, &m))
        continue;
}

static void on_signal(struct crowd *c)
{
    struct signalfd_siginfo info;

    while (read(c->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        size_t i = c->n;

        if (info.ssi_signo != SIGUSR1)
            c->over = true;
        while (i > 0 && c->members[i - 1]->id == 0)
            i--;
        if (i > 0 && info.ssi_signo == SIGUSR1)
            end(c, c->members[i - 1], SIGKILL);
    }
}

/* ---- the loop ------------------------------------------------------------ */

static void turn(struct crowd *c)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(c->epoll_fd, events, EVENTS_MAX, TICK_US / 1000);
    uint64_t now_us = clock_now_us();

    for (int i = 0; i < n; i++)
        if (events[i].data.fd == c->lifeline_fd)
            c->over = true;
    on_signal(c);
    drain_control(c);
    for (size_t i = 0; i < c->n; i++)
        if (c->members[i]->id != 0)
            listen_to(c, c->members[i]);
    for (size_t i = 0; i < c->n; i++)
        tick(c, c->members[i], now_us);
    beat(c, now_us);
}

static void read_environment(struct crowd *c)
{
    const char *const needed[] = {ENV_DRIVER, ENV_OUTPUT,    ENV_JOB,
                                  ENV_AGENT,  ENV_SECRET_FD, ENV_HOST};

    for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
        if (!getenv(needed[i])) {
            fprintf(stderr, "crowd: started by bench/size, without %s\n",
                    needed[i]);
            exit(2);
        }
    c->driver = getenv(ENV_DRIVER);
    c->job = strtoull(getenv(ENV_JOB), NULL, 10);
    c->agent = strtoull(getenv(ENV_AGENT), NULL, 10);
    c->lifeline_fd = getenv(ENV_LIFELINE_FD) ? atoi(getenv(ENV_LIFELINE_FD))
                                             : -1;
    if (wire_secret_read(atoi(getenv(ENV_SECRET_FD)), &c->secrets,
                         sizeof(c->secrets)) != HVD_OK)
        fail("the secrets");
}

static void open_all(struct crowd *c)
{
    sigset_t set;
    char name[32];

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    snprintf(name, sizeof(name), "a%" PRIu64, c->agent);
    if (rlimits_prepare() != HVD_OK ||
        wire_context_create(&c->context) != HVD_OK ||
        wire_dealer_create(c->context, c->driver, name, &c->secrets,
                           &c->control) != HVD_OK ||
        wire_dealer_create(c->context, getenv(ENV_OUTPUT), name, &c->secrets,
                           &c->output) != HVD_OK)
        fail("cannot begin");
    watch(c, c->signal_fd);
    watch(c, c->lifeline_fd);
    watch(c, wire_dealer_fd(c->control));
    say_hello(c, c->output);
}

int main(void)
{
    struct crowd c = {.beat_us = 200000};

    read_environment(&c);
    open_all(&c);
    while (!c.over)
        turn(&c);
    return 0; /* what it holds ends with it */
}
