/* elastic/driver/trace.c - the driver's half of the timeline. See trace.h.
 *
 * Two lanes: the generations with their rendezvous, and everything that the
 * event log tells as moments. Records of the writer (base/writer.h) are events.
 *
 * Threads: the loop's makes events; the writer's owns struct pen, writes it and
 * merges. */
#include "elastic/driver/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/tracefile.h"
#include "base/writer.h"

enum {
    LANE_GENERATIONS = 1,
    LANE_EVENTS = 2,
    TEXT_MAX = 200, /* of a sentence */
    LINE_MAX_NBYTES = 2 * TRACEFILE_PAGE,
    KEEP_MAX = 4 << 20,
    STALL_MS = 5000,
    CLOSE_MS = 600000
};

/* The thread's, from trace_open() to the end of writer_destroy(). */
struct pen {
    struct tracefile file;
    bool added; /* what is being taken, and it is not in the file yet */
    uint64_t job;
    uint64_t last_worker; /* set before writer_destroy() */
    /* read after it */
    uint64_t n_written; /* events */
    int merge_error;    /* errno; 0: merged, or not begun */
};

/* ---- open ---------------------------------------------------------------- */

/* The workers may have another working directory. */
static bool make_absolute(const char *path, char *out)
{
    char copy[PATH_MAX], directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n;

    if (strlen(path) >= sizeof(copy)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(copy, path);
    if (!realpath(dirname(copy), directory))
        return false;
    n = snprintf(out, PATH_MAX, "%s/%s",
                 strcmp(directory, "/") == 0 ? "" : directory,
                 slash ? slash + 1 : path);
    errno = ENAMETOOLONG;
    return n > 0 && n < PATH_MAX;
}

static void add_name(struct json *j, const char *what, unsigned lane,
                     const char *name)
{
    json_object_begin(j, NULL);
    json_str(j, "name", what);
    json_str(j, "ph", "M");
    json_u64(j, "pid", 0);
    json_u64(j, "tid", lane);
    json_object_begin(j, "args");
    json_str(j, "name", name);
    json_object_end(j);
    json_object_end(j);
}

static const char *make_header(struct json *j)
{
    add_name(j, "process_name", LANE_GENERATIONS, "driver");
    add_name(j, "thread_name", LANE_GENERATIONS, "generations");
    add_name(j, "thread_name", LANE_EVENTS, "events");
    return json_text(j);
}

static int take(struct writer *w, void *arg, const char *event, size_t n)
{
    struct pen *pen = arg;

    if (writer_stopped(w))
        return ETIMEDOUT;
    pen->added = pen->added || tracefile_add(&pen->file, event, n);
    if (!pen->added || !tracefile_flush(&pen->file))
        return pen->file.error;
    pen->added = false;
    pen->n_written++;
    return 0;
}

static bool may_pass(struct writer *w, void *arg, int error)
{
    (void)w, (void)arg, (void)error;
    return true;
}

static int merge_all(struct writer *w, void *arg);

/* go_on: the file may be made later. NULL with error_text(). */
static struct pen *make_pen(const char *path, uint64_t job, bool go_on)
{
    char buffer[TRACEFILE_HEADER_MAX];
    struct pen *pen = calloc(1, sizeof(*pen));
    struct json header;

    if (!pen) {
        error_set(HVD_ERR_NOMEM, "out of memory");
        return NULL;
    }
    pen->job = job;
    json_init_fixed(&header, buffer, sizeof(buffer));
    if (tracefile_open(&pen->file, path, make_header(&header)) == HVD_OK ||
        go_on)
        return pen;
    free(pen);
    return NULL;
}

/* False: another job has claimed it. */
static bool claim(struct trace *t)
{
    fd_close(&t->claim_fd);
    t->claim_fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return t->claim_fd < 0 || fd_claim(t->claim_fd);
}

hvd_status_t trace_open(struct trace *t, const char *path, uint64_t job,
                        bool go_on)
{
    static const struct writer_ops ops = {
        .take = take, .may_pass = may_pass, .end = merge_all};
    struct writer_config config = {
        .ops = &ops, .keep_max = KEEP_MAX, .wake_fd = -1};
    hvd_status_t status = HVD_ERR_SYSTEM;

    *t = (struct trace){.job = job, .claim_fd = -1};
    if (!path)
        return HVD_OK;
    if (!make_absolute(path, t->path))
        return error_errno("--timeline: \"%s\"", path);
    if (!claim(t) && !go_on) {
        fd_close(&t->claim_fd);
        return error_set(HVD_ERR_INVALID,
                         "--timeline: \"%s\": another job writes to it", path);
    }
    config.arg = t->pen = make_pen(t->path, job, go_on);
    (void)claim(t); /* the new file, which has taken its place */
    if (t->pen)
        status = writer_create(&config, &t->writer);
    t->on = status == HVD_OK;
    if (t->pen && !t->on) {
        tracefile_forget(&t->pen->file);
        free(t->pen);
    }
    return error_prefix(status, "--timeline");
}

/* ---- events -------------------------------------------------------------- */

/* Text, time and place; open for args. */
static void begin_event(struct json *j, const char *name, const char *ph,
                        unsigned lane, uint64_t at_us)
{
    json_object_begin(j, NULL);
    json_str(j, "name", name);
    json_str(j, "ph", ph);
    json_u64(j, "pid", 0);
    json_u64(j, "tid", lane);
    json_u64(j, "ts", at_us);
}

static bool put(struct trace *t, struct json *j)
{
    json_object_end(j);
    if (!json_text(j))
        return true;
    if (!writer_put(t->writer, json_text(j), j->n))
        return false;
    t->n_put++;
    return true;
}

/* How many events a slow disk has cost, where they were. */
static bool put_dropped(struct trace *t)
{
    char buffer[TRACEFILE_EVENT_MAX];
    struct json j;

    if (t->n_dropped == 0)
        return true;
    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, "DROPPED", "i", LANE_EVENTS, t->dropped_us);
    json_str(&j, "s", "p");
    json_object_begin(&j, "args");
    json_u64(&j, "n", t->n_dropped);
    json_object_end(&j);
    if (put(t, &j))
        t->n_dropped = 0;
    return t->n_dropped == 0;
}

