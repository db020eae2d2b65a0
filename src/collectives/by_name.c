/* collectives/by_name.c - calls by name: posted, waited for, ended. See
 * by_name.h.
 *
 * Threads: posts and waits from any. `lock` guards what they touch; the rest is
 * the driver's. `door` keeps the comm while somebody comes in to wait. Memory:
 * one struct from the first post on, arrays that grow with what is in flight.
 */
#include "collectives/by_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "collectives/by_name_impl.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/process_set.h"
#include "collectives/progress.h"

enum { NAMES_KNOWN = 1024, FUSION_NBYTES = 128 << 20 };

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t door_left = PTHREAD_COND_INITIALIZER;

static struct comm *names_of(const struct comm *comm)
{
    return atomic_load_explicit(&comm->names, memory_order_acquire);
}

/* --- life --- */

static void release(struct by_name *b)
{
    negotiator_destroy(b->negotiator);
    flying_fini(&b->flying);
    flying_fini(&b->alone);
    batches_fini(&b->batches);
    array_free(&b->round, &b->round_max);
    array_free(&b->records, &b->records_max);
    array_free(&b->sendbufs, &b->sendbufs_max);
    array_free(&b->recvbufs, &b->recvbufs_max);
    array_free(&b->counts, &b->counts_max);
    array_free(&b->stand_in, &b->stand_in_max);
    array_free(&b->carrier.carried, &b->carrier.carried_max);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    free(b);
}

static struct by_name *create(struct comm *world)
{
    const struct comm_config *config = &world->config;
    const uint8_t nothing[AUTOTUNE_NBYTES] = {UINT8_MAX, UINT8_MAX};
    struct by_name *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    b->world = world;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->fusion_nbytes = config->fusion_nbytes > 0 ? config->fusion_nbytes
                                                 : FUSION_NBYTES;
    b->autotune = config->autotune;
    b->setting = autotune_hear(NULL, nothing, b->fusion_nbytes);
    b->negotiator = negotiator_create(
        config->rank, config->size,
        config->names_known > 0 ? config->names_known : NAMES_KNOWN);
    if (b->negotiator != NULL)
        return b;
    release(b);
    return NULL;
}

static hvd_status_t create_comm(struct by_name *b, struct comm **names_p)
{
    struct comm_config config = b->world->config;

    config.set++;
    HVD_TRY(comm_create(&config, names_p));
    b->comm = *names_p;
    b->comm->by_name = b;
    b->comm->family.world = b->world;
    if (b->autotune != NULL)
        autotune_begin(b->autotune, config.generation, config.size,
                       config.rank == 0, !comm_shares_all(b->comm));
    /* alone, too: a device, which may be used later, is waited for */
    return progress_start(b->comm);
}

/* The door is closed. */
static hvd_status_t open_names(struct comm *world, struct comm **names_p)
{
    struct by_name *b;
    const char *text;
    hvd_status_t status;

    *names_p = names_of(world);
    if (*names_p != NULL)
        return HVD_OK;
    if (world->names_closed)
        return error_set(HVD_ERR_STATE, "this rank has left");
    b = create(world);
    if (b == NULL)
        return comm_lacks(world, error_set(HVD_ERR_NOMEM, "calls by name"));
    status = create_comm(b, names_p);
    if (status != HVD_OK) {
        comm_destroy(b->comm);
        release(b);
        return comm_lacks(world, status);
    }
    atomic_store_explicit(&world->names, *names_p, memory_order_release);
    /* an abort that came before has not seen it */
    status = comm_status(world, &text);
    if (status != HVD_OK)
        verdict_set(&(*names_p)->verdict, status, text);
    return HVD_OK;
}

/* --- posting --- */

static struct name_id id_of(const char *name)
{
    XXH128_hash_t digest = XXH3_128bits(name, strlen(name));

    return (struct name_id){digest.low64, digest.high64};
}

static hvd_status_t check(const struct comm *comm,
                          const struct collective_args *args)
{
    if (args->name == NULL || args->name[0] == '\0')
        return error_set(HVD_ERR_INVALID, "%s by name: there is no name",
                         call_kind_name((unsigned)args->kind));
    if (comm_life(comm) == COMM_FINISHED)
        return error_set(HVD_ERR_STATE, "this rank has finished");
    HVD_TRY(comm_check(comm));
    return is_on_device(args) ? on_device_admit_by_name(args) : HVD_OK;
}

/* Under the lock. */
static hvd_status_t admit(const struct by_name *b)
{
    if (b->joined)
        return error_set(HVD_ERR_STATE, "this rank has joined");
    if (!b->over)
        return HVD_OK;
    if (comm_status(b->comm, NULL) != HVD_OK)
        return comm_check(b->comm);
    return atomic_load(&b->leaves)
               ? error_set(HVD_PEER_LOST, "rank %d leaves at a boundary",
                           b->comm->config.rank)
               : error_set(HVD_ERR_STATE, "this rank has left");
}

