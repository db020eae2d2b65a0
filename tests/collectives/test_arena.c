/* tests/collectives/test_arena.c - hvd_alloc and hvd_free: where memory is,
 * that it is zero, apart and given back, under limits of the process, with
 * pages of 64 KB (HVD_TEST_PAGE_NBYTES), and in a forked child. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hvd/collectives.h>

#include "collectives/local/arena.h"
#include "support.h"

enum { HUGE_PAGE = 2 << 20, MIB = 1 << 20 };

/* In front of the C library's: what a kernel with larger pages would say. What
 * is aligned to them is aligned to this machine's as well. */
long sysconf(int name)
{
    long (*next)(int) = (long (*)(int))(uintptr_t)dlsym(RTLD_NEXT, "sysconf");
    const char *said = getenv("HVD_TEST_PAGE_NBYTES");

    return name == _SC_PAGESIZE && said != NULL ? atol(said) : next(name);
}

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *take(size_t nbytes)
{
    void *ptr = NULL;

    ck_assert_ptr_nonnull(ptr = hvd_alloc(nbytes));
    return ptr;
}

static bool is_clear(const uint8_t *ptr, size_t nbytes)
{
    return ptr[0] == 0 && memcmp(ptr, ptr + 1, nbytes - 1) == 0;
}

static bool is_shared(const void *ptr, size_t nbytes)
{
    uint64_t at;

    return arena_find(ptr, nbytes, &at);
}

START_TEST(freed_memory_is_first_fit_and_zero)
{
    uint8_t *a = take(10 * page()), *b = take(3 * page()), *c = take(page());
    uint8_t *again;

    memset(b, 7, 3 * page());
    hvd_free(b);
    again = take(4 * page()); /* does not fit between a and c */
    ck_assert_ptr_ne(again, b);
    hvd_free(again);
    again = take(2 * page() + 1);
    ck_assert_ptr_eq(again, b);
    ck_assert(is_clear(again, 3 * page()));
    hvd_free(a);
    ck_assert_ptr_eq(take(1), a);
    hvd_free(a);
    hvd_free(again);
    hvd_free(c);
}
END_TEST

/* A neighbour shares no page: what is given back is its own. */
START_TEST(freed_memory_leaves_its_neighbours)
{
    uint8_t *a = take(100), *b = take(100), *c = take(100);

    memset(a, 1, 100);
    memset(b, 2, 100);
    memset(c, 3, 100);
    hvd_free(b);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(a[i], 1);
        ck_assert_uint_eq(c[i], 3);
    }
    b = take(100);
    ck_assert(is_clear(b, page()));
    hvd_free(a);
    hvd_free(b);
    hvd_free(c);
}
END_TEST

START_TEST(sizes_are_aligned_and_apart)
{
    const size_t p = page();
    const size_t sizes[] = {1,     p - 1,         p,
                            p + 1, HUGE_PAGE - 1, HUGE_PAGE,
                            1,     HUGE_PAGE + 1, 3 * HUGE_PAGE};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    uint8_t *at[N];

    for (int i = 0; i < N; i++) {
        size_t align = sizes[i] >= HUGE_PAGE ? HUGE_PAGE : p;

        at[i] = take(sizes[i]);
        ck_assert_uint_eq((uintptr_t)at[i] % align, 0);
        memset(at[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < N; i++) {
        ck_assert_uint_eq(at[i][0], (unsigned)i + 1);
        ck_assert_uint_eq(at[i][sizes[i] - 1], (unsigned)i + 1);
    }
    for (int i = 0; i < N; i++)
        hvd_free(at[(i * 4) % N]);
}
END_TEST

START_TEST(find_within_an_allocation_and_not_beside)
{
    uint8_t *a = take(HUGE_PAGE);
    uint64_t at = 0, next = 0;
    int elsewhere;

    ck_assert(arena_find(a, HUGE_PAGE, &at));
    ck_assert_uint_eq(at % HUGE_PAGE, 0);
    ck_assert(arena_find(a + 5, page() - 5, &next));
    ck_assert_uint_eq(next, at + 5);
    ck_assert_ptr_eq(arena_at(at + 5, 100), a + 5);
    ck_assert_ptr_null(arena_at(0, 1)); /* the head is not memory */
    ck_assert_ptr_null(arena_at(at, SIZE_MAX));
    ck_assert(!arena_find(a, SIZE_MAX, &at));
    ck_assert(!arena_find(&elsewhere, sizeof(elsewhere), &at));
    hvd_free(a);
}
END_TEST

static size_t mapped_nbytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t total;

    ck_assert_int_eq(fscanf(f, "%zu", &total), 1);
    fclose(f);
    return total * 4096;
}

static uint64_t file_nbytes(void)
{
    struct stat st;

    ck_assert_int_eq(fstat(arena_fd(), &st), 0);
    return (uint64_t)st.st_size;
}

/* What a small program maps, and how long its file is, follows what it uses. */
START_TEST(file_and_mappings_follow_what_is_used)
{
    size_t before = mapped_nbytes();
    uint8_t *a = take(1), *b;
    uint64_t small = file_nbytes(), large;

    ck_assert_uint_le(small, 1 << 30);
    ck_assert_uint_le(mapped_nbytes(), before + small + 16 * MIB);
    b = take((size_t)3 << 30); /* untouched, it costs nothing */
    large = file_nbytes();
    ck_assert(is_shared(b, (size_t)3 << 30));
    ck_assert_uint_ge(large, (uint64_t)3 << 30);
    ck_assert_uint_le(large, (uint64_t)7 << 30);
    b[0] = b[((size_t)3 << 30) - 1] = 1;
    hvd_free(b);
    b = take((size_t)2 << 30);
    ck_assert_uint_eq(file_nbytes(), large);
    ck_assert(is_clear(b, page()));
    hvd_free(b);
    hvd_free(a);
}
END_TEST

/* As many as it takes until they are in one segment: they are few. */
START_TEST(growing_by_little_needs_few_segments)
{
    enum { N = 200 };
    uint8_t *all[N];

    for (int i = 0; i < N; i++)
        all[i] = take(20 * MIB);
    for (int i = 0; i < N; i++)
        ck_assert(is_shared(all[i], 20 * MIB));
    for (int i = 0; i < N; i++)
        hvd_free(all[i]);
}
END_TEST

static size_t resident_nbytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t total, resident;

    ck_assert_int_eq(fscanf(f, "%zu %zu", &total, &resident), 2);
    fclose(f);
    return resident * 4096;
}

