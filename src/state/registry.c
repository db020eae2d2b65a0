/* state/registry.c - what the user registered: entries, callbacks and the
 * layout they amount to. Copies nothing (snapshot.c) and sends nothing
 * (sync.c).
 *
 * Memory: the arrays and the names; registered memory stays the user's.
 * Threads: the training thread. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "state/device_entries.h"
#include "state/internal.h"

enum { INDEX_MIN = 64 };

static const char *const kind_names[] = {
    [ENTRY_SHARED] = "shared", [ENTRY_LOCAL] = "local",
    [ENTRY_OBJECT] = "object", [ENTRY_SAMPLER] = "sampler",
    [ENTRY_DEVICE] = "shared",
};

/* Where it lies is its worker's own affair: it is the same entry. */
static enum entry_kind layout_kind(const struct entry *entry)
{
    return entry->kind == ENTRY_DEVICE ? ENTRY_SHARED : entry->kind;
}

hvd_status_t hvd_state_create(hvd_state_t **state_p)
{
    if (!state_p)
        return error_set(HVD_ERR_INVALID, "hvd_state_create: state_p is NULL");
    *state_p = calloc(1, sizeof(**state_p));
    if (!*state_p)
        return error_set(HVD_ERR_NOMEM, "hvd_state_create: out of memory");
    (*state_p)->current = SNAPSHOT_NONE;
    return HVD_OK;
}

void hvd_state_destroy(hvd_state_t *state)
{
    if (!state)
        return;
    HVD_ASSERT(!state->in_call);
    for (size_t i = 0; i < state->n_entries; i++)
        free(state->entries[i].name);
    free(state->entries);
    free(state->index);
    free(state->sizes);
    free(state->on_commit.items);
    free(state->on_restore.items);
    free(state->on_sync.items);
    free(state->on_reset);
    snapshot_fini(state, &state->snapshots[0]);
    snapshot_fini(state, &state->snapshots[1]);
    device_entries_release(state);
    free(state);
}

/* The layout digest is a chain over the entries, so that adding one is O(1). */
static void layout_extend(uint8_t *digest, const struct entry *entry)
{
    uint8_t buf[STATE_DIGEST_NBYTES + 1 + ENTRY_NAME_MAX];
    size_t name_nbytes = strlen(entry->name);
    XXH128_canonical_t canonical;

    memcpy(buf, digest, STATE_DIGEST_NBYTES);
    buf[STATE_DIGEST_NBYTES] = (uint8_t)layout_kind(entry);
    memcpy(buf + STATE_DIGEST_NBYTES + 1, entry->name, name_nbytes);
    XXH128_canonicalFromHash(
        &canonical, XXH3_128bits(buf, STATE_DIGEST_NBYTES + 1 + name_nbytes));
    memcpy(digest, canonical.digest, STATE_DIGEST_NBYTES);
}

/* --- entries by name: open addressing, at most half full --- */

static size_t slot_of(const hvd_state_t *state, const char *name)
{
    return (size_t)XXH3_64bits(name, strlen(name)) & (state->n_index - 1);
}

static void enter(hvd_state_t *state, size_t i)
{
    size_t slot = slot_of(state, state->entries[i].name);

    while (state->index[slot] != 0)
        slot = (slot + 1) & (state->n_index - 1);
    state->index[slot] = i + 1;
}

/* None of the entries is a removed one. */
static void enter_all(hvd_state_t *state)
{
    for (size_t slot = 0; slot < state->n_index; slot++)
        state->index[slot] = 0;
    for (size_t i = 0; i < state->n_entries; i++)
        enter(state, i);
}

void state_settle(hvd_state_t *state)
{
    size_t n = 0;

    if (state->n_removed == 0)
        return;
    memset(state->layout, 0, sizeof(state->layout));
    for (size_t i = 0; i < state->n_entries; i++) {
        if (!state->entries[i].name)
            continue;
        state->entries[n] = state->entries[i];
        layout_extend(state->layout, &state->entries[n++]);
    }
    state->n_entries = n;
    state->n_removed = 0;
    enter_all(state);
}

/* One more entry. Removed ones make room first where they are many, so that a
 * program that adds and removes without a commit does not grow. false: no
 * memory. */
static bool make_room(hvd_state_t *state)
{
    size_t want = state->n_index > 0 ? 2 * state->n_index : INDEX_MIN;

    if (state->n_removed > state->n_entries / 2)
        state_settle(state);
    if (!array_reserve(&state->entries, &state->entries_max,
                       state->n_entries + 1))
        return false;
    if (2 * (state->n_entries + 1) <= state->n_index)
        return true;
    if (!array_reserve(&state->index, &state->index_max, want))
        return false;
    state->n_index = want;
    state_settle(state);
    enter_all(state);
    return true;
}

static struct entry *find(const hvd_state_t *state, const char *name)
{
    size_t slot = state->n_index > 0 ? slot_of(state, name) : 0;

