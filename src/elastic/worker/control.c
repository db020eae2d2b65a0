/* elastic/worker/control.c - the control thread and its door. See control.h.
 *
 * What runs where: messages and ticks on control, events of the program on app;
 * both step the core under `lock` and perform its actions before they let go of
 * it, but for SEND, which waits in the outbox for control.
 *
 * Memory: static; the table of the generation is on the heap. */
#include "elastic/worker/control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/version.h"
#include "collectives/local/local.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/redial.h"
#include "elastic/worker/contact.h"
#include "elastic/worker/outbox.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sample.h"
#include "elastic/worker/waiting.h"

enum {
    MESSAGES_MAX = 64,       /* received in a turn, refused ones included */
    CONTACT_BEAT_US = 50000, /* HELLO until WELCOME */
    POLL_US = 100000,        /* the program's poll function is called */
    CONTACT_TIMEOUT_US = 30000000,
    CONTACT_RETRY_US = 1000, /* the socket is not connected yet */
    SEND_RETRY_US = 20000,   /* the driver does not read */
    KICKERS_US = 1000000,    /* for a write(2) of a signal handler to end */
    GOODBYE_MS = 200         /* to get it out, when the driver is slow */
};

static struct {
    pthread_mutex_t lock;
    /* guarded by lock */
    struct worker_core core;
    struct assign_table table; /* of core.generation */
    uint64_t assigned_ns;
    uint64_t comm_generation; /* of process_self.comm */
    struct outbox outbox;
    bool stopping;
    /* constant while the thread runs */
    pthread_t thread;
    bool started;
    int wake_fd;      /* app sleeps on it */
    int kick_fd;      /* control sleeps on it */
    int lifeline_fd;  /* -1: none */
    bool closed_here; /* by the program, not at the agent's end */
    uint64_t orphan_us;
    /* control's own */
    struct contact contact;
    struct msg_waiting waiting; /* of the last tick */
    struct assign_table spare;  /* decoded here before it is believed */
    uint64_t retry_us;          /* the outbox is stuck until then */
    uint64_t look_us;           /* whether the driver is silent, not before */
    struct log_seldom unsound;
} control = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .wake_fd = -1,
             .kick_fd = -1,
             .lifeline_fd = -1};

/* ---- eventfds ------------------------------------------------------------ */

