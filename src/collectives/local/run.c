/* collectives/local/run.c - a phase that works in shared memory: shows what is
 * called, waits for the others' cards (card.c), and does the work: with
 * operands that travel in the cards here, with the others block by block
 * (blocks.c).
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/local/impl.h"
#include "collectives/local/stores.h"
#include "collectives/reduce/copy.h"
#include "collectives/reduce/reduce.h"

enum {
    PAUSES = 1000,      /* looks, before others get the core */
    PAUSES_ALONE = 16,  /* ... if one of the ranks was last seen here */
    PAUSES_BETWEEN = 2, /* ... and gets it back */
    LOOKS = 32,         /* between two looks at the abort word */
    SPIN_US = 60,       /* until this rank sleeps */
    SPIN_CROWDED_US = 300,
    OWN_NBYTES = 64 << 10 /* copied before the others are looked at again */
};

/* --- own contribution to own result --- */

static void begin_own(struct local *local)
{
    struct local_run *run = &local->run;
    const struct phase *phase = run->phase;
    const struct schedule_call *call = &phase->shape;
    size_t me = (size_t)local->me, e = call->elem_nbytes;
    size_t nbytes = call->count * e, to = me * nbytes, from = 0;

    run->own_nbytes = 0;
    switch (call->kind) {
    case COLLECTIVE_ALLGATHER:
        break;
    case COLLECTIVE_ALLTOALL:
        from = to;
        break;
    case COLLECTIVE_ALLTOALLV:
        from = call->sdispls[me] * e;
        /* fall through */
    case COLLECTIVE_ALLGATHERV:
        to = call->rdispls[me] * e;
        nbytes = call->recvcounts[me] * e;
        break;
    default:
        return;
    }
    if (nbytes == 0)
        return;
    run->own_to = phase->dst + to;
    run->own_from = phase->src + from;
    if (run->own_to != run->own_from)
        run->own_nbytes = nbytes;
}

/* Not more than nbytes. */
static hvd_status_t copy_own(struct local *local, size_t nbytes)
{
    struct local_run *run = &local->run;
    size_t n = run->own_nbytes < nbytes ? run->own_nbytes : nbytes;

    HVD_TRY(copy_in_pieces(local->owner.verdict, run->own_to, run->own_from, n,
                           run->nontemporal));
    run->own_to += n;
    run->own_from += n;
    run->own_nbytes -= n;
    return HVD_OK;
}

/* --- beginning --- */

static hvd_status_t dial(struct local *local)
{
    if (local->dialled)
        return HVD_OK;
    local->dialled = true;
    for (int i = 0; i < local->me; i++)
        HVD_TRY(local->owner.dial(local->owner.comm, local->peers[i].rank));
    return HVD_OK;
}

hvd_status_t local_begin(struct local *local, const struct phase *phase,
                         const struct frame *head)
{
    struct local_run *run = &local->run;

    HVD_TRY(dial(local));
    local->ticket++;
    local_move(run, RUN_SHOW);
    run->phase = phase;
    run->head = head;
    run->arrived = 0;
    run->stores = (struct local_stores){.sample = -1};
    if (phase->again && local_in_cards(run)) {
        begin_own(local);
        return HVD_OK;
    }
    run->first_peer = 0;
    run->n_peers = local->size;
    run->operand_nbytes = local_operand_nbytes(local, &phase->shape, local->me);
    run->method = local_method(local, phase);
    run->done_nbytes = 0;
    run->nontemporal = run->method == RUN_BLOCKS &&
                       local_is_nontemporal(local, phase);
    begin_own(local);
    if (!local_in_cards(run) || phase->shape.kind != COLLECTIVE_BROADCAST)
        return HVD_OK;
    /* who has the root's operand needs nobody else; the root needs nobody */
    run->first_peer = local->place[phase->shape.root];
    run->n_peers = run->first_peer == local->me ? 0 : 1;
    return HVD_OK;
}

/* --- work in the cards --- */

/* In the arena, and it cannot be mapped: read to where it can be. */
static hvd_status_t fetch_operand(struct local *local, int place, uint64_t at,
                                  size_t nbytes)
{
    const struct local_peer *peer = &local->peers[place];
    size_t most = local_largest_operand(local, &local->run.phase->shape);
    uint8_t *room;

    if (!local_fetch_reserve(local, most))
        return local_fail(local, HVD_ERR_NOMEM, "%zu bytes per rank", most);
    room = local_fetch_room(local, place);
    local->sources[place] = room;
    if (peer->arena != NULL && peer_arena_read(peer->arena, at, room, nbytes))
        return HVD_OK;
    return local_unreadable(local, place);
}

