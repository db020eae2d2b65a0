/* collectives/process_set.c - comms of some ranks of another. See
 * process_set.h.
 *
 * Threads: `lock` guards the list, which the issuing thread alone makes
 * shorter: what it has found there stays. Inside it nothing is taken but such
 * locks of the sets, which have none, and the device's. Memory: the comms, and
 * their ranks. */
#include "collectives/process_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/text.h"
#include "collectives/by_name.h"
#include "collectives/comm_impl.h"
#include "collectives/progress.h"

/* --- agreement --- */

enum { CLAIM_FIRST = 9, RANKS_TEXT_MAX = 160 };

struct claim {
    uint64_t digest;
    uint32_t n;
    int32_t first[CLAIM_FIRST];
};

static struct claim claim_of(const int *numbers, size_t n)
{
    struct claim claim = {.digest = XXH3_64bits(numbers, n * sizeof(*numbers)),
                          .n = (uint32_t)n};

    for (size_t i = 0; i < n && i < CLAIM_FIRST; i++)
        claim.first[i] = numbers[i];
    return claim;
}

/* "(0, 2, 5)", "(0, 1, 2, 3, 4, 5, 6, 7, 8, ... 12 of them)"; ranks [n], or the
 * first CLAIM_FIRST of them; buf [RANKS_TEXT_MAX] */
static void describe(const int32_t *ranks, size_t n, char *buf)
{
    struct text text = text_into(buf, RANKS_TEXT_MAX);

    text_add(&text, "(");
    for (size_t i = 0; i < n && i < CLAIM_FIRST; i++) {
        text_add(&text, i > 0 ? ", " : "");
        text_u64(&text, (uint64_t)ranks[i]);
    }
    if (n > CLAIM_FIRST) {
        text_add(&text, ", ... ");
        text_u64(&text, n);
        text_add(&text, " of them");
    }
    text_add(&text, ")");
}

static hvd_status_t disagree(struct comm *world, const char *what,
                             const struct claim *claims, int rank)
{
    char first[RANKS_TEXT_MAX], other[RANKS_TEXT_MAX];

    describe(claims[0].first, claims[0].n, first);
    describe(claims[rank].first, claims[rank].n, other);
    (void)comm_fail(world, HVD_ERR_MISMATCH,
                    "%s: rank 0 names %s, rank %d names %s", what, first, rank,
                    other);
    return comm_end(world);
}

static hvd_status_t compare(struct comm *world, const char *what,
                            const struct claim *claims)
{
    hvd_status_t status;

    int i = 1;

    while (i < world->config.size &&
           memcmp(&claims[i], &claims[0], sizeof(*claims)) == 0)
        i++;
    if (i >= world->config.size)
        return HVD_OK;
    progress_take(world);
    status = disagree(world, what, claims, i);
    progress_give(world);
    return status;
}

/* The others are in the call, or will be. */
static hvd_status_t no_memory(struct comm *world, const char *what)
{
    hvd_status_t status;

    progress_take(world);
    (void)comm_fail(world, HVD_ERR_NOMEM, "%s: %d ranks", what,
                    world->config.size);
    status = comm_end(world);
    progress_give(world);
    return status;
}

hvd_status_t process_set_agree(struct comm *world, const char *what,
                               const int *numbers, size_t n)
{
    struct claim own = claim_of(numbers, n);
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = &own,
                                   .count = sizeof(own),
                                   .dtype = HVD_UINT8,
                                   .memory = HVD_MEMORY_HOST};
    struct claim *claims = calloc((size_t)world->config.size, sizeof(*claims));
    hvd_status_t status;

    if (claims == NULL)
        return no_memory(world, what);
    args.recvbuf = claims;
    status = comm_run(world, &args);
    if (status == HVD_OK)
        status = compare(world, what, claims);
    free(claims);
    return status;
}

uint32_t process_set_number(const char *name, const int *ranks, int n)
{
    XXH64_hash_t seed = XXH3_64bits(name, strlen(name));
    XXH64_hash_t digest = XXH3_64bits_withSeed(
        ranks, (size_t)n * sizeof(*ranks), seed);

    return UINT32_C(1) << 30 | (uint32_t)(digest >> 34);
}

/* --- life --- */

/* By number, so that ranks leave them in one order, whenever each was made. */
static void insert(struct comm_family *family, struct comm *set)
{
    struct comm **at = &family->first;

    while (*at != NULL && (*at)->config.set < set->config.set)
        at = &(*at)->family.next;
    set->family.next = *at;
    *at = set;
}

