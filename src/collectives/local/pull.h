/* collectives/local/pull.h - collectives on one host as a pure machine: what a
 * rank copies into its staging memory, reduces and takes from the others'
 * memory, and in which order.
 *
 * A rank reads the others' memory and writes its own alone, unless results are
 * pushed (PULL_SLICES_REDUCE by blocks.c, and the root's slice of a broadcast).
 * Work is done in blocks, and each rank publishes how far it is:
 *
 *   staged   blocks of its operand that may be read in its staging memory (all
 *            of them at once where the operand is readable in place)
 *   reduced  blocks of its slice that are complete (allreduce, reduce-scatter)
 *   taken    blocks that it has taken from everybody
 *
 *   stage b --> staged --> others reduce b --> reduced --> others take b
 *
 * Region (i, j) is what rank j reads of rank i's operand:
 *
 *   PULL_ALLREDUCE       slice j of the operand, reduced into slice j of j's
 *                        result; then j takes slice i of i's result
 *   PULL_REDUCE_SCATTER  block j of the operand, reduced into j's result
 *   PULL_SLICES_REDUCE   the first half of PULL_ALLREDUCE
 *   PULL_SLICES_GATHER   its second half, in place: j takes slice i of i
 *                        (both: the first n_slices ranks have one)
 *   PULL_BROADCAST       everything, of the root alone; with `split` the root
 *                        takes the first slice of it to the reader's result
 *                        itself, and the reader the rest: two at work are
 *                        quicker than one
 *   PULL_ALLGATHER       everything, to block i of j's result
 *   PULL_ALLGATHERV      likewise, to recvcounts[i] at rdispls[i]
 *   PULL_ALLTOALL        block j, to block i of j's result
 *   PULL_ALLTOALLV       what the counts say
 *
 * Staging memory has `depth` places of (size + 1) blocks: a block for each
 * reader (the same one for all where all read the same), one for the result.
 *
 * The order of operands is that of the ranks, wherever an element is combined.
 *
 * Pure. Threads: any. Offsets and sizes are bytes. */
#ifndef COLLECTIVES_LOCAL_PULL_H
#define COLLECTIVES_LOCAL_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pull_kind {
    PULL_ALLREDUCE,
    PULL_REDUCE_SCATTER,
    PULL_SLICES_REDUCE,
    PULL_SLICES_GATHER,
    PULL_BROADCAST,
    PULL_ALLGATHER,
    PULL_ALLGATHERV,
    PULL_ALLTOALL,
    PULL_ALLTOALLV
};

/* Equal on all ranks but for rank, split, the v-counts and the last four. */
struct pull_shape {
    enum pull_kind kind;
    int rank, size, root; /* within the host */
    size_t count;         /* elements, as in the public call */
    size_t elem_nbytes;
    size_t block_nbytes; /* a multiple of every element's size */
    unsigned depth;
    int n_slices; /* SLICES_*: at most size; 0: size */
    bool split; /* BROADCAST: this reader leaves a slice to the root; the root:
                     some do */
    /* v-forms: of this rank, [size], in elements */
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    bool stage_send; /* the operand is not readable in place */
    bool stage_recv; /* nor is the result */
    bool in_place;   /* sendbuf overlaps recvbuf */
    uint64_t lag;    /* PULL_ALLREDUCE: blocks that this rank reduces before it
                        takes what is ready. 0 if any rank stages results: it
                        could wait for its takers, who wait for it */
};

/* What the operands of all ranks turn out to be. */
struct pull_ways {
    bool all_push;      /* every result can be written by every rank */
    bool stages;        /* some operand is copied to be read */
    bool stages_result; /* some result is */
    bool attaches;      /* some operand is read by system calls */
};

enum {
    /* what a peer has just written is slow to read until it has left the peer's
     * own caches, of 2 MB or less, for one that is shared */
    PULL_LAG_NBYTES = 4 << 20,
    PULL_ATTACHED_BLOCK = 4 << 20 /* after each, an abort is heard */
};

struct pull_region {
    size_t src; /* in the source's operand or result */
    size_t dst; /* in the reader's result */
    size_t nbytes;
};

/* How far a peer is, in blocks; PULL_ALL: through. */
#define PULL_ALL UINT64_MAX
struct pull_progress {
    uint64_t staged, reduced, taken;
};

enum pull_action_type {
    PULL_WAIT,  /* nothing can be done until a peer publishes more */
    PULL_STAGE, /* copy own operand at region.src to staging at `stage` */
    PULL_REDUCE,
    PULL_TAKE, /* copy from `peer` to own result at region.dst; the root of a
                  broadcast: from own operand to the result of `peer` */
    PULL_DONE
};

struct pull_action {
    enum pull_action_type type;
    int peer;       /* STAGE: the reader, -1: all; TAKE: the source */
    uint64_t block; /* in its place of depth: block % depth */
    bool publish;   /* the block is complete with this action */
    struct pull_region region;
    size_t stage; /* offset in staging memory: STAGE: own, to write; REDUCE:
                     own, for the result (stage_recv); TAKE: the peer's, if
                     it has staged */
};

struct pull {
    struct pull_shape shape;
    bool reduces, takes;
    uint64_t n_stage, n_reduce, n_take; /* blocks */
    uint64_t stage_i, reduce_i, take_i;
    int stage_peer, take_peer; /* places in the order of peers */
};

/* Smallest staging memory for a group of `size`: depth x (size + 1) blocks. */
size_t pull_stage_nbytes(const struct pull_shape *shape);

void pull_init(struct pull *pull, const struct pull_shape *shape);

/* The shape that suits these ways better than the one which was begun without
 * knowing them; the same on all ranks. false: none does.
 *
 * Push, if all results are within reach: who reduces a slice alone has it in
 * his caches, whoever else has to come for it pays for each line. Else lag, if
 * all results are read where they are. What is taken by system calls, of which
 * no block has to wait for another, is taken from one peer after the other. */
bool pull_suit(const struct pull *pull, const struct pull_ways *ways,
               struct pull_shape *shape_p);

/* What to do next, peers [size] being so far (own entry not looked at). Nothing
 * changes. */
void pull_next(const struct pull *pull, const struct pull_progress *peers,
               struct pull_action *action_p);

/* It is done. */
void pull_did(struct pull *pull, const struct pull_action *action);

/* Own progress, to be published. */
struct pull_progress pull_progress(const struct pull *pull);

/* Where in rank i's operand the bytes of own block `block` are, for REDUCE: the
 * same for all ranks: action.region.src. In i's staging memory: */
size_t pull_stage_in(const struct pull *pull, uint64_t block, int reader);

#endif
