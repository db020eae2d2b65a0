/* collectives/by_name.h - calls by name: each rank posts them in an order of
 * its own, from any thread, and they run when all ranks have.
 *
 * They have a comm of their own beside the one that they are posted to (set
 * number + 1 of the same generation), so that they and the ordered calls of a
 * program do not wait for each other. What runs there is the same on all ranks:
 *
 *   round      allreduce: who has posted what?          negotiate/negotiator.h
 *   exchange   allgather: names that are new            if there are some
 *   batches    what all have posted; allreduces of one dtype and op are fused,
 *              unless ranks have joined                   by_name_joined.c
 *   carrier    in place of a round, once steps repeat: how many of the calls
 *              that are next have all? With small ones     by_name_learned.c
 *
 * A rank that has posted nothing takes part in nothing. One that has, and has
 * told all of it, sleeps until it has news or a round has begun (await_phase):
 * nothing is sent while nothing is posted. Where an order is followed, until
 * this rank has what is first, and not for long.
 *
 * Whoever waits drives, as elsewhere: the first of several threads that wait
 * does so for all, and the progress thread while nobody waits.
 *
 * Threads: any, but for by_name_leave() and by_name_destroy(), the issuing
 * thread of `comm`, and what is said to be the driver's. */
#ifndef COLLECTIVES_BY_NAME_H
#define COLLECTIVES_BY_NAME_H

#include <stdbool.h>

#include <hvd/status.h>

#include "collectives/comm.h"

struct by_name;
struct connection;
struct hvd_request;

/* Ahead of a post, as CUDA may wait here, and whoever posts may hold locks:
 * what is on args->stream by now, of buffers on a device. *mark_p NULL: they
 * are the host's. HVD_ERR_UNSUPPORTED, HVD_ERR_SYSTEM, HVD_ERR_NOMEM. The
 * thread that uses the stream. */
hvd_status_t by_name_mark(const struct collective_args *args,
                          void **mark_p) HVD_MUST_CHECK;

/* args->name says which; mark: by_name_mark()'s, taken in every case. Errors as
 * comm_post(); HVD_ERR_INVALID too if there is no name, or a call by it is in
 * flight. */
hvd_status_t by_name_post_behind(void *mark, struct comm *comm,
                                 const struct collective_args *args,
                                 const struct comm_group *group,
                                 struct hvd_request **request_p) HVD_MUST_CHECK;
/* Both. */
hvd_status_t by_name_post(struct comm *comm, const struct collective_args *args,
                          const struct comm_group *group,
                          struct hvd_request **request_p) HVD_MUST_CHECK;

/* This rank has no more data: until all have joined it stands in for allreduces
 * and barriers that others post, and nothing else may be posted here. *last_p:
 * one of those that were last. HVD_OK, HVD_ERR_STATE (it does already), or as
 * posting and waiting for a call. Its issuing thread. */
hvd_status_t by_name_join(struct comm *comm, int *last_p) HVD_MUST_CHECK;

/* As request_wait(), of such a request. */
hvd_status_t by_name_wait(struct hvd_request *request) HVD_MUST_CHECK;

/* Complete what is in flight. Else than HVD_OK: the reason why they ended. A
 * call that has failed since ranks differ is no such reason, nor is it that
 * ranks leave at a boundary. */
hvd_status_t by_name_drain(struct comm *comm) HVD_MUST_CHECK;

/* Nothing is posted any more: this rank leaves. */
void by_name_close(struct comm *comm, enum comm_leave_kind kind);
/* ... and what is in flight is complete; ABORT: fails.
 * Nothing, if nothing was posted. */
void by_name_leave(struct comm *comm, enum comm_leave_kind kind,
                   uint64_t boundary);
/* Left at a boundary, and nobody is in one of theirs on a device any more. */
void by_name_silence(struct comm *comm);
void by_name_destroy(struct comm *comm);
/* Who was lost there is accused here. Behind by_name_leave(), by whoever drives
 * `comm`. */
void by_name_accuse(struct comm *comm);

/* The comm has ended: so have they. Any thread, never blocks. */
void by_name_abort(struct comm *comm, hvd_status_t reason, const char *text);

/* The peer, or this rank (NULL), has left at a boundary with calls by name in
 * flight that not all ranks have posted: a thread that posts at its own pace
 * cannot know of the boundary. They end with HVD_PEER_LOST, and end nothing
 * else. Returns that. By whoever drives them. */
hvd_status_t by_name_part(struct comm *names, const struct connection *c);
/* Have they ended so? By whoever drives them. */
bool by_name_has_parted(const struct comm *names);

/* A call that others have yet to post. */
struct by_name_wait {
    uint64_t since_us;
    uint32_t set;    /* of its comm: 0 the world's */
    uint32_t digest; /* of its name and set */
    char name[64];   /* cut */
};

/* Some of them: waits [n], n <= max, those that wait for the longest time, the
 * oldest first; n_all: how many there are. */
struct by_name_waits {
    struct by_name_wait *waits;
    size_t max, n_all;
    bool joined; /* this rank has, one of the comms: nobody is told which, and
                    it is not blamed in any */

    uint32_t *least; /* [n_least], n_least <= max: the least digests of all,
                        ascending; NULL: not asked for */
    size_t n_least;
    uint64_t old_us;         /* of those that wait since then or longer: */
    struct by_name_wait old; /* the one with the least digest; since_us 0: none
                              */
};

/* Add those of `comm`. Any thread. */
void by_name_add_waits(const struct comm *comm, struct by_name_waits *all);

/* --- for whoever drives their comm --- */

/* Is anything in flight? */
bool by_name_works(const struct comm *names);
/* Until nothing is, the comm has ended, or the thread is kicked out. */
void by_name_run(struct comm *names);
/* More was posted since the last round began. */
bool by_name_has_posts(const struct comm *names);
/* Between the two, a post raises verdict.wake_fd. */
void by_name_sleep(struct comm *names);
void by_name_wake(struct comm *names);

#endif
