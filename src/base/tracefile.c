/* base/tracefile.c - a JSON array that is whole at every moment. See
 * tracefile.h. */
#include "base/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"

enum {
    PART_MIN = 256 << 10,
    DOUBLED_MAX = 8,   /* 64 MiB */
    PAGES_AT_ONCE = 64 /* of spaces */
};

static const char opening[] = "[\n";
static const char closing[] = "\n]\n";

enum { OPENING = sizeof(opening) - 1, CLOSING = sizeof(closing) - 1 };

bool tracefile_name(const char *path, const char *word, char *out)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    int n, stem;

    if (!dot || dot == name)
        dot = name + strlen(name);
    stem = (int)(dot - path);
    n = snprintf(out, PATH_MAX, "%.*s.%s%s", stem, path, word, dot);
    return n > 0 && n < PATH_MAX;
}

bool tracefile_part(const char *path, unsigned part, char *out)
{
    char word[24];
    int n;

    if (part == 0) {
        n = snprintf(out, PATH_MAX, "%s", path);
        return n > 0 && n < PATH_MAX;
    }
    snprintf(word, sizeof(word), "part%u", part);
    return tracefile_name(path, word, out);
}

/* ---- a new part ---------------------------------------------------------- */

static bool write_all(int fd, const char *text, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, text, n, (off_t)at);

        if (done <= 0) {
            if (done == 0)
                errno = ENOSPC;
            return false;
        }
        text += done;
        at += (size_t)done;
        n -= (size_t)done;
    }
    return true;
}

/* `page` holds spaces. Short writes are made good a page at a time. */
static bool write_spaces(int fd, char *page, uint64_t nbytes)
{
    struct iovec pages[PAGES_AT_ONCE];
    uint64_t at = 0;

    for (size_t i = 0; i < PAGES_AT_ONCE; i++)
        pages[i] = (struct iovec){page, TRACEFILE_PAGE};
    while (at < nbytes) {
        ssize_t n = pwritev(fd, pages, PAGES_AT_ONCE, (off_t)at);

        if (n < TRACEFILE_PAGE) {
            if (n >= 0)
                errno = ENOSPC;
            return false;
        }
        at += (uint64_t)n / TRACEFILE_PAGE * TRACEFILE_PAGE;
    }
    return true;
}

static bool fill_part(struct tracefile *f, int fd, uint64_t nbytes)
{
    memset(f->page, ' ', sizeof(f->page));
    return write_spaces(fd, f->page, nbytes) &&
           write_all(fd, opening, OPENING, 0) &&
           write_all(fd, f->header, f->header_nbytes, OPENING) &&
           write_all(fd, closing, CLOSING, nbytes - CLOSING);
}

bool tracefile_may_be(uint64_t nbytes)
{
    struct rlimit limit;

    errno = EFBIG;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || nbytes <= limit.rlim_cur;
}

bool tracefile_may_replace(const char *path)
{
    struct stat st;

    return stat(path, &st) != 0 || S_ISREG(st.st_mode);
}

int tracefile_create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK,
                  0666);
    struct stat st;

    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

/* The descriptor, or -1 with errno. */
static int make_part(struct tracefile *f, const char *path, uint64_t nbytes)
{
    char fresh[PATH_MAX + 8];
    int fd, error;

    /* what is written later lies within the part */
    if (!tracefile_may_be(nbytes))
        return -1;
    errno = EEXIST;
    if (!tracefile_may_replace(path))
        return -1;
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    fd = tracefile_create(fresh);
    if (fd < 0)
        return -1;
    if (fill_part(f, fd, nbytes) && rename(fresh, path) == 0)
        return fd;
    error = errno;
    close(fd);
    unlink(fresh);
    errno = error;
    return -1;
}

/* The next one; on a disk or below a limit that has no room for it, one of the
 * least size. False with error_text(). */
static bool open_part(struct tracefile *f)
{
    char path[PATH_MAX];
    uint64_t nbytes = (uint64_t)PART_MIN << f->n_doubled;
    int fd = -1;

    errno = ENAMETOOLONG;
    if (tracefile_part(f->path, f->n_parts, path))
        fd = make_part(f, path, nbytes);
    if (fd < 0 && f->n_doubled > 0) {
        f->n_doubled = 0;
        return open_part(f);
    }
    f->error = fd < 0 ? errno : 0;
    if (fd < 0)
        return error_errno("\"%s\"", path) == HVD_OK;
    f->n_doubled += f->n_doubled < DOUBLED_MAX;
    f->part = f->n_parts++;
    f->end = nbytes - CLOSING;
    f->page_at = 0;
    f->n_written = f->n_used = OPENING + f->header_nbytes;
    atomic_store(&f->fd, fd);
    return true;
}

