/* collectives/local/impl.h - the inside of a local group, shared by local.c
 * (its life), peer_memory.c (whose memory is mapped), plan.c (which way
 * operands take), run.c (the phase in flight), card.c (what is called), ways.c,
 * blocks.c, read.c (what peers show), ask.c, ordinary.c and stores.c.
 *
 * Threads: whoever drives the comm. Ranks here are places in the group: the
 * comm's ranks of this host in ascending order. */
#ifndef COLLECTIVES_LOCAL_IMPL_H
#define COLLECTIVES_LOCAL_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/moves.h"
#include "collectives/local/arena.h"
#include "collectives/local/choice.h"
#include "collectives/local/local.h"
#include "collectives/local/mailbox.h"
#include "collectives/local/pull.h"
#include "collectives/reduce/reduce.h"
#include "collectives/schedule/kinds.h"

/* Another process, by its number here and by what it has at an address. */
struct peer_process {
    pid_t pid; /* 0: it has no number in this namespace */
    uint64_t nonce, nonce_at;
};

struct local_peer {
    int rank;                  /* in the comm */
    const struct mailbox *box; /* NULL: not attached yet */
    bool own;                  /* box is a mapping of this process */
    struct peer_arena *arena;  /* NULL: it is this process's */
    struct peer_process process;
    int doorbell;
    int pidfd; /* readable once it is dead; -1: unknown */
};

/* DONE ---> SHOW ---> ARRIVE ---> WORK ---> CLOSE ---> DONE
 *                                   '------ in cards ---^   */
enum run_state {
    RUN_DONE,   /* nothing is in flight */
    RUN_SHOW,   /* the card of this ticket has to be free */
    RUN_ARRIVE, /* others have to show theirs */
    RUN_WORK,
    RUN_CLOSE /* who reads this rank's buffers has to be through */
};

/* How operands get to the others. Each rank decides between the first three by
 * the same rules (plan.c), and compares; PUSHED follows from what all show. */
enum run_method {
    RUN_CARDS,   /* all in the cards */
    RUN_OFFERED, /* in the cards, or read where they are, in the arena */
    RUN_BLOCKS,  /* block by block */
    RUN_PUSHED   /* ... and results, or the root's slice of a broadcast, go
                    straight into others' buffers */
};

/* A copy into staging memory whose time is wanted (stores.c). */
struct local_stores {
    struct choice *choice;
    int way, sample; /* sample < 0: it is not */
    uint64_t ns;     /* taken so far */
    uint64_t ticket; /* of a broadcast whose readers are waited for; 0: none */
};

/* The phase in flight. */
struct local_run {
    enum run_state state; /* local_move() */
    enum run_method method;
    const struct phase *phase;
    const struct frame *head; /* of the call */
    size_t operand_nbytes;    /* own */
    int first_peer, n_peers;  /* whose cards are waited for: places from
                                first_peer on, ascending */
    int arrived;
    struct pull pull;
    bool nontemporal; /* results go past the caches, unless somebody reads
                         them soon */
    uint8_t send_way, recv_way; /* enum mailbox_way */
    uint8_t ordinary;           /* the way of buffers outside the arena */
    bool stage_nontemporal;     /* so does what is staged block by block */
    struct local_stores stores;
    uint8_t *own_to; /* own contribution to own result, what is left of it */
    const uint8_t *own_from;
    size_t own_nbytes;
    /* An action that waits for an answer (ask.c), and how far it is:
     * bytes of its region, and operands of the piece under way. */
    bool waits;
    struct pull_action action;
    size_t done_nbytes;
    int n_fetched;
};

/* What this rank asks, and to whom it has lent its piece of the arena. */
struct local_ask {
    uint64_t word; /* 0: nothing is asked */
    uint64_t number;
    size_t nbytes, done; /* of this question; of all that is wanted */
};

struct local_lent {
    uint8_t *piece; /* [LOCAL_FETCH_NBYTES], from hvd_alloc; NULL: none yet */
    uint64_t piece_at;
    int to;
    uint64_t word; /* the question answered last */
};

enum { LOCAL_STORES_SIZES = 7 }; /* from MAILBOX_INLINE_MAX on, doubling */

