/* elastic/driver/jobdir.c - see jobdir.h. */
#include "elastic/driver/jobdir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "elastic/driver/journal.h"

enum {
    LOOK_MS = 1000, /* how often one that stands by looks who leads the job */
    DYING_MS = 50   /* ... while the driver is between two states */
};

/* ---- the directory ------------------------------------------------------- */

static hvd_status_t check_directory(const char *dir)
{
    struct stat st;

    if (stat(dir, &st) != 0)
        return error_errno("\"%s\"", dir);
    if (!S_ISDIR(st.st_mode))
        return error_set(HVD_ERR_INVALID, "\"%s\" is no directory", dir);
    if (st.st_uid != geteuid())
        return error_set(HVD_ERR_INVALID, "\"%s\" belongs to another user",
                         dir);
    if ((st.st_mode & 077) != 0)
        return error_set(HVD_ERR_INVALID,
                         "\"%s\" is open to others (mode %03o, not 700)", dir,
                         (unsigned)st.st_mode & 0777);
    if (access(dir, W_OK | X_OK) != 0)
        return error_errno("\"%s\"", dir);
    return HVD_OK;
}

static hvd_status_t make_directory(const char *dir)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return error_errno("\"%s\"", dir);
    return check_directory(dir);
}

/* ---- locks --------------------------------------------------------------- */

static hvd_status_t lock_path(const char *dir, uint64_t term, char *path)
{
    int n = snprintf(path, PATH_MAX, "%s/lock.%" PRIu64, dir, term);

    if (n < 0 || n >= PATH_MAX)
        return error_set(HVD_ERR_INVALID, "\"%s\" is too long", dir);
    return HVD_OK;
}

/* Those of fcntl: what a driver forks does not hold them as well, as it does
 * flock's. A process must not open its own lock's file again. */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* *fd_p: -1: somebody has it. */
static hvd_status_t lock(const char *dir, uint64_t term, int *fd_p)
{
    struct flock whole = whole_file();
    char path[PATH_MAX];
    int fd;

    HVD_TRY(lock_path(dir, term, path));
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno("\"%s\"", path);
    if (fcntl(fd, F_SETLK, &whole) == 0) {
        *fd_p = fd;
        return HVD_OK;
    }
    if (errno != EACCES && errno != EAGAIN) {
        hvd_status_t status = error_errno("cannot lock \"%s\"", path);

        close(fd);
        return status;
    }
    close(fd);
    *fd_p = -1;
    return HVD_OK;
}

static hvd_status_t is_locked(const char *dir, uint64_t term, bool *locked_p)
{
    struct flock whole = whole_file();
    hvd_status_t status = HVD_OK;
    char path[PATH_MAX];
    int fd;

    HVD_TRY(lock_path(dir, term, path));
    *locked_p = false;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? HVD_OK : error_errno("\"%s\"", path);
    if (fcntl(fd, F_GETLK, &whole) != 0)
        status = error_errno("cannot lock \"%s\"", path);
    *locked_p = whole.l_type != F_UNLCK;
    close(fd);
    return status;
}

/* ---- who lives ----------------------------------------------------------- */

enum jobdir_life jobdir_life(const char *dir)
{
    enum jobdir_life life = JOBDIR_NOBODY;
    struct memory m = {0};
    size_t cut;

    if (journal_read(dir, &m, &cut) != HVD_OK) {
        error_clear();
        return JOBDIR_NOBODY;
    }
    for (size_t i = 0; i < m.n_hosts && life != JOBDIR_LIVES; i++) {
        const struct entry_host *host = &m.hosts[i];

        if (host->agent == 0 || host->pid == 0)
            continue;
        if (host->pid < 0)
            life = JOBDIR_ELSEWHERE;
        else if (proc_started((pid_t)host->pid) == host->started)
            life = JOBDIR_LIVES;
    }
    memory_fini(&m);
    return life;
}

/* ---- a new job ----------------------------------------------------------- */

