/* elastic/agent/loop.c - the agent's loop. See loop.h.
 *
 * One epoll set. A batch's deaths come first (others wait for them),
 * then the rest; then both dealers are drained, before the deadlines and after
 * them. Their descriptors are edge-triggered: the loop sleeps when neither
 * receiving nor sending moves anything. However much the driver says, or
 * somebody in its place, what one turn takes of it is bounded, so that deaths,
 * signals and deadlines have theirs. Output is sent as credit allows, one
 * message per stream and turn. It is read always, or, where the driver says so
 * (files that are to have everything), as long as there is room; a worker then
 * waits in its write(2), for a bounded time.
 *
 * Threads: the main thread. Memory: one read buffer on the stack. */
#include "elastic/agent/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/inherited.h"
#include "base/log.h"
#include "elastic/agent/handed.h"
#include "elastic/agent/loop_internal.h"

enum {
    BATCH_MAX = 64,
    MESSAGES_MAX = 64, /* received in one go, refused ones included */
    DRAINS_MAX = 4,    /* in a turn */
    READ_MAX = 64 << 10,
    SETTLE_US = 80000,  /* a \r without \n is a line's end after this, a
                           prompt is sent after twice that at most */
    FLUSH_US = 1000000, /* the last output's time to get out */
    LINGER_MS = 1000,   /* the last messages' */
    /* OUTPUT without CREDIT: libzmq reads 1000 messages of a connection ahead,
     * and may lose those behind them when it is closed. */
    IN_FLIGHT_MAX = 500,
    KILL_ALL_MS = 5000
};

/* ---- descriptors --------------------------------------------------------- */

bool loop_watch(struct loop *l, int fd, enum kind kind, uint64_t worker)
{
    struct epoll_event ev = {.events = EPOLLIN,
                             .data.u64 = worker << KIND_BITS | kind};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* ---- actions ------------------------------------------------------------- */

static void send_action(struct loop *l, const struct agent_action *action)
{
    struct child *child = children_find(&l->children, action->worker);
    struct message m;

    agent_core_message(&l->core, action, &m);
    if (m.type == MSG_WORKER_EXITED && child)
        m.u.worker_exited.open = output_open(&child->output);
    if (wire_dealer_send(l->control, &m) != HVD_OK)
        agent_core_unsent(&l->core, action);
}

/* How long an agent that ends waits for the driver's next CREDIT. Bytes that it
 * has not sent yet may have to wait for a disk. */
static uint64_t flush_time(const struct loop *l)
{
    for (const struct child *c = l->children.first; c; c = c->next)
        if (output_waits(&c->output))
            return FLUSH_US + l->core.config.output_hold_us;
    return FLUSH_US;
}

void loop_flush_longer(struct loop *l)
{
    l->flush_us = clock_now_us() + flush_time(l);
}

static void exit_action(struct loop *l, const struct agent_action *action)
{
    l->ended = true;
    l->status = action->status;
    if (l->core.driver_lost && l->core.config.survives)
        log_error("no driver has been heard of for %" PRIu64
                  " s (--driver-timeout) -> this agent and its workers end",
                  l->core.config.driver_timeout_us / 1000000);
    notice_close(l); /* all children are reaped now */
    if (!children_kill_all(&l->children, KILL_ALL_MS)) {
        log_error("processes would not die -> leaving them behind");
        l->status = 1;
    }
    for (struct child *c = l->children.first; c; c = c->next)
        c->linger_us =
            0; /* whoever could write is gone: what is there is all */
    loop_flush_longer(l);
}

/* Feed one event and do what the core says. A spawn comes last: it feeds events
 * of its own, and they overwrite the actions. */
void loop_feed(struct loop *l, struct agent_event *ev)
{
    const struct agent_action *actions;
    const struct msg_spawn *spawn = NULL;
    size_t n;

    ev->now_us = clock_now_us();
    if (agent_core_step(&l->core, ev, &actions, &n) != HVD_OK && ev->message)
        log_seldom(&l->unexpected, LOG_LEVEL_DEBUG, "unexpected %s -> ignored",
                   message_type_name(ev->message->type));
    for (size_t i = 0; i < n; i++) {
        const struct agent_action *action = &actions[i];

        if (action->type == AGENT_DO_SEND)
            send_action(l, action);
        else if (action->type == AGENT_DO_SIGNAL)
            child_signal((pid_t)action->pid, action->signo);
        else if (action->type == AGENT_DO_EXIT)
            exit_action(l, action);
        else
            spawn = &ev->message->u.spawn;
    }
    if (spawn)
        loop_start(l, spawn);
}

static void feed_simple(struct loop *l, enum agent_event_type type)
{
    struct agent_event ev = {.type = type};

    loop_feed(l, &ev);
}

/* ---- output that comes faster than it is taken --------------------------- */

static bool is_held(const struct child *child)
{
    return child->held_us != AGENT_NEVER;
}

/* Edge-triggered without EPOLLIN: the end of a pipe, which is told in any case,
 * is told once. */
static void hold(struct loop *l, struct child *child, bool held)
{
    for (unsigned stream = 1; stream <= OUTPUT_STREAMS; stream++) {
        enum kind kind = stream == OUTPUT_STDOUT ? KIND_STDOUT : KIND_STDERR;
        struct epoll_event ev = {.events = held ? (uint32_t)EPOLLET : EPOLLIN,
                                 .data.u64 = child->worker << KIND_BITS | kind};

        if (child->stream_fds[stream - 1] >= 0)
            epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, child->stream_fds[stream - 1],
                      &ev);
    }
    child->held_us = held ? clock_now_us() : AGENT_NEVER;
}

