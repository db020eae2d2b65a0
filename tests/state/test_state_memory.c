/* tests/state/test_state_memory.c - the n-th allocation fails, for every n: the
 * call that needed it says HVD_ERR_NOMEM, what was committed before stays, and
 * nothing leaks (the address sanitizer looks). Mappings count as allocations.
 *
 * Allocators are replaced by the linker (--wrap), in own code only. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/world.h"
#include "made.h"
#include "state/state.h"
#include "support.h"
#include "tape.h"

static int n_left = -1; /* allocations that still succeed; -1: all do */

static bool fails(void)
{
    if (n_left < 0)
        return false;
    if (n_left > 0) {
        n_left--;
        return false;
    }
    return true;
}

/* The linker's names: __wrap_x is called for x, __real_x is x. */
void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t n, size_t nbytes);
void *__real_realloc(void *ptr, size_t nbytes);
char *__real_strdup(const char *text);
void *__real_mmap(void *addr, size_t nbytes, int prot, int flags, int fd,
                  off_t offset);
void *__wrap_malloc(size_t nbytes);
void *__wrap_calloc(size_t n, size_t nbytes);
void *__wrap_realloc(void *ptr, size_t nbytes);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *addr, size_t nbytes, int prot, int flags, int fd,
                  off_t offset);

void *__wrap_malloc(size_t nbytes)
{
    return fails() ? NULL : __real_malloc(nbytes);
}

void *__wrap_calloc(size_t n, size_t nbytes)
{
    return fails() ? NULL : __real_calloc(n, nbytes);
}

