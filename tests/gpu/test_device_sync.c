/* tests/gpu/test_device_sync.c - a state with entries on devices, from two
 * ranks that hold it to a third, by NCCL or through memory of the hosts: what
 * arrives is the same, and who loses a peer meanwhile has what it had. */
#include <sys/time.h>

#include "base/array.h"
#include "device_rank.h"
#include "made.h"
#include "state/device_entries.h"
#include "state/internal.h"

enum {
    WEIGHTS = (3 << 20) + 5,
    MOMENTS = 1000,
    TABLE = 2 << 20,
    HELD = 1, /* the seed of what is held */
};

static const struct state_id next_id = {4, 17};

/* --- a state --- */

static struct {
    hvd_state_t *state;
    uint8_t *weights, *moments; /* of the device */
    uint8_t table[TABLE], head[100];
    uint64_t step;
    uint8_t here[WEIGHTS];
} s;

static int root, stale = RANKS - 1;

static bool is_source(void)
{
    return me != stale;
}

static void fill_bytes(uint8_t *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251 + (size_t)seed * 31);
}

static void set(int seed)
{
    fill_bytes(s.here, WEIGHTS, seed);
    copy(s.weights, s.here, WEIGHTS);
    fill_bytes(s.here, MOMENTS, seed + 1);
    copy(s.moments, s.here, MOMENTS);
    fill_bytes(s.table, TABLE, seed + 2);
    fill_bytes(s.head, sizeof(s.head), seed + 3);
    s.step = (uint64_t)seed;
}

static bool are(const uint8_t *bytes, size_t n, int seed)
{
    static uint8_t wanted[WEIGHTS];

    fill_bytes(wanted, n, seed);
    return memcmp(bytes, wanted, n) == 0;
}

static void must_be(int seed)
{
    copy(s.here, s.weights, WEIGHTS);
    MUST(are(s.here, WEIGHTS, seed));
    copy(s.here, s.moments, MOMENTS);
    MUST(are(s.here, MOMENTS, seed + 1));
    MUST(are(s.table, TABLE, seed + 2));
    MUST(are(s.head, sizeof(s.head), seed + 3));
    MUST(s.step == (uint64_t)seed);
}

static int own_seed(void)
{
    return is_source() ? HELD : 50;
}

static void create(size_t n_moments)
{
    s.state = made_state();
    s.weights = allocate(WEIGHTS);
    s.moments = allocate(MOMENTS);
    MUST(hvd_state_add(s.state, "head", s.head, sizeof(s.head)) == HVD_OK);
    MUST(hvd_state_add_device(s.state, "weights", s.weights, WEIGHTS, NULL) ==
         HVD_OK);
    MUST(hvd_state_add(s.state, "table", s.table, TABLE) == HVD_OK);
    MUST(hvd_state_add_device(s.state, "none", s.weights, 0, NULL) == HVD_OK);
    MUST(hvd_state_add_device(s.state, "moments", s.moments, n_moments, NULL) ==
         HVD_OK);
    MUST(hvd_state_add(s.state, "step", &s.step, sizeof(s.step)) == HVD_OK);
    set(own_seed());
    if (is_source())
        MUST(state_save(s.state, 1, RANKS) == HVD_OK);
    if (is_source())
        state_stamp(s.state, next_id);
}

static void destroy_as(enum comm_leave_kind kind)
{
    hvd_state_destroy(s.state);
    MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)s.weights) == CUDA_SUCCESS);
    MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)s.moments) == CUDA_SUCCESS);
    part_as(kind);
}

static void destroy(void)
{
    destroy_as(COMM_LEAVE_DONE);
}

/* --- a sync --- */

static hvd_status_t sync_devices(uint64_t min_nbytes, bool *apart_p)
{
    struct state_devices devices = {.rank = me,
                                    .size = size,
                                    .root = root,
                                    .is_source = is_source(),
                                    .min_nbytes = min_nbytes};

    return state_sync_devices(s.state, comm, &devices, apart_p);
}

static hvd_status_t exchange(bool by_nccl)
{
    uint64_t nbytes = 0;

    if (me == root)
        return state_sync_send(s.state, comm, stale, by_nccl);
    if (is_source())
        return HVD_OK;
    HVD_TRY(state_sync_receive(s.state, comm, root, next_id, by_nccl, &nbytes));
    MUST(nbytes > WEIGHTS + MOMENTS + TABLE);
    return HVD_OK;
}

