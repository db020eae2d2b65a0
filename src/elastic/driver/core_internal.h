/* elastic/driver/core_internal.h - shared by the files of the driver's core.
 * See core.h. Pure. */
#ifndef ELASTIC_DRIVER_CORE_INTERNAL_H
#define ELASTIC_DRIVER_CORE_INTERNAL_H

#include "base/array.h"
#include "base/moves.h"
#include "base/text.h"
#include "elastic/driver/core.h"

enum {
    TICK_US = 100000, /* granularity of all deadlines */
    DISCOVERY_QUIET_US = 10000000,
    DISCOVERY_BAD_MAX = 4,    /* different failures told in that time */
    STOP_GRACE_MS = 3000,     /* TERM to KILL when a job stops */
    FAREWELL_US = 5000000,    /* from SHUTDOWN to KILL */
    STOP_LIMIT_US = 15000000, /* from the verdict to the end, in any case */
    HANG_WARN_US = 60000000,
    LINGER_WARN_US = 60000000, /* from the release to an exit */
    START_LIMIT_US = 30000000, /* see start_limit() */
    RECOVERY_US = 500000,      /* a recovery holds back starts for no longer */
    PONG_US = 10000000,        /* see pong_every() */
    PONGS_PER_TIMEOUT = 32,
    ASK_AGAIN_US =
        1000000,         /* an agent that has not reported by then is asked */
    MOMENT_US = 1000000, /* signals that programs send within this are one */
    CAUSE_US = 1000000,  /* a static job that has lost somebody waits so long
                             for the exit that explains it */
    NOTICE_COOLDOWN_US =
        600000000,     /* a host that was to go, and is listed so long after,
                        seems to have stayed */
    FRUITLESS_MAX = 5, /* M12 */
    APART_REST_US = 10000000, /* a host that others do not reach is tried again
                                 then, and after twice as long, up to: */
    APART_DOUBLINGS = 5,
    ANSWER_MIN_US = 1500000,  /* doubt.c: two SYNs */
    ANSWER_SLACK_US = 1000000 /* for the messages, and a driver that is late */
};

/* For how long workers that are started together wait for each other (M7), and
 * other hosts for one whose agent comes up: --start-timeout gives it more. */
static inline uint64_t start_limit(const struct driver *d)
{
    uint64_t limit_us = d->config.start_timeout_us;

    return limit_us < START_LIMIT_US ? limit_us : START_LIMIT_US;
}

static inline uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How seldom PINGs of a peer are answered that lacks nothing: it learns thereby
 * that the driver lives, and gives up after --driver-timeout. An answer costs
 * more than all that the core does with a PING. */
static inline uint64_t pong_every(const struct driver *d)
{
    uint64_t limit_us = d->config.driver_timeout_us / PONGS_PER_TIMEOUT;

    if (d->config.answers)
        return 0; /* a silent driver makes peers look for a successor */
    return limit_us > 0 && limit_us < PONG_US ? limit_us : PONG_US;
}

/* ---- report.c: actions --------------------------------------------------- */

struct driver_action *action_add(struct driver *d,
                                 enum driver_action_type type);
/* The returned message names job, term and generation; whether w lives is the
 * caller's business. */
struct message *action_send(struct driver *d, const struct driver_worker *w,
                            enum message_type type);
void action_kill(struct driver *d, struct driver_worker *w, uint64_t grace_ms);
struct driver_record *record_add(struct driver *d,
                                 enum driver_record_type type);
struct driver_record *record_add_worker(struct driver *d,
                                        enum driver_record_type type,
                                        const struct driver_worker *w);
void record_warning(struct driver *d, const char *text);

/* "worker 7 (localhost:1)" */
void text_worker(struct text *t, const struct driver *d,
                 const struct driver_worker *w);
/* How its process ended, into buf [WIRE_TEXT_MAX]: "exited with status 1". */
void text_exit(char *buf, const struct driver_worker *w,
               const struct msg_worker_exited *m);

