/* elastic/driver/network.c - see network.h. */
#include "elastic/driver/network.h"

#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* ---- rows ---------------------------------------------------------------- */

void network_fini(struct network *n)
{
    array_free(&n->hosts, &n->max);
    array_free(&n->nets, &n->nets_max);
    *n = (struct network){0};
}

static struct network_host *find(const struct network *n, uint64_t agent)
{
    for (size_t i = 0; i < n->n; i++)
        if (n->hosts[i].agent == agent)
            return &n->hosts[i];
    return NULL;
}

static bool same_net(const struct interface *a, const struct interface *b)
{
    return a->prefix == b->prefix &&
           memcmp(a->network, b->network, sizeof(a->network)) == 0;
}

static struct network_net *find_net(const struct network *n,
                                    const struct interface *item)
{
    for (size_t i = 0; i < n->n_nets; i++)
        if (same_net(&n->nets[i].net, item))
            return &n->nets[i];
    return NULL;
}

/* Has another address of the host in the network of items[i] been reached? */
static bool net_is_reached(const struct network_host *h, size_t i)
{
    for (size_t k = 0; k < h->n_items; k++)
        if (k != i && (h->reached >> k & 1) &&
            same_net(&h->items[k], &h->items[i]))
            return true;
    return false;
}

/* Without memory for a network it only comes later in the order. */
static void count_net(struct network *n, const struct interface *item)
{
    struct network_net *net = find_net(n, item);

    if (!net && array_reserve(&n->nets, &n->nets_max, n->n_nets + 1)) {
        net = &n->nets[n->n_nets++];
        *net = (struct network_net){.net = *item};
    }
    if (net)
        net->n_hosts++;
}

static void reach(struct network *n, struct network_host *h, uint64_t bits)
{
    for (size_t i = 0; i < h->n_items; i++) {
        if (!(bits >> i & 1) || (h->reached >> i & 1))
            continue;
        if (!net_is_reached(h, i))
            count_net(n, &h->items[i]);
        h->reached |= UINT64_C(1) << i;
    }
}

static void unreach(struct network *n, struct network_host *h)
{
    for (size_t i = 0; i < h->n_items; i++) {
        struct network_net *net = find_net(n, &h->items[i]);

        if (!(h->reached >> i & 1))
            continue;
        h->reached &= ~(UINT64_C(1) << i);
        if (net && net->n_hosts > 0 && !net_is_reached(h, i))
            net->n_hosts--;
    }
}

static struct network_host *add(struct network *n, uint64_t agent, int64_t pid,
                                const char *name, uint64_t now_us)
{
    struct network_host *h;

    if (!array_reserve(&n->hosts, &n->max, n->n + 1))
        return NULL;
    n->quiet = false;
    h = &n->hosts[n->n++];
    *h = (struct network_host){.agent = agent, .pid = pid, .since_us = now_us};
    memcpy(h->name, name, strnlen(name, sizeof(h->name) - 1));
    return h;
}

bool network_add(struct network *n, uint64_t agent, int64_t pid,
                 const char *name, const struct interface *items,
                 size_t n_items, uint64_t now_us)
{
    struct network_host *h = find(n, agent);

    if (h)
        return true;
    h = add(n, agent, pid, name, now_us);
    if (!h)
        return false;
    h->n_items = n_items < INTERFACES_MAX ? n_items : INTERFACES_MAX;
    memcpy(h->items, items, h->n_items * sizeof(*items));
    return true;
}

static void let_in(struct network *n, struct network_host *h)
{
    h->must = h->limit_us = 0;
    h->in = true;
    n->n_in++;
}

bool network_add_running(struct network *n, uint64_t agent, int64_t pid,
                         const char *name, const struct interface *items,
                         size_t n_items, uint64_t now_us)
{
    if (find(n, agent))
        return true;
    if (!network_add(n, agent, pid, name, items, n_items, now_us))
        return false;
    let_in(n, &n->hosts[n->n - 1]);
    n->hosts[n->n - 1].told = n->hosts[n->n - 1].up = true;
    return true;
}

static void end_probe(struct network_host *h)
{
    h->with = 0;
    h->answered = false;
    h->loses = false;
    h->saw = 0;
    h->saw_text[0] = '\0';
}

void network_remove(struct network *n, uint64_t agent)
{
    struct network_host *h = find(n, agent), *other;
    size_t i;

    if (!h)
        return;
    n->quiet = false;
    other = h->with ? find(n, h->with) : NULL;
    if (other)
        end_probe(other); /* it is nobody's fault */
    for (size_t k = 0; k < n->n; k++)
        if (n->hosts[k].must == agent)
            n->hosts[k].must = 0; /* any will do */
    unreach(n, h);
    n->n_in -= h->in;
    i = (size_t)(h - n->hosts);
    memmove(h, h + 1, (--n->n - i) * sizeof(*h));
}

