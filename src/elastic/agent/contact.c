/* elastic/agent/contact.c - the agent's sockets to the driver, and to its
 * successor (M15).
 *
 * Threads: the loop's. Memory: the sockets, in the loop. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/machine.h"
#include "elastic/agent/loop_internal.h"
#include "elastic/wire/redial.h"

enum {
    KNOCK_US = 1000000, /* an answer takes a round trip or some; a SYN is lost
                           now and then */
    COMPLAIN_US = 5000000, /* and no door was opened */
    LOOK_US = 100000,      /* how often a successor is looked for */
    NOTE_US = 1000000,     /* how often the job's directory is looked for */
    FIRST_MS = 100,        /* the first look at that may take so long */
    KEEP_US = 60000000,
    SILENT_BEATS = 3, /* without a word, and it is */
    RENEW_MAX_US = 240000000,
    RENEW_END_US = 500000 /* by an agent that ends */
};

static void hang_up(struct loop *l, struct wire_dealer *dealer)
{
    if (!dealer)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, wire_dealer_fd(dealer), NULL);
    wire_dealer_destroy(dealer);
}

static hvd_status_t open_one(struct loop *l, const char *endpoint,
                             enum kind kind, struct wire_dealer **dealer_p)
{
    char name[32];

    snprintf(name, sizeof(name), "a%" PRIu64, l->options->config.hello.agent);
    HVD_TRY(wire_dealer_create(l->context, endpoint, name, &l->options->secrets,
                               dealer_p));
    if (loop_watch(l, wire_dealer_fd(*dealer_p), kind, 0))
        return HVD_OK;
    (void)error_errno("cannot watch the driver's sockets");
    wire_dealer_destroy(*dealer_p);
    *dealer_p = NULL;
    return HVD_ERR_SYSTEM;
}

/* The agent sends again what the driver has not taken by the old connection. */
static void use_output(struct loop *l, struct wire_dealer *output)
{
    hang_up(l, l->output);
    l->output = output;
    l->output_hello_sent = l->output_welcome = l->output_lost = false;
    l->credit = OUTPUT_WINDOW;
    l->n_owed = 0;
    for (struct child *c = l->children.first; c; c = c->next)
        output_rewind(&c->output);
}

/* `control` and a new connection for output take the place of the agent's two.
 * On failure `control` is closed, and nothing else changes. The driver hears
 * the connection for output that was opened last. */
static hvd_status_t use_control(struct loop *l, struct wire_dealer *control,
                                const char *output_endpoint)
{
    struct wire_dealer *output;
    hvd_status_t status = open_one(l, output_endpoint, KIND_OUTPUT, &output);

    if (status != HVD_OK) {
        hang_up(l, control);
        return status;
    }
    hang_up(l, l->control);
    l->control = control;
    use_output(l, output);
    l->renew_pause_us = OUTPUT_RENEW_US;
    return HVD_OK;
}

/* ---- the driver that has started us -------------------------------------- */

/* In a network that this machine is in? */
static bool is_near(const struct loop *l, const struct door *door)
{
    char address[ADDRESS_ENDPOINT_MAX];

    if (!address_of_endpoint(door->control, address))
        return false;
    for (size_t i = 0; i < l->probe.n; i++)
        if (!l->probe.items[i].bridge &&
            interface_is_near(&l->probe.items[i], address))
            return true;
    return false;
}

static void add_door(struct loop *l, const struct door *door, size_t *n_near)
{
    size_t at = l->n_doors++;

    if (is_near(l, door)) {
        memmove(l->doors + *n_near + 1, l->doors + *n_near,
                (at - *n_near) * sizeof(*door));
        at = (*n_near)++;
    }
    l->doors[at] = *door;
}

/* Workers that start from now on begin with it. */
static void use_door(struct loop *l, size_t i)
{
    size_t n = 0;

    l->door = i;
    for (size_t k = 0; k < l->n_doors; k++)
        n += (size_t)snprintf(l->places + n, sizeof(l->places) - n, "%s%s",
                              k > 0 ? "," : "",
                              l->doors[(i + k) % l->n_doors].control);
    l->site.driver = l->places;
}