void *__wrap_realloc(void *ptr, size_t nbytes)
{
    return fails() ? NULL : __real_realloc(ptr, nbytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

void *__wrap_mmap(void *addr, size_t nbytes, int prot, int flags, int fd,
                  off_t offset)
{
    return fails() ? MAP_FAILED
                   : __real_mmap(addr, nbytes, prot, flags, fd, offset);
}

static hvd_status_t nothing(void *arg)
{
    (void)arg;
    return HVD_OK;
}

static void reset_nothing(const hvd_reset_info_t *info, void *arg)
{
    (void)info, (void)arg;
}

struct worker {
    hvd_state_t *state;
    hvd_sampler_t *sampler;
    uint64_t rng;
    int committed; /* what a restore must bring back; 0: nothing committed */
    char small[64];
    char big[10000];
    int step;
};

static hvd_status_t build(struct worker *w)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;

    options.manual_record = true;
    memset(w, 0, sizeof(*w));
    w->state = made_state();
    w->sampler = made_sampler(1000, &options);
    if (!w->state || !w->sampler)
        return HVD_ERR_NOMEM;
    HVD_TRY(hvd_state_add(w->state, "step", &w->step, sizeof(w->step)));
    HVD_TRY(hvd_state_add(w->state, "buffer", w->small, sizeof(w->small)));
    HVD_TRY(hvd_state_add_local(w->state, "rng", &w->rng, sizeof(w->rng)));
    HVD_TRY(hvd_state_add_sampler(w->state, "data", w->sampler));
    HVD_TRY(hvd_state_on_commit(w->state, nothing, NULL));
    HVD_TRY(hvd_state_on_restore(w->state, nothing, NULL));
    HVD_TRY(hvd_state_on_sync(w->state, nothing, NULL));
    return hvd_state_on_reset(w->state, reset_nothing, NULL);
}

static hvd_status_t commit(struct worker *w, int step)
{
    w->step = step;
    HVD_TRY(state_run_on_commit(w->state));
    HVD_TRY(state_save(w->state, 1, 1));
    w->committed = step;
    return HVD_OK;
}

static hvd_status_t train(struct worker *w)
{
    uint64_t index;
    size_t n;
    bool end;

    for (int i = 0; i < 20; i++)
        HVD_TRY(hvd_sampler_next(w->sampler, 1, &index, &n, &end));
    HVD_TRY(commit(w, 1));
    HVD_TRY(commit(w, 2));
    HVD_TRY(hvd_state_rebind(w->state, "buffer", w->big, sizeof(w->big)));
    return commit(w, 3);
}

static hvd_status_t sync_pair(struct worker *a, struct worker *b)
{
    const struct state_id id = {2, 3};
    uint64_t nbytes;

    tape_clear();
    state_stamp(a->state, id);
    HVD_TRY(state_sync_send(a->state, NULL, 1, false));
    HVD_TRY(hvd_state_rebind(b->state, "buffer", b->big, sizeof(b->big)));
    return state_sync_receive(b->state, NULL, 0, id, false, &nbytes);
}

static hvd_status_t scenario(struct worker *a, struct worker *b)
{
    HVD_TRY(build(a));
    HVD_TRY(train(a));
    HVD_TRY(build(b));
    return sync_pair(a, b);
}

static void check_and_destroy(struct worker *w)
{
    n_left = -1;
    if (w->state && w->committed > 0) {
        /* the entry may have been resized after that commit */
        bool small = w->committed < 3;

        ck_assert_int_eq(
            hvd_state_rebind(w->state, "buffer", small ? w->small : w->big,
                             small ? sizeof(w->small) : sizeof(w->big)),
            HVD_OK);
        w->step = -1;
        ck_assert_int_eq(state_restore(w->state), HVD_OK);
        ck_assert_int_eq(w->step, w->committed);
    }
    hvd_state_destroy(w->state);
    hvd_sampler_destroy(w->sampler);
}

START_TEST(state_every_allocation_fails_once_nothing_is_lost)
{
    static struct worker a, b;
    hvd_status_t status;
    int n = 0;

    world_set(&(struct world){1, 0, 1, 0, 1, 0, 1});
    do {
        memset(&a, 0, sizeof(a));
        memset(&b, 0, sizeof(b));
        n_left = n++;
        status = scenario(&a, &b);
        n_left = -1;
        ck_assert(status == HVD_OK || status == HVD_ERR_NOMEM);
        if (status == HVD_OK)
            ck_assert_int_eq(b.step, 3);
        check_and_destroy(&a);
        check_and_destroy(&b);
    } while (status != HVD_OK);
    /* each kind of allocation was reached */
    ck_assert_int_gt(n, 20);
}
END_TEST

/* Check allocates: nothing is asserted while there is no memory. */
START_TEST(create_without_memory_gives_null)
{
    hvd_state_t *state = (hvd_state_t *)&n_left;
    hvd_sampler_t *sampler = (hvd_sampler_t *)&n_left;
    hvd_status_t of_state, of_sampler;

    n_left = 0;
    of_state = hvd_state_create(&state);
    of_sampler = hvd_sampler_create(9, NULL, &sampler);
    n_left = -1;
    ck_assert_int_eq(of_state, HVD_ERR_NOMEM);
    ck_assert_ptr_null(state);
    ck_assert_int_eq(of_sampler, HVD_ERR_NOMEM);
    ck_assert_ptr_null(sampler);
}
END_TEST

/* Epochs [10] of a sampler, a hundred calls of each. */
static hvd_status_t walk(hvd_sampler_t *sampler)
{
    uint64_t indices[8];
    size_t n;
    bool end;

    for (uint64_t epoch = 0; epoch < 10; epoch++) {
        HVD_TRY(hvd_sampler_set_epoch(sampler, epoch));
        for (int i = 0; i < 100; i++)
            HVD_TRY(hvd_sampler_next(sampler, 8, indices, &n, &end));
    }
    return HVD_OK;
}

/* With manual_record the first call that waits needs some. */
START_TEST(sampler_takes_no_memory_for_its_samples)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *plain = made_sampler((uint64_t)1 << 40, NULL), *recorded;
    hvd_status_t of_plain, of_recorded;

    options.manual_record = true;
    recorded = made_sampler((uint64_t)1 << 40, &options);
    world_set(&(struct world){1, 0, 1, 0, 1, 0, 1});
    n_left = 0;
    of_plain = walk(plain);
    of_recorded = walk(recorded);
    n_left = -1;
    ck_assert_int_eq(of_plain, HVD_OK);
    ck_assert_int_eq(of_recorded, HVD_ERR_NOMEM);
    hvd_sampler_destroy(plain);
    hvd_sampler_destroy(recorded);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state_memory");
    TCase *tc = tcase_create("state_memory");

    tcase_add_test(tc, create_without_memory_gives_null);
    tcase_add_test(tc, sampler_takes_no_memory_for_its_samples);
    tcase_add_test(tc, state_every_allocation_fails_once_nothing_is_lost);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
