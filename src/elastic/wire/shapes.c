/* elastic/wire/shapes.c - the tables of shapes.h and the names of the messages.
 *
 * Threads, memory: constants. Pure. */
#include "elastic/wire/shapes.h"

#include "base/array.h"

#define FIELD(number, member, kind_, ...) \
    FIELD_OF(struct message, number, member, kind_, __VA_ARGS__)
#define RANGE(number, member, lo_, hi_) \
    FIELD(number, member, FIELD_UINT, .lo = (lo_), .hi = (hi_))
#define OPTIONAL(number, member, kind_) \
    FIELD(number, member, kind_, .hi = UINT64_MAX, .optional = true)
#define REQUIRED(number, member, kind_) \
    FIELD(number, member, kind_, .hi = UINT64_MAX)

#define UINT(number, member)       REQUIRED(number, member, FIELD_UINT)
#define UINT_OPT(number, member)   OPTIONAL(number, member, FIELD_UINT)
#define WORKER_ID(number, member)  RANGE(number, member, 1, UINT64_MAX)
#define INT(number, member)        REQUIRED(number, member, FIELD_INT)
#define BOOL(number, member)       OPTIONAL(number, member, FIELD_BOOL)
#define STR(number, member)        REQUIRED(number, member, FIELD_STR)
#define TEXT(number, member)       OPTIONAL(number, member, FIELD_STR)
#define DIGEST(number, member)     REQUIRED(number, member, FIELD_DIGEST)
#define DIGEST_OPT(number, member) OPTIONAL(number, member, FIELD_DIGEST)
#define ID(number, member)         REQUIRED(number, member, FIELD_STATE_ID)

/* argv and environment together stay below the limit of a message */
enum { STRINGS_MAX = WIRE_MESSAGE_MAX / 2 - 4096 };

static const struct field envelope[] = {
    UINT(1, job),
    UINT_OPT(2, term),
    UINT_OPT(3, generation),
    UINT_OPT(4, worker),
};

static const struct field agent_hello[] = {
    UINT(1, u.agent_hello.agent),
    STR(2, u.agent_hello.host),
    INT(3, u.agent_hello.pid),
    DIGEST(4, u.agent_hello.proof),
    TEXT(5, u.agent_hello.version),
    UINT_OPT(6, u.agent_hello.n_alive),
    UINT_OPT(7, u.agent_hello.started),
    FIELD(8, u.agent_hello.addresses, FIELD_STRINGS, .hi = WIRE_REACH_MAX,
          .optional = true),
    UINT_OPT(9, u.agent_hello.connection),
};

static const struct field spawned[] = {
    WORKER_ID(1, u.spawned.worker),
    INT(2, u.spawned.pid),
    UINT_OPT(3, u.spawned.slot),
};

static const struct field spawn_failed[] = {
    WORKER_ID(1, u.spawn_failed.worker),
    INT(2, u.spawn_failed.error),
    TEXT(3, u.spawn_failed.text),
};

static const struct field worker_exited[] = {
    WORKER_ID(1, u.worker_exited.worker), INT(2, u.worker_exited.pid),
    INT(3, u.worker_exited.code),         INT(4, u.worker_exited.signal),
    BOOL(5, u.worker_exited.core),        UINT_OPT(6, u.worker_exited.slot),
    UINT_OPT(7, u.worker_exited.open),
};

static const struct field notice[] = {
    UINT(1, u.notice.left_ms),
    TEXT(2, u.notice.text),
};

static const struct field agent_ping[] = {
    UINT(1, u.agent_ping.stamp_us),
    UINT_OPT(2, u.agent_ping.n_alive),
    BOOL(3, u.agent_ping.sees_dir),
};

static const struct field output[] = {
    WORKER_ID(1, u.output.worker),
    RANGE(2, u.output.stream, OUTPUT_STDOUT, OUTPUT_STDERR),
    BOOL(3, u.output.eof),
    FIELD(4, u.output.bytes, FIELD_SPAN, .hi = WIRE_OUTPUT_MAX,
          .optional = true),
    BOOL(5, u.output.settled),
    UINT_OPT(6, u.output.at),
    BOOL(7, u.output.first),
};

static const struct field agent_welcome[] = {
    UINT_OPT(1, u.welcome.heartbeat_ms),
    UINT_OPT(2, u.welcome.driver_timeout_ms),
    UINT_OPT(3, u.welcome.connect_timeout_ms),
    UINT_OPT(4, u.welcome.output_hold_ms),
};

