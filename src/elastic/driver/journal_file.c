/* elastic/driver/journal_file.c - the journal as a file: who writes it, and who
 * reads it. See journal.h; the frames are journal.c's.
 *
 * Records for the writer's thread: APPEND frames, REPLACE the file by these, or
 * KEEP what is in the directory. Descriptors are that thread's alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/writer.h"
#include "elastic/driver/jobdir.h"
#include "elastic/driver/journal.h"
#include "elastic/wire/codec.h"

enum {
    APPEND = 'A',
    REPLACE = 'R',
    KEEP = 'K',
    GROWN_MIN = 1 << 20, /* bytes appended before all is written anew */
    GROWN_TIMES = 4,     /* ... and so many times what that was */
    CLOSE_MS = 2000,
    ENTRY_BESIDES = 16 << 10, /* bytes of one, but for its strings */
    WAITING_MAX = 64 << 10,   /* for a disk that hangs: it is not touched too */
    HEAD_ENTRIES = 2          /* JOB and STATE */
};

#define PREFIX "journal."

struct journal {
    struct memory memory;
    struct writer *writer;
    int fd, lock_fd; /* the thread's; lock_fd: of a lock that was restored */
    char dir[PATH_MAX], path[PATH_MAX], fresh[PATH_MAX];
    uint8_t *bytes; /* [n_bytes]: a record is put together here */
    size_t n_bytes, bytes_max;
    size_t n_appended, n_whole; /* bytes, since all was written; that were */
    bool behind;                /* something found no room */
    _Atomic int error; /* of the thread's last write: nothing is appended to
                          what may be torn */
};

/* ---- paths --------------------------------------------------------------- */

static hvd_status_t path_of(const char *dir, uint64_t term, const char *tail,
                            char *path)
{
    int n = snprintf(path, PATH_MAX, "%s/" PREFIX "%" PRIu64 "%s", dir, term,
                     tail);

    if (n < 0 || n >= PATH_MAX)
        return error_set(HVD_ERR_INVALID, "\"%s\" is too long", dir);
    return HVD_OK;
}

/* The term in the name of a journal; 0: it is none. */
static uint64_t term_of(const char *name)
{
    const char *digits = name + sizeof(PREFIX) - 1;
    char *end;
    uint64_t term;

    if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0 || *digits < '1' ||
        *digits > '9')
        return 0;
    term = strtoull(digits, &end, 10);
    return *end == '\0' ? term : 0;
}

