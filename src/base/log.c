/* base/log.c - the log sink. See log.h. A mutex guards the prefix and the
 * sink. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024, PREFIX_MAX = 64 };

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

static struct {
    const char *program;
    _Atomic int level;
    pthread_mutex_t lock;
    char prefix[PREFIX_MAX]; /* guarded by lock */
    void (*sink)(const char *line, void *arg);
    void *sink_arg;
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

void log_set_sink(void (*sink)(const char *line, void *arg), void *arg)
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

/* Clamp snprintf's idea of the length to what is really in the buffer. */
static size_t written(int n, size_t room)
{
    if (n < 0)
        return 0;
    return (size_t)n < room ? (size_t)n : room - 1;
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
    n += written(vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap),
                 sizeof(line) - 1 - n);
    va_end(ap);
    if (logger.sink) {
        logger.sink(line, logger.sink_arg);
    } else {
        line[n++] = '\n';
        /* a log that cannot be written has nobody to tell */
        if (write(STDERR_FILENO, line, n) < 0)
            n = 0;
    }
    pthread_mutex_unlock(&logger.lock);
}
