/* elastic/agent/loop_internal.h - what the files of the loop share: loop.c (the
 * wait and the world), contact.c (the driver, and who comes after it),
 * notice_script.c (whether this host will go). */
#ifndef ELASTIC_AGENT_LOOP_INTERNAL_H
#define ELASTIC_AGENT_LOOP_INTERNAL_H

#include "base/command.h"
#include "base/log.h"
#include "elastic/agent/children.h"
#include "elastic/agent/core.h"
#include "elastic/agent/loop.h"
#include "elastic/wire/scout.h"
#include "elastic/wire/socket.h"

/* What an epoll event is about: kind in the low bits, worker above. Worker ids
 * are counted from 1 and never come near 2^60. */
enum kind {
    KIND_CONTROL,
    KIND_OUTPUT,
    KIND_SIGNAL,
    KIND_LIFELINE,
    KIND_NOTICE,
    KIND_PIDFD,
    KIND_REPORT,
    KIND_STDOUT,
    KIND_STDERR,
    KIND_BITS = 4
};

struct loop {
    const struct loop_options *options;
    struct spawn_site site;
    struct agent_core core;
    struct children children;
    struct wire_context *context;
    struct wire_dealer *control, *output;
    struct beacon driver; /* term 0: the one that has started us */
    struct scout *scout;  /* NULL: without --job-dir */
    uint64_t look_us;     /* for a successor, not before */
    int epoll_fd, signal_fd;
    int lifeline[2]; /* the workers': read end inherited, write end only here */
    struct log_seldom unexpected;
    bool output_hello_sent, output_welcome; /* on the connection for output */
    uint64_t credit;
    uint64_t settle_us;
    struct command notice; /* if notice_open; the next run is at notice_us */
    bool notice_open, notice_fails;
    uint64_t notice_us;
    bool ended; /* the core wants to exit; the last output goes out */
    uint64_t flush_us;
    int status;
};

/* Give the core one event and do what it says. */
void loop_feed(struct loop *l, struct agent_event *ev);
/* false: errno. */
bool loop_watch(struct loop *l, int fd, enum kind kind, uint64_t worker);

/* contact.c */

/* Both sockets, or none: those before stay then. */
hvd_status_t contact_dial(struct loop *l, const char *endpoint,
                          const char *output_endpoint) HVD_MUST_CHECK;
/* The driver is silent: has another one taken over? */
void contact_look(struct loop *l, uint64_t now_us);

/* notice_script.c */

void notice_open(struct loop *l);
void notice_close(struct loop *l);
/* It has something to say, or is due. */
void notice_look(struct loop *l, uint64_t now_us);
uint64_t notice_deadline(const struct loop *l);

#endif
