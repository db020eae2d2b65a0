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

enum {
    PART_MIN = 256 << 10,
    PART_MAX = 64 << 20,
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

static uint64_t part_nbytes(unsigned part)
{
    return part < 8 ? (uint64_t)PART_MIN << part : PART_MAX;
}

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

static hvd_status_t open_part(struct tracefile *f, unsigned part)
{
    char path[PATH_MAX];
    uint64_t nbytes = part_nbytes(part);
    int fd;

    if (!tracefile_part(f->path, part, path)) {
        errno = ENAMETOOLONG;
        return error_errno("\"%s\"", f->path);
    }
    fd = make_part(f, path, nbytes);
    if (fd < 0)
        return error_errno("\"%s\"", path);
    f->part = part;
    f->end = nbytes - CLOSING;
    f->page_at = 0;
    f->n_written = f->n_used = OPENING + f->header_nbytes;
    atomic_store(&f->fd, fd);
    return HVD_OK;
}

hvd_status_t tracefile_open(struct tracefile *f, const char *path,
                            const char *header)
{
    size_t n = strlen(header);

    atomic_store(&f->fd, -1);
    f->trouble[0] = '\0';
    HVD_ASSERT(n > 0 && n < sizeof(f->header));
    memcpy(f->header, header, n + 1);
    f->header_nbytes = n;
    n = strlen(path);
    if (n >= sizeof(f->path)) {
        errno = ENAMETOOLONG;
        return error_errno("\"%s\"", path);
    }
    memcpy(f->path, path, n + 1);
    return open_part(f, 0);
}

void tracefile_forget(struct tracefile *f)
{
    int fd = atomic_exchange(&f->fd, -1);

    if (fd >= 0)
        close(fd);
}

void tracefile_close(struct tracefile *f)
{
    tracefile_flush(f);
    tracefile_forget(f);
}

/* ---- events -------------------------------------------------------------- */

/* error_text() says why. */
static void give_up(struct tracefile *f)
{
    snprintf(f->trouble, sizeof(f->trouble), "%s", error_text());
    tracefile_forget(f);
}

/* Within one page, and from one page: it is resident, so that the kernel has
 * copied all of it before it asks whether we were killed. */
void tracefile_flush(struct tracefile *f)
{
    int fd = atomic_load_explicit(&f->fd, memory_order_relaxed);

    if (fd < 0 || f->n_used == f->n_written)
        return;
    if (!write_all(fd, f->page + f->n_written, f->n_used - f->n_written,
                   f->page_at + f->n_written)) {
        (void)error_errno("\"%s\"", f->path);
        give_up(f);
        return;
    }
    f->n_written = f->n_used;
}

static size_t room(const struct tracefile *f)
{
    uint64_t left = f->end - f->page_at;
    size_t page = left < TRACEFILE_PAGE ? (size_t)left : TRACEFILE_PAGE;

    return page > f->n_used ? page - f->n_used : 0;
}

/* The rest of this page stays spaces. */
static void next_page(struct tracefile *f)
{
    tracefile_flush(f);
    f->page_at += TRACEFILE_PAGE;
    f->n_written = f->n_used = 0;
    if (f->page_at < f->end ||
        atomic_load_explicit(&f->fd, memory_order_relaxed) < 0)
        return;
    tracefile_forget(f);
    if (open_part(f, f->part + 1) != HVD_OK)
        give_up(f);
}

void tracefile_add(struct tracefile *f, const char *event, size_t nbytes)
{
    HVD_ASSERT(nbytes > 0 && nbytes <= TRACEFILE_EVENT_MAX);
    while (atomic_load_explicit(&f->fd, memory_order_relaxed) >= 0) {
        if (room(f) < nbytes + 2) {
            next_page(f);
            continue;
        }
        memcpy(f->page + f->n_used, ",\n", 2);
        memcpy(f->page + f->n_used + 2, event, nbytes);
        f->n_used += nbytes + 2;
        return;
    }
}
