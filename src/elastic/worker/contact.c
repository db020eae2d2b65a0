/* elastic/worker/contact.c - see contact.h. */
#include "elastic/worker/contact.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/wire/redial.h"
#include "elastic/worker/process.h"

enum { LOOK_US = 100000 /* how often a successor is looked for, at most */ };

static hvd_status_t dial(const struct contact *c, const char *endpoint,
                         struct wire_dealer **dealer_p)
{
    const struct process_identity *self = &process_self.self;
    char name[32];

    snprintf(name, sizeof(name), "w%" PRIu64, self->worker);
    return wire_dealer_create(c->context, endpoint, name, &self->secrets,
                              dealer_p);
}

static void drop_spare(struct contact *c)
{
    wire_dealer_destroy(c->spare);
    c->spare = NULL;
}

/* ---- open and close ------------------------------------------------------ */

/* The driver is there, and at no other places. */
static hvd_status_t list_endpoints(struct contact *c, const char *places)
{
    const char *list = places;

    c->n_endpoints = c->at = c->spare_at = 0;
    while (c->n_endpoints < ARRAY_SIZE(c->endpoints) &&
           address_take(&list, c->endpoints[c->n_endpoints]))
        c->n_endpoints++;
    if (c->n_endpoints > 0 && !*list)
        return HVD_OK;
    return error_set(HVD_ERR_INVALID, "\"%s\" is no place of a driver", places);
}

/* The driver that the agent knew may have had a successor meanwhile. */
static bool find_successor(struct contact *c, struct beacon *b)
{
    return c->scout && scout_look(c->scout, LOOK_US / 1000, b) &&
           b->job == process_self.self.job && beacon_control(b)[0];
}

hvd_status_t contact_open(struct contact *c, uint64_t *term_p)
{
    const struct process_identity *self = &process_self.self;
    struct beacon b;

    *c = (struct contact){0};
    *term_p = 0;
    HVD_TRY(list_endpoints(c, self->driver));
    HVD_TRY(wire_context_create(&c->context));
    if (self->job_dir[0])
        HVD_TRY(scout_create(self->job_dir, &c->scout));
    if (find_successor(c, &b)) {
        HVD_TRY(list_endpoints(c, beacon_control(&b)));
        *term_p = b.term;
    }
    return dial(c, c->endpoints[0], &c->dealer);
}

void contact_hang_up(struct contact *c)
{
    drop_spare(c);
    wire_dealer_destroy(c->dealer);
    c->dealer = NULL;
}

void contact_close(struct contact *c)
{
    contact_hang_up(c);
    if (c->context)
        wire_context_destroy(c->context);
    scout_destroy(c->scout);
    *c = (struct contact){0};
}

/* ---- who is heard -------------------------------------------------------- */

static void take_spare(struct contact *c)
{
    log_info("the driver is talked to at %s from now on",
             c->endpoints[c->spare_at]);
    wire_dealer_destroy(c->dealer);
    c->dealer = c->spare;
    c->spare = NULL;
    c->at = c->spare_at;
}

enum wire_receipt contact_receive(struct contact *c, struct message *m)
{
    enum wire_receipt receipt = wire_dealer_receive(c->dealer, m);

    if (receipt != WIRE_NOTHING || !c->spare)
        return receipt;
    receipt = wire_dealer_receive(c->spare, m);
    if (receipt == WIRE_MESSAGE)
        take_spare(c);
    return receipt;
}

bool contact_has_ways(const struct contact *c)
{
    return c->scout || c->n_endpoints > 1 ||
           !address_endpoint_is_loopback(c->endpoints[0]);
}

void contact_is_fine(struct contact *c, uint64_t now_us)
{
    c->n_tried = 0;
    if (now_us >= c->look_us)
        drop_spare(c);
}

/* ---- who is not ---------------------------------------------------------- */

/* Who has not answered yet may be the one that was dialled. One that this
 * machine does not reach is none. */
static bool is_another(const struct beacon *b, uint64_t term)
{
    const struct process_identity *self = &process_self.self;
    const char *places = beacon_control(b);

    return b->job == self->job && b->term > term && places[0] &&
           (term != 0 || strcmp(places, self->driver) != 0);
}

bool contact_follow(struct contact *c, uint64_t now_us, uint64_t term,
                    struct beacon *b)
{
    struct wire_dealer *dealer;

    if (!c->scout || now_us < c->follow_us)
        return false;
    c->follow_us = now_us + LOOK_US;
    if (!scout_look(c->scout, 0, b) || !is_another(b, term))
        return false;
    if (list_endpoints(c, beacon_control(b)) != HVD_OK ||
        dial(c, c->endpoints[0], &dealer) != HVD_OK) {
        log_warn("driver of term %" PRIu64 ": %s -> tried again", b->term,
                 error_text());
        return false;
    }
    drop_spare(c);
    wire_dealer_destroy(c->dealer);
    c->dealer = dealer;
    return true;
}

/* When a successor is looked for, or another connection is tried. */
static uint64_t next_look(const struct contact *c, bool tries)
{
    if (!tries || (c->scout && c->follow_us < c->look_us))
        return c->follow_us;
    return c->look_us;
}

/* With one address that is the same one: a firewall that has forgotten the
 * connection lets a new one pass. Within this machine none is forgotten. The
 * driver hears this HELLO before it answers: from then on the newest connection
 * speaks for this worker. A successor that listens there does not answer it. */
uint64_t contact_try_next(struct contact *c, uint64_t now_us, uint64_t pause_us,
                          const struct message *hello)
{
    bool tries = !c->scout || !address_endpoint_is_loopback(c->endpoints[0]);
    size_t next;

    if (!tries || now_us < c->look_us)
        return next_look(c, tries);
    next = ((c->spare ? c->spare_at : c->at) + 1) % c->n_endpoints;
    c->look_us = now_us + redial_pause(pause_us, c->n_tried++, c->n_endpoints);
    drop_spare(c);
    if (dial(c, c->endpoints[next], &c->spare) != HVD_OK ||
        wire_dealer_send(c->spare, hello) != HVD_OK) {
        log_warn("%s -> the next address is tried", error_text());
        drop_spare(c);
    }
    c->spare_at = next;
    return next_look(c, tries);
}

int contact_spare_fd(const struct contact *c)
{
    return c->spare ? wire_dealer_fd(c->spare) : -1;
}
