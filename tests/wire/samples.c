/* tests/wire/samples.c - see samples.h. */
#include "samples.h"

#include "base/array.h"

#define TOKEN                                                                  \
    {                                                                          \
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, \
            21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32                     \
    }
#define AGENT(type_)  .type = (type_), .job = 77
#define DRIVER(type_) .type = (type_), .job = 77, .term = 3, .generation = 1000
#define WORKER(type_) .type = (type_), .job = 77, .worker = 70000
#define STRINGS(text)                          \
    {                                          \
        .data = (text), .nbytes = sizeof(text) \
    }
#define BYTES(text)                                             \
    {                                                           \
        .data = (const uint8_t *)(text), .nbytes = sizeof(text) \
    }

static struct assign_entry entries[] = {
    {.worker = 1,
     .slot = 1,
     .port = 4000,
     .source = true,
     .abilities = READY_CAN_ALL,
     .address = "127.0.0.1"},
    {.worker = 2, .slot = 2, .port = 4001, .address = "127.0.0.1"},
    {.worker = UINT64_MAX,
     .host = 1,
     .port = UINT16_MAX,
     .abilities = UINT8_MAX,
     .address = "::1"},
    {.worker = 9, .host = UINT32_MAX, .slot = UINT32_MAX, .address = ""},
    {.worker = 10, .host = 4, .slot = 70000, .source = true, .address = ""},
};

const struct assign_table sample_table = {
    .entries = entries,
    .n_entries = ARRAY_SIZE(entries),
};