/* Of a job on loopback nothing is known: there is nothing to find out. */
bool network_doubt(struct network *n, uint64_t agent, uint64_t other,
                   uint64_t limit_us, uint64_t now_us)
{
    struct network_host *h = find(n, agent);

    if (!h) {
        h = add(n, agent, 0, "", now_us);
        if (h)
            let_in(n, h);
        return h != NULL;
    }
    n->quiet = false;
    if (h->in)
        n->n_in--;
    h->in = h->told = h->apart = false;
    h->n_tried = 0;
    h->must = other;
    h->limit_us = limit_us;
    if (!find(n, other))
        let_in(n, h);
    return true;
}

/* ---- probes -------------------------------------------------------------- */

static bool has_tried(const struct network_host *h, uint64_t agent)
{
    for (size_t i = 0; i < h->n_tried && i < NETWORK_FIRST_TRIES_MAX; i++)
        if (h->tried[i] == agent)
            return true;
    return false;
}

static void fail(struct network_host *h, uint64_t agent)
{
    h->tried[h->n_tried++ % NETWORK_FIRST_TRIES_MAX] = agent;
}

/* a seeks b. */
static void begin(struct network *n, struct network_host *a,
                  struct network_host *b, uint64_t now_us)
{
    struct network_host *both[] = {a, b};
    uint64_t limit_us = a->must == b->agent ? a->limit_us : 0;

    n->serial++;
    for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
        end_probe(both[i]);
        both[i]->with = both[1 - i]->agent;
        both[i]->serial = n->serial;
        both[i]->ask_us = now_us;
        both[i]->wait_until_us = limit_us > 0 ? now_us + limit_us : 0;
        both[i]->until_us = now_us + (limit_us > 0 ? limit_us + NETWORK_SLACK_US
                                                   : NETWORK_TIMEOUT_US);
    }
}

/* The other agent answers, and the path between the two loses large packets.
 * This needs no confirmation by the other agent. */
static bool has_proof(const struct network_host *h)
{
    return h->saw == 0 && h->loses;
}

/* "host b (10.0.0.2:4711 Connection refused) cannot be reached from host a" */
static void explain(struct text *t, const struct network_host *from,
                    const struct network_host *to)
{
    text_add(t, "host ");
    text_add(t, to->name);
    text_add(t, " cannot be reached from host ");
    text_add(t, from->name);
    text_add(t, ": ");
    text_add(t, !from->answered             ? "its agent has not said anything"
                : from->saw_text[0] == '\0' ? "it has no address"
                                            : from->saw_text);
}

static void explain_both(struct network_host *a, struct network_host *b)
{
    struct text t = text_into(a->why, sizeof(a->why));

    if (a->saw == 0 && !has_proof(b))
        explain(&t, a, b);
    else
        explain(&t, b, a);
    memcpy(b->why, a->why, sizeof(b->why));
}

/* Under a limit an agent that is late has said nothing against the other. */
static bool is_open(const struct network_host *h,
                    const struct network_host *other)
{
    return h->must == other->agent && h->limit_us > 0 &&
           !(h->answered && other->answered) && !has_proof(h) &&
           !has_proof(other);
}

static void conclude(struct network *n, struct network_host *a,
                     struct network_host *b)
{
    struct network_host *both[] = {a, b};
    bool good = a->saw != 0 && b->saw != 0;

    if (!good)
        explain_both(a, b);
    for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
        struct network_host *h = both[i], *other = both[1 - i];

        if (good)
            reach(n, h, other->saw);
        else if (!h->in && is_open(h, other))
            let_in(n, h);
        else if (!h->in && h->must != other->agent)
            fail(h, other->agent);
        else if (!h->in)
            h->apart = h->apart_due = true;
        if (good && !h->in && (h->must == 0 || h->must == other->agent))
            let_in(n, h);
    }
    end_probe(a);
    end_probe(b);
}

void network_probed(struct network *n, uint64_t agent,
                    const struct msg_probed *m)
{
    struct network_host *h = find(n, agent), *other;

    if (!h || h->with == 0 || h->with != m->target || h->answered)
        return;
    other = find(n, h->with);
    h->answered = true;
    h->saw = other->n_items >= 64
                 ? m->reached
                 : m->reached & ((UINT64_C(1) << other->n_items) - 1);
    h->loses = m->loses;
    memcpy(h->saw_text, m->text, sizeof(h->saw_text));
    if (other->answered)
        conclude(n, h, other);
}