static hvd_status_t find_operand(struct local *local, int place)
{
    const struct local_peer *peer = &local->peers[place];
    const struct mailbox_card *card = local_card_of(peer->box, local->ticket);
    size_t nbytes = local_operand_nbytes(local, &local->run.phase->shape,
                                         place);
    uint64_t at = card->send_way == MAILBOX_ARENA ? card->send_at
                                                  : card->stage_at;

    if (card->send_way == MAILBOX_INLINE)
        local->sources[place] = local_payload_of(peer->box, local->ticket,
                                                 nbytes);
    else
        local->sources[place] = local_view(peer, at, nbytes);
    return local->sources[place] != NULL
               ? HVD_OK
               : fetch_operand(local, place, at, nbytes);
}

/* Of those who are waited for, and own one: local->sources. */
static hvd_status_t find_operands(struct local *local)
{
    local->sources[local->me] = local->run.phase->src;
    for (int n = 0; n < local->run.n_peers; n++) {
        int place = local->run.first_peer + n;

        if (place != local->me)
            HVD_TRY(find_operand(local, place));
    }
    return HVD_OK;
}

/* Own operand was offered, others read it where the result is to be: that has
 * to wait until they are through. */
static bool is_late(const struct local_run *run)
{
    return local_in_cards(run) && run->send_way == MAILBOX_ARENA &&
           run->phase->shape.kind == COLLECTIVE_ALLREDUCE &&
           run->phase->src == run->phase->dst;
}

static void reduce_cards(struct local *local, size_t first)
{
    const struct phase *phase = local->run.phase;
    struct reduce_shape shape = local_reduction(local);
    uint8_t *dst = is_late(&local->run) ? local->owner.bounce : phase->dst;

    for (int i = 0; i < local->size; i++)
        local->sources[i] = (const uint8_t *)local->sources[i] + first;
    reduce_many(&shape, dst, local->sources, local->size, phase->shape.count);
}

static hvd_status_t close_run(struct local *local, bool *more_p)
{
    const struct local_run *run = &local->run;
    const struct schedule_call *call = &run->phase->shape;

    HVD_TRY(local_blocks_close(local, more_p));
    if (run->state == RUN_DONE && is_late(run))
        memcpy(run->phase->dst, local->owner.bounce,
               call->count * call->elem_nbytes);
    return HVD_OK;
}

static void gather_cards(const struct local *local)
{
    const struct phase *phase = local->run.phase;
    const struct schedule_call *call = &phase->shape;
    size_t e = call->elem_nbytes, block = call->count * e;
    size_t mine = (size_t)local->me * block;

    for (int i = 0; i < local->size; i++) {
        const uint8_t *from = local->sources[i];
        size_t at = (size_t)i * block;

        if (i == local->me)
            continue;
        if (call->kind == COLLECTIVE_ALLGATHERV)
            memcpy(phase->dst + call->rdispls[i] * e, from,
                   call->recvcounts[i] * e);
        else
            memcpy(phase->dst + at,
                   call->kind == COLLECTIVE_ALLTOALL ? from + mine : from,
                   block);
    }
}

static hvd_status_t work_in_cards(struct local *local)
{
    const struct phase *phase = local->run.phase;
    const struct schedule_call *call = &phase->shape;
    size_t block = call->count * call->elem_nbytes;

    local_stores_read_begins(local);
    HVD_TRY(find_operands(local));
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
        reduce_cards(local, 0);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        reduce_cards(local, (size_t)local->me * block);
        break;
    case COLLECTIVE_BROADCAST:
        if (local->place[call->root] != local->me && block > 0)
            memcpy(phase->dst, local->sources[local->place[call->root]], block);
        break;
    case COLLECTIVE_BARRIER:
        break;
    default:
        gather_cards(local);
        break;
    }
    local_stores_read_ends(local);
    /* some have offered their buffers, others could not */
    if (local->run.method == RUN_OFFERED)
        return local_blocks_read(local);
    local_move(&local->run, RUN_DONE);
    return HVD_OK;
}

/* Own contribution: while there is nothing to read, and what is left of it at
 * the end, while the others read. Sooner it would keep them waiting, and push
 * what they read out of the caches. */
static hvd_status_t fill_in(struct local *local, bool *more_p)
{
    enum run_state state = local->run.state;

    if (state == RUN_DONE) /* it was small enough for a card */
        return copy_own(local, SIZE_MAX);
    if (state < RUN_CLOSE && *more_p)
        return HVD_OK;
    *more_p = true;
    return copy_own(local, OWN_NBYTES);
}

