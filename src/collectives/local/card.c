/* collectives/local/card.c - what a rank calls, shown to the others of its
 * host and compared with what they call. Small operands travel in the cards
 * themselves.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include <sched.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/round.h"
#include "collectives/local/impl.h"
#include "collectives/local/ordinary.h"
#include "collectives/local/stores.h"

enum { STAGE_HALF = LOCAL_STAGE_NBYTES / 2, STAGE_UNIT = 4096 };

/* --- showing --- */

static struct frame head_of(const struct mailbox_card *card)
{
    return (struct frame){
        .type = FRAME_DATA,
        .kind = card->kind,
        .dtype = card->dtype,
        .op = card->op,
        .root = card->root,
        .sequence = card->sequence,
        .count = card->count,
    };
}

/* Who does not wait for a peer (broadcasts) has not seen what that one called:
 * so everybody compares the cards up to `ticket`, which all have shown,
 * before he is LOCAL_RUN_AHEAD further; nobody overwrites one that may be
 * compared. */
static hvd_status_t check_past(struct local *local, uint64_t ticket)
{
    for (; local->n_compared < ticket; local->n_compared++) {
        uint64_t past = local->n_compared + 1;
        struct frame mine = head_of(local_card_of(local->box, past));

        for (int i = 0; i < local->size; i++) {
            const struct mailbox_card *card = local_card_of(local->peers[i].box,
                                                            past);
            struct frame theirs = head_of(card);

            if (i == local->me)
                continue;
            if (theirs.sequence != mine.sequence ||
                !frame_same_call(&theirs, &mine))
                return local_disagree(local, local->peers[i].rank, &theirs,
                                      &mine);
        }
    }
    return HVD_OK;
}

/* What frame_same_call() looks at. The numbers are compared by who reads an
 * operand; calls of no elements are counted and not shown. */
static uint32_t digest_with(uint32_t past, const struct frame *call)
{
    const struct {
        uint64_t count;
        int32_t root;
        uint8_t kind, dtype, op, zero;
    } key = {call->count, call->root, call->kind, call->dtype, call->op, 0};

    _Static_assert(sizeof(key) == 16, "no gaps");
    return XXH32(&key, sizeof(key), past);
}

/* By the digests in the cards: of all calls before that ticket. */
static bool same_past(const struct local *local, uint64_t ticket)
{
    uint32_t mine = local_card_of(local->box, ticket)->past;

    for (int i = 0; i < local->size; i++)
        if (local_card_of(local->peers[i].box, ticket)->past != mine)
            return false;
    return true;
}

bool local_all_have_shown(struct local *local, uint64_t ticket)
{
    if (local->all_shown >= ticket)
        return true;
    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (box == NULL ||
            (i != local->me &&
             atomic_load(&local_card_of(box, ticket)->ticket) < ticket))
            return false;
    }
    local->all_shown = ticket;
    return true;
}

/* Before own cards are overwritten: that of a ticket which as few others as
 * possible have still to show tells of all before it, so a root that is ahead
 * does this once in a while and not with every call. */
static hvd_status_t compare_past(struct local *local)
{
    uint64_t t = local->ticket;

    if (t <= local->n_compared + LOCAL_RUN_AHEAD)
        return HVD_OK;
    for (uint64_t lag = 1; lag < LOCAL_RUN_AHEAD; lag *= 4) {
        if (!local_all_have_shown(local, t - lag))
            continue;
        if (!same_past(local, t - lag))
            return check_past(local, t - lag - 1);
        local->n_compared = t - lag - 1;
        return HVD_OK;
    }
    return check_past(local, t - LOCAL_RUN_AHEAD);
}

/* Who was as far ahead as may be lets the others do half of it, or every call
 * would wait for them. */
static bool is_too_far_ahead(struct local *local)
{
    uint64_t t = local->ticket;
    unsigned ahead = local_in_cards(&local->run) ? LOCAL_RUN_AHEAD
                                                 : LOCAL_BLOCKS_AHEAD;

    if (t > ahead && !local_all_have_shown(local, t - ahead)) {
        local->resume_at = t - ahead / 2;
        return true;
    }
    if (local->resume_at > 0 && !local_all_have_shown(local, local->resume_at))
        return true;
    local->resume_at = 0;
    return false;
}

