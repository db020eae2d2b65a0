/* elastic/agent/loop_internal.h - what the files of the loop share: loop.c (the
 * wait and the world), contact.c (the driver, and who comes after it),
 * notice_script.c (whether this host will go). */
#ifndef ELASTIC_AGENT_LOOP_INTERNAL_H
#define ELASTIC_AGENT_LOOP_INTERNAL_H

#include <limits.h>

#include "base/command.h"
#include "base/log.h"
#include "elastic/agent/children.h"
#include "elastic/agent/core.h"
#include "elastic/agent/deaths.h"
#include "elastic/agent/loop.h"
#include "elastic/agent/orphans.h"
#include "elastic/agent/probe.h"
#include "elastic/wire/address.h"
#include "elastic/wire/claim.h"
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
    KIND_PROBE,
    KIND_CLAIM,
    KIND_DEATHS,
    KIND_PIDFD,
    KIND_REPORT,
    KIND_STDOUT,
    KIND_STDERR,
    KIND_BITS = 4
};

enum { OUTPUT_RENEW_US = 15000000 }; /* as long as TCP tries: wire/socket.c */

/* Where the driver's two sockets may be reached. */
struct door {
    char control[ADDRESS_ENDPOINT_MAX], output[ADDRESS_ENDPOINT_MAX];
};

struct loop {
    const struct loop_options *options;
    struct spawn_site site;
    struct agent_core core;
    struct children children;
    struct deaths *deaths;   /* NULL: exits alone tell of them */
    struct orphans *orphans; /* NULL: no thread looks after them */
    bool reaping;            /* there may be more that has ended */
    struct wire_context *context;
    struct wire_dealer *control, *output;
    struct wire_dealer *spare; /* NULL, or a second connection for control that
                                  the driver has not answered yet */
    struct beacon driver;      /* term 0: the one that has started us */
    struct scout *scout;       /* NULL: without --job-dir; it may see nothing on
                             another machine than the driver's */
    uint64_t look_us;          /* for a successor, not before */
    struct door doors[WIRE_ROUTER_ENDPOINTS]; /* [n_doors], the nearest first */
    size_t n_doors, door, spare_door;         /* of control, of spare */
    uint64_t knock_us, complain_us; /* at the next; that nobody answers,
                                       CLOCK_NEVER: said */
    size_t n_knocks;                /* since the driver was heard last */
    char own_dir[PATH_MAX]; /* "", or where this agent tells its workers of a
                               successor when there is one */
    uint64_t keep_us;       /* it is kept from cleaners then */
    /* what workers that start are told: its doors, that of ours first */
    char places[WIRE_ENDPOINTS_MAX];
    struct probe probe;
    char reach[WIRE_REACH_MAX]; /* what HELLO says of its addresses */
    int epoll_fd, signal_fd;
    int claim_fd; /* of claims.c; -1: none */
    char claim_name[CLAIM_NAME_MAX];
    int lifeline[2]; /* the workers': read end inherited, write end only here */
    struct log_seldom unexpected;
    bool output_hello_sent, output_welcome; /* on the connection for output */
    uint64_t credit;
    size_t n_owed;           /* OUTPUT without CREDIT yet, by this connection */
    uint64_t owed_us;        /* since the last CREDIT; or the first OUTPUT */
    uint64_t renew_pause_us; /* after so long the connection is another one */
    bool output_lost;        /* the driver lacks what was sent before */
    uint64_t renew_us;       /* then not before, as the last try failed */
    bool renewed_at_end;
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
/* An agent that ends waits as long again for the driver's next CREDIT. */
void loop_flush_longer(struct loop *l);
/* false: errno. */
bool loop_watch(struct loop *l, int fd, enum kind kind, uint64_t worker);

/* loop_children.c */

/* Before the first worker: have deaths told as soon as they begin. */
void loop_watch_deaths(struct loop *l);
void loop_start(struct loop *l, const struct msg_spawn *spawn);
/* Its exec may be done, or have failed. */
void loop_on_report(struct loop *l, struct child *child);
/* Some may have begun to end. */
void loop_on_deaths(struct loop *l);
/* It may have ended. */
void loop_on_pidfd(struct loop *l, struct child *child);
/* Reap strangers, as many as a turn is good for. */
void loop_reap(struct loop *l);

/* contact.c */

/* With a directory of the job: look whether it is seen. */
hvd_status_t contact_scout(struct loop *l) HVD_MUST_CHECK;
/* Knock at the first of the driver's doors. */
hvd_status_t contact_open(struct loop *l) HVD_MUST_CHECK;
/* Nobody has answered at this door: the next one. The driver is silent: has
 * another one taken over? */
void contact_look(struct loop *l, uint64_t now_us);
void contact_drop_spare(struct loop *l);
/* The driver has answered by the spare connection, which is used from now on.
 * Nothing happens if there is none. */
void contact_move(struct loop *l);
/* True: a successor has, with *m, and has been followed. */
bool contact_succeed(struct loop *l, const struct message *m);
/* Remove own_dir. */
void contact_close(struct loop *l);

/* probing.c */

/* With a network: answer there, and say so in HELLO. */
hvd_status_t probing_open(struct loop *l) HVD_MUST_CHECK;
void probing_hear(struct loop *l, const struct message *m);
/* Whatever can be done now. */
void probing_look(struct loop *l, uint64_t now_us);

/* claims.c */

/* Before workers start. Without a socket they do with what they inherit. */
void claims_open(struct loop *l);
void claims_close(struct loop *l);
void claims_look(struct loop *l);

/* notice_script.c */

void notice_open(struct loop *l);
void notice_close(struct loop *l);
/* It has something to say, or is due. */
void notice_look(struct loop *l, uint64_t now_us);
uint64_t notice_deadline(const struct loop *l);

#endif
