/* collectives/comm.c - the life of a comm: created, aborted, left, destroyed;
 * and the door through which collectives enter it. See comm.h.
 *
 * Threads: comm_abort() and comm_status() are safe from any; the rest runs on
 * the issuing thread. Memory: one struct and the arrays in it, allocated in
 * comm_create(); the scratch buffer grows with what needs it. */
#include "collectives/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/moves.h"
#include "collectives/by_name.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/descriptors.h"
#include "collectives/process_set.h"
#include "collectives/progress.h"
#include "collectives/two_level.h"

/* Sockets of the endpoint's and eventfds, beside the links. */
enum { PFDS_SPARE = 32 };

/* --- creation --- */

static void fds_close(void *arg)
{
    struct comm *comm = arg;

    for (size_t i = 0; i < comm->n_live; i++)
        connection_close(comm->live[i]);
    close(comm->verdict.wake_fd);
    local_fds_close(comm->local);
}

static bool allocate(struct comm *comm)
{
    size_t size = (size_t)comm->config.size, n_links = CHANNEL_COUNT * size;

    comm->peers = calloc(size, sizeof(*comm->peers));
    comm->links = calloc(n_links, sizeof(struct connection *));
    comm->live = calloc(n_links, sizeof(struct connection *));
    comm->steps = calloc(schedule_steps_max(comm->config.size),
                         sizeof(*comm->steps));
    comm->accused = calloc(size, sizeof(*comm->accused));
    comm->bounce = aligned_alloc(4096, COMM_BOUNCE_NBYTES);
    /* now: the first operation that sleeps may come late */
    return comm->peers != NULL && comm->links != NULL && comm->live != NULL &&
           comm->steps != NULL && comm->accused != NULL &&
           comm->bounce != NULL &&
           array_reserve(&comm->pfds, &comm->pfds_max, n_links + PFDS_SPARE);
}

static void release(struct comm *comm)
{
    two_level_destroy(comm->two_level);
    local_destroy(comm->local);
    for (size_t i = 0; i < comm->n_live; i++)
        connection_destroy(comm->live[i]);
    verdict_fini(&comm->verdict);
    pthread_mutex_destroy(&comm->family.lock);
    free(comm->family.ranks);
    free(comm->peers);
    free(comm->links);
    free(comm->live);
    free(comm->steps);
    free(comm->accused);
    free(comm->bounce);
    free(comm->scratch);
    hvd_free(comm->fusion);
    adasum_fini(&comm->adasum);
    free(comm->pfds);
    free(comm);
}

static hvd_status_t check_config(const struct comm_config *config)
{
    if (config->size < 1 || config->rank < 0 || config->rank >= config->size)
        return error_set(HVD_ERR_INVALID, "comm: rank %d of %d", config->rank,
                         config->size);
    if (config->size > 1 && config->endpoint == NULL)
        return error_set(HVD_ERR_INVALID, "comm: no endpoint");
    return HVD_OK;
}

static int count_here(const struct comm *comm)
{
    return peers_beside(comm->peers, comm->config.size, comm->config.rank);
}

static struct descriptors_need need_of(const struct comm *comm,
                                       size_t connections)
{
    const struct comm_peer *own = &comm->peers[comm->config.rank];
    bool shares = own->abilities & COMM_CAN_SHARE;
    struct descriptors_need need;
    size_t held = local_arenas_held(); /* survivors' are not opened again */
    size_t n_here = (size_t)count_here(comm);

    need = descriptors_needed((size_t)comm->config.size, n_here,
                              shares && n_here <= LOCAL_SIZE_MAX, connections);
    if (comm->config.set > 0 && held > n_here)
        held = n_here; /* others' of this host are among them */
    held = held < need.least ? held : need.least;
    need.least -= held;
    need.most -= held;
    return need;
}

/* As many connections between two ranks as there is room for: those of the
 * first pairs would leave none for the last. */
static hvd_status_t reserve_descriptors(struct comm *comm)
{
    int n = comm->config.tcp_connections > 1 ? comm->config.tcp_connections : 1;
    size_t room;
    char who[64];

    snprintf(who, sizeof(who), "%d ranks, %d of them here", comm->config.size,
             count_here(comm));
    HVD_TRY(descriptors_reserve(who, need_of(comm, (size_t)n),
                                comm->verdict.wake_fd, &room));
    while (n > 1 && need_of(comm, (size_t)n).most > room)
        n--;
    if (n < comm->config.tcp_connections) {
        log_info("rank %d: room for %zu descriptors -> HVD_TCP_CONNECTIONS=%d",
                 comm->config.rank, room, n);
        comm->config.tcp_connections = n;
    }
    return HVD_OK;
}

