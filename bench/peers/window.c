/* bench/peers/window.c - memory of MPI_Win_allocate_shared and a plain loop, as
 * a contestant; see peer.h.
 *
 * What a program can do on one host that lets MPI allocate its buffers: ranks
 * read and write each other's windows, in loops that the compiler vectorises,
 * and synchronise no more than they must. It is to us, with buffers of
 * hvd_alloc, what MPI's collectives are with ordinary ones.
 *
 *     pull   all are ready; each reads what it needs from the others; all have
 *            read
 *     push   the same, but each writes its part of the result to the others
 *     shares a broadcast: each rank copies its share of the root's buffer to
 *            all others
 *     slots  small: operands are copied into memory that a later call does not
 *            use again before all have read this one's: ranks meet only once,
 *            and the root of a broadcast runs ahead
 *
 * Ranks meet by flags, a cache line each, or with "-barrier" by MPI_Win_sync
 * and MPI_Barrier. A flag says: in round r I have come (or, after a broadcast:
 * I have read). Rounds count up on all ranks alike. */

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/peers/mpi_world.h"
#include "bench/peers/peer.h"

enum { RANKS_MAX = 64, WINDOWS_MAX = 4 };
enum { LINE = 128, SPINS = 1000, PAGE = 4096, HUGE_PAGE = 2 << 20 };
enum { SLOT = 8 << 10, SLOTS = 8 }; /* bytes; rounds until one comes again */
enum { BLOCK = 1024 };              /* elements summed in the first cache */

#ifdef __x86_64__
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

enum idea { PULL, PUSH, SHARES, SLOTTED };

struct way {
    const char *name;
    enum idea idea;
    bool barrier;
};

struct window {
    MPI_Win win;
    float *base[RANKS_MAX]; /* of each rank's part */
};

static const struct way allreduces[] = {{"push", PUSH, false},
                                        {"pull", PULL, false},
                                        {"slots", SLOTTED, false},
                                        {"push-barrier", PUSH, true},
                                        {"pull-barrier", PULL, true}};
static const struct way broadcasts[] = {{"pull", PULL, false},
                                        {"shares", SHARES, false},
                                        {"slots", SLOTTED, false},
                                        {"pull-barrier", PULL, true},
                                        {"shares-barrier", SHARES, true}};
static const struct way reduce_scatters[] = {{"pull", PULL, false},
                                             {"slots", SLOTTED, false},
                                             {"pull-barrier", PULL, true}};
static const struct way moves[] = {{"pull", PULL, false},
                                   {"push", PUSH, false},
                                   {"slots", SLOTTED, false},
                                   {"pull-barrier", PULL, true},
                                   {"push-barrier", PUSH, true}};

static struct window windows[WINDOWS_MAX];
static int n_windows;
static struct window control; /* a flag and SLOTS slots of each rank */
static uint64_t round_now;
static bool crowded; /* there are fewer processors than ranks */

/* Of the last peer_prepare. */
static struct bench_case now;
static struct way now_way;
static float *const *sends, *const *recvs; /* of each rank */

/* ---- memory -------------------------------------------------------------- */

static bool window_open(struct window *w, size_t nbytes)
{
    MPI_Info info;
    void *mine;

    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    if (MPI_Win_allocate_shared((MPI_Aint)nbytes, 1, info, MPI_COMM_WORLD,
                                &mine, &w->win) != MPI_SUCCESS)
        return false;
    MPI_Info_free(&info);
    for (int k = 0; k < world_size; k++) {
        MPI_Aint size;
        int unit;

        MPI_Win_shared_query(w->win, k, &size, &unit, &w->base[k]);
    }
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
    return true;
}

static void window_close(struct window *w)
{
    MPI_Win_unlock_all(w->win);
    MPI_Win_free(&w->win);
}

