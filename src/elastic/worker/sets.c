/* elastic/worker/sets.c - communicators. See sets.h.
 *
 *   by list   hvd_comm_create: agreed upon at once, valid in its generation
 *   by rule   hvd_comm_create_by_rule: asked, and agreed upon, when a
 *             generation is entered
 *   by name   hvd_comm_create_group: each member makes it for itself
 *
 * Numbers are given from 1 on in each generation, first to those by rule, then
 * in the order in which ranks agree. Those of groups are digests, and far
 * above.
 *
 * Threads: app; a handle's comm and what leads to it are written under
 * control's lock, for calls by name come from any; and what hvd_comm_rank() and
 * hvd_comm_size() read also under `lock`. */
#include "elastic/worker/sets.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/world.h>

#include "base/array.h"
#include "base/error.h"
#include "base/world.h"
#include "collectives/process_set.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/control.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"

struct hvd_comm {
    hvd_member_fn member; /* NULL: by list */
    void *arg;
    struct hvd_comm *next; /* in order of their making */

    uint64_t generation; /* of what follows; 0: none yet */
    uint32_t number;
    int *ranks, n, rank; /* [n], and the own place; -1: none */
    struct comm *comm;   /* NULL: not used yet */
};

static struct {
    struct hvd_comm *first;
    uint32_t n_made;     /* numbers given in this generation */
    uint64_t generation; /* whose communicators there are; 0: none yet */
    uint32_t *groups;    /* [n_groups] numbers of this generation's */
    size_t n_groups, groups_max;
} sets;

/* The innermost: nothing is called while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- handles ------------------------------------------------------------- */

static hvd_status_t add(const struct hvd_comm *set, hvd_comm_t **comm_p)
{
    struct hvd_comm **at = &sets.first;
    struct hvd_comm *own = malloc(sizeof(*own));

    if (!own)
        return error_set(HVD_ERR_NOMEM, "a communicator");
    *own = *set;
    while (*at)
        at = &(*at)->next;
    *at = *comm_p = own;
    return HVD_OK;
}

static void drop(struct hvd_comm *set)
{
    struct hvd_comm **at = &sets.first;

    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    free(set->ranks);
    free(set);
}

static bool is_current(const struct hvd_comm *set)
{
    return process_self.comm &&
           set->generation == comm_generation(process_self.comm);
}

/* ---- members ------------------------------------------------------------- */

struct renewal {
    struct hvd_comm *set;
    int *ranks, n, rank;
    uint32_t number;
};

/* In the current generation; `ranks` is taken. */
static hvd_status_t install(struct comm *comm, void *arg)
{
    const struct renewal *now = arg;
    struct hvd_comm *set = now->set;

    free(set->ranks);
    set->ranks = now->ranks;
    set->number = now->number;
    set->comm = NULL;
    pthread_mutex_lock(&lock);
    set->n = now->n;
    set->rank = now->rank;
    set->generation = sets.generation = comm_generation(comm);
    pthread_mutex_unlock(&lock);
    return HVD_OK;
}

static int *ask(const struct hvd_comm *set, int size, int *n_p)
{
    int *ranks = calloc((size_t)size, sizeof(*ranks));

    *n_p = 0;
    for (int rank = 0; rank < size && ranks; rank++)
        if (set->member(rank, size, set->arg))
            ranks[(*n_p)++] = rank;
    return ranks;
}

static hvd_status_t agree(const char *what, const int *ranks, int n)
{
    hvd_status_t status;

    collective_enter();
    status = process_set_agree(process_self.comm, what, ranks, (size_t)n);
    if (status == HVD_OK)
        collective_exit();
    else
        status = collective_leave(status);
    return status;
}

/* A rule is asked in the generation that has begun. */
static hvd_status_t renew(struct hvd_comm *set, uint32_t number)
{
    struct world world;
    struct renewal now = {.set = set, .number = number};
    char what[48];
    hvd_status_t status;

    world_get(&world);
    now.ranks = ask(set, world.size, &now.n);
    if (!now.ranks)
        return error_set(HVD_ERR_NOMEM, "a communicator");
    now.rank = process_set_place(world.rank, now.ranks, now.n);
    snprintf(what, sizeof(what), "the rule of communicator %" PRIu32,
             now.number);
    status = agree(what, now.ranks, now.n);
    if (status == HVD_OK)
        status = control_with_comm(install, &now);
    if (status != HVD_OK)
        free(now.ranks);
    return status;
}

void sets_begin(void)
{
    sets.n_made = 0;
    sets.n_groups = 0;
    for (const struct hvd_comm *set = sets.first; set; set = set->next)
        sets.n_made += set->member != NULL;
}

hvd_status_t sets_enter(void)
{
    uint32_t number = 0;

    for (struct hvd_comm *set = sets.first; set; set = set->next)
        if (set->member)
            HVD_TRY(renew(set, ++number));
    return HVD_OK;
}