static void wake(void *arg)
{
    const struct comm *comm = arg;

    (void)eventfd_write(comm->verdict.wake_fd, 1);
}

static void open_to_peers(struct comm *comm)
{
    comm->user = (struct endpoint_user){
        .generation = comm->config.generation,
        .set = comm->config.set,
        .key = comm->config.key,
        .sealed = comm->config.encrypt,
        .size = comm->config.size,
        .open = true,
        .arg = comm,
        .take = links_take,
        .fds_close = fds_close,
        .wake = wake,
    };
    endpoint_add_user(comm->config.endpoint, &comm->user);
}

hvd_status_t comm_create(const struct comm_config *config, struct comm **comm_p)
{
    struct comm *comm;
    hvd_status_t status;

    HVD_TRY(check_config(config));
    HVD_TRY(mac_init());
    comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return error_set(HVD_ERR_NOMEM, "comm");
    comm->config = *config;
    comm->verdict.wake_fd = -1;
    pthread_mutex_init(&comm->family.lock, NULL);
    if (!allocate(comm)) {
        status = error_set(HVD_ERR_NOMEM, "comm of %d ranks", config->size);
        goto release;
    }
    HVD_TRY_GOTO(verdict_init(&comm->verdict), release);
    comm->config.peers = comm->peers;
    if (config->size > 1) {
        memcpy(comm->peers, config->peers,
               (size_t)config->size * sizeof(*comm->peers));
        HVD_TRY_GOTO(reserve_descriptors(comm), release);
        HVD_TRY_GOTO(comm_share(comm), release);
        HVD_TRY_GOTO(two_level_create(comm), release);
        open_to_peers(comm);
    }
    *comm_p = comm;
    return HVD_OK;

release:
    release(comm);
    return status;
}

void comm_destroy(struct comm *comm)
{
    if (comm == NULL)
        return;
    process_sets_destroy(comm);
    progress_stop(comm);
    by_name_destroy(comm);
    local_leave(comm->local);
    comm_tear_down(comm, NULL, "");
    on_device_release(comm);
    if (comm->config.size > 1)
        endpoint_remove_user(comm->config.endpoint, &comm->user);
    release(comm);
}

/* --- how it ends --- */

static void comm_move(struct comm *comm, enum comm_life to)
{
    static const unsigned moves[] = {
        [COMM_OPEN] = MOVE(COMM_PARTED),
        [COMM_PARTED] = MOVE(COMM_FINISHED),
        [COMM_FINISHED] = MOVE(COMM_FINISHED),
    };

    HVD_ASSERT(moves_allow(moves, comm_life(comm), to));
    atomic_store_explicit(&comm->life, to, memory_order_relaxed);
}

/* To those that end with it. */
static void spread(struct comm *comm, hvd_status_t reason, const char *text)
{
    by_name_abort(comm, reason, text);
    process_sets_abort(comm, reason, text);
    process_set_tell(comm, reason, text);
}

void comm_abort(struct comm *comm, hvd_status_t reason, const char *text)
{
    verdict_set(&comm->verdict, reason, text);
    on_device_cancel(comm); /* the program may wait for the device itself */
    spread(comm, reason, text);
}

hvd_status_t comm_status(const struct comm *comm, const char **text_p)
{
    return verdict_status(&comm->verdict, text_p);
}

hvd_status_t comm_lacks(struct comm *comm, hvd_status_t status)
{
    char text[ERROR_TEXT_MAX];

    memcpy(text, error_text(), strlen(error_text()) + 1);
    comm_abort(comm, status, text);
    return error_set(status, "%s", text);
}

/* Whoever drives a call that fails tears the comm down before the call is
 * over. A mismatch was returned to the caller when it was set. */
hvd_status_t comm_whole(struct comm *comm)
{
    if (comm_life(comm) != COMM_OPEN || atomic_load(&comm->refused) ||
        comm_status(comm, NULL) == HVD_ERR_MISMATCH)
        return comm_check(comm);
    return process_sets_whole(comm);
}

void comm_accuse(struct comm *comm, int peer, bool proven)
{
    size_t i = 0;

    while (i < comm->n_accused && comm->accused[i] != peer)
        i++;
    if (i == comm->n_accused)
        comm->accused[comm->n_accused++] = peer;
    if (proven && i < 64)
        comm->proven |= UINT64_C(1) << i;
}

void comm_accuse_as(struct comm *comm, const struct comm *other,
                    const int *ranks)
{
    for (size_t i = 0; i < other->n_accused; i++) {
        int rank = other->accused[i];

        comm_accuse(comm, ranks == NULL ? rank : ranks[rank],
                    i < 64 && (other->proven >> i & 1));
    }
}

