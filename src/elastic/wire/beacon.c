/* elastic/wire/beacon.c - see beacon.h. Text, so that a person can read it. */
#include "elastic/wire/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/machine.h"

enum { TEXT_MAX = 512 + 2 * BEACON_LIST_MAX };

#define NONE "-" /* an empty list */

/* The last word tells that nothing is missing. */
#define LAYOUT_OUT                                                         \
    "job %" PRIu64 "\nterm %" PRIu64 "\npid %" PRId64 "\nstarted %" PRIu64 \
    "\nmachine %" PRIu64 "\ncontrol %s\noutput %s\nfar %s\nfar-output %s"  \
    "\nend\n"
#define LAYOUT_IN                                                       \
    "job %" SCNu64 " term %" SCNu64 " pid %" SCNd64 " started %" SCNu64 \
    " machine %" SCNu64                                                 \
    " control %63s output %63s far %1279s far-output %1279s %3s"

_Static_assert(BEACON_ENDPOINT_MAX == 63 + 1, "as LAYOUT_IN says");
_Static_assert(BEACON_LIST_MAX == 1279 + 1, "as LAYOUT_IN says");

const char *beacon_control(const struct beacon *b)
{
    return b->here ? b->endpoint : b->far;
}

const char *beacon_output(const struct beacon *b)
{
    return b->here ? b->output_endpoint : b->far_output;
}

static hvd_status_t path_of(const char *dir, const char *name, char *path)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);

    if (n < 0 || n >= PATH_MAX)
        return error_set(HVD_ERR_INVALID, "\"%s\" is too long", dir);
    return HVD_OK;
}

/* To open it makes a network's file system ask its server for both. */
static hvd_status_t read_text(const char *path, char *text, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(HVD_ERR_DRIVER_LOST, "\"%s\": %s", path,
                         strerror(errno));
    if (fd < 0)
        return error_errno("\"%s\"", path);
    n = read(fd, text, TEXT_MAX - 1);
    if (n < 0 || fstat(fd, st) != 0) {
        hvd_status_t status = error_errno("\"%s\"", path);

        close(fd);
        return status;
    }
    close(fd);
    text[n] = '\0';
    return HVD_OK;
}

static void empty_if_none(char *list)
{
    if (strcmp(list, NONE) == 0)
        list[0] = '\0';
}

hvd_status_t beacon_read(const char *dir, struct beacon *b)
{
    char path[PATH_MAX], text[TEXT_MAX], last[4] = "";
    struct stat st;

    memset(b, 0, sizeof(*b));
    HVD_TRY(path_of(dir, "driver", path));
    HVD_TRY(read_text(path, text, &st));
    if (sscanf(text, LAYOUT_IN, &b->job, &b->term, &b->pid, &b->started,
               &b->machine, b->endpoint, b->output_endpoint, b->far,
               b->far_output, last) != 10 ||
        strcmp(last, "end") != 0)
        return error_set(HVD_ERR_INVALID,
                         "\"%s\" does not say where a driver is", path);
    empty_if_none(b->far);
    empty_if_none(b->far_output);
    b->own = st.st_uid == geteuid();
    b->here = machine_is_this(b->machine);
    b->touched = (uint64_t)st.st_mtim.tv_sec * 1000000000 +
                 (uint64_t)st.st_mtim.tv_nsec + (uint64_t)st.st_ino;
    return HVD_OK;
}

static hvd_status_t write_text(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    ssize_t written;

    if (fd < 0)
        return error_errno("\"%s\"", path);
    written = write(fd, text, n);
    if (written >= 0 && (size_t)written < n)
        errno = ENOSPC;
    if (close(fd) != 0 || written < 0 || (size_t)written < n)
        return error_errno("\"%s\"", path);
    return HVD_OK;
}

/* Under another name first: nobody may see half of it. `fresh` [PATH_MAX]. */
static hvd_status_t write_fresh(const char *dir, const char *name,
                                const struct beacon *b, char *fresh)
{
    char text[TEXT_MAX];
    int n = snprintf(text, sizeof(text), LAYOUT_OUT, b->job, b->term, b->pid,
                     b->started, b->machine, b->endpoint, b->output_endpoint,
                     b->far[0] ? b->far : NONE,
                     b->far_output[0] ? b->far_output : NONE);

    if (n < 0 || (size_t)n >= sizeof(text))
        return error_set(HVD_ERR_INVALID, "an endpoint is too long");
    HVD_TRY(path_of(dir, name, fresh));
    return write_text(fresh, text, (size_t)n);
}

hvd_status_t beacon_write(const char *dir, const struct beacon *b)
{
    char path[PATH_MAX], fresh[PATH_MAX];

    HVD_TRY(path_of(dir, "driver", path));
    HVD_TRY(write_fresh(dir, "driver.new", b, fresh));
    if (rename(fresh, path) != 0)
        return error_errno("\"%s\"", path);
    return HVD_OK;
}

/* link(2) does not replace what a successor may have written meanwhile. */
static hvd_status_t restore(const char *dir, const char *path,
                            const struct beacon *b)
{
    hvd_status_t status = HVD_OK;
    char fresh[PATH_MAX];

    HVD_TRY(write_fresh(dir, "driver.again", b, fresh));
    if (link(fresh, path) != 0 && errno != EEXIST)
        status = error_errno("\"%s\"", path);
    unlink(fresh);
    return status;
}

hvd_status_t beacon_keep(const char *dir, const struct beacon *b)
{
    char path[PATH_MAX];
    struct beacon found;

    if (beacon_read(dir, &found) == HVD_ERR_INVALID)
        return beacon_write(dir, b); /* it was damaged: names are given whole */
    HVD_TRY(path_of(dir, "driver", path));
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0)
        return HVD_OK;
    return errno == ENOENT ? restore(dir, path, b)
                           : error_errno("\"%s\"", path);
}
