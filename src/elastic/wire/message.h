/* elastic/wire/message.h - every message of the control protocol as a plain
 * struct. The codec (codec.h) turns them into bytes; the pure cores of driver
 * and worker exchange exactly these structs, so a simulation needs no bytes.
 *
 *   agent -> driver    AGENT_HELLO SPAWNED SPAWN_FAILED WORKER_DYING
 *                      WORKER_EXITED NOTICE AGENT_PING PROBED, and on a second
 *                      connection OUTPUT
 *   driver -> agent    AGENT_WELCOME SPAWN KILL AGENT_SHUTDOWN AGENT_PONG
 *                      PROBE CREDIT
 *   worker -> driver   HELLO READY LOST HELD REPORT DONE LEAVING PING DRAIN_ME
 *                      WAITING
 *   driver -> worker   WELCOME ASSIGN HOLD CUT ABORT RELEASE SHUTDOWN PONG
 *
 * Every message names its job; messages from the driver carry (term,
 * generation); messages from a worker carry its id in `worker`. What a peer
 * lacks is repeated: the worker re-sends its standing message (HELLO, READY,
 * HELD, DONE, LEAVING) with each heartbeat until the driver has moved on, the
 * driver answers each PING with what the worker has not got (M2). All handlers
 * are idempotent.
 *
 * Pure: structs only. Spans borrow the memory they point to. */
#ifndef ELASTIC_WIRE_MESSAGE_H
#define ELASTIC_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

enum {
    WIRE_VERSION = 1,           /* major: of another one a hello is read,
                                   which names the release, and no more */
    WIRE_MESSAGE_MAX = 1 << 22, /* bytes of one encoded message */
    WIRE_RANKS_MAX = 1 << 17,   /* in a generation */
    WIRE_HOST_MAX = 254,        /* name of a host, with its NUL */
    WIRE_ADDRESS_MAX = 160,     /* numeric addresses, with the NUL */
    WIRE_REACH_MAX = 2048,      /* packed: reach.h */
    WIRE_TEXT_MAX = 400,        /* a sentence, with its NUL */
    WIRE_SETTINGS_MAX = 304,    /* of a worker, as text, with its NUL */
    WIRE_TOKEN_NBYTES = 32,
    WIRE_KEY_NBYTES = 32,
    WIRE_DIGEST_NBYTES = 16,
    WIRE_ACCUSED_MAX = 64,    /* ranks named in one LOST */
    WIRE_WAITING_MAX = 64,    /* calls named in one WAITING */
    WIRE_NAME_MAX = 64,       /* of a call, cut, with its NUL */
    WIRE_OTHERS_MAX = 160,    /* several of them */
    WIRE_OUTPUT_MAX = 1 << 16 /* bytes of one OUTPUT */
};

enum message_type {
    MSG_NONE = 0,
    /* agent -> driver */
    MSG_AGENT_HELLO = 1,
    MSG_SPAWNED = 2,
    MSG_SPAWN_FAILED = 3,
    MSG_WORKER_EXITED = 4,
    MSG_NOTICE = 5,
    MSG_AGENT_PING = 6,
    MSG_OUTPUT = 7,
    MSG_PROBED = 8,
    MSG_WORKER_DYING = 9,
    /* driver -> agent */
    MSG_AGENT_WELCOME = 16,
    MSG_SPAWN = 17,
    MSG_KILL = 18,
    MSG_AGENT_SHUTDOWN = 19,
    MSG_AGENT_PONG = 20,
    MSG_CREDIT = 21,
    MSG_PROBE = 22,
    /* worker -> driver */
    MSG_HELLO = 32,
    MSG_READY = 33,
    MSG_LOST = 34,
    MSG_HELD = 35,
    MSG_REPORT = 36,
    MSG_DONE = 37,
    MSG_LEAVING = 38,
    MSG_PING = 39,
    MSG_DRAIN_ME = 40,
    MSG_WAITING = 41,
    /* driver -> worker */
    MSG_WELCOME = 48,
    MSG_ASSIGN = 49,
    MSG_HOLD = 50,
    MSG_CUT = 51,
    MSG_ABORT = 52,
    MSG_RELEASE = 53,
    MSG_SHUTDOWN = 54,
    MSG_PONG = 55
};