/* Begin or end to hold its output back, as there is room for it. */
static void pace(struct loop *l, struct child *child)
{
    size_t room = output_room(&child->output);
    bool full = room < READ_MAX && l->core.config.output_hold_us > 0;

    if (room >= OUTPUT_KEEP_MAX / 2)
        child->impatient = false;
    full &= !child->impatient;
    if (full != is_held(child))
        hold(l, child, full);
}

static uint64_t hold_deadline(const struct loop *l, const struct child *child)
{
    return child->held_us + l->core.config.output_hold_us;
}

/* Read once; true when there may be more. */
static bool read_stream(struct child *child, unsigned stream)
{
    int fd = child->stream_fds[stream - 1];
    char buf[READ_MAX];
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, buf, sizeof(buf));
    if (n > 0) {
        if (!output_feed(&child->output, stream, buf, (size_t)n))
            log_warn("out of memory -> a line of worker %" PRIu64 " is lost",
                     child->worker);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    output_end(&child->output, stream);
    child_close_stream(child, stream);
    return false;
}

/* Somebody outside the dead worker's group still holds its pipes: take what is
 * there and stop listening. The bound is for a writer that does not stop. */
static void cut_stream(struct child *child, unsigned stream)
{
    size_t n_reads = 0;

    while (n_reads++ < 64 && read_stream(child, stream))
        ;
    if (child->stream_fds[stream - 1] < 0)
        return;
    output_end(&child->output, stream);
    child_close_stream(child, stream);
}

/* ---- output -------------------------------------------------------------- */

static bool send_stream(struct loop *l, struct child *child, unsigned stream)
{
    struct message m = {.type = MSG_OUTPUT, .job = l->options->config.job};

    if (l->n_owed >= IN_FLIGHT_MAX ||
        !output_next(&child->output, stream, l->credit, &m.u.output) ||
        wire_dealer_send(l->output, &m) != HVD_OK)
        return false;
    l->credit -= m.u.output.bytes.nbytes;
    if (l->n_owed++ == 0)
        l->owed_us = clock_now_us();
    output_sent(&child->output, &m.u.output);
    return true;
}

/* False: nobody has answered. What is sent to a driver that has died is lost,
 * so that nothing is sent before. */
