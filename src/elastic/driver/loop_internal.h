/* elastic/driver/loop_internal.h - what the files of the loop share: loop.c
 * (the wait and the world), perform.c (actions), inbox.c (messages). */
#ifndef ELASTIC_DRIVER_LOOP_INTERNAL_H
#define ELASTIC_DRIVER_LOOP_INTERNAL_H

#include <signal.h>

#include "base/log.h"
#include "base/mac.h"
#include "discovery/name_query.h"
#include "discovery/script.h"
#include "elastic/driver/core.h"
#include "elastic/driver/events.h"
#include "elastic/driver/launch.h"
#include "elastic/driver/lead.h"
#include "elastic/driver/network.h"
#include "elastic/driver/options.h"
#include "elastic/driver/output.h"
#include "elastic/driver/peers.h"
#include "elastic/driver/speakers.h"
#include "elastic/driver/status.h"
#include "elastic/wire/address.h"
#include "elastic/wire/socket.h"

/* The output of an agent that has ended is waited for until then. */
struct parting {
    uint64_t agent, at_us;
};

/* Where a driver listens, or wants to. */
struct loop_place {
    char address[ADDRESS_ENDPOINT_MAX];
    uint16_t port, output_port;
};

enum {
    AGENT_STOP_US = 5000000, /* for an agent's end, or its next output then */
    FILES_HOLD_US = 5000000, /* see loop_hold_time() */
    HANG_PART = 4            /* of --hang-timeout */
};

/* An agent whose client has ended; its connection is watched until then. */
struct bereft {
    struct launch_end end;
    uint64_t until_us;
};

/* The newest commit, and when it was noticed; the rate is from the oldest
 * sample to the last. */
struct loop_sample {
    uint64_t n, at_us;
};

struct loop_commits {
    struct loop_sample oldest, middle, last;
};

struct loop {
    const struct options *options;
    struct heir *heir; /* what it takes over; NULL: it begins the job */
    struct lead lead;
    uint64_t job, started_us;
    bool hosts_due; /* fixed ones: the core has yet to hear of them */
    struct driver driver;
    struct wire_context *context;
    struct wire_gate *gate;
    bool gate_open, gate_stays_open;
    struct wire_router *router, *output_router;
    struct peers peers, output_peers;
    struct launch launch;
    struct command script;
    struct output output;
    struct status status;
    struct events events;
    int epoll_fd, signal_fd;
    sigset_t signals; /* of signal_fd */
    int wake_fd;      /* there is room again where our words go */
    uint8_t secret[WIRE_TOKEN_NBYTES]; /* of it all tokens are made */
    char endpoint[64], output_endpoint[64];
    /* where agents on other machines find us, as many, with commas */
    bool network_chosen;
    struct network network;
    char far_endpoints[WIRE_ENDPOINTS_MAX];
    char far_outputs[WIRE_ENDPOINTS_MAX];
    /* where agents call, and the driver before listens still */
    struct loop_place held[WIRE_ROUTER_ENDPOINTS];
    size_t n_held;
    size_t n_stopgaps;          /* places at ports of no other driver's */
    uint64_t held_us, began_us; /* the next try; when this driver began */
    bool before_ended;          /* the driver before that hung, by a signal */
    uint64_t next_discovery_us;
    bool script_open, script_fails; /* fails: its last run has */
    /* the newest complaint about lines of the script, and when it is repeated,
     * or another one told */
    char skipped[HOSTS_ERROR_MAX];
    uint64_t skipped_again_us, skipped_next_us;
    /* a question to a name service, until when; the list that waits for it */
    struct name_query *query; /* NULL: nothing */
    char queried[HOSTS_NAME_MAX];
    uint64_t query_until_us;
    struct hosts pending_hosts;
    /* the current generation: its key, its table encoded once for all, and once
     * for those who know the one before; NULL: nobody has needed that yet */
    uint64_t keyed_generation;
    uint8_t key[WIRE_KEY_NBYTES];
    struct wire_shared *table, *change;
    /* what every SPAWN says */
    char *argv_packed;
    uint32_t argv_nbytes;
    char *env; /* heap: for all workers; and for those on other machines, whose
                  agents have another environment than we */
    char *env_elsewhere;
    uint32_t env_nbytes, env_elsewhere_nbytes;
    char cwd[PATH_MAX];
    /* agents that could not be started: told to the core after the step */
    uint64_t *stillborn; /* [n_stillborn] agent ids */
    size_t n_stillborn, stillborn_max;
    char stillborn_text[256];
    /* a generation whose ASSIGN cannot be said, 0: none; told likewise */
    uint64_t untold_generation;
    char untold_text[256];
    struct speakers speakers;
    uint64_t n_outputs; /* messages of output that were taken */
    struct parting *partings;
    size_t n_partings, partings_max;
    struct bereft *bereft; /* loop_clients.c; looked at again then: */
    size_t n_bereft, bereft_max;
    uint64_t bereft_us;
    struct log_seldom refused, late; /* whose words do not count */
    struct log_seldom unknown;       /* who was not let in */
    struct log_seldom later;         /* who is started later */
    uint64_t view_us; /* the status line's numbers are made anew then */
    struct loop_commits commits;
    uint64_t wait_line_us; /* a log gets its next line about waiting then; 0:
                              the job does not wait */
    uint64_t ran_us;       /* loop_acts() */
    bool sent, finished;
    int exit_status;
    char verdict[WIRE_TEXT_MAX];
};

