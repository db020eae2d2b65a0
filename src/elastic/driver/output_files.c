/* elastic/driver/output_files.c - the files of --output-filename. See
 * output_files.h.
 *
 * A record for the thread: struct entry, the file's name with its NUL, bytes.
 *
 * Files are opened for each record and closed again: thousands of workers would
 * otherwise hold thousands of descriptors, and a rank changes its file with its
 * number. Nothing is opened in a way that waits (O_NONBLOCK: FIFOs). */
#include "elastic/driver/output_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/writer.h"
#include "elastic/driver/output.h"

enum {
    FIFO_MS = 1000, /* for a reader that sleeps; then what follows is lost */
    STALL_MS = 5000,
    CLOSE_MS = 60000
};

struct entry {
    uint64_t n_lost;
    bool mid_line; /* those lines, or else the bytes, follow what does not end
                      a line */
    char rest[];   /* path, NUL, bytes */
};

/* A file that lacks lines, and a list of them. */
struct gap {
    char *path;
    uint64_t n_lost;
    int error;     /* the first errno */
    bool mid_line; /* the file does not end with the end of a line */
    bool open;     /* nor does the last line that is lost: it was counted */
};

struct gaps {
    struct gap *items; /* [n] */
    size_t n, max;
};

struct scribe {
    char dir[PATH_MAX];
    _Atomic uint64_t n_lost; /* lines of all files, for the thread's reasons */
    _Atomic int error;       /* the first */
    struct gaps gaps;        /* the thread's: not told yet */
    struct gaps owed; /* lines that found no room, not told to the thread yet:
                         the loop's, and in end() the thread's */
};

/* ---- what is missing ----------------------------------------------------- */

static struct gap *find_gap(const struct gaps *gaps, const char *path)
{
    for (size_t i = 0; i < gaps->n; i++)
        if (strcmp(gaps->items[i].path, path) == 0)
            return &gaps->items[i];
    return NULL;
}

static void close_gap(struct gaps *gaps, struct gap *gap)
{
    free(gap->path);
    *gap = gaps->items[--gaps->n];
}

/* So many lines are not in the file. NULL: no memory to note it. */
static struct gap *note_lines(struct gaps *gaps, const char *path, uint64_t n,
                              int error, bool mid_line)
{
    struct gap *gap = find_gap(gaps, path);
    char *copy = gap ? NULL : strdup(path);

    if (!gap && copy && array_reserve(&gaps->items, &gaps->max, gaps->n + 1)) {
        gap = &gaps->items[gaps->n++];
        *gap = (struct gap){.path = copy, .error = error, .mid_line = mid_line};
    } else {
        free(copy);
    }
    if (gap)
        gap->n_lost += n;
    return gap;
}

/* Likewise bytes [n], at least one. A line that is lost in several parts counts
 * once. *n_lost_p grows by the lines. */
static struct gap *note_bytes(struct gaps *gaps, const char *path,
                              const char *bytes, size_t n, int error,
                              bool mid_line, uint64_t *n_lost_p)
{
    struct gap *gap = find_gap(gaps, path);
    bool open = !output_ends_line(bytes[n - 1]);
    uint64_t n_lines = output_count_lines(bytes, n) + open;

    n_lines -= gap && gap->open;
    gap = note_lines(gaps, path, n_lines, error, mid_line);
    if (gap)
        gap->open = open;
    *n_lost_p += n_lines;
    return gap;
}

static void free_gaps(struct gaps *gaps)
{
    while (gaps->n > 0)
        close_gap(gaps, &gaps->items[gaps->n - 1]);
    free(gaps->items);
}

static const char *reason(int error)
{
    return error == ETIMEDOUT ? "it was not written fast enough"
                              : strerror(error);
}

/* ---- writing (thread) ---------------------------------------------------- */

static int open_file(const struct scribe *s, const char *path)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK };
    char whole[2 * PATH_MAX];
    int fd;

    snprintf(whole, sizeof(whole), "%s/%s", s->dir, path);
    fd = open(whole, FLAGS, 0666);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (!directory_make(dirname(whole))) /* all: somebody may have moved dir */
        return -1;
    snprintf(whole, sizeof(whole), "%s/%s", s->dir, path);
    return open(whole, FLAGS, 0666);
}