static hvd_status_t is_in_flight(unsigned kind, const char *name)
{
    return error_set(HVD_ERR_INVALID,
                     "%s '%s': another call by this name is in flight",
                     call_kind_name(kind), name);
}

static hvd_status_t append(struct by_name *b, struct hvd_request *r)
{
    HVD_TRY(admit(b));
    if (flying_find(&b->flying, &r->id) != NULL)
        return is_in_flight(r->call.head.kind, r->name);
    if (!flying_add(&b->flying, r))
        return error_set(HVD_ERR_NOMEM, "calls by name");
    r->next = NULL;
    r->waits_us = clock_now_us();
    b->joined = r->last_p != NULL;
    atomic_store_explicit(&r->decided, b->joined, memory_order_relaxed);
    if (b->posted == NULL)
        b->posted = r;
    else
        b->posted_last->next = r;
    b->posted_last = r;
    atomic_store(&b->has_posts, true);
    return HVD_OK;
}

/* Whoever drives sleeps, or nobody does. */
static void tell(struct by_name *b)
{
    if (atomic_load(&b->sleeping))
        (void)eventfd_write(b->comm->verdict.wake_fd, 1);
    else if (b->comm->progress != NULL)
        progress_signal(b->comm);
}

static hvd_status_t post(struct by_name *b, struct hvd_request *r)
{
    hvd_status_t status;

    pthread_mutex_lock(&b->lock);
    status = append(b, r);
    pthread_mutex_unlock(&b->lock);
    if (status == HVD_OK)
        tell(b);
    else
        request_destroy(r);
    return status;
}

/* Under the lock. The name is in use until it is waited for, as elsewhere. */
static hvd_status_t run_alone(struct by_name *b,
                              const struct collective_args *args,
                              const struct comm_group *group,
                              struct hvd_request **request_p)
{
    const struct name_id id = id_of(args->name);

    HVD_TRY(admit(b));
    if (flying_find(&b->alone, &id) != NULL)
        return is_in_flight((unsigned)args->kind, args->name);
    HVD_TRY(group == NULL ? comm_post(b->comm, args, request_p)
                          : comm_post_group(b->comm, args, group, request_p));
    (*request_p)->id = id;
    if (flying_add(&b->alone,
                   *request_p)) /* else it is not found, that is all */
        (*request_p)->unwaited_in = b;
    return HVD_OK;
}

/* In a world of one all have posted it. */
static hvd_status_t post_alone(struct comm *names,
                               const struct collective_args *args,
                               const struct comm_group *group,
                               struct hvd_request **request_p)
{
    struct by_name *b = names->by_name;
    hvd_status_t status;

    pthread_mutex_lock(&b->lock);
    status = run_alone(b, args, group, request_p);
    pthread_mutex_unlock(&b->lock);
    return status;
}

static hvd_status_t open_door(struct comm *comm, struct comm **names_p)
{
    hvd_status_t status;

    pthread_mutex_lock(&door);
    status = open_names(comm, names_p);
    pthread_mutex_unlock(&door);
    return status;
}

hvd_status_t by_name_mark(const struct collective_args *args, void **mark_p)
{
    *mark_p = NULL;
    if (!is_on_device(args))
        return HVD_OK;
    HVD_TRY(device_open());
    return device_mark(args->stream, args->ordered, mark_p);
}

static hvd_status_t post_behind(void **mark_p, struct comm *names,
                                struct hvd_request *r)
{
    hvd_status_t status = on_device_adopt_mark(r, *mark_p);

    *mark_p = NULL;
    if (status == HVD_OK)
        return post(names->by_name, r);
    request_destroy(r);
    return status;
}

/* Of a world of one what is on the host is over at once. A device is waited for
 * elsewhere: who posts may hold locks. */
static bool is_over_at_once(const struct comm *comm,
                            const struct collective_args *args)
{
    return comm->config.size == 1 && !is_on_device(args);
}

static hvd_status_t try_to_post(void **mark_p, struct comm *comm,
                                const struct collective_args *args,
                                const struct comm_group *group,
                                struct hvd_request **request_p)
{
    struct hvd_request *r;
    struct comm *names;

    HVD_TRY(check(comm, args));
    HVD_TRY(adasum_admit(args));
    HVD_TRY(ragged_admit(args));
    HVD_TRY(open_door(comm, &names));
    if (is_over_at_once(comm, args))
        return post_alone(names, args, group, request_p);
    HVD_TRY(request_create(names, args, group, &r));
    r->id = id_of(args->name);
    HVD_TRY(post_behind(mark_p, names, r));
    *request_p = r;
    return HVD_OK;
}

