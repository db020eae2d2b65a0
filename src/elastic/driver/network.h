/* elastic/driver/network.h - over which addresses the hosts of a job reach
 * each other. Each agent tells the addresses that its machine has; before its
 * workers are started it and one that is there already try each other's, both
 * ways.
 *
 *            both have reached an address of the other, or it is alone
 *   WAITS -----------------------------------------------------------> IN
 *     |
 *     '-- none of those that are in can reach it: REFUSED (it is forgotten)
 *
 * At the start nobody is in: the first two that reach each other are; who has
 * no other to try, and none is expected, is in as it is. So a few hosts that
 * others cannot reach stop nobody.
 *
 * The addresses of a host that somebody has reached are those that its workers
 * take: first those in networks where every host that is in has one that was
 * reached, the fastest first; then the others.
 *
 * Pure: the caller asks for what is to be done until there is nothing. Memory:
 * an array of hosts, and one of networks. Threads: none of its own. */
#ifndef ELASTIC_DRIVER_NETWORK_H
#define ELASTIC_DRIVER_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/interfaces.h"
#include "discovery/hosts.h"
#include "elastic/wire/message.h"

#define NETWORK_NEVER UINT64_MAX

enum {
    NETWORK_ADDRESSES_MAX = 8,    /* of a worker */
    NETWORK_SLACK_US = 500000,    /* on a limit, for the messages */
    NETWORK_WAIT_MIN_US = 100000, /* that an agent has for a PROBE */
    NETWORK_TRIES_MAX = 3,        /* partners, until one is refused; and: */
    NETWORK_FIRST_TRIES_MAX = 16, /* as long as nobody is in */
    NETWORK_REPEAT_US = 1000000,  /* a PROBE is asked again */
    NETWORK_TIMEOUT_US = 6000000, /* for both answers; an agent takes four */
    NETWORK_ALONE_US = 3000000    /* that the first waits for a second */
};

/* What is looked at for each of thousands comes first. */
struct network_host {
    uint64_t agent;
    /* the probe at hand, 0: none */
    uint64_t with, ask_us, until_us, wait_until_us;
    uint64_t must;     /* in doubt: it has to reach this agent */
    uint64_t limit_us; /* ... and both answer within that; 0: no such limit */
    size_t n_tried;
    bool answered;
    bool in;        /* else it waits */
    bool told;      /* ADMIT was said */
    bool up;        /* ... some time: it may have workers */
    bool apart;     /* in doubt, and refused: until it is asked again; and: */
    bool apart_due; /* REFUSE is to be said */
    uint64_t tried[NETWORK_FIRST_TRIES_MAX]; /* agents, in vain; modulo */
    int64_t pid;
    uint64_t since_us;
    char name[HOSTS_NAME_MAX];
    struct interface items[INTERFACES_MAX]; /* [n_items] */
    size_t n_items;
    uint64_t reached;        /* a bit for each: some other host has */
    char why[WIRE_TEXT_MAX]; /* the last time */
    uint64_t serial;         /* of the probe at hand; and: */
    uint64_t saw;            /* which addresses of that one it has reached */
    bool loses; /* large packets to that one are lost: see msg_probed */
    char saw_text[WIRE_TEXT_MAX];
};

/* How many hosts that are in have an address in it that was reached. */
struct network_net {
    struct interface net; /* prefix and network alone */
    size_t n_hosts;
};

struct network {
    struct network_host *hosts; /* [n], in the order in which they came */
    size_t n, max;
    size_t n_in;
    struct network_net *nets; /* [n_nets] */
    size_t n_nets, nets_max;
    uint64_t serial;
    bool quiet; /* nothing is to be done until one of them says something: with
                   thousands of hosts nobody goes through them in vain */
};

enum network_do {
    NETWORK_PROBE, /* tell `agent` to try the addresses of `target`; serial:
                      equal for what is asked again */
    NETWORK_ADMIT, /* agent: its workers may be started; pid, name as it came */
    NETWORK_REFUSE /* agent: nobody reaches it, or it reaches nobody: text. It
                      is forgotten, unless it was in doubt */
};

struct network_action {
    enum network_do what;
    uint64_t agent, target, serial;
    uint64_t wait_us; /* PROBE: for an answer, from now; 0: an agent's limit */
    int64_t pid;
    const char *name; /* until the next call */
    const struct interface *
        items; /* PROBE: [n_items] of the target; likewise */
    size_t n_items;
    char text[WIRE_TEXT_MAX];
};

void network_fini(struct network *n);

/* Its AGENT_HELLO. One that is known already stays as it is. items [n_items]
 * copied. false: no memory. */
bool network_add(struct network *n, uint64_t agent, int64_t pid,
                 const char *name, const struct interface *items,
                 size_t n_items, uint64_t now_us);
/* It runs already: a successor finds it so. */
bool network_add_running(struct network *n, uint64_t agent, int64_t pid,
                         const char *name, const struct interface *items,
                         size_t n_items, uint64_t now_us);
/* It has ended, or is given up. */
void network_remove(struct network *n, uint64_t agent);

/* Do `agent`, which is in, and `other` still reach each other? The next actions
 * say ADMIT of `agent`, or REFUSE: ADMIT at once if nothing is known of it, or
 * if the other is gone; and, with a limit (0: none), if not both have answered
 * by then. false: no memory. */
bool network_doubt(struct network *n, uint64_t agent, uint64_t other,
                   uint64_t limit_us, uint64_t now_us);

void network_probed(struct network *n, uint64_t agent,
                    const struct msg_probed *m);

/* What is to be done now, one after the other. n_expected: agents that have
 * been started and have not come yet. false: nothing, before
 * network_deadline(). */
bool network_next(struct network *n, size_t n_expected, uint64_t now_us,
                  struct network_action *a);
uint64_t network_deadline(const struct network *n, uint64_t now_us);

/* Was it added, and ADMIT not said yet? And how many are there of these? */
bool network_holds(const struct network *n, uint64_t agent);
size_t network_n_held(const struct network *n);

/* What the workers of this agent listen at, for SPAWN: text
 * [WIRE_ADDRESS_MAX]; "": unknown. */
void network_addresses(const struct network *n, uint64_t agent, char *text);

#endif