/* How long workers may have to wait until --output-filename takes their output:
 * not so long that they seem to hang. 0: not at all. */
static inline uint64_t loop_hold_time(const struct loop *l)
{
    uint64_t hang_us = l->options->hang_timeout_us;

    if (!l->options->output_dir)
        return 0;
    return hang_us > 0 && hang_us / HANG_PART < FILES_HOLD_US
               ? hang_us / HANG_PART
               : FILES_HOLD_US;
}

static inline uint64_t loop_stop_time(const struct loop *l)
{
    return AGENT_STOP_US + loop_hold_time(l);
}

/* Give the core one event and do what it says. */
void loop_feed(struct loop *l, const struct driver_event *ev);

/* loop_status.c: on a terminal, and now and then. */
void loop_show_status(struct loop *l, uint64_t now_us);
uint64_t loop_status_deadline(const struct loop *l);
/* Before rows of workers that have finished are gone. */
void loop_count_commits(struct loop *l, uint64_t now_us);
/* The words of the status line, as a line of the log. */
void loop_tell_status(struct loop *l);
/* The sum of a job that has succeeded. */
void loop_tell_finished(const struct loop *l, uint64_t generations);

/* loop_end.c */

/* What workers have printed before they ended. */
void loop_collect_output(struct loop *l);
/* Then the verdict, and our streams are closed. failed: the worker whose last
 * line on stderr may be the cause; 0: none. */
void loop_close_output(struct loop *l, int exit_status, uint64_t failed);

/* loop_hosts.c */

/* A list of hosts, for the core; perhaps later: loop_hear_names(). */
void loop_feed_hosts(struct loop *l, const struct hosts *hosts);
/* Each turn, and at loop_names_deadline(): is there an answer? */
void loop_hear_names(struct loop *l, uint64_t now_us);
uint64_t loop_names_deadline(const struct loop *l);
void loop_forget_names(struct loop *l);
/* Lines of the script that are no hosts: at once, and now and then. "": none */
void loop_tell_skipped(struct loop *l, const char *what, uint64_t now_us);

/* loop_signals.c */

/* Before libzmq starts its threads. Opens epoll_fd, too. */
hvd_status_t loop_open_signals(struct loop *l) HVD_MUST_CHECK;
void loop_hear_signals(struct loop *l);

/* loop_network.c */

/* Other machines may be among these: then our sockets listen where they can be
 * reached, and agents do. Once; HVD_ERR: they cannot, which ends the job. */
hvd_status_t loop_choose_network(struct loop *l,
                                 const struct hosts *hosts) HVD_MUST_CHECK;
/* The same by those that the driver before had. */
hvd_status_t loop_inherit_network(struct loop *l,
                                  const struct memory *m) HVD_MUST_CHECK;