uint64_t comm_accused_proven(const struct comm *comm)
{
    return comm->proven;
}

const int *comm_accused(const struct comm *comm, size_t *n_p)
{
    *n_p = comm->n_accused;
    return comm->accused;
}

/* --- goodbyes --- */

/* What is queued, whole, and the goodbye behind it. The user's buffer is gone
 * when we return: the rest of a payload is copied. NULL: nothing, or no memory.
 */
static uint8_t *last_words(const struct connection *c, const uint8_t *goodbye,
                           size_t goodbye_nbytes, size_t *n_p)
{
    size_t head = c->out_n - c->out_off;
    struct sealed_rest all = {c->out + c->out_off, c->payload,    goodbye, head,
                              c->payload_n,        goodbye_nbytes};
    uint8_t *rest;

    *n_p = 0;
    if (c->sealed != NULL)
        return sealed_rest(c->sealed, &all, n_p);
    rest = malloc(head + c->payload_n + goodbye_nbytes);
    if (rest == NULL)
        return NULL;
    memcpy(rest, c->out + c->out_off, head);
    if (c->payload_n > 0)
        memcpy(rest + head, c->payload, c->payload_n);
    memcpy(rest + head + c->payload_n, goodbye, goodbye_nbytes);
    *n_p = head + c->payload_n + goodbye_nbytes;
    return rest;
}

static void part_from(struct comm *comm, struct connection *c,
                      const uint8_t *goodbye, size_t goodbye_nbytes)
{
    bool speak = goodbye_nbytes > 0 && !c->shut &&
                 c->state >= CONNECTION_GREETED && c->state != CONNECTION_LEFT;
    uint8_t *rest = NULL;
    size_t n = 0;

    if (c->fd < 0)
        return;
    if (c->state < CONNECTION_GREETED || c->ended) {
        connection_close(c);
        return;
    }
    if (speak)
        rest = last_words(c, goodbye,
                          connection_is_stripe(c) ? 0 : goodbye_nbytes, &n);
    endpoint_linger(comm->config.endpoint, c->fd, rest, n);
    c->fd = -1;
    c->ended = true;
}

/* bytes [ENDPOINT_GOODBYE_MAX]: how many of them it takes. */
static size_t encode_goodbye(const struct frame *f, const char *text,
                             uint8_t *bytes)
{
    frame_encode(f, bytes);
    memcpy(bytes + FRAME_HEADER_NBYTES, text, f->nbytes);
    return FRAME_HEADER_NBYTES + f->nbytes;
}

/* A bit for each channel on which the peer has sent us a hello, or we to it. */
static uint64_t channels_to(const struct comm *comm, int peer)
{
    uint64_t channels = 0;

    for (int i = 0; i < CHANNEL_COUNT; i++) {
        const struct connection *c = comm_link(comm, i, peer);

        if (c != NULL && c->state >= CONNECTION_GREETED)
            channels |= UINT64_C(1) << i;
    }
    return channels;
}

/* f: the last frame for each, NULL: none; text [f->nbytes] behind it. */
static void part_from_all(struct comm *comm, struct frame *f, const char *text)
{
    uint8_t bytes[ENDPOINT_GOODBYE_MAX];
    size_t n = 0;

    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (f != NULL && f->type == FRAME_LEAVE) {
            f->count = channels_to(comm, c->peer);
            endpoint_remember_greeted(comm->config.endpoint, &comm->user,
                                      comm->peers[c->peer].worker, f->count);
        }
        if (f != NULL)
            n = encode_goodbye(f, text, bytes);
        part_from(comm, c, bytes, n);
    }
}

void comm_tear_down(struct comm *comm, struct frame *goodbye, const char *text)
{
    uint8_t bytes[ENDPOINT_GOODBYE_MAX];

    if (comm_life(comm) != COMM_OPEN)
        return;
    comm_move(comm, COMM_PARTED);
    if (comm->config.size == 1)
        return;
    if (goodbye != NULL) {
        goodbye->nbytes = (uint32_t)strnlen(text, FRAME_TEXT_MAX);
        endpoint_remember(comm->config.endpoint, &comm->user, bytes,
                          encode_goodbye(goodbye, text, bytes));
    }
    endpoint_shut(comm->config.endpoint, &comm->user);
    part_from_all(comm, goodbye, text);
}