void sets_leave(void)
{
    for (struct hvd_comm *set = sets.first; set; set = set->next)
        set->comm = NULL;
    pthread_mutex_lock(&lock);
    sets.generation = 0;
    pthread_mutex_unlock(&lock);
}

void sets_release(void)
{
    while (sets.first)
        drop(sets.first);
    array_free(&sets.groups, &sets.groups_max);
    sets.n_groups = 0;
}

/* ---- the comm ------------------------------------------------------------ */

static hvd_status_t check(const struct comm *world, const struct hvd_comm *set)
{
    if (set->generation != comm_generation(world))
        return error_set(HVD_ERR_INVALID,
                         "comm: the communicator was made in generation "
                         "%" PRIu64 ", this is %" PRIu64,
                         set->generation, comm_generation(world));
    if (set->rank < 0)
        return error_set(HVD_ERR_INVALID,
                         "comm: this rank is not in the communicator");
    return HVD_OK;
}

hvd_status_t sets_comm(struct comm *world, hvd_comm_t *set,
                       struct comm **comm_p)
{
    *comm_p = world;
    if (!set)
        return HVD_OK;
    HVD_TRY(check(world, set));
    if (!set->comm)
        HVD_TRY(process_set_create(world, set->number, set->ranks, set->n,
                                   &set->comm));
    *comm_p = set->comm;
    return HVD_OK;
}

struct question {
    hvd_comm_t *set;
    struct comm **comm_p;
};

static hvd_status_t find(struct comm *world, void *arg)
{
    const struct question *question = arg;

    return sets_comm(world, question->set, question->comm_p);
}

hvd_status_t sets_find(hvd_comm_t *set, struct comm **comm_p)
{
    struct question question = {set, comm_p};

    *comm_p = process_self.comm;
    return set ? control_with_comm(find, &question) : HVD_OK;
}

/* ---- hvd/comm.h ---------------------------------------------------------- */

static hvd_status_t check_rank(int rank, int size, bool *seen)
{
    if (rank < 0 || rank >= size)
        return error_set(HVD_ERR_INVALID, "rank %d in a world of %d", rank,
                         size);
    if (seen[rank])
        return error_set(HVD_ERR_INVALID, "rank %d is there twice", rank);
    seen[rank] = true;
    return HVD_OK;
}

static hvd_status_t check_ranks(const int *ranks, int n, int size)
{
    bool *seen;
    hvd_status_t status = HVD_OK;

    if (!ranks || n < 1)
        return error_set(HVD_ERR_INVALID, "%d ranks at %p", n,
                         (const void *)ranks);
    seen = calloc((size_t)size, sizeof(*seen));
    if (!seen)
        return error_set(HVD_ERR_NOMEM, "%d ranks", size);
    for (int i = 0; i < n && status == HVD_OK; i++)
        status = check_rank(ranks[i], size, seen);
    free(seen);
    return status;
}

/* Of these ranks in the current generation. */
static hvd_status_t install_list(uint32_t number, const int *ranks, int n,
                                 hvd_comm_t **comm_p)
{
    struct hvd_comm set = {.generation = comm_generation(process_self.comm),
                           .number = number,
                           .n = n};
    struct world world;
    hvd_status_t status;

    world_get(&world);
    set.rank = process_set_place(world.rank, ranks, n);
    set.ranks = malloc((size_t)n * sizeof(*ranks));
    if (!set.ranks)
        return error_set(HVD_ERR_NOMEM, "a communicator");
    memcpy(set.ranks, ranks, (size_t)n * sizeof(*ranks));
    status = add(&set, comm_p);
    if (status != HVD_OK)
        free(set.ranks);
    pthread_mutex_lock(&lock);
    sets.generation = set.generation;
    pthread_mutex_unlock(&lock);
    return status;
}

/* The world is there; ranks are checked in it. */
static hvd_status_t prepare(const char *call, const int *ranks, int n,
                            hvd_comm_t **comm_p, struct world *world_p)
{
    if (!comm_p)
        return error_set(HVD_ERR_INVALID, "%s: comm_p is NULL", call);
    *comm_p = NULL;
    HVD_TRY(static_world(call));
    world_get(world_p);
    return error_prefix(check_ranks(ranks, n, world_p->size), "%s", call);
}

hvd_status_t hvd_comm_create(const int *ranks, int n, hvd_comm_t **comm_p)
{
    struct world world;

    HVD_TRY(prepare("hvd_comm_create", ranks, n, comm_p, &world));
    HVD_TRY(agree("hvd_comm_create", ranks, n));
    /* on all ranks alike, whatever comes now */
    return install_list(++sets.n_made, ranks, n, comm_p);
}

/* ---- of its members alone ------------------------------------------------ */

/* A number is used once in a generation, as connections are. */
static hvd_status_t take_number(uint32_t number)
{
    for (size_t i = 0; i < sets.n_groups; i++)
        if (sets.groups[i] == number)
            return error_set(HVD_ERR_INVALID,
                             "the name was used for these ranks before");
    if (!array_reserve(&sets.groups, &sets.groups_max, sets.n_groups + 1))
        return error_set(HVD_ERR_NOMEM, "a communicator");
    sets.groups[sets.n_groups++] = number;
    return HVD_OK;
}