const struct message samples[] = {
    {AGENT(MSG_AGENT_HELLO),
     .u.agent_hello = {.agent = 4,
                       .host = "localhost",
                       .pid = 4711,
                       .proof = TOKEN,
                       .version = "0.1.0",
                       .n_alive = 2,
                       .started = 123456,
                       .addresses = STRINGS("eth0 10.0.0.1/24 47 1 2\0"
                                            "eth0 fd00::1/64 47 1 2"),
                       .connection = 3}},
    {AGENT(MSG_SPAWNED), .u.spawned = {.worker = 5, .pid = 4712}},
    {AGENT(MSG_SPAWN_FAILED),
     .u.spawn_failed = {.worker = 5, .error = 2, .text = "no such file"}},
    {AGENT(MSG_WORKER_EXITED),
     .u.worker_exited =
         {.worker = 5, .pid = 4712, .code = -1, .signal = 9, .core = true}},
    {AGENT(MSG_NOTICE),
     .u.notice = {.left_ms = 30000, .text = "spot instance: terminate"}},
    {AGENT(MSG_AGENT_PING),
     .u.agent_ping = {.stamp_us = UINT64_MAX, .n_alive = 4}},
    {AGENT(MSG_OUTPUT), .u.output = {.worker = 5,
                                     .stream = OUTPUT_STDERR,
                                     .eof = true,
                                     .bytes = BYTES("one line\nand a half")}},
    {DRIVER(MSG_AGENT_WELCOME), .u.welcome = {.heartbeat_ms = 200,
                                              .driver_timeout_ms = 1,
                                              .connect_timeout_ms = 2}},
    {DRIVER(MSG_SPAWN), .u.spawn = {.worker = 5,
                                    .slot = 3,
                                    .argv = STRINGS("./train\0--lr\0"
                                                    "0.1"),
                                    .env = STRINGS("HVD_JOB=77\0HVD_SLOT=3"),
                                    .cwd = STRINGS("/tmp"),
                                    .addresses = "10.0.0.1,fd00::1"}},
    {DRIVER(MSG_KILL), .u.kill = {.worker = 5, .grace_ms = 5000}},
    {DRIVER(MSG_AGENT_SHUTDOWN)},
    {DRIVER(MSG_AGENT_PONG), .u.pong = {.stamp_us = 12345678}},
    {DRIVER(MSG_CREDIT), .u.credit = {.nbytes = 1 << 20}},
    {DRIVER(MSG_PROBE),
     .u.probe = {.target = 4,
                 .nonce = TOKEN,
                 .answer = TOKEN,
                 .addresses = STRINGS("eth0 10.0.0.1/24 47 10000 1500")}},
    {AGENT(MSG_PROBED),
     .u.probed = {.target = 4,
                  .reached = 1,
                  .text = "172.17.0.1: answered by another"}},
    {WORKER(MSG_HELLO),
     .u.hello = {.pid = 4712,
                 .proof = TOKEN,
                 .version = "0.1.0",
                 .address = "127.0.0.1",
                 .port = 65535,
                 .connection = UINT64_MAX,
                 .where = {.phase = WORKER_LEFT, .released = true}}},
    {WORKER(MSG_READY), .u.ready = {.kind = READY_STATIC,
                                    .reason = READY_UPDATED,
                                    .fence = 999,
                                    .id = {999, UINT64_MAX},
                                    .layout = {1, 2, 3},
                                    .layout_text = "weights float32[10]",
                                    .boundary = 17,
                                    .operation = 4711,
                                    .abilities = READY_CAN_ALL,
                                    .user = UINT32_MAX}},
    {WORKER(MSG_LOST), .u.lost = {.generation = 1000,
                                  .mismatch = true,
                                  .n_accused = 3,
                                  .accused = {0, 300, UINT32_MAX},
                                  .proven = 5,
                                  .text = "count 3, count 4"}},
    {WORKER(MSG_HELD), .u.held = {.generation = 1000,
                                  .sequence = 8,
                                  .boundary = 18,
                                  .done = true}},
    {WORKER(MSG_REPORT), .u.report = {.generation = 1000,
                                      .what = REPORT_FIRST_COMMIT,
                                      .duration_ns = 1000000000,
                                      .nbytes = UINT64_MAX,
                                      .sources = 2}},
    {WORKER(MSG_DONE), .u.done = {.generation = 1000, .id = {1000, 12}}},
    {WORKER(MSG_LEAVING),
     .u.leaving = {.generation = 1000, .status = -1001, .text = "out of data"}},
    {WORKER(MSG_PING), .u.ping = {.stamp_us = 1,
                                  .phase = WORKER_LEFT,
                                  .generation = 1000,
                                  .fence = 999,
                                  .id = {1000, 5},
                                  .boundary = 19,
                                  .held = true,
                                  .hold_sequence = 8,
                                  .cut = true,
                                  .busy_ms = 60000,
                                  .operation = 4712,
                                  .called = 4713,
                                  .moves = UINT64_MAX,
                                  .in_collective = true}},
    {WORKER(MSG_DRAIN_ME)},
    {DRIVER(MSG_WELCOME), .u.welcome = {.heartbeat_ms = 1000,
                                        .driver_timeout_ms = 1,
                                        .connect_timeout_ms = 5000,
                                        .silence_ms = 2000,
                                        .encrypt_data = true}},
    {DRIVER(MSG_ASSIGN), .u.assign = {.key = TOKEN,
                                      .rank = 4,
                                      .size = 5,
                                      .local_rank = 1,
                                      .local_size = 2,
                                      .cross_rank = 1,
                                      .cross_size = 3,
                                      .root = 2,
                                      .base = {999, 7},
                                      .source = true,
                                      .sync = true,
                                      .reason = READY_LOST,
                                      .operation = 4712,
                                      .committed_size = 6,
                                      .table = BYTES("not looked into here")}},
    {DRIVER(MSG_HOLD),
     .u.hold = {.sequence = 8, .flags = HOSTS_REMOVED | HOSTS_ADDED}},
    {DRIVER(MSG_CUT), .u.cut = {.sequence = 8, .boundary = CUT_NEVER}},
    {DRIVER(MSG_ABORT),
     .u.abort = {.reason = ABORT_STALE, .worker = 5, .text = "killed"}},
    {DRIVER(MSG_RELEASE)},
    {DRIVER(MSG_SHUTDOWN),
     .u.shutdown = {.reason = SHUTDOWN_FAILED, .status = -11, .text = "no"}},
    {DRIVER(MSG_PONG), .u.pong = {.stamp_us = 300}},
};

const size_t n_samples = ARRAY_SIZE(samples);