struct local {
    struct local_owner owner;
    const struct comm_peer *ranks; /* of the comm, [n_ranks] */
    int rank, n_ranks;             /* of this one there, and how many */
    uint64_t generation;
    int size, me;
    struct local_peer *peers; /* [size]; own entry: box and rank alone */
    int *place;               /* [n_ranks]: in the group, or -1 */
    struct mailbox *box;      /* own */
    int box_fd, readable_fd;  /* writable until sealed and mapped; others' */
    int doorbell;             /* own */
    bool dialled;
    bool crowded; /* more ranks than cores for them; known once all are there */
    bool bound;   /* this rank has one core, for all of its threads */
    uint32_t cpu; /* as in own box */
    uint8_t forced_way; /* enum mailbox_way; NONE: by measurement */
    uint64_t ticket;
    int n_mapped;        /* peers whose memory is at hand */
    uint32_t past;       /* digest of the calls shown */
    uint64_t n_compared; /* tickets whose calls are known to be the same */
    uint64_t all_shown;  /* everybody has shown this one, at least */
    struct pull_progress *progress; /* [size] */
    const void **sources;           /* [size] */
    void **results, **views;        /* [size] each */
    uint8_t *stage;                 /* own, from hvd_alloc; NULL: none yet */
    uint64_t stage_at;              /* its place in the arena */
    size_t stage_next;     /* where in it the next operand of a card goes */
    uint64_t half_used[2]; /* last tickets whose operands lie in either half */
    uint64_t small_used[MAILBOX_SMALL], large_used[MAILBOX_LARGE]; /* ... or in
                                                                      data */
    uint64_t resume_at; /* 0; or far ahead: goes on when all have shown this */
    uint64_t n_blocks;  /* calls in blocks, the one under way included */
    uint8_t *fetched;   /* [size - 1][fetched_max] */
    size_t fetched_max;
    struct local_ask ask;
    struct local_lent lent;
    struct local_run run;
    struct local_choice *choice;
    struct choice stores[COLLECTIVE_BARRIER][LOCAL_STORES_SIZES];
    struct local_stores broadcast; /* of own, the last one timed */
};

enum {
    LOCAL_STAGE_NBYTES = 4 << 20,
    LOCAL_DEPTH = 2,
    /* calls, before the others': in cards, and in blocks */
    LOCAL_RUN_AHEAD = MAILBOX_CARDS / 2,
    LOCAL_BLOCKS_AHEAD = 2,
    LOCAL_FETCH_NBYTES = 256 << 10
};

static inline void local_move(struct local_run *run, enum run_state to)
{
    static const unsigned moves[] = {
        [RUN_DONE] = MOVE(RUN_SHOW),
        [RUN_SHOW] = MOVE(RUN_ARRIVE),
        [RUN_ARRIVE] = MOVE(RUN_WORK),
        [RUN_WORK] = MOVE(RUN_CLOSE) | MOVE(RUN_DONE),
        [RUN_CLOSE] = MOVE(RUN_DONE),
    };

    HVD_ASSERT(moves_allow(moves, run->state, to));
    run->state = to;
}

/* Operands travel in the cards, or as if they did. */
static inline bool local_in_cards(const struct local_run *run)
{
    return run->method <= RUN_OFFERED;
}

/* --- what the comm says --- */

/* End it with a sentence; returns the reason that counts. */
#define local_fail(local, ...) verdict_fail((local)->owner.verdict, __VA_ARGS__)

static inline hvd_status_t local_check(const struct local *local)
{
    return verdict_check(local->owner.verdict);
}

static inline bool local_kicked(const struct local *local)
{
    return atomic_load_explicit(local->owner.kick, memory_order_relaxed);
}

static inline hvd_status_t local_disagree(const struct local *local, int rank,
                                          const struct frame *theirs,
                                          const struct frame *mine)
{
    return local->owner.disagree(local->owner.comm, rank, theirs, mine);
}

/* --- peer_memory.c: the arenas of other processes --- */

struct peer_arena;

/* The arena behind fd (borrowed), perhaps known from a generation before. NULL:
 * errno, it cannot be mapped. */
struct peer_arena *peer_arena_take(int fd);
/* Where these bytes of the file are mapped, now if they were not; NULL: they
 * cannot be (errno), and are to be read and written so: */
uint8_t *peer_arena_view(struct peer_arena *arena, uint64_t offset,
                         size_t nbytes);
bool peer_arena_read(const struct peer_arena *arena, uint64_t offset, void *dst,
                     size_t nbytes);
bool peer_arena_write(const struct peer_arena *arena, uint64_t offset,
                      const void *src, size_t nbytes);
/* Stays mapped until local_tidy(): an unmapped arena of a dead process is freed
 * by whoever unmaps it last, which takes long. */
void peer_arena_give(struct peer_arena *arena);

