/* elastic/worker/commit.h - live memory becomes a snapshot, if it may (M9).
 *
 * After HVD_HOSTS_UPDATED was returned, or after a call that failed, live
 * memory is not what the peers have: a snapshot of it would be the newest, and
 * so everybody's in the next generation. A program that goes on all the same is
 * told again why it should return. What an abort finds between two calls, each
 * of which has succeeded, is whole, and is saved.
 *
 * Threads: app. Memory: none. */
#ifndef ELASTIC_WORKER_COMMIT_H
#define ELASTIC_WORKER_COMMIT_H

#include <hvd/state.h>
#include <hvd/status.h>

/* May live memory be saved? HVD_HOSTS_UPDATED: this rank has left; the comm's
 * reason (HVD_PEER_LOST, HVD_ERR_MISMATCH, ...): a call has failed. Both with a
 * sentence. Without a world it may. */
hvd_status_t commit_check(void) HVD_MUST_CHECK;

/* Complete what was posted, which may be writing what is to be saved; run the
 * on_commit callbacks, and complete what they have posted. Also for a rank that
 * gets the snapshot that another one makes now: whenever the callbacks run,
 * they run on every rank. Returns what commit_check() does, and what a callback
 * has made of it. */
hvd_status_t commit_prepare(hvd_state_t *state) HVD_MUST_CHECK;

/* The same; then live memory is the newest snapshot, as the next version in
 * this generation. Else than HVD_OK: the older one is intact. */
hvd_status_t commit_save(hvd_state_t *state) HVD_MUST_CHECK;

#endif
