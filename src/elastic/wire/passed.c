/* elastic/wire/passed.c - see passed.h. */
#include "elastic/wire/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "elastic/wire/env.h"

const struct passed_place passed_places[PASSED_MAX] = {
    [PASSED_SECRET] = {ENV_SECRET_FD, 60},
    [PASSED_LIFELINE] = {ENV_LIFELINE_FD, 61},
    [PASSED_ROBUST] = {ENV_ROBUST_FD, 63}}; /* 62: of the agent's child */

void passed_describe(const int *fds, char entry[PASSED_ENTRY_MAX])
{
    int n = snprintf(entry, PASSED_ENTRY_MAX, ENV_PASSED "=");

    for (int i = 0; i < PASSED_MAX; i++) {
        struct stat st = {0};

        (void)fstat(fds[i], &st);
        n += snprintf(entry + n, (size_t)(PASSED_ENTRY_MAX - n),
                      "%" PRIu64 ":%" PRIu64 ",", (uint64_t)st.st_dev,
                      (uint64_t)st.st_ino);
    }
}

/* The file that was passed, or nobody has said which. */
static bool is_passed(enum passed which, int fd)
{
    const char *at = getenv(ENV_PASSED);
    uint64_t device, inode;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    for (unsigned i = 0; at && i < (unsigned)which; i++) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return !at || sscanf(at, "%" SCNu64 ":%" SCNu64, &device, &inode) != 2 ||
           (st.st_dev == device && st.st_ino == inode);
}

hvd_status_t passed_find(enum passed which, int *fd_p)
{
    const char *name = passed_places[which].name, *text = getenv(name);
    unsigned long fd;
    char *end;

    if (!text)
        return error_set(HVD_ERR_INVALID, "%s is not set", name);
    errno = 0;
    fd = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' ||
        fd > INT_MAX)
        return error_set(HVD_ERR_INVALID, "%s: \"%s\" is not a number", name,
                         text);
    *fd_p = -1;
    if (is_passed(which, (int)fd) && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
        *fd_p = (int)fd;
    return HVD_OK;
}