static hvd_status_t create_group(const int *ranks, int n, const char *name,
                                 int rank, hvd_comm_t **comm_p)
{
    uint32_t number;

    if (!name || name[0] == '\0')
        return error_set(HVD_ERR_INVALID, "there is no name");
    for (int i = 1; i < n; i++)
        if (ranks[i] < ranks[i - 1])
            return error_set(HVD_ERR_INVALID,
                             "rank %d behind rank %d, which is greater",
                             ranks[i], ranks[i - 1]);
    if (process_set_place(rank, ranks, n) < 0)
        return error_set(HVD_ERR_INVALID, "this rank, %d, is not in it", rank);
    number = process_set_number(name, ranks, n);
    HVD_TRY(take_number(number));
    return install_list(number, ranks, n, comm_p);
}

hvd_status_t hvd_comm_create_group(const int *ranks, int n, const char *name,
                                   hvd_comm_t **comm_p)
{
    const char *call = "hvd_comm_create_group";
    struct world world;

    HVD_TRY(prepare(call, ranks, n, comm_p, &world));
    return error_prefix(create_group(ranks, n, name, world.rank, comm_p), "%s",
                        call);
}

hvd_status_t hvd_comm_create_by_rule(hvd_member_fn member, void *arg,
                                     hvd_comm_t **comm_p)
{
    struct hvd_comm set = {.member = member, .arg = arg, .rank = -1};
    hvd_status_t status = HVD_OK;

    if (!comm_p || !member)
        return error_set(HVD_ERR_INVALID, "hvd_comm_create_by_rule: %s is NULL",
                         comm_p ? "member" : "comm_p");
    *comm_p = NULL;
    HVD_TRY(process_check("hvd_comm_create_by_rule"));
    if (process_self.kind != PROGRAM_UNDECIDED && !process_self.solo)
        return error_set(HVD_ERR_STATE,
                         "hvd_comm_create_by_rule: the world was joined");
    HVD_TRY(add(&set, comm_p));
    if (process_self.solo &&
        (status = renew(*comm_p, ++sets.n_made)) != HVD_OK) {
        drop(*comm_p);
        *comm_p = NULL;
    }
    return status;
}

/* No other thread finds it any more. */
static hvd_status_t take_comm(struct comm *world, void *arg)
{
    struct hvd_comm *set = arg;

    (void)world;
    pthread_mutex_lock(&lock);
    set->generation = 0;
    pthread_mutex_unlock(&lock);
    return HVD_OK;
}

/* Who has never used it takes part in its end all the same. */
static hvd_status_t destroy_current(struct hvd_comm *set)
{
    struct comm *comm;
    hvd_status_t status;

    if (process_self.left)
        return HVD_OK; /* all have left together */
    HVD_TRY(sets_find(set, &comm));
    HVD_TRY(control_with_comm(take_comm, set));
    collective_enter();
    status = process_set_destroy(comm);
    if (status != HVD_OK)
        return collective_leave(status);
    collective_exit();
    return HVD_OK;
}

hvd_status_t hvd_comm_destroy(hvd_comm_t *comm)
{
    hvd_status_t status = HVD_OK;

    if (!comm)
        return HVD_OK;
    HVD_TRY(process_check("hvd_comm_destroy"));
    if (process_self.in_sync && is_current(comm))
        return error_set(HVD_ERR_STATE,
                         "hvd_comm_destroy: in a callback of a sync, which not "
                         "all ranks run");
    if (comm->member && !process_self.solo &&
        (process_self.running || (process_self.comm && !process_self.remains)))
        return error_set(HVD_ERR_STATE,
                         "hvd_comm_destroy: it is a communicator by rule, and "
                         "this worker has joined a world");
    if (is_current(comm) && comm->rank >= 0)
        status = error_prefix(destroy_current(comm), "hvd_comm_destroy");
    drop(comm);
    return status;
}

/* Any thread: process_self.comm is not looked at, for the thread that trains
 * may be about to free it. */
static void ask_now(const struct hvd_comm *set, int *rank_p, int *n_p)
{
    bool is_over;

    pthread_mutex_lock(&lock);
    is_over = set->generation == 0 || set->generation != sets.generation;
    *rank_p = is_over ? -1 : set->rank;
    *n_p = is_over ? 0 : set->n;
    pthread_mutex_unlock(&lock);
}

int hvd_comm_rank(const hvd_comm_t *comm)
{
    int rank, n;

    if (!comm)
        return hvd_rank();
    ask_now(comm, &rank, &n);
    return rank;
}

int hvd_comm_size(const hvd_comm_t *comm)
{
    int rank, n;

    if (!comm)
        return hvd_size();
    ask_now(comm, &rank, &n);
    return n;
}