static bool is_heard_on_output(struct loop *l)
{
    struct message m = {.type = MSG_AGENT_HELLO,
                        .job = l->options->config.job,
                        .u.agent_hello = l->options->config.hello};

    if (!l->output_hello_sent) {
        l->output_hello_sent = wire_dealer_send(l->output, &m) == HVD_OK;
        l->owed_us = clock_now_us();
    }
    return l->output_welcome;
}

/* Nothing more of it will be told. One whose exec failed has no output: the
 * driver never counted its streams. */
static bool is_told(const struct child *child)
{
    return child->pid == 0 &&
           (child->failed || output_finished(&child->output));
}

/* One message per stream and turn; children that are through are freed. */
static bool send_output(struct loop *l)
{
    struct child *next;
    bool moved = false;

    if (!is_heard_on_output(l))
        return false;
    for (struct child *c = l->children.first; c; c = next) {
        next = c->next;
        if (!c->failed) {
            moved |= send_stream(l, c, OUTPUT_STDOUT);
            moved |= send_stream(l, c, OUTPUT_STDERR);
            pace(l, c);
        }
        if (is_told(c))
            children_remove(&l->children, c);
    }
    return moved;
}

static void hear(struct loop *l, const struct message *m)
{
    struct agent_event ev = {.type = AGENT_EV_MESSAGE, .message = m};

    log_trace("received %s", message_type_name(m->type));
    if (m->type == MSG_PROBE)
        probing_hear(l, m);
    else if (agent_core_reserve(&l->core))
        loop_feed(l, &ev);
    else
        log_error("out of memory -> a message is dropped");
}

/* WELCOME, or CREDIT: no more than was sent is given back. */
static void hear_on_output(struct loop *l, const struct message *m)
{
    struct child *child;

    if (m->job != l->options->config.job)
        return;
    l->output_welcome |= m->type == MSG_AGENT_WELCOME;
    if (m->type != MSG_CREDIT || m->u.credit.nbytes > OUTPUT_WINDOW - l->credit)
        return;
    l->credit += m->u.credit.nbytes;
    l->n_owed -= l->n_owed > 0;
    l->owed_us = clock_now_us();
    l->renew_pause_us = OUTPUT_RENEW_US;
    l->output_lost |= m->u.credit.lost;
    child = children_find(&l->children, m->u.credit.worker);
    if (child)
        output_taken(&child->output, &m->u.credit);
    if (l->ended)
        loop_flush_longer(l);
}

/* true: something has come. */
static bool receive(struct loop *l, struct wire_dealer *dealer,
                    void (*heard)(struct loop *l, const struct message *m))
{
    enum wire_receipt receipt = WIRE_MESSAGE;
    struct message m;
    int n = 0;

    while (n < MESSAGES_MAX && receipt != WIRE_NOTHING) {
        receipt = wire_dealer_receive(dealer, &m);
        if (receipt == WIRE_MESSAGE)
            heard(l, &m);
        n += receipt != WIRE_NOTHING;
    }
    return n > 0;
}

/* What is lost with the other connection is told again behind it. */
static bool receive_spare(struct loop *l)
{
    struct message m;

    if (!l->spare || wire_dealer_receive(l->spare, &m) != WIRE_MESSAGE)
        return false;
    if (!contact_succeed(l, &m)) {
        hear(l, &m);
        contact_move(l);
    } else {
        hear(l, &m);
    }
    return true;
}

/* true: there may be more. */
static bool drain(struct loop *l)
{
    bool moved = true;

    for (int i = 0; i < DRAINS_MAX && moved; i++) {
        moved = receive(l, l->control, hear);
        moved |= receive_spare(l);
        moved |= receive(l, l->output, hear_on_output);
        moved |= send_output(l);
    }
    return moved;
}

/* ---- the loop ------------------------------------------------------------ */

static void on_signals(struct loop *l)
{
    struct signalfd_siginfo info;

    while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            loop_reap(l);
        else if (info.ssi_signo == SIGHUP)
            feed_simple(l, AGENT_EV_DRIVER_LOST);
        else if (info.ssi_signo == SIGTERM)
            feed_simple(l, AGENT_EV_TERMINATE);
        else
            feed_simple(l, AGENT_EV_INTERRUPT);
    }
}

