/* collectives/lending.c - see lending.h. Pieces have sizes of four classes for
 * each power of two, and those that nobody has are listed by class: whichever
 * call is large in this step, it finds the piece of the one before. */
#include "collectives/lending.h"

#include <pthread.h>
#include <stdlib.h>

#include <hvd/collectives.h>

#include "base/error.h"
#include "base/log.h"
#include "device/device.h"

enum { UNIT_BITS = 12, CLASSES = 4 * (62 - UNIT_BITS), WINDOW = 1024 };

/* Under the lock. */
struct lender {
    struct lent *kept[CLASSES];
    size_t n_taken;                    /* pieces */
    size_t taken_nbytes, total_nbytes; /* total: and those kept */
    /* the most that was taken, in this window and the one before; a window is
     * longer than a few steps of a program */
    size_t most_nbytes, before_nbytes, most_n, n_takes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lender lenders[LENDING_USES];

/* --- sizes --- */

static size_t nbytes_of(unsigned size)
{
    return (size_t)(4 + size % 4) << (size / 4 + UNIT_BITS - 2);
}

/* CLASSES: there is none so large. */
static unsigned class_of(size_t nbytes)
{
    unsigned size = 0;

    while (size < CLASSES - 4 && nbytes_of(size) < nbytes)
        size += 4;
    while (size > 0 && nbytes_of(size - 1) >= nbytes)
        size--;
    return nbytes_of(size) >= nbytes ? size : CLASSES;
}

/* --- pieces --- */

static void destroy(struct lent *lent)
{
    if (lent->pinned)
        device_unpin(lent->memory);
    hvd_free(lent->memory);
    free(lent);
}

static void destroy_all(struct lent *lent)
{
    struct lent *next;

    for (; lent != NULL; lent = next) {
        next = lent->next;
        destroy(lent);
    }
}

/* Pinned, or a copy would keep the thread of the device. */
static void pin(struct lent *lent)
{
    lent->pinned = device_pin(lent->memory, lent->nbytes) == HVD_OK;
    if (!lent->pinned)
        log_debug("staging memory: %s", error_text());
}

static hvd_status_t create(enum lending_use use, unsigned size,
                           struct lent **lent_p)
{
    struct lent *lent = calloc(1, sizeof(*lent));
    void *memory;

    if (lent == NULL)
        return error_set(HVD_ERR_NOMEM, "memory of a call");
    memory = hvd_alloc(nbytes_of(size));
    if (memory == NULL) {
        free(lent);
        return HVD_ERR_NOMEM;
    }
    *lent = (struct lent){memory, nbytes_of(size), use, false, size, NULL};
    if (use == LENDING_PINNED)
        pin(lent);
    *lent_p = lent;
    return HVD_OK;
}

/* --- what is kept, under the lock --- */

static size_t bound_of(const struct lender *l)
{
    size_t most = l->most_nbytes > l->before_nbytes ? l->most_nbytes
                                                    : l->before_nbytes;

    return most < SIZE_MAX / 2 ? 2 * most : SIZE_MAX;
}

static void count_take(struct lender *l, size_t nbytes)
{
    l->taken_nbytes += nbytes;
    l->n_taken++;
    if (++l->n_takes > WINDOW + 4 * l->most_n) {
        l->before_nbytes = l->most_nbytes;
        l->most_nbytes = l->most_n = l->n_takes = 0;
    }
    if (l->taken_nbytes > l->most_nbytes)
        l->most_nbytes = l->taken_nbytes;
    if (l->n_taken > l->most_n)
        l->most_n = l->n_taken;
}

static void keep(struct lender *l, struct lent *lent)
{
    lent->next = l->kept[lent->size];
    l->kept[lent->size] = lent;
}

static struct lent *unkeep(struct lender *l, unsigned size)
{
    struct lent *lent = l->kept[size];

    if (lent != NULL)
        l->kept[size] = lent->next;
    return lent;
}

/* The largest that are too many. Returns them. */
static struct lent *trim(struct lender *l)
{
    struct lent *all = NULL, *lent;
    unsigned size = CLASSES;

    while (l->total_nbytes > bound_of(l) && size > 0) {
        lent = unkeep(l, size - 1);
        if (lent == NULL) {
            size--;
            continue;
        }
        l->total_nbytes -= lent->nbytes;
        lent->next = all;
        all = lent;
    }
    return all;
}

/* --- the doors --- */

hvd_status_t lending_take(enum lending_use use, size_t nbytes,
                          struct lent **lent_p)
{
    struct lender *l = &lenders[use];
    unsigned size = class_of(nbytes);
    struct lent *lent, *surplus = NULL;

    if (size == CLASSES)
        return error_set(HVD_ERR_NOMEM, "memory of a call");
    pthread_mutex_lock(&lock);
    lent = unkeep(l, size);
    if (lent != NULL)
        count_take(l, lent->nbytes);
    pthread_mutex_unlock(&lock);
    if (lent == NULL) {
        HVD_TRY(create(use, size, &lent));
        pthread_mutex_lock(&lock);
        l->total_nbytes += lent->nbytes;
        count_take(l, lent->nbytes);
        surplus = trim(l);
        pthread_mutex_unlock(&lock);
    }
    destroy_all(surplus);
    *lent_p = lent;
    return HVD_OK;
}

void lending_give(struct lent *lent)
{
    struct lent *surplus = NULL;
    struct lender *l;

    if (lent == NULL)
        return;
    l = &lenders[lent->use];
    pthread_mutex_lock(&lock);
    l->taken_nbytes -= lent->nbytes;
    l->n_taken--;
    keep(l, lent);
    surplus = trim(l);
    pthread_mutex_unlock(&lock);
    destroy_all(surplus);
}

static struct lent *unkeep_all(struct lender *l)
{
    struct lent *all = NULL, *lent;

    for (unsigned size = 0; size < CLASSES; size++)
        while ((lent = unkeep(l, size)) != NULL) {
            l->total_nbytes -= lent->nbytes;
            lent->next = all;
            all = lent;
        }
    return all;
}

void lending_release(void)
{
    for (int use = 0; use < LENDING_USES; use++) {
        struct lent *all;

        pthread_mutex_lock(&lock);
        all = unkeep_all(&lenders[use]);
        pthread_mutex_unlock(&lock);
        destroy_all(all);
    }
}

size_t lending_nbytes(enum lending_use use)
{
    size_t nbytes;

    pthread_mutex_lock(&lock);
    nbytes = lenders[use].total_nbytes;
    pthread_mutex_unlock(&lock);
    return nbytes;
}