hvd_status_t tracefile_open(struct tracefile *f, const char *path,
                            const char *header)
{
    size_t n = strlen(header);

    HVD_ASSERT(n > 0 && n < sizeof(f->header));
    atomic_store(&f->fd, -1);
    f->error = 0;
    f->part = f->n_parts = f->n_doubled = 0;
    memcpy(f->header, header, n + 1);
    f->header_nbytes = n;
    f->n_written = f->n_used = 0;
    n = strlen(path);
    if (n >= sizeof(f->path)) {
        f->error = errno = ENAMETOOLONG;
        return error_errno("\"%s\"", path);
    }
    memcpy(f->path, path, n + 1);
    return open_part(f) ? HVD_OK : HVD_ERR_SYSTEM;
}

void tracefile_forget(struct tracefile *f)
{
    int fd = atomic_exchange(&f->fd, -1);

    if (fd >= 0)
        close(fd);
}

/* Events of the page that are not in the file. */
static size_t count_unwritten(const struct tracefile *f)
{
    size_t n = 0;

    for (size_t i = f->n_written; i < f->n_used; i++)
        n += f->page[i] == '\n'; /* one in front of each */
    return n;
}

/* The server has forgotten the file: no write to it will ever succeed, but one
 * to the next part may. */
static void leave_stale_part(struct tracefile *f)
{
    char path[PATH_MAX];

    if (!tracefile_part(f->path, f->part, path))
        memcpy(path, f->path, sizeof(path));
    log_warn("\"%s\": %s -> %zu events are lost, and a new part is begun", path,
             strerror(ESTALE), count_unwritten(f));
    tracefile_forget(f);
    f->n_written = f->n_used = 0;
}

size_t tracefile_close(struct tracefile *f)
{
    size_t n_lost = tracefile_flush(f) ? 0 : count_unwritten(f);

    tracefile_forget(f);
    return n_lost;
}

/* ---- events -------------------------------------------------------------- */

/* Within one page, and from one page: it is resident, so that the kernel has
 * copied all of it before it asks whether we were killed. A limit may be lower
 * than when the part was made. */
bool tracefile_flush(struct tracefile *f)
{
    int fd = atomic_load_explicit(&f->fd, memory_order_relaxed);

    if (fd < 0 || f->n_used == f->n_written)
        return f->error == 0;
    f->error = 0;
    if (!tracefile_may_be(f->page_at + f->n_used) ||
        !write_all(fd, f->page + f->n_written, f->n_used - f->n_written,
                   f->page_at + f->n_written)) {
        if (errno == ESTALE) {
            leave_stale_part(f);
            return true;
        }
        f->error = errno;
        return false;
    }
    f->n_written = f->n_used;
    return true;
}

static size_t room(const struct tracefile *f)
{
    uint64_t left = f->end - f->page_at;
    size_t page = left < TRACEFILE_PAGE ? (size_t)left : TRACEFILE_PAGE;

    return page > f->n_used ? page - f->n_used : 0;
}

static bool is_open(const struct tracefile *f)
{
    return atomic_load_explicit(&f->fd, memory_order_relaxed) >= 0;
}

/* The rest of this page stays spaces. */
static bool next_page(struct tracefile *f)
{
    if (!tracefile_flush(f))
        return false;
    f->page_at += TRACEFILE_PAGE;
    f->n_written = f->n_used = 0;
    if (is_open(f) && f->page_at < f->end)
        return true;
    tracefile_forget(f);
    return open_part(f);
}

bool tracefile_add(struct tracefile *f, const char *events, size_t nbytes)
{
    HVD_ASSERT(nbytes > 0 && nbytes <= TRACEFILE_EVENTS_MAX);
    if (!is_open(f) && !open_part(f))
        return false;
    while (room(f) < nbytes + 2)
        if (!next_page(f))
            return false;
    memcpy(f->page + f->n_used, ",\n", 2);
    memcpy(f->page + f->n_used + 2, events, nbytes);
    f->n_used += nbytes + 2;
    return true;
}