/* A refusal is a call that has failed: what comes of it is not to be believed.
 */
hvd_status_t by_name_post_behind(void *mark, struct comm *comm,
                                 const struct collective_args *args,
                                 const struct comm_group *group,
                                 struct hvd_request **request_p)
{
    hvd_status_t status = try_to_post(&mark, comm, args, group, request_p);

    device_unmark(mark);
    if (status != HVD_OK && comm_status(comm, NULL) != HVD_OK)
        atomic_store(&comm->refused, true);
    return status;
}

hvd_status_t by_name_post(struct comm *comm, const struct collective_args *args,
                          const struct comm_group *group,
                          struct hvd_request **request_p)
{
    void *mark;

    HVD_TRY(by_name_mark(args, &mark));
    return by_name_post_behind(mark, comm, args, group, request_p);
}

/* Its name is nobody's: those of calls are digests. */
static hvd_status_t post_join(struct comm *names, int *last_p,
                              struct hvd_request **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_BARRIER, .name = "join"};
    struct hvd_request *r;

    HVD_TRY(request_create(names, &args, NULL, &r));
    r->id = (struct name_id){0, 0};
    r->begun_ns = r->posted_ns;
    r->last_p = last_p;
    HVD_TRY(post(names->by_name, r));
    *request_p = r;
    return HVD_OK;
}

hvd_status_t by_name_join(struct comm *comm, int *last_p)
{
    struct hvd_request *r;
    struct comm *names;

    *last_p = 0;
    HVD_TRY(comm_admit(comm));
    if (comm->config.size == 1)
        return HVD_OK;
    HVD_TRY(open_door(comm, &names));
    HVD_TRY(post_join(names, last_p, &r));
    return by_name_wait(r);
}

bool by_name_works(const struct comm *names)
{
    return flying_count(&names->by_name->flying) > 0;
}

bool by_name_has_posts(const struct comm *names)
{
    return atomic_load(&names->by_name->has_posts);
}

void by_name_sleep(struct comm *names)
{
    atomic_store(&names->by_name->sleeping, true);
}

void by_name_wake(struct comm *names)
{
    atomic_store(&names->by_name->sleeping, false);
}

/* --- waiting --- */

/* Drive for all who wait, or let the one that does. */
static void wait_until(struct by_name *b, const struct hvd_request *r)
{
    pthread_mutex_lock(&b->lock);
    while (!by_name_is_over(b, r)) {
        if (b->led) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        b->led = true;
        pthread_mutex_unlock(&b->lock);
        progress_take(b->comm);
        by_name_run_until(b, r);
        progress_give(b->comm);
        pthread_mutex_lock(&b->lock);
        b->led = false;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
}

static void strike_refused(struct by_name *b, const struct hvd_request *r)
{
    struct hvd_request **at = &b->refused;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
}

/* It is done: whoever waits for it knows how it ended. The door is closed. */
static void note_waited(struct hvd_request *r)
{
    struct by_name *b = r->unwaited_in;

    if (b == NULL)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->comm->config.size == 1 && flying_find(&b->alone, &r->id) == r)
        flying_remove(&b->alone, r);
    else
        strike_refused(b, r);
    pthread_mutex_unlock(&b->lock);
    r->unwaited_in = NULL;
}

static void come_out(struct by_name *b, struct hvd_request *r)
{
    pthread_mutex_lock(&door);
    note_waited(r);
    if (--b->n_inside == 0)
        pthread_cond_broadcast(&door_left);
    pthread_mutex_unlock(&door);
}

hvd_status_t by_name_wait(struct hvd_request *r)
{
    struct by_name *b = NULL;

    ragged_run_alone(r);
    pthread_mutex_lock(&door);
    if (!request_done(r)) {
        b = r->comm->by_name;
        b->n_inside++;
    } else {
        note_waited(r);
    }
    pthread_mutex_unlock(&door);
    if (b != NULL) {
        wait_until(b, r);
        come_out(b, r);
    }
    return request_result(r);
}

hvd_status_t comm_unwaited(struct comm *comm)
{
    struct comm *names = names_of(comm);
    hvd_status_t status = HVD_OK;

    if (names != NULL) {
        const struct hvd_request *r;

        pthread_mutex_lock(&names->by_name->lock);
        r = names->by_name->refused;
        if (r != NULL)
            status = error_set(r->status, "%s", r->text);
        pthread_mutex_unlock(&names->by_name->lock);
    }
    return status == HVD_OK ? process_sets_unwaited(comm) : status;
}

/* Nothing was on a device: then it does not wait for the thread that drives. */
static hvd_status_t confirm(struct comm *names)
{
    hvd_status_t status;

    if (!device_is_used())
        return HVD_OK;
    progress_take(names);
    status = on_device_confirm(names);
    progress_give(names);
    return status;
}