/* "2.5 s" */
void text_seconds(struct text *t, uint64_t us);

/* ---- core.c -------------------------------------------------------------- */

/* The job's phase changes by this alone. */
void driver_move(struct driver *d, enum driver_phase to);

/* ---- rows.c -------------------------------------------------------------- */

bool rows_init(struct driver *d);
void rows_fini(struct driver *d);
/* NULL: there is none, or it has exited. A binary search. */
struct driver_worker *worker_find(struct driver *d, uint64_t id);
/* Row of the first worker that is not below this one. */
size_t worker_bound(const struct driver *d, uint64_t id);
struct driver_host *host_of(struct driver *d, const struct driver_worker *w);
/* The host has been furnished. */
struct driver_slot *slot_at(const struct driver *d,
                            const struct driver_host *host, size_t i);
struct driver_slot *slot_of(struct driver *d, const struct driver_worker *w);
/* The next worker in the host's slots by age, after w; NULL: the first. Takes
 * O(slots of the host): there may be a hundred thousand workers elsewhere. */
struct driver_worker *next_on_host(struct driver *d,
                                   const struct driver_host *host,
                                   const struct driver_worker *w);
/* plan.c: how many workers each host will have; where one will probably be. */
void plan_hosts(struct driver *d);
void plan_for(struct driver *d, const struct driver_worker *w,
              struct msg_plan *plan_p);
/* NULL: there is no such host. One by one: hosts events have an index. */
struct driver_host *host_named(struct driver *d, const char *name);
/* NULL: it has ended, or is given up. A binary search. */
struct driver_host *host_of_agent(struct driver *d, uint64_t agent);
/* A row for a host that has none. NULL: no memory. Moves rows. */
struct driver_host *host_add(struct driver *d, const char *name);
/* Rows for those of the list that have none, at the end. false: no memory, and
 * nothing has changed. Moves rows. */
bool hosts_add(struct driver *d, const struct hosts *hosts,
               const struct hosts_index *index);
/* The host gets so many slots at least, and room for one more agent. false: no
 * memory, which is reported. */
bool host_furnish(struct driver *d, struct driver_host *host, size_t n_slots);
/* The host's agent is this one from now on; it has been furnished for it. */
void agent_add(struct driver *d, struct driver_host *host, uint64_t agent);
/* A row for this worker in a free slot of a furnished host. NULL: no memory,
 * which is said. Moves rows. */
struct driver_worker *worker_add(struct driver *d, uint64_t id,
                                 struct driver_host *host, uint32_t slot);
/* The worker will never report again: its slot is free now, its row at the next
 * compaction. Moves nothing. */
void worker_remove(struct driver *d, struct driver_worker *w);
/* Free the rows of workers that are gone, and of hosts of which nothing counts
 * any more and no worker has a row. Moves rows. */
void workers_compact(struct driver *d);
void hosts_compact(struct driver *d);

/* Failures of a slot that are not the end of it (M11). */
static inline uint32_t restarts_allowed(const struct driver *d)
{
    uint32_t n = d->config.strict_blacklist ? 0 : d->config.slot_restarts;

    return n < BUDGET_RESTARTS_MAX ? n : BUDGET_RESTARTS_MAX;
}

/* ---- holders.c ----------------------------------------------------------- */

/* The worker has reported this snapshot. Reports may be older than the last. */
void note_state(struct driver_worker *w, struct state_id id);
/* The worker has reported a snapshot, and is not told to go: the job could go
 * on from that snapshot. */
bool worker_has_state(const struct driver_worker *w);
/* The worker has a state, or has yet to report. */
bool worker_may_have_state(const struct driver_worker *w);
/* The worker has a snapshot that is no older than the base of the current
 * generation: with it no commit of an earlier generation is lost. */
