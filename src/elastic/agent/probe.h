/* elastic/agent/probe.h - which addresses of another agent this machine can
 * reach. Each agent answers at all of its own; what it is asked is a number,
 * and only the agent that is meant can make the answer of it: an address of a
 * bridge that many machines have is answered by somebody else.
 *
 *   agent i                                   agent j
 *     connect to every address of j at once
 *     { magic, j, nonce, MAC by the job's key } -->
 *                    <-- { magic, j, MAC of nonce by a key of j's token }
 *     as many zeros as the largest packet has, and the end -->
 *                                                <-- the end, once all has come
 *
 * The zeros show a path that passes small packets and loses large ones: the MTU
 * of a host is larger than that of a switch. Each of the two agents probes the
 * other, so both directions are tried.
 *
 * Who has not got the job's key gets no answer. One PROBE at a time; another
 * one takes its place. Nothing waits: the loop is told by one descriptor, and
 * by a deadline.
 *
 * Threads: the loop's. Memory: in place. Owns its sockets. */
#ifndef ELASTIC_AGENT_PROBE_H
#define ELASTIC_AGENT_PROBE_H

#include "base/interfaces.h"
#include "base/log.h"
#include "elastic/wire/message.h"
#include "elastic/wire/socket.h"

enum {
    PROBE_NBYTES = 80,        /* a question; an answer is as long */
    PROBE_PACKET_MIN = 1500,  /* bytes, where the kernel does not tell */
    PROBE_PACKET_MAX = 65535, /* bytes of padding at most */
    PROBE_GUESTS_MAX = 32,
    PROBE_TIMEOUT_US = 4000000 /* two lost SYNs; of a guest as well */
};

/* What came of an address, or is coming. */
enum probe_outcome {
    PROBE_WAITS, /* for the connection, then for the answer */
    PROBE_REACHED,
    PROBE_REFUSED, /* errno */
    PROBE_ANOTHER, /* somebody else has answered, or nobody of this job */
    PROBE_SILENT,
    PROBE_LOSES /* it answers, but large packets are lost on the way */
};

struct probe_attempt {
    struct interface to;
    int fd; /* -1: none (any more) */
    enum probe_outcome outcome;
    int error;
    bool asked;
    size_t n; /* of the answer, received */
    uint8_t answer[PROBE_NBYTES];
    uint32_t packet_nbytes; /* the largest; 0: not answered yet */
    uint32_t padding;       /* bytes that are still to be sent */
};

struct probe_guest {
    int fd;
    size_t n; /* of the question, received; all: it is answered */
    uint64_t deadline_us;
    uint8_t question[PROBE_NBYTES];
};

struct probe {
    struct wire_secrets secrets;
    uint64_t self; /* agent id */
    int epoll_fd;  /* readable: probe_step() has something to do; -1: closed */
    int spare_fd;  /* given up to close who comes when there is no other */
    int listen_fds[INTERFACES_MAX];         /* [n] */
    struct interface items[INTERFACES_MAX]; /* [n], with their ports */
    size_t n;
    struct probe_guest guests[PROBE_GUESTS_MAX]; /* [n_guests] */
    size_t n_guests;
    /* the PROBE at hand, 0: none */
    uint64_t target;
    uint8_t nonce[WIRE_TOKEN_NBYTES], answer[WIRE_TOKEN_NBYTES];
    struct probe_attempt attempts[INTERFACES_MAX]; /* [n_attempts] */
    size_t n_attempts;
    uint64_t deadline_us;
    bool told; /* its PROBED was taken by probe_result() */
};

/* What a HELLO says of where this agent answers, and it does: at the interfaces
 * with these names (interfaces.h), at ports from `low` to `high`, 0: any. An
 * address that cannot be listened at is left out with a line; HVD_ERR_SYSTEM:
 * none is left; HVD_ERR_INVALID: an unknown name. */
hvd_status_t probe_open(struct probe *p, const char *names, uint16_t low,
                        uint16_t high, uint64_t self,
                        const struct wire_secrets *secrets) HVD_MUST_CHECK;
/* Also of one that is zeroed and was never opened, but for epoll_fd -1. */
void probe_close(struct probe *p);

/* Begin; the same target and nonce again: nothing new, and PROBED is said once
 * more when it is known. */
void probe_begin(struct probe *p, const struct msg_probe *m, uint64_t now_us);

/* Whatever can be done without waiting. Call it when epoll_fd is readable, and
 * at probe_deadline(). */
void probe_step(struct probe *p, uint64_t now_us);
uint64_t probe_deadline(const struct probe *p);

/* true, once for each probe_begin(): *m is what has come of it. */
bool probe_result(struct probe *p, struct msg_probed *m);

#endif
