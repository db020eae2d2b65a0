/* elastic/driver/output.c - from bytes to lines to where they go. See output.h.
 *
 * Files are opened for each chunk and closed again: thousands of workers would
 * otherwise hold thousands of descriptors, and a rank changes its file with its
 * number. */
#include "elastic/driver/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "elastic/driver/output_sink.h"

enum { PREFIX_MAX = 160 };

static const char *const stream_names[OUTPUT_STREAMS] = {"stdout", "stderr"};

void output_init(struct output *o, const struct output_config *config)
{
    *o = (struct output){.config = *config};
    o->sinks[0].fd = config->out_fd;
    o->sinks[1].fd = config->err_fd;
}

static void free_lines(struct output_entry *entry)
{
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        free(entry->lines[i].bytes);
}

void output_fini(struct output *o)
{
    for (size_t i = 0; i < o->n_entries; i++)
        free_lines(&o->entries[i]);
    free(o->entries);
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        free(o->sinks[i].bytes);
    *o = (struct output){0};
}

unsigned output_rank_width(uint32_t n_ranks)
{
    unsigned width = 1;

    for (uint32_t last = n_ranks > 0 ? n_ranks - 1 : 0; last >= 10; last /= 10)
        width++;
    return width;
}

/* ---- workers ------------------------------------------------------------ */

/* Index of the first entry with at least this id. */
static size_t lower_bound(const struct output *o, uint64_t worker)
{
    size_t low = 0, high = o->n_entries;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (o->entries[middle].worker < worker)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct output_entry *find(const struct output *o, uint64_t worker)
{
    size_t at = lower_bound(o, worker);

    return at < o->n_entries && o->entries[at].worker == worker
               ? &o->entries[at]
               : NULL;
}

/* NULL: out of memory. */
static struct output_entry *find_or_add(struct output *o, uint64_t worker)
{
    struct output_entry *entry = find(o, worker);
    size_t at = lower_bound(o, worker);

    if (entry)
        return entry;
    if (!array_reserve(&o->entries, &o->entries_max, o->n_entries + 1))
        return NULL;
    entry = &o->entries[at];
    memmove(entry + 1, entry, (o->n_entries - at) * sizeof(*entry));
    o->n_entries++;
    *entry = (struct output_entry){.worker = worker};
    return entry;
}

/* ---- files -------------------------------------------------------------- */

static void name_directory(const struct output *o,
                           const struct output_worker *who, char *path)
{
    if (who->rank >= 0)
        snprintf(path, PATH_MAX, "%s/rank.%0*d", o->config.dir,
                 (int)o->config.rank_width, who->rank);
    else
        snprintf(path, PATH_MAX, "%s/%s.%u", o->config.dir, who->host,
                 who->slot);
}

static int open_file(const struct output *o, const struct output_worker *who,
                     int stream)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC };
    char dir[PATH_MAX], path[PATH_MAX + 8];
    int fd;

    name_directory(o, who, dir);
    snprintf(path, sizeof(path), "%s/%s", dir, stream_names[stream]);
    fd = open(path, FLAGS, 0666);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return -1;
    return open(path, FLAGS, 0666);
}

static bool write_file(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

/* ---- lines -------------------------------------------------------------- */

/* Where one chunk of a worker goes. */
struct route {
    struct output *o;
    const struct output_worker *who;
    int stream;
    int file; /* -1: none */
    char prefix[PREFIX_MAX];
    size_t n_prefix;
};

static size_t print_time(char *text, size_t max)
{
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    n = strftime(text, max, "%Y-%m-%d %H:%M:%S", &tm);
    return n + (size_t)snprintf(text + n, max - n, ".%03ld ",
                                now.tv_nsec / 1000000);
}

static void open_route(struct route *r)
{
    const struct output_config *config = &r->o->config;
    size_t n = 0;

    if (config->timestamps)
        n = print_time(r->prefix, sizeof(r->prefix));
    if (r->who->rank >= 0)
        n += (size_t)snprintf(r->prefix + n, sizeof(r->prefix) - n,
                              "[%d]<%s>:", r->who->rank,
                              stream_names[r->stream]);
    else
        n += (size_t)snprintf(r->prefix + n, sizeof(r->prefix) - n,
                              "[%s:%u]<%s>:", r->who->host, r->who->slot,
                              stream_names[r->stream]);
    r->n_prefix = n < sizeof(r->prefix) ? n : sizeof(r->prefix) - 1;
    r->file = config->dir ? open_file(r->o, r->who, r->stream) : -1;
    if (config->dir && r->file < 0 && !r->o->file_warned) {
        r->o->file_warned = true;
        log_warn("--output-filename: \"%s\": %s -> files are incomplete",
                 config->dir, strerror(errno));
    }
}

/* Two pieces make a line: what was kept, and what has come. */
static void put_line(struct route *r, const struct output_line *kept,
                     const char *bytes, size_t n)
{
    struct output_sink *sink = &r->o->sinks[r->stream];

    output_sink_make_room(sink, r->n_prefix + kept->n + n);
    output_sink_put(sink, r->prefix, r->n_prefix);
    output_sink_put(sink, kept->bytes, kept->n);
    output_sink_put(sink, bytes, n);
    if (r->file < 0)
        return;
    if ((kept->n > 0 && !write_file(r->file, kept->bytes, kept->n)) ||
        !write_file(r->file, bytes, n)) {
        if (!r->o->file_warned)
            log_warn("--output-filename: \"%s\": %s -> files are incomplete",
                     r->o->config.dir, strerror(errno));
        r->o->file_warned = true;
    }
}

/* Keep the beginning of a line; a line that gets too long is broken. */
static void keep(struct route *r, struct output_line *line, const char *bytes,
                 size_t n)
{
    while (n > 0) {
        size_t room = OUTPUT_LINE_MAX - line->n;
        size_t take = n < room ? n : room;

        if (!array_reserve(&line->bytes, &line->max, line->n + take))
            return;
        memcpy(line->bytes + line->n, bytes, take);
        line->n += take;
        bytes += take;
        n -= take;
        if (line->n == OUTPUT_LINE_MAX) {
            put_line(r, line, "\n", 1);
            line->n = 0;
        }
    }
}

/* Bytes up to and with the end of the first line; 0: it has none. "\r\n" is one
 * end. */
static size_t first_line(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            return i + 1;
        if (bytes[i] == '\r')
            return i + 1 < n && bytes[i + 1] == '\n' ? i + 2 : i + 1;
    }
    return 0;
}