/* How many of bytes [n] were written; fewer: errno. */
static size_t write_some(struct writer *w, int fd, const char *bytes, size_t n,
                         int fifo_ms)
{
    size_t done = 0;

    while (done < n) {
        ssize_t written = write(fd, bytes + done, n - done);

        if (written >= 0) {
            writer_moved(w);
            done += (size_t)written;
        } else if (errno == EAGAIN) {
            errno = writer_await(w, fd, fifo_ms);
            if (errno != 0)
                break;
        } else if (errno != EINTR) {
            break;
        }
    }
    return done;
}

/* False: still nothing can be written. */
static bool tell_gap(struct scribe *s, struct writer *w, int fd,
                     struct gap *gap)
{
    char line[160];
    size_t done, n;

    n = (size_t)snprintf(
        line, sizeof(line), "%s[hvd-elastic: %" PRIu64 " lines dropped: %s]\n",
        gap->mid_line ? "\n" : "", gap->n_lost, reason(gap->error));
    done = write_some(w, fd, line, n, 0);
    gap->mid_line |= done > 0;
    if (done == n)
        close_gap(&s->gaps, gap);
    return done == n;
}

/* How many of bytes [n] are in the file now; fewer: *error_p. */
static size_t append(struct scribe *s, struct writer *w, const char *path,
                     const char *bytes, size_t n, int *error_p)
{
    struct gap *gap = find_gap(&s->gaps, path);
    int fd = open_file(s, path);
    size_t done = 0;

    if (fd >= 0 && (!gap || tell_gap(s, w, fd, gap)))
        done = write_some(w, fd, bytes, n, gap ? 0 : FIFO_MS);
    *error_p = errno;
    fd_close(&fd);
    return done;
}

static int take(struct writer *w, void *arg, const char *record, size_t n)
{
    const struct entry *entry = (const void *)record;
    const char *path = entry->rest, *bytes = path + strlen(path) + 1;
    struct scribe *s = arg;
    struct gap *gap;
    size_t done = 0;
    uint64_t n_lost = 0;
    int error = ETIMEDOUT, none = 0;

    n -= (size_t)(bytes - record);
    if (entry->n_lost > 0)
        note_lines(&s->gaps, path, entry->n_lost, ETIMEDOUT, entry->mid_line);
    if (!writer_stopped(w))
        done = append(s, w, path, bytes, n, &error);
    if (done == n)
        return 0;
    atomic_compare_exchange_strong(&s->error, &none, error);
    gap = note_bytes(&s->gaps, path, bytes + done, n - done, error,
                     entry->mid_line, &n_lost);
    atomic_fetch_add(&s->n_lost, n_lost);
    if (gap && done > 0)
        gap->mid_line = !output_ends_line(bytes[done - 1]);
    return 0; /* the next file, or the same later, may do */
}

/* What is missing is told to the last. */
static int end(struct writer *w, void *arg)
{
    struct scribe *s = arg;
    int error;

    for (size_t i = 0; i < s->owed.n; i++)
        note_lines(&s->gaps, s->owed.items[i].path, s->owed.items[i].n_lost,
                   ETIMEDOUT, s->owed.items[i].mid_line);
    for (size_t i = s->gaps.n; i-- > 0 && !writer_stopped(w);)
        append(s, w, s->gaps.items[i].path, "", 0, &error);
    return 0;
}

/* ---- the loop's side ----------------------------------------------------- */

