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
#include "base/machine.h"
#include "base/proc.h"
#include "elastic/driver/journal.h"

enum {
    TERMS_MAX = 16, /* whose locks are looked at */
    LOOK_MS = 1000, /* how often one that stands by looks who leads the job */
    DYING_MS = 50,  /* ... while the driver is between two states */
    AWAY_MS = 500,  /* how often it looks at a driver on another machine */
    AWAY_LOOKS = 20 /* after so many without a change that one is silent */
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

void jobdir_keep_lock(const char *dir, uint64_t term, int *fd_p)
{
    struct flock whole = whole_file();
    char path[PATH_MAX];
    int fd;

    if (lock_path(dir, term, path) != HVD_OK) {
        error_clear();
        return;
    }
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 ||
        errno != ENOENT)
        return;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    (void)fcntl(fd, F_SETLK, &whole);
    fd_close(fd_p); /* of a file that is gone as well */
    *fd_p = fd;
}

/* ---- whether its driver lives -------------------------------------------- */

/* Its lock may be gone, as somebody removed what was old. */
static bool is_running(const struct beacon *b)
{
    bool here = b->pid > 0 && machine_is_this(b->machine);
    int fd = here ? proc_open((pid_t)b->pid, b->started) : -1;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    bool runs = fd >= 0 && poll(&ended, 1, 0) == 0;

    fd_close(&fd);
    return runs;
}

hvd_status_t jobdir_driver_lives(const char *dir, const struct beacon *b,
                                 bool *lives_p)
{
    HVD_TRY(is_locked(dir, b->term, lives_p));
    *lives_p |= is_running(b);
    return HVD_OK;
}

/* A driver that is, or may be, on another machine. */
struct watch {
    struct beacon seen;
    int n_alike;     /* looks that have seen just that */
    bool held, ends; /* its lock was, and then was not any more */
    bool moves;      /* it was seen to live */
};

/* A cleaner may have removed the file: its driver makes it again. */
static bool has_lock_file(const char *dir, uint64_t term)
{
    char path[PATH_MAX];

    return lock_path(dir, term, path) == HVD_OK && access(path, F_OK) == 0;
}

/* Looks are counted, and no time: this process may have stood still, or the
 * file server may not have answered. */
static hvd_status_t look_away(const char *dir, const struct beacon *b,
                              struct watch *w)
{
    bool locked;

    HVD_TRY(is_locked(dir, b->term, &locked));
    if (b->job != w->seen.job || b->term != w->seen.term)
        *w = (struct watch){.seen = *b};
    if (b->touched != w->seen.touched || b->pid != w->seen.pid) {
        w->moves = true;
        w->n_alike = 0;
    }
    w->seen = *b;
    w->n_alike++;
    w->held |= locked;
    w->ends = w->held && !locked && has_lock_file(dir, b->term);
    return HVD_OK;
}