/* The ticket whose data was last where that of this one is to be, if its card
 * may come with any; else NULL. */
static uint64_t *data_used(struct local *local)
{
    const struct local_run *run = &local->run;
    size_t nbytes = run->operand_nbytes;
    uint64_t t = local->ticket;

    if (!local_in_cards(run))
        return run->phase->shape.kind == COLLECTIVE_ALLTOALLV
                   ? &local->large_used[t % MAILBOX_LARGE]
                   : NULL;
    if (nbytes <= MAILBOX_TINY_MAX || nbytes > MAILBOX_INLINE_MAX)
        return NULL;
    return nbytes <= MAILBOX_SMALL_NBYTES
               ? &local->small_used[t % MAILBOX_SMALL]
               : &local->large_used[t % MAILBOX_LARGE];
}

static bool is_staged(const struct local_run *run)
{
    return local_in_cards(run) && run->operand_nbytes > MAILBOX_INLINE_MAX;
}

/* Where in staging memory an operand goes: behind the one before, or where the
 * other half begins. What is written there again has long left the caches of
 * those who read it, if these are smaller: nobody is asked to let go of it. */
static size_t stage_offset(const struct local *local)
{
    size_t at = local->stage_next, half = at / STAGE_HALF * STAGE_HALF;

    if (at + local->run.operand_nbytes <= half + STAGE_HALF)
        return at;
    return STAGE_HALF - half;
}

/* A half is entered when everybody has read what it holds. */
static bool stage_is_free(struct local *local)
{
    size_t offset = stage_offset(local);
    uint64_t last = local->half_used[offset / STAGE_HALF];

    return offset % STAGE_HALF != 0 || last == 0 ||
           local_all_have_shown(local, last + 1);
}

/* Has everybody finished what the card to be overwritten was about, its data,
 * and what lay in staging memory? */
bool local_card_is_free(struct local *local)
{
    uint64_t *used = data_used(local);

    if (is_too_far_ahead(local))
        return false;
    if (is_staged(&local->run) && !stage_is_free(local))
        return false;
    if (used == NULL)
        return true;
    if (*used != 0 && !local_all_have_shown(local, *used + 1))
        return false;
    *used = local->ticket;
    return true;
}

uint8_t *local_payload_of(const struct mailbox *box, uint64_t ticket,
                          size_t nbytes)
{
    const uint8_t *tiny = local_card_of(box, ticket)->tiny;

    return nbytes <= MAILBOX_TINY_MAX ? (uint8_t *)(uintptr_t)tiny
                                      : local_data_of(box, ticket, nbytes);
}

static hvd_status_t give_staged(struct local *local, struct mailbox_card *card)
{
    size_t nbytes = local->run.operand_nbytes, offset = stage_offset(local);
    size_t whole = round_up_to(nbytes, STAGE_UNIT);

    HVD_TRY(local_stage_reserve(local, LOCAL_STAGE_NBYTES));
    local->run.send_way = MAILBOX_STAGED;
    local->half_used[offset / STAGE_HALF] = local->ticket;
    local->stage_next = (offset + whole) % LOCAL_STAGE_NBYTES;
    card->send_at = local->stage_at;
    card->stage_at = local->stage_at + offset;
    card->timed = local_stores_copy(local, local->stage + offset);
    return HVD_OK;
}

/* Into the card, or into staging memory. */
static hvd_status_t give_operand(struct local *local, struct mailbox_card *card)
{
    struct local_run *run = &local->run;
    size_t nbytes = run->operand_nbytes;

    run->send_way = run->recv_way = MAILBOX_INLINE;
    if (nbytes > MAILBOX_INLINE_MAX)
        return give_staged(local, card);
    if (nbytes > 0)
        memcpy(local_payload_of(local->box, local->ticket, nbytes),
               run->phase->src, nbytes);
    return HVD_OK;
}

static void show_cpu(struct local *local)
{
    uint32_t cpu = (uint32_t)sched_getcpu();

    if (cpu == local->cpu)
        return;
    local->cpu = cpu;
    atomic_store_explicit(&local->box->cpu, cpu, memory_order_relaxed);
}

/* What all have to do alike, and would wait for ever or misread otherwise: by
 * the same rules, of the same release, it is the same. */