bool worker_holds_base(const struct driver *d, const struct driver_worker *w);
/* A worker has a state. */
bool state_is_reported(const struct driver *d);
/* The job has committed, and no worker may have a state. */
bool state_is_gone(const struct driver *d);
/* A reliable worker holds the base, on another host than `but`. */
bool base_is_held(const struct driver *d, const struct driver_host *but);
/* It holds the base, and neither it nor its agent is silent. */
bool worker_is_reliable(const struct driver *d, const struct driver_worker *w);
/* The job has committed, and no other reliable worker holds the base. */
bool worker_is_last_holder(const struct driver *d,
                           const struct driver_worker *w);

/* ---- members.c ----------------------------------------------------------- */

void members_recount(struct driver *d);
/* Process and standing of a worker change by these alone. */
void worker_move(struct driver_worker *w, enum worker_life to);
void worker_stand(struct driver_worker *w, enum worker_standing to);
/* Alive member of the current generation. */
bool is_member(const struct driver_worker *w);
/* The worker had finished, and has yet to exit. */
bool is_released(const struct driver_worker *w);
/* Alive, READY, no member, on nobody's way out: may be chosen. */
bool is_newcomer(const struct driver_worker *w);
/* The worker counts for nothing any more. failure: held against its slot. */
void worker_dies(struct driver *d, struct driver_worker *w, const char *how,
                 bool failure);
/* text: lives as long as the worker's row. */
void say_farewell(struct driver *d, struct driver_worker *w,
                  enum message_type type, enum shutdown_reason reason,
                  int64_t status, const char *text);
/* Turn it away. */
void worker_refuse(struct driver *d, struct driver_worker *w,
                   hvd_status_t status, const char *text);
/* There was no process: its slot is free at once, and no failure is counted. */
void worker_forget_unstarted(struct driver *d, struct driver_worker *w);
/* How a worker has ended that was reported to be dying: its exit tells. */
void worker_explain(struct driver *d, const struct driver_worker *w,
                    const char *how);
void on_spawned(struct driver *d, uint64_t by, const struct msg_spawned *m);
void on_spawn_failed(struct driver *d, uint64_t by,
                     const struct msg_spawn_failed *m);
void on_dying(struct driver *d, uint64_t by, const struct msg_worker_exited *m);
void on_exited(struct driver *d, uint64_t by,
               const struct msg_worker_exited *m);
void on_worker_message(struct driver *d, const struct message *m);
/* The worker has reported this snapshot, which may be the first commit of the
 * generation, or of the job. */
void note_committed(struct driver *d, struct driver_worker *w,
                    struct state_id id);

/* ---- patience.c ---------------------------------------------------------- */

void members_tick(struct driver *d);
/* Kill it; how: why it counts as lost. */
void worker_evict(struct driver *d, struct driver_worker *w, const char *how);

/* ---- silence.c (M5) ------------------------------------------------------ */

/* When hosts are heard again, the last of them is heard so much later. */
uint64_t return_limit(const struct driver *d);
/* First of a tick: is silence judged now, by how many are silent? */
void silence_tick(struct driver *d);
/* Neither silent nor, by what is known of its host, cut off. */
void agent_is_heard(const struct driver *d, struct driver_host *host);
bool worker_is_heard(const struct driver *d, const struct driver_worker *w);
/* This worker, this agent is to be given up for its silence. */
bool worker_is_silent(const struct driver *d, const struct driver_worker *w);
bool agent_is_silent(const struct driver *d, const struct driver_host *host);
/* An agent whose workers are heard sends no heartbeats. */
bool agent_stands_still(const struct driver *d, const struct driver_host *host);
/* This worker was released, has not ended, and is not heard any more. */
bool worker_stands_still(const struct driver *d, const struct driver_worker *w);

/* ---- hang.c -------------------------------------------------------------- */

/* Where it cannot go on without others. */
bool worker_waits(const struct driver_worker *w);
void hang_tick(struct driver *d);
/* The worker has made no progress for so long, by its own newest report. */
bool worker_is_stuck(const struct driver_worker *w, uint64_t limit_us);

