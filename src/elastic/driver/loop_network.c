/* elastic/driver/loop_network.c - the networks that a job is on: where our own
 * sockets listen, and which hosts reach each other (network.h). See
 * loop_internal.h.
 *
 * A job whose hosts are all this machine is on loopback, and nobody else can
 * even knock. Which it is, is chosen with the first hosts that are known:
 * agents and workers are started with it. If a script lists this machine alone,
 * others may come: workers can be reached from the start then, and our own
 * sockets from when another machine is listed. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "discovery/local.h"
#include "elastic/driver/jobdir.h"
#include "elastic/driver/loop_internal.h"
#include "elastic/wire/reach.h"

enum {
    HELD_US = 500000,
    HANGS_US = 3000000 /* its ports are held so long: it does not run */
};

/* ---- where we listen ----------------------------------------------------- */

static void add_endpoint(char *list, size_t max, const char *endpoint)
{
    size_t n = strlen(list);

    snprintf(list + n, max - n, "%s%s", n > 0 ? "," : "", endpoint);
}

/* Both sockets, or none; ports 0: any. */
static hvd_status_t listen_at(struct loop *l, const struct loop_place *place)
{
    const char *control, *output;
    hvd_status_t status;

    HVD_TRY(
        wire_router_listen(l->router, place->address, place->port, &control));
    status = wire_router_listen(l->output_router, place->address,
                                place->output_port, &output);
    if (status != HVD_OK) {
        wire_router_unlisten(l->router);
        return status;
    }
    add_endpoint(l->far_endpoints, sizeof(l->far_endpoints), control);
    add_endpoint(l->far_outputs, sizeof(l->far_outputs), output);
    return HVD_OK;
}

/* Interfaces of those names, if there are any here: this may be a machine that
 * runs no worker, on another network. */
static hvd_status_t own_interfaces(const struct loop *l,
                                   struct interface *items, size_t *n_p)
{
    const char *names = l->options->network_interface;

    if (names && interfaces_list(names, items, n_p) == HVD_OK)
        return HVD_OK;
    error_clear();
    HVD_TRY(interfaces_list(NULL, items, n_p));
    /* what is called another machine is this one under another name, then */
    return *n_p > 0 ? HVD_OK : interfaces_list("lo", items, n_p);
}

