/* base/log.h - one sink for words to a person: stderr, one write per line. A
 * stderr that nobody reads is not waited for: lines are lost, and counted.
 *
 * error: cannot go on. warn: odd, but going on. info: a line per generation
 * change. debug: per object. trace: per message. Lower case, "cause ->
 * consequence", numbers with units.
 *
 * Threads: any. Levels and prefix are set before threads start, the prefix also
 * later (atomically swapped). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_TRACE
};

/* Program name is printed first on each line ("hvd-elastic: warn: ...");
 * borrowed for ever. */
void log_init(const char *program, enum log_level level);

/* "gen 7 rank 3 host-12:1", shown after the level; copied, 63 bytes at most. */
void log_set_prefix(const char *prefix);

/* Lines go to this function instead of stderr (the driver's status line must
 * move out of the way); NULL: stderr again. `line` has no newline. */
typedef void (*log_sink_fn)(enum log_level level, const char *line, void *arg);
void log_set_sink(log_sink_fn sink, void *arg);

/* "error", "warn", ...; false when `name` is none of them. */
bool log_level_parse(const char *name, enum log_level *level_p);
bool log_enabled(enum log_level level);

void log_write(enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How often a line is written that somebody else can provoke as often as he
 * likes. Zeroed memory is a fresh one; its owner's thread alone uses it. */
struct log_seldom {
    uint64_t next_us;   /* not before */
    uint64_t n_omitted; /* lines since the last that was written */
};

enum { LOG_SELDOM_US = 10000000 };

/* log_write(), but at most once in LOG_SELDOM_US: the first at once, and each
 * later one says how many were omitted. */
void log_seldom(struct log_seldom *seldom, enum log_level level,
                const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                               \
    do {                                             \
        if (log_enabled(LOG_LEVEL_DEBUG))            \
            log_write(LOG_LEVEL_DEBUG, __VA_ARGS__); \
    } while (0)
#define log_trace(...)                               \
    do {                                             \
        if (log_enabled(LOG_LEVEL_TRACE))            \
            log_write(LOG_LEVEL_TRACE, __VA_ARGS__); \
    } while (0)

#endif
