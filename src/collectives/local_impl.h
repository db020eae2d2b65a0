/* collectives/local_impl.h - the inside of a local group, shared by local.c
 * (its life), peer_memory.c (whose memory is mapped), local_plan.c (which way
 * operands take), local_run.c (the phase in flight), local_blocks.c and
 * local_choice.c.
 *
 * Threads: whoever drives the comm. Ranks here are places in the group: the
 * comm's ranks of this host in ascending order. */
#ifndef COLLECTIVES_LOCAL_IMPL_H
#define COLLECTIVES_LOCAL_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/comm_impl.h"
#include "collectives/local.h"
#include "collectives/mailbox.h"
#include "collectives/pull.h"
#include "collectives/reduce.h"

struct local_peer {
    int rank;                   /* in the comm */
    const struct mailbox *box;  /* NULL: not attached yet */
    bool own;                   /* box is a mapping of this process */
    uint8_t *arena;             /* NULL: it has none */
    struct peer_arena *mapping; /* NULL: it is this process's */
    int doorbell;
    int pidfd; /* readable once it is dead; -1: unknown */
};

enum local_stage {
    LOCAL_POST,   /* the post of this ticket has to be free */
    LOCAL_ARRIVE, /* others have to post it */
    LOCAL_WORK,
    LOCAL_CLOSE, /* who reads this rank's buffers has to be through */
    LOCAL_DONE
};

/* The phase in flight. */
struct local_run {
    enum local_stage stage;
    const struct phase *phase;
    bool in_posts;           /* operands travel in the posts */
    bool offers;             /* ... or are read where they are, in the arena */
    int first_peer, n_peers; /* whose posts are waited for: places from
                                first_peer on, ascending */
    int arrived;
    struct pull pull;
    bool push;   /* results go straight into everybody's buffers */
    bool stream; /* ... and past the caches, as far as nobody reads them yet */
    uint8_t send_way, recv_way; /* enum mailbox_way */
    uint8_t ordinary;           /* the way of buffers outside the arena */
    uint8_t *own_to; /* own contribution to own result, what is left of it */
    const uint8_t *own_from;
    size_t own_nbytes;
};

struct local {
    int size, me;
    struct local_peer *peers; /* [size]; own entry: box and rank alone */
    int *place;               /* [comm size]: in the group, or -1 */
    struct mailbox *box;      /* own */
    int box_fd, readable_fd;  /* writable until sealed and mapped; others' */
    int doorbell;             /* own */
    bool dialled;
    bool crowded; /* more ranks than cores for them; known once all are there */
    bool bound;   /* this rank has one core, for all of its threads */
    uint32_t cpu; /* as in own box */
    bool asleep;
    uint8_t forced_way; /* enum mailbox_way; NONE: by measurement */
    uint64_t ticket;
    int n_attached;      /* peers whose memory is at hand */
    uint32_t past;       /* digest of the calls posted */
    uint64_t n_compared; /* tickets whose calls are known to be the same */
    uint64_t all_posted; /* everybody has posted this one, at least */
    struct pull_progress *progress; /* [size] */
    const void **sources;           /* [size] */
    uint8_t *stage;                 /* own, from hvd_alloc; NULL: none yet */
    uint64_t stage_at;              /* its place in the arena */
    uint64_t half_used[2]; /* tickets whose operands lie in either half */
    uint8_t *fetched;      /* [size - 1][LOCAL_FETCH_NBYTES] */
    struct local_run run;
    uint64_t tidy_us;
    struct local_choice *choice;
};

enum {
    LOCAL_STAGE_NBYTES = 4 << 20,
    LOCAL_DEPTH = 2,
    LOCAL_RUN_AHEAD = MAILBOX_POSTS / 2, /* calls, before the others' */
    LOCAL_FETCH_NBYTES = 256 << 10
};

/* --- peer_memory.c: the arenas of other processes --- */

struct peer_arena;

/* Map the arena behind fd (borrowed), or find it mapped from a generation
 * before. NULL: it cannot be. */
struct peer_arena *peer_arena_take(int fd, size_t nbytes);
uint8_t *peer_arena_base(const struct peer_arena *arena);
/* Stays mapped until peer_arenas_tidy(): an unmapped arena of a dead process is
 * freed by whoever unmaps it last, which takes long. */
