/* state/device_entries.c - see device_entries.h. */
#include "state/device_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/round.h"

enum {
    PIECE_NBYTES =
        64 << 20 /* of a large entry: heartbeats tell that it moves */
};

/* --- copies --- */

static size_t n_pieces(size_t nbytes)
{
    return nbytes / PIECE_NBYTES + (nbytes % PIECE_NBYTES != 0);
}

static size_t piece_nbytes(size_t nbytes, size_t at)
{
    return nbytes - at < PIECE_NBYTES ? nbytes - at : PIECE_NBYTES;
}

static hvd_status_t reserve(struct transfers *t, size_t n)
{
    HVD_ASSERT(t->n == 0);
    if (!array_reserve(&t->items, &t->max, n))
        return error_set(HVD_ERR_NOMEM, "%zu copies: out of memory", n);
    return HVD_OK;
}

/* Its memory has been reserved: it stays where it is. */
static struct device_task *add(const hvd_state_t *state, struct transfers *t,
                               void *dst, const void *src, size_t nbytes)
{
    struct transfer *transfer = &t->items[t->n++];

    HVD_ASSERT(t->n <= t->max);
    *transfer = (struct transfer){.copy = {dst, src, nbytes}};
    transfer->task.copies = &transfer->copy;
    transfer->task.n_copies = 1;
    transfer->task.doorbell = state->device.doorbell;
    return &transfer->task;
}

/* All of them are over; the first status that is none of success. */
static hvd_status_t await(hvd_state_t *state, struct transfers *t)
{
    hvd_status_t first = HVD_OK;

    for (size_t i = 0; i < t->n; i++) {
        hvd_status_t status = device_await(&t->items[i].task);

        first = first == HVD_OK ? status : first;
        atomic_fetch_add_explicit(&state->moves, 1, memory_order_relaxed);
    }
    t->n = 0;
    return first;
}

hvd_status_t device_entries_await(hvd_state_t *state, struct snapshot *s)
{
    hvd_status_t status = await(state, &s->coming);

    s->torn |= status != HVD_OK;
    if (status == HVD_OK && s->torn)
        return error_set(HVD_ERR_SYSTEM,
                         "the snapshot has not come from the device whole");
    return status;
}

/* --- live -> snapshot --- */

static hvd_status_t open_doorbell(hvd_state_t *state)
{
    int fd;

    if (state->device.opened)
        return HVD_OK;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_errno("eventfd");
    state->device.doorbell = fd;
    state->device.opened = true;
    return HVD_OK;
}

/* Copies to memory that may be paged are slower, and no worse. */
static void pin(struct snapshot *s)
{
    if (s->pinned || s->pin_refused || s->capacity == 0)
        return;
    s->pinned = device_pin(s->bytes, s->capacity) == HVD_OK;
    s->pin_refused = !s->pinned;
    if (s->pin_refused)
        log_warn("commit: %s -> copies from the device are slow", error_text());
}

static size_t lay_out_shadow(struct snapshot *s)
{
    size_t at = 0;

    for (size_t i = 0; i < s->n_records; i++) {
        struct record *record = &s->records[i];

        if (!record->device)
            continue;
        record->shadow_offset = at;
        at += device_entries_room(record->nbytes);
    }
    return at;
}

static hvd_status_t allocate_shadow(struct device_part *d, size_t nbytes)
{
    void *shadow;
    hvd_status_t status = device_alloc(nbytes, &shadow);

    d->refused_nbytes = status == HVD_ERR_NOMEM ? nbytes : 0;
    if (status == HVD_ERR_NOMEM) {
        log_debug(
            "commit: %s -> a step waits until its state is in host memory",
            error_text());
        return HVD_OK;
    }
    HVD_TRY(status);
    d->shadow = shadow;
    d->shadow_nbytes = nbytes;
    return HVD_OK;
}

/* There is one of [nbytes] now, or none at all. */
static hvd_status_t make_shadow(hvd_state_t *state, size_t nbytes)
{
    struct device_part *d = &state->device;

    if (nbytes <= d->shadow_nbytes || nbytes == d->refused_nbytes)
        return HVD_OK;
    for (int i = 0; i < 2; i++) {
        struct snapshot *s = &state->snapshots[i];

        if (device_entries_await(state, s) != HVD_OK)
            log_debug("commit: %s", error_text());
        s->in_shadow = false;
    }
    device_free(d->shadow);
    d->shadow = NULL;
    d->shadow_nbytes = 0;
    return allocate_shadow(d, nbytes);
}

static size_t count_pieces(const struct snapshot *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_records; i++)
        if (s->records[i].device)
            n += n_pieces(s->records[i].nbytes);
    return n;
}

hvd_status_t device_entries_begin_save(hvd_state_t *state,
                                       struct snapshot *spare)
{
    HVD_TRY(device_open());
    HVD_TRY(open_doorbell(state));
    pin(spare);
    HVD_TRY(make_shadow(state, lay_out_shadow(spare)));
    HVD_TRY(reserve(&state->device.calls, count_pieces(spare)));
    HVD_TRY(reserve(&spare->coming, count_pieces(spare)));
    if (state->device.shadow)
        state->snapshots[0].in_shadow = state->snapshots[1].in_shadow = false;
    return HVD_OK;
}

/* Behind what the program has put on the entry's stream, and before what it
 * will put there. */
static hvd_status_t take(hvd_state_t *state, const struct entry *entry,
                         void *dst, size_t at, size_t nbytes)
{
    void *mark;
    struct device_task *task;

    HVD_TRY(error_prefix(device_mark(entry->stream, true, &mark), "entry '%s'",
                         entry->name));
    task = add(state, &state->device.calls, dst,
               (const uint8_t *)entry->ptr + at, nbytes);
    task->after = mark;
    task->stream = entry->stream;
    task->ordered = task->background = true;
    device_post(task);
    return HVD_OK;
}

