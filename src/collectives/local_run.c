/* collectives/local_run.c - a phase that works in shared memory: posts what is
 * called, waits for the others' posts, and does the work: small operands travel
 * in the posts themselves, the others block by block (local_blocks.c).
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include <sched.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/call.h"
#include "collectives/copy.h"
#include "collectives/local_choice.h"
#include "collectives/local_impl.h"
#include "collectives/reduce.h"

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
static hvd_status_t place_own(struct comm *comm, size_t nbytes)
{
    struct local_run *run = &comm->local->run;
    size_t n = run->own_nbytes < nbytes ? run->own_nbytes : nbytes;

    HVD_TRY(operation_copy(comm, run->own_to, run->own_from, n, run->stream));
    run->own_to += n;
    run->own_from += n;
    run->own_nbytes -= n;
    return HVD_OK;
}

/* --- beginning --- */

static hvd_status_t dial(struct comm *comm)
{
    struct local *local = comm->local;

    if (local->dialled)
        return HVD_OK;
    local->dialled = true;
    for (int i = 0; i < local->me; i++)
        HVD_TRY(links_dial(comm, local->peers[i].rank, CHANNEL_LOCAL));
    return HVD_OK;
}

hvd_status_t local_begin(struct comm *comm, const struct phase *phase)
{
    struct local *local = comm->local;
    struct local_run *run = &local->run;

    HVD_TRY(dial(comm));
    local->ticket++;
    run->stage = LOCAL_POST;
    run->phase = phase;
    run->arrived = 0;
    run->first_peer = 0;
    run->n_peers = local->size;
    run->in_posts = phase->pull_kind == 0 &&
                    local_fits_posts(local, &phase->shape);
    run->offers = run->in_posts && local_may_offer(local, &phase->shape);
    run->done_nbytes = 0;
    run->stream = !run->in_posts && local_streams(local, phase);
    begin_own(local);
    if (!run->in_posts || phase->shape.kind != COLLECTIVE_BROADCAST)
        return HVD_OK;
    /* who has the root's operand needs nobody else; the root needs nobody */
    run->first_peer = local->place[phase->shape.root];
    run->n_peers = run->first_peer == local->me ? 0 : 1;
    return HVD_OK;
}

/* --- posting --- */

static struct frame head_of(const struct mailbox_post *post)
{
    return (struct frame){
        .type = FRAME_DATA,
        .kind = post->kind,
        .dtype = post->dtype,
        .op = post->op,
        .root = post->root,
        .sequence = post->sequence,
        .count = post->count,
    };
}

/* Who does not wait for a peer (broadcasts) has not seen what that one called:
 * so everybody compares the posts up to `ticket`, which all have posted, before
 * he is LOCAL_RUN_AHEAD further, and nobody overwrites one that may be compared.
 */
static hvd_status_t check_past(struct comm *comm, uint64_t ticket)
{
    struct local *local = comm->local;

    for (; local->n_compared < ticket; local->n_compared++) {
        uint64_t past = local->n_compared + 1;
        struct frame mine = head_of(local_post_of(local->box, past));

        for (int i = 0; i < local->size; i++) {
            const struct mailbox_post *post = local_post_of(local->peers[i].box,
                                                            past);
            struct frame theirs = head_of(post);

            if (i == local->me)
                continue;
            if (mine.kind == COLLECTIVE_ALLTOALLV)
                theirs.count = mine.count;
            if (theirs.sequence != mine.sequence ||
                !frame_same_call(&theirs, &mine))
                return engine_disagree(comm, local->peers[i].rank, &theirs,
                                       &mine);
        }
    }
    return HVD_OK;
}

/* What frame_same_call() looks at. The numbers are compared by who reads an
 * operand; calls of no elements are counted and not posted. */
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

/* By the digests in the posts: of all calls before that ticket. */
static bool same_past(const struct local *local, uint64_t ticket)
{
    uint32_t mine = local_post_of(local->box, ticket)->past;

    for (int i = 0; i < local->size; i++)
        if (local_post_of(local->peers[i].box, ticket)->past != mine)
            return false;
    return true;
}