/* Who finds something wrong ends the comm, and with it NCCL's broadcast where
 * that still runs: not before all have come out of it. */
static void await_all(void)
{
    atomic_fetch_add(&shared->n_there, 1);
    await(&shared->n_there, 2 * size);
}

/* Live, and what is committed. */
static void must_hold(void)
{
    must_be(HELD);
    MUST(state_id_equal(state_id_of(s.state), next_id));
    set(99);
    MUST(state_restore(s.state) == HVD_OK);
    must_be(HELD);
}

static int syncs(uint64_t min_nbytes, bool wanted)
{
    bool by_nccl;

    join();
    create(MOMENTS);
    MUST(sync_devices(min_nbytes, &by_nccl) == HVD_OK);
    MUST(by_nccl == wanted);
    MUST(exchange(by_nccl) == HVD_OK);
    must_hold();
    destroy();
    return 0;
}

static int rank_syncs_by_nccl(void)
{
    return syncs(1, true);
}

static int rank_0_is_stale(void)
{
    root = 1;
    stale = 0;
    return syncs(1, true);
}

static int rank_syncs_by_hosts(void)
{
    return syncs(1, false);
}

static int rank_has_too_little(void)
{
    return syncs(WEIGHTS + MOMENTS + 1000, false);
}

/* It has committed before, in a world of its own. */
static int rank_is_stale(void)
{
    bool by_nccl;

    join();
    create(MOMENTS);
    if (!is_source())
        MUST(state_save(s.state, 1, 1) == HVD_OK);
    MUST(sync_devices(1, &by_nccl) == HVD_OK);
    if (!is_source()) {
        set(99);
        MUST(state_restore(s.state) == HVD_OK);
        must_be(own_seed());
    }
    MUST(by_nccl && exchange(by_nccl) == HVD_OK);
    must_hold();
    destroy();
    return 0;
}

static int rank_has_another_size(void)
{
    bool by_nccl;

    join();
    create(is_source() ? MOMENTS : MOMENTS - 1);
    MUST(sync_devices(1, &by_nccl) == HVD_OK);
    MUST(!by_nccl);
    await_all();
    if (is_source()) {
        (void)!exchange(by_nccl);
    } else {
        MUST(exchange(by_nccl) == HVD_ERR_LAYOUT);
        MUST(strstr(error_text(), "'moments'") != NULL);
        must_be(own_seed());
    }
    /* the root may be sending still */
    destroy_as(is_source() ? COMM_LEAVE_DONE : COMM_LEAVE_ABORT);
    return 0;
}

/* What came by NCCL is not what the source has. */
static int rank_gets_other_bytes(void)
{
    bool by_nccl;

    join();
    create(MOMENTS);
    MUST(sync_devices(1, &by_nccl) == HVD_OK);
    MUST(by_nccl);
    await_all();
    if (!is_source()) {
        s.here[0] = 77;
        copy((uint8_t *)s.state->device.shadow + WEIGHTS / 2, s.here, 1);
        MUST(exchange(by_nccl) == HVD_PEER_LOST);
        MUST(strstr(error_text(), "'weights'") != NULL);
        must_be(own_seed());
    } else if (me == 0) {
        (void)!exchange(by_nccl);
    }
    destroy();
    return 0;
}

/* What the root has on its device is not what it has on its host: it is the
 * next restore's, nobody else's. */
static int rank_trusts_the_host(void)
{
    bool by_nccl;

    join();
    create(MOMENTS);
    s.here[0] = 77;
    if (is_source())
        MUST(device_entries_await(s.state, &s.state->snapshots[0]) == HVD_OK);
    if (me == root)
        copy((uint8_t *)s.state->device.shadow + WEIGHTS / 2, s.here, 1);
    MUST(sync_devices(1, &by_nccl) == HVD_OK && by_nccl);
    await_all();
    if (me == root)
        (void)!exchange(by_nccl);
    else if (is_source())
        must_hold();
    else
        MUST(exchange(by_nccl) == HVD_PEER_LOST);
    destroy();
    return 0;
}

/* A source that has got its state through the hosts, and then takes part in a
 * broadcast, restores what it has. */
