/* tests/integration/storm.h - what the parts of storm_worker share.
 *
 * Two sources of chance. The *shared* one is equal on all ranks: what is
 * called, how much, from which root, with which values. The *private* one is a
 * rank's own: in which memory, in place or not, blocking or not, when.
 *
 * Threads: one. */
#ifndef TESTS_INTEGRATION_STORM_H
#define TESTS_INTEGRATION_STORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/hvd.h>

/* ---- chance -------------------------------------------------------------- */

struct chance {
    uint64_t state;
};

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t mix2(uint64_t a, uint64_t b)
{
    return mix(mix(a) + b);
}

/* 0 .. n - 1 */
static inline size_t draw(struct chance *c, size_t n)
{
    c->state += 0x9e3779b97f4a7c15u;
    return (size_t)(mix(c->state) % n);
}

static inline bool one_in(struct chance *c, size_t n)
{
    return draw(c, n) == 0;
}

/* ---- values: what ranks have, and what becomes of it --------------------- */

/* A prime: what comes from another block of the library's is not the same. */
enum { VALUES_PERIOD = 1009, VALUE_NBYTES_MAX = 8, VALUE_TEXT_MAX = 32 };

/* A sequence without an end: element i is that of i % VALUES_PERIOD. */
struct values {
    hvd_dtype_t dtype;
    double tolerance;             /* relative; 0: the bytes are what counts */
    double wanted[VALUES_PERIOD]; /* only with a tolerance */
    unsigned char bytes[VALUES_PERIOD * VALUE_NBYTES_MAX];
};

struct difference {
    size_t index;
    char got[VALUE_TEXT_MAX], wanted[VALUE_TEXT_MAX];
};

/* What `rank` contributes to the call with this key. */
void values_of_rank(struct values *v, uint64_t key, int rank, hvd_dtype_t dtype,
                    hvd_op_t op);

/* What an op makes of that of all ranks. */
void values_reduced(struct values *v, uint64_t key, int size, hvd_dtype_t dtype,
                    hvd_op_t op);

/* buf [count] becomes the elements from `first` on. */
void values_fill(const struct values *v, size_t first, void *buf, size_t count);

/* Is buf [count] something else than the elements from `first` on? */
bool values_differ(const struct values *v, size_t first, const void *buf,
                   size_t count, struct difference *difference_p);

/* ---- blocks: memory with guards on both sides ---------------------------- */

enum place {
    PLACE_HEAP,
    PLACE_ARENA, /* hvd_alloc */
    PLACE_PRIVATE_FILE,
    PLACE_SHARED_FILE,
    N_PLACES
};

/* base [length] = guard, ptr [nbytes], guard */
struct block {
    enum place place;
    unsigned char *base, *ptr;
    size_t length, nbytes;
    uint64_t step; /* of the call that it was taken for */
};

/* Somewhere, perhaps at an odd address. */
hvd_status_t block_take(struct block *b, size_t nbytes, uint64_t step,
                        struct chance *own) HVD_MUST_CHECK;

/* Nobody may write it from now on; it can be seen to only in files. */
void block_freeze(const struct block *b);

bool block_guards_stand(const struct block *b);

/* Free it later, and see then that nobody has written it since. */
void block_bury(struct block *b);

/* Aborts if one that is buried was written. */
void blocks_see_to_graves(void);

const char *place_name(enum place place);

/* ---- communicators --------------------------------------------------------
 * */

/* Before the run; without it there are none. */
hvd_status_t sets_make(void) HVD_MUST_CHECK;
/* One whose rule differs from rank to rank. */
hvd_status_t sets_lie(void) HVD_MUST_CHECK;
hvd_status_t sets_unmake(void) HVD_MUST_CHECK;
/* Around the calls of a step; the latter however they have ended. */
hvd_status_t sets_begin_step(uint64_t seed, uint64_t step) HVD_MUST_CHECK;
hvd_status_t sets_end_step(void) HVD_MUST_CHECK;
/* NULL: the world. */
hvd_comm_t *sets_draw(struct chance *shared);

/* ---- the end of an epoch ------------------------------------------------- */

/* Some ranks have more calls by name, then all join: the world or a set. */
hvd_status_t join_run(uint64_t seed, uint64_t step,
                      struct chance *own) HVD_MUST_CHECK;

/* ---- calls --------------------------------------------------------------- */

enum {
    STORM_RANKS_MAX = 8, /* products of more would leave binary16 */
    STORM_TENSORS_MAX = 8
};

enum kind {
    STORM_ALLREDUCE = 1,
    STORM_BROADCAST,
    STORM_ALLGATHER,
    STORM_ALLGATHERV,
    STORM_REDUCE_SCATTER,
    STORM_ALLTOALL,
    STORM_ALLTOALLV,
    STORM_BARRIER,
    STORM_GROUPED
};

struct tensor {
    uint64_t key;
    size_t count;          /* as the call's argument */
    size_t n_send, n_recv; /* elements */
    bool in_place;         /* recv is both then */
    struct block send, recv;
    void *sendbuf, *recvbuf;
};

struct call {
    uint64_t step;
    int number;                 /* within the step */
    hvd_comm_t *comm;           /* NULL: the world */
    int kind, root, rank, size; /* rank -1: others alone call this */
    hvd_dtype_t dtype;
    hvd_op_t op;
    size_t n_tensors; /* 1 but for a group, 0 of a barrier */
    struct tensor tensors[STORM_TENSORS_MAX];
    size_t sendcounts[STORM_RANKS_MAX], sdispls[STORM_RANKS_MAX];
    size_t recvcounts[STORM_RANKS_MAX], rdispls[STORM_RANKS_MAX];
    hvd_request_t *request; /* NULL: none that runs */
    bool named;             /* by its number */
    bool counts_open;       /* ranks find out what they receive */
};

struct call_options {
    uint64_t seed;   /* of what is shared */
    uint64_t repeat; /* so many steps make the same calls, of other values */
    size_t nbytes_max;
    int kind;   /* 0: any */
    bool named; /* some are posted by name */
};

/* The kind with this name; 0: there is none. */
int call_kind(const char *name);

/* Draw what call `number` of a step is, and fill its operands. */
hvd_status_t call_prepare(struct call *c, const struct call_options *options,
                          uint64_t step, int number,
                          struct chance *own) HVD_MUST_CHECK;

/* Is this one, on all ranks, posted by name, if such there are? */
bool call_is_named(const struct call_options *options, uint64_t step,
                   int number);

enum issue { ISSUE_BLOCKING, ISSUE_POSTED, ISSUE_NAMED };

/* Else than BLOCKING c->request is to be waited for. */
hvd_status_t call_issue(struct call *c, enum issue how) HVD_MUST_CHECK;

/* It has returned HVD_OK: abort unless all is as it has to be. */
void call_check(const struct call *c);

/* However it has ended: nothing beside its buffers was written. They are
 * buried. */
void call_bury(struct call *c);

#endif