/* The others part as well; what they have done so far counts. */
static hvd_status_t end_parted(struct comm *names)
{
    struct frame goodbye = {.type = FRAME_LEAVE,
                            .kind = FRAME_LEAVE_BOUNDARY,
                            .value = engine_boundaries_passed(names)};

    for (size_t i = 0; i < names->n_live; i++)
        if (names->live[i]->leave_boundary > goodbye.value)
            goodbye.value = names->live[i]->leave_boundary;

    local_leave(names->local);
    comm_tear_down(names, &goodbye, "");
    return comm_check(names);
}

hvd_status_t comm_end(struct comm *comm)
{
    const char *text;
    hvd_status_t reason = comm_status(comm, &text);
    hvd_status_t told = reason == HVD_ERR_MISMATCH ? HVD_ERR_MISMATCH
                                                   : HVD_PEER_LOST;
    struct frame goodbye = {
        .type = FRAME_ABORT,
        .count = (uint64_t)(int64_t)told,
        .root = comm->n_accused > 0 ? comm->accused[0] : -1,
    };

    if (by_name_has_parted(comm))
        return end_parted(comm);
    spread(comm, reason, text);
    local_leave(comm->local);
    comm_tear_down(comm, &goodbye, text);
    on_device_cancel(comm); /* the others hear why before their NCCL does */
    on_device_silence(comm);
    return comm_check(comm);
}

static void leave(struct comm *comm, enum comm_leave_kind kind,
                  uint64_t boundary)
{
    struct frame goodbye = {.type = FRAME_LEAVE, .value = boundary};

    switch (kind) {
    case COMM_LEAVE_ABORT:
        (void)comm_end(comm);
        return;
    case COMM_LEAVE_BOUNDARY:
        goodbye.kind = FRAME_LEAVE_BOUNDARY;
        comm_tear_down(comm, &goodbye, "");
        (void)comm_fail(comm, HVD_PEER_LOST, "rank %d left at boundary %llu",
                        comm->config.rank, (unsigned long long)boundary);
        if (comm->by_name == NULL) /* else the others may not be through */
            on_device_silence(comm);
        return;
    case COMM_LEAVE_DONE:
        goodbye.kind = FRAME_LEAVE_DONE;
        comm_tear_down(comm, &goodbye, "");
        comm_move(comm, COMM_FINISHED);
        return;
    }
}

static hvd_status_t meet(struct comm *comm)
{
    struct collective_args barrier = {.kind = COLLECTIVE_BARRIER,
                                      .dtype = HVD_UINT8};

    return comm_run(comm, &barrier);
}

static bool uses_nccl(const struct comm *comm)
{
    return comm != NULL && comm->device.way == ON_DEVICE_NCCL;
}

/* A rank whose part of a collective of NCCL is over may have bytes on their way
 * to others, which NCCL drops when it is told to leave. Calls by name have been
 * left, and their ranks are these. */
static void let_others_finish(struct comm *comm)
{
    bool meets = uses_nccl(comm) || uses_nccl(atomic_load(&comm->names));

    if (meets && comm->by_name == NULL && meet(comm) != HVD_OK)
        log_debug("%s", error_text()); /* it has ended by a loss */
    by_name_silence(comm);
}

/* It may have no other reason than that this rank goes. */
static void abort_own(struct comm *comm)
{
    const char *text;
    hvd_status_t reason = comm_fail(comm, HVD_PEER_LOST, "rank %d has left",
                                    comm->config.rank);

    (void)comm_status(comm, &text);
    spread(comm, reason, text);
}

void comm_leave(struct comm *comm, enum comm_leave_kind kind, uint64_t boundary)
{
    if (kind == COMM_LEAVE_ABORT)
        abort_own(comm);
    process_sets_close(comm, kind);
    by_name_leave(comm, kind, boundary);
    if (kind == COMM_LEAVE_BOUNDARY)
        let_others_finish(comm);
    process_sets_leave(comm, kind, boundary);
    progress_take(comm);
    by_name_accuse(comm);
    process_sets_accuse(comm);
    if (kind != COMM_LEAVE_ABORT)
        progress_run(comm); /* the others count on it */
    leave(comm, kind, boundary);
    progress_run(comm); /* without waiting: the comm is gone */
    progress_give(comm);
}

/* --- small --- */

void comm_set_boundary(struct comm *comm, uint64_t boundary)
{
    atomic_store_explicit(&comm->boundary, boundary, memory_order_relaxed);
}

uint64_t comm_generation(const struct comm *comm)
{
    return comm->config.generation;
}

uint64_t comm_operations(const struct comm *comm)
{
    return atomic_load_explicit(&comm->operations, memory_order_relaxed);
}