/* ---- what is to be done -------------------------------------------------- */

/* A PROBE that is repeated ends when the first one would have ended. */
static uint64_t wait_of(const struct network_host *h, uint64_t now_us)
{
    if (h->wait_until_us == 0)
        return 0;
    return h->wait_until_us > now_us + NETWORK_WAIT_MIN_US
               ? h->wait_until_us - now_us
               : NETWORK_WAIT_MIN_US;
}

static bool ask(struct network *n, struct network_host *h, uint64_t now_us,
                struct network_action *a)
{
    const struct network_host *other;

    /* most are: no search for each */
    if (h->answered || now_us < h->ask_us)
        return false;
    other = find(n, h->with);
    h->ask_us = now_us + NETWORK_REPEAT_US;
    *a = (struct network_action){.what = NETWORK_PROBE,
                                 .agent = h->agent,
                                 .target = other->agent,
                                 .serial = h->serial,
                                 .wait_us = wait_of(h, now_us),
                                 .name = other->name,
                                 .items = other->items,
                                 .n_items = other->n_items};
    return true;
}

static bool admit(struct network_host *h, struct network_action *a)
{
    if (!h->in || h->told)
        return false;
    h->told = h->up = true;
    *a = (struct network_action){.what = NETWORK_ADMIT,
                                 .agent = h->agent,
                                 .pid = h->pid,
                                 .name = h->name};
    return true;
}

/* May it try others? */
static bool seeks(const struct network *n, const struct network_host *h)
{
    return !h->in && !h->apart && h->with == 0 &&
           h->n_tried < (n->n_in > 0 ? (size_t)NETWORK_TRIES_MAX
                                     : (size_t)NETWORK_FIRST_TRIES_MAX);
}

/* Those that are in, if there are any. */
static bool is_candidate(const struct network *n, const struct network_host *p)
{
    return n->n_in == 0 || p->in;
}

/* One that it has not tried, or the one that it must. busy: whether or not that
 * is at it with somebody else. NULL: none. */
static struct network_host *partner(const struct network *n,
                                    const struct network_host *h, bool busy)
{
    struct network_host *p = h->must != 0 ? find(n, h->must) : NULL;

    if (p)
        return busy || p->with == 0 ? p : NULL;
    for (size_t i = 0; i < n->n; i++) {
        p = &n->hosts[i];
        if (p != h && is_candidate(n, p) && (busy || p->with == 0) &&
            !has_tried(h, p->agent))
            return p;
    }
    return NULL;
}

static void refuse(struct network *n, struct network_host *h,
                   struct network_action *a)
{
    *a = (struct network_action){.what = NETWORK_REFUSE, .agent = h->agent};
    memcpy(a->text, h->why, sizeof(a->text));
    h->apart = h->up;
    h->apart_due = false;
    if (!h->apart)
        network_remove(n, h->agent);
}

static bool refuse_due(struct network *n, struct network_action *a)
{
    for (size_t i = 0; i < n->n; i++)
        if (n->hosts[i].apart_due) {
            refuse(n, &n->hosts[i], a);
            return true;
        }
    return false;
}

/* Has it somebody to try, or is it trying? There mostly are more than it can
 * have tried. */
static bool is_trying(const struct network *n, const struct network_host *h)
{
    size_t n_others = n->n_in > 0 ? n->n_in : n->n - 1;

    if (!seeks(n, h))
        return h->with != 0;
    return n_others > h->n_tried || partner(n, h, true) != NULL;
}

static bool seek(struct network *n, struct network_host *h, uint64_t now_us,
                 struct network_action *a)
{
    struct network_host *other = partner(n, h, false);

    if (!other)
        return false;
    begin(n, h, other, now_us);
    return ask(n, h, now_us, a);
}

/* While those that may be tried are all busy, thousands that wait for them are
 * not to look for one each. */
static bool seek_all(struct network *n, uint64_t now_us,
                     struct network_action *a)
{
    bool any_free = false;

    for (size_t i = 0; i < n->n && !any_free; i++)
        any_free = n->hosts[i].with == 0 && is_candidate(n, &n->hosts[i]);
    for (size_t i = 0; i < n->n; i++)
        if ((any_free || n->hosts[i].must != 0) && seeks(n, &n->hosts[i]) &&
            seek(n, &n->hosts[i], now_us, a))
            return true;
    return false;
}

static bool any_is_trying(const struct network *n)
{
    for (size_t i = 0; i < n->n; i++)
        if (is_trying(n, &n->hosts[i]))
            return true;
    return false;
}

/* With nobody to try it is refused, or, where nobody is in and no other two may
 * reach each other, let in: the oldest is asked about first. */
