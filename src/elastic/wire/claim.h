/* elastic/wire/claim.h - how a worker gets its descriptors (passed.h) when the
 * program that has started it closed them: Python's subprocess, sudo.
 * It asks a socket of its agent, whose name all descendants know from
 * HVD_CLAIM_SOCKET; the kernel says there who asks, and carries the answer.
 *
 * The name is abstract and everybody on the machine can see it: the agent
 * answers descendants alone (agent/descent.h), and the worker believes an agent
 * that is its ancestor, or of its own user, or root.
 *
 * Datagrams: a question is one, and so is its answer, so an agent waits for
 * nobody. Threads: any. Memory: none. */
#ifndef ELASTIC_WIRE_CLAIM_H
#define ELASTIC_WIRE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <hvd/status.h>

#include "elastic/wire/passed.h"

enum { CLAIM_NAME_MAX = 48, CLAIM_MS = 10000, CLAIM_TELL_MS = 1000 };

enum claim_verdict {
    CLAIM_GRANTED,
    CLAIM_TAKEN,   /* another process is that worker already */
    CLAIM_STRANGER /* it does not descend from that worker's process */
};

/* ---- agent --------------------------------------------------------------- */

struct claim {
    uint64_t worker; /* that it says it is */
    bool tells;      /* it has what it needs, and wants no answer */
    pid_t pid;       /* as the kernel says, and its real user */
    uid_t uid;
    struct sockaddr_un from;
    socklen_t n_from;
};

/* A new name, and its socket: non-blocking, CLOEXEC. After mac_init(). */
hvd_status_t claim_listen(char name[CLAIM_NAME_MAX], int *fd_p) HVD_MUST_CHECK;

/* Take one datagram. false: there is none. c->pid is 0 if it is no claim. */
bool claim_receive(int fd, struct claim *c);

/* fds [PASSED_MAX], -1: has none; NULL unless granted. A process that does not
 * wait for it any more gets nothing. */
void claim_answer(int fd, const struct claim *c, enum claim_verdict verdict,
                  const int *fds);

/* ---- worker -------------------------------------------------------------- */

/* Ask, for CLAIM_MS at most. HVD_OK: *verdict_p, and if granted fds
 * [PASSED_MAX], CLOEXEC, -1: there is none. HVD_ERR_SYSTEM: nobody answers. */
hvd_status_t claim_ask(const char *name, uint64_t worker,
                       enum claim_verdict *verdict_p, int *fds) HVD_MUST_CHECK;

/* This process is the worker, by the descriptors that it has inherited;
 * programs that it starts from now on are not. Nobody answers; where nobody
 * listens, none of them is answered either. */
void claim_tell(const char *name, uint64_t worker);

#endif