static void split(struct route *r, struct output_line *line, const char *bytes,
                  size_t n)
{
    size_t length;

    if (n > 0 && line->after_cr && bytes[0] == '\n') {
        /* the other half of an end that two chunks share: no new line */
        struct output_line nothing = {0};
        size_t n_prefix = r->n_prefix;

        r->n_prefix = 0;
        put_line(r, &nothing, bytes, 1);
        r->n_prefix = n_prefix;
        bytes++;
        n--;
    }
    line->after_cr = false;
    while ((length = first_line(bytes, n)) > 0) {
        if (line->n + length > OUTPUT_LINE_MAX) {
            keep(r, line, bytes, length - 1);
            put_line(r, line, bytes + length - 1, 1);
        } else {
            put_line(r, line, bytes, length);
        }
        line->n = 0;
        line->after_cr = bytes[length - 1] == '\r';
        bytes += length;
        n -= length;
    }
    keep(r, line, bytes, n);
}

static void drop_entry(struct output *o, struct output_entry *entry)
{
    free_lines(entry);
    o->n_entries--;
    memmove(entry, entry + 1,
            (size_t)(o->entries + o->n_entries - entry) * sizeof(*entry));
}

static bool all_ended(const struct output_entry *entry)
{
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        if (!entry->lines[i].ended)
            return false;
    return true;
}

void output_write(struct output *o, const struct output_worker *who, int stream,
                  const void *bytes, size_t n, bool eof)
{
    struct output_entry *entry = find_or_add(o, who->worker);
    struct route r = {.o = o, .who = who, .stream = stream, .file = -1};
    struct output_line *line;

    HVD_ASSERT(stream >= 0 && stream < OUTPUT_STREAMS);
    if (!entry)
        return;
    line = &entry->lines[stream];
    open_route(&r);
    split(&r, line, bytes, n);
    if (eof && line->n > 0) {
        put_line(&r, line, "\n", 1);
        line->n = 0;
    }
    if (r.file >= 0)
        close(r.file);
    line->ended |= eof;
    if (all_ended(entry)) /* workers come and go all day */
        drop_entry(o, entry);
    output_flush(o);
}

void output_forget(struct output *o, const struct output_worker *who)
{
    struct output_entry *entry;

    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        entry = find(o, who->worker); /* the last end drops it */
        if (entry && entry->lines[i].n > 0)
            output_write(o, who, i, "", 0, true);
    }
    entry = find(o, who->worker);
    if (entry)
        drop_entry(o, entry);
}

/* ---- our streams -------------------------------------------------------- */

size_t output_pending(const struct output *o, int stream)
{
    return o->sinks[stream].n - o->sinks[stream].head;
}

void output_flush(struct output *o)
{
    bool any = output_pending(o, 0) > 0 || output_pending(o, 1) > 0;

    if (any && o->config.before_write)
        o->config.before_write(o->config.before_write_arg);
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        output_sink_flush(&o->sinks[i]);
}

void output_drain(struct output *o, int timeout_ms)
{
    uint64_t now_us = clock_now_us();
    uint64_t deadline_us = now_us + (uint64_t)timeout_ms * 1000;

    output_flush(o);
    while (now_us < deadline_us) {
        struct pollfd polls[OUTPUT_STREAMS];
        nfds_t n = 0;

        for (int i = 0; i < OUTPUT_STREAMS; i++)
            if (output_pending(o, i) > 0)
                polls[n++] = (struct pollfd){.fd = o->sinks[i].fd,
                                             .events = POLLOUT};
        if (n == 0 || poll(polls, n, clock_poll_ms(now_us, deadline_us)) < 0)
            return;
        output_flush(o);
        now_us = clock_now_us();
    }
}
