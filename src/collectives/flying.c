/* collectives/flying.c - see flying.h. */
#include "collectives/flying.h"

#include "base/array.h"
#include "collectives/request.h"

enum { BUCKETS_MIN = 64 };

void flying_fini(struct flying *f)
{
    array_free(&f->buckets, &f->buckets_max);
}

static struct hvd_request **bucket_of(const struct flying *f,
                                      const struct name_id *id)
{
    return &f->buckets[id->low & (f->n_buckets - 1)];
}

struct hvd_request *flying_find(const struct flying *f,
                                const struct name_id *id)
{
    struct hvd_request *r = f->n_buckets > 0 ? *bucket_of(f, id) : NULL;

    while (r != NULL && !name_id_equal(&r->id, id))
        r = r->chain;
    return r;
}

static void enter(struct flying *f, struct hvd_request *r)
{
    struct hvd_request **bucket = bucket_of(f, &r->id);

    r->chain = *bucket;
    *bucket = r;
}

/* As many buckets as requests, at least. */
static bool widen(struct flying *f, size_t need)
{
    size_t had = f->n_buckets, want = had > 0 ? 2 * had : BUCKETS_MIN;
    struct hvd_request *all = NULL, *next;

    if (need <= had)
        return true;
    if (!array_reserve(&f->buckets, &f->buckets_max, want))
        return false;
    for (size_t i = 0; i < had; i++)
        for (struct hvd_request *r = f->buckets[i]; r != NULL; r = next) {
            next = r->chain;
            r->chain = all;
            all = r;
        }
    f->n_buckets = want;
    for (size_t i = 0; i < want; i++)
        f->buckets[i] = NULL;
    for (; all != NULL; all = next) {
        next = all->chain;
        enter(f, all);
    }
    return true;
}

bool flying_add(struct flying *f, struct hvd_request *r)
{
    size_t n = flying_count(f) + 1;

    if (!widen(f, n))
        return false;
    enter(f, r);
    atomic_store_explicit(&f->n, n, memory_order_release);
    return true;
}

void flying_remove(struct flying *f, struct hvd_request *r)
{
    struct hvd_request **at = bucket_of(f, &r->id);

    while (*at != r)
        at = &(*at)->chain;
    *at = r->chain;
    atomic_fetch_sub_explicit(&f->n, 1, memory_order_release);
}

struct hvd_request *flying_any(const struct flying *f)
{
    for (size_t i = 0; i < f->n_buckets; i++)
        if (f->buckets[i] != NULL)
            return f->buckets[i];
    return NULL;
}

void flying_visit(const struct flying *f,
                  void (*visit)(const struct hvd_request *r, void *arg),
                  void *arg)
{
    for (size_t i = 0; i < f->n_buckets; i++)
        for (const struct hvd_request *r = f->buckets[i]; r != NULL;
             r = r->chain)
            visit(r, arg);
}
