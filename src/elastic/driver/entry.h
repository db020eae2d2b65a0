/* elastic/driver/entry.h - what a driver writes down for a successor: rows,
 * each as it is now. A later row with the same key replaces an earlier one, so
 * that nothing depends on how many of them were lost or were written twice.
 *
 *   JOB     what never changes: the secret, the command line; the first of all
 *   STATE   the numbers of the whole job
 *   HOST    by its name; with its agent
 *   SLOT    by host and number; only if something failed there, or it is closed
 *   WORKER  by its id, from its SPAWN until it has exited
 *   PLACES  where agents and workers of other machines call
 *
 * Where workers are in the protocol is not written down: they live, and say it
 * themselves (struct msg_where). Times are microseconds of CLOCK_MONOTONIC,
 * which all processes of a machine share; on another, or later, they mean no
 * more than that they are over or not far away (inherit.c).
 *
 * As bytes an entry is the msgpack array [version, type, row] (wire/fields.h).
 *
 * Pure. Memory: none; strings of JOB borrow the bytes. */
#ifndef ELASTIC_DRIVER_ENTRY_H
#define ELASTIC_DRIVER_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "discovery/hosts.h"
#include "elastic/driver/budgets.h"
#include "elastic/wire/message.h"
#include "elastic/wire/socket.h"

enum {
    ENTRY_VERSION = 1,
    /* bytes of one: command line, environment, what SPAWN adds to it */
    ENTRY_MAX = 3 * WIRE_MESSAGE_MAX,
    ENTRY_PATH_MAX = 4096,
    ENTRY_FAR = -1 /* nobody's pid */
};

enum entry_type {
    ENTRY_NONE = 0,
    ENTRY_JOB = 1,
    ENTRY_STATE = 2,
    ENTRY_HOST = 3,
    ENTRY_SLOT = 4,
    ENTRY_WORKER = 5,
    ENTRY_PLACES = 6
};

struct entry_job {
    uint64_t job;
    uint8_t secret[WIRE_TOKEN_NBYTES]; /* of it all tokens are made */
    struct wire_strings argv;          /* of hvd-elastic, as it was started */
    struct wire_strings env; /* what every SPAWN adds to the agent's own */
    char cwd[ENTRY_PATH_MAX];
    uint64_t started_us;
    struct wire_strings environment; /* of hvd-elastic, which agents inherit */
};

struct entry_state {
    uint64_t term;
    uint64_t machine; /* base/machine.h: whose pids and clock these are */
    /* Numbers up to these may be in use; they are put up long before they are
     * reached, so that a successor that has lost the last entries is above. */
    uint64_t workers_limit, agents_limit, generations_limit, holds_limit;
    uint64_t generation; /* last formed */
    uint8_t kind;        /* enum ready_kind; 0: not known yet */
    uint8_t layout[WIRE_DIGEST_NBYTES];
    char layout_text[WIRE_TEXT_MAX];
    bool ever_committed;
    uint32_t fruitless, alike; /* M12 */
    uint64_t fruitless_us;
    uint64_t resets;
    bool interrupted; /* once: it drains */
    bool stopping;    /* the verdict is spoken */
    bool released;    /* ... and is success */
    bool unsure;      /* ... of whom is not known: struct driver */
    bool ended;       /* and everybody has ended */
    uint32_t exit_status;
    char verdict[WIRE_TEXT_MAX];
    char last_failure[WIRE_TEXT_MAX];
};

struct entry_host {
    char name[HOSTS_NAME_MAX];
    char user[HOSTS_USER_MAX]; /* to log in as; "": as the launcher has it */
    bool listed;
    uint32_t n_slots;
    uint32_t order; /* age: lower is older */
    bool blacklisted;
    uint32_t n_blacklisted; /* how often */
    uint64_t blacklisted_until_us;
    uint64_t agent;   /* 0: none */
    bool stopping;    /* it has been told to go */
    bool sees_dir;    /* it finds a successor on any machine by DIR/driver */
    int64_t pid;      /* ENTRY_FAR: on another machine than the driver */
    uint64_t started; /* of pid: base/proc.h; 0: not known */
    uint64_t
        noticed_until_us; /* it was to go: not used before; 0: it was not */
};

struct entry_slot {
    char host[HOSTS_NAME_MAX];
    uint32_t slot;
    bool closed;
    uint64_t next_start_us;
    uint32_t n_closed;
    uint32_t n_failed;
    uint32_t failed_s[BUDGET_RESTARTS_MAX]; /* seconds, oldest first */
};

struct entry_worker {
    uint64_t worker;
    bool gone; /* nothing else is said then */
    char host[HOSTS_NAME_MAX];
    uint32_t slot;
    uint64_t agent;
    int64_t pid; /* 0: not told yet */
    uint64_t started;
    bool up;       /* has sent HELLO */
    bool going;    /* was told to go: its end is no failure */
    bool released; /* by RELEASE */
    bool dying;    /* is killed, or has begun to end */
};

/* A successor listens there as well: it is all that they know. */
struct entry_places {
    char control[WIRE_ENDPOINTS_MAX], output[WIRE_ENDPOINTS_MAX];
};

struct entry {
    enum entry_type type;
    union {
        struct entry_job job;
        struct entry_state state;
        struct entry_host host;
        struct entry_slot slot;
        struct entry_worker worker;
        struct entry_places places;
    } u;
};

/* Encode *entry into buf [max]; the length, or an error of codec.h. */
long entry_encode(const struct entry *entry, uint8_t *buf, size_t max);

/* bytes [nbytes] are exactly one. CODEC_OK or an error; *field_p names the
 * offending field, or is "". */
int entry_decode(const uint8_t *bytes, size_t nbytes, struct entry *entry,
                 const char **field_p);

#endif
