/* device/communicators.c - those of a device, generation by generation: the
 * first of one is made when no kernel of those before it runs any more, while
 * NCCL still ends their threads, which takes it half a second. Those of one
 * generation, of its world, its calls by name and its communicators, are made
 * and run beside each other. See communicator_impl.h.
 *
 * Memory: frees those that are over and released. One that is abandoned stays:
 * the thread that aborts it is still in NCCL. */
#include <stdlib.h>

#include "base/clock.h"
#include "device/communicator_impl.h"

enum {
    ENDING_MAX = 4,    /* generations beside the next one: NCCL does not end
                          them at all */
    WAIT_US = 6000000, /* for them, as long as NCCL may take */
    PART_US = 500      /* between looks at a thread that ends */
};

void communicators_append(struct device *d, struct communicator *c)
{
    struct communicator **end = &d->communicators;

    pthread_mutex_lock(&d->lock);
    while (*end != NULL)
        end = &(*end)->next;
    *end = c;
    pthread_mutex_unlock(&d->lock);
    device_kick(d);
}

size_t communicators_free_nbytes(const struct device *d)
{
    size_t n_free = 0, total = 0;

    (void)d->cuda->cuMemGetInfo_v2(&n_free, &total);
    return n_free;
}

/* Owners append to them meanwhile. */
static struct communicator *first_of(struct device *d)
{
    struct communicator *c;

    pthread_mutex_lock(&d->lock);
    c = d->communicators;
    pthread_mutex_unlock(&d->lock);
    return c;
}

static struct communicator *next_of(struct communicator *c)
{
    struct communicator *next;

    pthread_mutex_lock(&c->device->lock);
    next = c->next;
    pthread_mutex_unlock(&c->device->lock);
    return next;
}

static void drop(struct communicator *c)
{
    struct communicator **p = &c->device->communicators;

    pthread_mutex_lock(&c->device->lock);
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    pthread_mutex_unlock(&c->device->lock);
    if (c->life.state == LIFE_GONE)
        communicator_free(c);
}

/* Beside some whose memory is not given back yet, if there is enough for those
 * that are being made: a half more than the last one took each, as nobody else
 * stands still meanwhile. */
static bool has_memory(const struct device *d, size_t n_made)
{
    return d->joined_nbytes > 0 &&
           communicators_free_nbytes(d) / 3 * 2 > n_made * d->joined_nbytes;
}

/* Those before one: generations that end, and what is left of a kernel there;
 * and how many of its own are being made, itself among them. */
struct before {
    size_t n_ending, n_made;
    bool loud;
};

static struct before look_before(struct communicator *c)
{
    struct communicator *other = first_of(c->device);
    struct before before = {.n_made = 1};
    uint64_t last = 0;

    for (; other != c; other = next_of(other)) {
        uint64_t generation = other->config.generation;
        bool own = generation == c->config.generation;

        if (life_is_over(other->life.state))
            continue;
        before.n_made += own && other->life.state < LIFE_READY;
        before.loud |= !own && !other->life.quiet;
        before.n_ending += !own && generation != last;
        last = generation;
    }
    return before;
}

/* Behind those of other generations: no kernel of theirs runs, and what else
 * they hold there is enough of, or they hold it for too long. *alone_p: nothing
 * of them is left, and none of its own is being made. */
static bool may_begin(struct communicator *c, uint64_t now_us, bool *alone_p)
{
    struct before before = look_before(c);

    *alone_p = before.n_ending == 0 && before.n_made == 1;
    if (before.loud)
        return false;
    return before.n_ending == 0 || now_us > c->created_us + WAIT_US ||
           (before.n_ending < ENDING_MAX &&
            has_memory(c->device, before.n_made));
}

bool communicators_first_abandoned(struct communicator *c)
{
    struct communicator *other = first_of(c->device);

    for (; other != NULL; other = next_of(other))
        if (other != c && other->counted &&
            other->config.generation == c->config.generation)
            return false;
    return true;
}

bool communicators_launch_on(const struct device *d, CUstream stream)
{
    const struct communicator *c = d->communicators;

    while (c != NULL && (c->launching == NULL || c->on != stream))
        c = c->next;
    return c != NULL;
}

/* What the others that are being made take cannot be told apart from what it
 * takes. */
static void forget_memory(struct communicator *c)
{
    struct communicator *other = first_of(c->device);

    for (; other != NULL; other = next_of(other))
        if (other->life.state < LIFE_READY)
            other->free_nbytes = 0;
}

/* true: in *until_us_p. */
static bool step_or_begin(struct communicator *c, uint64_t now_us,
                          uint64_t *until_us_p)
{
    uint64_t until_us;
    bool alone;

    if (c->entered_us[LIFE_JOINING] == 0) {
        if (!may_begin(c, now_us, &alone))
            return false; /* those before it are looked at */
        if (!alone)
            forget_memory(c);
        communicator_start(c, alone, now_us);
    }
    until_us = communicator_step(c, now_us);
    if (until_us < *until_us_p)
        *until_us_p = until_us;
    return true;
}

uint64_t communicators_step(struct device *d, uint64_t now_us)
{
    struct communicator *c = first_of(d), *next;
    uint64_t until_us = CLOCK_NEVER;

    for (; c != NULL && step_or_begin(c, now_us, &until_us); c = next) {
        next = next_of(c);
        if (!life_is_over(c->life.state) || !atomic_load(&c->released))
            continue;
        if (device_has_task_of(d, c))
            until_us = now_us; /* it is ended first */
        else if (communicator_has_parted(c))
            drop(c);
        else if (now_us + PART_US < until_us)
            until_us = now_us + PART_US;
    }
    return until_us;
}
