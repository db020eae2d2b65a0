/* tests/integration/pattern_worker.c - a program whose operands consist of one
 * word alone: whoever finds the word outside of its workers has read them.
 *
 * usage: pattern_worker WORD, of 8 bytes. Prints "moved <bytes>". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/hvd.h>

enum { COUNT = 32768, ROUNDS = 10 };

static int64_t words[COUNT], results[COUNT];

/* The greatest of equal words is the word. */
static hvd_status_t move(size_t count)
{
    hvd_status_t status = hvd_broadcast(words, count, HVD_INT64, 0);

    if (status != HVD_OK)
        return status;
    return hvd_allreduce(words, results, count, HVD_INT64, HVD_MAX);
}

int main(int argc, char **argv)
{
    hvd_status_t status = hvd_init(NULL);

    if (argc != 2 || strlen(argv[1]) != sizeof(words[0]))
        return 2;
    for (size_t i = 0; i < COUNT; i++)
        memcpy(&words[i], argv[1], sizeof(words[i]));
    for (int i = 0; i < ROUNDS && status == HVD_OK; i++) {
        status = move(COUNT);
        if (status == HVD_OK)
            status = move(1);
    }
    if (status != HVD_OK || memcmp(words, results, sizeof(words)) != 0) {
        fprintf(stderr, "WRONG: %s\n", hvd_last_error());
        return 1;
    }
    printf("moved %zu\n", ROUNDS * sizeof(words));
    return hvd_shutdown() == HVD_OK ? 0 : 1;
}