    while (state->n_index > 0 && state->index[slot] != 0) {
        struct entry *entry = &state->entries[state->index[slot] - 1];

        if (entry->name && strcmp(entry->name, name) == 0)
            return entry;
        slot = (slot + 1) & (state->n_index - 1);
    }
    return NULL;
}

static hvd_status_t check_change(const hvd_state_t *state, const char *name)
{
    if (!state || !name)
        return error_set(HVD_ERR_INVALID, "NULL %s", state ? "name" : "state");
    if (state->frozen)
        return error_set(HVD_ERR_STATE,
                         "entry '%s': not while the state is copied", name);
    return HVD_OK;
}

static hvd_status_t add(hvd_state_t *state, const char *name,
                        const struct entry *like)
{
    struct entry *entry;
    size_t length;
    char *copy;

    HVD_TRY(check_change(state, name));
    length = strlen(name);
    if (length == 0 || length > ENTRY_NAME_MAX)
        return error_set(HVD_ERR_INVALID, "entry name of %zu bytes: 1 to %d",
                         length, ENTRY_NAME_MAX);
    if (find(state, name))
        return error_set(HVD_ERR_INVALID, "entry '%s' exists already", name);
    if (!make_room(state))
        return error_set(HVD_ERR_NOMEM, "entry '%s': out of memory", name);
    copy = strdup(name);
    if (!copy)
        return error_set(HVD_ERR_NOMEM, "entry '%s': out of memory", name);
    entry = &state->entries[state->n_entries];
    *entry = *like;
    entry->name = copy;
    enter(state, state->n_entries++);
    entry->serial = state->next_serial++;
    state->n_device += entry->kind == ENTRY_DEVICE;
    layout_extend(state->layout, entry);
    return HVD_OK;
}

static hvd_status_t add_memory(hvd_state_t *state, const char *name, void *ptr,
                               size_t nbytes, enum entry_kind kind)
{
    struct entry entry = {.kind = kind, .ptr = ptr, .nbytes = nbytes};

    if (!ptr)
        return error_set(HVD_ERR_INVALID, "entry '%s': ptr is NULL",
                         name ? name : "");
    return add(state, name, &entry);
}

hvd_status_t hvd_state_add(hvd_state_t *state, const char *name, void *ptr,
                           size_t nbytes)
{
    return add_memory(state, name, ptr, nbytes, ENTRY_SHARED);
}

hvd_status_t hvd_state_add_local(hvd_state_t *state, const char *name,
                                 void *ptr, size_t nbytes)
{
    return add_memory(state, name, ptr, nbytes, ENTRY_LOCAL);
}

static hvd_status_t check_on_device(const char *name, const void *ptr,
                                    size_t nbytes)
{
    bool device = nbytes == 0 && ptr;

    if (nbytes > 0)
        HVD_TRY(error_prefix(device_look(ptr, &device), "entry '%s'", name));
    if (!device)
        return error_set(HVD_ERR_INVALID,
                         "entry '%s': %p is no memory of a device", name, ptr);
    return HVD_OK;
}

hvd_status_t hvd_state_add_device(hvd_state_t *state, const char *name,
                                  void *ptr, size_t nbytes, void *stream)
{
    struct entry entry = {
        .kind = ENTRY_DEVICE, .ptr = ptr, .nbytes = nbytes, .stream = stream};

    HVD_TRY(check_change(state, name));
    HVD_TRY(check_on_device(name, ptr, nbytes));
    return add(state, name, &entry);
}

hvd_status_t hvd_state_add_object(hvd_state_t *state, const char *name,
                                  const hvd_state_object_ops_t *ops, void *arg)
{
    struct entry entry = {.kind = ENTRY_OBJECT, .arg = arg};

    if (ops)
        HVD_TRY(error_prefix(
            struct_adopt(&entry.ops, sizeof(entry.ops), ops, ops->struct_size),
            "object '%s': ops", name ? name : ""));
    if (!entry.ops.size || !entry.ops.serialize || !entry.ops.deserialize)
        return error_set(HVD_ERR_INVALID, "object '%s': incomplete ops",
                         name ? name : "");
    return add(state, name, &entry);
}

hvd_status_t hvd_state_add_sampler(hvd_state_t *state, const char *name,
                                   hvd_sampler_t *sampler)
{
    struct entry entry = {.kind = ENTRY_SAMPLER, .sampler = sampler};

    if (!sampler)
        return error_set(HVD_ERR_INVALID, "sampler '%s' is NULL",
                         name ? name : "");
    return add(state, name, &entry);
}