hvd_status_t local_advance(struct local *local, bool *more_p)
{
    struct local_run *run = &local->run;

    *more_p = false;
    if (run->state == RUN_SHOW) {
        /* a rank that nobody else waits for could be gone before they have
         * its memory */
        if (local->n_mapped < local->size - 1 || !local_card_is_free(local))
            return HVD_OK;
        HVD_TRY(local_show(local));
    }
    if (run->state == RUN_ARRIVE)
        HVD_TRY(local_arrive(local, more_p));
    if (run->state == RUN_WORK && local_in_cards(run))
        HVD_TRY(work_in_cards(local));
    else if (run->state == RUN_WORK)
        HVD_TRY(local_blocks_work(local, more_p));
    if (run->own_nbytes > 0)
        HVD_TRY(fill_in(local, more_p));
    if (run->state == RUN_CLOSE && run->own_nbytes == 0)
        HVD_TRY(close_run(local, more_p));
    return HVD_OK;
}

bool local_done(const struct local *local)
{
    return local->run.state == RUN_DONE;
}

bool local_needs(const struct local *local, int rank)
{
    const struct local_run *run = &local->run;
    int place = local->place[rank];
    const struct mailbox *box;
    uint64_t shown;

    if (place < 0 || run->state == RUN_DONE)
        return false;
    box = local->peers[place].box;
    if (box == NULL)
        return true;
    shown = atomic_load(&local_card_of(box, local->ticket)->ticket);
    if (shown < local->ticket)
        return true;
    return !local_in_cards(run) &&
           mailbox_blocks(atomic_load(&box->taken), local->ticket) != PULL_ALL;
}

bool local_will_need(const struct local *local, int rank, unsigned n)
{
    uint64_t ticket = local->ticket + n;
    const struct mailbox *box;

    if (local->place[rank] < 0)
        return false;
    box = local->peers[local->place[rank]].box;
    return box == NULL ||
           atomic_load(&local_card_of(box, ticket)->ticket) < ticket;
}

bool local_is_called(const struct local *local)
{
    uint64_t ticket = local->ticket + 1;

    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (i != local->me && box != NULL &&
            atomic_load(&local_card_of(box, ticket)->ticket) >= ticket)
            return true;
    }
    return false;
}

int local_missing(const struct local *local)
{
    for (int i = 0; i < local->size; i++)
        if (local->peers[i].box == NULL)
            return local->peers[i].rank;
    return -1;
}

/* --- looking again --- */

static void pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* There may be cores enough, and yet the scheduler has put two here. */
static bool shares_core(const struct local *local)
{
    uint32_t cpu = (uint32_t)sched_getcpu();

    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (i != local->me && cpu != UINT32_MAX &&
            atomic_load_explicit(&box->cpu, memory_order_relaxed) == cpu)
            return true;
    }
    return false;
}

/* A peer on a core of its own answers within a microsecond or so; where ranks
 * share cores, who waits has to let the others run, and the progress thread its
 * own application. (Who sleeps there is often woken on the core of who woke it,
 * and then three ranks share it: better to stay awake for as long as others'
 * turns take.) Who is not there yet says so on a connection. */
hvd_status_t local_look_again(struct local *local, bool *more_p)
{
    bool background = *local->owner.in_background;
    bool yields = local->crowded || (local->bound && background);
    int pauses = yields ? 0 : PAUSES;
    uint64_t until_us = 0, spin_us = SPIN_US;

    *more_p = false;
    if (local->n_mapped < local->size - 1)
        return HVD_OK;
    if (local->crowded && !background)
        spin_us = SPIN_CROWDED_US;
    for (int i = 0;; i++) {
        if (i % LOOKS == 0) {
            HVD_TRY(local_check(local));
            if (local_kicked(local))
                break;
        }
        HVD_TRY(local_advance(local, more_p));
        if (*more_p || local_done(local))
            break;
        if (i == PAUSES_ALONE && !yields && shares_core(local))
            pauses = 0;
        if (pauses-- > 0) {
            pause_core();
            continue;
        }
        if (until_us == 0)
            until_us = clock_now_us() + spin_us;
        else if (clock_now_us() >= until_us)
            break;
        sched_yield();
        pauses = PAUSES_BETWEEN;
    }
    return HVD_OK;
}

/* --- sleep --- */

/* From here on who publishes anything rings. */
void local_sleep(struct local *local)
{
    atomic_store(&local->box->sleeping, 1);
}

void local_wake(struct local *local)
{
    eventfd_t count;

    atomic_store(&local->box->sleeping, 0);
    (void)eventfd_read(local->doorbell, &count);
}

int local_doorbell(const struct local *local)
{
    return local->doorbell;
}