/* Who has posted a ticket has finished those before. */
static bool all_have_posted(struct local *local, uint64_t ticket)
{
    if (local->all_posted >= ticket)
        return true;
    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (box == NULL ||
            (i != local->me &&
             atomic_load(&local_post_of(box, ticket)->ticket) < ticket))
            return false;
    }
    local->all_posted = ticket;
    return true;
}

/* Before own posts are overwritten: that of a ticket which as few others as
 * possible have still to post tells of all before it, so a root that is ahead
 * does this once in a while and not with every call. */
static hvd_status_t compare_past(struct comm *comm)
{
    struct local *local = comm->local;
    uint64_t t = local->ticket;

    if (t <= local->n_compared + LOCAL_RUN_AHEAD)
        return HVD_OK;
    for (uint64_t lag = 1; lag < LOCAL_RUN_AHEAD; lag *= 4) {
        if (!all_have_posted(local, t - lag))
            continue;
        if (!same_past(local, t - lag))
            return check_past(comm, t - lag - 1);
        local->n_compared = t - lag - 1;
        return HVD_OK;
    }
    return check_past(comm, t - LOCAL_RUN_AHEAD);
}

/* Who was as far ahead as may be lets the others do half of it, or every call
 * would wait for them, and they would wake this rank with each of theirs. */
static bool is_too_far_ahead(struct local *local)
{
    uint64_t t = local->ticket;
    unsigned ahead = local->run.in_posts ? LOCAL_RUN_AHEAD : LOCAL_BLOCKS_AHEAD;

    if (t > ahead && !all_have_posted(local, t - ahead)) {
        local->resume_at = t - ahead / 2;
        return true;
    }
    if (local->resume_at > 0 && !all_have_posted(local, local->resume_at))
        return true;
    local->resume_at = 0;
    return false;
}

/* Does a post of this phase come with data? Perhaps, is yes. */
static bool has_data(const struct local *local)
{
    const struct schedule_call *call = &local->run.phase->shape;
    size_t nbytes;

    if (!local->run.in_posts)
        return call->kind == COLLECTIVE_ALLTOALLV;
    nbytes = local_operand_nbytes(local, call, local->me);
    return nbytes > MAILBOX_TINY_MAX && nbytes <= MAILBOX_INLINE_MAX;
}

/* Has everybody finished what the post to be overwritten was about, its data,
 * and the half of staging memory? */
static bool post_is_free(struct local *local)
{
    uint64_t t = local->ticket, half = local->half_used[t % 2];
    uint64_t data = local->data_used[t % MAILBOX_DATA];

    if (is_too_far_ahead(local))
        return false;
    if (local->run.in_posts && half != 0 && !all_have_posted(local, half + 1))
        return false;
    if (!has_data(local))
        return true;
    if (data != 0 && !all_have_posted(local, data + 1))
        return false;
    local->data_used[t % MAILBOX_DATA] = t;
    return true;
}

static uint8_t *payload_of(const struct mailbox *box, uint64_t ticket,
                           size_t nbytes)
{
    const uint8_t *tiny = local_post_of(box, ticket)->tiny;

    return nbytes <= MAILBOX_TINY_MAX ? (uint8_t *)(uintptr_t)tiny
                                      : local_data_of(box, ticket);
}

/* Into the post, or into the half of staging memory that is this ticket's. */
static hvd_status_t give_operand(struct comm *comm, struct mailbox_post *post,
                                 size_t nbytes)
{
    struct local *local = comm->local;
    struct local_run *run = &local->run;
    uint8_t *to = payload_of(local->box, local->ticket, nbytes);
    size_t half = stage_half(local->ticket);

    run->send_way = run->recv_way = MAILBOX_INLINE;
    if (nbytes > MAILBOX_INLINE_MAX) {
        HVD_TRY(local_stage_reserve(comm, LOCAL_STAGE_NBYTES));
        run->send_way = MAILBOX_STAGED;
        local->half_used[local->ticket % 2] = local->ticket;
        post->stage_at = local->stage_at + half;
        to = local->stage + half;
    }
    if (nbytes > 0)
        copy_memory(to, run->phase->src, nbytes, false);
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
    return (uint8_t)(run->in_posts | run->offers << 1 |
                     run->phase->pull_kind << 2);
}