START_TEST(freed_memory_goes_back_to_the_system)
{
    size_t nbytes = 64 << 20, before = 0;

    for (int i = 0; i < 4; i++) {
        uint8_t *p = take(nbytes);

        memset(p, 1, nbytes);
        if (i == 0)
            ck_assert_uint_ge(resident_nbytes(), nbytes);
        hvd_free(p);
        if (i == 0)
            before = resident_nbytes();
    }
    ck_assert_uint_lt(resident_nbytes(), before + nbytes / 2);
}
END_TEST

/* Locked it is not punched as it stands; protected the next would not write. */
START_TEST(freed_memory_is_zero_whatever_was_done_to_it)
{
    size_t nbytes = 2 * page();
    uint8_t *p = take(nbytes), *again;

    memset(p, 7, nbytes);
    if (_i == 0)
        ck_assert_int_eq(mlock(p, nbytes), 0);
    else
        ck_assert_int_eq(mprotect(p, nbytes, PROT_READ), 0);
    hvd_free(p);
    again = take(nbytes);
    ck_assert_ptr_eq(again, p);
    ck_assert(is_clear(again, nbytes));
    memset(again, 1, nbytes);
    hvd_free(again);
}
END_TEST

/* Of the mapping that begins at or before ptr and ends behind it: false if it
 * has this flag, or the kernel tells of none. */
static bool lacks_flag(const void *ptr, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    bool within = false, lacks = false;
    char line[512];

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        uintptr_t start, end;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
            within = (uintptr_t)ptr >= start && (uintptr_t)ptr < end;
        else if (within && strncmp(line, "VmFlags:", 8) == 0)
            lacks = strstr(line, flag) == NULL;
    }
    fclose(f);
    return lacks;
}

/* Of which the kernel may know nothing. */
START_TEST(large_memory_may_be_of_huge_pages)
{
    uint8_t *p = take(2 * HUGE_PAGE);

    p[0] = 1;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0)
        ck_assert(!lacks_flag(p, " hg"));
    hvd_free(p);
}
END_TEST

/* --- limits --- */

static struct rlimit limit_to(int resource, rlim_t value)
{
    struct rlimit old, now;

    ck_assert_int_eq(getrlimit((__rlimit_resource_t)resource, &old), 0);
    now = (struct rlimit){value, old.rlim_max};
    ck_assert_int_eq(setrlimit((__rlimit_resource_t)resource, &now), 0);
    return old;
}