static void on_lifeline(struct loop *l)
{
    enum handed handed = handed_look(l->options->lifeline_fd);

    if (handed == HANDED_NOTHING)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->options->lifeline_fd, NULL);
    feed_simple(l, handed == HANDED_STOP ? AGENT_EV_INTERRUPT
                                         : AGENT_EV_DRIVER_LOST);
}

static void dispatch(struct loop *l, uint64_t tag)
{
    enum kind kind = (enum kind)(tag & ((1 << KIND_BITS) - 1));
    struct child *child = children_find(&l->children, tag >> KIND_BITS);

    if (kind == KIND_SIGNAL)
        on_signals(l);
    else if (kind == KIND_LIFELINE)
        on_lifeline(l);
    else if (kind == KIND_CLAIM)
        claims_look(l);
    else if (kind == KIND_NOTICE)
        notice_look(l, clock_now_us());
    else if (kind == KIND_DEATHS)
        loop_on_deaths(l);
    else if (kind < KIND_PIDFD || !child)
        return; /* dealers are drained in any case, probes looked after */
    else if (kind == KIND_PIDFD)
        loop_on_pidfd(l, child);
    else if (kind == KIND_REPORT && child->report_fd >= 0)
        loop_on_report(l, child);
    else if (kind >= KIND_STDOUT && !is_held(child)) {
        read_stream(child, kind == KIND_STDOUT ? OUTPUT_STDOUT : OUTPUT_STDERR);
        pace(l, child);
    }
}

static bool is_death(const struct epoll_event *event)
{
    enum kind kind = (enum kind)(event->data.u64 & ((1 << KIND_BITS) - 1));

    return kind == KIND_DEATHS || kind == KIND_PIDFD;
}

static void dispatch_all(struct loop *l, const struct epoll_event *events,
                         int n)
{
    for (int i = 0; i < n; i++)
        if (is_death(&events[i]))
            dispatch(l, events[i].data.u64);
    for (int i = 0; i < n; i++)
        if (!is_death(&events[i]))
            dispatch(l, events[i].data.u64);
}

static void keep_deadlines(struct loop *l)
{
    uint64_t now_us = clock_now_us();

    if (now_us >= agent_core_deadline(&l->core))
        feed_simple(l, AGENT_EV_TICK);
    contact_look(l, now_us);
    probing_look(l, now_us);
    orphans_tick(l->orphans, now_us);
    if (now_us >= notice_deadline(l))
        notice_look(l, now_us);
    for (struct child *c = l->children.first; c; c = c->next) {
        if (is_held(c) && now_us >= hold_deadline(l, c)) {
            c->impatient = true;
            pace(l, c);
        }
        if (now_us >= c->linger_us && !is_held(c)) {
            cut_stream(c, OUTPUT_STDOUT);
            cut_stream(c, OUTPUT_STDERR);
            c->linger_us = CLOCK_NEVER;
        }
        if (now_us >= l->settle_us && !is_held(c))
            output_settle(&c->output);
    }
    if (now_us >= l->settle_us)
        l->settle_us = now_us + SETTLE_US;
}

static uint64_t next_deadline(const struct loop *l)
{
    uint64_t t = agent_core_deadline(&l->core);

    if (notice_deadline(l) < t)
        t = notice_deadline(l);
    if (probe_deadline(&l->probe) < t)
        t = probe_deadline(&l->probe);
    if (l->ended && l->flush_us < t)
        t = l->flush_us;
    if (l->children.n > 0 && l->settle_us < t)
        t = l->settle_us;
    for (const struct child *c = l->children.first; c; c = c->next)
        if ((is_held(c) ? hold_deadline(l, c) : c->linger_us) < t)
            t = is_held(c) ? hold_deadline(l, c) : c->linger_us;
    return t;
}

/* The driver has everything, is gone, or takes too long. */
static bool is_over(const struct loop *l)
{
    return l->ended && (l->children.n == 0 || l->core.driver_lost ||
                        clock_now_us() >= l->flush_us);
}

