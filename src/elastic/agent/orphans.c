/* elastic/agent/orphans.c - whose is an orphan? See orphans.h.
 *
 * A pid is that of one process as long as nobody has reaped it, and only the
 * main thread reaps. A look may overlap with that, so it holds a pidfd before
 * it reads anything.
 *
 * Threads: `lock` guards what it stands above; a look holds it for lists alone,
 * never while it reads. */
#include "elastic/agent/orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/writer.h"
#include "elastic/wire/env.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum {
    LOOKERS_MAX = 4,    /* threads, with those that are kept waiting */
    STUCK_US = 1000000, /* so long one process may keep a thread */
    PAUSE_MS = 20,      /* between two looks: orphans come by the hundred */
    ASKS_MAX = 256,     /* bytes of questions that wait: there is one at most */
    STOP_MS = 50
};

struct pids {
    pid_t *items;
    size_t n, max;
};

struct orphans {
    /* main's own */
    struct writer *lookers[LOOKERS_MAX]; /* [n_lookers], the newest is asked */
    uint64_t moved_us;                   /* it got on, or had nothing to do */
    unsigned moved;                      /* n_looked then */
    bool told;                           /* all are kept waiting */
    _Atomic unsigned n_looked;           /* processes, so far */
    _Atomic bool asked;                  /* a look has yet to begin */
    pthread_mutex_t lock;                /* of what follows */
    size_t n_lookers;
    uint64_t *live; /* [n_live] workers that have not ended */
    size_t n_live, live_max;
    bool again; /* a worker has ended: look at those that are known, too */
    struct pids seen;             /* ascending: looked at, and there */
    pid_t looked_at[LOOKERS_MAX]; /* by each looker, now; 0: none */
};

/* ---- children of the main thread ----------------------------------------- */

/* The kernel's own list, if it keeps one. */
static bool visit_listed(void (*visit)(void *arg, pid_t pid), void *arg)
{
    char path[64];
    FILE *file;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    if (!file)
        return false;
    while (fscanf(file, "%d", &pid) == 1)
        visit(arg, pid);
    fclose(file);
    return true;
}

void orphans_visit(void (*visit)(void *arg, pid_t pid), void *arg)
{
    pid_t self = getpid();
    struct dirent *entry;
    DIR *proc;

    if (visit_listed(visit, arg))
        return;
    proc = opendir("/proc");
    while (proc && (entry = readdir(proc)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) &&
            proc_parent((pid_t)strtol(entry->d_name, NULL, 10)) == self)
            visit(arg, (pid_t)strtol(entry->d_name, NULL, 10));
    if (proc)
        closedir(proc);
}

/* ---- a look, on a thread ------------------------------------------------- */

enum { WORKER_UNKNOWN = 0 };

/* Whose process it is, by its environment, if that says so. *empty_p: there is
 * none, as while a process changes its program, and when it has ended. */
static uint64_t worker_of(pid_t pid, bool *empty_p)
{
    static const char name[] = ENV_WORKER "=";
    uint64_t worker = WORKER_UNKNOWN;
    char path[64], *word = NULL;
    size_t room = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    file = fopen(path, "re");
    *empty_p = file != NULL;
    while (file && worker == WORKER_UNKNOWN &&
           getdelim(&word, &room, '\0', file) > 0) {
        *empty_p = false;
        if (strncmp(word, name, sizeof(name) - 1) == 0)
            worker = strtoull(word + sizeof(name) - 1, NULL, 10);
    }
    if (file)
        fclose(file);
    free(word);
    return worker;
}

static bool lives(struct orphans *o, uint64_t worker)
{
    bool yes = false;

    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->n_live && !yes; i++)
        yes = o->live[i] == worker;
    pthread_mutex_unlock(&o->lock);
    return yes;
}

/* False: look again, in a while. */
static bool look_at(struct orphans *o, pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool empty = false;
    siginfo_t info;
    uint64_t worker;

    if (pidfd < 0)
        return true;
    /* a number that is another's by now is no child of this process */
    if (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info,
               WEXITED | WNOHANG | WNOWAIT) == 0) {
        worker = worker_of(pid, &empty);
        if (worker != WORKER_UNKNOWN && !lives(o, worker))
            proc_signal(pidfd, SIGKILL);
    }
    close(pidfd);
    return !empty;
}

/* Another thread takes over when this one is kept waiting. Under the lock. */
static bool is_newest(const struct orphans *o, size_t looker)
{
    return looker + 1 == o->n_lookers;
}

/* False: it is not for this thread to look at, or keeps another one waiting. */
static bool begin_looking(struct orphans *o, size_t looker, pid_t pid)
{
    bool looks;

    pthread_mutex_lock(&o->lock);
    looks = is_newest(o, looker);
    for (size_t i = 0; i < looker; i++)
        looks &= o->looked_at[i] != pid;
    if (looks)
        o->looked_at[looker] = pid;
    pthread_mutex_unlock(&o->lock);
    return looks;
}

static void end_looking(struct orphans *o, size_t looker)
{
    pthread_mutex_lock(&o->lock);
    o->looked_at[looker] = 0;
    pthread_mutex_unlock(&o->lock);
    o->n_looked++;
}

static int compare(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return (x > y) - (x < y);
}

static void list_add(void *arg, pid_t pid)
{
    struct pids *list = arg;

    if (array_reserve(&list->items, &list->max, list->n + 1))
        list->items[list->n++] = pid;
}

