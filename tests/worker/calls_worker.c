/* tests/worker/calls_worker.c - a program that calls collectives where
 * test_calls.c has it: before a run and behind one, first in a static program,
 * on another thread. Its argument names the scene. It prints what each call has
 * returned, "call: status: sentence".
 *
 * Threads: two, one at a time prints. Memory: static. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <hvd/hvd.h>

enum { BUSY_MS = 600000 };

static void say(const char *call, hvd_status_t status)
{
    printf("%s: %d: %s\n", call, (int)status,
           status == HVD_OK ? "" : hvd_last_error());
}

static hvd_status_t run(hvd_train_fn train, bool *elsewhere)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    status = hvd_elastic_run(state, train, elsewhere);
    hvd_state_destroy(state);
    return status;
}

static void run_elsewhere(void *(*main)(void *arg), void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, main, arg) == 0)
        pthread_join(thread, NULL);
}

/* ---- outside of a training function -------------------------------------- */

static hvd_status_t meet_once(hvd_state_t *state, void *arg)
{
    return hvd_barrier();
}

static void before_run(void)
{
    say("barrier", hvd_barrier());
    say("run", run(meet_once, NULL));
}

/* Metrics are averaged, in the world and in a communicator. */
static void behind_run(void)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_state_t *state;
    const int both[] = {0, 1};
    float x = 1;

    say("run", run(meet_once, NULL));
    say("sum", hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM));
    say("create", hvd_comm_create(both, 2, &options.comm));
    options.key = "metrics";
    say("sum by name",
        hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options, NULL));
    say("state", hvd_state_create(&state));
    say("commit", hvd_state_commit(state));
    hvd_state_destroy(state);
    say("status", hvd_generation_status());
    printf("size %d, sum %g\n", hvd_size(), (double)x);
    say("run again", run(meet_once, NULL));
}

/* The first to be done does not wait for the others. */
static void last_words(void)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    float x = 1, y = 1;

    say("run", run(meet_once, NULL));
    options.key = "metrics";
    say("sum by name",
        hvd_allreduce_with(&y, &y, 1, HVD_FLOAT32, HVD_SUM, &options, NULL));
    say("sum", hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM));
}

/* Rank 1 has nothing to say any more. */
static void alone_behind_run(void)
{
    say("run", run(meet_once, NULL));
    if (hvd_rank() == 0)
        say("barrier", hvd_barrier());
}

static hvd_status_t fail(hvd_state_t *state, void *arg)
{
    HVD_TRY(hvd_barrier());
    return HVD_USER_STATUS_MAX;
}

static void behind_failure(void)
{
    say("run", run(fail, NULL));
    say("barrier", hvd_barrier());
}

/* ---- the first call of a static program ---------------------------------- */

static void first_call(void)
{
    float x = 1;

    say("first", hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM));
    printf("size %d, sum %g\n", hvd_size(), (double)x);
}

static void first_queued(void)
{
    hvd_request_t *request;
    float x = 1;

    say("first",
        hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, NULL, &request));
    printf("size %d, ", hvd_size());
    if (hvd_wait(&request) == HVD_OK)
        printf("sum %g\n", (double)x);
}

static void world_start(void)
{
    say("first", hvd_world_start());
}

/* ---- calls by name on another thread ------------------------------------- */

static hvd_status_t issue_by_name(float *x, hvd_request_t **request_p)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.key = "x";
    return hvd_allreduce_with(x, x, 1, HVD_FLOAT32, HVD_SUM, &options,
                              request_p);
}

static void *call_by_name(void *arg)
{
    float x = 1;

    say(arg, issue_by_name(&x, NULL));
    return NULL;
}

static void elsewhere_first(void)
{
    static char too_early[] = "too early", later[] = "later";

    run_elsewhere(call_by_name, too_early);
    say("barrier", hvd_barrier());
    run_elsewhere(call_by_name, later);
}

/* Heartbeats show that it is busy from just before it waits. */
static void *wait_by_name(void *arg)
{
    hvd_status_t *status = arg;
    hvd_request_t *request;
    float x = 1;

    *status = issue_by_name(&x, &request);
    hvd_busy_begin(BUSY_MS);
    if (*status == HVD_OK)
        *status = hvd_wait(&request);
    hvd_busy_end();
    return NULL;
}