static uint16_t port_of(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');

    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* Where the driver before was at this address, as all who had called there call
 * again. False: it was not. */
static bool find_announced(const struct memory *m, struct loop_place *place)
{
    const char *controls = m->places.control, *outputs = m->places.output;
    char control[ADDRESS_ENDPOINT_MAX], output[ADDRESS_ENDPOINT_MAX];
    char address[ADDRESS_ENDPOINT_MAX];

    while (address_take(&controls, control) && address_take(&outputs, output))
        if (address_of_endpoint(control, address) &&
            strcmp(address, place->address) == 0) {
            place->port = port_of(control);
            place->output_port = port_of(output);
            return true;
        }
    return false;
}

static void hold(struct loop *l, const struct loop_place *place)
{
    log_warn("%s -> agents on other machines call there: tried again, and the "
             "driver before, process %" PRId64 ", is killed if it hangs",
             error_text(), l->heir->before.pid);
    if (l->n_held < ARRAY_SIZE(l->held))
        l->held[l->n_held++] = *place;
}

/* With --control-port a port that is taken ends the job, as nobody would find
 * its driver. A successor's may be held by the driver before, which hangs: it
 * listens at another one meanwhile, which DIR/driver tells. */
static hvd_status_t try_address(struct loop *l, const char *address,
                                size_t n_addresses)
{
    uint16_t port = (uint16_t)l->options->control_port;
    struct loop_place place = {.port = port,
                               .output_port = (uint16_t)(port + (port > 0))};
    bool announced;
    hvd_status_t status;

    snprintf(place.address, sizeof(place.address), "%s", address);
    announced = l->heir && find_announced(&l->heir->memory, &place);
    status = listen_at(l, &place);
    if (status == HVD_OK)
        return HVD_OK;
    if (port > 0 && !l->heir)
        return error_prefix(status, "--control-port %u", port);
    if (announced && driver_has_far_agents(&l->heir->memory))
        hold(l, &place);
    else
        log_warn("%s -> not there", error_text());
    place.port = place.output_port = 0;
    /* one is on loopback; those that are held need their room later */
    if (l->heir && l->n_stopgaps + n_addresses + 1 < WIRE_ROUTER_ENDPOINTS) {
        l->n_stopgaps++;
        if (listen_at(l, &place) != HVD_OK)
            log_warn("%s -> not there", error_text());
    }
    error_clear();
    return HVD_OK;
}

static void add_held(char *list, size_t max, const char *address, uint16_t port)
{
    bool v6 = strchr(address, ':') != NULL;
    char endpoint[ADDRESS_ENDPOINT_MAX + 24];

    snprintf(endpoint, sizeof(endpoint), "tcp://%s%s%s:%u", v6 ? "[" : "",
             address, v6 ? "]" : "", port);
    add_endpoint(list, max, endpoint);
}

void loop_list_places(const struct loop *l, struct entry_places *places)
{
    snprintf(places->control, sizeof(places->control), "%s", l->far_endpoints);
    snprintf(places->output, sizeof(places->output), "%s", l->far_outputs);
    for (size_t i = 0; i < l->n_held; i++) {
        const struct loop_place *held = &l->held[i];

        add_held(places->control, sizeof(places->control), held->address,
                 held->port);
        add_held(places->output, sizeof(places->output), held->address,
                 held->output_port);
    }
}

static void put_places(struct loop *l)
{
    struct entry_places places = {0};

    loop_list_places(l, &places);
    lead_put_places(&l->lead, &places);
}

/* A driver that runs looks at DIR/driver each second, and has closed its ports
 * by now. This one would do nothing else when it runs again. */
static void end_before(struct loop *l, uint64_t now_us)
{
    const struct beacon *before = &l->heir->before;
    int fd;

    if (l->before_ended || now_us - l->began_us < HANGS_US ||
        l->heir->elsewhere)
        return;
    l->before_ended = true;
    fd = before->pid > 0 ? proc_open((pid_t)before->pid, before->started) : -1;
    if (fd < 0)
        return;
    log_warn("the driver before, process %" PRId64 ", hangs and holds its "
             "ports -> killed",
             before->pid);
    proc_signal(fd, SIGKILL);
    fd_close(&fd);
}

/* A hung driver holds its port until it ends. Those who call there are waited
 * for meanwhile, as they cannot come. */
static void listen_again(struct loop *l, uint64_t now_us)
{
    size_t n = l->n_held, n_left = 0;

    if (n == 0 || now_us < l->held_us)
        return;
    l->held_us = now_us + HELD_US;
    end_before(l, now_us);
    for (size_t i = 0; i < n; i++)
        if (listen_at(l, &l->held[i]) != HVD_OK)
            l->held[n_left++] = l->held[i];
    l->n_held = n_left;
    error_clear();
    if (l->n_held < n)
        put_places(l);
    else if (now_us - l->began_us < l->options->driver_timeout_us)
        driver_adopt_longer(&l->driver, now_us);
}

uint64_t loop_listen_deadline(const struct loop *l)
{
    return l->n_held > 0 ? l->held_us : CLOCK_NEVER;
}

/* Agents on other machines that do not see DIR call where the driver before
 * was. Elsewhere a successor would take them for lost, and they train. */
static hvd_status_t check_found(const struct loop *l,
                                const struct interface *items, size_t n)
{
    const struct memory *m = &l->heir->memory;
    struct loop_place place;

    if (!m->places.control[0] || memory_all_see_dir(m) ||
        jobdir_life(l->options->job_dir) == JOBDIR_LIVES)
        return HVD_OK;
    for (size_t i = 0; i < n; i++) {
        snprintf(place.address, sizeof(place.address), "%s", items[i].address);
        if (find_announced(m, &place))
            return HVD_OK;
    }
    return error_set(HVD_ERR_SYSTEM,
                     "agents that do not see the job's directory call at "
                     "%.200s, which is not this machine: its driver runs where "
                     "the one before did, or has its address",
                     m->places.control);
}

static hvd_status_t go_far(struct loop *l)
{
    const char *names = l->options->network_interface;
    struct interface items[INTERFACES_MAX];
    size_t n;

    l->network_chosen = true;
    l->far_endpoints[0] = l->far_outputs[0] = '\0';
    HVD_TRY(own_interfaces(l, items, &n));
    if (!names)
        names = n > 0 && strcmp(items[0].name, "lo") == 0 ? "lo" : "*";
    l->launch.config.network = names;
    if (l->heir)
        HVD_TRY(check_found(l, items, n));
    for (size_t i = 0; i < n; i++)
        HVD_TRY(try_address(l, items[i].address, n));
    /* a worker that hears nothing tries another connection; an agent also looks
     * whether this driver is here */
    driver_answer_all(&l->driver, strchr(l->far_endpoints, ',') != NULL ||
                                      strcmp(names, "lo") != 0);
    if (!l->far_endpoints[0])
        return error_set(HVD_ERR_SYSTEM,
                         "this machine has no address at which agents on other "
                         "machines could reach it");
    l->launch.config.far_endpoints = l->far_endpoints;
    l->launch.config.far_outputs = l->far_outputs;
    put_places(l);
    return HVD_OK;
}

static bool all_are_here(const struct loop *l, const struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (!local_has(&l->launch.local, hosts->items[i].name))
            return false;
    return true;
}

/* A worker has the addresses that it was started with. Without a network this
 * machine stays alone. */
static void prepare_to_grow(struct loop *l)
{
    struct interface items[INTERFACES_MAX];
    size_t n = 0;

    if (own_interfaces(l, items, &n) == HVD_OK && n > 0 &&
        strcmp(items[0].name, "lo") != 0)
        l->launch.config.network = "*";
    error_clear();
}

static bool may_grow(const struct loop *l)
{
    return l->options->script && l->options->launcher != LAUNCHER_LOCAL;
}

hvd_status_t loop_choose_network(struct loop *l, const struct hosts *hosts)
{
    /* what a job of Slurm's has first may be this node alone, and more later */
    bool far = l->options->network_interface ||
               l->options->launcher == LAUNCHER_SLURM;

    if (hosts->n == 0 || l->launch.config.far_endpoints ||
        (l->network_chosen && !l->launch.config.network))
        return HVD_OK;
    if (far || !all_are_here(l, hosts))
        return go_far(l);
    if (!l->network_chosen && hosts->n == 1 && may_grow(l))
        prepare_to_grow(l);
    l->network_chosen = true;
    return HVD_OK;
}

/* A successor starts agents before discovery has said anything. */
hvd_status_t loop_inherit_network(struct loop *l, const struct memory *m)
{
    bool far = l->options->network_interface || l->heir->elsewhere;

    for (size_t i = 0; i < m->n_hosts && !far; i++)
        far = !local_has(&l->launch.local, m->hosts[i].name);
    if (!far && m->n_hosts == 1 && may_grow(l))
        prepare_to_grow(l);
    return far ? go_far(l) : HVD_OK;
}

/* ---- who reaches whom ---------------------------------------------------- */

/* Equal for what is asked again, and nobody but us can foresee it. */
static void make_nonce(const struct loop *l, uint64_t serial, uint8_t *nonce)
{
    wire_token_derive(l->secret, WIRE_TOKEN_PROBE, serial, nonce);
}

static void probe(struct loop *l, const struct network_action *a)
{
    struct message m = {.type = MSG_PROBE,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};
    uint8_t token[WIRE_TOKEN_NBYTES];
    char text[WIRE_REACH_MAX];

    guests_agent_token(l, a->target, token);
    m.u.probe.target = a->target;
    m.u.probe.wait_ms = a->wait_us / 1000;
    make_nonce(l, a->serial, m.u.probe.nonce);
    wire_probe_answer(token, m.u.probe.nonce, m.u.probe.answer);
    m.u.probe.addresses = reach_pack(a->items, a->n_items, text);
    loop_tell_agent(l, a->agent, &m);
}

static void admit(struct loop *l, const struct network_action *a)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_UP};

    ev.u.agent.agent = a->agent;
    ev.u.agent.pid = a->pid;
    ev.u.agent.host = a->name;
    loop_feed(l, &ev);
}