/* HVD_OK: it is in the list of its world. */
static hvd_status_t enter(struct comm *world, struct comm *set)
{
    struct comm_family *family = &world->family;
    bool closed;

    pthread_mutex_lock(&family->lock);
    closed = family->closed;
    if (!closed)
        insert(family, set);
    pthread_mutex_unlock(&family->lock);
    if (!closed)
        return HVD_OK;
    return comm_status(world, NULL) != HVD_OK
               ? comm_check(world)
               : error_set(HVD_ERR_STATE, "this rank has finished");
}

static struct comm_peer *peers_of(const struct comm *world, const int *ranks,
                                  int n)
{
    struct comm_peer *peers = calloc((size_t)n, sizeof(*peers));

    for (int i = 0; i < n && peers != NULL; i++)
        peers[i] = world->peers[ranks[i]];
    return peers;
}

static hvd_status_t create(const struct comm *world, uint32_t number,
                           const int *ranks, int n, struct comm **set_p)
{
    struct comm_config config = world->config;
    struct comm_peer *peers = peers_of(world, ranks, n);
    hvd_status_t status;

    if (peers == NULL)
        return error_set(HVD_ERR_NOMEM, "a communicator of %d ranks", n);
    config.set = 2 * number; /* the next one is of calls by name */
    config.rank = process_set_place(world->config.rank, ranks, n);
    config.size = n;
    config.peers = peers;
    config.autotune = NULL; /* the world's */
    status = comm_create(&config, set_p);
    free(peers);
    return status;
}

static hvd_status_t join_family(struct comm *world, const int *ranks, int n,
                                struct comm *set)
{
    size_t nbytes = (size_t)n * sizeof(*ranks);

    set->family.ranks = malloc(nbytes);
    if (set->family.ranks == NULL)
        return error_set(HVD_ERR_NOMEM, "a communicator of %d ranks", n);
    memcpy(set->family.ranks, ranks, nbytes);
    set->family.world = world;
    return enter(world, set);
}

hvd_status_t process_set_create(struct comm *world, uint32_t number,
                                const int *ranks, int n, struct comm **set_p)
{
    struct comm *set;
    const char *text;
    hvd_status_t status;

    status = create(world, number, ranks, n, &set);
    if (status != HVD_OK)
        return comm_lacks(world, status);
    status = join_family(world, ranks, n, set);
    if (status != HVD_OK) {
        set->family.world = NULL; /* that it goes is no matter of its world's */
        comm_destroy(set);
        return status == HVD_ERR_NOMEM ? comm_lacks(world, status) : status;
    }
    /* an abort that came before has not seen it */
    status = comm_status(world, &text);
    if (status != HVD_OK)
        verdict_set(&set->verdict, status, text);
    *set_p = set;
    return HVD_OK;
}

static void leave_family(struct comm *set)
{
    struct comm_family *family = &set->family.world->family;
    struct comm **at = &family->first;

    pthread_mutex_lock(&family->lock);
    while (*at != set)
        at = &(*at)->family.next;
    *at = set->family.next;
    family->moves += comm_moves(set);
    pthread_mutex_unlock(&family->lock);
}

/* It is not forgotten with the set. */
static void end_world(struct comm *world, const struct comm *set)
{
    progress_take(world);
    comm_accuse_as(world, set, set->family.ranks);
    (void)comm_fail(world, HVD_PEER_LOST, "a communicator has ended");
    (void)comm_end(world);
    progress_give(world);
}

/* Behind its barrier nobody reads any more what others lend: what they have
 * staged may be given to others. */
hvd_status_t process_set_destroy(struct comm *set)
{
    hvd_status_t status = comm_confirm(set);
    char text[ERROR_TEXT_MAX];

    memcpy(text, error_text(), strlen(error_text()) + 1);
    comm_leave(set, status == HVD_OK ? COMM_LEAVE_DONE : COMM_LEAVE_ABORT, 0);
    if (status != HVD_OK)
        end_world(set->family.world, set);
    leave_family(set);
    comm_destroy(set);
    return status == HVD_OK ? HVD_OK : error_set(status, "%s", text);
}

/* --- all of a world's --- */

static struct comm *first_of(struct comm *world)
{
    struct comm *first;

    pthread_mutex_lock(&world->family.lock);
    first = world->family.first;
    pthread_mutex_unlock(&world->family.lock);
    return first;
}

