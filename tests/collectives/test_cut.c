/* tests/collectives/test_cut.c - two ranks with a real network between them, or
 * two, which is cut without a word.
 *
 * Each rank is a thread in a network namespace of its own, which ends with the
 * process: nothing is left behind however that ends. A network is cut by a
 * wrong entry for the neighbour: frames go out, and nobody takes them. Needs
 * root and ip(8), and says so where they are missing. */
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "group.h"

enum { N_NETS = 2, PORT = 7000 };

static struct side {
    int rank;
    pid_t tid;
    sem_t go, done;
    bool (*what)(struct side *side);
    bool ok;
    pthread_t thread;
} sides[2];

static struct group g;

static bool __attribute__((format(printf, 1, 2))) shell(const char *format, ...)
{
    char command[400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    return system(command) == 0;
}

/* --- namespaces --- */

static void *side_main(void *arg)
{
    struct side *side = arg;

    side->tid = (pid_t)syscall(SYS_gettid);
    side->ok = unshare(CLONE_NEWNET) == 0 && shell("ip link set lo up");
    sem_post(&side->done);
    for (;;) {
        sem_wait(&side->go);
        if (side->what == NULL)
            return NULL;
        side->ok = side->what(side);
        sem_post(&side->done);
    }
}

static void begin(int rank, bool (*what)(struct side *side))
{
    sides[rank].what = what;
    sem_post(&sides[rank].go);
}

static bool end(int rank)
{
    sem_wait(&sides[rank].done);
    return sides[rank].ok;
}

static bool on_both(bool (*what)(struct side *side))
{
    bool a, b;

    begin(0, what);
    begin(1, what);
    a = end(0);
    b = end(1);
    return a && b;
}

static bool sides_start(void)
{
    bool ok = true;

    for (int i = 0; i < 2; i++) {
        sides[i] = (struct side){.rank = i};
        sem_init(&sides[i].go, 0, 0);
        sem_init(&sides[i].done, 0, 0);
        pthread_create(&sides[i].thread, NULL, side_main, &sides[i]);
        ok &= end(i);
    }
    return ok;
}

static void sides_stop(void)
{
    for (int i = 0; i < 2; i++) {
        begin(i, NULL);
        pthread_join(sides[i].thread, NULL);
    }
}

/* Interfaces have no namespace of a name, but that of a thread; made in rank
 * 0's, for this one may have no room for them. */
static bool make_wires(struct side *side)
{
    bool ok = true;

    for (int net = 0; net < N_NETS; net++)
        ok &= shell("ip link add v%d type veth peer name v%d netns %d", net,
                    net, (int)sides[1 - side->rank].tid);
    return ok;
}

static bool set_neighbour(int rank, int net, bool right)
{
    return shell("ip neigh replace 10.9.%d.%d lladdr 02:00:00:%s:0%d:0%d dev "
                 "v%d nud permanent",
                 net, 2 - rank, right ? "00" : "ff", net, 1 - rank, net);
}

static bool configure(struct side *side)
{
    /* BBR would double the pauses between attempts: see silence.h */
    bool ok = shell("echo reno > /proc/sys/net/ipv4/tcp_congestion_control");

    for (int net = 0; net < N_NETS; net++) {
        ok &= shell("ip link set v%d address 02:00:00:00:0%d:0%d up", net, net,
                    side->rank);
        ok &= shell("ip addr add 10.9.%d.%d/24 dev v%d", net, side->rank + 1,
                    net);
        ok &= set_neighbour(side->rank, net, true);
    }
    return ok;
}

/* Of this thread, which is in neither namespace. */
static bool neighbours(int net, bool right)
{
    bool ok = true;

    for (int i = 0; i < 2; i++) {
        char path[64];
        int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd;

        snprintf(path, sizeof(path), "/proc/self/task/%d/ns/net",
                 (int)sides[i].tid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        ok &= setns(fd, CLONE_NEWNET) == 0 && set_neighbour(i, net, right);
        ok &= setns(own, CLONE_NEWNET) == 0;
        close(fd);
        close(own);
    }
    return ok;
}

/* --- ranks --- */

static bool create(struct side *side)
{
    int i = side->rank;
    struct endpoint_config config = {.addresses = i == 0 ? "10.9.0.1,10.9.1.1"
                                                         : "10.9.0.2,10.9.1.2",
                                     .job = GROUP_JOB,
                                     .worker = 100 + (uint64_t)i,
                                     .connect_timeout_us = 10000000,
                                     .job_key = GROUP_JOB_KEY,
                                     .port_low = PORT,
                                     .port_high = PORT};

    if (endpoint_create(&config, &g.endpoints[i]) != HVD_OK) {
        fprintf(stderr, "%s\n", error_text());
        return false;
    }
    g.peers[i] = (struct comm_peer){
        .worker = config.worker, .host = (uint32_t)i, .port = PORT};
    strcpy(g.peers[i].addresses, config.addresses);
    return true;
}

static void comms(uint64_t silence_us)
{
    g.generation++;
    g.silence_us = silence_us;
    for (int i = 0; i < 2; i++) {
        comm_destroy(g.comms[i]);
        g.comms[i] = NULL;
        group_comm_create(&g, i);
    }
}

static bool join(void)
{
    memset(&g, 0, sizeof(g));
    g.size = 2;
    g.generation = 3;
    g.connect_timeout_us = 10000000;
    g.tcp_connections = 1;
    return sides_start() && (begin(0, make_wires), end(0)) &&
           on_both(configure) && on_both(create);
}

static void part(void)
{
    group_fini(&g);
    sides_stop();
}

static bool can(void)
{
    bool ok;

    if (geteuid() != 0 || !shell("ip -V > /dev/null 2>&1"))
        return false;
    ok = sides_start() && (begin(0, make_wires), end(0));
    sides_stop();
    return ok;
}

/* --- what they do --- */

static bool sum(struct side *side)
{
    int32_t in = 1, out = 0;

    return allreduce(g.comms[side->rank], &in, &out, 1, HVD_INT32, HVD_SUM) ==
               HVD_OK &&
           out == 2;
}

static hvd_status_t outcome;
static uint64_t ended_us;
static char sentence[512];

static void note(hvd_status_t status)
{
    ended_us = clock_now_us();
    outcome = status;
    snprintf(sentence, sizeof(sentence), "%s",
             status != HVD_OK ? error_text() : "");
}

/* Waits for a byte that does not come. */
static bool reads(struct side *side)
{
    char byte;

    note(comm_transfer_recv(g.comms[side->rank], 1 - side->rank, &byte, 1));
    return true;
}

/* Writes more than anybody takes. */
static bool writes(struct side *side)
{
    size_t nbytes = 256 << 20;
    char *buf = calloc(nbytes, 1);

    note(comm_transfer_send(g.comms[side->rank], 1 - side->rank, buf, nbytes));
    free(buf);
    return true;
}

static bool takes(struct side *side)
{
    size_t nbytes = 256 << 20;
    char *buf = malloc(nbytes);
    hvd_status_t status = comm_transfer_recv(g.comms[side->rank],
                                             1 - side->rank, buf, nbytes);

    free(buf);
    return status == HVD_OK;
}

static bool gives(struct side *side)
{
    char byte = 0;

    return comm_transfer_send(g.comms[side->rank], 1 - side->rank, &byte, 1) ==
           HVD_OK;
}

static bool exchange(struct side *side)
{
    return side->rank == 0 ? gives(side) : reads(side);
}

/* By the clock of the world: nothing here can be waited for. */
static void pass(uint64_t us)
{
    uint64_t until_us = clock_now_us() + us;

    while (clock_now_us() < until_us)
        poll(NULL, 0, clock_poll_ms(clock_now_us(), until_us));
}

static const uint64_t timeouts_us[] = {500000, 2000000, 10000000};

static void say(const char *who, uint64_t silence_us, uint64_t cut_us)
{
    fprintf(stderr, "# %s, timeout %.1f s: %.2f s behind the cut: %s\n", who,
            (double)silence_us * 1e-6, (double)(ended_us - cut_us) * 1e-6,
            sentence);
}

static void lost(const char *who, uint64_t silence_us, uint64_t cut_us)
{
    say(who, silence_us, cut_us);
    ck_assert_int_eq(outcome, HVD_PEER_LOST);
    ck_assert_msg(strstr(sentence, "10.9.0.1:7000 and 10.9.1.1:7000) is lost "
                                   "to rank 1: nothing has come from it for"),
                  "%s", sentence);
    ck_assert_uint_eq(comm_accused_proven(g.comms[1]), 1);
}

/* Rank 1 has dialled rank 0: it waits, the network goes, and the next
 * generation is on the other one. */
START_TEST(cut_while_it_waits_lost_and_on_by_the_other_network)
{
    uint64_t silence_us = timeouts_us[_i / 2], cut_us;
    bool writer = _i % 2 == 1;

    ck_assert(join());
    comms(silence_us);
    ck_assert(on_both(sum) && on_both(exchange));
    begin(1, writer ? writes : reads);
    pass(silence_us < 1000000 ? 2 * silence_us : silence_us);
    cut_us = clock_now_us();
    ck_assert(neighbours(0, false));
    ck_assert(end(1));
    lost(writer ? "writer that is blocked" : "reader", silence_us, cut_us);
    comms(silence_us);
    ck_assert(on_both(sum));
    ck_assert_uint_eq(comm_link(g.comms[1], CHANNEL_DATA, 0)->address_i, 1);
    part();
}
END_TEST

/* It takes what is written, up to the cut. */
START_TEST(cut_while_it_writes_lost)
{
    uint64_t silence_us = timeouts_us[_i], cut_us;

    ck_assert(join());
    comms(silence_us);
    ck_assert(on_both(sum) && on_both(exchange));
    begin(0, takes);
    begin(1, writes);
    pass(20000);
    cut_us = clock_now_us();
    ck_assert(neighbours(0, false));
    ck_assert(end(1));
    (void)end(0);
    say("writer", silence_us, cut_us);
    ck_assert(outcome == HVD_OK || strstr(sentence, "nothing has come from"));
    part();
}
END_TEST

/* Returns how long the longest of three cuts has lasted: a busy machine makes
 * them longer. */
static uint64_t cut_and_heal(uint64_t silence_us)
{
    uint64_t longest_us = 0;

    ck_assert(join());
    comms(silence_us);
    ck_assert(on_both(sum) && on_both(exchange));
    begin(1, reads);
    for (int i = 0; i < 3; i++) {
        uint64_t cut_us;

        pass(silence_us);
        cut_us = clock_now_us();
        ck_assert(neighbours(0, false));
        pass(silence_us / 2);
        ck_assert(neighbours(0, true));
        cut_us = clock_now_us() - cut_us;
        longest_us = cut_us > longest_us ? cut_us : longest_us;
    }
    pass(silence_us);
    begin(0, gives);
    (void)end(0); /* it cannot where rank 1 has given up */
    ck_assert(end(1));
    part();
    return longest_us;
}

START_TEST(healed_in_time_nothing_lost)
{
    uint64_t silence_us = 2000000;
    int n = 1;

    while (cut_and_heal(silence_us) > silence_us * 3 / 4 && n < 5)
        n++;
    ck_assert_msg(outcome == HVD_OK, "cut %d times: %s", n, sentence);
}
END_TEST

static _Atomic bool cut_off;

static bool is_cut_off(uint64_t now_us)
{
    (void)now_us;
    return cut_off;
}

/* The rank that waits hears nobody else either: it waits for as long as that
 * lasts, and judges its peer from then on. */
START_TEST(cut_while_nobody_is_heard_is_waited_out)
{
    uint64_t silence_us = 500000, cut_us;

    ck_assert(join());
    g.is_cut_off = is_cut_off;
    cut_off = false;
    comms(silence_us);
    ck_assert(on_both(sum) && on_both(exchange));
    begin(1, reads);
    pass(silence_us);
    cut_off = true;
    ck_assert(neighbours(0, false));
    pass(5 * silence_us);
    ck_assert(neighbours(0, true));
    cut_off = false;
    begin(0, gives);
    ck_assert(end(0) && end(1));
    ck_assert_msg(outcome == HVD_OK, "%s", sentence);
    begin(1, reads);
    pass(silence_us);
    cut_us = clock_now_us();
    ck_assert(neighbours(0, false));
    ck_assert(end(1));
    lost("reader", silence_us, cut_us);
    part();
}
END_TEST

/* No byte is read for long, and the network is there. */
START_TEST(full_peer_is_waited_for)
{
    ck_assert(join());
    comms(500000);
    ck_assert(on_both(sum) && on_both(exchange));
    begin(1, writes);
    pass(4000000);
    begin(0, takes);
    ck_assert(end(0) && end(1));
    ck_assert_msg(outcome == HVD_OK, "%s", sentence);
    part();
}
END_TEST

START_TEST(first_network_dead_from_the_start_second_is_used)
{
    ck_assert(join());
    ck_assert(neighbours(0, false));
    comms(500000);
    ck_assert(on_both(sum));
    ck_assert_uint_eq(comm_link(g.comms[1], CHANNEL_DATA, 0)->address_i, 1);
    part();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cut");
    TCase *tc = tcase_create("cut");
    int n = getenv("HVD_TEST_LONG") != NULL ? 3 : 2;

    if (!can()) {
        puts("1..0 # SKIP no network namespaces: needs root and ip(8)");
        return 0;
    }
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, cut_while_it_waits_lost_and_on_by_the_other_network,
                        0, 2 * n);
    tcase_add_loop_test(tc, cut_while_it_writes_lost, 0, n);
    tcase_add_test(tc, healed_in_time_nothing_lost);
    tcase_add_test(tc, cut_while_nobody_is_heard_is_waited_out);
    tcase_add_test(tc, full_peer_is_waited_for);
    tcase_add_test(tc, first_network_dead_from_the_start_second_is_used);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