/* nbytes 0: when all before it is there. */
static void bring(hvd_state_t *state, struct snapshot *spare, void *dst,
                  const void *src, size_t nbytes)
{
    struct device_task *task = add(state, &spare->coming, dst, src, nbytes);

    task->background = true;
    device_post(task);
}

hvd_status_t device_entry_save(hvd_state_t *state, struct snapshot *spare,
                               const struct entry *entry,
                               const struct record *record)
{
    uint8_t *shadow = state->device.shadow;
    uint8_t *to = snapshot_at(spare, record);

    if (shadow && record->nbytes > 0)
        return take(state, entry, shadow + record->shadow_offset, 0,
                    record->nbytes);
    for (size_t at = 0; at < record->nbytes; at += PIECE_NBYTES) {
        HVD_TRY(
            take(state, entry, to + at, at, piece_nbytes(record->nbytes, at)));
        bring(state, spare, NULL, NULL, 0);
    }
    return HVD_OK;
}

static void bring_from_shadow(hvd_state_t *state, struct snapshot *spare)
{
    for (size_t i = 0; i < spare->n_records; i++) {
        const struct record *record = &spare->records[i];
        const uint8_t *from = state->device.shadow;
        uint8_t *to = snapshot_at(spare, record);

        if (!record->device)
            continue;
        from += record->shadow_offset;
        for (size_t at = 0; at < record->nbytes; at += PIECE_NBYTES)
            bring(state, spare, to + at, from + at,
                  piece_nbytes(record->nbytes, at));
    }
}

hvd_status_t device_entries_end_save(hvd_state_t *state, struct snapshot *spare,
                                     hvd_status_t status)
{
    hvd_status_t taken;

    if (status == HVD_OK && state->device.shadow)
        bring_from_shadow(state, spare);
    taken = await(state, &state->device.calls);
    if (status != HVD_OK)
        return status;
    spare->in_shadow = taken == HVD_OK && state->device.shadow != NULL;
    return taken;
}

/* --- from a peer --- */

/* The broadcast is behind a mark on the legacy stream. */
static hvd_status_t try_mark(void)
{
    void *mark;

    HVD_TRY(device_mark(NULL, false, &mark));
    device_unmark(mark);
    return HVD_OK;
}

hvd_status_t device_entries_make_room(hvd_state_t *state, size_t nbytes)
{
    HVD_TRY(device_open());
    HVD_TRY(try_mark());
    HVD_TRY(open_doorbell(state));
    for (int i = 0; i < 2; i++)
        HVD_TRY(device_entries_await(state, &state->snapshots[i]));
    HVD_TRY(make_shadow(state, nbytes));
    if (state->device.shadow == NULL)
        return error_set(HVD_ERR_NOMEM,
                         "the device has no room for a second copy");
    return HVD_OK;
}

void device_entries_begin_receive(hvd_state_t *state)
{
    state->snapshots[0].in_shadow = state->snapshots[1].in_shadow = false;
}

hvd_status_t device_entries_receive(hvd_state_t *state, struct snapshot *spare)
{
    size_t nbytes = lay_out_shadow(spare);

    HVD_ASSERT(nbytes <= state->device.shadow_nbytes);
    pin(spare);
    HVD_TRY(reserve(&spare->coming, count_pieces(spare)));
    bring_from_shadow(state, spare);
    HVD_TRY(device_entries_await(state, spare));
    spare->in_shadow = true;
    return HVD_OK;
}

/* --- snapshot -> live --- */

hvd_status_t device_entries_begin_load(hvd_state_t *state, struct snapshot *s)
{
    HVD_TRY(device_open());
    HVD_TRY(open_doorbell(state));
    if (!s->in_shadow) {
        HVD_TRY(device_entries_await(state, s));
        pin(s);
    }
    return reserve(&state->device.calls, count_pieces(s));
}

/* Behind what the program has put on the entry's stream: it may write there. */
hvd_status_t device_entry_load(hvd_state_t *state, const struct snapshot *s,
                               const struct entry *entry,
                               const struct record *record)
{
    const uint8_t *from = snapshot_at(s, record);
    uint8_t *to = entry->ptr;

    if (s->in_shadow)
        from = (const uint8_t *)state->device.shadow + record->shadow_offset;
    for (size_t at = 0; at < record->nbytes; at += PIECE_NBYTES) {
        void *mark;
        struct device_task *task;

        HVD_TRY(error_prefix(device_mark(entry->stream, false, &mark),
                             "entry '%s'", entry->name));
        task = add(state, &state->device.calls, to + at, from + at,
                   piece_nbytes(record->nbytes, at));
        task->after = mark;
        device_post(task);
    }
    return HVD_OK;
}

hvd_status_t device_entries_end_load(hvd_state_t *state, hvd_status_t status)
{
    hvd_status_t loaded = await(state, &state->device.calls);

    return status != HVD_OK ? status : loaded;
}

/* --- the end --- */

static bool all_over(const struct transfers *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (!device_task_over(&t->items[i].task))
            return false;
    return true;
}

bool device_entries_let_go(hvd_state_t *state, struct snapshot *s)
{
    if (!device_is_open() && !all_over(&s->coming))
        return false; /* its thread was left behind */
    if (device_entries_await(state, s) != HVD_OK)
        log_debug("snapshot: %s", error_text());
    if (s->pinned)
        device_unpin(s->bytes);
    s->pinned = s->pin_refused = false;
    return true;
}

void device_entries_release(hvd_state_t *state)
{
    struct device_part *d = &state->device;

    if (!d->opened)
        return;
    device_free(d->shadow);
    free(d->calls.items);
    close(d->doorbell);
}
