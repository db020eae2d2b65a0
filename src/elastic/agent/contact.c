/* elastic/agent/contact.c - the agent's sockets to the driver, and to who comes
 * after it (M15).
 *
 * Threads: the loop's. Memory: the sockets, in the loop. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/agent/loop_internal.h"

enum {
    LOOK_US = 100000, /* how often a successor is looked for */
    SILENT_BEATS = 3  /* without a word, and it is */
};

static void hang_up(struct loop *l, struct wire_dealer *dealer)
{
    if (!dealer)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, wire_dealer_fd(dealer), NULL);
    wire_dealer_destroy(dealer);
}

/* Output that the other driver had taken and not yet
 * written is lost with it; no more than the credit was. */
hvd_status_t contact_dial(struct loop *l, const char *endpoint,
                          const char *output_endpoint)
{
    struct wire_dealer *control, *output;
    char name[32];

    snprintf(name, sizeof(name), "a%" PRIu64, l->options->config.hello.agent);
    HVD_TRY(wire_dealer_create(l->context, endpoint, name, &l->options->secrets,
                               &control));
    if (wire_dealer_create(l->context, output_endpoint, name,
                           &l->options->secrets, &output) != HVD_OK) {
        wire_dealer_destroy(control);
        return HVD_ERR_SYSTEM;
    }
    hang_up(l, l->control);
    hang_up(l, l->output);
    l->control = control;
    l->output = output;
    l->output_hello_sent = l->output_welcome = false;
    l->credit = OUTPUT_WINDOW;
    if (!loop_watch(l, wire_dealer_fd(control), KIND_CONTROL, 0) ||
        !loop_watch(l, wire_dealer_fd(output), KIND_OUTPUT, 0))
        return error_errno("cannot watch the driver's sockets");
    return HVD_OK;
}

static void follow(struct loop *l, const struct beacon *b)
{
    struct agent_event ev = {.type = AGENT_EV_SUCCESSOR, .term = b->term};

    if (contact_dial(l, b->endpoint, b->output_endpoint) != HVD_OK) {
        log_warn("driver of term %" PRIu64 ": %s -> tried again", b->term,
                 error_text());
        return;
    }
    log_info("the driver is silent -> following that of term %" PRIu64
             ", pid %" PRId64,
             b->term, b->pid);
    l->driver = *b;
    l->site.driver = l->driver.endpoint; /* of workers that start from now on */
    loop_feed(l, &ev);
}

static bool is_silent(const struct loop *l, uint64_t now_us)
{
    return now_us - l->core.heard_us > SILENT_BEATS * l->core.config.beat_us;
}

/* Who has not answered yet may be the one that was dialled. */
static bool is_another(const struct loop *l, const struct beacon *b)
{
    return b->job == l->options->config.job && b->term > l->core.term &&
           (l->core.term != 0 || strcmp(b->endpoint, l->site.driver) != 0);
}

void contact_look(struct loop *l, uint64_t now_us)
{
    struct beacon b;

    if (!l->scout || l->ended || now_us < l->look_us || !is_silent(l, now_us))
        return;
    l->look_us = now_us + LOOK_US;
    if (scout_look(l->scout, 0, &b) && is_another(l, &b))
        follow(l, &b);
}
