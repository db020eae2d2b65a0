/* elastic/driver/memory.c - the fold of entries. See memory.h. Sorted arrays:
 * ids grow, so that a worker's row is nearly always added at the end. Pure. */
#include "elastic/driver/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void memory_fini(struct memory *m)
{
    array_free(&m->argv, &m->argv_max);
    array_free(&m->env, &m->env_max);
    array_free(&m->environment, &m->environment_max);
    array_free(&m->hosts, &m->hosts_max);
    array_free(&m->slots, &m->slots_max);
    array_free(&m->workers, &m->workers_max);
    memset(m, 0, sizeof(*m));
}

/* ---- rows in order ------------------------------------------------------- */

typedef int (*row_order)(const void *a, const void *b);

static int order_hosts(const void *a, const void *b)
{
    const struct entry_host *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int order_slots(const void *a, const void *b)
{
    const struct entry_slot *x = a, *y = b;
    int order = strcmp(x->host, y->host);

    return order != 0 ? order : (x->slot > y->slot) - (x->slot < y->slot);
}

static int order_workers(const void *a, const void *b)
{
    const struct entry_worker *x = a, *y = b;

    return (x->worker > y->worker) - (x->worker < y->worker);
}

/* First row that is not below *key. */
static size_t lower_bound(const void *rows, size_t n, size_t row_nbytes,
                          const void *key, row_order order)
{
    size_t low = 0, high = n;

    if (n > 0 && order((const char *)rows + (n - 1) * row_nbytes, key) < 0)
        return n; /* ids grow */
    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (order((const char *)rows + mid * row_nbytes, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const void *find(const void *rows, size_t n, size_t row_nbytes,
                        const void *key, row_order order)
{
    size_t i = lower_bound(rows, n, row_nbytes, key, order);
    const void *row = (const char *)rows + i * row_nbytes;

    return i < n && order(row, key) == 0 ? row : NULL;
}

/* There is room for one more. */
static void put(void *rows, size_t *n_p, size_t row_nbytes, const void *row,
                row_order order)
{
    size_t i = lower_bound(rows, *n_p, row_nbytes, row, order);
    char *at = (char *)rows + i * row_nbytes;

    if (i == *n_p || order(at, row) != 0) {
        memmove(at + row_nbytes, at, (*n_p - i) * row_nbytes);
        (*n_p)++;
    }
    memcpy(at, row, row_nbytes);
}

static void drop(void *rows, size_t *n_p, size_t row_nbytes, const void *key,
                 row_order order)
{
    size_t i = lower_bound(rows, *n_p, row_nbytes, key, order);
    char *at = (char *)rows + i * row_nbytes;

    if (i == *n_p || order(at, key) != 0)
        return;
    (*n_p)--;
    memmove(at, at + row_nbytes, (*n_p - i) * row_nbytes);
}

/* ---- folding ------------------------------------------------------------- */

static bool keep(char **bytes_p, size_t *max_p, struct wire_strings *strings)
{
    if (!array_reserve(bytes_p, max_p, strings->nbytes))
        return false;
    if (strings->nbytes > 0)
        memcpy(*bytes_p, strings->data, strings->nbytes);
    strings->data = *bytes_p;
    return true;
}

static bool fold_job(struct memory *m, const struct entry_job *job)
{
    struct entry_job copy = *job;

    if (!keep(&m->argv, &m->argv_max, &copy.argv) ||
        !keep(&m->env, &m->env_max, &copy.env) ||
        !keep(&m->environment, &m->environment_max, &copy.environment))
        return false;
    m->job = copy;
    return true;
}

static bool is_forgotten(const struct entry_host *host)
{
    return !host->listed && host->agent == 0;
}

static bool fold_host(struct memory *m, const struct entry_host *host)
{
    if (is_forgotten(host)) {
        drop(m->hosts, &m->n_hosts, sizeof(*host), host, order_hosts);
        return true;
    }
    if (!array_reserve(&m->hosts, &m->hosts_max, m->n_hosts + 1))
        return false;
    put(m->hosts, &m->n_hosts, sizeof(*host), host, order_hosts);
    return true;
}

static bool fold_slot(struct memory *m, const struct entry_slot *slot)
{
    if (!slot->closed && slot->n_closed == 0 && slot->n_failed == 0) {
        drop(m->slots, &m->n_slots, sizeof(*slot), slot, order_slots);
        return true;
    }
    if (!array_reserve(&m->slots, &m->slots_max, m->n_slots + 1))
        return false;
    put(m->slots, &m->n_slots, sizeof(*slot), slot, order_slots);
    return true;
}

static bool fold_worker(struct memory *m, const struct entry_worker *worker)
{
    if (worker->gone) {
        drop(m->workers, &m->n_workers, sizeof(*worker), worker, order_workers);
        return true;
    }
    if (!array_reserve(&m->workers, &m->workers_max, m->n_workers + 1))
        return false;
    put(m->workers, &m->n_workers, sizeof(*worker), worker, order_workers);
    return true;
}

bool memory_fold(struct memory *m, const struct entry *entry)
{
    switch (entry->type) {
    case ENTRY_JOB:
        return fold_job(m, &entry->u.job);
    case ENTRY_STATE:
        m->state = entry->u.state;
        return true;
    case ENTRY_HOST:
        return fold_host(m, &entry->u.host);
    case ENTRY_SLOT:
        return fold_slot(m, &entry->u.slot);
    case ENTRY_WORKER:
        return fold_worker(m, &entry->u.worker);
    case ENTRY_PLACES:
        m->places = entry->u.places;
        return true;
    case ENTRY_NONE:
        break;
    }
    return true;
}

/* ---- reading ------------------------------------------------------------- */

static void copy_name(char *to, const char *name)
{
    size_t n = strnlen(name, HOSTS_NAME_MAX - 1);

    memcpy(to, name, n);
    to[n] = '\0';
}

const struct entry_host *memory_host(const struct memory *m, const char *name)
{
    struct entry_host key;

    copy_name(key.name, name);
    return find(m->hosts, m->n_hosts, sizeof(key), &key, order_hosts);
}

const struct entry_slot *memory_slot(const struct memory *m, const char *host,
                                     uint32_t slot)
{
    struct entry_slot key = {.slot = slot};

    copy_name(key.host, host);
    return find(m->slots, m->n_slots, sizeof(key), &key, order_slots);
}

const struct entry_worker *memory_worker(const struct memory *m, uint64_t id)
{
    struct entry_worker key = {.worker = id};

    return find(m->workers, m->n_workers, sizeof(key), &key, order_workers);
}

/* The rows that are numbered: those of one array after those of another. */
static bool is_among(size_t *at_p, size_t n)
{
    if (*at_p < n)
        return true;
    *at_p -= n;
    return false;
}

bool memory_entry(const struct memory *m, size_t at, struct entry *entry)
{
    if (is_among(&at, m->job.job != 0)) {
        entry->type = ENTRY_JOB;
        entry->u.job = m->job;
    } else if (is_among(&at, m->state.term != 0)) {
        entry->type = ENTRY_STATE;
        entry->u.state = m->state;
    } else if (is_among(&at, m->places.control[0] != '\0')) {
        entry->type = ENTRY_PLACES;
        entry->u.places = m->places;
    } else if (is_among(&at, m->n_hosts)) {
        entry->type = ENTRY_HOST;
        entry->u.host = m->hosts[at];
    } else if (is_among(&at, m->n_slots)) {
        entry->type = ENTRY_SLOT;
        entry->u.slot = m->slots[at];
    } else if (is_among(&at, m->n_workers)) {
        entry->type = ENTRY_WORKER;
        entry->u.worker = m->workers[at];
    } else {
        return false;
    }
    return true;
}

void memory_move_away(struct memory *m)
{
    for (size_t i = 0; i < m->n_hosts; i++) {
        struct entry_host *host = &m->hosts[i];

        host->sees_dir |= host->pid > 0; /* it was started with it */
        if (host->agent != 0)
            host->pid = ENTRY_FAR;
        host->started = 0;
    }
    for (size_t i = 0; i < m->n_workers; i++)
        m->workers[i].started = 0;
}

bool memory_all_see_dir(const struct memory *m)
{
    for (size_t i = 0; i < m->n_workers; i++) {
        const struct entry_worker *w = &m->workers[i];
        const struct entry_host *host = memory_host(m, w->host);

        if (host && host->agent == w->agent && host->pid == ENTRY_FAR &&
            !host->sees_dir)
            return false;
    }
    return true;
}
