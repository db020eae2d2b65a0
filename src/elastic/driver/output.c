/* elastic/driver/output.c - from bytes to lines to where they go. See output.h.
 */
#include "elastic/driver/output.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "discovery/hosts.h"

enum {
    PREFIX_MAX = HOSTS_NAME_MAX + 64,
    FILE_HOST_MAX = 244 /* a directory's name has 255 bytes at most */
};

static const char continued[] = "...";
static const char *const stream_names[OUTPUT_STREAMS] = {"stdout", "stderr"};

/* One terminal, one pipe, one file: "2>&1". */
static bool are_same(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static hvd_status_t open_sinks(struct output *o)
{
    const struct output_config *config = &o->config;
    const int fds[OUTPUT_STREAMS] = {config->out_fd, config->err_fd};
    bool same = are_same(fds[0], fds[1]);

    for (int i = 0; i < (same ? 1 : OUTPUT_STREAMS); i++) {
        HVD_TRY(output_sink_open(&o->sinks[i], stream_names[i], fds[i],
                                 config->wake_fd));
        o->n_sinks++;
    }
    return HVD_OK;
}

hvd_status_t output_init(struct output *o, const struct output_config *config)
{
    *o = (struct output){.config = *config};
    HVD_TRY(open_sinks(o));
    if (!config->dir)
        return HVD_OK;
    return output_files_open(&o->files, config->dir, config->hold_us,
                             config->wake_fd);
}

static struct output_sink *sink_of(struct output *o, int stream)
{
    return &o->sinks[stream < (int)o->n_sinks ? stream : 0];
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
    output_files_close(&o->files);
    for (unsigned i = 0; i < o->n_sinks; i++)
        output_sink_close(&o->sinks[i]);
    free(o->plain);
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
    *entry = (struct output_entry){.worker = worker, .words.worker = worker};
    return entry;
}

/* ---- files -------------------------------------------------------------- */

static void name_file(const struct output *o, const struct output_worker *who,
                      int stream, char *path)
{
    if (who->rank >= 0)
        snprintf(path, PATH_MAX, "rank.%0*d/%s", (int)o->config.rank_width,
                 who->rank, stream_names[stream]);
    else
        snprintf(path, PATH_MAX, "%.*s.%u/%s", FILE_HOST_MAX, who->host,
                 who->slot, stream_names[stream]);
}

static void keep_plain(struct output *o, const char *bytes, size_t n)
{
    if (!array_reserve(&o->plain, &o->plain_max, o->n_plain + n)) {
        o->files.n_lost++;
        return;
    }
    if (n > 0)
        memcpy(o->plain + o->n_plain, bytes, n);
    o->n_plain += n;
}

/* What a worker wrote since the last call goes to its file, all of it or none.
 */
static void write_plain(struct output *o, const struct output_worker *who,
                        int stream, struct output_line *line)
{
    char path[PATH_MAX];

    if (o->n_plain == 0)
        return;
    name_file(o, who, stream, path);
    output_files_put(&o->files, path, line->in_file, o->plain, o->n_plain);
    line->in_file = !output_ends_line(o->plain[o->n_plain - 1]);
    o->n_plain = 0;
}

/* ---- lines -------------------------------------------------------------- */

/* Where one chunk of a worker goes. */
struct route {
    struct output *o;
    const struct output_worker *who;
    struct output_entry *entry;
    int stream;
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
}

static bool is_open_for(const struct output_sink *sink, const struct route *r)
{
    return sink->open && sink->open_worker == r->who->worker &&
           sink->open_stream == r->stream;
}

/* Other words follow. */
static void close_line(struct output_sink *sink)
{
    if (sink->open)
        output_sink_put(sink, "\n", 1);
    sink->open = false;
}

static void begin_piece(struct route *r, struct output_sink *sink,
                        const struct output_line *line)
{
    if (is_open_for(sink, r))
        return;
    close_line(sink);
    output_sink_put(sink, r->prefix, r->n_prefix);
    if (line->shown)
        output_sink_put(sink, continued, sizeof(continued) - 1);
}

static void end_piece(struct route *r, struct output_sink *sink,
                      struct output_line *line, char last)
{
    sink->open = line->shown = !output_ends_line(last);
    sink->open_worker = r->who->worker;
    sink->open_stream = r->stream;
}

/* What was kept of a line, and bytes [n] that follow it: to the line's end, or
 * as much of it as there is. */
static void put_piece(struct route *r, struct output_line *line,
                      const char *bytes, size_t n)
{
    struct output *o = r->o;
    struct output_sink *sink = sink_of(o, r->stream);

    if (line->n + n == 0)
        return;
    if (o->config.before_write)
        o->config.before_write(o->config.before_write_arg);
    output_sink_make_room(sink, r->n_prefix + sizeof(continued) + line->n + n);
    begin_piece(r, sink, line);
    output_sink_put(sink, line->bytes, line->n);
    output_sink_put(sink, bytes, n);
    end_piece(r, sink, line, n > 0 ? bytes[n - 1] : line->bytes[line->n - 1]);
    if (r->stream == 1) {
        last_line_add(&r->entry->words, line->bytes, line->n);
        last_line_add(&r->entry->words, bytes, n);
    }
    if (o->config.dir) {
        keep_plain(o, line->bytes, line->n);
        keep_plain(o, bytes, n);
    }
    line->n = 0;
}

/* The \n of a line whose \r was passed on before. */
static void put_newline(struct route *r)
{
    struct output *o = r->o;
    struct output_sink *sink = sink_of(o, r->stream);

    if (o->config.before_write)
        o->config.before_write(o->config.before_write_arg);
    output_sink_make_room(sink, 1);
    output_sink_put(sink, "\n", 1);
    sink->open = false;
    if (o->config.dir)
        keep_plain(o, "\n", 1);
}

/* The beginning of a line; what gets too long is passed on. */
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
        if (line->n == OUTPUT_LINE_MAX)
            put_piece(r, line, "", 0);
    }
}