hvd_status_t by_name_drain(struct comm *comm)
{
    struct comm *names = names_of(comm);

    if (names == NULL)
        return HVD_OK;
    wait_until(names->by_name, NULL);
    return atomic_load(&names->by_name->failed) ? comm_check(names)
                                                : confirm(names);
}

/* --- the end --- */

void by_name_abort(struct comm *comm, hvd_status_t reason, const char *text)
{
    struct comm *names = names_of(comm);

    if (names == NULL)
        return;
    verdict_set(&names->verdict, reason, text);
    on_device_cancel(names);
}

/* The others are told that no more will come: where every rank leaves, and each
 * waits for something else, none will ever be there. */
static void close_for_posts(struct by_name *b, enum comm_leave_kind kind)
{
    pthread_mutex_lock(&b->lock);
    if (kind == COMM_LEAVE_BOUNDARY)
        atomic_store(&b->leaves, true);
    b->over = true;
    atomic_store(&b->has_posts, true);
    pthread_mutex_unlock(&b->lock);
    if (flying_count(&b->flying) > 0)
        tell(b);
}

static void finish(struct by_name *b, enum comm_leave_kind kind)
{
    close_for_posts(b, kind);
    wait_until(b, NULL);
}

void by_name_accuse(struct comm *comm)
{
    const struct comm *names = names_of(comm);

    if (names != NULL)
        comm_accuse_as(comm, names, NULL);
}

/* NULL: there are none, and will be none. */
static struct comm *close_door(struct comm *comm)
{
    struct comm *names;

    pthread_mutex_lock(&door);
    comm->names_closed = true;
    names = names_of(comm);
    pthread_mutex_unlock(&door);
    return names;
}

void by_name_close(struct comm *comm, enum comm_leave_kind kind)
{
    struct comm *names = comm->by_name == NULL ? close_door(comm) : NULL;

    if (names != NULL)
        close_for_posts(names->by_name, kind);
}

static bool has_left_at_boundary(const struct connection *c)
{
    return c->state == CONNECTION_LEFT && c->leave_kind == FRAME_LEAVE_BOUNDARY;
}

hvd_status_t by_name_part(struct comm *names, const struct connection *c)
{
    int rank = names->config.rank;

    if (c == NULL)
        return comm_fail(names, HVD_PEER_LOST,
                         "all ranks leave at a boundary, and some have not "
                         "posted all calls that rank %d has",
                         rank);
    return comm_fail(names, HVD_PEER_LOST,
                     "rank %d left at boundary %llu, and has not posted all "
                     "that rank %d has",
                     c->peer, (unsigned long long)c->leave_boundary, rank);
}

bool by_name_has_parted(const struct comm *names)
{
    const struct by_name *b = names->by_name;
    bool parted;

    if (b == NULL || comm_status(names, NULL) != HVD_PEER_LOST ||
        comm_status(b->world, NULL) != HVD_OK)
        return false;
    parted = atomic_load(&b->leaves);
    for (size_t i = 0; i < names->n_live && !parted; i++)
        parted = has_left_at_boundary(names->live[i]);
    return parted;
}

void by_name_leave(struct comm *comm, enum comm_leave_kind kind,
                   uint64_t boundary)
{
    struct comm *names = comm->by_name == NULL ? close_door(comm) : NULL;

    if (names == NULL)
        return;
    finish(names->by_name, kind);
    comm_leave(names, kind, boundary);
}

void by_name_silence(struct comm *comm)
{
    struct comm *names = names_of(comm);

    if (names != NULL && comm_life(names) == COMM_PARTED)
        on_device_silence(names);
}

/* Requests outlive it. The door is closed. */
static void forget_unwaited(struct by_name *b)
{
    struct hvd_request *r;

    for (r = b->refused; r != NULL; r = r->next)
        r->unwaited_in = NULL;
    while ((r = flying_any(&b->alone)) != NULL) {
        flying_remove(&b->alone, r);
        r->unwaited_in = NULL;
    }
}

void by_name_destroy(struct comm *comm)
{
    struct comm *names;
    struct by_name *b;

    if (comm->by_name != NULL) /* it has no names, and the door may be ours */
        return;
    names = close_door(comm);
    if (names == NULL)
        return;
    b = names->by_name;
    verdict_set(&names->verdict, HVD_PEER_LOST, "the generation has ended");
    finish(b, COMM_LEAVE_ABORT);
    pthread_mutex_lock(&door);
    while (b->n_inside > 0)
        pthread_cond_wait(&door_left, &door);
    forget_unwaited(b);
    pthread_mutex_unlock(&door);
    atomic_store(&comm->names, NULL);
    comm_destroy(names);
    release(b);
}