static const struct field spawn[] = {
    WORKER_ID(1, u.spawn.worker),
    UINT(2, u.spawn.slot),
    FIELD(3, u.spawn.argv, FIELD_STRINGS, .lo = 1, .hi = STRINGS_MAX),
    FIELD(4, u.spawn.env, FIELD_STRINGS, .hi = STRINGS_MAX, .optional = true),
    FIELD(5, u.spawn.cwd, FIELD_STRINGS, .hi = 4096, .optional = true),
    TEXT(6, u.spawn.addresses),
};

static const struct field kill[] = {
    WORKER_ID(1, u.kill.worker),
    UINT(2, u.kill.grace_ms),
};

static const struct field pong[] = {
    UINT_OPT(1, u.pong.stamp_us),
    BOOL(2, u.pong.expects),
};

static const struct field credit[] = {
    UINT(1, u.credit.nbytes),     UINT_OPT(2, u.credit.worker),
    UINT_OPT(3, u.credit.stream), UINT_OPT(4, u.credit.taken),
    BOOL(5, u.credit.eof),        BOOL(6, u.credit.lost),
};

static const struct field probe[] = {
    UINT(1, u.probe.target),
    DIGEST(2, u.probe.nonce),
    DIGEST(3, u.probe.answer),
    FIELD(4, u.probe.addresses, FIELD_STRINGS, .hi = WIRE_REACH_MAX,
          .optional = true),
    UINT_OPT(5, u.probe.wait_ms),
};

static const struct field probed[] = {
    UINT(1, u.probed.target),
    UINT_OPT(2, u.probed.reached),
    TEXT(3, u.probed.text),
    BOOL(4, u.probed.loses),
};

static const struct field hello[] = {
    INT(1, u.hello.pid),
    DIGEST(2, u.hello.proof),
    TEXT(3, u.hello.version),
    STR(4, u.hello.address),
    UINT(5, u.hello.port),
    FIELD(6, u.hello.where.phase, FIELD_UINT, .hi = WORKER_LEFT,
          .optional = true),
    FIELD(7, u.hello.where.reason, FIELD_UINT, .hi = READY_UPDATED,
          .optional = true),
    UINT_OPT(8, u.hello.where.generation),
    UINT_OPT(9, u.hello.where.rank),
    UINT_OPT(10, u.hello.where.size),
    OPTIONAL(11, u.hello.where.base, FIELD_STATE_ID),
    UINT_OPT(12, u.hello.where.joined),
    UINT_OPT(13, u.hello.where.fence),
    OPTIONAL(14, u.hello.where.id, FIELD_STATE_ID),
    UINT_OPT(15, u.hello.where.boundary),
    UINT_OPT(16, u.hello.where.hold_sequence),
    BOOL(17, u.hello.where.held),
    BOOL(18, u.hello.where.has_cut),
    UINT_OPT(19, u.hello.where.cut),
    FIELD(20, u.hello.where.kind, FIELD_UINT, .hi = READY_STATIC,
          .optional = true),
    DIGEST_OPT(21, u.hello.where.layout),
    TEXT(22, u.hello.where.layout_text),
    BOOL(23, u.hello.where.released),
    UINT_OPT(24, u.hello.connection),
};

static const struct field ready[] = {
    RANGE(1, u.ready.kind, READY_ELASTIC, READY_STATIC),
    RANGE(2, u.ready.reason, READY_START, READY_UPDATED),
    UINT(3, u.ready.fence),
    ID(4, u.ready.id),
    DIGEST_OPT(5, u.ready.layout),
    TEXT(6, u.ready.layout_text),
    UINT_OPT(7, u.ready.boundary),
    UINT_OPT(8, u.ready.operation),
    UINT_OPT(9, u.ready.abilities),
    UINT_OPT(10, u.ready.user),
    TEXT(11, u.ready.settings),
};

static const struct field lost[] = {
    UINT(1, u.lost.generation),
    BOOL(2, u.lost.mismatch),
    FIELD(3, u.lost.accused, FIELD_LIST,
          .count_offset = offsetof(struct message, u.lost.n_accused),
          .optional = true),
    TEXT(4, u.lost.text),
    UINT_OPT(5, u.lost.proven),
};

static const struct field held[] = {
    UINT(1, u.held.generation),
    UINT(2, u.held.sequence),
    UINT(3, u.held.boundary),
    BOOL(4, u.held.done),
};