/* false: whether others reach it has to be found out first; then it is fed. */
bool network_meets(struct loop *l, const struct msg_agent_hello *hello);
void network_hears(struct loop *l, uint64_t agent, const struct msg_probed *m);
/* Where others call, in the words of the journal. */
void loop_list_places(const struct loop *l, struct entry_places *places);
/* When it is tried again to listen. */
uint64_t loop_listen_deadline(const struct loop *l);
/* Whatever is to be done by now. */
void network_look(struct loop *l, uint64_t now_us);

/* loop_clients.c: processes that the launcher started have ended. */
void clients_reap(struct loop *l);
/* Has an agent whose client has ended followed it? */
void clients_look(struct loop *l, uint64_t now_us);
uint64_t clients_deadline(const struct loop *l);

/* loop_lead.c: the event log and the timeline. One that a successor cannot open
 * is a warning: the driver before would have gone on without it. */
hvd_status_t loop_open_sinks(struct loop *l) HVD_MUST_CHECK;

/* loop_lead.c: a successor leads; or it cannot begin, and its caller may try
 * again. */
void loop_say_succession(const struct loop *l);
void loop_cannot_begin(struct loop *l, const char *why);

/* loop_env.c: what SPAWN says of the environment */
hvd_status_t loop_pack_env(struct loop *l) HVD_MUST_CHECK;
/* ... and of the program, and the directory that it starts in. */
hvd_status_t loop_pack_program(struct loop *l) HVD_MUST_CHECK;

/* Who starts agents, and what it has to know. */
hvd_status_t loop_open_launch(struct loop *l) HVD_MUST_CHECK;

/* loop_lead.c */

/* With --job-dir: from now on what happens is written down, and others find us.
 */
hvd_status_t loop_open_lead(struct loop *l) HVD_MUST_CHECK;
/* Its number, and when it began. */
void loop_identify(struct loop *l, uint64_t now_us);
hvd_status_t loop_make_secret(struct loop *l) HVD_MUST_CHECK;
/* What SPAWN adds to the environment, as the job was started with it. False: no
 * memory. */
bool loop_inherit_env(struct loop *l);
/* After a wait. False: another driver does; the loop ends. */
bool loop_leads(struct loop *l);
/* Before anything is started, told, killed or written down: whoever was away
 * for long since the last time looks once more. False: likewise. */
bool loop_acts(struct loop *l);
/* The same, by a look at DIR/driver now. */
bool loop_looks(struct loop *l);
/* Those of the driver before: they are watched, or told of as gone. */
void loop_adopt_agents(struct loop *l);

/* perform.c */
void perform(struct loop *l, const struct driver_action *action,
             uint64_t now_us);
bool loop_watch(struct loop *l, int fd);
/* What is lost is said again. */
void loop_tell_agent(struct loop *l, uint64_t agent, const struct message *m);

/* guests.c: token [WIRE_TOKEN_NBYTES] */
void guests_agent_token(const struct loop *l, uint64_t agent, uint8_t *token);
void guests_worker_token(const struct loop *l, uint64_t agent, uint64_t worker,
                         uint8_t *token);
/* The agent (worker 0), or this worker of it, may connect from now on. false:
 * no memory, so it cannot. */
bool guests_expect(struct loop *l, uint64_t agent, uint64_t worker);
/* The same of one that another driver has started. */
void guests_recognise(struct loop *l, uint64_t agent, uint64_t worker);
/* A successor knows who is there: nobody else comes in. */
void guests_close_gate(struct loop *l);
/* Now and then: a line about those that were not let in. */
void guests_tell_refused(struct loop *l);
/* Whom the driver before has written down, and agents that it may have started
 * since: some 50 ms. */
void guests_expect_known(struct loop *l, const struct memory *m);

/* inbox.c: a bounded number of messages, so that signals, deaths and deadlines
 * have their turn however many come. true: there was something, look again
 * before you sleep. *empty_p: all that had come was taken. */
bool inbox_drain(struct loop *l, bool *empty_p);
bool inbox_drain_output(struct loop *l);
void loop_part_from_the_dead(struct loop *l);
void inbox_agent_ended(struct loop *l, uint64_t agent);

#endif