static hvd_status_t post(struct comm *comm)
{
    struct local *local = comm->local;
    struct local_run *run = &local->run;
    const struct schedule_call *call = &run->phase->shape;
    const struct frame *head = &comm->op.head;
    struct mailbox_post *post =
        &local->box->posts[local->ticket % MAILBOX_POSTS];
    size_t nbytes;

    post->sequence = head->sequence;
    post->count = head->count;
    post->root = head->root;
    post->kind = head->kind;
    post->dtype = head->dtype;
    post->op = head->op;
    post->plan = plan_of(run);
    post->may_push = 0;
    post->past = local->past;
    nbytes = local_operand_nbytes(local, call, local->me);
    post->nbytes = nbytes;
    if (!run->in_posts) {
        HVD_TRY(local_blocks_plan(comm, post));
    } else if (!run->offers || !local_blocks_offer(comm, post)) {
        HVD_TRY(give_operand(comm, post, nbytes));
    }
    post->send_way = run->send_way;
    post->recv_way = run->recv_way;
    show_cpu(local);
    atomic_store(&post->ticket, local->ticket);
    local_notify(local);
    local->past = digest_with(local->past, head);
    run->stage = LOCAL_ARRIVE;
    return HVD_OK;
}

/* --- the others' posts --- */

/* The v-forms: what the peer has for this rank, against what is expected. */
static hvd_status_t check_counts(struct comm *comm, int place,
                                 const struct mailbox_post *post)
{
    const struct local *local = comm->local;
    const struct schedule_call *call = &local->run.phase->shape;
    const struct local_extent *table =
        (const struct local_extent *)(const void *)local_data_of(
            local->peers[place].box, local->ticket);
    struct frame theirs = comm->op.head, mine = comm->op.head;

    theirs.count = (call->kind == COLLECTIVE_ALLTOALLV ? table[local->me].nbytes
                                                       : post->nbytes) /
                   call->elem_nbytes;
    mine.count = call->recvcounts[place];
    if (theirs.count == mine.count)
        return HVD_OK;
    return engine_disagree(comm, local->peers[place].rank, &theirs, &mine);
}

static hvd_status_t check_post(struct comm *comm, int place,
                               const struct mailbox_post *post)
{
    const struct frame *mine = &comm->op.head;
    struct frame theirs = head_of(post);
    bool each = mine->kind == COLLECTIVE_ALLTOALLV;

    if (each)
        theirs.count = mine->count;
    if (atomic_load(&post->ticket) != comm->local->ticket ||
        theirs.sequence != mine->sequence || !frame_same_call(&theirs, mine))
        return engine_disagree(comm, comm->local->peers[place].rank, &theirs,
                               mine);
    if (post->plan != plan_of(&comm->local->run))
        return comm_fail(comm, HVD_ERR_MISMATCH,
                         "rank %d does %s #%llu in another way than rank %d: "
                         "HVD_ALGORITHM or the version of libhvd differs",
                         comm->local->peers[place].rank,
                         call_kind_name(mine->kind),
                         (unsigned long long)mine->sequence, comm->config.rank);
    return each || mine->kind == COLLECTIVE_ALLGATHERV
               ? check_counts(comm, place, post)
               : HVD_OK;
}

static hvd_status_t arrive(struct comm *comm, bool *moved_p)
{
    struct local *local = comm->local;
    struct local_run *run = &local->run;

    for (; run->arrived < run->n_peers; run->arrived++) {
        int place = run->first_peer + run->arrived;
        const struct mailbox *box = local->peers[place].box;
        const struct mailbox_post *post;

        if (place == local->me)
            continue;
        if (box == NULL)
            return HVD_OK;
        post = local_post_of(box, local->ticket);
        if (atomic_load(&post->ticket) < local->ticket)
            return HVD_OK;
        HVD_TRY(check_post(comm, place, post));
    }
    if (run->n_peers == local->size) {
        local->all_posted = local->ticket;
        if (!same_past(local, local->ticket))
            HVD_TRY(check_past(comm, local->ticket - 1));
        local->n_compared = local->ticket;
    }
    if (!run->in_posts || run->offers)
        local_blocks_arrived(comm);
    run->stage = LOCAL_WORK;
    operation_arrived(&comm->op);
    *moved_p = true;
    return HVD_OK;
}

