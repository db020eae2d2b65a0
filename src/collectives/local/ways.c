/* collectives/local/ways.c - which way the buffers of a phase take: what a rank
 * shows of its own, and what follows once all have shown theirs.
 *
 * Threads: whoever drives the comm. Memory: staging, see blocks.c. */
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"
#include "collectives/local/ordinary.h"

enum {
    BLOCK_MAX = 512 << 10,
    BLOCK_UNIT = 4096,
    /* of a broadcast: less is sooner read than agreed on; and where ranks share
     * cores, the root would rather sleep */
    SPLIT_MIN = 256 << 10,
    SPLIT_MIN_CROWDED = 4 << 20
};

static const enum pull_kind kinds[] = {
    [COLLECTIVE_ALLREDUCE] = PULL_ALLREDUCE,
    [COLLECTIVE_BROADCAST] = PULL_BROADCAST,
    [COLLECTIVE_ALLGATHER] = PULL_ALLGATHER,
    [COLLECTIVE_ALLGATHERV] = PULL_ALLGATHERV,
    [COLLECTIVE_REDUCE_SCATTER] = PULL_REDUCE_SCATTER,
    [COLLECTIVE_ALLTOALL] = PULL_ALLTOALL,
    [COLLECTIVE_ALLTOALLV] = PULL_ALLTOALLV,
    [COLLECTIVE_BARRIER] = PULL_BROADCAST,
};

/* --- own --- */

static size_t block_nbytes(const struct local *local)
{
    size_t n = LOCAL_STAGE_NBYTES /
               ((size_t)LOCAL_DEPTH * ((size_t)local->size + 1));

    n -= n % BLOCK_UNIT;
    if (n < BLOCK_UNIT)
        return BLOCK_UNIT;
    return n < BLOCK_MAX ? n : BLOCK_MAX;
}

static struct pull_shape shape_of(const struct local *local,
                                  const struct phase *phase)
{
    const struct schedule_call *call = &phase->shape;
    int root = call->kind == COLLECTIVE_BROADCAST ? local->place[call->root]
                                                  : 0;

    return (struct pull_shape){
        .kind = phase->pull_kind != 0 ? (enum pull_kind)phase->pull_kind
                                      : kinds[call->kind],
        .rank = local->me,
        .size = local->size,
        .root = root,
        .count = call->count,
        .elem_nbytes = call->elem_nbytes,
        .block_nbytes = block_nbytes(local),
        .depth = LOCAL_DEPTH,
        .n_slices = phase->n_slices,
        .sendcounts = call->sendcounts,
        .sdispls = call->sdispls,
        .recvcounts = call->recvcounts,
        .rdispls = call->rdispls,
    };
}

/* Bytes of own operand as the others see it, from its start on. */
static size_t visible_nbytes(const struct local *local,
                             const struct schedule_call *call)
{
    size_t n = 0;

    if (call->kind != COLLECTIVE_ALLTOALLV)
        return local_operand_nbytes(local, call, local->me);
    for (int i = 0; i < local->size; i++)
        if (call->sendcounts[i] > 0 &&
            call->sdispls[i] + call->sendcounts[i] > n)
            n = call->sdispls[i] + call->sendcounts[i];
    return n * call->elem_nbytes;
}

/* Only who would notice a peer's death may be written by it. */
static bool can_push(const struct local *local)
{
    for (int i = 0; i < local->size; i++)
        if (i != local->me && local->peers[i].pidfd < 0)
            return false;
    return true;
}

/* Own buffer of a broadcast is in the arena, and large: the root can take its
 * slice from there, or write it there. */
static bool may_split(const struct local *local, struct mailbox_card *card)
{
    const struct phase *phase = local->run.phase;
    size_t nbytes = local_largest_operand(local, &phase->shape);

    if (nbytes < (local->crowded ? SPLIT_MIN_CROWDED : SPLIT_MIN))
        return false;
    if (local_is_root(local))
        return arena_find(phase->src, nbytes, &card->send_at);
    return arena_find(phase->dst, nbytes, &card->recv_at) && can_push(local);
}

/* Its root waits for all readers at the beginning if it splits it, else at the
 * end. */
static bool offer_broadcast(struct local *local, struct mailbox_card *card)
{
    struct local_run *run = &local->run;
    const struct phase *phase = run->phase;
    struct pull_shape shape = shape_of(local, phase);
    size_t nbytes = local_largest_operand(local, &phase->shape);

    card->may_push = may_split(local, card);
    shape.split = card->may_push && local_is_root(local);
    pull_init(&run->pull, &shape);
    local_publish_progress(local);
    if (!local_is_root(local) ||
        !arena_find(phase->src, nbytes, &card->send_at))
        return false;
    run->first_peer = shape.split ? 0 : local->me;
    run->n_peers = shape.split ? local->size : 0;
    run->send_way = run->recv_way = MAILBOX_ARENA;
    return true;
}

bool local_ways_offer(struct local *local, struct mailbox_card *card)
{
    struct local_run *run = &local->run;
    const struct phase *phase = run->phase;
    const struct schedule_call *call = &phase->shape;
    struct pull_shape shape = shape_of(local, phase);
    size_t nbytes = local_operand_nbytes(local, call, local->me);

    if (call->kind == COLLECTIVE_BROADCAST)
        return offer_broadcast(local, card);
    pull_init(&run->pull, &shape);
    local_publish_progress(local);
    if (nbytes == 0 || !arena_find(phase->src, nbytes, &card->send_at))
        return false;
    if (call->kind == COLLECTIVE_ALLREDUCE) {
        if (!arena_find(phase->dst, nbytes, &card->recv_at) || !can_push(local))
            return false;
        card->may_push = 1;
    } else if (nbytes <= MAILBOX_INLINE_MAX ||
               local_overwrites_operand(phase)) {
        return false;
    }
    run->send_way = run->recv_way = MAILBOX_ARENA;
    return true;
}