/* A file that grows beyond it costs a signal. */
START_TEST(file_size_limited_gives_private_memory)
{
    struct rlimit old = limit_to(RLIMIT_FSIZE, (rlim_t)(1 + 20 * _i) * MIB);
    uint8_t *p = take(8 * MIB);

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert(is_clear(p, 8 * MIB));
    memset(p, 1, 8 * MIB);
    ck_assert(is_shared(p, 8 * MIB) == (_i > 0));
    hvd_free(p);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Enough for what is asked, not for as much again; what was too much does no
 * harm to what comes later. */
START_TEST(address_space_limited_gives_what_is_needed)
{
    uint8_t *a = take(64 * MIB), *p = NULL, *q = NULL;
    struct rlimit old = limit_to(RLIMIT_AS, mapped_nbytes() + 60 * MIB);

    ck_assert_ptr_null(hvd_alloc((size_t)1 << 47));
    ck_assert_ptr_null(hvd_alloc(512 * MIB));
    p = take(20 * MIB);
    q = take(20 * MIB);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
    ck_assert(is_shared(p, 20 * MIB));
    ck_assert(is_shared(q, 20 * MIB));
    hvd_free(p);
    hvd_free(q);
    hvd_free(a);
}
END_TEST
#endif

/* --- a forked child --- */

static int is_refused(const void *theirs)
{
    alarm(20); /* a lock that nobody will give back */
    hvd_free((void *)(uintptr_t)theirs);
    return hvd_alloc(1) == NULL && strstr(hvd_last_error(), "forked child") ? 0
                                                                            : 1;
}

static bool is_mapped(const void *ptr)
{
    unsigned char page_is_there;

    return mincore((void *)(uintptr_t)ptr, 1, &page_is_there) == 0 ||
           errno != ENOMEM;
}

static int has_none(const void *theirs)
{
    return is_mapped(theirs) ? 2 : is_refused(theirs);
}

/* Of the arena, and private memory. */
START_TEST(forked_child_is_refused_and_has_none)
{
    struct rlimit old = limit_to(RLIMIT_FSIZE, _i == 0 ? 100 * MIB : MIB);
    uint8_t *p = take(8 * MIB);

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert(is_shared(p, 8 * MIB) == (_i == 0));
    ck_assert(is_mapped(p));
    ck_assert_int_eq(support_in_child(has_none, p), 0);
    memset(p, 1, 8 * MIB);
    hvd_free(p);
}
END_TEST

static atomic_bool over;

static void *take_and_free(void *arg)
{
    while (!atomic_load(&over)) {
        hvd_free(hvd_alloc(100));
    }
    return NULL;
}

START_TEST(forked_child_does_not_wait_for_the_parents_lock)
{
    uint8_t *p = take(100);
    pthread_t thread;

    atomic_store(&over, false);
    pthread_create(&thread, NULL, take_and_free, NULL);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(support_in_child(is_refused, p), 0);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    hvd_free(p);
}
END_TEST

/* --- why there is none --- */

static int none_says_why(const void *ignored)
{
    (void)ignored;
    limit_to(RLIMIT_NOFILE, 0);
    for (int i = 0; i < 2; i++) { /* it is tried once */
        errno = 0;
        if (arena_fd() >= 0 || errno != EMFILE)
            return errno;
    }
    return 0;
}

static int closed_says_so(const void *ignored)
{
    (void)ignored;
    if (arena_fd() < 0)
        return 1;
    arena_close();
    errno = 0;
    return arena_fd() < 0 && errno == EBADF ? 0 : 2;
}

START_TEST(arena_that_is_not_there_says_why)
{
    ck_assert_int_eq(support_in_child(none_says_why, NULL), 0);
    ck_assert_int_eq(support_in_child(closed_says_so, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tc = tcase_create("arena");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, file_size_limited_gives_private_memory, 0, 3);
    tcase_add_test(tc, freed_memory_is_first_fit_and_zero);
    tcase_add_test(tc, freed_memory_leaves_its_neighbours);
    tcase_add_test(tc, sizes_are_aligned_and_apart);
    tcase_add_test(tc, find_within_an_allocation_and_not_beside);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tc, address_space_limited_gives_what_is_needed);
#endif
    tcase_add_test(tc, file_and_mappings_follow_what_is_used);
    tcase_add_test(tc, growing_by_little_needs_few_segments);
    tcase_add_test(tc, freed_memory_goes_back_to_the_system);
    tcase_add_loop_test(tc, freed_memory_is_zero_whatever_was_done_to_it, 0, 2);
    tcase_add_test(tc, large_memory_may_be_of_huge_pages);
    tcase_add_loop_test(tc, forked_child_is_refused_and_has_none, 0, 2);
    tcase_add_test(tc, forked_child_does_not_wait_for_the_parents_lock);
    tcase_add_test(tc, arena_that_is_not_there_says_why);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