/* ---- stall.c ------------------------------------------------------------- */

/* Calls by name that some have not posted: once named, at last ended. */
void stall_tick(struct driver *d);
/* A PING has come: waits that were not reported again since the one before are
 * over. */
void stall_forget(struct driver_worker *w);
void on_waiting(struct driver *d, struct driver_worker *w,
                const struct msg_waiting *waiting);

/* ---- rendezvous.c -------------------------------------------------------- */

void on_unfit(struct driver *d, uint64_t worker, const char *why);
void on_ready(struct driver *d, struct driver_worker *w,
              const struct msg_ready *ready);
void on_lost(struct driver *d, struct driver_worker *w,
             const struct msg_lost *lost);
/* The current generation has ended by a loss: ABORT to all (M4). */
void end_by_loss(struct driver *d, enum abort_reason reason, uint64_t worker,
                 const char *text);
/* The last one has ended, for this reason; in words. */
void rendezvous_open(struct driver *d, enum ready_reason reason,
                     const char *why);
void send_abort(struct driver *d, struct driver_worker *w, uint64_t generation);
/* Close the open rendezvous if it may (M6). */
void rendezvous_progress(struct driver *d);
void rendezvous_tick(struct driver *d);
/* How many it takes: -np for the first generation, as long as --start-timeout
 * lasts; else --min-np. */
uint32_t rendezvous_gate(const struct driver *d);

/* ---- generation.c -------------------------------------------------------- */

/* The first n_chosen of the candidates become the next generation. base: the
 * greatest state id among them. */
void generation_form(struct driver *d, size_t n_chosen, struct state_id base);
/* The worker has not received its ASSIGN, or not yet. */
void repeat_assign(struct driver *d, struct driver_worker *w);

/* ---- accusations.c (M5) -------------------------------------------------- */

/* Two workers of the current generation. proven: the accuser has been answered,
 * or has tried for the whole connect timeout. */
void accuse(struct driver *d, uint64_t by, uint64_t of, bool proven);
/* In the current generation. */
bool is_accused(const struct driver *d, uint64_t id);
/* The accusation is proven, its peer was silent, and no death explains it. */
bool accusation_counts(struct driver *d, const struct driver_accusation *a);
/* A generation is formed: the last one's accusations become those before. */
void accusations_turn(struct driver *d);
/* Two generations in a row ended by the same pair without a death: one of them
 * cannot be believed, or reached. true: somebody was evicted. */
bool accusations_judge(struct driver *d);

/* ---- abilities.c --------------------------------------------------------- */

/* The table is filled from the candidates: add what each host's ranks can do.
 */
void abilities_pool(struct driver *d);
/* A line for each host whose ranks cannot share memory because of one. */
void abilities_note(struct driver *d);

/* ---- change.c ------------------------------------------------------------ */

/* HOLD when hosts have changed, CUT when all have answered. */
void change_progress(struct driver *d);
/* HOLD in any case: members may wait for the CUT of an older one. */
void change_announce(struct driver *d);
void send_hold(struct driver *d, struct driver_worker *w);
void send_cut(struct driver *d, struct driver_worker *w);
void on_held(struct driver *d, struct driver_worker *w,
             const struct msg_held *held);
/* Some worker started together with these has not come up yet (M7). */
bool wave_pending(struct driver *d, uint64_t wave);

/* ---- leaving.c ----------------------------------------------------------- */

/* The host is about to go: no worker is started there, its workers leave. */
bool host_leaves(const struct driver_host *host);
/* The worker has to leave, before go_us; DRIVER_NEVER: within --drain-timeout.
 * A later call applies if its time is sooner. true: the caller calls
 * members_recount(), once for all workers that have to go. */