hvd_status_t output_files_open(struct output_files *f, const char *dir,
                               uint64_t hold_us, int wake_fd)
{
    static const struct writer_ops ops = {.take = take, .end = end};
    struct scribe *s = calloc(1, sizeof(*s));
    hvd_status_t status;

    *f = (struct output_files){.dir = dir, .hold_us = hold_us, .scribe = s};
    if (!s)
        return error_set(HVD_ERR_NOMEM, "out of memory for files");
    snprintf(s->dir, sizeof(s->dir), "%s", dir);
    status = writer_create(&(struct writer_config){.ops = &ops,
                                                   .arg = s,
                                                   .keep_max = FILES_KEEP_MAX,
                                                   .wake_fd = wake_fd},
                           &f->writer);
    if (status != HVD_OK)
        free(s);
    return status;
}

/* Of one output_write(): what had been kept of a line, and a chunk. */
static bool has_room(struct output_files *f)
{
    return writer_has_room(f->writer, 3 * OUTPUT_LINE_MAX);
}

static void give_up(struct output_files *f)
{
    f->gave_up = true;
    log_warn("--output-filename: \"%s\": takes nothing for %g s -> lines for "
             "its files are dropped until it does",
             f->dir, (double)f->hold_us / 1e6);
}

bool output_files_takes(struct output_files *f, uint64_t now_us)
{
    if (f->gave_up && writer_pending(f->writer) <= FILES_KEEP_MAX / 2)
        f->gave_up = false;
    if (f->gave_up)
        return true;
    if (has_room(f)) {
        f->full_us = 0;
        return true;
    }
    if (f->full_us == 0)
        f->full_us = now_us;
    if (now_us - f->full_us >= f->hold_us)
        give_up(f);
    return f->gave_up;
}

uint64_t output_files_deadline(const struct output_files *f)
{
    return f->full_us > 0 && !f->gave_up ? f->full_us + f->hold_us
                                         : CLOCK_NEVER;
}

/* gap: what has been lost in front; or NULL. */
static bool put_record(struct output_files *f, const char *path,
                       const struct gap *gap, bool mid_line, const char *bytes,
                       size_t n)
{
    size_t n_path = strlen(path) + 1;
    size_t n_all = offsetof(struct entry, rest) + n_path + n;
    struct entry *entry = malloc(n_all > sizeof(*entry) ? n_all
                                                        : sizeof(*entry));
    bool taken;

    if (!entry)
        return false;
    entry->n_lost = gap ? gap->n_lost : 0;
    entry->mid_line = gap ? gap->mid_line : mid_line;
    memcpy(entry->rest, path, n_path);
    memcpy(entry->rest + n_path, bytes, n);
    taken = writer_put(f->writer, entry, n_all);
    free(entry);
    return taken;
}

void output_files_put(struct output_files *f, const char *path, bool mid_line,
                      const char *bytes, size_t n)
{
    struct gaps *owed = &f->scribe->owed;
    struct gap *gap = find_gap(owed, path);

    if (!f->gave_up && put_record(f, path, gap, mid_line, bytes, n)) {
        if (gap)
            close_gap(owed, gap);
        return;
    }
    note_bytes(owed, path, bytes, n, ETIMEDOUT, mid_line, &f->n_lost);
}

static void warn_incomplete(struct output_files *f, int error)
{
    f->warned = true;
    log_warn("--output-filename: \"%s\": %s -> files are incomplete", f->dir,
             reason(error));
}

void output_files_check(struct output_files *f)
{
    int error = f->warned ? 0 : atomic_load(&f->scribe->error);

    if (error != 0)
        warn_incomplete(f, error);
}

void output_files_close(struct output_files *f)
{
    uint64_t n_lost = f->n_lost;
    int error;

    if (!f->writer)
        return;
    if (!writer_destroy(f->writer, STALL_MS, CLOSE_MS, &error)) {
        log_warn("--output-filename: \"%s\": takes nothing -> its files lack "
                 "their ends",
                 f->dir);
        return; /* the thread still has them in hand */
    }
    output_files_check(f);
    n_lost += atomic_load(&f->scribe->n_lost);
    if (n_lost > 0)
        log_warn("--output-filename: \"%s\": %" PRIu64
                 " lines are missing in its files",
                 f->dir, n_lost);
    free_gaps(&f->scribe->gaps);
    free_gaps(&f->scribe->owed);
    free(f->scribe);
    *f = (struct output_files){0};
}