static void refuse(struct loop *l, const struct network_action *a)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_APART};

    ev.u.agent.agent = a->agent;
    ev.u.agent.text = a->text;
    loop_feed(l, &ev);
}

/* Started, and of which nothing has been heard. */
static size_t count_expected(const struct loop *l)
{
    size_t n = driver_n_starting(&l->driver),
           held = network_n_held(&l->network);

    return n > held ? n - held : 0;
}

void network_look(struct loop *l, uint64_t now_us)
{
    struct network_action a;

    listen_again(l, now_us);
    while (!l->network.quiet && !l->finished && loop_acts(l) &&
           network_next(&l->network, count_expected(l), now_us, &a))
        if (a.what == NETWORK_PROBE)
            probe(l, &a);
        else if (a.what == NETWORK_ADMIT)
            admit(l, &a);
        else
            refuse(l, &a);
}

/* One that has workers is on a network, whatever we have chosen. */
static bool is_running(const struct loop *l,
                       const struct msg_agent_hello *hello)
{
    return l->heir &&
           (hello->n_alive > 0 || l->driver.phase == DRIVER_ADOPTING);
}

bool network_meets(struct loop *l, const struct msg_agent_hello *hello)
{
    struct interface items[INTERFACES_MAX];
    size_t n = reach_unpack(hello->addresses, items);
    uint64_t now_us = clock_now_us();
    bool added;

    if (n == 0)
        return true;
    added = is_running(l, hello)
                ? network_add_running(&l->network, hello->agent, hello->pid,
                                      hello->host, items, n, now_us)
                : network_add(&l->network, hello->agent, hello->pid,
                              hello->host, items, n, now_us);
    if (!added)
        log_error("no memory -> whether others reach %s is not known",
                  hello->host);
    if (!added || !network_holds(&l->network, hello->agent))
        return true;
    network_look(l, now_us);
    return false;
}

void network_hears(struct loop *l, uint64_t agent, const struct msg_probed *m)
{
    network_probed(&l->network, agent, m);
    network_look(l, clock_now_us());
}
