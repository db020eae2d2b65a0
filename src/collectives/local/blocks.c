/* collectives/local/blocks.c - operands that do not fit a card: block by block
 * through memory that the others read, as pull.c says.
 *
 * Threads: whoever drives the comm. Memory: staging from hvd_alloc, with its
 * first use. */
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"
#include "collectives/local/ordinary.h"
#include "collectives/reduce/copy.h"
#include "collectives/reduce/reduce.h"

enum {
    ACTIONS_MAX = 64 /* before connections are looked at */
};

hvd_status_t local_stage_reserve(struct local *local, size_t nbytes)
{
    if (local->stage == NULL)
        local->stage = stage_take(nbytes, local->box->nonce);
    if (local->stage == NULL)
        return local_fail(local, HVD_ERR_NOMEM, "%zu bytes of staging memory",
                          nbytes);
    return arena_find(local->stage, nbytes, &local->stage_at)
               ? HVD_OK
               : local_fail(local, HVD_ERR_NOMEM, "staging memory");
}

void local_publish_progress(struct local *local)
{
    struct pull_progress own = pull_progress(&local->run.pull);
    struct mailbox *box = local->box;

    atomic_store_explicit(&box->staged, mailbox_word(local->ticket, own.staged),
                          memory_order_release);
    atomic_store_explicit(&box->reduced,
                          mailbox_word(local->ticket, own.reduced),
                          memory_order_release);
    atomic_store(&box->taken, mailbox_word(local->ticket, own.taken));
}

/* --- work block by block --- */

/* True: somebody asks for what it cannot read. */
static bool look_at_peers(struct local *local)
{
    uint64_t ask = 0;

    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (i == local->me)
            continue;
        local->progress[i] = (struct pull_progress){
            mailbox_blocks(atomic_load(&box->staged), local->ticket),
            mailbox_blocks(atomic_load(&box->reduced), local->ticket),
            mailbox_blocks(atomic_load(&box->taken), local->ticket),
        };
        ask |= atomic_load(&box->ask);
    }
    return ask != 0;
}

static void do_stage(struct local *local, const struct pull_action *a)
{
    copy_memory(local->stage + a->stage, local->run.phase->src + a->region.src,
                a->region.nbytes, local->run.stage_nontemporal);
}

/* [off, off + nbytes) of a peer's operand: local->sources. Fetched, unless that
 * was done before this piece had to wait for another's. */
static hvd_status_t find_piece(struct local *local, int place,
                               const struct pull_action *a, size_t off,
                               size_t nbytes)
{
    struct local_run *run = &local->run;
    struct local_source from = local_operand_of(local, place, a);
    uint8_t *room;
    bool later;

    if (from.ptr != NULL) {
        local->sources[place] = from.ptr + off;
        return HVD_OK;
    }
    room = local_fetch_room(local, place);
    local->sources[place] = room;
    from.at += off;
    if (place < run->n_fetched)
        return HVD_OK;
    HVD_TRY(local_fetch(local, place, from, room, nbytes, &later));
    run->n_fetched = later ? place : place + 1;
    return HVD_OK;
}

/* All of them; or the run waits. */
static hvd_status_t find_pieces(struct local *local,
                                const struct pull_action *a, size_t off,
                                size_t nbytes)
{
    for (int i = 0; i < local->size; i++) {
        if (i == local->me) {
            local->sources[i] = local->run.phase->src + a->region.src + off;
            continue;
        }
        HVD_TRY(find_piece(local, i, a, off, nbytes));
        if (local->run.waits && i >= local->run.n_fetched)
            return HVD_OK;
    }
    local->run.n_fetched = 0;
    return HVD_OK;
}

static bool pushes(const struct local *local)
{
    return local->run.method == RUN_PUSHED;
}

static uint64_t result_at(const struct local *local, int place)
{
    return local_card_of(local->peers[place].box, local->ticket)->recv_at;
}

/* Where the result of [at, at + nbytes) goes: own first, then the others' that
 * can be mapped, if it is pushed. How many: local->results. Whether they can is
 * asked once for each piece, it may be another answer the next time:
 * local->views, by place. */
static int find_results(const struct local *local, size_t at, size_t nbytes)
{
    int n = 0;

    local->results[n++] = local->run.phase->dst + at;
    for (int k = 1; k < local->size && pushes(local); k++) {
        int i = (local->me + k) % local->size;

        local->views[i] = local_view(&local->peers[i], result_at(local, i) + at,
                                     nbytes);
        if (local->views[i] != NULL)
            local->results[n++] = local->views[i];
    }
    return n;
}