/* ---- the thread ---------------------------------------------------------- */

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno != EINTR)
            return errno;
        if (written < 0)
            continue;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static int replace(struct journal *j, const char *bytes, size_t n)
{
    int fd = open(j->fresh,
                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = fd < 0 ? errno : write_all(fd, bytes, n);

    if (error == 0 && rename(j->fresh, j->path) != 0)
        error = errno;
    if (error != 0) {
        fd_close(&fd);
        return error;
    }
    fd_close(&j->fd);
    j->fd = fd;
    return 0;
}

/* A journal that is gone is written anew, as after any other error. */
static void keep(struct journal *j, const char *bytes, size_t n)
{
    struct beacon own;

    if (n != sizeof(own))
        return;
    memcpy(&own, bytes, sizeof(own));
    if (utimensat(AT_FDCWD, j->path, NULL, AT_SYMLINK_NOFOLLOW) != 0)
        atomic_store(&j->error, errno);
    if (beacon_keep(j->dir, &own) != HVD_OK)
        error_clear();
    jobdir_keep_lock(j->dir, own.term, &j->lock_fd);
}

/* An error is no end: everything is written anew as long as it takes. */
static int take(struct writer *w, void *arg, const char *bytes, size_t n)
{
    struct journal *j = arg;

    (void)w;
    if (bytes[0] == KEEP)
        keep(j, bytes + 1, n - 1);
    else if (bytes[0] == REPLACE)
        atomic_store(&j->error, replace(j, bytes + 1, n - 1));
    else if (atomic_load(&j->error) == 0)
        atomic_store(&j->error, write_all(j->fd, bytes + 1, n - 1));
    return 0;
}

/* ---- records ------------------------------------------------------------- */

static bool begin_record(struct journal *j, char kind)
{
    j->n_bytes = 0;
    if (!array_reserve(&j->bytes, &j->bytes_max, 1))
        return false;
    j->bytes[j->n_bytes++] = (uint8_t)kind;
    return true;
}

static size_t room_for(const struct entry *entry)
{
    const struct entry_job *job = &entry->u.job;

    if (entry->type != ENTRY_JOB)
        return ENTRY_BESIDES;
    return ENTRY_BESIDES + job->argv.nbytes + job->env.nbytes +
           job->environment.nbytes;
}

static bool add_frame(struct journal *j, const struct entry *entry)
{
    size_t need = j->n_bytes + room_for(entry);
    long n;

    if (!array_reserve(&j->bytes, &j->bytes_max, need))
        return false;
    n = journal_frame(entry, j->bytes + j->n_bytes, need - j->n_bytes);
    HVD_ASSERT(n > 0); /* it is what we have put together */
    j->n_bytes += (size_t)n;
    return true;
}

/* JOB and STATE: a bit that flips in them must not lose the job. */
static bool add_head(struct journal *j)
{
    struct entry entry;

    for (size_t i = 0; i < HEAD_ENTRIES; i++)
        if (memory_entry(&j->memory, i, &entry) && !add_frame(j, &entry))
            return false;
    return true;
}

static bool whole(struct journal *j)
{
    struct entry entry;

    if (!begin_record(j, REPLACE) || !add_head(j) || !add_head(j))
        return false;
    for (size_t i = HEAD_ENTRIES; memory_entry(&j->memory, i, &entry); i++)
        if (!add_frame(j, &entry))
            return false;
    return true;
}

static void write_anew(struct journal *j)
{
    j->behind = !whole(j) || !writer_put(j->writer, j->bytes, j->n_bytes);
    if (j->behind)
        return;
    j->n_whole = j->n_bytes;
    j->n_appended = 0;
}

static bool has_grown(const struct journal *j)
{
    return j->n_appended > GROWN_MIN &&
           j->n_appended > GROWN_TIMES * j->n_whole;
}

bool journal_put(struct journal *j, const struct entry *entry)
{
    if (!memory_fold(&j->memory, entry))
        return false;
    if (j->behind)
        return true; /* all is written anew */
    j->behind = !begin_record(j, APPEND) || !add_frame(j, entry) ||
                !writer_put(j->writer, j->bytes, j->n_bytes);
    j->n_appended += j->n_bytes;
    if (!j->behind && has_grown(j))
        write_anew(j);
    return true;
}

void journal_keep(struct journal *j, const struct beacon *own)
{
    char record[1 + sizeof(*own)] = {KEEP};

    memcpy(record + 1, own, sizeof(*own));
    if (writer_pending(j->writer) > WAITING_MAX ||
        !writer_put(j->writer, record, sizeof(record)))
        return; /* a second later */
}

bool journal_is_there(const struct journal *j)
{
    return access(j->path, F_OK) == 0;
}

void journal_tick(struct journal *j)
{
    j->behind |= atomic_load(&j->error) != 0;
    if (j->behind && writer_pending(j->writer) == 0)
        write_anew(j);
}

void journal_flush(struct journal *j, int timeout_ms)
{
    (void)writer_flush(j->writer, timeout_ms);
}

int journal_error(const struct journal *j)
{
    return atomic_load(&j->error);
}

const struct memory *journal_memory(const struct journal *j)
{
    return &j->memory;
}

/* ---- begin and end ------------------------------------------------------- */

void journal_remove_others(const char *dir, uint64_t term)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    char path[PATH_MAX];

    while (d && (entry = readdir(d)) != NULL) {
        uint64_t other = term_of(entry->d_name);

        if (other != 0 && other != term &&
            path_of(dir, other, "", path) == HVD_OK)
            unlink(path);
    }
    if (d)
        closedir(d);
}

static void release(struct journal *j)
{
    fd_close(&j->fd);
    fd_close(&j->lock_fd);
    free(j->bytes);
    memory_fini(&j->memory);
    free(j);
}

