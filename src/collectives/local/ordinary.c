/* collectives/local/ordinary.c - see ordinary.h. Memory: a table per group,
 * allocated with the first choice; without it everything is staged. */
#include "collectives/local/ordinary.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collectives/local/choice.h"
#include "collectives/schedule/kinds.h"

enum { SIZES = 64 };

/* From here on an allreduce does not try to attach. Copied in pieces that fit
 * the caches it was faster in each comparison (docs/performance.md); and who
 * reads a rank that dies frees that rank's memory before the system call
 * returns, tens of milliseconds in which no abort is heard (bench/abort). */
enum { STAGED_ALLREDUCE_MIN = 64 << 20 };

/* Who shows a call in blocks knows that all have shown the ticket
 * BLOCKS_AHEAD before, so have finished those before that. Nobody is further
 * than in that call: the times of as many calls in blocks are all there. */
_Static_assert(MAILBOX_TIMES > LOCAL_BLOCKS_AHEAD + 2, "none overwritten");

/* A call in blocks whose time is wanted. */
struct timed {
    uint64_t ticket; /* 0: none */
    struct choice *choice;
    int way, sample;
};

struct local_choice {
    struct choice choices[KINDS_MAX][SIZES];
    struct timed timed[MAILBOX_TIMES]; /* as the times in a mailbox */
};

/* The first two are open to all. */
enum { STAGED_WAYS = 2 };
static const struct {
    uint8_t way;
    bool nontemporal; /* copied past the caches */
} ways[CHOICE_WAYS] = {
    {MAILBOX_STAGED, false}, {MAILBOX_STAGED, true}, {MAILBOX_ATTACH, false}};

static bool all_attach(const struct local *local)
{
    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (box == NULL || atomic_load(&box->attaches) != 1)
            return false;
    }
    return true;
}

/* What this costs is like which call: slices move as the halves of an
 * allreduce do. */
static int kind_of_cost(const struct phase *phase)
{
    if (phase->pull_kind == PULL_SLICES_REDUCE)
        return COLLECTIVE_REDUCE_SCATTER;
    return phase->pull_kind == PULL_SLICES_GATHER ? COLLECTIVE_ALLGATHER
                                                  : phase->shape.kind;
}

static int size_class(size_t nbytes)
{
    return nbytes == 0 ? 0 : 63 - __builtin_clzll(nbytes);
}

static bool is_large_allreduce(const struct phase *phase, size_t nbytes)
{
    return phase->shape.kind == COLLECTIVE_ALLREDUCE &&
           nbytes >= STAGED_ALLREDUCE_MIN;
}

/* The n first ways by turns, then the best. */
static int choose(struct local *local, struct choice *choice, int n)
{
    int sample, way = choice_next(choice, n, &sample);

    if (sample >= 0)
        local->choice->timed[local->n_blocks % MAILBOX_TIMES] = (struct timed){
            local->ticket, choice, way, sample};
    return way;
}

uint8_t local_choose(struct local *local, const struct phase *phase)
{
    size_t nbytes = local_largest_operand(local, &phase->shape);
    bool attach = local->forced_way != MAILBOX_STAGED && all_attach(local);
    int n = attach && !is_large_allreduce(phase, nbytes) ? CHOICE_WAYS
                                                         : STAGED_WAYS;
    int way;

    if (attach && local->forced_way == MAILBOX_ATTACH)
        return MAILBOX_ATTACH;
    /* some may not know yet that all attach: all count from the same ticket */
    if (local->ticket <= LOCAL_BLOCKS_AHEAD)
        return MAILBOX_STAGED;
    if (local->choice == NULL)
        local->choice = calloc(1, sizeof(*local->choice));
    if (local->choice == NULL)
        return MAILBOX_STAGED;
    way = choose(
        local, &local->choice->choices[kind_of_cost(phase)][size_class(nbytes)],
        n);
    local->run.stage_nontemporal = ways[way].nontemporal;
    return ways[way].way;
}

static struct mailbox_time *own_time(struct local *local)
{
    return &local->box->times[local->n_blocks % MAILBOX_TIMES];
}

/* Told by the ticket of a later card. */
static void set(atomic_uint_least64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

void local_choice_begins(struct local *local)
{
    struct mailbox_time *time = own_time(local);

    set(&time->ticket, local->ticket);
    set(&time->begun_ns, clock_now_ns());
    set(&time->ended_ns, 0);
}

void local_choice_ends(struct local *local)
{
    struct mailbox_time *time = own_time(local);

    if (atomic_load(&time->ticket) == local->ticket)
        set(&time->ended_ns, clock_now_ns());
}

/* From the last beginning to the last end. (In another time namespace a clock
 * is another's by a constant: then this is how long that rank took.) */
static uint64_t duration(const struct local *local, size_t at, uint64_t ticket)
{
    uint64_t begun_ns = 0, ended_ns = 0;

    for (int i = 0; i < local->size; i++) {
        const struct mailbox_time *time = &local->peers[i].box->times[at];
        uint64_t begun, ended;

        if (atomic_load(&time->ticket) != ticket)
            continue;
        begun = atomic_load(&time->begun_ns);
        ended = atomic_load(&time->ended_ns);
        begun_ns = begun > begun_ns ? begun : begun_ns;
        ended_ns = ended > ended_ns ? ended : ended_ns;
    }
    return ended_ns > begun_ns ? ended_ns - begun_ns : 0;
}

void local_choice_collect(struct local *local)
{
    struct local_choice *c = local->choice;

    local->n_blocks++;
    for (size_t at = 0; c != NULL && at < MAILBOX_TIMES; at++) {
        struct timed *timed = &c->timed[at];

        if (timed->ticket == 0 ||
            timed->ticket + LOCAL_BLOCKS_AHEAD >= local->ticket)
            continue;
        choice_time(timed->choice, timed->way, timed->sample,
                    duration(local, at, timed->ticket));
        timed->ticket = 0;
    }
}