static const struct field report[] = {
    UINT(1, u.report.generation),
    RANGE(2, u.report.what, REPORT_FIRST_COLLECTIVE, REPORT_FIRST_COMMIT),
    UINT(3, u.report.duration_ns),
    UINT_OPT(4, u.report.nbytes),
    UINT_OPT(5, u.report.sources),
};

static const struct field done[] = {
    UINT(1, u.done.generation),
    ID(2, u.done.id),
};

static const struct field leaving[] = {
    UINT(1, u.leaving.generation),
    INT(2, u.leaving.status),
    TEXT(3, u.leaving.text),
    BOOL(4, u.leaving.alone),
};

static const struct field ping[] = {
    UINT(1, u.ping.stamp_us),
    RANGE(2, u.ping.phase, WORKER_CONTACT, WORKER_LEFT),
    UINT(3, u.ping.generation),
    UINT(4, u.ping.fence),
    ID(5, u.ping.id),
    UINT(6, u.ping.boundary),
    BOOL(7, u.ping.held),
    UINT_OPT(8, u.ping.hold_sequence),
    BOOL(9, u.ping.cut),
    UINT_OPT(10, u.ping.busy_ms),
    UINT_OPT(11, u.ping.operation),
    BOOL(12, u.ping.in_collective),
    UINT_OPT(13, u.ping.called),
    UINT_OPT(14, u.ping.moves),
    BOOL(15, u.ping.last),
    BOOL(16, u.ping.expects),
};

static const struct field waiting[] = {
    UINT(1, u.waiting.generation),
    UINT_OPT(2, u.waiting.waited_ms),
    TEXT(3, u.waiting.name),
    FIELD(4, u.waiting.names, FIELD_LIST,
          .count_offset = offsetof(struct message, u.waiting.n_names),
          .optional = true),
    BOOL(5, u.waiting.more),
    TEXT(6, u.waiting.others),
    FIELD(7, u.waiting.ranks, FIELD_LIST,
          .count_offset = offsetof(struct message, u.waiting.n_ranks),
          .optional = true),
    UINT_OPT(8, u.waiting.up_to),
};

static const struct field welcome[] = {
    RANGE(1, u.welcome.heartbeat_ms, 1, UINT64_MAX),
    UINT(2, u.welcome.driver_timeout_ms),
    UINT(3, u.welcome.connect_timeout_ms),
    UINT_OPT(4, u.welcome.silence_ms),
    BOOL(5, u.welcome.encrypt_data),
    BOOL(6, u.welcome.plan.elastic),
    UINT_OPT(7, u.welcome.plan.rank),
    UINT_OPT(8, u.welcome.plan.size),
    UINT_OPT(9, u.welcome.plan.local_rank),
    UINT_OPT(10, u.welcome.plan.local_size),
};

static const struct field assign[] = {
    DIGEST(1, u.assign.key),
    UINT(2, u.assign.rank),
    RANGE(3, u.assign.size, 1, UINT32_MAX),
    UINT(4, u.assign.local_rank),
    RANGE(5, u.assign.local_size, 1, UINT32_MAX),
    UINT(6, u.assign.cross_rank),
    RANGE(7, u.assign.cross_size, 1, UINT32_MAX),
    UINT(8, u.assign.root),
    ID(9, u.assign.base),
    BOOL(10, u.assign.source),
    BOOL(11, u.assign.sync),
    RANGE(12, u.assign.reason, READY_START, READY_UPDATED),
    UINT_OPT(13, u.assign.operation),
    UINT_OPT(14, u.assign.committed_size),
    FIELD(15, u.assign.table, FIELD_SPAN, .hi = WIRE_MESSAGE_MAX,
          .optional = true),
    TEXT(16, u.assign.settings),
};

static const struct field hold[] = {
    UINT(1, u.hold.sequence),
    RANGE(2, u.hold.flags, 0, HOSTS_REMOVED | HOSTS_ADDED),
};

static const struct field cut[] = {
    UINT(1, u.cut.sequence),
    UINT(2, u.cut.boundary),
};

static const struct field abort_[] = {
    RANGE(1, u.abort.reason, ABORT_LOST, ABORT_STALE),
    UINT_OPT(2, u.abort.worker),
    TEXT(3, u.abort.text),
};