/* *rest: those of *all that are not in *seen. Both ascend. */
static void subtract(const struct pids *all, const struct pids *seen,
                     struct pids *rest)
{
    size_t k = 0;

    for (size_t i = 0; i < all->n; i++) {
        while (k < seen->n && seen->items[k] < all->items[i])
            k++;
        if (k == seen->n || seen->items[k] != all->items[i])
            list_add(rest, all->items[i]);
    }
}

/* *fresh: those of *all that nobody has looked at. *all becomes what is seen.
 */
static void find_fresh(struct orphans *o, size_t looker, struct pids *all,
                       struct pids *fresh)
{
    struct pids before;

    if (all->n > 0)
        qsort(all->items, all->n, sizeof(*all->items), compare);
    pthread_mutex_lock(&o->lock);
    if (is_newest(o, looker)) {
        before = o->seen;
        if (o->again)
            before.n = 0;
        o->again = false;
        subtract(all, &before, fresh);
        o->seen = *all;
        *all = before;
    }
    pthread_mutex_unlock(&o->lock);
    free(all->items);
}

/* *again: those of *fresh that have to be looked at once more. */
static void look_at_all(struct writer *w, struct orphans *o, size_t looker,
                        const struct pids *fresh, struct pids *again)
{
    for (size_t i = 0; i < fresh->n && !writer_stopped(w); i++) {
        if (begin_looking(o, looker, fresh->items[i]) &&
            !look_at(o, fresh->items[i]))
            list_add(again, fresh->items[i]);
        end_looking(o, looker);
    }
    if (!writer_stopped(w))
        poll(NULL, 0, PAUSE_MS);
}

/* The record is the number of this looker. */
static int look(struct writer *w, void *arg, const char *bytes, size_t n)
{
    struct orphans *o = arg;
    struct pids all = {0}, fresh = {0}, again = {0}, never = {0};
    size_t looker;

    HVD_ASSERT(n == sizeof(looker));
    memcpy(&looker, bytes, n);
    o->asked = false;
    orphans_visit(list_add, &all);
    find_fresh(o, looker, &all, &fresh);
    look_at_all(w, o, looker, &fresh, &again);
    if (again.n > 0)
        look_at_all(w, o, looker, &again, &never);
    free(fresh.items);
    free(again.items);
    free(never.items);
    return 0;
}

/* ---- main ---------------------------------------------------------------- */

static bool add_looker(struct orphans *o)
{
    static const struct writer_ops ops = {.take = look};
    struct writer_config config = {
        .ops = &ops, .arg = o, .keep_max = ASKS_MAX, .wake_fd = -1};

    if (writer_create(&config, &o->lookers[o->n_lookers]) != HVD_OK)
        return false;
    pthread_mutex_lock(&o->lock);
    o->n_lookers++;
    o->again = true; /* the one before may not have come to the others */
    pthread_mutex_unlock(&o->lock);
    o->asked = false;
    return true;
}

static void release(struct orphans *o)
{
    pthread_mutex_destroy(&o->lock);
    free(o->live);
    free(o->seen.items);
    free(o);
}

struct orphans *orphans_create(void)
{
    struct orphans *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    pthread_mutex_init(&o->lock, NULL);
    o->moved_us = CLOCK_NEVER;
    if (add_looker(o))
        return o;
    release(o);
    return NULL;
}

void orphans_destroy(struct orphans *o)
{
    bool ended = true;
    int error;

    if (!o)
        return;
    for (size_t i = o->n_lookers; i > 0; i--)
        ended &= writer_destroy(o->lookers[i - 1], STOP_MS, STOP_MS, &error);
    if (ended) /* else a thread that hangs has it */
        release(o);
}

bool orphans_add(struct orphans *o, uint64_t worker)
{
    bool room;

    if (!o)
        return true;
    pthread_mutex_lock(&o->lock);
    room = array_reserve(&o->live, &o->live_max, o->n_live + 1);
    if (room)
        o->live[o->n_live++] = worker;
    pthread_mutex_unlock(&o->lock);
    return room;
}

void orphans_end(struct orphans *o, uint64_t worker)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < o->n_live; i++)
        if (o->live[i] == worker)
            o->live[i] = o->live[--o->n_live];
    o->again = true;
    pthread_mutex_unlock(&o->lock);
    orphans_look(o, clock_now_us());
}

/* A question that waits covers this one. */
void orphans_look(struct orphans *o, uint64_t now_us)
{
    size_t looker;

    if (!o || atomic_exchange(&o->asked, true))
        return;
    looker = o->n_lookers - 1;
    if (!writer_put(o->lookers[looker], &looker, sizeof(looker)))
        o->asked = false; /* no memory: the next one may have some */
    else if (o->moved_us == CLOCK_NEVER)
        o->moved_us = now_us;
}

void orphans_tick(struct orphans *o, uint64_t now_us)
{
    if (!o || o->moved_us == CLOCK_NEVER)
        return;
    if (writer_pending(o->lookers[o->n_lookers - 1]) == 0) {
        o->moved_us = CLOCK_NEVER;
    } else if (o->moved != o->n_looked) {
        o->moved = o->n_looked;
        o->moved_us = now_us;
    } else if (now_us - o->moved_us >= STUCK_US && !o->told) {
        o->told = o->n_lookers == LOOKERS_MAX || !add_looker(o);
        if (o->told)
            log_warn("the kernel does not name the parents of some processes "
                     "-> orphans of workers may live until this agent ends");
        o->moved_us = CLOCK_NEVER;
        orphans_look(o, now_us);
    }
}
