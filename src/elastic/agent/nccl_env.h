/* elastic/agent/nccl_env.h - what workers' environments say to NCCL, which
 * reads it once, before its first call: that it give up a peer that is gone
 * within seconds, and use the networks of the job. What a user has set stays.
 *
 * Threads: any. Memory: the caller's. */
#ifndef ELASTIC_AGENT_NCCL_ENV_H
#define ELASTIC_AGENT_NCCL_ENV_H

#include <stdbool.h>
#include <stddef.h>

enum { NCCL_ENV_INTERFACES_MAX = 256 };

/* "NAME=value" each, NULL at the end. */
extern const char *const nccl_env[];

/* text: "NCCL_SOCKET_IFNAME==eth0,ib0": the interfaces of addresses
 * ("10.0.0.1,fd00::1", as HVD_ADDRESS has them) in their order. false: they are
 * of none. */
bool nccl_env_interfaces(const char *addresses, char *text, size_t max);

#endif