static void end_event(struct trace *t, struct json *j, uint64_t now_us)
{
    if (put_dropped(t) && put(t, j))
        return;
    if (t->n_dropped++ == 0)
        t->dropped_us = now_us;
}

static void add_args(struct json *j, const struct driver_record *r)
{
    json_object_begin(j, "args");
    json_u64(j, "generation", r->generation);
    if (r->worker > 0) {
        json_u64(j, "worker", r->worker);
        json_u64(j, "slot", r->slot);
    }
    if (r->host)
        json_str(j, "host", r->host);
    if (r->type == RECORD_FIRST_COLLECTIVE || r->type == RECORD_STATE_SYNCED)
        json_i64(j, "rank", r->rank);
    if (r->text[0])
        json_str_n(j, "text", r->text, strnlen(r->text, TEXT_MAX));
    json_object_end(j);
}

static void add_moment(struct trace *t, const char *name,
                       const struct driver_record *r, uint64_t now_us)
{
    char buffer[TRACEFILE_EVENT_MAX];
    struct json j;

    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, name, "i", LANE_EVENTS, now_us);
    json_str(&j, "s", "p"); /* drawn across the whole process */
    add_args(&j, r);
    end_event(t, &j, now_us);
}

static void end_generation(struct trace *t, uint64_t now_us)
{
    char buffer[TRACEFILE_EVENT_MAX], name[40];
    struct json j;

    if (t->shown == 0)
        return;
    snprintf(name, sizeof(name), "GENERATION %" PRIu64, t->shown);
    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, name, "E", LANE_GENERATIONS, now_us);
    end_event(t, &j, now_us);
    t->shown = 0;
}