struct wire_span {
    const uint8_t *data;
    uint32_t nbytes;
};

/* A list of strings packed one after the other, each with its NUL. */
struct wire_strings {
    const char *data;
    uint32_t nbytes;
};

/* ---- agent and driver ---------------------------------------------------- */

struct msg_agent_hello {
    uint64_t agent; /* id given by the driver at its launch */
    char host[WIRE_HOST_MAX];
    int64_t pid;
    uint8_t proof[WIRE_TOKEN_NBYTES]; /* of its token: wire/seal.h */
    char version[32];
    uint64_t n_alive; /* workers it still runs: the door for resume */
    uint64_t started; /* of pid: base/proc.h; 0: not known */
    struct wire_strings addresses; /* reach.h; none: on loopback alone */
    uint64_t connection; /* of those it has made: the highest is the newest */
};

struct msg_spawned {
    uint64_t worker;
    int64_t pid;
    uint32_t slot; /* for a successor of the driver that said SPAWN */
};

struct msg_spawn_failed {
    uint64_t worker;
    int64_t error; /* errno */
    char text[WIRE_TEXT_MAX];
};

#define EXIT_UNKNOWN (-1)

/* WORKER_DYING: it has begun to end, or has to, and counts for nothing any
 * more; code: EXIT_UNKNOWN if nobody knows how. WORKER_EXITED: it has ended,
 * and what it held is free. */
struct msg_worker_exited {
    uint64_t worker;
    int64_t pid;
    uint32_t slot;
    uint32_t open;  /* a bit for each stream of whose output there is more */
    int64_t code;   /* exit code; meaningful when signal == 0 */
    int64_t signal; /* 0: exited by itself */
    bool core;      /* dumped core */
};

#define NOTICE_UNKNOWN UINT64_MAX

/* The host will go. Said again with each ping, with what is left then. */
struct msg_notice {
    uint64_t left_ms;         /* until then; NOTICE_UNKNOWN: soon */
    char text[WIRE_TEXT_MAX]; /* why, if that is known */
};

struct msg_agent_ping {
    uint64_t stamp_us; /* sender's monotonic clock */
    uint64_t n_alive;
    bool sees_dir; /* DIR/driver of the job: it finds a successor there */
};

enum output_stream { OUTPUT_STDOUT = 1, OUTPUT_STDERR = 2 };

struct msg_output {
    uint64_t worker;
    uint8_t stream; /* enum output_stream */
    bool eof;       /* nothing more will come from this stream */
    bool settled;   /* nothing has followed for a while: a prompt, say */
    uint64_t at;    /* bytes of this stream that were sent before these: an
                       agent sends again what a lost connection had */
    bool first;     /* the agent does not keep what was before these */
    struct wire_span bytes; /* whole lines, except before eof, where it has
                               settled, and of lines that are long */
};

struct msg_spawn {
    uint64_t worker;
    uint32_t slot;
    struct wire_strings argv;
    struct wire_strings env;          /* NAME=value: added to the agent's own */
    struct wire_strings cwd;          /* one, or none: the agent's own */
    char addresses[WIRE_ADDRESS_MAX]; /* of its data connections, the best
                                           first; "": loopback */
};

struct msg_kill {
    uint64_t worker;
    uint64_t grace_ms; /* SIGTERM now, SIGKILL after this; 0: SIGKILL now */
};

/* The driver has taken an OUTPUT. */
struct msg_credit {
    uint64_t nbytes;        /* that may follow */
    uint64_t worker, taken; /* of its stream it has as many bytes */
    uint8_t stream;         /* enum output_stream */
    bool eof;               /* and knows that it has ended */
    bool lost;              /* it lacks what was sent before: send it again */
};

/* Can you reach this other agent, at which of these addresses? Only that one
 * can answer `nonce` with `answer`. Repeated until PROBED has come. */
struct msg_probe {
    uint64_t target;
    uint8_t nonce[WIRE_TOKEN_NBYTES], answer[WIRE_TOKEN_NBYTES];
    struct wire_strings addresses; /* reach.h */
    uint64_t wait_ms; /* for its answers; 0: the agent's own limit */
};