/* The mailboxes of this process, unmapped when nobody uses them any more: ranks
 * that are its threads (tests) use each other's own mapping, so that the thread
 * sanitizer sees the words that order them. add: false, out of memory; the
 * mapping has one user then. take: by what it says of itself; NULL, it is no
 * mailbox of this process. */
bool own_box_add(struct mailbox *box);
const struct mailbox *own_box_take(uint64_t nonce);
void own_box_give(const struct mailbox *box);

/* Copy nbytes at `address` in that process. false: errno says why; ESRCH, it is
 * not there any more. */
bool peer_read(const struct peer_process *from, uint64_t address, void *dst,
               size_t nbytes);

/* --- plan.c --- */

/* Bytes of the operand of the rank at `place`. */
size_t local_operand_nbytes(const struct local *local,
                            const struct schedule_call *call, int place);
/* Of every rank's operand, at most; of an alltoallv 0: nobody knows. This, and
 * the next: the same answer on every rank. */
size_t local_largest_operand(const struct local *local,
                             const struct schedule_call *call);
/* RUN_PUSHED is not known before all have shown theirs. */
enum run_method local_method(const struct local *local,
                             const struct phase *phase);
/* Is own result written past the caches, as far as nobody reads it? */
bool local_is_nontemporal(const struct local *local, const struct phase *phase);

/* --- card.c --- */

/* Who has shown a ticket has finished those before. */
bool local_all_have_shown(struct local *local, uint64_t ticket);
/* May own card of this ticket be written, and what goes with it? */
bool local_card_is_free(struct local *local);
/* Show the call. */
hvd_status_t local_show(struct local *local) HVD_MUST_CHECK;
/* Have those it waits for shown theirs? All the same, or a mismatch. */
hvd_status_t local_arrive(struct local *local, bool *moved_p) HVD_MUST_CHECK;
/* Where an operand that travels in a card is. */
uint8_t *local_payload_of(const struct mailbox *box, uint64_t ticket,
                          size_t nbytes);

/* --- run.c --- */

/* Does anybody read the memory of the rank at `place`? */
static inline bool local_is_read(const struct local *local, int place)
{
    const struct schedule_call *call = &local->run.phase->shape;

    return call->kind != COLLECTIVE_BROADCAST ||
           place == local->place[call->root];
}

/* Has this rank nothing to read, as the operand is its own? */
static inline bool local_is_root(const struct local *local)
{
    const struct schedule_call *call = &local->run.phase->shape;

    return call->kind == COLLECTIVE_BROADCAST &&
           local->place[call->root] == local->me;
}

/* Does one of them read the other's? */
static inline bool local_concerns(const struct local *local, int place)
{
    return local_is_read(local, place) || local_is_read(local, local->me);
}

/* Blocks of it that others have not read: so it is staged, wherever it is. */
static inline bool local_overwrites_operand(const struct phase *phase)
{
    return phase->shape.kind == COLLECTIVE_ALLTOALL && phase->src == phase->dst;
}

/* Memory of the peer at this place of its arena. NULL: it cannot be mapped. */
static inline uint8_t *local_view(const struct local_peer *peer,
                                  uint64_t offset, size_t nbytes)
{
    return peer->arena != NULL ? peer_arena_view(peer->arena, offset, nbytes)
                               : arena_at(offset, nbytes);
}

static inline const struct mailbox_card *
local_card_of(const struct mailbox *box, uint64_t ticket)
{
    return &box->cards[ticket % MAILBOX_CARDS];
}

struct local_extent {
    uint64_t offset, nbytes;
};

_Static_assert((size_t)LOCAL_SIZE_MAX * sizeof(struct local_extent) <=
                   MAILBOX_INLINE_MAX,
               "a table fits");

/* Where nbytes that go with the card of a ticket are. */
static inline uint8_t *local_data_of(const struct mailbox *box, uint64_t ticket,
                                     size_t nbytes)
{
    const uint8_t *at = nbytes <= MAILBOX_SMALL_NBYTES
                            ? box->small[ticket % MAILBOX_SMALL]
                            : box->large[ticket % MAILBOX_LARGE];

    return (uint8_t *)(uintptr_t)at;
}

/* What an alltoallv card says to each rank of the host. */
static inline struct local_extent *local_table_of(const struct mailbox *box,
                                                  uint64_t ticket)
{
    return (struct local_extent *)(void *)local_data_of(box, ticket,
                                                        MAILBOX_INLINE_MAX);
}

