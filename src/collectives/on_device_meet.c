/* collectives/on_device_meet.c - the ranks of a comm agree on how they use
 * their devices, and part from them. See on_device.h.
 *
 *   allgather   each rank's card: its device, its NCCL
 *               all of one version, no device twice (HVD_DEVICE_SHARED: it
 *               may be)? else staged
 *   broadcast   an id, of rank 0: made only now that it is known who takes part
 *               (join the communicator; it has a deadline)
 *   allgather   has it been joined? one that has not: all stage
 *
 * All are calls of this comm on host memory, so a loss ends them as any other.
 *
 * Threads: whoever drives, but for on_device_cancel(); on_device_meet() the
 * issuing one. Memory: of the meeting, until it is over. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/comm_impl.h"
#include "collectives/on_device.h"
#include "collectives/progress.h"

enum { UUID_NBYTES = 16, WHY_MAX = 160, TASK_END_US = 2000000 };

struct card {
    int32_t version; /* of NCCL; 0: it cannot be used */
    uint8_t uuid[UUID_NBYTES];
    uint8_t shares; /* others may have the same one, if they say so too */
};

struct invitation {
    uint8_t id[COMMUNICATOR_ID_NBYTES];
    uint8_t made; /* else: no id can be had */
};

/* In the order in which they are called; behind the last the way is known. */
enum meeting_stage { MEETING_CARDS, MEETING_INVITATION, MEETING_JOINED };

struct on_device_meeting {
    enum meeting_stage stage;
    int version; /* of NCCL */
    struct card card;
    struct invitation invitation;
    uint8_t joined;
    struct card cards[]; /* [size]; then who has joined */
};

/* --- words --- */

