/* elastic/driver/loop_hosts.c - a list of hosts on its way to the core: lines
 * that are no hosts are told, names that may be this machine are looked up, and
 * the networks are chosen. See loop_internal.h.
 *
 * On the machine gpu3 gpu3.example.org may be this machine, which a name
 * service knows. A thread asks it, and the list waits for the answer, for two
 * seconds at most. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/driver/loop_internal.h"

enum {
    SKIPPED_NEXT_US = 10000000, /* between complaints about a script's lines */
    SKIPPED_AGAIN_US = 600000000, /* ... that say the same */
    ANSWER_US = 2000000           /* of a name service */
};

void loop_tell_skipped(struct loop *l, const char *what, uint64_t now_us)
{
    bool same = strcmp(what, l->skipped) == 0;

    if (!*what || now_us < (same ? l->skipped_again_us : l->skipped_next_us))
        return;
    log_warn("--host-discovery-script: %s -> skipped, the other lines count",
             what);
    snprintf(l->skipped, sizeof(l->skipped), "%s", what);
    l->skipped_next_us = now_us + SKIPPED_NEXT_US;
    l->skipped_again_us = now_us + SKIPPED_AGAIN_US;
}

/* ---- names --------------------------------------------------------------- */

static const char *name_in_doubt(const struct loop *l,
                                 const struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (local_doubts(&l->launch.local, hosts->items[i].name))
            return hosts->items[i].name;
    return NULL;
}

static bool ask(struct loop *l, const char *name)
{
    l->query = name_query_start(name);
    if (!l->query || !loop_watch(l, name_query_fd(l->query))) {
        name_query_end(l->query);
        l->query = NULL;
        return false;
    }
    snprintf(l->queried, sizeof(l->queried), "%s", name);
    l->query_until_us = clock_now_us() + ANSWER_US;
    return true;
}

/* --launcher local takes a name in doubt for this machine: options_check.c has
 * asked about those that were given, loop.c takes those of a script. */
static void take_for_own(struct loop *l, const struct hosts *hosts)
{
    const char *name;

    while ((name = name_in_doubt(l, hosts)) != NULL) {
        local_decide(&l->launch.local, name, true);
        if (local_doubts(&l->launch.local, name))
            return; /* no memory */
    }
}

/* True: the list waits for an answer. */
static bool is_held(struct loop *l, const struct hosts *hosts)
{
    const char *name;

    if (l->query) /* of several the newest is used */
        return hosts_copy(hosts, &l->pending_hosts);
    if (l->options->launcher == LAUNCHER_LOCAL)
        take_for_own(l, hosts);
    if (l->launch.config.ops) /* it makes no difference where a host is */
        return false;
    while ((name = name_in_doubt(l, hosts)) != NULL) {
        if (hosts_copy(hosts, &l->pending_hosts) && ask(l, name))
            return true;
        local_decide(&l->launch.local, name, false);
        if (local_doubts(&l->launch.local, name))
            break; /* no memory */
    }
    return false;
}

/* *hosts_p: the list that has waited. */
static void end_query(struct loop *l, struct hosts *hosts_p)
{
    name_query_end(l->query);
    l->query = NULL;
    *hosts_p = l->pending_hosts;
    l->pending_hosts = (struct hosts){0};
}

void loop_hear_names(struct loop *l, uint64_t now_us)
{
    struct hosts hosts;
    bool here = false;

    if (!l->query ||
        (!name_query_answer(l->query, &here) && now_us < l->query_until_us))
        return;
    if (!name_query_answer(l->query, &here))
        log_warn("host %s: no name service said within %d s whether it is this "
                 "machine -> it is taken for another one",
                 l->queried, ANSWER_US / 1000000);
    local_decide(&l->launch.local, l->queried, here);
    end_query(l, &hosts);
    loop_feed_hosts(l, &hosts);
    hosts_fini(&hosts);
}

uint64_t loop_names_deadline(const struct loop *l)
{
    return l->query ? l->query_until_us : CLOCK_NEVER;
}

void loop_forget_names(struct loop *l)
{
    struct hosts hosts;

    end_query(l, &hosts);
    hosts_fini(&hosts);
}

/* ---- to the core --------------------------------------------------------- */

void loop_feed_hosts(struct loop *l, const struct hosts *hosts)
{
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = hosts};

    if (is_held(l, hosts))
        return;
    if (loop_choose_network(l, hosts) != HVD_OK) {
        ev.type = DRIVER_EV_DISCOVERY_BAD;
        ev.u.discovery.text = error_text();
        ev.u.discovery.lasts = true;
    }
    loop_feed(l, &ev);
}