/* Rank 1 comes when the test has seen enough. */
static hvd_status_t wait_for_rank_1(hvd_state_t *state, void *arg)
{
    const bool *elsewhere = arg;
    hvd_status_t status = HVD_ERR_SYSTEM;
    sigset_t signals;
    int signo;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    if (hvd_rank() == 1)
        sigwait(&signals, &signo);
    if (*elsewhere)
        run_elsewhere(wait_by_name, &status);
    else
        wait_by_name(&status);
    return status;
}

static void wait_here(void)
{
    bool elsewhere = false;

    say("run", run(wait_for_rank_1, &elsewhere));
}

static void wait_elsewhere(void)
{
    bool elsewhere = true;

    say("run", run(wait_for_rank_1, &elsewhere));
}

/* ---- communicators of their members alone -------------------------------- */

static hvd_status_t sum_in(hvd_comm_t *comm, float *x)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.comm = comm;
    return hvd_allreduce_with(x, x, 1, HVD_FLOAT32, HVD_SUM, &options, NULL);
}

/* Rank 1 is alone in one before it comes to that of both. */
static hvd_status_t meet_in_groups(hvd_state_t *state, void *arg)
{
    const int self[] = {hvd_rank()}, other[] = {1 - hvd_rank()};
    const int both[] = {0, 1}, other_order[] = {1, 0};
    hvd_comm_t *comm;
    float x = 1;

    if (hvd_rank() == 1) {
        say("order", hvd_comm_create_group(other_order, 2, "both", &comm));
        say("alone", hvd_comm_create_group(self, 1, "alone", &comm));
        say("alone again", hvd_comm_create_group(self, 1, "alone", &comm));
        say("not in it", hvd_comm_create_group(other, 1, "other", &comm));
        say("no name", hvd_comm_create_group(self, 1, "", &comm));
    }
    say("both", hvd_comm_create_group(both, 2, "both", &comm));
    say("sum", sum_in(comm, &x));
    printf("rank %d of %d, sum %g\n", hvd_comm_rank(comm), hvd_comm_size(comm),
           (double)x);
    say("destroy", hvd_comm_destroy(comm));
    return HVD_OK;
}

static void groups(void)
{
    say("run", run(meet_in_groups, NULL));
}

/* ---- the poll function --------------------------------------------------- */

static int n_polls;

/* The driver has told it to start; the world never comes. */
static hvd_status_t poll_thrice(void *arg)
{
    int *n = arg;

    return ++*n < 3 ? HVD_OK : HVD_USER_STATUS_MAX;
}

/* The others may leave at the boundary where this rank has stopped to wait. */
static hvd_status_t commit_on(hvd_state_t *state, void *arg)
{
    hvd_status_t status = HVD_OK;

    while (status == HVD_OK)
        status = hvd_state_commit(state);
    say("stopped", status);
    status = hvd_state_commit(state);
    say("again", status);
    return status;
}

static void polled_at_boundary(void)
{
    say("run", run(commit_on, NULL));
}

static void polled(void)
{
    n_polls = 0;
    say("run", run(meet_once, NULL));
    printf("polls %d\n", n_polls);
}

static const struct {
    const char *name;
    void (*play)(void);
} scenes[] = {
    {"before_run", before_run},
    {"behind_run", behind_run},
    {"alone_behind_run", alone_behind_run},
    {"behind_failure", behind_failure},
    {"last_words", last_words},
    {"first_call", first_call},
    {"first_queued", first_queued},
    {"world_start", world_start},
    {"elsewhere_first", elsewhere_first},
    {"polled", polled},
    {"polled_at_boundary", polled_at_boundary},
    {"groups", groups},
    {"wait_here", wait_here},
    {"wait_elsewhere", wait_elsewhere},
};

/* Before the library's threads are there, which inherit it. */
static void block_signal(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int main(int argc, char **argv)
{
    hvd_config_t config = HVD_CONFIG_INIT;

    block_signal();
    config.poll_arg = &n_polls;
    if (argc == 2 && strncmp(argv[1], "polled", 6) == 0)
        config.poll_fn = poll_thrice;
    if (argc != 2 || hvd_init(&config) != HVD_OK)
        return 2;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        if (strcmp(argv[1], scenes[i].name) == 0)
            scenes[i].play();
    say("shutdown", hvd_shutdown());
    return fflush(stdout) == 0 ? 0 : 1;
}