struct msg_probed {
    uint64_t target;
    uint64_t reached;         /* a bit for each address of the PROBE */
    char text[WIRE_TEXT_MAX]; /* what became of the others */
    bool loses; /* at one of them the target answers, and large packets to it
                   are lost on the way */
};

/* ---- worker -> driver ---------------------------------------------------- */

/* What a worker is doing; also the states of its core. */
enum worker_phase {
    WORKER_CONTACT = 0, /* HELLO sent, no WELCOME yet */
    WORKER_IDLE = 1,    /* welcome; has not entered hvd_elastic_run */
    WORKER_JOINING = 2, /* READY: waits for ASSIGN */
    WORKER_RUNNING = 3, /* member of `generation`, training or syncing */
    WORKER_HELD = 4,    /* waits at a boundary for CUT */
    WORKER_DONE = 5,    /* trained to the end, waits for RELEASE */
    WORKER_LEFT = 6     /* released, drained or failed: says goodbye */
};

/* Where a worker is that greets a successor of its driver; all 0: nowhere yet.
 * It is believed over what the dead driver wrote down. */
struct msg_where {
    uint8_t phase;       /* enum worker_phase */
    uint8_t reason;      /* JOINING: enum ready_reason */
    uint64_t generation; /* of its last ASSIGN, with rank, size and base: */
    uint32_t rank, size;
    struct state_id base;
    uint64_t joined; /* generation of its first ASSIGN */
    uint64_t fence;
    struct state_id id; /* newest complete snapshot */
    uint64_t boundary;  /* JOINING: at which it left `generation` */
    uint64_t hold_sequence;
    bool held;    /* HOLD `hold_sequence` has been answered */
    bool has_cut; /* ... and CUT has come: */
    uint64_t cut;
    uint8_t kind; /* enum ready_kind, with the layout; 0: not entered yet */
    uint8_t layout[WIRE_DIGEST_NBYTES];
    char layout_text[WIRE_TEXT_MAX];
    bool released; /* LEFT: by RELEASE, and has not ended yet */
};

struct msg_hello {
    int64_t pid;
    uint8_t proof[WIRE_TOKEN_NBYTES]; /* of its token: wire/seal.h */
    char version[32];
    char address[WIRE_ADDRESS_MAX]; /* where its data plane listens: one, or
                                       several with commas between them, the
                                       preferred one first; all at `port` */
    uint16_t port;
    uint64_t connection; /* of those it has made: the highest is the newest */
    struct msg_where where;
};

enum ready_kind { READY_ELASTIC = 1, READY_STATIC = 2 };
enum ready_reason { READY_START = 1, READY_LOST = 2, READY_UPDATED = 3 };

/* What a worker can do with others of its host (collectives/ability.h finds it
 * out). Who is older than a bit does not set it: a bit is only ever an
 * offer. */
enum ready_ability {
    READY_CAN_SHARE = 1,  /* memory that others map */
    READY_CAN_ATTACH = 2, /* read others' memory, and let it be read */
    READY_CAN_WATCH = 4,  /* learn of another process's death */
    READY_CAN_AES = 8,    /* encrypt with AES: asked of any two workers */
    READY_CAN_ALL = 15,
    READY_ON_DEVICE = 16 /* its state has entries on a device */
};

struct msg_ready {
    uint8_t kind;       /* enum ready_kind */
    uint8_t reason;     /* enum ready_reason */
    uint64_t fence;     /* it will never act in this generation or below */
    struct state_id id; /* newest complete snapshot */
    uint8_t layout[WIRE_DIGEST_NBYTES];
    char layout_text[WIRE_TEXT_MAX]; /* the layout in words, for the sentence */
    uint64_t boundary;               /* passed in the generation it leaves */
    uint64_t operation;              /* last collective completed in it */
    uint8_t abilities;               /* enum ready_ability */
    uint32_t user; /* effective: of one host only the same ones share memory */
    char
        settings[WIRE_SETTINGS_MAX]; /* what is to be equal on all ranks, as the
                                     environment has it: "NAME=value\n" each */
};