static bool decide(struct network *n, struct network_host *h, size_t n_expected,
                   uint64_t now_us, struct network_action *a)
{
    if (h->in || h->apart || is_trying(n, h))
        return false;
    if (n->n_in > 0) {
        refuse(n, h, a);
        return true;
    }
    if (any_is_trying(n) ||
        (n_expected > 0 && now_us - h->since_us < NETWORK_ALONE_US))
        return false;
    let_in(n, h);
    return admit(h, a);
}

static void expire(struct network *n, uint64_t now_us)
{
    for (size_t i = 0; i < n->n; i++)
        if (n->hosts[i].with != 0 && now_us >= n->hosts[i].until_us)
            conclude(n, &n->hosts[i], find(n, n->hosts[i].with));
}

static bool next(struct network *n, size_t n_expected, uint64_t now_us,
                 struct network_action *a)
{
    expire(n, now_us);
    for (size_t i = 0; i < n->n; i++)
        if (admit(&n->hosts[i], a) ||
            (n->hosts[i].with != 0 && ask(n, &n->hosts[i], now_us, a)))
            return true;
    if (refuse_due(n, a))
        return true;
    if (seek_all(n, now_us, a))
        return true;
    for (size_t i = 0; i < n->n; i++)
        if (decide(n, &n->hosts[i], n_expected, now_us, a))
            return true;
    return false;
}

bool network_next(struct network *n, size_t n_expected, uint64_t now_us,
                  struct network_action *a)
{
    if (n->quiet)
        return false;
    if (next(n, n_expected, now_us, a))
        return true;
    n->quiet = network_deadline(n, now_us) == NETWORK_NEVER;
    return false;
}

/* Who waits for one that is busy goes on when that one's probe is over. */
static uint64_t deadline_of(const struct network *n,
                            const struct network_host *h, uint64_t now_us)
{
    uint64_t alone_us = h->since_us + NETWORK_ALONE_US;

    if (h->with != 0)
        return h->answered || h->until_us < h->ask_us ? h->until_us : h->ask_us;
    return !h->in && n->n_in == 0 && alone_us > now_us ? alone_us
                                                       : NETWORK_NEVER;
}

uint64_t network_deadline(const struct network *n, uint64_t now_us)
{
    uint64_t deadline_us = NETWORK_NEVER;

    for (size_t i = 0; i < n->n && !n->quiet; i++) {
        uint64_t of_host_us = deadline_of(n, &n->hosts[i], now_us);

        deadline_us = of_host_us < deadline_us ? of_host_us : deadline_us;
    }
    return deadline_us;
}

bool network_holds(const struct network *n, uint64_t agent)
{
    const struct network_host *h = find(n, agent);

    return h && !h->told;
}

size_t network_n_held(const struct network *n)
{
    size_t n_held = 0;

    for (size_t i = 0; i < n->n; i++)
        n_held += !n->hosts[i].told;
    return n_held;
}

/* ---- the order of addresses ---------------------------------------------- */

struct ranked {
    const struct interface *item;
    bool closes; /* every host that is in has one in its network */
};

static bool comes_before(const struct ranked *a, const struct ranked *b)
{
    if (a->closes != b->closes)
        return a->closes;
    return a->item->mbps > b->item->mbps;
}

static void insert(struct ranked *ranked, size_t at, struct ranked r)
{
    for (; at > 0 && comes_before(&r, &ranked[at - 1]); at--)
        ranked[at] = ranked[at - 1];
    ranked[at] = r;
}

/* Those that were reached, or as long as nobody has tried, all. */
static size_t rank(const struct network *n, const struct network_host *h,
                   struct ranked *ranked)
{
    size_t n_ranked = 0;

    for (size_t i = 0; i < h->n_items; i++) {
        const struct network_net *net = find_net(n, &h->items[i]);
        struct ranked r = {&h->items[i], net && net->n_hosts == n->n_in};

        if (h->reached == 0 || (h->reached >> i & 1))
            insert(ranked, n_ranked++, r);
    }
    return n_ranked;
}

void network_addresses(const struct network *n, uint64_t agent, char *text)
{
    struct ranked ranked[INTERFACES_MAX];
    const struct network_host *h = find(n, agent);
    size_t n_ranked = h ? rank(n, h, ranked) : 0;
    struct text t = text_into(text, WIRE_ADDRESS_MAX);

    for (size_t i = 0; i < n_ranked && i < NETWORK_ADDRESSES_MAX; i++) {
        const char *address = ranked[i].item->address;

        if (t.n + strlen(address) + 2 > WIRE_ADDRESS_MAX)
            return;
        if (i > 0)
            text_add(&t, ",");
        text_add(&t, address);
    }
}