/* To those that could not: by a system call each. */
static hvd_status_t push_unmapped(struct local *local, size_t at, size_t nbytes)
{
    for (int i = 0; i < local->size; i++)
        if (i != local->me && local->views[i] == NULL &&
            !peer_arena_write(local->peers[i].arena, result_at(local, i) + at,
                              local->run.phase->dst + at, nbytes))
            return local_unreadable(local, i);
    return HVD_OK;
}

/* [off, off + nbytes) of the block; or the run waits. */
static hvd_status_t reduce_piece(struct local *local,
                                 const struct pull_action *a, size_t off,
                                 size_t nbytes)
{
    struct local_run *run = &local->run;
    struct reduce_shape shape = local_reduction(local);
    size_t at = a->region.dst + off;
    int n;

    HVD_TRY(find_pieces(local, a, off, nbytes));
    if (run->waits)
        return HVD_OK;
    n = find_results(local, at, nbytes);
    /* nobody reads it soon: neither takes it nor writes it elsewhere */
    shape.nontemporal = run->nontemporal &&
                        (run->pull.shape.kind == PULL_REDUCE_SCATTER ||
                         n == local->size);
    reduce_to_all(&shape, local->results, n, local->sources, local->size,
                  nbytes / run->phase->shape.elem_nbytes);
    return pushes(local) && n < local->size ? push_unmapped(local, at, nbytes)
                                            : HVD_OK;
}

/* From now on who leaves waits for us; has he already? place: whose memory it
 * is, -1: everybody's. */
static hvd_status_t begin_writing(struct local *local, int place)
{
    atomic_store(&local->box->writing,
                 place < 0 ? MAILBOX_ALL : (uint32_t)place + 1);
    for (int i = 0; i < local->size; i++) {
        uint32_t left;

        if (i == local->me || (place >= 0 && i != place))
            continue;
        left = atomic_load(&local->peers[i].box->left);
        if (left == MAILBOX_HERE)
            continue;
        atomic_store(&local->box->writing, 0);
        return local_gone(local, i, left, "worked for it");
    }
    return HVD_OK;
}

static hvd_status_t reduce_block(struct local *local,
                                 const struct pull_action *a, size_t step)
{
    struct local_run *run = &local->run;

    while (run->done_nbytes < a->region.nbytes) {
        size_t rest = a->region.nbytes - run->done_nbytes;
        size_t n = rest < step ? rest : step;

        HVD_TRY(reduce_piece(local, a, run->done_nbytes, n));
        if (run->waits)
            return HVD_OK;
        run->done_nbytes += n;
    }
    return HVD_OK;
}

static hvd_status_t push_block(struct local *local, const struct pull_action *a,
                               size_t step)
{
    hvd_status_t status;

    HVD_TRY(begin_writing(local, -1));
    status = reduce_block(local, a, step);
    atomic_store(&local->box->writing, 0);
    return status;
}

/* Is there an operand that is not at hand? */
static bool fetches(const struct local *local, const struct pull_action *a)
{
    for (int i = 0; i < local->size; i++)
        if (i != local->me && local_operand_of(local, i, a).ptr == NULL)
            return true;
    return false;
}

static hvd_status_t do_reduce(struct local *local, const struct pull_action *a)
{
    struct local_run *run = &local->run;
    size_t step = a->region.nbytes;

    if (fetches(local, a)) {
        step = LOCAL_FETCH_NBYTES;
        if (!local_fetch_reserve(local, step))
            return local_fail(local, HVD_ERR_NOMEM, "%d bytes per rank",
                              LOCAL_FETCH_NBYTES);
    }
    if (pushes(local))
        return push_block(local, a, step);
    HVD_TRY(reduce_block(local, a, step));
    if (!run->waits && run->recv_way == MAILBOX_STAGED)
        copy_memory(local->stage + a->stage, run->phase->dst + a->region.dst,
                    a->region.nbytes, run->stage_nontemporal);
    return HVD_OK;
}