static void begin_generation(struct trace *t, const struct driver_record *r,
                             uint64_t now_us)
{
    char buffer[TRACEFILE_EVENT_MAX], name[40];
    struct json j;

    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, "RENDEZVOUS", "X", LANE_GENERATIONS,
                now_us - r->duration_us);
    json_u64(&j, "dur", r->duration_us);
    end_event(t, &j, now_us);
    snprintf(name, sizeof(name), "GENERATION %" PRIu64, r->generation);
    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, name, "B", LANE_GENERATIONS, now_us);
    json_object_begin(&j, "args");
    json_u64(&j, "generation", r->generation);
    json_u64(&j, "size", r->n);
    json_object_end(&j);
    end_event(t, &j, now_us);
    t->shown = r->generation;
}

void trace_record(struct trace *t, const char *name,
                  const struct driver_record *r, uint64_t now_us)
{
    if (!t->on || !name)
        return;
    if (r->type == RECORD_WORKER_SPAWNED && r->worker > t->last_worker)
        t->last_worker = r->worker;
    if (r->type == RECORD_GENERATION_STARTED ||
        r->type == RECORD_GENERATION_FORMED || r->type == RECORD_JOB_FINISHED)
        end_generation(t, now_us);
    if (r->type == RECORD_GENERATION_FORMED)
        begin_generation(t, r, now_us);
    else
        add_moment(t, name, r, now_us);
    writer_tell_trouble(t->writer, "timeline", t->path);
}

/* ---- the merge ----------------------------------------------------------- */

struct merge {
    struct writer *writer;
    const struct pen *pen;
    FILE *out;
    char mark[48]; /* what a file of this job has in its first line */
    bool comma;
    int error; /* errno of the first write that failed */
};

/* An event is a line; between it and its comma there may be spaces. Whatever
 * is none is left out, so that a damaged file damages nothing else. */
static void copy_line(struct merge *m, char *line)
{
    size_t n = strlen(line);

    while (n > 0 && strchr(" ,\n", line[n - 1]))
        n--;
    if (n < 2 || line[0] != '{' || line[n - 1] != '}')
        return;
    fputs(m->comma ? ",\n" : "", m->out);
    fwrite(line, 1, n, m->out);
    m->comma = true;
    if (ferror(m->out) && m->error == 0)
        m->error = errno != 0 ? errno : EIO;
    writer_moved(m->writer);
}

/* A regular file, whatever is there by now; NULL: none. */
static FILE *open_part(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    FILE *in = NULL;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        in = fdopen(fd, "r");
    if (!in)
        close(fd);
    return in;
}

/* mark "": any. False: no such file, or not of this job. */
static bool copy_part(struct merge *m, const char *path, const char *mark)
{
    FILE *in = open_part(path);
    char line[LINE_MAX_NBYTES];
    bool ours = false;

    if (!in)
        return false;
    if (fgets(line, sizeof(line), in) && fgets(line, sizeof(line), in))
        ours = strstr(line, mark) != NULL;
    if (ours)
        do
            copy_line(m, line);
        while (!writer_stopped(m->writer) && fgets(line, sizeof(line), in));
    fclose(in);
    return ours;
}

/* A part that its writer could not finish. */
static void remove_unfinished(const char *path)
{
    char fresh[PATH_MAX + 8];

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    unlink(fresh);
}

/* What becomes of the parts of one writer. */
typedef bool (*part_function)(struct merge *m, const char *path);

static bool copy_own(struct merge *m, const char *path)
{
    return copy_part(m, path, "");
}

static bool copy_worker(struct merge *m, const char *path)
{
    return copy_part(m, path, m->mark);
}

static bool remove_part(struct merge *m, const char *path)
{
    return unlink(path) == 0;
}