hvd_status_t hvd_state_rebind(hvd_state_t *state, const char *name, void *ptr,
                              size_t nbytes)
{
    struct entry *entry;

    HVD_TRY(check_change(state, name));
    entry = find(state, name);
    if (!entry)
        return error_set(HVD_ERR_INVALID, "no entry '%s'", name);
    if (entry->kind == ENTRY_OBJECT || entry->kind == ENTRY_SAMPLER)
        return error_set(HVD_ERR_INVALID, "entry '%s' is a %s: has no memory",
                         name, kind_names[entry->kind]);
    if (!ptr)
        return error_set(HVD_ERR_INVALID, "entry '%s': ptr is NULL", name);
    if (entry->kind == ENTRY_DEVICE)
        HVD_TRY(check_on_device(name, ptr, nbytes));
    entry->ptr = ptr;
    entry->nbytes = nbytes;
    return HVD_OK;
}

hvd_status_t hvd_state_remove(hvd_state_t *state, const char *name)
{
    struct entry *entry;

    HVD_TRY(check_change(state, name));
    entry = find(state, name);
    if (!entry)
        return error_set(HVD_ERR_INVALID, "no entry '%s'", name);
    free(entry->name);
    entry->name = NULL;
    state->n_removed++;
    state->n_device -= entry->kind == ENTRY_DEVICE;
    return HVD_OK;
}

bool state_is_on_device(const hvd_state_t *state)
{
    return state->n_device > 0;
}

static hvd_status_t add_callback(struct callbacks *list, hvd_state_fn function,
                                 void *arg)
{
    if (!function)
        return error_set(HVD_ERR_INVALID, "callback is NULL");
    if (!array_reserve(&list->items, &list->max, list->n + 1))
        return error_set(HVD_ERR_NOMEM, "callback: out of memory");
    list->items[list->n++] = (struct callback){function, arg};
    return HVD_OK;
}

#define CALLBACK_ADDER(name)                                                 \
    hvd_status_t hvd_state_##name(hvd_state_t *state, hvd_state_fn callback, \
                                  void *arg)                                 \
    {                                                                        \
        if (!state)                                                          \
            return error_set(HVD_ERR_INVALID, "hvd_state_" #name ": NULL");  \
        return add_callback(&state->name, callback, arg);                    \
    }

CALLBACK_ADDER(on_commit)
CALLBACK_ADDER(on_restore)
CALLBACK_ADDER(on_sync)

hvd_status_t hvd_state_on_reset(hvd_state_t *state, hvd_reset_fn callback,
                                void *arg)
{
    if (!state || !callback)
        return error_set(HVD_ERR_INVALID, "hvd_state_on_reset: NULL");
    if (!array_reserve(&state->on_reset, &state->reset_max, state->n_reset + 1))
        return error_set(HVD_ERR_NOMEM, "callback: out of memory");
    state->on_reset[state->n_reset++] = (struct reset_callback){callback, arg};
    return HVD_OK;
}

void state_reset(hvd_state_t *state, const hvd_reset_info_t *info)
{
    state_settle(state);
    /* a rank that was not restored (a change of hosts) may have read ahead */
    for (size_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].kind == ENTRY_SAMPLER)
            sampler_rewind(state->entries[i].sampler);
    for (size_t i = 0; i < state->n_reset; i++)
        state->on_reset[i].function(info, state->on_reset[i].arg);
}

hvd_status_t callback_failed(hvd_status_t status, const char *what,
                             const char *name)
{
    const char *quote = name ? "'" : "";
    bool users = status <= HVD_USER_STATUS_MAX;
    hvd_status_t as = users || status == HVD_PEER_LOST ? status
                                                       : HVD_ERR_CALLBACK;

    if (!users && error_text()[0] != '\0') { /* a call of ours in it */
        (void)error_prefix(status, "%s %s%s%s", what, quote,
                           name ? name : "callback", quote);
        return as;
    }
    return error_set(as, "%s %s%s%s returned %d (%s)", what, quote,
                     name ? name : "callback", quote, (int)status,
                     hvd_strerror(status));
}

hvd_status_t callbacks_run(const struct callbacks *list, const char *what)
{
    for (size_t i = 0; i < list->n; i++) {
        hvd_status_t status;

        error_clear();
        status = list->items[i].function(list->items[i].arg);
        if (status != HVD_OK)
            return callback_failed(status, what, NULL);
    }
    return HVD_OK;
}

static void layout_text(const hvd_state_t *state, char *text, size_t max)
{
    struct text t = text_into(text, max);
    bool whole = true;

    HVD_ASSERT(max >= sizeof("..."));
    for (size_t i = 0; i < state->n_entries && whole; i++) {
        const struct entry *entry = &state->entries[i];

        whole = t.n + strlen(entry->name) + sizeof(",  sampler") < max;
        text_add(&t, i > 0 ? ", " : "");
        text_add(&t, entry->name);
        text_add(&t, " ");
        text_add(&t, kind_names[entry->kind]);
    }
    if (!whole)
        memcpy(text + (t.n < max - 4 ? t.n : max - 4), "...", sizeof("..."));
}

void state_layout(hvd_state_t *state, uint8_t *digest, char *text,
                  size_t text_max)
{
    state_settle(state);
    memcpy(digest, state->layout, STATE_DIGEST_NBYTES);
    if (text_max > 0)
        layout_text(state, text, text_max);
}
