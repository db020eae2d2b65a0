/* elastic/driver/guests.c - who may connect: the agents that were started, and
 * the workers that they were told to start, each with its token. See
 * loop_internal.h.
 *
 * A successor knows those that were written down. As long as it finds out who
 * is there the gate is open to all who know the driver's key, which none but
 * this job's agents and workers were handed; whoever shows a right token then
 * is a guest from there on. Agents of whom nobody knew may come later, too: it
 * knows which numbers they can have. */
#include <inttypes.h>

#include "elastic/driver/loop_internal.h"

void guests_agent_token(const struct loop *l, uint64_t agent, uint8_t *token)
{
    wire_token_derive(l->secret, WIRE_TOKEN_AGENT, agent, token);
}

/* Its agent makes it. */
void guests_worker_token(const struct loop *l, uint64_t agent, uint64_t worker,
                         uint8_t *token)
{
    uint8_t of_agent[WIRE_TOKEN_NBYTES];

    guests_agent_token(l, agent, of_agent);
    wire_token_derive(of_agent, WIRE_TOKEN_WORKER, worker, token);
}

bool guests_expect(struct loop *l, uint64_t agent, uint64_t worker)
{
    uint8_t token[WIRE_TOKEN_NBYTES];

    if (worker)
        guests_worker_token(l, agent, worker, token);
    else
        guests_agent_token(l, agent, token);
    return wire_gate_allow(l->gate, agent, worker, token);
}

/* It lives, and may have to dial again: nobody can start it anew. */
void guests_recognise(struct loop *l, uint64_t agent, uint64_t worker)
{
    if (guests_expect(l, agent, worker) || l->gate_stays_open)
        return;
    l->gate_stays_open = true;
    log_error("no memory for the key of %s %" PRIu64 " -> any process that "
              "knows the driver's key may connect",
              worker ? "worker" : "agent", worker ? worker : agent);
}

void guests_tell_refused(struct loop *l)
{
    char address[WIRE_ADDRESS_MAX];

    if (wire_gate_refused(l->gate, address))
        log_seldom(&l->unknown, LOG_LEVEL_WARN,
                   "connection from %s with a key that nobody here has "
                   "-> refused",
                   address);
}

void guests_close_gate(struct loop *l)
{
    if (!l->gate_open || l->gate_stays_open || driver_adopts(&l->driver))
        return;
    l->gate_open = false;
    wire_gate_open(l->gate, false);
}

/* Those of which nothing was written down have the highest numbers. They may
 * come when all is decided, to be told to go (M15), and nobody comes twice: who
 * is refused does not dial again. */
static void expect_unknown_agents(struct loop *l)
{
    const uint64_t n = KEEP_NUMBERS + KEEP_NUMBERS / 2; /* at most: keep.c */
    uint64_t next = l->driver.next_agent;

    for (uint64_t agent = next > n ? next - n : 1; agent < next; agent++)
        guests_recognise(l, agent, 0);
}

void guests_expect_known(struct loop *l, const struct memory *m)
{
    expect_unknown_agents(l);
    for (size_t i = 0; i < m->n_hosts; i++)
        if (m->hosts[i].agent != 0)
            guests_recognise(l, m->hosts[i].agent, 0);
    for (size_t i = 0; i < m->n_workers; i++)
        guests_recognise(l, m->workers[i].agent, m->workers[i].worker);
}
