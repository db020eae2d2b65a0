/* elastic/driver/loop_end.c - the end of the loop: the last output, and the
 * sentence about the job. See loop_internal.h. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/fd.h"
#include "elastic/driver/loop_internal.h"

enum {
    OUTPUT_QUIET_US = 100000, /* nothing more is on its way */
    OUTPUT_DRAIN_MS = 1000    /* for a slow reader of our own stdout */
};

static void await_output(struct loop *l)
{
    struct pollfd fds[] = {
        {.fd = wire_router_fd(l->output_router), .events = POLLIN},
        {.fd = l->wake_fd, .events = POLLIN}};
    eventfd_t n;

    poll(fds, ARRAY_SIZE(fds), 10);
    (void)eventfd_read(l->wake_fd, &n);
    output_flush(&l->output);
}

/* Output that agents sent before they ended may still be in our socket. What a
 * killed agent's workers have left open never ends: a quiet moment does, too,
 * unless it is us who ask for nothing, as files take nothing just now. */
void loop_collect_output(struct loop *l)
{
    uint64_t now_us = clock_now_us(), quiet_us = now_us;

    while (l->speakers.n_streams > 0 && now_us - quiet_us < OUTPUT_QUIET_US) {
        uint64_t n_outputs = l->n_outputs;

        (void)inbox_drain_output(l);
        if (l->n_outputs > n_outputs ||
            output_deadline(&l->output) != CLOCK_NEVER)
            quiet_us = now_us;
        await_output(l);
        now_us = clock_now_us();
    }
}

/* Why the job has failed, with the cause as the program has told it. */
static void say_verdict(struct loop *l, int exit_status, uint64_t failed)
{
    char line[WIRE_TEXT_MAX + LAST_WORDS_MAX + 96], words[LAST_WORDS_MAX];

    if (exit_status == 1 && output_last_words(&l->output, failed, words) &&
        !last_words_are_in(words, l->verdict))
        snprintf(line, sizeof(line),
                 "hvd-elastic: %s; worker %" PRIu64
                 " failed first, its last line: %s",
                 l->verdict, failed, words);
    else
        snprintf(line, sizeof(line), "hvd-elastic: %s", l->verdict);
    output_say(&l->output, line);
}

/* Last, and the verdict last of all: what else has ended badly is told before.
 */
void loop_close_output(struct loop *l, int exit_status, uint64_t failed)
{
    output_close_files(&l->output);
    status_fini(&l->status);
    if (exit_status != 0 && l->verdict[0])
        say_verdict(l, exit_status, failed);
    output_close_streams(&l->output, OUTPUT_DRAIN_MS);
    log_set_sink(NULL, NULL);
    output_fini(&l->output);
    fd_close(&l->wake_fd);
}