static struct comm *next_of(const struct comm *set)
{
    struct comm_family *family = &set->family.world->family;
    struct comm *next;

    pthread_mutex_lock(&family->lock);
    next = set->family.next;
    pthread_mutex_unlock(&family->lock);
    return next;
}

static void abort_one(struct comm *set, hvd_status_t reason, const char *text)
{
    verdict_set(&set->verdict, reason, text);
    on_device_cancel(set);
    by_name_abort(set, reason, text);
}

void process_sets_abort(struct comm *world, hvd_status_t reason,
                        const char *text)
{
    struct comm_family *family = &world->family;

    pthread_mutex_lock(&family->lock);
    for (struct comm *set = family->first; set != NULL; set = set->family.next)
        abort_one(set, reason, text);
    pthread_mutex_unlock(&family->lock);
}

uint64_t process_sets_moves(struct comm *world)
{
    struct comm_family *family = &world->family;
    uint64_t n;

    pthread_mutex_lock(&family->lock);
    n = family->moves;
    for (struct comm *set = family->first; set != NULL; set = set->family.next)
        n += comm_moves(set);
    pthread_mutex_unlock(&family->lock);
    return n;
}

void process_sets_add_waits(struct comm *world, struct by_name_waits *all)
{
    struct comm_family *family = &world->family;

    pthread_mutex_lock(&family->lock);
    for (struct comm *set = family->first; set != NULL; set = set->family.next)
        by_name_add_waits(set, all);
    pthread_mutex_unlock(&family->lock);
}

size_t process_sets_ranks(struct comm *world, uint32_t number, uint32_t *ranks,
                          size_t max)
{
    struct comm_family *family = &world->family;
    const struct comm *set;
    size_t n;

    pthread_mutex_lock(&family->lock);
    set = family->first;
    while (set != NULL && set->config.set != number)
        set = set->family.next;
    n = set != NULL ? (size_t)set->config.size : 0;
    for (size_t i = 0; i < n && i < max; i++)
        ranks[i] = (uint32_t)set->family.ranks[i];
    pthread_mutex_unlock(&family->lock);
    return n;
}

void process_set_tell(struct comm *set, hvd_status_t reason, const char *text)
{
    struct comm *world = set->family.world;
    char words[ERROR_TEXT_MAX], ranks[RANKS_TEXT_MAX];

    if (world == NULL || comm_status(world, NULL) != HVD_OK)
        return;
    if (set->family.ranks == NULL) { /* calls by name */
        comm_abort(world, reason, text);
        return;
    }
    describe(set->family.ranks, (size_t)set->config.size, ranks);
    snprintf(words, sizeof(words), "in the communicator %s: %s", ranks, text);
    comm_abort(world, reason, words);
}

hvd_status_t process_sets_drain(struct comm *world)
{
    for (struct comm *set = first_of(world); set != NULL; set = next_of(set))
        HVD_TRY(comm_drain(set));
    return HVD_OK;
}

hvd_status_t process_sets_whole(struct comm *world)
{
    for (struct comm *set = first_of(world); set != NULL; set = next_of(set))
        HVD_TRY(comm_whole(set));
    return HVD_OK;
}

hvd_status_t process_sets_unwaited(struct comm *world)
{
    for (struct comm *set = first_of(world); set != NULL; set = next_of(set))
        HVD_TRY(comm_unwaited(set));
    return HVD_OK;
}

void process_sets_close(struct comm *world, enum comm_leave_kind kind)
{
    pthread_mutex_lock(&world->family.lock);
    world->family.closed = true;
    pthread_mutex_unlock(&world->family.lock);
    for (struct comm *set = first_of(world); set != NULL; set = next_of(set))
        by_name_close(set, kind);
}

void process_sets_leave(struct comm *world, enum comm_leave_kind kind,
                        uint64_t boundary)
{
    for (struct comm *set = first_of(world); set != NULL; set = next_of(set))
        comm_leave(set, kind, boundary);
}

void process_sets_accuse(struct comm *world)
{
    for (const struct comm *set = first_of(world); set != NULL;
         set = next_of(set))
        comm_accuse_as(world, set, set->family.ranks);
}

void process_sets_destroy(struct comm *world)
{
    struct comm *set;

    process_sets_close(world, COMM_LEAVE_ABORT);
    while ((set = first_of(world)) != NULL) {
        leave_family(set);
        comm_destroy(set);
    }
}