/* Somebody has led a job there. */
static bool has_driver(const char *dir)
{
    char path[PATH_MAX];

    int n = snprintf(path, PATH_MAX, "%s/driver", dir);

    return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

/* What cannot be read may be a job that lives. */
static hvd_status_t refuse(hvd_status_t status, const char *dir)
{
    return error_prefix(status,
                        "\"%s\" may hold a job (remove the directory, "
                        "if it has ended)",
                        dir);
}

/* What a job that lies there would lose. */
static hvd_status_t check_vacant(const char *dir)
{
    struct memory m = {0};
    struct beacon b;
    bool locked, ended;
    size_t cut;

    if (!has_driver(dir))
        return HVD_OK;
    HVD_TRY(refuse(beacon_read(dir, &b), dir));
    HVD_TRY(is_locked(dir, b.term, &locked));
    if (locked)
        return error_set(HVD_ERR_STATE,
                         "\"%s\" is the directory of a job that runs: its "
                         "driver is process %" PRId64,
                         dir, b.pid);
    HVD_TRY(refuse(journal_read(dir, &m, &cut), dir));
    ended = m.state.ended;
    memory_fini(&m);
    if (!ended)
        return error_set(HVD_ERR_STATE,
                         "\"%s\" holds a job that has not ended: --resume it, "
                         "or remove the directory",
                         dir);
    return HVD_OK;
}

hvd_status_t jobdir_begin(const char *name, char *dir, int *lock_fd_p)
{
    HVD_TRY(make_directory(name));
    if (!realpath(name, dir))
        return error_errno("\"%s\"", name);
    HVD_TRY(check_vacant(dir));
    HVD_TRY(lock(dir, 1, lock_fd_p));
    if (*lock_fd_p < 0)
        return error_set(HVD_ERR_STATE,
                         "\"%s\": another driver holds its lock.1", dir);
    return HVD_OK;
}

/* ---- a successor --------------------------------------------------------- */

void heir_fini(struct heir *heir)
{
    memory_fini(&heir->memory);
    fd_close(&heir->lock_fd);
}

static hvd_status_t overtaken(const char *dir)
{
    return error_set(HVD_ERR_STATE,
                     "\"%s\": another driver takes this job over", dir);
}

/* Whoever leads removes the journals of others when it has named itself: so a
 * journal that is gone is no misfortune if another one is named by now. */
static hvd_status_t no_journal(const char *dir, const struct heir *heir,
                               hvd_status_t status)
{
    struct beacon now;

    if (status == HVD_ERR_SYSTEM && beacon_read(dir, &now) == HVD_OK &&
        now.term != heir->before.term)
        return overtaken(dir);
    return status;
}

/* HVD_ERR_STATE: somebody else was faster. */
static hvd_status_t read_job(const char *dir, struct heir *heir)
{
    hvd_status_t status = journal_read(dir, &heir->memory, &heir->cut);

    if (status != HVD_OK)
        return no_journal(dir, heir, status);
    if (heir->memory.job.job == heir->before.job)
        return HVD_OK;
    memory_fini(&heir->memory);
    return error_set(HVD_ERR_INVALID,
                     "\"%s\": its journal is of another job than its driver",
                     dir);
}

/* The next term is ours, if nobody was faster: HVD_ERR_STATE. */
static hvd_status_t take_term(const char *dir, struct heir *heir)
{
    struct beacon now;

    heir->term = heir->before.term + 1;
    HVD_TRY(lock(dir, heir->term, &heir->lock_fd));
    HVD_TRY(beacon_read(dir, &now));
    if (heir->lock_fd >= 0 && now.term == heir->before.term)
        return HVD_OK;
    return overtaken(dir);
}

hvd_status_t jobdir_find(const char *dir, struct beacon *b)
{
    HVD_TRY(check_directory(dir));
    return error_prefix(beacon_read(dir, b), "there is no job in \"%s\"", dir);
}

static hvd_status_t inherit(const char *dir, struct heir *heir)
{
    const struct entry_state *state = &heir->memory.state;

    HVD_TRY(read_job(dir, heir));
    if (state->ended)
        return error_set(HVD_ERR_STATE, "the job of \"%s\" has ended: %s", dir,
                         state->verdict);
    return take_term(dir, heir);
}

hvd_status_t jobdir_inherit(const char *dir, bool take_over, struct heir *heir)
{
    hvd_status_t status;
    bool locked;

    *heir = (struct heir){.lock_fd = -1};
    HVD_TRY(jobdir_find(dir, &heir->before));
    HVD_TRY(is_locked(dir, heir->before.term, &locked));
    if (locked && !take_over)
        return error_set(HVD_ERR_STATE,
                         "the driver of \"%s\" lives, process %" PRId64
                         " (--take-over, if it hangs)",
                         dir, heir->before.pid);
    status = inherit(dir, heir);
    if (status != HVD_OK)
        heir_fini(heir);
    return status;
}

/* ---- one that stands by -------------------------------------------------- */

/* Until its process has ended, or it is time to look who leads the job. */
static void wait_for_end(const struct beacon *b)
{
    int fd = proc_open((pid_t)b->pid, b->started);
    struct pollfd ended = {.fd = fd, .events = POLLIN};

    poll(&ended, 1, fd >= 0 ? LOOK_MS : DYING_MS);
    fd_close(&fd);
}

static hvd_status_t await_driver(const char *dir, struct beacon *b)
{
    bool locked;

    HVD_TRY(jobdir_find(dir, b));
    HVD_TRY(is_locked(dir, b->term, &locked));
    while (locked) {
        wait_for_end(b);
        HVD_TRY(jobdir_find(dir, b));
        HVD_TRY(is_locked(dir, b->term, &locked));
    }
    return HVD_OK;
}

/* *lost_p: another one was faster. */
static hvd_status_t stand_by(const char *dir, struct heir *heir, bool *lost_p)
{
    hvd_status_t status;

    *heir = (struct heir){.lock_fd = -1};
    *lost_p = false;
    HVD_TRY(await_driver(dir, &heir->before));
    status = read_job(dir, heir);
    if (status == HVD_OK && heir->memory.state.ended)
        return HVD_OK;
    if (status == HVD_OK)
        status = take_term(dir, heir);
    *lost_p = status == HVD_ERR_STATE;
    if (status != HVD_OK)
        heir_fini(heir);
    return *lost_p ? HVD_OK : status;
}

hvd_status_t jobdir_await(const char *dir, struct heir *heir, bool *ended_p)
{
    bool lost;

    do {
        HVD_TRY(stand_by(dir, heir, &lost));
        if (lost) /* it is about to say where it is */
            poll(NULL, 0, DYING_MS);
    } while (lost);
    *ended_p = heir->memory.state.ended;
    return HVD_OK;
}
