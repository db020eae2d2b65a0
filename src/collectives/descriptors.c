/* collectives/descriptors.c - see descriptors.h. Memory: none. */
#include "collectives/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum {
    OWN = 4,       /* of a comm: mailbox, its twin, doorbell, eventfd */
    PER_LOCAL = 4, /* connection, doorbell, pidfd, its arena's file */
    SPARE = 16,    /* connections that come and go */
    OPEN_GUESS = 64
};

/* Partners of a schedule: those at distances of powers of two, either way. */
static size_t partners(size_t size)
{
    size_t n = 0;

    while (((size_t)1 << n) < size)
        n++;
    return 2 * n < size - 1 ? 2 * n : size - 1;
}

struct descriptors_need descriptors_needed(size_t size, size_t n_here,
                                           bool shares, size_t connections)
{
    bool over_tcp = !shares || n_here < size;
    size_t local = OWN + (shares ? PER_LOCAL * (n_here - 1) : 0) + SPARE;
    struct descriptors_need need = {local, local};

    if (over_tcp) {
        need.least += partners(size); /* further connections are a luxury */
        /* and one for transfers, or to tell a rank what this one waits in */
        need.most += (connections + 1) * (size - 1);
    }
    return need;
}

static size_t count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    if (dir == NULL)
        return OPEN_GUESS;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 3; /* ".", "..", and its own */
}

/* A new one gets the lowest number that is free, which may be a gap below many
 * that the program has opened since. If the number that is `most` above it is
 * free too, so is what is above that. To count takes long for who has many, in
 * the middle of a recovery. */
static bool is_plenty(const struct rlimit *limit, int newest, size_t most)
{
    size_t at = (size_t)newest + most;
    int fd;

    if (newest < 0 || limit->rlim_cur / 2 <= at || at > INT_MAX)
        return false;
    fd = fcntl(newest, F_DUPFD_CLOEXEC, (int)at);
    if (fd >= 0)
        close(fd);
    return fd == (int)at;
}

static void raise_limit(const char *who, struct rlimit *limit, rlim_t wanted)
{
    rlim_t before = limit->rlim_cur;

    limit->rlim_cur = wanted < limit->rlim_max ? wanted : limit->rlim_max;
    if (setrlimit(RLIMIT_NOFILE, limit) == 0)
        log_info("%s: RLIMIT_NOFILE %llu -> %llu", who,
                 (unsigned long long)before,
                 (unsigned long long)limit->rlim_cur);
    else
        limit->rlim_cur = before;
}

hvd_status_t descriptors_reserve(const char *who, struct descriptors_need need,
                                 int newest, size_t *room_p)
{
    struct rlimit limit;
    size_t n_open, room;

    *room_p = need.most;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return HVD_OK; /* a sandbox hides it: as if it were enough */
    if (is_plenty(&limit, newest, need.most))
        return HVD_OK;
    n_open = count_open();
    if (limit.rlim_max < n_open + need.least)
        return error_set(HVD_ERR_SYSTEM,
                         "%s: %zu descriptors are needed beside the %zu that "
                         "are open, RLIMIT_NOFILE allows %llu (ulimit -n)",
                         who, need.least, n_open,
                         (unsigned long long)limit.rlim_max);
    if (limit.rlim_cur < n_open + need.most)
        raise_limit(who, &limit, n_open + need.most);
    room = limit.rlim_cur > n_open ? (size_t)limit.rlim_cur - n_open : 0;
    *room_p = room < need.most ? room : need.most;
    return HVD_OK;
}