static void control_open(void)
{
    if (control.base[0])
        return;
    if (world_size > RANKS_MAX || !window_open(&control, LINE + SLOT * SLOTS)) {
        fprintf(stderr, "peer: no shared window\n");
        exit(1);
    }
    memset(control.base[world_rank], 0, LINE);
    crowded = world_size > sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* In huge pages where the system gives them to shared memory, as hvd_alloc
 * asks for them too. */
void *peer_allocate(size_t nbytes)
{
    size_t whole = (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    struct window *w = &windows[n_windows];
    uintptr_t mine;

    control_open();
    if (n_windows == WINDOWS_MAX || !window_open(w, whole))
        return NULL;
    n_windows++;
    mine = (uintptr_t)w->base[world_rank];
    mine += (PAGE - mine % PAGE) % PAGE;
    madvise((void *)mine, whole - PAGE, MADV_HUGEPAGE); /* refused: in small
                                                           ones */
    return w->base[world_rank];
}

void peer_release(void)
{
    while (n_windows > 0)
        window_close(&windows[--n_windows]);
    if (control.base[0])
        window_close(&control);
}

/* ---- together ------------------------------------------------------------ */

static _Atomic uint64_t *flag_of(int rank)
{
    return (_Atomic uint64_t *)(void *)control.base[rank];
}

static float *slot_of(int rank)
{
    return control.base[rank] +
           (LINE + round_now % SLOTS * SLOT) / sizeof(float);
}

static void raise_flag(void)
{
    atomic_store_explicit(flag_of(world_rank), round_now, memory_order_release);
}

static void wait_for(int rank, uint64_t round)
{
    for (unsigned i = 0;
         atomic_load_explicit(flag_of(rank), memory_order_acquire) < round; i++)
        if (crowded || i > SPINS)
            sched_yield();
}

static void wait_for_all(uint64_t round)
{
    for (int i = 1; i < world_size; i++)
        wait_for((world_rank + i) % world_size, round);
}

static void meet(void)
{
    if (now_way.barrier) {
        for (int i = 0; i < n_windows; i++)
            MPI_Win_sync(windows[i].win);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < n_windows; i++)
            MPI_Win_sync(windows[i].win);
        return;
    }
    round_now++;
    raise_flag();
    wait_for_all(round_now);
}

/* ---- loops --------------------------------------------------------------- */

CLONES static void add(float *restrict to, const float *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += a[i];
}

CLONES static void sum2(float *restrict to, const float *restrict a,
                        const float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

CLONES static void sum4(float *restrict to, const float *restrict a,
                        const float *restrict b, const float *restrict c,
                        const float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i] + c[i] + d[i];
}

CLONES static void sum2_to_both(float *restrict a, float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];

        a[i] = sum;
        b[i] = sum;
    }
}

CLONES static void sum4_to_all(float *restrict a, float *restrict b,
                               float *restrict c, float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i] + c[i] + d[i];

        a[i] = sum;
        b[i] = sum;
        c[i] = sum;
        d[i] = sum;
    }
}

/* to [n] = the sum of from[k] + first; to is none of them. */
static void sum_into(float *to, float *const *from, size_t first, size_t n)
{
    if (now.size == 2) {
        sum2(to, from[0] + first, from[1] + first, n);
        return;
    }
    if (now.size == 4) {
        sum4(to, from[0] + first, from[1] + first, from[2] + first,
             from[3] + first, n);
        return;
    }
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t part = n - at < BLOCK ? n - at : BLOCK;

        memcpy(to + at, from[0] + first + at, part * sizeof(float));
        for (int k = 1; k < now.size; k++)
            add(to + at, from[k] + first + at, part);
    }
}

/* Elements [first, first + n) of all buffers become their sum. */
static void sum_to_all(float *const *at, size_t first, size_t n)
{
    float block[BLOCK];

    if (now.size == 2) {
        sum2_to_both(at[0] + first, at[1] + first, n);
        return;
    }
    if (now.size == 4) {
        sum4_to_all(at[0] + first, at[1] + first, at[2] + first, at[3] + first,
                    n);
        return;
    }
    for (size_t end = first + n; first < end; first += BLOCK) {
        size_t part = end - first < BLOCK ? end - first : BLOCK;

        sum_into(block, at, first, part);
        for (int k = 0; k < now.size; k++)
            memcpy(at[k] + first, block, part * sizeof(float));
    }
}

static void copy(float *to, const float *from, size_t n)
{
    memcpy(to, from, n * sizeof(float));
}

/* Where a rank's share of the buffer begins: shares are whole cache lines. */
static size_t share(int rank)
{
    size_t at = now.count * (size_t)rank / (size_t)now.size / 16 * 16;

    return rank == now.size ? now.count : at;
}

/* ---- collectives --------------------------------------------------------- */

static void allreduce(void)
{
    size_t first = share(now.rank), n = share(now.rank + 1) - first;

    meet();
    if (now_way.idea == PUSH) {
        sum_to_all(recvs, first, n);
        meet();
        return;
    }
    for (int i = 1; i < now.size; i++)
        add(recvs[now.rank] + first, recvs[(now.rank + i) % now.size] + first,
            n);
    meet();
    for (int i = 1; i < now.size; i++) {
        int k = (now.rank + i) % now.size;

        copy(recvs[now.rank] + share(k), recvs[k] + share(k),
             share(k + 1) - share(k));
    }
    meet();
}

/* Who reads does not wait for other readers, only the root waits for all. */
static void broadcast_pull(void)
{
    round_now++;
    if (now.rank == now.root) {
        raise_flag();
        wait_for_all(round_now);
        return;
    }
    wait_for(now.root, round_now);
    copy(recvs[now.rank], recvs[now.root], now.count);
    raise_flag();
}