uint64_t comm_called(const struct comm *comm)
{
    return atomic_load_explicit(&comm->sequence, memory_order_relaxed);
}

uint64_t comm_moves(struct comm *comm)
{
    const struct comm *names = atomic_load(&comm->names);
    uint64_t n = atomic_load_explicit(&comm->moves, memory_order_relaxed);

    if (names != NULL)
        n += atomic_load_explicit(&names->moves, memory_order_relaxed);
    return n + process_sets_moves(comm);
}

/* --- collectives --- */

hvd_status_t comm_admit(struct comm *comm)
{
    hvd_status_t status;

    if (comm_life(comm) == COMM_FINISHED)
        return error_set(HVD_ERR_STATE, "this rank has finished");
    if (comm_status(comm, NULL) == HVD_OK)
        return HVD_OK;
    progress_take(comm);
    status = comm_end(comm);
    progress_give(comm);
    return status;
}

/* Its one writer counts: no locked instruction. Returns what it was. */
static uint64_t add(atomic_uint_least64_t *counter, uint64_t n)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, before + n, memory_order_relaxed);
    return before;
}

void comm_count(struct comm *comm)
{
    add(&comm->operations, 1);
}

void comm_move_on(struct comm *comm)
{
    add(&comm->moves, 1);
}

uint64_t comm_number(struct comm *comm, size_t n)
{
    return add(&comm->sequence, n) + 1;
}

hvd_status_t comm_begin_device(struct comm *comm, const struct call *call)
{
    comm->history[call->head.sequence % COMM_HISTORY] = call->head;
    comm->history[call->head.sequence % COMM_HISTORY].algorithm =
        FRAME_ON_DEVICE;
    operation_prepare_device(comm, call);
    comm->op.begun_ns = timeline_call_clock();
    return engine_start(comm);
}

hvd_status_t comm_begin(struct comm *comm, const struct collective_args *args,
                        const struct call *call)
{
    comm->history[call->head.sequence % COMM_HISTORY] = call->head;
    if (comm->config.size == 1)
        return operation_alone(comm, args, call);
    if (call->nothing)
        return HVD_OK;
    if (operation_begin(comm, args, call) == HVD_OK) {
        /* copies between own buffers come before, but for those that
         * local/run.c does while it waits */
        comm->op.begun_ns = timeline_call_clock();
        return engine_start(comm);
    }
    /* the others have begun: this rank cannot go back */
    (void)comm_fail(comm, HVD_ERR_NOMEM, "%s", error_text());
    return comm_end(comm);
}

static void show_phases(const struct comm *comm,
                        const struct collective_args *args,
                        const struct call *call)
{
    struct timeline_call shown = operation_shown(args, call->elem_nbytes);

    operation_show(comm, &shown);
}

static hvd_status_t run(struct comm *comm, const struct collective_args *args,
                        const struct call *call)
{
    HVD_TRY(comm_begin(comm, args, call));
    if (comm->op.active) {
        HVD_TRY(engine_continue(comm));
        HVD_TRY(operation_finish(comm));
        if (comm->op.begun_ns != 0)
            show_phases(comm, args, call);
    }
    comm_count(comm);
    return HVD_OK;
}

/* A program mostly repeats itself: the same call is not checked again. (Counts
 * and displacements are the caller's, who may have changed them.) */
static hvd_status_t check(struct comm *comm, const struct collective_args *args)
{
    struct call *call = &comm->last_call;

    if (comm->has_last && memcmp(args, &comm->last_args, sizeof(*args)) == 0) {
        call->repeats = call->head.sequence;
        return HVD_OK;
    }
    HVD_TRY(call_check(args, comm->config.rank, comm->config.size, call));
    comm->last_args = *args;
    comm->has_last = !kind_is_varied(kind_of((int)args->kind));
    return HVD_OK;
}

hvd_status_t comm_run(struct comm *comm, const struct collective_args *args)
{
    const struct call *call = &comm->last_call;
    hvd_status_t status;

    if (__builtin_expect(is_on_device(args) || args->op == HVD_ADASUM, 0))
        return comm_run_request(comm, args);
    HVD_TRY(comm_admit(comm));
    HVD_TRY(check(comm, args));
    comm->last_call.head.sequence = comm_number(comm, 1);
    if (comm->progress == NULL)
        return run(comm, args, call);
    progress_take(comm);
    progress_run(comm);
    status = comm_status(comm, NULL) == HVD_OK ? run(comm, args, call)
                                               : comm_end(comm);
    progress_give(comm);
    return status;
}

hvd_status_t comm_confirm(struct comm *comm)
{
    HVD_TRY(comm_drain(comm));
    return meet(comm);
}
