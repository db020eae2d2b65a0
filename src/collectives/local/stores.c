/* collectives/local/stores.c - see stores.h. */
#include "collectives/local/stores.h"

#include "base/array.h"
#include "base/clock.h"
#include "collectives/reduce/copy.h"

enum { THROUGH, PAST, WAYS };

/* NULL: too large, nothing is chosen. */
static struct choice *choice_of(struct local *local)
{
    const struct local_run *run = &local->run;
    int class;

    HVD_ASSERT(run->operand_nbytes > MAILBOX_INLINE_MAX);
    class = 63 - __builtin_clzll(run->operand_nbytes / MAILBOX_INLINE_MAX);
    return class < LOCAL_STORES_SIZES
               ? &local->stores[run->phase->shape.kind][class]
               : NULL;
}

static bool is_broadcast(const struct local *local)
{
    return local->run.phase->shape.kind == COLLECTIVE_BROADCAST;
}

/* ---- the root of a broadcast --------------------------------------------- */

/* The slowest of those who have read that broadcast; 0: not known of all. */
static uint64_t slowest_read(const struct local *local, uint64_t ticket)
{
    uint64_t slowest_ns = 0;

    for (int i = 0; i < local->size; i++) {
        const struct mailbox_read *read = mailbox_read_of(local->peers[i].box,
                                                          local->me);
        uint64_t ns;

        if (i == local->me)
            continue;
        ns = atomic_load(&read->ns);
        if (atomic_load(&read->ticket) != ticket) /* may be another's time */
            return 0;
        slowest_ns = ns > slowest_ns ? ns : slowest_ns;
    }
    return slowest_ns;
}

/* Have all read the one that is waited for? */
static bool hear_readers(struct local *local)
{
    struct local_stores *last = &local->broadcast;
    uint64_t ns;

    if (last->ticket == 0)
        return true;
    if (!local_all_have_shown(local, last->ticket + 1))
        return false;
    ns = slowest_read(local, last->ticket);
    choice_time(last->choice, last->way, last->sample,
                ns > 0 ? ns + last->ns : 0);
    last->ticket = 0;
    return true;
}

/* ---- copying ------------------------------------------------------------- */

/* A root that is ahead asks for no second time before it has heard the first.
 */
static void choose(struct local *local)
{
    struct local_stores *stores = &local->run.stores;

    stores->choice = choice_of(local);
    stores->way = THROUGH;
    stores->sample = -1;
    if (stores->choice == NULL)
        return;
    if (is_broadcast(local) && !hear_readers(local))
        stores->way = choice_best(stores->choice, WAYS);
    else
        stores->way = choice_next(stores->choice, WAYS, &stores->sample);
}

bool local_stores_copy(struct local *local, uint8_t *to)
{
    struct local_stores *stores = &local->run.stores;
    const struct local_run *run = &local->run;
    uint64_t begun_ns = 0;

    choose(local);
    if (stores->sample >= 0)
        begun_ns = clock_now_ns();
    copy_memory(to, run->phase->src, run->operand_nbytes, stores->way == PAST);
    if (stores->sample < 0)
        return false;
    stores->ns = clock_now_ns() - begun_ns;
    if (!is_broadcast(local))
        return false;
    local->broadcast = *stores;
    local->broadcast.ticket = local->ticket;
    stores->sample = -1;
    return true;
}

/* ---- reading ------------------------------------------------------------- */

/* Does the root of this broadcast, another, want to know? */
static bool is_asked(const struct local *local)
{
    const struct local_run *run = &local->run;

    return is_broadcast(local) && run->n_peers > 0 &&
           local_card_of(local->peers[run->first_peer].box, local->ticket)
                   ->timed != 0;
}

void local_stores_read_begins(struct local *local)
{
    struct local_stores *stores = &local->run.stores;

    if (stores->sample >= 0 || is_asked(local))
        stores->ns -= clock_now_ns();
}

static void tell_root(const struct local *local, uint64_t ns)
{
    struct mailbox_read *read =
        &local->box->reads[local->run.first_peer % MAILBOX_READS];

    /* never a later time under an earlier ticket */
    atomic_store(&read->ticket, 0);
    atomic_store(&read->ns, ns);
    atomic_store(&read->ticket, local->ticket);
}

void local_stores_read_ends(struct local *local)
{
    struct local_stores *stores = &local->run.stores;

    if (stores->sample >= 0) {
        choice_time(stores->choice, stores->way, stores->sample,
                    stores->ns + clock_now_ns());
        stores->sample = -1;
    } else if (is_asked(local)) {
        tell_root(local, stores->ns + clock_now_ns());
    }
}