static hvd_status_t knock(struct loop *l, size_t i)
{
    struct wire_dealer *control;

    l->knock_us = clock_now_us() + KNOCK_US;
    use_door(l, i);
    HVD_TRY(open_one(l, l->doors[i].control, KIND_CONTROL, &control));
    return use_control(l, control, l->doors[i].output);
}

/* On another machine than the driver: workers look there as they do in the
 * job's directory elsewhere. It is made when there is something to be found. */
static void name_own_dir(struct loop *l)
{
    const char *root = getenv("TMPDIR");
    uint64_t number;

    if (!l->core.config.survives || l->options->job_dir)
        return;
    mac_random(&number, sizeof(number)); /* nobody else may make it first */
    snprintf(l->own_dir, sizeof(l->own_dir), "%s/hvd-agent-%016" PRIx64,
             root && *root == '/' ? root : "/tmp", number);
    l->site.job_dir = l->own_dir;
}

static void tell_workers(struct loop *l)
{
    if (!l->own_dir[0])
        return;
    if ((mkdir(l->own_dir, 0700) != 0 && errno != EEXIST) ||
        beacon_write(l->own_dir, &l->driver) != HVD_OK)
        log_warn("\"%s\": %s -> workers here do not find the driver",
                 l->own_dir, strerror(errno));
    error_clear();
}

static void keep_own_dir(struct loop *l, uint64_t now_us)
{
    if (!l->own_dir[0] || l->driver.term == 0 || now_us < l->keep_us)
        return;
    l->keep_us = now_us + KEEP_US;
    if (utimensat(AT_FDCWD, l->own_dir, NULL, 0) != 0 ||
        beacon_keep(l->own_dir, &l->driver) != HVD_OK)
        tell_workers(l);
}

void contact_close(struct loop *l)
{
    char path[PATH_MAX + 8];

    if (!l->own_dir[0] || l->driver.term == 0)
        return;
    snprintf(path, sizeof(path), "%s/driver", l->own_dir);
    unlink(path);
    rmdir(l->own_dir);
}

/* The driver is at these places, and at no others. */
static hvd_status_t list_doors(struct loop *l, const char *controls,
                               const char *outputs)
{
    const char *control = controls, *output = outputs;
    size_t n_near = 0;
    struct door door;

    l->n_doors = 0;
    while (l->n_doors < ARRAY_SIZE(l->doors) &&
           address_take(&control, door.control) &&
           address_take(&output, door.output))
        add_door(l, &door, &n_near);
    if (l->n_doors == 0 || *control || *output)
        return error_set(HVD_ERR_INVALID,
                         "\"%s\" and \"%s\" are no places of a driver",
                         controls, outputs);
    return HVD_OK;
}

hvd_status_t contact_open(struct loop *l)
{
    HVD_TRY(list_doors(l, l->options->driver, l->options->output));
    l->complain_us = clock_now_us() + COMPLAIN_US;
    name_own_dir(l);
    return knock(l, 0);
}

/* A filter between us tells nobody anything: this is all that will be heard. */
static void complain(struct loop *l, uint64_t now_us)
{
    if (l->core.phase != AGENT_CONTACT || now_us < l->complain_us)
        return;
    l->complain_us = CLOCK_NEVER;
    log_warn("the driver does not answer at %s -> still trying",
             l->options->driver);
}

/* Somebody else may listen there, whom CURVE keeps us from: silence is all that
 * tells. */
static void knock_elsewhere(struct loop *l, uint64_t now_us)
{
    if (l->core.phase != AGENT_CONTACT || l->n_doors < 2 ||
        now_us < l->knock_us)
        return;
    if (knock(l, (l->door + 1) % l->n_doors) != HVD_OK)
        log_warn("%s -> the next one is tried", error_text());
}

/* ---- another way to it --------------------------------------------------- */

