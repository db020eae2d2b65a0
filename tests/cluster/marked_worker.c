/* tests/cluster/marked_worker.c - an elastic program all of whose data is one
 * mark, over and over: who listens on the wire knows at once whether it passes
 * there in the clear.
 *
 *     marked_worker DIR
 *
 * The state is MARK again and again, so a newcomer's sync sends nothing else,
 * and so does each broadcast; in each allreduce (a MAX of bytes) all contribute
 * it. It trains until the file DIR/epoch is there, and prints "final digest" as
 * trainer does.
 *
 * Threads: one. Memory: static. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

#define MARK "a tensor in the clear "

enum { NBYTES = 1 << 17, REST_US = 20000 };

static unsigned char state_bytes[NBYTES], tensor[NBYTES];
static uint64_t step;
static char path[512];

static void mark(unsigned char *bytes)
{
    for (size_t i = 0; i < NBYTES; i++)
        bytes[i] = (unsigned char)MARK[i % (sizeof(MARK) - 1)];
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    int64_t end = 0;

    while (!end) {
        struct timespec rest = {.tv_nsec = REST_US * 1000L};

        end = hvd_rank() == 0 && access(path, F_OK) == 0;
        HVD_TRY(hvd_broadcast(&end, 1, HVD_INT64, 0));
        mark(tensor);
        HVD_TRY(hvd_broadcast(tensor, NBYTES, HVD_UINT8, 0));
        HVD_TRY(hvd_allreduce(tensor, tensor, NBYTES, HVD_UINT8, HVD_MAX));
        if (memcmp(tensor, state_bytes, NBYTES) != 0)
            fprintf(stderr, "WRONG: the mark at step %" PRIu64 "\n", step);
        nanosleep(&rest, NULL);
        step++;
        HVD_TRY(hvd_state_commit(state));
    }
    return HVD_OK;
}

static hvd_status_t run(hvd_state_t *state)
{
    HVD_TRY(hvd_state_add(state, "marked", state_bytes, NBYTES));
    HVD_TRY(hvd_state_add(state, "step", &step, sizeof(step)));
    return hvd_elastic_run(state, train, NULL);
}

int main(int argc, char **argv)
{
    hvd_status_t status = hvd_init(NULL);
    hvd_state_t *state;

    if (argc != 2 || hvd_state_create(&state) != HVD_OK)
        return 2;
    snprintf(path, sizeof(path), "%s/epoch", argv[1]);
    mark(state_bytes);
    if (status == HVD_OK)
        status = run(state);
    hvd_state_destroy(state);
    if (status == HVD_OK)
        status = hvd_shutdown();
    if (status != HVD_OK) {
        fprintf(stderr, "%s: %s\n", hvd_strerror(status), hvd_last_error());
        return 1;
    }
    printf("final digest %016" PRIx64 " steps %" PRIu64 "\n", step, step);
    return fflush(stdout) == 0 ? 0 : 1;
}