static int rank_restores_what_came_by_hosts(void)
{
    bool by_nccl;

    stale = 1;
    join();
    create(MOMENTS);
    MUST(sync_devices(UINT64_MAX, &by_nccl) == HVD_OK && !by_nccl);
    MUST(exchange(by_nccl) == HVD_OK);
    stale = 2;
    if (me == stale)
        set(own_seed());
    MUST(sync_devices(1, &by_nccl) == HVD_OK && by_nccl);
    MUST(exchange(by_nccl) == HVD_OK);
    must_hold();
    destroy();
    return 0;
}

/* The root is killed at some moment of it: nobody's live memory has been
 * touched, nor what it has committed. */
static int rank_loses_the_root(void)
{
    struct itimerval soon = {.it_value.tv_usec = 1 + rand() % 30000};
    hvd_status_t status;
    bool by_nccl;

    join();
    create(MOMENTS);
    await_all();
    signal(SIGALRM, SIG_DFL); /* it is Check's */
    if (me == 0)
        setitimer(ITIMER_REAL, &soon, NULL);
    status = sync_devices(1, &by_nccl);
    if (me == 0)
        for (;;)
            pause();
    MUST(status == HVD_OK || status == HVD_PEER_LOST);
    must_be(own_seed());
    if (is_source()) {
        set(99);
        comm_abort(comm, HVD_PEER_LOST, "the test says so");
        MUST(state_restore(s.state) == HVD_OK);
        must_be(HELD);
    }
    destroy();
    return 0;
}

/* --- the ranks --- */

static const char *const sound[RANKS] = {"", "", ""};
static const char *const late[RANKS] = {"late_us=1000 enqueue_us=2000",
                                        "late_us=0", "late_us=300"};

/* The root, another source, the third has no room for a shadow; two ranks have
 * one device. */
static const char *const by_hosts[][RANKS] = {{"memory=5000000", "", ""},
                                              {"", "memory=5000000", ""},
                                              {"", "", "memory=5000000"},
                                              {"", "", "uuid=0"},
                                              {"", "init_fail=1", ""}};

START_TEST(comes_by_nccl)
{
    play(RANKS, rank_syncs_by_nccl, _i == 0 ? sound : late, -1);
}
END_TEST

START_TEST(comes_to_rank_0)
{
    play(RANKS, rank_0_is_stale, sound, -1);
}
END_TEST

START_TEST(source_keeps_what_came_by_hosts)
{
    play(RANKS, rank_restores_what_came_by_hosts, sound, -1);
}
END_TEST

START_TEST(source_believes_nothing)
{
    play(RANKS, rank_trusts_the_host, sound, -1);
}
END_TEST

START_TEST(comes_through_hosts)
{
    play(RANKS, rank_syncs_by_hosts, by_hosts[_i], -1);
}
END_TEST

START_TEST(little_comes_through_hosts)
{
    play(RANKS, rank_has_too_little, sound, -1);
}
END_TEST

START_TEST(own_commit_stays_until_it_has_come)
{
    play(RANKS, rank_is_stale, sound, -1);
}
END_TEST

START_TEST(other_size_is_named)
{
    play(RANKS, rank_has_another_size, sound, -1);
}
END_TEST

START_TEST(other_bytes_are_noticed)
{
    play(RANKS, rank_gets_other_bytes, sound, -1);
}
END_TEST

START_TEST(root_that_dies_spoils_nothing)
{
    srand(1000u + (unsigned)_i);
    play_killed(RANKS, rank_loses_the_root, sound, 0, SIGALRM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_sync");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, comes_by_nccl, 0, 1);
    tcase_add_test(tc, comes_to_rank_0);
    tcase_add_test(tc, source_keeps_what_came_by_hosts);
    tcase_add_test(tc, source_believes_nothing);
    tcase_add_test(tc, little_comes_through_hosts);
    tcase_add_test(tc, own_commit_stays_until_it_has_come);
    tcase_add_test(tc, other_size_is_named);
    tcase_add_test(tc, other_bytes_are_noticed);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, comes_by_nccl, 1, 2);
    tcase_add_loop_test(faults, comes_through_hosts, 0, ARRAY_SIZE(by_hosts));
    tcase_add_loop_test(faults, root_that_dies_spoils_nothing, 0, 10);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