struct msg_lost {
    uint64_t generation;
    bool mismatch; /* deterministic disagreement: stops the job with `text` */
    uint32_t n_accused;
    uint32_t accused[WIRE_ACCUSED_MAX]; /* ranks of `generation` */
    uint64_t proven; /* a bit for each: it had answered in this generation, or
                        was refusing for the whole connect timeout */
    char text[WIRE_TEXT_MAX];
};

struct msg_held {
    uint64_t generation;
    uint64_t sequence; /* of the HOLD it answers */
    uint64_t boundary; /* boundaries passed */
    bool done;         /* has finished training: it has no more boundaries */
};

enum report_what {
    REPORT_FIRST_COLLECTIVE = 1,
    REPORT_SYNCED = 2,
    REPORT_FIRST_COMMIT = 3
};

struct msg_report {
    uint64_t generation;
    uint8_t what;         /* enum report_what */
    uint64_t duration_ns; /* since ASSIGN arrived */
    uint64_t nbytes;
    uint32_t sources;
};

struct msg_done {
    uint64_t generation;
    struct state_id id;
};

struct msg_leaving {
    uint64_t generation;
    int64_t status; /* hvd_status_t that the program will see */
    char text[WIRE_TEXT_MAX];
    bool alone; /* it gives up, and the others go on */
};

struct msg_ping {
    uint64_t stamp_us;
    uint8_t phase; /* enum worker_phase */
    uint64_t generation;
    uint64_t fence;
    struct state_id id;
    uint64_t boundary;
    bool held; /* a HOLD has been answered */
    uint64_t hold_sequence;
    bool cut;           /* a CUT has been received */
    uint64_t busy_ms;   /* left of hvd_busy_begin() */
    uint64_t operation; /* collectives completed in this generation */
    uint64_t called;    /* ... and called or posted */
    uint64_t moves;     /* grows when bytes of one, or of the state, move */
    bool in_collective; /* waits for others now */
    bool last;    /* LEFT: its control thread ends, the process may go on */
    bool expects; /* as the last PONG of this generation said */
};

/* Of its calls by name those that others have yet to post: said with each
 * heartbeat while one is older than that, or this rank has joined, and once
 * when none is. */
struct msg_waiting {
    uint64_t generation;
    uint64_t waited_ms;           /* for the first */
    char name[WIRE_NAME_MAX];     /* of the first */
    char others[WIRE_OTHERS_MAX]; /* "'b', 'c'": some others, as they fit */
    uint32_t n_names;
    uint32_t names[WIRE_WAITING_MAX]; /* their digests, the oldest first; where
                                         there are more: one that is old, and
                                         the least of all */
    bool more;      /* there are others, or this rank has joined */
    uint32_t up_to; /* ... all digests up to this are among them; 0: any may be
                       of a call that it has posted */
    uint32_t n_ranks;                 /* the first is a communicator's: */
    uint32_t ranks[WIRE_WAITING_MAX]; /* its ranks, as they fit; 0: the world's
                                       */
};

/* ---- driver -> worker ---------------------------------------------------- */

/* The place that a worker will probably have. */
struct msg_plan {
    uint32_t rank, size, local_rank, local_size;
    bool elastic; /* other hosts may come, or the job goes on with fewer */
};

struct msg_welcome {
    uint64_t heartbeat_ms;
    uint64_t driver_timeout_ms; /* silence of the driver that ends the worker */
    uint64_t connect_timeout_ms;
    uint64_t silence_ms; /* workers: of a peer's host that is waited for; 0: for
                            ever */
    uint64_t output_hold_ms; /* agents: how long a worker may have to wait for
                                its output to be taken; 0: not at all */
    bool encrypt_data;       /* workers: all that goes over TCP between them */
    struct msg_plan plan;    /* workers */
};

/* One row of the table that all members share, in rank order. */
struct assign_entry {
    uint64_t worker;
    uint32_t host; /* equal: same host */
    uint32_t slot;
    uint16_t port;
    bool source;       /* holds the base: is up to date, may serve it */
    uint8_t abilities; /* enum ready_ability: what all of its host have */
    char address[WIRE_ADDRESS_MAX];
};