/* --- work in the posts --- */

/* In the arena, and it cannot be mapped: read to where it can be. */
static hvd_status_t fetch_operand(struct comm *comm, int place, uint64_t at,
                                  size_t nbytes)
{
    struct local *local = comm->local;
    const struct local_peer *peer = &local->peers[place];
    size_t most = local_largest_operand(local, &local->run.phase->shape);
    uint8_t *room;

    if (!local_fetch_reserve(local, most))
        return comm_fail(comm, HVD_ERR_NOMEM, "%zu bytes per rank", most);
    room = local->fetched +
           local->fetched_max * (size_t)(place - (place > local->me));
    local->sources[place] = room;
    if (peer->arena != NULL && peer_arena_read(peer->arena, at, room, nbytes))
        return HVD_OK;
    return local_unreadable(comm, place);
}

static hvd_status_t find_operand(struct comm *comm, int place)
{
    struct local *local = comm->local;
    const struct local_peer *peer = &local->peers[place];
    const struct mailbox_post *post = local_post_of(peer->box, local->ticket);
    size_t nbytes = local_operand_nbytes(local, &local->run.phase->shape,
                                         place);
    uint64_t at = post->send_way == MAILBOX_ARENA ? post->send_at
                                                  : post->stage_at;

    if (post->send_way == MAILBOX_INLINE)
        local->sources[place] = payload_of(peer->box, local->ticket, nbytes);
    else
        local->sources[place] = local_view(peer, at, nbytes);
    return local->sources[place] != NULL
               ? HVD_OK
               : fetch_operand(comm, place, at, nbytes);
}

/* Of those who are waited for, and own one: local->sources. */
static hvd_status_t find_operands(struct comm *comm)
{
    struct local *local = comm->local;

    local->sources[local->me] = local->run.phase->src;
    for (int n = 0; n < local->run.n_peers; n++) {
        int place = local->run.first_peer + n;

        if (place != local->me)
            HVD_TRY(find_operand(comm, place));
    }
    return HVD_OK;
}

/* Own operand was offered, others read it where the result is to be: that has
 * to wait until they are through. */
static bool is_late(const struct local_run *run)
{
    return run->in_posts && run->send_way == MAILBOX_ARENA &&
           run->phase->shape.kind == COLLECTIVE_ALLREDUCE &&
           run->phase->src == run->phase->dst;
}

static void reduce_posts(struct comm *comm, size_t first)
{
    struct local *local = comm->local;
    const struct phase *phase = local->run.phase;
    struct reduce_shape shape = local_reduction(comm);
    uint8_t *dst = is_late(&local->run) ? comm->bounce : phase->dst;

    for (int i = 0; i < local->size; i++)
        local->sources[i] = (const uint8_t *)local->sources[i] + first;
    reduce_many(&shape, dst, local->sources, local->size, phase->shape.count);
}

static hvd_status_t close_run(struct comm *comm, bool *more_p)
{
    const struct local_run *run = &comm->local->run;
    const struct schedule_call *call = &run->phase->shape;

    HVD_TRY(local_blocks_close(comm, more_p));
    if (run->stage == LOCAL_DONE && is_late(run))
        memcpy(run->phase->dst, comm->bounce, call->count * call->elem_nbytes);
    return HVD_OK;
}

static void gather_posts(const struct local *local)
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