bool worker_drain(struct driver *d, struct driver_worker *w, uint64_t go_us);
void worker_undrain(struct driver_worker *w);
/* The worker has asked to leave for good (hvd_drain()). */
void on_drain_me(struct driver *d, struct driver_worker *w);
/* Drain it, or keep it, as its host is listed, leaves or is blacklisted. */
void drain_or_keep(struct driver *d, struct driver_worker *w);
/* Why, for the program. Static. */
const char *drain_reason(struct driver *d, const struct driver_worker *w);
/* Discovery lists the host so; NULL: not at all. true: the host leaves for
 * that, and did not before, or the reverse. */
bool leaving_listed(struct driver *d, struct driver_host *host,
                    const struct host *now);
/* An agent reports that its host goes in left_us; DRIVER_NEVER: soon. */
void on_notice(struct driver *d, uint64_t agent, uint64_t left_us,
               const char *text);
/* A notice that is in the journal. */
void leaving_inherit(const struct driver *d, struct driver_host *host,
                     uint64_t until_us);
void leaving_agent_gone(struct driver_host *host);
/* true: a notice has just become void, and the host may be used again. */
bool leaving_expires(const struct driver *d, struct driver_host *host);

/* ---- doubt.c ------------------------------------------------------------- */

void on_agent_apart(struct driver *d, uint64_t agent, const char *why);
/* Workers of these two hosts have accused each other, and one of the first has
 * to go. */
void host_doubt(struct driver *d, struct driver_host *host,
                const struct driver_host *other);
/* The agents of the two reach each other: the doubt ends, or the host is left
 * alone for a while. */
void doubt_answered(struct driver *d, struct driver_host *host);
void doubt_end(struct driver *d, struct driver_host *host);
/* The host's agent has ended: the doubt ends without an answer. */
void doubt_forget(struct driver *d, struct driver_host *host);
/* The generation ended because workers of two hosts did not hear each other,
 * and no death explains it: the hosts' agents are asked, once, and the next
 * generation waits for their answers. */
bool doubts_pending(struct driver *d);
/* The rest of a host may be over. */
void doubt_tick(struct driver *d, struct driver_host *host);

/* ---- placement.c --------------------------------------------------------- */

/* Slots of all listed hosts, also of those that are not used for a while. */
uint64_t slots_listed(const struct driver *d);
hvd_status_t on_hosts(struct driver *d, const struct hosts *hosts);
void on_agent_up(struct driver *d, uint64_t agent, int64_t pid,
                 const char *host);
void on_agent_ping(struct driver *d, const struct driver_event *ev);
void on_agent_gone(struct driver *d, uint64_t agent, const char *how,
                   bool here);
void on_agent_refused(struct driver *d, uint64_t agent, const char *how);
void on_other_build(struct driver *d, uint64_t agent, const char *how);
/* The host's agent, which is STARTING, has this id. */
void agent_set(struct driver *d, struct driver_host *host, uint64_t agent);
void agent_move(struct driver *d, struct driver_host *host,
                enum host_agent_phase to);
/* Nothing more of it counts. */
void give_up_agent(struct driver *d, struct driver_host *host, const char *how);
/* Tell its agent to start it. Once more: its agent tells what became of it. */
void worker_spawn(struct driver *d, struct driver_worker *w);
/* Tell it to go; its end is awaited. */
void agent_stop(struct driver *d, struct driver_host *host);
void placement_progress(struct driver *d);
/* Nothing else has changed since but that this agent has come up. */
void placement_came_up(struct driver *d, uint64_t agent);
void placement_tick(struct driver *d);
bool host_usable(const struct driver_host *host);

/* ---- failures.c ---------------------------------------------------------- */

/* Say so, if the job ends for it. */
void host_failed(struct driver *d, const struct driver_host *host,
                 const char *how);
/* Nothing could be started on this host, as `how` says, or (ran) it was lost
 * with all that ran there: it rests. */
void start_failed(struct driver *d, struct driver_host *host, const char *how,
                  bool ran);
/* The program cannot be started anywhere, nor later. */
bool start_is_hopeless(const struct driver *d,
                       const struct driver_worker *failed, int64_t error);
