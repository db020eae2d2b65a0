/* base/log.c - the log sink. See log.h. A mutex guards the prefix, the sink and
 * the count of lost lines. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_MAX_BYTES = 1024, PREFIX_MAX = 320 };

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

static struct {
    const char *program;
    _Atomic int level;
    pthread_mutex_t lock;
    char prefix[PREFIX_MAX]; /* guarded by lock */
    log_sink_fn sink;
    void *sink_arg;
    unsigned long n_lost; /* lines; guarded by lock */
} logger = {.program = "hvd",
            .level = LOG_LEVEL_WARN,
            .lock = PTHREAD_MUTEX_INITIALIZER};

void log_init(const char *program, enum log_level level)
{
    logger.program = program;
    atomic_store(&logger.level, (int)level);
}

void log_set_prefix(const char *prefix)
{
    pthread_mutex_lock(&logger.lock);
    snprintf(logger.prefix, sizeof(logger.prefix), "%s", prefix);
    pthread_mutex_unlock(&logger.lock);
}

void log_set_sink(log_sink_fn sink, void *arg)
{
    pthread_mutex_lock(&logger.lock);
    logger.sink = sink;
    logger.sink_arg = arg;
    pthread_mutex_unlock(&logger.lock);
}

bool log_level_parse(const char *name, enum log_level *level_p)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            *level_p = (enum log_level)i;
            return true;
        }
    return false;
}

bool log_enabled(enum log_level level)
{
    return (int)level <=
           atomic_load_explicit(&logger.level, memory_order_relaxed);
}

static bool is_writable(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* Never waits for a reader: who logs may be what a whole job waits for. What a
 * pipe polls as room may be another writer's a moment later, hence NOWAIT; a
 * file knows no such thing, or says EAGAIN and polls writable all the same. */
static bool write_all_or_none(const char *text, size_t n)
{
    struct iovec part = {.iov_len = n};

    if (!is_writable())
        return false;
    memcpy(&part.iov_base, &text, sizeof(text)); /* nobody writes to it */
    if (pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT) >= 0)
        return true;
    if (errno == EAGAIN && !is_writable())
        return false;
    /* a log that cannot be written has nobody to tell */
    return write(STDERR_FILENO, text, n) >= 0;
}

/* Clamp snprintf's idea of the length to what is really in the buffer. */
static size_t written(int n, size_t room)
{
    if (n < 0)
        return 0;
    return (size_t)n < room ? (size_t)n : room - 1;
}

/* How many lines were lost is told before the first that is not. */
static void write_stderr(const char *line)
{
    char text[2 * LINE_MAX_BYTES];
    size_t n = 0;

    if (logger.n_lost > 0)
        n = written(snprintf(text, LINE_MAX_BYTES,
                             "%s: warn: %lu lines lost: stderr was not read\n",
                             logger.program, logger.n_lost),
                    LINE_MAX_BYTES);
    n += written(snprintf(text + n, sizeof(text) - n, "%s\n", line),
                 sizeof(text) - n);
    logger.n_lost = write_all_or_none(text, n) ? 0 : logger.n_lost + 1;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list ap;
    size_t n;

    if (!log_enabled(level))
        return;
    pthread_mutex_lock(&logger.lock);
    n = written(snprintf(line, sizeof(line) - 1, "%s: %s: %s%s", logger.program,
                         names[level], logger.prefix,
                         logger.prefix[0] ? ": " : ""),
                sizeof(line) - 1);
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);
    va_end(ap);
    if (logger.sink)
        logger.sink(level, line, logger.sink_arg);
    else
        write_stderr(line);
    pthread_mutex_unlock(&logger.lock);
}

void log_seldom(struct log_seldom *seldom, enum log_level level,
                const char *fmt, ...)
{
    uint64_t now_us = clock_now_us();
    char line[LINE_MAX_BYTES];
    va_list ap;

    if (!log_enabled(level))
        return;
    if (now_us < seldom->next_us) {
        seldom->n_omitted++;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (seldom->n_omitted > 0)
        log_write(level, "%s (and %" PRIu64 " times like this before)", line,
                  seldom->n_omitted);
    else
        log_write(level, "%s", line);
    seldom->next_us = now_us + LOG_SELDOM_US;
    seldom->n_omitted = 0;
}