static bool is_silent(const struct watch *w)
{
    return w->ends || w->n_alike > AWAY_LOOKS;
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
    if (!machine_is_this(m.state.machine))
        memory_move_away(&m);
    for (size_t i = 0; i < m.n_hosts && life != JOBDIR_LIVES && !m.state.ended;
         i++) {
        const struct entry_host *host = &m.hosts[i];

        if (host->agent == 0 || host->pid == 0)
            continue;
        if (host->pid < 0)
            life = JOBDIR_ELSEWHERE;
        else if (host->started != 0 &&
                 proc_started((pid_t)host->pid) == host->started)
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

static hvd_status_t not_ended(const char *dir)
{
    return error_set(HVD_ERR_STATE,
                     "\"%s\" holds a job that has not ended: --resume it, or "
                     "remove the directory",
                     dir);
}

/* What a job that lies there would lose. Without DIR/driver, which somebody may
 * have removed as it was old, the journal says whether anybody lives. */
static hvd_status_t check_vacant(const char *dir, bool anew)
{
    struct memory m = {0};
    struct beacon b;
    bool locked, ended;
    size_t cut;

    if (!has_driver(dir))
        return jobdir_life(dir) == JOBDIR_NOBODY ? HVD_OK : not_ended(dir);
    HVD_TRY(refuse(beacon_read(dir, &b), dir));
    HVD_TRY(jobdir_driver_lives(dir, &b, &locked));
    if (locked)
        return error_set(HVD_ERR_STATE,
                         "\"%s\" is the directory of a job that runs: its "
                         "driver is process %" PRId64,
                         dir, b.pid);
    HVD_TRY(refuse(journal_read(dir, &m, &cut), dir));
    ended = m.state.ended;
    memory_fini(&m);
    if (ended || (anew && jobdir_life(dir) == JOBDIR_NOBODY))
        return HVD_OK;
    return not_ended(dir);
}

hvd_status_t jobdir_begin(const char *name, bool anew, char *dir,
                          int *lock_fd_p)
{
    HVD_TRY(make_directory(name));
    if (!realpath(name, dir))
        return error_errno("\"%s\"", name);
    HVD_TRY(check_vacant(dir, anew));
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
    heir->elsewhere = !machine_is_this(heir->memory.state.machine);
    if (heir->elsewhere)
        memory_move_away(&heir->memory);
    if (heir->memory.job.job == heir->before.job)
        return HVD_OK;
    memory_fini(&heir->memory);
    return error_set(HVD_ERR_INVALID,
                     "\"%s\": its journal is of another job than its driver",
                     dir);
}

/* By the newest journal, if no driver holds a lock: somebody may have removed
 * DIR/driver, or a bit of it has changed. */
static hvd_status_t find_by_journal(const char *dir, struct beacon *b)
{
    struct memory m = {0};
    bool locked = false;
    size_t cut;

    HVD_TRY(journal_read(dir, &m, &cut));
    *b = (struct beacon){
        .job = m.job.job, .term = m.state.term, .machine = m.state.machine};
    memory_fini(&m);
    for (uint64_t term = b->term; term > 0 && b->term - term < TERMS_MAX;
         term--) {
        HVD_TRY(is_locked(dir, term, &locked));
        if (locked)
            return error_set(HVD_ERR_STATE,
                             "\"%s/driver\" is gone, and a driver lives", dir);
    }
    return HVD_OK;
}

static hvd_status_t find_leader(const char *dir, struct beacon *b)
{
    hvd_status_t status = beacon_read(dir, b);

    if (status != HVD_ERR_DRIVER_LOST && status != HVD_ERR_INVALID)
        return status;
    if (find_by_journal(dir, b) == HVD_OK) {
        error_clear();
        return HVD_OK;
    }
    return beacon_read(dir, b); /* that is what is wrong */
}

/* The next term is ours, if nobody was faster: HVD_ERR_STATE. */
static hvd_status_t take_term(const char *dir, struct heir *heir)
{
    struct beacon now;

    heir->term = heir->before.term + 1;
    HVD_TRY(lock(dir, heir->term, &heir->lock_fd));
    HVD_TRY(find_leader(dir, &now));
    if (heir->lock_fd >= 0 && now.term == heir->before.term)
        return HVD_OK;
    return overtaken(dir);
}

hvd_status_t jobdir_find(const char *dir, struct beacon *b)
{
    HVD_TRY(check_directory(dir));
    return error_prefix(find_leader(dir, b), "there is no job in \"%s\"", dir);
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

static hvd_status_t lives(const char *dir, const struct beacon *b)
{
    const char *where = machine_is_this(b->machine) ? ""
                                                    : " on another machine";

    return error_set(HVD_ERR_STATE,
                     "the driver of \"%s\" lives, process %" PRId64
                     "%s (--take-over, if it hangs)",
                     dir, b->pid, where);
}

/* HVD_ERR_STATE: it lives. */
static hvd_status_t check_away(const char *dir, struct heir *heir)
{
    struct watch w = {.seen = heir->before};

    HVD_TRY(look_away(dir, &heir->before, &w));
    while (!is_silent(&w)) {
        poll(NULL, 0, AWAY_MS);
        HVD_TRY(jobdir_find(dir, &heir->before));
        HVD_TRY(look_away(dir, &heir->before, &w));
        if (w.moves)
            return lives(dir, &heir->before);
    }
    heir->may_live = !w.ends;
    return HVD_OK;
}

static hvd_status_t check_before(const char *dir, struct heir *heir)
{
    bool locked;

    if (!machine_is_this(heir->before.machine))
        return check_away(dir, heir);
    HVD_TRY(jobdir_driver_lives(dir, &heir->before, &locked));
    return locked ? lives(dir, &heir->before) : HVD_OK;
}

hvd_status_t jobdir_inherit(const char *dir, bool take_over, struct heir *heir)
{
    hvd_status_t status;

    *heir = (struct heir){.lock_fd = -1};
    HVD_TRY(jobdir_find(dir, &heir->before));
    if (!take_over)
        HVD_TRY(check_before(dir, heir));
    status = inherit(dir, heir);
    if (status != HVD_OK)
        heir_fini(heir);
    return status;
}

/* ---- one that stands by -------------------------------------------------- */

/* Until its process has ended, or it is time to look who leads the job. */
static void wait_for_end(const struct beacon *b)
{
    bool here = machine_is_this(b->machine);
    int fd = here ? proc_open((pid_t)b->pid, b->started) : -1;
    struct pollfd ended = {.fd = fd, .events = POLLIN};

    poll(&ended, 1, fd >= 0 ? LOOK_MS : here ? DYING_MS : AWAY_MS);
    fd_close(&fd);
}

/* DIR/driver may be gone meanwhile, and its process not. */
static hvd_status_t look_for_driver(const char *dir, struct beacon *b,
                                    struct watch *w, bool *lives_p)
{
    struct beacon last = *b;

    HVD_TRY(jobdir_find(dir, b));
    if (b->pid == 0 && last.job == b->job && last.term == b->term)
        *b = last;
    if (machine_is_this(b->machine))
        return jobdir_driver_lives(dir, b, lives_p);
    HVD_TRY(look_away(dir, b, w));
    *lives_p = !is_silent(w);
    return HVD_OK;
}

static hvd_status_t await_driver(const char *dir, struct heir *heir)
{
    struct beacon *b = &heir->before;
    struct watch w = {0};
    bool lives;

    HVD_TRY(look_for_driver(dir, b, &w, &lives));
    while (lives) {
        wait_for_end(b);
        HVD_TRY(look_for_driver(dir, b, &w, &lives));
    }
    heir->may_live = !machine_is_this(b->machine) && !w.ends;
    return HVD_OK;
}

/* *lost_p: another one was faster. */
static hvd_status_t stand_by(const char *dir, struct heir *heir, bool *lost_p)
{
    hvd_status_t status;

    *heir = (struct heir){.lock_fd = -1};
    *lost_p = false;
    HVD_TRY(await_driver(dir, heir));
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