/* The root's slice of a broadcast, to one reader. */
static hvd_status_t push_slice(struct local *local, const struct pull_action *a)
{
    const struct local_peer *peer = &local->peers[a->peer];
    const uint8_t *src = local->run.phase->src + a->region.src;
    size_t nbytes = a->region.nbytes;
    uint64_t at = result_at(local, a->peer) + a->region.dst;
    uint8_t *view;
    bool written = true;

    if (!local_splits_with(local, a->peer))
        return HVD_OK;
    HVD_TRY(begin_writing(local, a->peer));
    view = local_view(peer, at, nbytes);
    if (view != NULL)
        copy_memory(view, src, nbytes, local->run.nontemporal);
    else
        written = peer_arena_write(peer->arena, at, src, nbytes);
    atomic_store(&local->box->writing, 0);
    return written ? HVD_OK : local_unreadable(local, a->peer);
}

static hvd_status_t do_take(struct local *local, const struct pull_action *a)
{
    uint8_t *dst = local->run.phase->dst + a->region.dst;
    struct local_source from;
    bool later;

    if (a->region.nbytes == 0)
        return HVD_OK;
    if (local_is_root(local))
        return push_slice(local, a);
    from = local->run.pull.reduces ? local_result_of(local, a->peer, a)
                                   : local_operand_of(local, a->peer, a);
    if (from.ptr == NULL)
        return local_fetch(local, a->peer, from, dst, a->region.nbytes, &later);
    copy_memory(dst, from.ptr, a->region.nbytes, local->run.nontemporal);
    return HVD_OK;
}

static hvd_status_t carry_out(struct local *local, const struct pull_action *a)
{
    switch (a->type) {
    case PULL_STAGE:
        do_stage(local, a);
        return HVD_OK;
    case PULL_REDUCE:
        return do_reduce(local, a);
    case PULL_TAKE:
        return do_take(local, a);
    case PULL_WAIT:
    case PULL_DONE:
        break;
    }
    return HVD_OK;
}

/* What has been read is believed before anybody is told that it has been read:
 * from then on the others may go. */
static hvd_status_t publish(struct local *local)
{
    struct pull_action next;

    pull_next(&local->run.pull, local->progress, &next);
    if (next.type == PULL_DONE)
        HVD_TRY(local_check_left(local));
    local_publish_progress(local);
    local_notify(local);
    return HVD_OK;
}

/* The next action, or the one that waits for an answer. */
static struct pull_action next_action(const struct local *local)
{
    struct pull_action a;

    if (__builtin_expect(local->run.waits, 0))
        return local->run.action;
    pull_next(&local->run.pull, local->progress, &a);
    return a;
}

hvd_status_t local_blocks_work(struct local *local, bool *moved_p)
{
    struct local_run *run = &local->run;

    for (int n = 0; n < ACTIONS_MAX; n++) {
        struct pull_action a;

        HVD_TRY(local_check(local));
        if (look_at_peers(local))
            HVD_TRY(local_answer(local));
        a = next_action(local);
        if (a.type == PULL_WAIT)
            return HVD_OK;
        if (a.type == PULL_DONE) {
            *moved_p = true;
            local_move(run, RUN_CLOSE);
            return HVD_OK;
        }
        HVD_TRY(carry_out(local, &a));
        run->action = a;
        if (run->waits)
            return HVD_OK;
        *moved_p = true;
        run->done_nbytes = 0;
        pull_did(&run->pull, &a);
        if (a.publish)
            HVD_TRY(publish(local));
    }
    return HVD_OK;
}

hvd_status_t local_blocks_read(struct local *local)
{
    struct pull *pull = &local->run.pull;

    HVD_TRY(local_check_left(local));
    pull->reduce_i = pull->n_reduce;
    pull->take_i = pull->n_take;
    local_publish_progress(local);
    local_notify(local);
    local_move(&local->run,
               local->run.send_way == MAILBOX_ARENA ? RUN_CLOSE : RUN_DONE);
    return HVD_OK;
}

/* Is anybody still reading this rank's buffers or staging memory, or writing
 * there? */
static bool is_used(const struct local *local)
{
    for (int i = 0; i < local->size; i++)
        if (i != local->me && local_concerns(local, i) &&
            (local->progress[i].reduced != PULL_ALL ||
             local->progress[i].taken != PULL_ALL))
            return true;
    return false;
}

hvd_status_t local_blocks_close(struct local *local, bool *moved_p)
{
    if (look_at_peers(local))
        HVD_TRY(local_answer(local));
    if (is_used(local))
        return HVD_OK;
    local_choice_ends(local);
    local_move(&local->run, RUN_DONE);
    *moved_p = true;
    return HVD_OK;
}
