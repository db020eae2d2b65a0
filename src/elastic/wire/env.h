/* elastic/wire/env.h - how a process learns who it is: environment variables
 * and inherited descriptors. The contract between driver, agent and worker.
 *
 *   HVD_DRIVER     endpoint of the driver's control socket,
 *                  tcp://127.0.0.1:4711, or several, with commas: for an agent
 *                  not each need be reachable from its machine; for a worker
 *                  the one by which its agent reaches the driver is the first
 *   HVD_OUTPUT     (agent) endpoints of the driver's output socket, likewise
 *   HVD_NETWORK    (agent) names of the interfaces that the job uses, with
 *                  commas, or "*": all; without it, the job is on loopback
 *   HVD_JOB        job id, decimal u64
 *   HVD_AGENT      (agent) its id
 *   HVD_TERM       (agent) the term of the driver that starts it
 *   HVD_HOST       name of the host, as in discovery
 *   HVD_WORKER     (worker) its id
 *   HVD_SLOT       (worker) index of its slot on the host
 *   HVD_SECRET_FD  number of an inherited sealed memfd with the 32-byte token
 *                  of this agent or worker; read and closed by hvd_init and
 *                  the agent, never in argv or env
 *   HVD_LIFELINE_FD  number of an inherited pipe end that nobody writes to: EOF
 *                  means that the parent (driver of an agent, agent of a
 *                  worker) is gone and this process must end; where it goes
 *                  through a network, unless the driver is heard
 *   HVD_ROBUST_FD  (worker) number of an inherited memfd with the lock whose
 *                  end tells the agent of the worker's death (base/robust.h);
 *                  a worker without it dies as well, and is noticed later
 *   HVD_PASSED     (worker) which files the three descriptors are (passed.h)
 *   HVD_CLAIM_SOCKET  (worker) where its agent passes them to it once more, if
 *                  a program in between has closed them (claim.h)
 *   HVD_ADDRESS    (worker) numeric addresses its data plane binds to, one or
 *                  up to eight with commas between, the preferred one first
 *   HVD_DATA_PORTS (agent and worker) LOW-HIGH, from which the ports for data
 *                  are taken, and where an agent answers others
 *   HVD_JOB_DIR    the job's --job-dir, an absolute path: when the driver is
 *                  gone, its successor says there where it is (beacon.h)
 *   HVD_OUTLIVES   (agent) the same of a driver on another machine: whether
 *                  this one sees that directory is not known
 *   HVD_NOTICE_SCRIPT  (agent) the job's --notice-script
 *   HVD_LOG_LEVEL  error, warn, info, debug, trace
 *   HVD_TIMELINE   (worker) the job's --timeline FILE, an absolute path: ours
 *                  is beside it, with our id in its name */
#ifndef ELASTIC_WIRE_ENV_H
#define ELASTIC_WIRE_ENV_H

#define ENV_DRIVER        "HVD_DRIVER"
#define ENV_OUTPUT        "HVD_OUTPUT"
#define ENV_NETWORK       "HVD_NETWORK"
#define ENV_JOB           "HVD_JOB"
#define ENV_AGENT         "HVD_AGENT"
#define ENV_TERM          "HVD_TERM"
#define ENV_HOST          "HVD_HOST"
#define ENV_WORKER        "HVD_WORKER"
#define ENV_SLOT          "HVD_SLOT"
#define ENV_SECRET_FD     "HVD_SECRET_FD"
#define ENV_LIFELINE_FD   "HVD_LIFELINE_FD"
#define ENV_PASSED        "HVD_PASSED"
#define ENV_CLAIM_SOCKET  "HVD_CLAIM_SOCKET"
#define ENV_ROBUST_FD     "HVD_ROBUST_FD"
#define ENV_ADDRESS       "HVD_ADDRESS"
#define ENV_DATA_PORTS    "HVD_DATA_PORTS"
#define ENV_JOB_DIR       "HVD_JOB_DIR"
#define ENV_OUTLIVES      "HVD_OUTLIVES" /* the same, on another machine */
#define ENV_NOTICE_SCRIPT "HVD_NOTICE_SCRIPT"
#define ENV_LOG_LEVEL     "HVD_LOG_LEVEL"
#define ENV_TIMELINE      "HVD_TIMELINE"

/* Knobs that have an option, too. */
#define ENV_FUSION_THRESHOLD "HVD_FUSION_THRESHOLD"
#define ENV_CACHE_CAPACITY   "HVD_CACHE_CAPACITY"
#define ENV_AUTOTUNE         "HVD_AUTOTUNE"
#define ENV_AUTOTUNE_LOG     "HVD_AUTOTUNE_LOG"
#define ENV_VERIFY_STATE     "HVD_VERIFY_STATE"

/* A user sets these (elastic/worker/knobs.h), in the environment of the driver
 * or with -x: the driver hands them on to all workers, so that they are equal
 * everywhere. */
#define ENV_KNOBS                                                             \
    "HVD_TRANSPORT", "HVD_LOCAL_BUFFERS", "HVD_SIMD", "HVD_ALGORITHM",        \
        "HVD_TCP_CONNECTIONS", "HVD_TCP_CONGESTION", "HVD_NCCL_LIBRARY",      \
        "HVD_DEVICE_SHARED", "HVD_DEVICE_SYNC", ENV_FUSION_THRESHOLD,         \
        ENV_CACHE_CAPACITY, ENV_AUTOTUNE, ENV_AUTOTUNE_LOG, ENV_VERIFY_STATE, \
        "HVD_STDOUT_BUFFERING"
enum { ENV_KNOB_MAX = 256 }; /* bytes of a value */

#endif