static void run(struct loop *l)
{
    struct epoll_event events[BATCH_MAX];
    int n = 0, timeout_ms;

    while (1) {
        dispatch_all(l, events, n);
        if (l->reaping)
            loop_reap(l);
        /* before deadlines: the driver's word may lie there unread */
        (void)drain(l);
        keep_deadlines(l);
        timeout_ms = drain(l) || l->reaping
                         ? 0
                         : clock_poll_ms(clock_now_us(), next_deadline(l));
        if (is_over(l))
            return;
        n = epoll_wait(l->epoll_fd, events, BATCH_MAX, timeout_ms);
        if (n < 0)
            n = 0; /* EINTR */
    }
}

/* ---- begin and end ------------------------------------------------------- */

void loop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    inherited_drop_ignored(set); /* the end of the lifeline says what SIGHUP
                                    does */
    sigaddset(set, SIGTERM);     /* the driver's word: never ignored */
    sigaddset(set, SIGCHLD);
}

static hvd_status_t open_fds(struct loop *l)
{
    sigset_t set;

    loop_signals(&set);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->signal_fd < 0 ||
        pipe2(l->lifeline, O_CLOEXEC) != 0)
        return error_errno("cannot open descriptors");
    l->site.lifeline_fd = l->lifeline[0];
    if (!loop_watch(l, l->signal_fd, KIND_SIGNAL, 0) ||
        (l->options->lifeline_fd >= 0 &&
         !loop_watch(l, l->options->lifeline_fd, KIND_LIFELINE, 0)))
        return error_errno("cannot watch descriptors");
    return HVD_OK;
}

static hvd_status_t open_sockets(struct loop *l)
{
    const struct loop_options *o = l->options;

    if (o->job_dir || o->far_dir)
        HVD_TRY(contact_scout(l));
    HVD_TRY(wire_context_create(&l->context));
    HVD_TRY(probing_open(l));
    return contact_open(l);
}

/* What was said last must get out, unless nobody is there to hear it. */
static void close_dealer(struct loop *l, struct wire_dealer *dealer)
{
    if (dealer && l->core.welcome && !l->core.driver_lost)
        wire_dealer_linger(dealer, LINGER_MS);
    wire_dealer_destroy(dealer);
}

static void close_all(struct loop *l)
{
    notice_close(l);
    while (l->children.first)
        children_remove(&l->children, l->children.first);
    contact_drop_spare(l);
    close_dealer(l, l->control);
    close_dealer(l, l->output);
    if (l->context)
        wire_context_destroy(l->context);
    scout_destroy(l->scout);
    contact_close(l);
    probe_close(&l->probe);
    claims_close(l);
    orphans_destroy(l->orphans);
    deaths_destroy(l->deaths);
    agent_core_fini(&l->core);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    if (l->lifeline[0] >= 0) {
        close(l->lifeline[0]);
        close(l->lifeline[1]);
    }
}

hvd_status_t loop_run(const struct loop_options *options, int *exit_p)
{
    struct loop l = {.options = options,
                     .site = options->site,
                     .epoll_fd = -1,
                     .signal_fd = -1,
                     .claim_fd = -1,
                     .probe = {.epoll_fd = -1},
                     .lifeline = {-1, -1},
                     .credit = OUTPUT_WINDOW,
                     .flush_us = CLOCK_NEVER};
    hvd_status_t status = HVD_ERR_NOMEM;

    if (!agent_core_init(&l.core, &options->config, clock_now_us())) {
        error_set(status, "out of memory");
        goto close;
    }
    HVD_TRY_GOTO(open_fds(&l), close);
    HVD_TRY_GOTO(open_sockets(&l), close);
    loop_watch_deaths(&l);
    l.orphans = orphans_create();
    if (!l.orphans)
        log_warn("%s -> orphans of workers live until this agent ends",
                 error_text());
    notice_open(&l);
    claims_open(&l);
    run(&l);
    *exit_p = l.status;
close:
    close_all(&l);
    return status;
}