static const struct field shutdown_[] = {
    RANGE(1, u.shutdown.reason, SHUTDOWN_FINISHED, SHUTDOWN_FAILED),
    INT(2, u.shutdown.status),
    TEXT(3, u.shutdown.text),
};

static const char *check_hello(const void *record)
{
    const struct msg_where *w =
        &((const struct message *)record)->u.hello.where;

    return w->size > 0 && w->rank >= w->size ? "u.hello.where.rank" : NULL;
}

static const char *check_assign(const void *record)
{
    const struct message *m = record;
    const struct msg_assign *a = &m->u.assign;

    if (a->rank >= a->size)
        return "u.assign.rank";
    if (a->local_rank >= a->local_size || a->local_size > a->size)
        return "u.assign.local_rank";
    if (a->cross_rank >= a->cross_size || a->cross_size > a->size)
        return "u.assign.cross_rank";
    return a->root >= a->size ? "u.assign.root" : NULL;
}

#define SHAPE(name_, fields_)                                                 \
    {                                                                         \
        .name = (name_), .fields = (fields_), .n_fields = ARRAY_SIZE(fields_) \
    }
#define EMPTY(name_)    \
    {                   \
        .name = (name_) \
    }

const struct shape shape_envelope = SHAPE("envelope", envelope);

static const struct shape shapes[] = {
    [MSG_AGENT_HELLO] = SHAPE("AGENT_HELLO", agent_hello),
    [MSG_SPAWNED] = SHAPE("SPAWNED", spawned),
    [MSG_SPAWN_FAILED] = SHAPE("SPAWN_FAILED", spawn_failed),
    [MSG_WORKER_EXITED] = SHAPE("WORKER_EXITED", worker_exited),
    [MSG_WORKER_DYING] = SHAPE("WORKER_DYING", worker_exited),
    [MSG_NOTICE] = SHAPE("NOTICE", notice),
    [MSG_AGENT_PING] = SHAPE("AGENT_PING", agent_ping),
    [MSG_OUTPUT] = SHAPE("OUTPUT", output),
    [MSG_PROBED] = SHAPE("PROBED", probed),
    [MSG_AGENT_WELCOME] = SHAPE("AGENT_WELCOME", agent_welcome),
    [MSG_SPAWN] = SHAPE("SPAWN", spawn),
    [MSG_KILL] = SHAPE("KILL", kill),
    [MSG_AGENT_SHUTDOWN] = EMPTY("AGENT_SHUTDOWN"),
    [MSG_AGENT_PONG] = SHAPE("AGENT_PONG", pong),
    [MSG_CREDIT] = SHAPE("CREDIT", credit),
    [MSG_PROBE] = SHAPE("PROBE", probe),
    [MSG_HELLO] = {.name = "HELLO",
                   .fields = hello,
                   .n_fields = ARRAY_SIZE(hello),
                   .check = check_hello},
    [MSG_READY] = SHAPE("READY", ready),
    [MSG_LOST] = SHAPE("LOST", lost),
    [MSG_HELD] = SHAPE("HELD", held),
    [MSG_REPORT] = SHAPE("REPORT", report),
    [MSG_DONE] = SHAPE("DONE", done),
    [MSG_LEAVING] = SHAPE("LEAVING", leaving),
    [MSG_PING] = SHAPE("PING", ping),
    [MSG_DRAIN_ME] = EMPTY("DRAIN_ME"),
    [MSG_WAITING] = SHAPE("WAITING", waiting),
    [MSG_WELCOME] = SHAPE("WELCOME", welcome),
    [MSG_ASSIGN] = {.name = "ASSIGN",
                    .fields = assign,
                    .n_fields = ARRAY_SIZE(assign),
                    .check = check_assign},
    [MSG_HOLD] = SHAPE("HOLD", hold),
    [MSG_CUT] = SHAPE("CUT", cut),
    [MSG_ABORT] = SHAPE("ABORT", abort_),
    [MSG_RELEASE] = EMPTY("RELEASE"),
    [MSG_SHUTDOWN] = SHAPE("SHUTDOWN", shutdown_),
    [MSG_PONG] = SHAPE("PONG", pong),
};

const struct shape *shape_of(uint64_t type)
{
    if (type >= ARRAY_SIZE(shapes) || !shapes[type].name)
        return NULL;
    return &shapes[type];
}

const char *message_type_name(enum message_type type)
{
    const struct shape *shape = shape_of((uint64_t)type);

    return shape ? shape->name : "?";
}