static hvd_status_t work_in_posts(struct comm *comm)
{
    struct local *local = comm->local;
    const struct phase *phase = local->run.phase;
    const struct schedule_call *call = &phase->shape;
    size_t block = call->count * call->elem_nbytes;

    HVD_TRY(find_operands(comm));
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
        reduce_posts(comm, 0);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        reduce_posts(comm, (size_t)local->me * block);
        break;
    case COLLECTIVE_BROADCAST:
        if (local->run.n_peers > 0 && block > 0)
            memcpy(phase->dst, local->sources[local->run.first_peer], block);
        break;
    case COLLECTIVE_BARRIER:
        break;
    default:
        gather_posts(local);
        break;
    }
    local->run.stage = LOCAL_DONE;
    /* some have offered their buffers, others could not */
    return local->run.offers ? local_blocks_read(comm) : HVD_OK;
}

/* Own contribution: while there is nothing to read, and what is left of it at
 * the end, while the others read. Sooner it would keep them waiting, and push
 * what they read out of the caches. */
static hvd_status_t fill_in(struct comm *comm, bool *more_p)
{
    enum local_stage stage = comm->local->run.stage;

    if (stage == LOCAL_DONE) /* it was small enough for a post */
        return place_own(comm, SIZE_MAX);
    if (stage < LOCAL_CLOSE && *more_p)
        return HVD_OK;
    *more_p = true;
    return place_own(comm, OWN_NBYTES);
}

hvd_status_t local_advance(struct comm *comm, bool *more_p)
{
    struct local *local = comm->local;
    struct local_run *run = &local->run;

    *more_p = false;
    if (run->stage == LOCAL_POST) {
        /* a rank that nobody else waits for could be gone before they have
         * its memory */
        if (local->n_attached < local->size - 1 || !post_is_free(local))
            return HVD_OK;
        HVD_TRY(compare_past(comm));
        HVD_TRY(post(comm));
    }
    if (run->stage == LOCAL_ARRIVE)
        HVD_TRY(arrive(comm, more_p));
    if (run->stage == LOCAL_WORK && run->in_posts)
        HVD_TRY(work_in_posts(comm));
    else if (run->stage == LOCAL_WORK)
        HVD_TRY(local_blocks_work(comm, more_p));
    if (run->own_nbytes > 0)
        HVD_TRY(fill_in(comm, more_p));
    if (run->stage == LOCAL_CLOSE && run->own_nbytes == 0)
        HVD_TRY(close_run(comm, more_p));
    return HVD_OK;
}

bool local_done(const struct comm *comm)
{
    return comm->local->run.stage == LOCAL_DONE;
}

bool local_needs(const struct comm *comm, int peer)
{
    const struct local *local = comm->local;
    const struct local_run *run = &local->run;
    int place = local->place[peer];
    const struct mailbox *box;
    uint64_t posted;

    if (place < 0 || run->stage == LOCAL_DONE)
        return false;
    box = local->peers[place].box;
    if (box == NULL)
        return true;
    posted = atomic_load(&local_post_of(box, local->ticket)->ticket);
    if (posted < local->ticket)
        return true;
    return !run->in_posts &&
           mailbox_blocks(atomic_load(&box->taken), local->ticket) != PULL_ALL;
}

bool local_will_need(const struct comm *comm, int peer, unsigned n)
{
    const struct local *local = comm->local;
    uint64_t ticket = local->ticket + n;
    const struct mailbox *box;

    if (local->place[peer] < 0)
        return false;
    box = local->peers[local->place[peer]].box;
    return box == NULL ||
           atomic_load(&local_post_of(box, ticket)->ticket) < ticket;
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
hvd_status_t local_spin(struct comm *comm, bool *more_p)
{
    const struct local *local = comm->local;
    bool yields = local->crowded || (local->bound && comm->in_background);
    int pauses = yields ? 0 : PAUSES;
    uint64_t until_us = 0, spin_us = SPIN_US;

    *more_p = false;
    if (local->n_attached < local->size - 1)
        return HVD_OK;
    if (local->crowded && !comm->in_background)
        spin_us = SPIN_CROWDED_US;
    for (int i = 0;; i++) {
        if (i % LOOKS == 0) {
            HVD_TRY(comm_check(comm));
            if (comm_kicked(comm))
                break;
        }
        HVD_TRY(local_advance(comm, more_p));
        if (*more_p || local_done(comm))
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
