/* tests/collectives/test_steady.c - a step that repeats allocates nothing:
 * calls by name in another order each time, posted and blocking ones. */
#include <stdatomic.h>

#include "base/random.h"
#include "named.h"

enum { STEADY_NAMES = 161, ROUNDS = 12, STEPS_EACH = 50 };

static atomic_long n_allocated;

void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t n, size_t nbytes);
void *__real_realloc(void *old, size_t nbytes);
void *__wrap_malloc(size_t nbytes);
void *__wrap_calloc(size_t n, size_t nbytes);
void *__wrap_realloc(void *old, size_t nbytes);

void *__wrap_malloc(size_t nbytes)
{
    atomic_fetch_add(&n_allocated, 1);
    return __real_malloc(nbytes);
}

void *__wrap_calloc(size_t n, size_t nbytes)
{
    atomic_fetch_add(&n_allocated, 1);
    return __real_calloc(n, nbytes);
}

void *__wrap_realloc(void *old, size_t nbytes)
{
    atomic_fetch_add(&n_allocated, 1);
    return __real_realloc(old, nbytes);
}

struct steady {
    struct random_state random;
    float bufs[STEADY_NAMES][64];
    struct hvd_request *requests[STEADY_NAMES];
};

static bool run_step(struct comm *comm, struct steady *s, int rank)
{
    int first = (int)random_below(&s->random, STEADY_NAMES);
    float x = 1;

    for (int k = 0; k < STEADY_NAMES; k++) {
        int i = (first + k) % STEADY_NAMES;
        char name[16];

        snprintf(name, sizeof(name), "grad.%d", i);
        EXPECT(post_named(comm, name, s->bufs[i], (size_t)i % 64 + 1,
                          &s->requests[i]) == HVD_OK);
    }
    for (int i = 0; i < STEADY_NAMES; i++)
        EXPECT(request_wait(s->requests[i]) == HVD_OK);
    EXPECT(post_sum(comm, &x, 1, &s->requests[0]) == HVD_OK);
    EXPECT(request_wait(s->requests[0]) == HVD_OK);
    EXPECT(allreduce(comm, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    return true;
}

static atomic_long counted;

/* Arrays grow to what has been needed at once, which depends on who is fast:
 * until a row of steps allocates nothing. Behind a barrier nobody is in a step
 * any more. */
static bool run_steps(struct group *g, int rank, void *arg)
{
    struct steady *s = __real_calloc(1, sizeof(*s));

    s->random.s = (uint64_t)rank;
    for (int k = 0; k < ROUNDS && (k == 0 || counted > 0); k++) {
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        if (rank == 0)
            atomic_store(&counted, atomic_load(&n_allocated));
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        for (int i = 0; i < STEPS_EACH; i++)
            EXPECT(run_step(g->comms[rank], s, rank));
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        if (rank == 0)
            atomic_store(&counted, atomic_load(&n_allocated) - counted);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    free(s);
    return true;
}

START_TEST(steps_allocate_nothing)
{
    struct group g;

    for (int size = 2; size <= 4; size += 2) {
        group_init(&g, size);
        group_run(&g, run_steps, NULL);
        group_fini(&g);
        ck_assert_int_eq(counted, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steady");
    TCase *tc = tcase_create("steady");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, steps_allocate_nothing);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
