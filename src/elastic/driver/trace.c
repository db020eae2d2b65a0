/* elastic/driver/trace.c - the driver's half of the timeline. See trace.h.
 *
 * Two lanes: the generations with their rendezvous, and everything that the
 * event log tells as moments. Memory: the file's page, from trace_open to
 * trace_close. */
#include "elastic/driver/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

enum {
    LANE_GENERATIONS = 1,
    LANE_EVENTS = 2,
    TEXT_MAX = 200, /* of a sentence */
    LINE_MAX_NBYTES = 2 * TRACEFILE_PAGE
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

hvd_status_t trace_open(struct trace *t, const char *path, uint64_t job)
{
    char buffer[TRACEFILE_HEADER_MAX];
    hvd_status_t status;
    struct json header;

    *t = (struct trace){.job = job};
    if (!path)
        return HVD_OK;
    if (!make_absolute(path, t->path))
        return error_errno("--timeline: \"%s\"", path);
    t->file = calloc(1, sizeof(*t->file));
    if (!t->file)
        return error_set(HVD_ERR_NOMEM, "--timeline: out of memory");
    json_init_fixed(&header, buffer, sizeof(buffer));
    status = tracefile_open(t->file, t->path, make_header(&header));
    if (status != HVD_OK) {
        free(t->file);
        t->file = NULL;
        return error_prefix(status, "--timeline");
    }
    t->on = true;
    return HVD_OK;
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

static void end_event(struct trace *t, struct json *j)
{
    json_object_end(j);
    if (json_text(j))
        tracefile_add(t->file, json_text(j), j->n);
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
    end_event(t, &j);
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
    end_event(t, &j);
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
    end_event(t, &j);
    snprintf(name, sizeof(name), "GENERATION %" PRIu64, r->generation);
    json_init_fixed(&j, buffer, sizeof(buffer));
    begin_event(&j, name, "B", LANE_GENERATIONS, now_us);
    json_object_begin(&j, "args");
    json_u64(&j, "generation", r->generation);
    json_u64(&j, "size", r->n);
    json_object_end(&j);
    end_event(t, &j);
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
    tracefile_flush(t->file);
}

/* ---- the merge ----------------------------------------------------------- */

struct merge {
    const struct trace *trace;
    FILE *out;
    char mark[48]; /* what a file of this job has in its first line */
    uint64_t n_workers;
    bool comma;
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
}

/* mark "": any. False: no such file, or not of this job. */
static bool copy_part(struct merge *m, const char *path, const char *mark)
{
    FILE *in = fopen(path, "re");
    char line[LINE_MAX_NBYTES];
    bool ours = false;

    if (!in)
        return false;
    if (fgets(line, sizeof(line), in) && fgets(line, sizeof(line), in))
        ours = strstr(line, mark) != NULL;
    if (ours)
        do
            copy_line(m, line);
        while (fgets(line, sizeof(line), in));
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

static bool worker_path(const struct trace *t, uint64_t worker, char *path)
{
    char word[24];

    snprintf(word, sizeof(word), "%" PRIu64, worker);
    return tracefile_name(t->path, word, path);
}

static void copy_all(struct merge *m)
{
    char path[PATH_MAX];

    fputs("[\n", m->out);
    each_part(m, m->trace->path, 0, copy_own);
    for (uint64_t w = 1; w <= m->trace->last_worker; w++)
        if (worker_path(m->trace, w, path))
            m->n_workers += each_part(m, path, 0, copy_worker) > 0;
    fputs("\n]\n", m->out);
}

/* FILE itself has been replaced. */
static void remove_all(struct merge *m)
{
    char path[PATH_MAX], next[PATH_MAX];
    unsigned n;

    each_part(m, m->trace->path, 1, remove_part);
    for (uint64_t w = 1; w <= m->trace->last_worker; w++) {
        if (!worker_path(m->trace, w, path))
            continue;
        n = each_part(m, path, 0, remove_part);
        if (tracefile_part(path, n, next))
            remove_unfinished(next);
    }
}

static bool merge(struct merge *m, const char *fresh)
{
    bool good;
    int error;

    m->out = fopen(fresh, "we");
    if (!m->out)
        return false;
    copy_all(m);
    errno = 0;
    good = !ferror(m->out);
    error = errno;
    good = fclose(m->out) == 0 && good;
    good = good && rename(fresh, m->trace->path) == 0;
    if (good)
        return true;
    error = errno ? errno : error;
    unlink(fresh);
    errno = error ? error : EIO;
    return false;
}

void trace_close(struct trace *t, uint64_t now_us)
{
    char fresh[PATH_MAX + 8];
    struct merge m = {.trace = t};

    if (!t->on)
        return;
    t->on = false;
    end_generation(t, now_us);
    tracefile_close(t->file);
    free(t->file);
    t->file = NULL;
    snprintf(m.mark, sizeof(m.mark), "\"job\":\"%" PRIu64 "\"", t->job);
    snprintf(fresh, sizeof(fresh), "%s.new", t->path);
    if (merge(&m, fresh)) {
        remove_all(&m);
        log_debug("timeline \"%s\": %" PRIu64 " workers", t->path, m.n_workers);
    } else {
        log_warn("timeline \"%s\": %s -> the workers' files were not merged",
                 t->path, strerror(errno));
    }
}