static bool is_silent(const struct loop *l, uint64_t now_us)
{
    return now_us - l->core.heard_us > SILENT_BEATS * l->core.config.beat_us;
}

/* Through no network of this machine's own a connection dies alone; nor is
 * each ping answered there. With loopback alone a network may lie between as
 * well, if this host is not the driver's, and is called so. */
static bool has_ways(const struct loop *l)
{
    return l->n_doors > 1 ||
           (l->core.config.survives && !l->options->job_dir) ||
           !address_endpoint_is_loopback(l->doors[l->door].control);
}

void contact_drop_spare(struct loop *l)
{
    hang_up(l, l->spare);
    l->spare = NULL;
}

static hvd_status_t try_door(struct loop *l, size_t i)
{
    struct agent_action hello = {.type = AGENT_DO_SEND,
                                 .message = MSG_AGENT_HELLO};
    struct message m;

    l->spare_door = i;
    HVD_TRY(open_one(l, l->doors[i].control, KIND_CONTROL, &l->spare));
    agent_core_message(&l->core, &hello, &m);
    return wire_dealer_send(l->spare, &m);
}

/* A successor does not wait long for those that can only call. */
static uint64_t knock_time(struct loop *l)
{
    size_t n = l->n_knocks++;

    if (l->core.config.survives && n > l->n_doors)
        n = l->n_doors;
    return redial_pause(REDIAL_US, n, l->n_doors);
}

/* The network by which the agent talks may have died. Or only the connection
 * has, as a firewall between forgot it: then a new one to the same door passes.
 * Or the driver is slow, and is heard where it was. */
static void try_next_door(struct loop *l, uint64_t now_us)
{
    size_t last = l->spare ? l->spare_door : l->door;

    if (!is_silent(l, now_us)) {
        l->n_knocks = 0;
        if (now_us >= l->knock_us)
            contact_drop_spare(l);
    } else if (has_ways(l) && now_us >= l->knock_us) {
        l->knock_us = now_us + knock_time(l);
        contact_drop_spare(l);
        if (try_door(l, (last + 1) % l->n_doors) != HVD_OK)
            log_warn("%s -> the next one is tried", error_text());
    }
}

/* When a connection dies libzmq dials anew without a word, and OUTPUT on the
 * old one is lost. The driver sees the gap if more OUTPUT follows; else only
 * the missing CREDIT shows it. A driver whose own output is held up sends none
 * either. An agent that ends dials once: each connection needs several round
 * trips. */
static bool needs_renewal(const struct loop *l, uint64_t now_us)
{
    uint64_t pause_us = l->ended ? RENEW_END_US : l->renew_pause_us;
    bool waits = l->n_owed > 0 || (l->output_hello_sent && !l->output_welcome);

    if (l->output_lost)
        return now_us >= l->renew_us;
    return waits && has_ways(l) && !l->renewed_at_end &&
           now_us >= l->owed_us + pause_us;
}

static void renew_output(struct loop *l, uint64_t now_us)
{
    struct wire_dealer *output;

    if (!needs_renewal(l, now_us))
        return;
    l->owed_us = now_us;
    if (!l->output_lost && l->renew_pause_us < RENEW_MAX_US)
        l->renew_pause_us *= 2;
    if (open_one(l, l->doors[l->door].output, KIND_OUTPUT, &output) != HVD_OK) {
        log_warn("output: %s -> tried again", error_text());
        l->output_lost = true;
        l->renew_us = now_us + KNOCK_US;
        return;
    }
    use_output(l, output);
    if (!l->ended)
        return;
    l->renewed_at_end = true;
    loop_flush_longer(l);
}

/* False: there is none, or this machine's own resources do not suffice. */
static bool use_spare(struct loop *l)
{
    struct wire_dealer *control = l->spare;

    if (!control)
        return false;
    l->spare = NULL;
    if (use_control(l, control, l->doors[l->spare_door].output) != HVD_OK) {
        log_warn("%s -> the next one is tried", error_text());
        return false;
    }
    use_door(l, l->spare_door);
    return true;
}