/* Nothing more will come. */
static void end_line(struct route *r, struct output_line *line)
{
    struct output_sink *sink = sink_of(r->o, r->stream);

    put_piece(r, line, "", 0);
    if (is_open_for(sink, r))
        close_line(sink);
    line->shown = false;
    line->ended = true;
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

    if (n == 0)
        return; /* a \n may yet follow a \r */
    if (line->after_cr && bytes[0] == '\n') {
        put_newline(r);
        bytes++;
        n--;
    }
    line->after_cr = false;
    while ((length = first_line(bytes, n)) > 0) {
        if (line->n + length > OUTPUT_LINE_MAX)
            put_piece(r, line, "", 0);
        put_piece(r, line, bytes, length);
        line->after_cr = bytes[length - 1] == '\r';
        bytes += length;
        n -= length;
    }
    keep(r, line, bytes, n);
}

static void drop_entry(struct output *o, struct output_entry *entry)
{
    last_words_keep(&o->last_words, &entry->words);
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
                  const void *bytes, size_t n, enum output_mark mark)
{
    struct output_entry *entry = find_or_add(o, who->worker);
    struct route r = {.o = o, .who = who, .entry = entry, .stream = stream};
    struct output_line *line;

    HVD_ASSERT(stream >= 0 && stream < OUTPUT_STREAMS);
    if (!entry)
        return;
    line = &entry->lines[stream];
    open_route(&r);
    split(&r, line, bytes, n);
    if (mark == OUTPUT_SETTLED)
        put_piece(&r, line, "", 0);
    else if (mark == OUTPUT_END)
        end_line(&r, line);
    write_plain(o, who, stream, line);
    if (all_ended(entry)) /* workers come and go all day */
        drop_entry(o, entry);
    output_sink_push(sink_of(o, stream));
}

void output_forget(struct output *o, const struct output_worker *who)
{
    struct output_entry *entry;

    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        entry = find(o, who->worker); /* the last end drops it */
        if (entry && !entry->lines[i].ended)
            output_write(o, who, i, "", 0, OUTPUT_END);
    }
    entry = find(o, who->worker);
    if (entry)
        drop_entry(o, entry);
}

void output_watch(struct output *o, uint64_t worker)
{
    last_words_watch(&o->last_words, worker);
}

bool output_last_words(const struct output *o, uint64_t worker, char *text)
{
    const struct output_entry *entry = find(o, worker);

    return entry ? last_line_text(&entry->words, text)
                 : last_words_of(&o->last_words, worker, text);
}

/* ---- our streams -------------------------------------------------------- */

void output_draw(struct output *o, const char *bytes, size_t n)
{
    struct output_sink *sink = sink_of(o, 1);

    output_sink_make_room(sink, n);
    output_sink_put(sink, bytes, n);
    output_sink_push(sink);
}

void output_say(struct output *o, const char *line)
{
    struct output_sink *sink = sink_of(o, 1);
    size_t n = strlen(line);

    if (o->config.before_write)
        o->config.before_write(o->config.before_write_arg);
    output_sink_make_room(sink, n + 2);
    close_line(sink);
    output_sink_put(sink, line, n);
    output_sink_put(sink, "\n", 1);
    output_sink_push(sink);
}

bool output_is_idle(const struct output *o)
{
    const struct output_sink *sink = &o->sinks[o->n_sinks - 1];

    return output_sink_is_idle(sink) && !sink->open;
}

bool output_takes(struct output *o, uint64_t now_us)
{
    size_t n = 0;

    if (o->config.dir)
        return output_files_takes(&o->files, now_us);
    for (unsigned i = 0; i < o->n_sinks; i++)
        n += output_sink_waiting(&o->sinks[i]);
    return n <= OUTPUT_KEEP_MAX / 4;
}

uint64_t output_deadline(const struct output *o)
{
    return o->config.dir ? output_files_deadline(&o->files) : CLOCK_NEVER;
}

void output_flush(struct output *o)
{
    for (unsigned i = 0; i < o->n_sinks; i++) {
        output_sink_push(&o->sinks[i]);
        output_sink_check(&o->sinks[i]);
    }
    if (o->config.dir)
        output_files_check(&o->files);
}

bool output_drain(struct output *o, int timeout_ms)
{
    bool empty = true;

    for (unsigned i = 0; i < o->n_sinks; i++)
        empty &= output_sink_drain(&o->sinks[i], timeout_ms);
    output_flush(o);
    return empty;
}

void output_close_files(struct output *o)
{
    output_files_close(&o->files);
    o->config.dir = NULL;
}

void output_close_streams(struct output *o, int timeout_ms)
{
    for (unsigned i = 0; i < o->n_sinks; i++)
        if (!output_sink_drain(&o->sinks[i], timeout_ms))
            log_warn("%s: %s -> %zu lines or more are not shown",
                     o->sinks[i].name, output_sink_obstacle(&o->sinks[i]),
                     output_sink_lines(&o->sinks[i]));
}