static hvd_status_t begin(struct journal *j, const char *dir)
{
    static const struct writer_ops ops = {.take = take};
    struct writer_config config = {
        .ops = &ops, .arg = j, .keep_max = JOURNAL_KEEP_MAX, .wake_fd = -1};
    uint64_t term = j->memory.state.term;

    snprintf(j->dir, sizeof(j->dir), "%s", dir);
    HVD_TRY(path_of(dir, term, "", j->path));
    HVD_TRY(path_of(dir, term, ".new", j->fresh));
    if (!whole(j))
        return error_set(HVD_ERR_NOMEM, "no memory for the journal");
    errno = replace(j, (const char *)j->bytes + 1, j->n_bytes - 1);
    if (errno != 0)
        return error_errno("\"%s\"", j->path);
    j->n_whole = j->n_bytes;
    return writer_create(&config, &j->writer);
}

hvd_status_t journal_create(const char *dir, struct memory *m,
                            struct journal **journal_p)
{
    struct journal *j = calloc(1, sizeof(*j));
    hvd_status_t status;

    if (!j)
        return error_set(HVD_ERR_NOMEM, "no memory for the journal");
    j->fd = j->lock_fd = -1;
    j->memory = *m;
    memset(m, 0, sizeof(*m));
    status = begin(j, dir);
    if (status != HVD_OK)
        release(j);
    else
        *journal_p = j;
    return status;
}

void journal_close(struct journal *j)
{
    int error;

    if (!j)
        return;
    if (!writer_destroy(j->writer, CLOSE_MS, CLOSE_MS, &error))
        return; /* the kernel keeps the thread, and with it all that is j's */
    release(j);
}

/* ---- reading ------------------------------------------------------------- */

/* Of the driver that leads, as DIR/driver has it: one that took over and came
 * no further may have left a newer one. */
static bool leading_term(const char *dir, uint64_t *term_p)
{
    char path[PATH_MAX];
    struct beacon b;
    bool leads = beacon_read(dir, &b) == HVD_OK &&
                 path_of(dir, b.term, "", path) == HVD_OK &&
                 access(path, F_OK) == 0;

    error_clear();
    *term_p = leads ? b.term : 0;
    return leads;
}

static hvd_status_t find_term(const char *dir, uint64_t *term_p)
{
    DIR *d;
    struct dirent *entry;

    if (leading_term(dir, term_p))
        return HVD_OK;
    d = opendir(dir);
    if (!d)
        return error_errno("\"%s\"", dir);
    while ((entry = readdir(d)) != NULL) {
        uint64_t term = term_of(entry->d_name);

        *term_p = term > *term_p ? term : *term_p;
    }
    closedir(d);
    if (*term_p == 0)
        return error_set(HVD_ERR_INVALID, "\"%s\" holds no journal of a job",
                         dir);
    return HVD_OK;
}

static hvd_status_t read_all(int fd, uint8_t **bytes_p, size_t *n_p)
{
    size_t max = 0;
    ssize_t n;

    *n_p = 0;
    do {
        if (!array_reserve(bytes_p, &max, *n_p + (64 << 10)))
            return error_set(HVD_ERR_NOMEM, "no memory for the journal");
        n = read(fd, *bytes_p + *n_p, max - *n_p);
        if (n < 0 && errno != EINTR)
            return error_errno("it cannot be read");
        *n_p += n > 0 ? (size_t)n : 0;
    } while (n != 0);
    return HVD_OK;
}

static hvd_status_t parse(const uint8_t *bytes, size_t n, struct memory *m,
                          size_t *cut_p)
{
    struct journal_reading reading;

    if (!journal_parse(bytes, n, m, &reading))
        return error_set(HVD_ERR_NOMEM, "no memory for the journal");
    *cut_p = n - reading.n_good;
    if (reading.error == CODEC_VERSION)
        return error_set(HVD_ERR_INVALID,
                         "it was written by another version of hvd-elastic");
    if (m->job.job == 0 || m->state.term == 0)
        return error_set(HVD_ERR_INVALID, "its beginning is damaged");
    return HVD_OK;
}

hvd_status_t journal_read(const char *dir, struct memory *m, size_t *cut_p)
{
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    hvd_status_t status;
    uint64_t term;
    size_t n;
    int fd;

    HVD_TRY(find_term(dir, &term));
    HVD_TRY(path_of(dir, term, "", path));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_errno("\"%s\"", path);
    status = read_all(fd, &bytes, &n);
    if (status == HVD_OK)
        status = parse(bytes, n, m, cut_p);
    close(fd);
    free(bytes);
    if (status != HVD_OK)
        memory_fini(m);
    return error_prefix(status, "\"%s\"", path);
}
