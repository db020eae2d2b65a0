/* collectives/local/mailbox.h - the layout of what a rank shows the others of
 * its host; written by its owner alone, read by all.
 *
 *   struct mailbox   who it is, how far it is, whether it sleeps or has left
 *   card [MAILBOX_CARDS]  what it calls: ticket m in m % MAILBOX_CARDS
 *   small, large              what does not fit there: up to 2 KB in m %
 *                             MAILBOX_SMALL of small, else likewise in large
 *   time [MAILBOX_TIMES]      when the n-th call in blocks began and ended
 *
 * Cards are many and small, so that who waits for nobody, the root of small
 * broadcasts, may be many calls ahead. A card may be overwritten once all
 * others have shown the ticket that is MAILBOX_CARDS / 2 newer: they have
 * finished what it was about, and compared it with their own, or a digest of
 * it. Data may be once all others have shown the ticket behind its own. A time
 * is read by who knows that all have finished its call, and none is
 * MAILBOX_TIMES ahead.
 *
 * Progress is {ticket, blocks} in one word; the blocks of an older ticket count
 * for nothing, those of a newer one mean that this one is through.
 *
 * Atomic words are sequentially consistent: a publisher writes its word and
 * reads `sleeping`, a sleeper writes `sleeping` and reads the words; likewise
 * `writing` and `left`. (`cpu` is a hint; `staged` and `reduced` are told with
 * `taken`, which is stored last, times with the ticket of a later card.) */
#ifndef COLLECTIVES_LOCAL_MAILBOX_H
#define COLLECTIVES_LOCAL_MAILBOX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/local/pull.h"

enum {
    MAILBOX_LINE = 64,
    MAILBOX_CARDS = 64,
    MAILBOX_SMALL = 16,
    MAILBOX_LARGE = 4,
    MAILBOX_SMALL_NBYTES = 2 << 10,
    MAILBOX_TIMES = 8,
    MAILBOX_READS = 16,
    MAILBOX_TINY_MAX = 24,        /* operand bytes beside the ticket */
    MAILBOX_INLINE_MAX = 8 << 10, /* operand bytes that go with a card */
    MAILBOX_BLOCK_BITS = 24,
    MAILBOX_CPUS = 1024
};

#define MAILBOX_MAGIC 0x786f626c69616d36u /* "6mailbox" */

/* How a buffer is read by the others. */
enum mailbox_way {
    MAILBOX_NONE,
    MAILBOX_INLINE, /* in the card */
    MAILBOX_ARENA,  /* offset in the arena */
    MAILBOX_ATTACH, /* address, by process_vm_readv(2) */
    MAILBOX_STAGED  /* in staging memory: block by block, or whole */
};

#define MAILBOX_ALL UINT32_MAX /* who is written to: all others of the host */

enum mailbox_left { MAILBOX_HERE, MAILBOX_LEFT, MAILBOX_LEFT_MISMATCH };

struct mailbox_card {
    /* processors fetch lines in pairs */
    _Alignas(2 * MAILBOX_LINE) atomic_uint_least64_t ticket; /* written last */
    uint64_t sequence, count;
    int32_t root;
    uint8_t kind, dtype, op;
    uint8_t send_way, recv_way; /* enum mailbox_way */
    uint8_t plan;     /* what the others must have planned too: card.c */
    uint8_t may_push; /* allreduce: its result may be written, and it can write
                         others'. broadcast: either */
    uint8_t timed;    /* staged broadcasts: how long is it read? `read` */
    uint32_t past;    /* digest of all calls before */
    uint8_t tiny[MAILBOX_TINY_MAX];
    /* second line: block by block, or staged: then send_at is where staging
     * memory begins */
    _Alignas(MAILBOX_LINE) uint64_t send_at, recv_at, stage_at;
    uint64_t nbytes; /* allgatherv: of the operand */
};

/* How long this rank has read the broadcast of a ticket. The ticket is 0 while
 * the time is written. */
struct mailbox_read {
    atomic_uint_least64_t ticket, ns;
};

struct mailbox_time {
    atomic_uint_least64_t ticket; /* 0: none yet */
    atomic_uint_least64_t begun_ns, ended_ns;
};

struct mailbox {
    /* constant */
    uint64_t magic, nbytes;
    uint64_t worker, generation;
    uint64_t nonce; /* who reads it through process_vm_readv reads the right
                       process */
    uint64_t self;  /* address of this in the owner's process */
    uint64_t cpus[MAILBOX_CPUS / 64]; /* where it may run */

    _Alignas(MAILBOX_LINE) atomic_uint_least64_t staged;
    atomic_uint_least64_t reduced, taken;
    /* What this rank asks of another whose memory it cannot read (ask.c);
     * 0: nothing. Written behind what is asked. */
    atomic_uint_least64_t ask;
    uint64_t ask_ticket, ask_at, ask_nbytes;

    /* The question last answered; written behind where the answer is. */
    _Alignas(MAILBOX_LINE) atomic_uint_least64_t answer;
    uint64_t answer_at; /* in the arena */

    /* all others can be read through process_vm_readv: 1 yes, 2 no; never yes
     * again */
    _Alignas(MAILBOX_LINE) atomic_uint_least32_t attaches;
    atomic_uint_least32_t sleeping;
    atomic_uint_least32_t cpu; /* where it ran when it showed one, mostly */

    /* left: enum mailbox_left. A writer says in `writing` to whom (0: nobody,
     * MAILBOX_ALL, else 1 + place) and then reads the `left` of those; who
     * leaves sets `left` and then waits until nobody's `writing` means it. */
    _Alignas(MAILBOX_LINE) atomic_uint_least32_t left;
    _Alignas(MAILBOX_LINE) atomic_uint_least32_t writing;

    _Alignas(MAILBOX_LINE) struct mailbox_time times[MAILBOX_TIMES];
    /* the last one timed of each root, by its place */
    _Alignas(MAILBOX_LINE) struct mailbox_read reads[MAILBOX_READS];

    struct mailbox_card cards[MAILBOX_CARDS];
    /* operands up to MAILBOX_INLINE_MAX; alltoallv: pairs of offset and bytes
     * per rank of the host */
    _Alignas(MAILBOX_LINE) uint8_t small[MAILBOX_SMALL][MAILBOX_SMALL_NBYTES];
    uint8_t large[MAILBOX_LARGE][MAILBOX_INLINE_MAX];
};

/* A question: its number, and places. */
static inline uint64_t mailbox_ask(uint64_t number, int asker, int owner)
{
    return number << 16 | (uint64_t)asker << 8 | (uint64_t)owner;
}

static inline int mailbox_asked(uint64_t ask)
{
    return (int)(ask & 0xff);
}

static inline const struct mailbox_read *
mailbox_read_of(const struct mailbox *box, int root_place)
{
    return &box->reads[root_place % MAILBOX_READS];
}

static inline uint64_t mailbox_word(uint64_t ticket, uint64_t blocks)
{
    const uint64_t most = ((uint64_t)1 << MAILBOX_BLOCK_BITS) - 1;

    return ticket << MAILBOX_BLOCK_BITS | (blocks < most ? blocks : most);
}

static inline uint64_t mailbox_blocks(uint64_t word, uint64_t ticket)
{
    const uint64_t most = ((uint64_t)1 << MAILBOX_BLOCK_BITS) - 1;

    if (word >> MAILBOX_BLOCK_BITS != ticket)
        return word >> MAILBOX_BLOCK_BITS > ticket ? PULL_ALL : 0;
    return (word & most) == most ? PULL_ALL : word & most;
}

#endif