void peer_arena_give(struct peer_arena *arena);
/* Have those without a user unmapped, by a thread that lives for that. */
void peer_arenas_tidy(void);

/* The mailboxes of this process, unmapped when nobody uses them any more: ranks
 * that are its threads (tests) use each other's own mapping, so that the thread
 * sanitizer sees the words that order them. add: false, out of memory; the
 * mapping has one user then. take: NULL, there is none at this address. */
bool own_box_add(struct mailbox *box);
const struct mailbox *own_box_take(uint64_t address);
void own_box_give(const struct mailbox *box);

/* Copy nbytes at `address` in another process. false: errno says why. */
bool peer_read(int64_t pid, uint64_t address, void *dst, size_t nbytes);

/* --- local_plan.c --- */

/* Bytes of the operand of the rank at `place`. */
size_t local_operand_nbytes(const struct local *local,
                            const struct schedule_call *call, int place);
/* Of every rank's operand, at most; of an alltoallv 0: nobody knows. This, and
 * the two that follow: the same answer on every rank. */
size_t local_largest_operand(const struct local *local,
                             const struct schedule_call *call);
/* Do all operands travel in posts? */
bool local_fits_posts(const struct local *local,
                      const struct schedule_call *call);
/* Is it worth looking for them in the arena then? */
bool local_may_offer(const struct local *local,
                     const struct schedule_call *call);
/* Is own result written past the caches, as far as nobody reads it? */
bool local_streams(const struct local *local, const struct phase *phase);

/* --- local_run.c --- */

/* Blocks of it that others have not read: so it is staged, wherever it is. */
static inline bool local_overwrites_operand(const struct phase *phase)
{
    return phase->shape.kind == COLLECTIVE_ALLTOALL && phase->src == phase->dst;
}

static inline const struct mailbox_post *
local_post_of(const struct mailbox *box, uint64_t ticket)
{
    return &box->posts[ticket % MAILBOX_POSTS];
}

static inline struct reduce_shape local_reduction(const struct comm *comm)
{
    return (struct reduce_shape){
        .dtype = comm->op.dtype,
        .op = comm->op.op,
        .divisor = comm->local->run.phase->divisor,
    };
}

/* --- local_blocks.c --- */

/* What an alltoallv post says to each rank of the host. */
struct local_extent {
    uint64_t offset, nbytes;
};

/* Staging memory is there. */
hvd_status_t local_stage_reserve(struct comm *comm,
                                 size_t nbytes) HVD_MUST_CHECK;
/* Before the post is published: ways and places of the buffers. */
hvd_status_t local_blocks_plan(struct comm *comm,
                               struct mailbox_post *post) HVD_MUST_CHECK;
/* Likewise, for operands that travel in posts: if own one can be read where it
 * is (allreduce: and the result pushed), offer that instead. */
bool local_blocks_offer(struct comm *comm, struct mailbox_post *post);
/* Operands were read in posts and offered buffers. */
hvd_status_t local_blocks_read(struct comm *comm) HVD_MUST_CHECK;
/* All have posted. */
void local_blocks_arrived(struct comm *comm);
/* Then: what needs no waiting. */
hvd_status_t local_blocks_work(struct comm *comm, bool *moved_p) HVD_MUST_CHECK;
/* Own work is over: is everybody else's? */
void local_blocks_close(struct local *local, bool *moved_p);

/* Staging memory of LOCAL_STAGE_NBYTES at least. It is the process's and used
 * by one comm at a time: a rank may still be reading in what another has left
 * in good order, until the next generation begins. `tenant`: of that comm,
 * never 0; who takes the memory next is another. NULL: no memory that others
 * can read. */
uint8_t *stage_take(size_t nbytes, uint64_t tenant);
void stage_give(uint8_t *stage);
/* Of the memory at `stage`, anybody's. */
uint64_t stage_tenant(const uint8_t *stage);

/* The half of staging memory that is a ticket's, from its start on. */
static inline size_t stage_half(uint64_t ticket)
{
    return ticket % 2 * (LOCAL_STAGE_NBYTES / 2);
}

/* --- local.c --- */

/* Tell everybody that sleeps. */
void local_notify(struct local *local);

#endif
