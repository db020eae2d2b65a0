/* elastic/worker/knobs.h - what the environment says about the data plane, and
 * about stdout:
 *
 *   HVD_TRANSPORT      auto (shared memory on one host; on several what
 *                      two_level.h does, and TCP), tcp. One worker's tcp counts
 *                      for its whole host, by way of the driver
 *   HVD_LOCAL_BUFFERS  how buffers that are not from hvd_alloc get to the other
 *                      ranks of a host: measured, staged, attached
 *   HVD_TCP_CONNECTIONS  1 to 8: between two ranks, for large messages
 *   HVD_TCP_CONGESTION the congestion control of connections between hosts, as
 *                      net.ipv4.tcp_allowed_congestion_control has them: the
 *                      host's own
 *   HVD_ALGORITHM      which schedules: algorithm.h
 *   HVD_SIMD           instructions of the reduction kernels: auto, scalar,
 *                      avx2, avx512, neon
 *   HVD_FUSION_THRESHOLD  bytes (K, M, G) of calls by name that run as one, at
 *                      most: 128M; 0: none do
 *   HVD_CACHE_CAPACITY names of such calls that are remembered: 1024
 *   HVD_AUTOTUNE       0; 1: what is best for calls by name is tried out
 *   HVD_AUTOTUNE_LOG   a file, for what comes of it: it is tried out, then
 *   HVD_VERIFY_STATE   which commits compare the state of all ranks
 *                      (base/verify_rule.h): first
 *   HVD_DEVICE_SYNC    how newcomers get what a state has on devices: auto,
 *                      host, nccl
 *   HVD_DEVICE_SHARED  0; 1: ranks of NCCL may share a device, for checks on
 *                      machines with one. Counts where all that share have it
 *   HVD_STDOUT_BUFFERING  line: hvd_init makes stdout line-buffered where it is
 *                      a pipe; block: it stays as the program has it
 *
 * The driver hands its environment on, so that they are equal everywhere. Four
 * have to be: settings.h.
 *
 * Threads: app. */
#ifndef ELASTIC_WORKER_KNOBS_H
#define ELASTIC_WORKER_KNOBS_H

#include <stdint.h>

#include <hvd/status.h>

#include "base/verify_rule.h"
#include "collectives/comm.h"

/* Read once, by hvd_init. HVD_ERR_INVALID names the variable and what it may
 * be. */
hvd_status_t knobs_read(void) HVD_MUST_CHECK;

/* May this worker share memory? */
bool knobs_share(void);

/* From how many bytes of a state on a device on it goes to newcomers by
 * NCCL. */
uint64_t knobs_device_sync_nbytes(void);

/* Should each line of stdout leave this process when it ends? */
bool knobs_line_buffering(void);

/* Those of settings.h, as it has them; valid until the next call here. */
const char *knobs_settings(void);

/* Rank 0's are taken on. Between comms. Errors of settings_take(). */
hvd_status_t knobs_take_settings(const char *text) HVD_MUST_CHECK;

/* What was made for the comms of this process: there are none any more. */
void knobs_release(void);

/* As rank 0 has it, once the worker is a member. */
const struct verify_rule *knobs_verify(void);

/* To the config of a comm. */
void knobs_apply(struct comm_config *config);

#endif