/* Of the process: the same is not said in each generation, and of each comm. */
static struct {
    pthread_mutex_t lock;
    char words[WHY_MAX + 64];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say(enum log_level level, const char *words)
{
    bool again;

    pthread_mutex_lock(&said.lock);
    again = strcmp(said.words, words) == 0;
    snprintf(said.words, sizeof(said.words), "%s", words);
    pthread_mutex_unlock(&said.lock);
    if (!again)
        log_write(level, "%s", words);
}

static void say_staged(const char *why)
{
    char words[sizeof(said.words)];

    snprintf(words, sizeof(words),
             "%s -> buffers of devices are staged through host memory", why);
    say(LOG_LEVEL_WARN, words);
}

static void say_nccl(int version)
{
    char words[sizeof(said.words)];

    snprintf(words, sizeof(words), "buffers of devices travel by NCCL %d.%d.%d",
             version / 10000, version / 100 % 100, version % 100);
    say(LOG_LEVEL_INFO, words);
}

/* --- cards --- */

static void fill_card(const struct comm *comm, struct card *card)
{
    int version = 0;

    memset(card, 0, sizeof(*card));
    device_uuid(card->uuid);
    card->shares = comm->config.share_device;
    if (communicator_version(&version) == HVD_OK)
        card->version = version;
    else
        log_info("%s", error_text());
}

static bool in_the_way(const struct card *a, const struct card *b)
{
    return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
           !(a->shares && b->shares);
}

/* Can all of them? The same on every rank; why not: why [WHY_MAX]. */
static bool all_can(const struct card *cards, int size, char *why)
{
    for (int i = 0; i < size; i++) {
        int k = i + 1;

        if (cards[i].version == 0) {
            snprintf(why, WHY_MAX, "rank %d has no NCCL that can be used", i);
            return false;
        }
        if (cards[i].version != cards[0].version) {
            snprintf(why, WHY_MAX, "rank 0 has NCCL %d, rank %d has %d",
                     cards[0].version, i, cards[i].version);
            return false;
        }
        while (k < size && !in_the_way(&cards[i], &cards[k]))
            k++;
        if (k < size) {
            snprintf(why, WHY_MAX, "ranks %d and %d use one device", i, k);
            return false;
        }
    }
    return true;
}

/* --- the communicator --- */

static void write_invitation(struct invitation *invitation)
{
    memset(invitation, 0, sizeof(*invitation));
    invitation->made = communicator_id(invitation->id) == HVD_OK;
    if (!invitation->made)
        log_info("%s", error_text());
}

static hvd_status_t join(struct comm *comm, const struct invitation *invitation)
{
    struct communicator_config config = {.rank = comm->config.rank,
                                         .size = comm->config.size,
                                         .generation = comm->config.generation,
                                         .join_us = comm->config.device_join_us,
                                         .doorbell = comm->device.doorbell};
    struct communicator *c;

    memcpy(config.id, invitation->id, sizeof(config.id));
    HVD_TRY(communicator_create(&config, &c));
    atomic_store(&comm->device.communicator, c);
    /* an abort that has looked for it before */
    if (comm_status(comm, NULL) != HVD_OK)
        communicator_cancel(c);
    return communicator_await(c, &comm->verdict);
}

/* --- one collective after the other --- */

static struct collective_args gather(const void *mine, void *all, size_t nbytes)
{
    return (struct collective_args){.kind = COLLECTIVE_ALLGATHER,
                                    .sendbuf = mine,
                                    .recvbuf = all,
                                    .count = nbytes,
                                    .dtype = HVD_UINT8,
                                    .name = "devices"};
}

static struct collective_args spread(void *bytes, size_t nbytes)
{
    return (struct collective_args){.kind = COLLECTIVE_BROADCAST,
                                    .sendbuf = bytes,
                                    .recvbuf = bytes,
                                    .count = nbytes,
                                    .dtype = HVD_UINT8,
                                    .name = "devices"};
}

static hvd_status_t begin(struct comm *comm, struct collective_args *args_p)
{
    size_t size = (size_t)comm->config.size;
    struct on_device_meeting *m = malloc(sizeof(*m) +
                                         size * sizeof(m->cards[0]));

    if (m == NULL)
        return error_set(HVD_ERR_NOMEM, "%zu ranks", size);
    comm->device.meeting = m;
    m->stage = MEETING_CARDS;
    fill_card(comm, &m->card);
    *args_p = gather(&m->card, m->cards, sizeof(m->card));
    return HVD_OK;
}

static void stage_all(struct comm *comm, const char *why)
{
    say_staged(why);
    comm->device.way = ON_DEVICE_STAGED;
    on_device_cancel(comm);
}

static hvd_status_t invite(struct comm *comm, struct collective_args *args_p)
{
    struct on_device_meeting *m = comm->device.meeting;
    char why[WHY_MAX];

    if (!all_can(m->cards, comm->config.size, why)) {
        stage_all(comm, why);
        return HVD_OK;
    }
    m->version = m->cards[0].version;
    m->stage = MEETING_INVITATION;
    if (comm->config.rank == 0)
        write_invitation(&m->invitation);
    *args_p = spread(&m->invitation, sizeof(m->invitation));
    return HVD_OK;
}

static const char cannot[] = "a communicator of NCCL cannot be made";

/* Cards have been read: what is gathered lies where they were. */
static hvd_status_t join_invited(struct comm *comm,
                                 struct collective_args *args_p)
{
    struct on_device_meeting *m = comm->device.meeting;
    hvd_status_t status;

    if (!m->invitation.made) {
        stage_all(comm, cannot);
        return HVD_OK;
    }
    status = join(comm, &m->invitation);
    HVD_TRY(comm_check(comm));
    if (status == HVD_ERR_SYSTEM || status == HVD_ERR_NOMEM)
        return status;
    if (status != HVD_OK)
        log_info("%s", error_text());
    m->joined = status == HVD_OK;
    m->stage = MEETING_JOINED;
    *args_p = gather(&m->joined, m->cards, sizeof(m->joined));
    return HVD_OK;
}

static void decide(struct comm *comm)
{
    const struct on_device_meeting *m = comm->device.meeting;

    if (memchr(m->cards, 0, (size_t)comm->config.size) != NULL) {
        stage_all(comm, cannot);
        return;
    }
    comm->device.way = ON_DEVICE_NCCL;
    say_nccl(m->version);
}

static hvd_status_t open_comm(struct comm *comm)
{
    HVD_TRY(device_open());
    comm->device.task = calloc(1, sizeof(*comm->device.task));
    if (comm->device.task == NULL)
        return error_set(HVD_ERR_NOMEM, "a task of the device");
    comm->device.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (comm->device.doorbell < 0) {
        free(comm->device.task);
        return error_errno("the doorbell of a device");
    }
    comm->device.opened = true;
    return HVD_OK;
}

hvd_status_t on_device_open(struct comm *comm)
{
    return comm->device.opened ? HVD_OK : open_comm(comm);
}

static hvd_status_t go_on(struct comm *comm, struct collective_args *args_p)
{
    const struct on_device_meeting *m = comm->device.meeting;

    if (m == NULL) {
        HVD_TRY(on_device_open(comm));
        if (comm->config.size > 1)
            return begin(comm, args_p);
        comm->device.way = ON_DEVICE_ALONE;
        return HVD_OK;
    }
    if (m->stage == MEETING_CARDS)
        return invite(comm, args_p);
    if (m->stage == MEETING_INVITATION)
        return join_invited(comm, args_p);
    decide(comm);
    return HVD_OK;
}

hvd_status_t on_device_meet_next(struct comm *comm,
                                 struct collective_args *args_p)
{
    hvd_status_t status = go_on(comm, args_p);