static void raise_fd(int fd)
{
    uint64_t one = 1;

    /* EAGAIN: it is raised to the brim, which is as good */
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void drain_fd(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

/* ---- actions; the lock is held ------------------------------------------- */

static void abort_comm(uint64_t generation, hvd_status_t status,
                       const char *text)
{
    if (process_self.comm && control.comm_generation == generation)
        comm_abort(process_self.comm, status, text);
}

/* A generation begins: app waits for it, so nobody counts boundaries now. */
static void begin(void)
{
    const struct msg_assign *assign = &control.core.assign;

    atomic_store(&process_self.boundary, 0);
    atomic_store(&process_self.hold, 0);
    process_log_prefix(control.core.generation, (int)assign->rank);
    log_info("%" PRIu32 " ranks, root %" PRIu32 "%s", assign->size,
             assign->root, assign->sync ? ", sync" : "");
}

/* Returns whether the core asked for a count of boundaries. */
static bool perform(const struct worker_action *actions, size_t n)
{
    bool count = false;

    for (size_t i = 0; i < n; i++) {
        const struct worker_action *a = &actions[i];

        switch (a->type) {
        case WORKER_ACT_ABORT:
            abort_comm(a->u.abort.generation, a->u.abort.status,
                       a->u.abort.text);
            break;
        case WORKER_ACT_SEND:
            outbox_push(&control.outbox, &a->u.message);
            break;
        case WORKER_ACT_BEGIN:
            begin();
            break;
        case WORKER_ACT_HOLD:
            atomic_store(&process_self.hold, 1);
            count = true;
            break;
        case WORKER_ACT_UNHOLD:
            atomic_store(&process_self.hold, 0);
            break;
        case WORKER_ACT_WAKE:
            raise_fd(control.wake_fd);
            break;
        }
    }
    return count;
}

/* For ranks that wait (membership.c), without the lock. */
static void note_driver(void)
{
    const struct worker_core *core = &control.core;

    atomic_store(&process_self.driver_due_us,
                 contact_has_ways(&control.contact)
                     ? core->last_heard_us + worker_patience(core)
                     : UINT64_MAX);
}

static hvd_status_t step_once(struct worker_event *ev, bool *count_p)
{
    const struct worker_action *actions;
    uint64_t now_us = clock_now_us();
    hvd_status_t status;
    size_t n;

    worker_sample(ev, now_us);
    if (ev->type == WORKER_EV_TICK)
        ev->waiting = waiting_sample(process_self.comm, &control.waiting,
                                     now_us);
    status = worker_step(&control.core, ev, now_us, &actions, &n);
    note_driver();
    *count_p = perform(actions, n);
    return status;
}

static hvd_status_t step(struct worker_event *ev)
{
    struct worker_event counted = {.type = WORKER_EV_COUNTED};
    hvd_status_t status;
    bool count;

    status = step_once(ev, &count);
    /* the count is sampled after `hold` was set: docs/protocol.md */
    if (count && step_once(&counted, &count) != HVD_OK)
        log_debug("HOLD: overtaken");
    return status;
}

/* ---- control: messages --------------------------------------------------- */

static bool table_fits(const struct msg_assign *assign)
{
    const struct assign_table *table = &control.spare;

    return table->n_entries == assign->size && assign->rank < assign->size &&
           assign->root < assign->size &&
           table->entries[assign->rank].worker == process_self.self.worker;
}

/* Is this an ASSIGN that the core may accept, and its table sound? It lies in
 * control.spare then. */
static bool table_is_sound(const struct message *m)
{
    const struct msg_assign *assign = &m->u.assign;
    int error = table_decode(assign->table.data, assign->table.nbytes,
                             &control.table, &control.spare);

    if (error == CODEC_OK && table_fits(assign)) {
        control.spare.generation = m->generation;
        return true;
    }
    log_seldom(&control.unsound, LOG_LEVEL_WARN,
               "ASSIGN of generation %" PRIu64 ": its table %s%s -> dropped",
               m->generation, error == CODEC_OK ? "does not fit" : "is: ",
               error == CODEC_OK ? "" : codec_strerror(error));
    return false;
}

/* The lock is held. */
static void take_table(void)
{
    struct assign_table table = control.table;

    control.table = control.spare;
    control.spare = table;
    control.assigned_ns = clock_now_ns();
}

static void on_message(const struct message *m)
{
    struct worker_event ev = {.type = WORKER_EV_MESSAGE, .u.message = m};
    bool is_assign = m->type == MSG_ASSIGN;
    uint64_t before;

    log_trace("%s of generation %" PRIu64, message_type_name(m->type),
              m->generation);
    if (is_assign && !table_is_sound(m))
        return;
    pthread_mutex_lock(&control.lock);
    before = control.core.generation;
    (void)step(&ev);
    if (is_assign && control.core.generation != before)
        take_table();
    pthread_mutex_unlock(&control.lock);
}

/* So many that whatever else this thread looks after has its turn. */
static bool receive_some(void)
{
    enum wire_receipt receipt = WIRE_MESSAGE;
    struct message m;
    int n = 0;

    while (n < MESSAGES_MAX && receipt != WIRE_NOTHING) {
        receipt = contact_receive(&control.contact, &m);
        if (receipt == WIRE_MESSAGE)
            on_message(&m);
        n += receipt != WIRE_NOTHING;
    }
    return n > 0;
}

/* ---- control: sending ---------------------------------------------------- */

static bool next_waits(struct message *m, uint64_t *number_p)
{
    bool any;

    pthread_mutex_lock(&control.lock);
    any = outbox_first(&control.outbox, m, number_p);
    pthread_mutex_unlock(&control.lock);
    return any;
}

static void is_sent(uint64_t number)
{
    pthread_mutex_lock(&control.lock);
    outbox_pop(&control.outbox, number);
    pthread_mutex_unlock(&control.lock);
}

static bool in_contact(void)
{
    bool yes;

    pthread_mutex_lock(&control.lock);
    yes = control.core.phase == WORKER_CONTACT;
    pthread_mutex_unlock(&control.lock);
    return yes;
}

/* Hand what waits to the socket. false: nothing was sent. */
static bool send_all(void)
{
    struct message m;
    bool any = false;
    uint64_t number, now_us = clock_now_us();

    if (now_us < control.retry_us)
        return false;
    while (next_waits(&m, &number)) {
        if (wire_dealer_send(control.contact.dealer, &m) != HVD_OK) {
            control.retry_us = now_us + (in_contact() ? CONTACT_RETRY_US
                                                      : SEND_RETRY_US);
            return any;
        }
        log_trace("%s sent", message_type_name(m.type));
        is_sent(number);
        any = true;
    }
    control.retry_us = 0;
    return any;
}

/* ---- control: the loop --------------------------------------------------- */

/* The agent is dead, or the program has closed this end of the pipe, and maybe
 * more. User code may never return to libhvd: the process ends here. */
static void lifeline_ended(void)
{
    log_error("%s -> this worker ends",
              control.closed_here ? "the program closed descriptors of libhvd"
                                  : "the agent of this host is gone");
    _exit(1);
}

static void check_lifeline(short revents)
{
    char byte;
    ssize_t n;

    n = revents ? read(control.lifeline_fd, &byte, 1) : 1;
    if (n > 0)
        return; /* nobody writes; but it is no end */
    control.closed_here = n < 0;
    control.lifeline_fd = -1;
    control.orphan_us = clock_now_us();
}

/* ---- control: another driver, or another way to it ----------------------- */

/* Nothing has come for longer than an answer to a heartbeat takes; a first
 * answer takes connections, and more. */
static bool is_silent(uint64_t now_us, uint64_t *term_p, struct message *hello)
{
    const struct worker_core *core = &control.core;

    control.look_us = core->last_heard_us + worker_patience(core) + 1;
    if (!worker_has_words(core))
        control.look_us = now_us + REDIAL_US;
    if (now_us < control.look_us)
        return false;
    control.look_us = now_us + REDIAL_US;
    *term_p = core->term;
    worker_hello(core, hello);
    return true;
}

/* What waited for the old one is dropped: what stands is said again. */
static void follow(const struct beacon *b)
{
    struct worker_event ev = {.type = WORKER_EV_SUCCESSOR, .u.term = b->term};

    log_info("the driver is silent -> following that of term %" PRIu64
             ", pid %" PRId64,
             b->term, b->pid);
    control.retry_us = 0;
    pthread_mutex_lock(&control.lock);
    outbox_clear(&control.outbox);
    (void)step(&ev);
    pthread_mutex_unlock(&control.lock);
}

static void look_for_driver(uint64_t now_us)
{
    struct message hello;
    struct beacon b;
    uint64_t term, pause_us;
    bool silent;

    if (!contact_has_ways(&control.contact) || now_us < control.look_us)
        return;
    pthread_mutex_lock(&control.lock);
    silent = is_silent(now_us, &term, &hello);
    pause_us = worker_slack(&control.core);
    pthread_mutex_unlock(&control.lock);
    if (!silent)
        contact_is_fine(&control.contact, now_us);
    else if (contact_follow(&control.contact, now_us, term, &b))
        follow(&b);
    else
        control.look_us = contact_try_next(&control.contact, now_us, pause_us,
                                           &hello);
}

static void run_timers(void)
{
    struct worker_event tick = {.type = WORKER_EV_TICK};
    struct worker_event drain = {.type = WORKER_EV_DRAIN};
    uint64_t now_us = clock_now_us();

    if (now_us >= control.orphan_us)
        lifeline_ended();
    pthread_mutex_lock(&control.lock);
    if (atomic_exchange(&process_self.drain, false))
        (void)step(&drain);
    if (now_us >= worker_deadline(&control.core))
        (void)step(&tick);
    pthread_mutex_unlock(&control.lock);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_stopping(uint64_t *deadline_us_p)
{
    bool stopping;

    pthread_mutex_lock(&control.lock);
    stopping = control.stopping;
    *deadline_us_p = worker_deadline(&control.core);
    pthread_mutex_unlock(&control.lock);
    *deadline_us_p = sooner(*deadline_us_p, control.orphan_us);
    if (control.retry_us != 0)
        *deadline_us_p = sooner(*deadline_us_p, control.retry_us);
    if (contact_has_ways(&control.contact))
        *deadline_us_p = sooner(*deadline_us_p, control.look_us);
    return stopping;
}

/* true: there may be more to send or to receive, which the socket's descriptor
 * does not tell (wire/socket.h). */
static bool exchange(void)
{
    bool received, sent;

    run_timers();
    received = receive_some();
    look_for_driver(clock_now_us());
    sent = send_all();
    return received || sent;
}

/* The program is on its own from here on: it may compute, wait or stop
 * for as long as it likes. */
static void say_goodbye(void)
{
    struct wire_dealer *dealer = control.contact.dealer;
    struct message m;
    bool released;

    pthread_mutex_lock(&control.lock);
    released = worker_goodbye(&control.core, &m);
    pthread_mutex_unlock(&control.lock);
    if (!released)
        return;
    wire_dealer_linger(dealer, GOODBYE_MS);
    if (wire_dealer_send(dealer, &m) != HVD_OK)
        log_debug("the driver does not take the goodbye");
}

static void *control_main(void *ignored)
{
    uint64_t deadline_us;
    bool more = true;

    process_hold();
    while (!is_stopping(&deadline_us)) {
        struct pollfd fds[] = {
            {.fd = wire_dealer_fd(control.contact.dealer), .events = POLLIN},
            {.fd = control.kick_fd, .events = POLLIN},
            {.fd = control.lifeline_fd, .events = POLLIN},
            {.fd = contact_spare_fd(&control.contact), .events = POLLIN}};
        int timeout_ms = more ? 0 : clock_poll_ms(clock_now_us(), deadline_us);

        if (poll(fds, ARRAY_SIZE(fds), timeout_ms) > 0) {
            if (fds[1].revents)
                drain_fd(control.kick_fd);
            check_lifeline(fds[2].revents);
        }
        more = exchange();
        /* a rank alone on its host, or in a long step, has no comm to do it */
        if (!more)
            local_tidy();
    }
    say_goodbye();
    contact_hang_up(&control.contact);
    process_let_go();
    return NULL;
}

/* ---- start and stop ------------------------------------------------------ */

static void configure(struct worker_config *config)
{
    const struct process_identity *self = &process_self.self;
    struct msg_hello *hello = &config->hello;

    *config = (struct worker_config){
        .job = self->job,
        .worker = self->worker,
        .heartbeat_us = CONTACT_BEAT_US,
        .driver_timeout_us = self->job_dir[0] ? 0 /* as long as its agent */
                                              : CONTACT_TIMEOUT_US};
    hello->pid = getpid();
    version_text(hello->version);
    memcpy(hello->address, self->address, sizeof(hello->address));
    hello->port = endpoint_port(atomic_load(&process_self.endpoint));
}

static hvd_status_t open_fds(void)
{
    control.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    control.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control.wake_fd < 0 || control.kick_fd < 0)
        return error_errno("eventfd");
    control.lifeline_fd = process_self.self.lifeline_fd;
    control.orphan_us = CLOCK_NEVER;
    return HVD_OK;
}

static hvd_status_t start_thread(void)
{
    errno = thread_start(&control.thread, "hvd-control", control_main, NULL);
    if (errno != 0)
        return error_errno("pthread_create");
    control.started = true;
    return HVD_OK;
}

hvd_status_t control_start(void)
{
    struct worker_config config;
    hvd_status_t status;

    configure(&config);
    control.stopping = false;
    outbox_clear(&control.outbox);
    control.retry_us = control.look_us = 0;
    HVD_TRY_GOTO(open_fds(), fail);
    HVD_TRY_GOTO(contact_open(&control.contact, &config.term), fail);
    worker_core_init(&control.core, &config, clock_now_us());
    HVD_TRY_GOTO(start_thread(), fail);
    /* last: from here on a signal handler may write to it */
    atomic_store(&process_self.kick_fd, control.kick_fd);
    return HVD_OK;

fail:
    control_stop();
    return status;
}

/* A thread in hvd_drain() may be about to write to it, and its number
 * must not be another file's by then. Rather keep it than wait for ever. */
static void close_kick_fd(void)
{
    uint64_t until_us = clock_now_us() + KICKERS_US;

    while (atomic_load(&process_self.n_kickers) > 0) {
        if (clock_now_us() > until_us)
            return;
        sched_yield();
    }
    fd_close(&control.kick_fd);
}

void control_stop(void)
{
    atomic_store(&process_self.kick_fd, -1);
    if (control.started) {
        pthread_mutex_lock(&control.lock);
        control.stopping = true;
        pthread_mutex_unlock(&control.lock);
        raise_fd(control.kick_fd);
        pthread_join(control.thread, NULL);
        control.started = false;
    }
    contact_close(&control.contact);
    assign_table_fini(&control.table);
    assign_table_fini(&control.spare);
    fd_close(&control.wake_fd);
    close_kick_fd();
    fd_close(&process_self.self.lifeline_fd);
}

/* ---- the door for app ---------------------------------------------------- */

hvd_status_t control_post(struct worker_event *ev)
{
    hvd_status_t status;

    pthread_mutex_lock(&control.lock);
    status = step(ev);
    pthread_mutex_unlock(&control.lock);
    raise_fd(control.kick_fd);
    return status;
}

/* Until something has come, or the deadline. Without one, the program has its
 * say in between. */
static hvd_status_t serve(uint64_t deadline_us)
{
    struct endpoint *endpoint = atomic_load(&process_self.endpoint);
    bool polls = process_self.poll_fn && deadline_us == CLOCK_NEVER;
    hvd_status_t status;

    status = endpoint_serve(endpoint, control.wake_fd,
                            polls ? clock_now_us() + POLL_US : deadline_us);
    drain_fd(control.wake_fd);
    if (status != HVD_ERR_TIMEOUT || !polls)
        return status;
    error_clear();
    status = process_self.poll_fn(process_self.poll_arg);
    return status >= HVD_OK
               ? HVD_OK
               : error_set(status, "the program's poll function returned %d",
                           (int)status);
}

hvd_status_t control_wait(control_condition condition, uint64_t argument,
                          uint64_t deadline_us)
{
    while (!control_is(condition, argument) && !control_is(control_final, 0))
        HVD_TRY(serve(deadline_us));
    return HVD_OK;
}

enum worker_boundary control_boundary(uint64_t boundary)
{
    struct worker_event ev = {.type = WORKER_EV_BOUNDARY};
    enum worker_boundary where;

    pthread_mutex_lock(&control.lock);
    (void)step(&ev);
    where = worker_at_boundary(&control.core, boundary);
    pthread_mutex_unlock(&control.lock);
    return where;
}

void control_read(void (*look)(const struct worker_core *core, void *arg),
                  void *arg)
{
    pthread_mutex_lock(&control.lock);
    look(&control.core, arg);
    pthread_mutex_unlock(&control.lock);
}

void control_assignment(struct control_assignment *assignment_p)
{
    pthread_mutex_lock(&control.lock);
    assignment_p->assign = control.core.assign;
    assignment_p->generation = control.core.generation;
    assignment_p->entries = control.table.entries;
    assignment_p->connect_timeout_us = control.core.connect_timeout_ms * 1000;
    assignment_p->silence_us = control.core.silence_ms * 1000;
    assignment_p->encrypt_data = control.core.encrypt_data;
    assignment_p->assigned_ns = control.assigned_ns;
    pthread_mutex_unlock(&control.lock);
}

void control_attach(struct comm *comm, uint64_t generation)
{
    pthread_mutex_lock(&control.lock);
    process_self.comm = comm;
    control.comm_generation = generation;
    if (comm && (control.core.fence >= generation ||
                 (control.core.phase == WORKER_LEFT &&
                  control.core.generation == generation)))
        comm_abort(comm, HVD_PEER_LOST, "the generation has ended");
    pthread_mutex_unlock(&control.lock);
}

hvd_status_t
control_with_comm(hvd_status_t (*call)(struct comm *comm, void *arg), void *arg)
{
    hvd_status_t status;

    pthread_mutex_lock(&control.lock);
    status = process_self.comm
                 ? call(process_self.comm, arg)
                 : error_set(HVD_ERR_STATE, "there is no world now");
    pthread_mutex_unlock(&control.lock);
    return status;
}

void control_watch_state(hvd_state_t *state)
{
    pthread_mutex_lock(&control.lock);
    process_self.state = state;
    pthread_mutex_unlock(&control.lock);
}