/* Chosen only if there is a buffer to choose for: choices are measured. */
static uint8_t way_of(struct local *local, const void *ptr, size_t nbytes,
                      uint64_t *at_p)
{
    struct local_run *run = &local->run;

    if (nbytes == 0 || arena_find(ptr, nbytes, at_p))
        return MAILBOX_ARENA;
    *at_p = (uint64_t)(uintptr_t)ptr;
    if (run->ordinary == MAILBOX_NONE)
        run->ordinary = local_choose(local, run->phase);
    return run->ordinary;
}

static hvd_status_t plan(struct local *local, struct mailbox_card *card)
{
    struct local_run *run = &local->run;
    const struct phase *phase = run->phase;
    const struct schedule_call *call = &phase->shape;
    struct pull_shape shape = shape_of(local, phase);
    bool shows_result = shape.kind == PULL_ALLREDUCE;

    shape.in_place = phase->src == phase->dst;
    run->ordinary = MAILBOX_NONE;
    run->stage_nontemporal = false;
    run->send_way = local_overwrites_operand(phase)
                        ? MAILBOX_STAGED
                        : way_of(local, phase->src, visible_nbytes(local, call),
                                 &card->send_at);
    run->recv_way = MAILBOX_NONE;
    if (shows_result)
        run->recv_way = way_of(local, phase->dst,
                               call->count * call->elem_nbytes, &card->recv_at);
    shape.stage_send = run->send_way == MAILBOX_STAGED;
    shape.stage_recv = run->recv_way == MAILBOX_STAGED;
    if (shape.stage_send || shape.stage_recv)
        HVD_TRY(local_stage_reserve(local, pull_stage_nbytes(&shape)));
    card->stage_at = local->stage_at;
    card->may_push = shows_result && run->recv_way == MAILBOX_ARENA &&
                     can_push(local);
    if (call->kind == COLLECTIVE_BROADCAST)
        card->may_push = may_split(local, card);
    shape.split = card->may_push && local_is_root(local);
    pull_init(&run->pull, &shape);
    return HVD_OK;
}

static void write_table(struct local *local)
{
    const struct schedule_call *call = &local->run.phase->shape;
    struct local_extent *table = local_table_of(local->box, local->ticket);

    _Static_assert(sizeof(struct local_extent) == 16, "two words");
    for (int i = 0; i < local->size; i++)
        table[i] = (struct local_extent){call->sdispls[i] * call->elem_nbytes,
                                         call->sendcounts[i] *
                                             call->elem_nbytes};
}

hvd_status_t local_ways_plan(struct local *local, struct mailbox_card *card)
{
    local_choice_collect(local);
    HVD_TRY(plan(local, card));
    local_choice_begins(local);
    if (local->run.phase->shape.kind == COLLECTIVE_ALLTOALLV)
        write_table(local);
    local_publish_progress(local);
    return HVD_OK;
}

/* --- everybody's --- */

/* What the cards of all say; the same on every rank. */
static struct pull_ways ways_of_all(const struct local *local)
{
    struct pull_ways w = {.all_push = true};

    for (int i = 0; i < local->size; i++) {
        const struct mailbox_card *card = local_card_of(local->peers[i].box,
                                                        local->ticket);

        w.all_push = w.all_push && card->may_push;
        w.stages = w.stages || card->send_way == MAILBOX_STAGED;
        w.stages_result = w.stages_result || card->recv_way == MAILBOX_STAGED;
        w.attaches = w.attaches || card->send_way == MAILBOX_ATTACH;
    }
    return w;
}

/* With the rank at `place`; as it sees it, too. */
bool local_splits_with(const struct local *local, int place)
{
    int root = local->place[local->run.phase->shape.root];
    int reader = place == root ? local->me : place;

    return local_card_of(local->peers[root].box, local->ticket)->may_push &&
           local_card_of(local->peers[reader].box, local->ticket)->may_push;
}

/* Is this rank one of two that work at it? Until now the root has seemed to
 * have something to do for each reader. */
static bool splits_broadcast(struct local *local)
{
    struct local_run *run = &local->run;
    struct pull_shape shape = run->pull.shape;

    shape.split = false;
    for (int i = 0; i < local->size; i++)
        shape.split = shape.split ||
                      (i != local->me && local_concerns(local, i) &&
                       local_splits_with(local, i));
    if (shape.split)
        run->method = RUN_PUSHED;
    if (shape.split != run->pull.shape.split) {
        pull_init(&run->pull, &shape);
        local_publish_progress(local);
        local_notify(local); /* readers may be through, and asleep */
    }
    return shape.split;
}

void local_ways_arrived(struct local *local)
{
    struct local_run *run = &local->run;
    struct pull_shape shape;
    struct pull_ways ways;

    if (run->pull.shape.kind == PULL_BROADCAST && splits_broadcast(local))
        return;
    /* only who reduces has waited for the cards of all */
    if (run->method == RUN_OFFERED && run->pull.shape.kind != PULL_ALLREDUCE)
        return;
    ways = ways_of_all(local);
    if (!pull_suit(&run->pull, &ways, &shape))
        return;
    pull_init(&run->pull, &shape);
    if (!ways.all_push)
        return;
    run->method = RUN_PUSHED;
    local_publish_progress(local);
}