static void broadcast_slots(void)
{
    round_now++;
    if (now.rank == now.root) {
        if (round_now > SLOTS)
            wait_for_all(round_now - SLOTS);
        copy(slot_of(now.root), recvs[now.rank], now.count);
        raise_flag();
        return;
    }
    wait_for(now.root, round_now);
    copy(recvs[now.rank], slot_of(now.root), now.count);
    raise_flag();
}

static void broadcast(void)
{
    size_t first = share(now.rank), n = share(now.rank + 1) - first;

    if (now_way.idea == SLOTTED) {
        broadcast_slots();
        return;
    }
    if (now_way.idea == PULL && !now_way.barrier) {
        broadcast_pull();
        return;
    }
    meet();
    for (int i = 1; i < now.size && now_way.idea == SHARES; i++) {
        int k = (now.root + i) % now.size;

        copy(recvs[k] + first, recvs[now.root] + first, n);
    }
    if (now_way.idea == PULL && now.rank != now.root)
        copy(recvs[now.rank], recvs[now.root], now.count);
    meet();
}

/* This rank's result out of everybody's operand. */
static void pull_from(float *const *from)
{
    size_t n = now.count, mine = (size_t)now.rank * n;
    float *to = recvs[now.rank];

    if (now.kind == CASE_ALLREDUCE)
        sum_into(to, from, 0, n);
    else if (now.kind == CASE_REDUCE_SCATTER)
        sum_into(to, from, mine, n);
    for (int i = 0; i < now.size; i++) {
        int k = (now.rank + i) % now.size;

        if (now.kind == CASE_ALLGATHER)
            copy(to + (size_t)k * n, from[k], n);
        else if (now.kind == CASE_ALLTOALL)
            copy(to + (size_t)k * n, from[k] + mine, n);
    }
}

/* This rank's operand into everybody's result. */
static void push(void)
{
    size_t n = now.count, mine = (size_t)now.rank * n;

    for (int i = 0; i < now.size; i++) {
        int k = (now.rank + i) % now.size;
        size_t block = now.kind == CASE_ALLTOALL ? (size_t)k * n : 0;

        copy(recvs[k] + mine, sends[now.rank] + block, n);
    }
}

static void by_slots(void)
{
    bool in_place = now.kind == CASE_ALLREDUCE;
    float *slots[RANKS_MAX];

    round_now++;
    for (int k = 0; k < now.size; k++)
        slots[k] = slot_of(k);
    memcpy(slots[now.rank], in_place ? recvs[now.rank] : sends[now.rank],
           case_send_nbytes(&now));
    raise_flag();
    wait_for_all(round_now);
    pull_from(slots);
}

void peer_call(void)
{
    if (now.kind == CASE_BROADCAST) {
        broadcast();
    } else if (now_way.idea == SLOTTED) {
        by_slots();
    } else if (now.kind == CASE_ALLREDUCE) {
        allreduce();
    } else {
        meet();
        if (now_way.idea == PUSH)
            push();
        else
            pull_from(sends);
        meet();
    }
}

/* ---- ways ---------------------------------------------------------------- */

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static const struct way *ways_of(enum case_kind kind, int *n_p)
{
    switch (kind) {
    case CASE_ALLREDUCE:
        *n_p = COUNT(allreduces);
        return allreduces;
    case CASE_BROADCAST:
        *n_p = COUNT(broadcasts);
        return broadcasts;
    case CASE_REDUCE_SCATTER:
        *n_p = COUNT(reduce_scatters);
        return reduce_scatters;
    case CASE_ALLGATHER:
    case CASE_ALLTOALL:
        *n_p = COUNT(moves);
        return moves;
    default:
        *n_p = 0;
        return NULL;
    }
}

int peer_ways(enum case_kind kind)
{
    int n;

    ways_of(kind, &n);
    return n;
}

const char *peer_way_name(enum case_kind kind, int way)
{
    int n;

    return ways_of(kind, &n)[way].name;
}

bool peer_way_suits(const struct bench_case *c, int way)
{
    size_t nbytes = c->kind == CASE_BROADCAST ? case_recv_nbytes(c)
                                              : case_send_nbytes(c);
    int n;

    return ways_of(c->kind, &n)[way].idea != SLOTTED || nbytes <= SLOT;
}

/* The buffers of all ranks, of which only the own one is given. */
static float *const *find(const void *mine)
{
    for (int i = 0; i < n_windows; i++)
        if (mine == windows[i].base[world_rank])
            return windows[i].base;
    fprintf(stderr, "peer: this one needs --buffers=own\n");
    exit(1);
}

void peer_prepare(const struct bench_case *c, int way, void *send, void *recv)
{
    int n;

    now = *c;
    now_way = ways_of(c->kind, &n)[way];
    sends = find(send);
    recvs = find(recv);
    MPI_Barrier(MPI_COMM_WORLD);
}

void peer_settle(void)
{
}