/* A worker has been started there: a later failure is another one. */
void host_works(struct driver_host *host);
/* A worker failed there: how. */
void slot_failed(struct driver *d, struct driver_host *host, uint32_t slot,
                 const char *how);
/* The slot stays empty for a while. */
void slot_close(struct driver *d, const struct driver_host *host, uint32_t slot,
                const char *why);
/* The host's workers die, which is no failure of theirs; but not those with
 * whom the state might end. */
void host_end_workers(struct driver *d, const struct driver_host *host,
                      const char *how);
/* The host is not used, and its workers end. While no worker elsewhere holds
 * the base, those that may have a state are spared. */
void blacklist_host(struct driver *d, struct driver_host *host,
                    const char *why);
/* Spared members of a blacklisted host leave (M9) when others hold the base. */
void blacklist_enforce(struct driver *d, const struct driver_host *host);
/* Nothing has failed in its slots from this one on; on all of the host. */
void slots_forgive(struct driver *d, struct driver_host *host, size_t from);
void host_forgive(struct driver *d, struct driver_host *host);
/* Why nobody can be started any more; NULL: somebody can, or may later. */
const char *failures_verdict(const struct driver *d);

/* ---- inherit.c ----------------------------------------------------------- */

/* The host's agent is of another driver, and has yet to send AGENT_HELLO. */
bool inherit_agent(struct driver *d, struct driver_host *host, uint64_t agent,
                   bool stopping);
/* A worker of another driver. A worker that was in its slot has ended. NULL:
 * out of memory. Moves rows. */
struct driver_worker *inherit_row(struct driver *d, uint64_t id,
                                  struct driver_host *host, uint32_t slot);

/* ---- adopt.c ------------------------------------------------------------- */

/* An agent that the memory lacks: its host's row. NULL: not now, or no memory.
 * */
struct driver_host *adopt_agent(struct driver *d, uint64_t agent,
                                const char *name);
/* A worker that the memory lacks: its row, or NULL. Moves rows. */
struct driver_worker *adopt_worker(struct driver *d, uint64_t agent,
                                   const struct msg_spawned *m);
/* The host's agent runs so many, and has told all it knows. */
void adopt_accounted(struct driver *d, struct driver_host *host,
                     uint64_t n_alive);
/* The worker has sent HELLO, with its state of the protocol. */
void adopt_greeting(struct driver *d, struct driver_worker *w,
                    const struct msg_where *where);
void adopt_progress(struct driver *d);
void adopt_tick(struct driver *d);

/* ---- finish.c ------------------------------------------------------------ */

/* The verdict was spoken by the driver before. */
void finish_inherit(struct driver *d, const struct entry_state *state);
/* The verdict is known from a worker that was released by the driver before. */
void finish_adopt(struct driver *d, const struct msg_where *released);
/* This one, of whom nobody knew, may be another of them. */
void finish_await(struct driver *d, struct driver_worker *w);
/* The worker was no member, as the journal tells: it is to go. */
void finish_dismiss(struct driver *d, struct driver_worker *w);

/* The job is over: tell everybody, reap, finish with `exit_status` and one
 * sentence. The first call decides. status: the result of hvd_elastic_run. */
void job_stop(struct driver *d, int exit_status, hvd_status_t status,
              const char *text);
/* No worker could be started, on the host of w for this reason. */
void job_stop_unstarted(struct driver *d, const struct driver_worker *w,
                        const char *why);
/* job_stop() with status 1; the last failure of a worker follows the text. */
void job_stop_failed(struct driver *d, const char *text);
/* This worker is about to be dead or told to go, by its own failure. */
void finish_note_failed(struct driver *d, const struct driver_worker *w);
/* A worker that was released did not end as one that has finished does. */
void finish_is_spoiled(struct driver *d, const struct driver_worker *w,
                       const char *how);
/* All members are DONE with equal ids: RELEASE. */
void finish_progress(struct driver *d);
void finish_tick(struct driver *d);
void on_interrupt(struct driver *d, int signal);

#endif
