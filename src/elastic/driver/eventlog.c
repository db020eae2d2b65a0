/* elastic/driver/eventlog.c - the event log. See eventlog.h. */
#include "elastic/driver/eventlog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/writer.h"

enum { KEEP_MAX = 4 << 20, CLOSE_MS = 2000, OPEN_AGAIN_US = 1000000 };

static bool is_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* fresh: the job begins. A successor appends; the driver before may still hang
 * and hold the file. */
static hvd_status_t open_file(struct eventlog *log, bool fresh)
{
    /* a FIFO that nobody reads is refused, not waited for */
    int fd = open(log->path,
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);

    log->why = fd < 0 ? errno : 0;
    if (log->why == ENXIO)
        return error_set(HVD_ERR_SYSTEM,
                         "--event-log: \"%s\": nobody reads this FIFO (start "
                         "its reader first)",
                         log->path);
    if (fd < 0)
        return error_errno("--event-log: \"%s\"", log->path);
    if (!fd_claim(fd) && fresh) {
        close(fd);
        return error_set(HVD_ERR_INVALID,
                         "--event-log: \"%s\": another job writes to it",
                         log->path);
    }
    if (fresh && is_file(fd) && ftruncate(fd, 0) != 0)
        log_warn("event log \"%s\": %s -> its old lines stay", log->path,
                 strerror(errno));
    return writer_create_fd(fd, true, KEEP_MAX, -1, &log->writer);
}

hvd_status_t eventlog_open(struct eventlog *log, const char *path,
                           uint64_t start_us, bool go_on)
{
    *log = (struct eventlog){
        .path = path, .start_us = start_us, .open_us = CLOCK_NEVER};
    json_init(&log->line);
    if (!path)
        return HVD_OK;
    if (!go_on)
        return open_file(log, true);
    if (open_file(log, false) != HVD_OK) {
        log_warn("%s -> tried again each second", error_text());
        error_clear();
        log->open_us = 0;
    }
    return HVD_OK;
}

static void open_again(struct eventlog *log)
{
    uint64_t now_us = clock_now_us();
    int why;

    if (now_us < log->open_us)
        return;
    log->open_us = now_us + OPEN_AGAIN_US;
    why = log->why;
    if (open_file(log, false) == HVD_OK) {
        log->open_us = CLOCK_NEVER;
        log->why = why;
    }
    error_clear();
}

static void give_up(struct eventlog *log, int error)
{
    const char *why = error == ETIMEDOUT ? "takes no more" : strerror(error);

    log_warn("event log \"%s\": %s -> the log ends here", log->path, why);
}

static int end_writer(struct eventlog *log, int timeout_ms)
{
    int error;

    writer_destroy(log->writer, timeout_ms, timeout_ms, &error);
    log->writer = NULL;
    return error;
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

/* How many lines a slow reader or a full disk has cost, where they were. */
static bool put_dropped(struct eventlog *log)
{
    char line[160];
    int n;

    if (log->n_dropped == 0)
        return true;
    n = snprintf(line, sizeof(line),
                 "{\"event\":\"lines_dropped\",\"n\":%" PRIu64
                 ",\"reason\":\"%.60s\"}\n",
                 log->n_dropped,
                 log->why != 0 ? strerror(log->why) : "too slow");
    if (!writer_put(log->writer, line, (size_t)n))
        return false;
    log->n_dropped = 0;
    return true;
}

static void drop(struct eventlog *log)
{
    if (log->n_dropped == 0)
        log->why = writer_trouble(log->writer);
    log->n_dropped++;
}

void eventlog_end(struct eventlog *log)
{
    const char *text;

    json_object_end(&log->line);
    json_newline(&log->line);
    text = json_text(&log->line);
    if (!log->writer && log->open_us != CLOCK_NEVER) {
        open_again(log);
        log->n_dropped += !log->writer;
    }
    if (!log->writer)
        return;
    writer_tell_trouble(log->writer, "event log", log->path);
    if (writer_error(log->writer) != 0)
        give_up(log, end_writer(log, CLOSE_MS));
    else if (!text || !put_dropped(log) ||
             !writer_put(log->writer, text, log->line.n))
        drop(log);
}

void eventlog_ms(struct eventlog *log, const char *key, uint64_t duration_us)
{
    json_scaled(&log->line, key, duration_us, 3);
}

void eventlog_close(struct eventlog *log)
{
    bool ended = log->writer && writer_error(log->writer) != 0;
    int error = 0;

    if (log->writer) {
        (void)put_dropped(log);
        if (!writer_flush(log->writer, CLOSE_MS) && log->n_dropped == 0)
            log->why = writer_trouble(log->writer);
        log->n_dropped += writer_pending_lines(log->writer);
        error = end_writer(log, 0);
    }
    if (ended || (error != 0 && log->n_dropped == 0))
        give_up(log, error);
    else if (log->n_dropped > 0)
        log_warn("event log \"%s\": %s -> its last %" PRIu64 " lines are lost",
                 log->path,
                 log->why != 0 ? strerror(log->why) : "it takes no more",
                 log->n_dropped);
    json_fini(&log->line);
}
