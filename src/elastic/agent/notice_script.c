/* elastic/agent/notice_script.c - runs --notice-script now and then, and tells
 * the core if it says that this host will go. See notice.h.
 *
 * It is told again what the script says, as the time may get shorter. A script
 * that fails is named once, and again when it has worked in between.
 *
 * Threads: the loop's. Memory: the command's output, in the loop. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/agent/loop_internal.h"
#include "elastic/agent/notice.h"

#define WHO "--notice-script"

enum {
    EVERY_US = 5000000, /* as clouds advise: they tell 30 s before, or more */
    LONGEST_US = 5000000
};

void notice_open(struct loop *l)
{
    const char *path = l->options->notice_script;

    if (!path)
        return;
    l->notice_open = command_init(&l->notice, WHO, path, LONGEST_US) == HVD_OK;
    l->children.helper = &l->notice;
    if (!l->notice_open)
        log_warn("%s -> nobody will know before that this host goes",
                 error_text());
}

void notice_close(struct loop *l)
{
    if (l->notice_open)
        command_fini(&l->notice);
    l->notice_open = false;
}

static void note_failure(struct loop *l, const char *text)
{
    if (!l->notice_fails)
        log_warn("%s -> it is tried again every %d s", text,
                 EVERY_US / 1000000);
    l->notice_fails = true;
}

static void start(struct loop *l, uint64_t now_us)
{
    l->notice_us = now_us + EVERY_US;
    if (command_start(&l->notice, now_us) != HVD_OK)
        note_failure(l, error_text());
    else if (!loop_watch(l, l->notice.epoll_fd, KIND_NOTICE, 0))
        log_debug("epoll_ctl failed -> a script is judged by its deadline");
}

static void take(struct loop *l)
{
    struct agent_event ev = {.type = AGENT_EV_NOTICE};
    const char *output = l->notice.output ? l->notice.output : "";
    char why[WIRE_TEXT_MAX];

    ev.text = why;
    switch (notice_parse(output, l->notice.n_output, &ev.left_us, why)) {
    case NOTICE_GOES:
        loop_feed(l, &ev);
        break;
    case NOTICE_STAYS:
        break;
    case NOTICE_NONSENSE:
        error_set(HVD_ERR_INVALID,
                  WHO ": \"%s\": \"%s\" is not a number of seconds (0 to %d)",
                  l->notice.path, why, NOTICE_MAX_S);
        note_failure(l, error_text());
        return;
    }
    l->notice_fails = false;
}

static void step(struct loop *l, uint64_t now_us)
{
    enum command_result result = command_step(&l->notice, now_us);

    if (result == COMMAND_RUNNING)
        return;
    if (result == COMMAND_DONE)
        take(l);
    else
        note_failure(l, error_text());
    loop_reap(l); /* it may have hidden some */
}

void notice_look(struct loop *l, uint64_t now_us)
{
    if (!l->notice_open || l->ended)
        return;
    if (l->notice.running)
        step(l, now_us);
    else if (now_us >= l->notice_us)
        start(l, now_us);
}

uint64_t notice_deadline(const struct loop *l)
{
    if (!l->notice_open || l->ended)
        return CLOCK_NEVER;
    return l->notice.running ? l->notice.deadline_us : l->notice_us;
}