    if (status == HVD_OK && comm->device.way == ON_DEVICE_NOT)
        return HVD_OK;
    free(comm->device.meeting);
    comm->device.meeting = NULL;
    if (status == HVD_OK)
        return HVD_OK;
    /* the others have begun: this rank cannot go back */
    (void)comm_fail(comm, status, "%s", error_text());
    return comm_end(comm);
}

static hvd_status_t next(struct comm *comm, struct collective_args *args_p)
{
    hvd_status_t status;

    progress_take(comm);
    status = on_device_meet_next(comm, args_p);
    progress_give(comm);
    return status;
}

hvd_status_t on_device_meet(struct comm *comm)
{
    struct collective_args args;

    while (comm->device.way == ON_DEVICE_NOT) {
        HVD_TRY(next(comm, &args));
        if (comm->device.way == ON_DEVICE_NOT)
            HVD_TRY(error_prefix(comm_run(comm, &args),
                                 "the first collective on devices"));
    }
    return HVD_OK;
}

/* --- the end --- */

hvd_status_t on_device_confirm(struct comm *comm)
{
    /* calls by name may have parted: what was queued before that counts */
    struct verdict *verdict = comm->by_name != NULL
                                  ? &comm->family.world->verdict
                                  : &comm->verdict;
    hvd_status_t status;

    if (comm->device.way != ON_DEVICE_NCCL)
        return HVD_OK;
    status = communicator_confirm(atomic_load(&comm->device.communicator),
                                  verdict);
    if (status == HVD_OK)
        return HVD_OK;
    if (comm_status(comm, NULL) == HVD_OK)
        (void)comm_fail(comm, status, "%s", error_text());
    return comm_end(comm);
}

void on_device_cancel(struct comm *comm)
{
    struct communicator *c = atomic_load(&comm->device.communicator);

    if (c != NULL)
        communicator_cancel(c);
}

/* A task is over soon after its communicator is quiet. */
static bool task_ends(const struct device_task *task)
{
    const struct timespec pause = {.tv_nsec = 100000};
    uint64_t deadline_us = clock_now_us() + TASK_END_US;

    while (!device_task_free(task) && clock_now_us() < deadline_us)
        nanosleep(&pause, NULL);
    return device_task_free(task);
}

void on_device_silence(struct comm *comm)
{
    struct communicator *c = atomic_load(&comm->device.communicator);

    if (c == NULL || comm->device.parted)
        return;
    comm->device.parted = true;
    communicator_cancel(c);
    if (comm->device.way != ON_DEVICE_NCCL)
        return; /* no buffer of a call was ever given to it */
    if (!communicator_silence(c) || !task_ends(comm->device.task)) {
        (void)device_give_up("it does not come back from a collective");
        log_error("%s: buffers may still be written", error_text());
    }
}

void on_device_release(struct comm *comm)
{
    free(comm->device.meeting);
    if (!comm->device.opened)
        return;
    communicator_release(atomic_load(&comm->device.communicator));
    if (!device_task_free(comm->device.task))
        return; /* it, and its doorbell, may be wanted yet */
    free(comm->device.task);
    close(comm->device.doorbell);
}