/* Returns how many there were. */
static unsigned each_part(struct merge *m, const char *first, unsigned from,
                          part_function function)
{
    char path[PATH_MAX];
    unsigned part = from;

    while (tracefile_part(first, part, path) && function(m, path))
        part++;
    return part - from;
}

static bool worker_path(const struct pen *pen, uint64_t worker, char *path)
{
    char word[24];

    snprintf(word, sizeof(word), "%" PRIu64, worker);
    return tracefile_name(pen->file.path, word, path);
}

static void copy_all(struct merge *m)
{
    char path[PATH_MAX];

    fputs("[\n", m->out);
    each_part(m, m->pen->file.path, 0, copy_own);
    for (uint64_t w = 1; w <= m->pen->last_worker; w++)
        if (worker_path(m->pen, w, path))
            each_part(m, path, 0, copy_worker);
    fputs("\n]\n", m->out);
}

/* FILE itself has been replaced. */
static void remove_all(struct merge *m)
{
    char path[PATH_MAX], next[PATH_MAX];
    unsigned n;

    each_part(m, m->pen->file.path, 1, remove_part);
    for (uint64_t w = 1; w <= m->pen->last_worker; w++) {
        if (!worker_path(m->pen, w, path))
            continue;
        n = each_part(m, path, 0, remove_part);
        if (tracefile_part(path, n, next))
            remove_unfinished(next);
    }
}

/* 0, or why it is not merged. */
static int merge(struct merge *m, const char *fresh)
{
    int fd = tracefile_create(fresh), error;

    m->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!m->out) {
        error = errno;
        fd_close(&fd);
        return error;
    }
    copy_all(m);
    error = m->error == 0 && ferror(m->out) ? EIO : m->error;
    errno = 0;
    if (fclose(m->out) != 0 && error == 0)
        error = errno != 0 ? errno : EIO;
    if (error == 0 && writer_stopped(m->writer))
        error = ETIMEDOUT;
    if (error == 0 && rename(fresh, m->pen->file.path) != 0)
        error = errno;
    if (error != 0)
        unlink(fresh);
    return error;
}

/* The thread's last deed. */
static int merge_all(struct writer *w, void *arg)
{
    char fresh[PATH_MAX + 8];
    struct pen *pen = arg;
    struct merge m = {.writer = w, .pen = pen};

    tracefile_close(&pen->file);
    pen->merge_error = pen->file.error;
    if (pen->merge_error != 0)
        return 0; /* nor is there room for all of them */
    snprintf(m.mark, sizeof(m.mark), "\"job\":\"%" PRIu64 "\"", pen->job);
    snprintf(fresh, sizeof(fresh), "%s.new", pen->file.path);
    pen->merge_error = merge(&m, fresh);
    if (pen->merge_error == 0)
        remove_all(&m);
    return 0;
}

void trace_close(struct trace *t, uint64_t now_us)
{
    uint64_t n_lost;
    int error;

    if (!t->on)
        return;
    t->on = false;
    fd_close(&t->claim_fd);
    end_generation(t, now_us);
    put_dropped(t);
    t->pen->last_worker = t->last_worker;
    if (!writer_destroy(t->writer, STALL_MS, CLOSE_MS, &error)) {
        log_warn("timeline \"%s\": takes nothing -> the workers' files were "
                 "not merged",
                 t->path);
        return; /* the thread still has its pen in hand */
    }
    n_lost = t->n_put - t->pen->n_written + t->n_dropped;
    if (n_lost > 0)
        log_warn("timeline \"%s\": %s -> the last %" PRIu64
                 " events of the driver are lost",
                 t->path, strerror(error), n_lost);
    if (t->pen->merge_error != 0)
        log_warn("timeline \"%s\": %s -> the workers' files were not merged",
                 t->path, strerror(t->pen->merge_error));
    free(t->pen);
    t->pen = NULL;
}