void contact_move(struct loop *l)
{
    struct agent_event ev = {.type = AGENT_EV_MOVED};

    if (!use_spare(l))
        return;
    log_info("the driver is talked to at %s from now on",
             l->doors[l->door].control);
    loop_feed(l, &ev);
}

/* ---- the successor ------------------------------------------------------- */

/* The successor listens at l->door. Workers of this host read own_dir. */
static void take_successor(struct loop *l, uint64_t term)
{
    struct agent_event ev = {.type = AGENT_EV_SUCCESSOR, .term = term};
    const struct door *door = &l->doors[l->door];

    log_info("the driver is silent -> following that of term %" PRIu64 " at %s",
             term, door->control);
    l->driver = (struct beacon){
        .job = l->options->config.job, .term = term, .machine = MACHINE_NONE};
    memcpy(l->driver.endpoint, door->control, sizeof(l->driver.endpoint));
    memcpy(l->driver.output_endpoint, door->output,
           sizeof(l->driver.output_endpoint));
    snprintf(l->driver.far, sizeof(l->driver.far), "%s", l->places);
    tell_workers(l);
    loop_feed(l, &ev);
}

static void follow(struct loop *l, const struct beacon *b)
{
    hvd_status_t status = list_doors(l, beacon_control(b), beacon_output(b));

    contact_drop_spare(l); /* its door is none of these */
    if (status == HVD_OK)
        status = knock(l, 0);
    if (status == HVD_OK)
        take_successor(l, b->term);
    else
        log_warn("driver of term %" PRIu64 ": %s -> tried again", b->term,
                 error_text());
}

/* Where the driver was. Only who has the job's secret can have sealed what it
 * says, so its term is believed. */
bool contact_succeed(struct loop *l, const struct message *m)
{
    if (!l->core.config.survives || l->options->job_dir ||
        m->type != MSG_AGENT_WELCOME || m->job != l->options->config.job ||
        l->core.term == 0 || m->term <= l->core.term)
        return false;
    if (!use_spare(l))
        return false;
    take_successor(l, m->term);
    return true;
}

/* Another user may have made this path on another machine than the driver's. */
static bool is_of_job(const struct loop *l, const struct beacon *b)
{
    return b->job == l->options->config.job && (l->options->job_dir || b->own);
}

/* A driver that has not answered yet may be slow. One that this machine does
 * not reach is none: the next driver may be another. */
static bool is_another(const struct loop *l, const struct beacon *b)
{
    uint64_t term = l->core.term ? l->core.term : l->core.config.term;

    return is_of_job(l, b) && b->term > term && beacon_control(b)[0];
}

/* The driver learns whether this host would find a successor on any machine. */
static void note_dir(struct loop *l, int wait_ms)
{
    struct beacon b;

    l->core.sees_dir = scout_look(l->scout, wait_ms, &b) && is_of_job(l, &b);
}

hvd_status_t contact_scout(struct loop *l)
{
    const struct loop_options *o = l->options;

    HVD_TRY(scout_create(o->job_dir ? o->job_dir : o->far_dir, &l->scout));
    note_dir(l, FIRST_MS);
    return HVD_OK;
}

void contact_look(struct loop *l, uint64_t now_us)
{
    struct beacon b;

    knock_elsewhere(l, now_us);
    complain(l, now_us);
    keep_own_dir(l, now_us);
    renew_output(l, now_us);
    if (l->core.phase != AGENT_CONTACT && !l->ended)
        try_next_door(l, now_us);
    if (!l->scout || l->ended)
        return;
    if (now_us < l->look_us)
        return;
    if (is_silent(l, now_us)) {
        l->look_us = now_us + LOOK_US;
        if (scout_look(l->scout, 0, &b) && is_another(l, &b))
            follow(l, &b);
    } else if (!l->core.sees_dir) {
        l->look_us = now_us + NOTE_US;
        note_dir(l, 0);
    }
}