static uint8_t plan_of(const struct local_run *run)
{
    unsigned kind = (unsigned)run->phase->pull_kind;

    return (uint8_t)(run->method | kind << 2);
}

hvd_status_t local_show(struct local *local)
{
    struct local_run *run = &local->run;
    const struct schedule_call *call = &run->phase->shape;
    const struct frame *head = run->head;
    struct mailbox_card *card =
        &local->box->cards[local->ticket % MAILBOX_CARDS];

    HVD_TRY(compare_past(local));
    card->sequence = head->sequence;
    card->count = head->count;
    card->root = head->root;
    card->kind = head->kind;
    card->dtype = head->dtype;
    card->op = head->op;
    card->plan = plan_of(run);
    card->may_push = 0;
    card->timed = 0;
    card->past = local->past;
    if (call->kind == COLLECTIVE_ALLGATHERV)
        card->nbytes = run->operand_nbytes;
    if (run->method == RUN_BLOCKS)
        HVD_TRY(local_ways_plan(local, card));
    else if (run->method == RUN_CARDS || !local_ways_offer(local, card))
        HVD_TRY(give_operand(local, card));
    card->send_way = run->send_way;
    card->recv_way = run->recv_way;
    show_cpu(local);
    atomic_store(&card->ticket, local->ticket);
    local_notify(local);
    local->past = digest_with(local->past, head);
    local_move(run, RUN_ARRIVE);
    return HVD_OK;
}

/* --- the others' cards --- */

/* The v-forms: what the peer has for this rank, against what is expected. */
static hvd_status_t check_counts(struct local *local, int place,
                                 const struct mailbox_card *card)
{
    const struct schedule_call *call = &local->run.phase->shape;
    const struct local_extent *table = local_table_of(local->peers[place].box,
                                                      local->ticket);
    struct frame theirs = *local->run.head, mine = theirs;

    theirs.count = (call->kind == COLLECTIVE_ALLTOALLV ? table[local->me].nbytes
                                                       : card->nbytes) /
                   call->elem_nbytes;
    mine.count = call->recvcounts[place];
    if (theirs.count == mine.count)
        return HVD_OK;
    return local_disagree(local, local->peers[place].rank, &theirs, &mine);
}

static hvd_status_t check_card(struct local *local, int place,
                               const struct mailbox_card *card)
{
    const struct frame *mine = local->run.head;
    struct frame theirs = head_of(card);
    bool each = mine->kind == COLLECTIVE_ALLTOALLV;

    if (each)
        theirs.count = mine->count;
    if (atomic_load(&card->ticket) != local->ticket ||
        theirs.sequence != mine->sequence || !frame_same_call(&theirs, mine))
        return local_disagree(local, local->peers[place].rank, &theirs, mine);
    if (card->plan != plan_of(&local->run))
        return local_fail(local, HVD_ERR_MISMATCH,
                          "rank %d does %s #%llu in another way than rank %d: "
                          "HVD_ALGORITHM or the version of libhvd differs",
                          local->peers[place].rank, kind_of(mine->kind)->name,
                          (unsigned long long)mine->sequence, local->rank);
    return each || mine->kind == COLLECTIVE_ALLGATHERV
               ? check_counts(local, place, card)
               : HVD_OK;
}

hvd_status_t local_arrive(struct local *local, bool *moved_p)
{
    struct local_run *run = &local->run;

    for (; run->arrived < run->n_peers; run->arrived++) {
        int place = run->first_peer + run->arrived;
        const struct mailbox *box = local->peers[place].box;
        const struct mailbox_card *card;

        if (place == local->me)
            continue;
        if (box == NULL)
            return HVD_OK;
        card = local_card_of(box, local->ticket);
        if (atomic_load(&card->ticket) < local->ticket)
            return HVD_OK;
        HVD_TRY(check_card(local, place, card));
    }
    if (run->n_peers == local->size) {
        local->all_shown = local->ticket;
        if (!same_past(local, local->ticket))
            HVD_TRY(check_past(local, local->ticket - 1));
        local->n_compared = local->ticket;
    }
    if (run->method != RUN_CARDS)
        local_ways_arrived(local);
    local_move(run, RUN_WORK);
    local->owner.arrived(local->owner.comm);
    *moved_p = true;
    return HVD_OK;
}
