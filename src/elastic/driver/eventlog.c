/* elastic/driver/eventlog.c - the event log. See eventlog.h. */
#include "elastic/driver/eventlog.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

hvd_status_t eventlog_open(struct eventlog *log, const char *path,
                           uint64_t start_us)
{
    *log = (struct eventlog){.path = path, .fd = -1, .start_us = start_us};
    json_init(&log->line);
    if (!path)
        return HVD_OK;
    log->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                   0666);
    if (log->fd < 0)
        return error_errno("--event-log: \"%s\"", path);
    return HVD_OK;
}

void eventlog_close(struct eventlog *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    json_fini(&log->line);
}

struct json *eventlog_begin(struct eventlog *log, uint64_t now_us,
                            const char *event, uint64_t generation)
{
    struct json *j = &log->line;

    json_reset(j);
    json_object_begin(j, NULL);
    json_scaled(j, "t", now_us > log->start_us ? now_us - log->start_us : 0, 6);
    json_str(j, "event", event);
    json_u64(j, "generation", generation);
    return j;
}

static void give_up(struct eventlog *log, const char *why)
{
    log_warn("event log \"%s\": %s -> the log ends here", log->path, why);
    close(log->fd);
    log->fd = -1;
}

void eventlog_end(struct eventlog *log)
{
    const char *text;
    ssize_t n;

    json_object_end(&log->line);
    json_newline(&log->line);
    text = json_text(&log->line);
    if (log->fd < 0)
        return;
    if (!text) {
        give_up(log, "out of memory");
        return;
    }
    do
        n = write(log->fd, text, log->line.n);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        give_up(log, strerror(errno));
    else if ((size_t)n < log->line.n)
        give_up(log, "disk full");
}

void eventlog_ms(struct eventlog *log, const char *key, uint64_t duration_us)
{
    json_scaled(&log->line, key, duration_us, 3);
}