static inline struct reduce_shape local_reduction(const struct local *local)
{
    return (struct reduce_shape){
        .dtype = (hvd_dtype_t)local->run.head->dtype,
        .op = (hvd_op_t)local->run.head->op,
        .divisor = local->run.phase->divisor,
    };
}

/* --- ways.c --- */

/* Before the card is shown: ways and places of the buffers. */
hvd_status_t local_ways_plan(struct local *local,
                             struct mailbox_card *card) HVD_MUST_CHECK;
/* Likewise, for operands that travel in cards: if own one can be read where
 * it is (allreduce: and the result pushed), offer that instead. */
bool local_ways_offer(struct local *local, struct mailbox_card *card);
/* All have shown theirs: what follows for the run. */
void local_ways_arrived(struct local *local);
/* Of a broadcast: does the root write its slice into the result at `place`? As
 * both see it; of two readers nothing is known. */
bool local_splits_with(const struct local *local, int place);

/* --- blocks.c --- */

/* Staging memory is there. */
hvd_status_t local_stage_reserve(struct local *local,
                                 size_t nbytes) HVD_MUST_CHECK;
/* Tell the others how far own work is. */
void local_publish_progress(struct local *local);
/* Operands were read in cards and offered buffers. */
hvd_status_t local_blocks_read(struct local *local) HVD_MUST_CHECK;
/* What needs no waiting. */
hvd_status_t local_blocks_work(struct local *local,
                               bool *moved_p) HVD_MUST_CHECK;
/* Own work is over: is everybody else's? */
hvd_status_t local_blocks_close(struct local *local,
                                bool *moved_p) HVD_MUST_CHECK;

/* Staging memory of LOCAL_STAGE_NBYTES at least. It is the process's and used
 * by one comm at a time: a rank may still be reading in what another has left
 * in good order, until the next generation begins. `tenant`: of that comm,
 * never 0; who takes the memory next is another. NULL: no memory that others
 * can read. */
enum { STAGE_HEAD_NBYTES = 4096 }; /* in front of it: the tenant */
uint8_t *stage_take(size_t nbytes, uint64_t tenant);
void stage_give(uint8_t *stage);
/* Of the memory at `stage`, anybody's. */
uint64_t stage_tenant(const uint8_t *stage);

/* --- read.c --- */

/* Bytes that a peer shows. */
struct local_source {
    const uint8_t *ptr; /* NULL: they are to be fetched */
    bool in_arena;      /* from a place in its arena, else from an address */
    uint64_t at;
};

/* The action's part of a peer's operand for this rank, and of its result. */
struct local_source local_operand_of(const struct local *local, int place,
                                     const struct pull_action *a);
struct local_source local_result_of(const struct local *local, int place,
                                    const struct pull_action *a);
/* By whichever way they can be had. *later_p: the peer has been asked for them,
 * and the run waits: to be called again with the same arguments. */
hvd_status_t local_fetch(struct local *local, int place,
                         struct local_source from, uint8_t *dst, size_t nbytes,
                         bool *later_p) HVD_MUST_CHECK;
/* Room for as many bytes of each peer's operand, in local->fetched. */
bool local_fetch_reserve(struct local *local, size_t nbytes);
/* ... of this one. */
static inline uint8_t *local_fetch_room(const struct local *local, int place)
{
    return local->fetched +
           local->fetched_max * (size_t)(place - (place > local->me));
}

/* All reading is over: had anybody gone before that? */
hvd_status_t local_check_left(struct local *local) HVD_MUST_CHECK;
/* A peer went while this rank did `what`. */
hvd_status_t local_gone(struct local *local, int place, uint32_t left,
                        const char *what) HVD_MUST_CHECK;
/* The peer is there, its memory is not (errno). */
hvd_status_t local_unreadable(struct local *local, int place) HVD_MUST_CHECK;

/* --- ask.c --- */

/* This rank cannot read others (error: an errno), and will say so. */
void local_ask_begins(struct local *local, int place, int error);
/* Have nbytes at `address` of that peer's memory copied to dst. *later_p: it is
 * not here yet; to be called again with the same arguments before anything else
 * is asked. */
hvd_status_t local_ask(struct local *local, int place, uint64_t address,
                       uint8_t *dst, size_t nbytes,
                       bool *later_p) HVD_MUST_CHECK;
/* Somebody asks: if it is this rank, answer. */
hvd_status_t local_answer(struct local *local) HVD_MUST_CHECK;

/* --- local.c --- */

/* Tell everybody that sleeps. */
void local_notify(struct local *local);

#endif