/* The table, encoded once for all members, or for all that have the one before
 * (table_encode, table_encode_change in codec.h). */
struct assign_table {
    struct assign_entry *entries; /* [n_entries] */
    size_t n_entries;
    size_t entries_max;
    uint64_t generation; /* whose it is; 0: nobody may change this one */
};

struct msg_assign {
    uint8_t key[WIRE_KEY_NBYTES]; /* fresh for each generation */
    uint32_t rank, size;
    uint32_t local_rank, local_size;
    uint32_t cross_rank, cross_size;
    uint32_t root;        /* rank of the first source */
    struct state_id base; /* greatest id among the READYs */
    bool source;          /* this worker holds the base (or is the one source
                                when base is (0, 0)) */
    bool sync;            /* somebody does not hold the base */
    uint8_t reason;       /* enum ready_reason: why the generation was formed */
    uint64_t operation;   /* collective to resume at; 0: from the state */
    uint32_t committed_size; /* size of the generation that made the base */
    char settings[WIRE_SETTINGS_MAX]; /* as in READY: rank 0's, which count */
    struct wire_span table;           /* encoded struct assign_table */
};

enum hosts_updated_flags { HOSTS_REMOVED = 1, HOSTS_ADDED = 2 };

struct msg_hold {
    uint64_t sequence; /* grows with each HOLD of the job */
    uint8_t flags;     /* enum hosts_updated_flags */
};

#define CUT_NEVER UINT64_MAX

struct msg_cut {
    uint64_t sequence;
    uint64_t boundary; /* everybody leaves exactly there; CUT_NEVER: go on */
};

enum abort_reason { ABORT_LOST = 1, ABORT_MISMATCH = 2, ABORT_STALE = 3 };

struct msg_abort {
    uint8_t reason;  /* enum abort_reason */
    uint64_t worker; /* who died; 0: nobody in particular */
    char text[WIRE_TEXT_MAX];
};

enum shutdown_reason {
    SHUTDOWN_FINISHED = 1, /* the job ended well without this worker */
    SHUTDOWN_DRAINED = 2,
    SHUTDOWN_FAILED = 3
};

struct msg_shutdown {
    uint8_t reason; /* enum shutdown_reason */
    int64_t status; /* hvd_status_t for the program when reason is FAILED */
    char text[WIRE_TEXT_MAX];
};

struct msg_pong {
    uint64_t stamp_us; /* echoed */
    bool expects;      /* a worker's: a change of hosts is being prepared */
};

/* ---- the message --------------------------------------------------------- */

struct message {
    enum message_type type;
    uint64_t job;
    uint64_t term;       /* from the driver; 0 otherwise */
    uint64_t generation; /* from the driver: that the message is about */
    uint64_t worker;     /* from a worker: its id; 0 otherwise */
    /* AGENT_WELCOME uses `welcome`, AGENT_PONG `pong`; AGENT_SHUTDOWN, RELEASE
     * and DRAIN_ME have no body. */
    union {
        struct msg_agent_hello agent_hello;
        struct msg_spawned spawned;
        struct msg_spawn_failed spawn_failed;
        struct msg_worker_exited worker_exited;
        struct msg_notice notice;
        struct msg_agent_ping agent_ping;
        struct msg_output output;
        struct msg_spawn spawn;
        struct msg_kill kill;
        struct msg_credit credit;
        struct msg_probe probe;
        struct msg_probed probed;
        struct msg_hello hello;
        struct msg_ready ready;
        struct msg_lost lost;
        struct msg_held held;
        struct msg_report report;
        struct msg_done done;
        struct msg_leaving leaving;
        struct msg_ping ping;
        struct msg_waiting waiting;
        struct msg_welcome welcome;
        struct msg_assign assign;
        struct msg_hold hold;
        struct msg_cut cut;
        struct msg_abort abort;
        struct msg_shutdown shutdown;
        struct msg_pong pong;
    } u;
};

/* "READY", "ASSIGN", ...; "?" for an unknown type. */
const char *message_type_name(enum message_type type);

#endif
