/* elastic/agent/deaths.c - see deaths.h.
 *
 *   main: watch, forget --> watches of all workers <-- a thread looks at their
 *   main: deaths_next <--- eventfd, dying <---------- words, and waits for them
 *
 * A thread reads the words of its watches under the lock, and waits for any of
 * them to change without it. Main counts `changes` whenever it changes the
 * watches; the thread waits for that word as well, so it never waits for an old
 * list. A mapping that is gone by then makes the wait fail, and the thread
 * looks again.
 *
 * Threads: `lock` guards what is below it. Memory: threads are joined, and
 * freed with the watches, in deaths_destroy(). */
#include "elastic/agent/deaths.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/thread.h"

enum {
    WAITS_MAX = 128, /* of one futex_waitv(2), `changes` among them */
    AGAIN_MS = 1000  /* without it: a look, as a wake may have been missed */
};

/* struct futex_waitv, which is younger than some systems' headers. */
enum { WAITV_SYSCALL = 449, WAITV_32 = 2, WAITV_PRIVATE = 128 };

struct waitv {
    uint64_t value, address;
    uint32_t flags[2]; /* the second: 0 */
};

struct watch {
    uint64_t worker; /* 0: free */
    pid_t pid;
    struct robust *robust;
    bool direct; /* see struct death */
    bool held;   /* the lock was seen taken, and `direct` found out */
    bool dying;  /* seen: its word is not looked at any more */
    bool told;
};

struct watcher {
    struct watcher *next;
    struct deaths *deaths;
    pthread_t thread;
    uint32_t changes; /* a futex: main has changed something */
    size_t max;       /* of its watches */
    struct watch watches[WAITS_MAX - 1];
};

struct deaths {
    bool one_each;
    int fd;
    pthread_mutex_t lock;
    struct watcher *first;
    bool ending;
};

/* ---- a thread that waits ------------------------------------------------- */

/* Is this a thread of that process? Not if its number is that of another PID
 * namespace. */
static bool is_of(pid_t pid, int thread)
{
    return syscall(SYS_tgkill, pid, thread, 0) == 0;
}

/* Under the lock. False: there is nothing to wait for. */
static bool look(struct deaths *d, struct watch *watch, struct waitv *wait)
{
    enum robust_state state;
    uint32_t word;
    int thread;

    if (watch->worker == 0 || watch->dying)
        return false;
    state = robust_look(watch->robust, &word, &thread);
    if (state == ROBUST_HELD && !watch->held) {
        watch->held = true;
        watch->direct = is_of(watch->pid, thread);
    } else if (state == ROBUST_DIED) {
        watch->dying = true;
        (void)eventfd_write(d->fd, 1);
        return false;
    }
    *wait = (struct waitv){.value = word,
                           .address = (uintptr_t)robust_word(watch->robust),
                           .flags = {WAITV_32}};
    return true;
}

/* Under the lock: all that this thread waits for. Returns how many. */
static size_t look_at_all(struct watcher *w, struct waitv *waits)
{
    size_t n = 0;

    for (size_t i = 0; i < w->max; i++)
        n += look(w->deaths, &w->watches[i], &waits[n]);
    waits[n++] = (struct waitv){
        .value = __atomic_load_n(&w->changes, __ATOMIC_SEQ_CST),
        .address = (uintptr_t)&w->changes,
        .flags = {WAITV_32 | WAITV_PRIVATE}};
    return n;
}

/* The first of the list: a worker's word, if there is one, and AGAIN_MS bounds
 * how long a change goes unnoticed. */
static void await_one(const struct waitv *wait)
{
    struct timespec again = {.tv_sec = AGAIN_MS / 1000};
    int flag = wait->flags[0] & WAITV_PRIVATE ? FUTEX_PRIVATE_FLAG : 0;

    syscall(SYS_futex, (uintptr_t)wait->address, FUTEX_WAIT | flag,
            (uint32_t)wait->value, &again, NULL, 0);
}

static void *watcher_main(void *arg)
{
    struct watcher *w = arg;
    struct deaths *d = w->deaths;
    struct waitv waits[WAITS_MAX];
    bool ending;
    size_t n;

    while (1) {
        pthread_mutex_lock(&d->lock);
        ending = d->ending;
        n = look_at_all(w, waits);
        pthread_mutex_unlock(&d->lock);
        if (ending)
            return NULL;
        if (d->one_each)
            await_one(&waits[0]);
        else
            syscall(WAITV_SYSCALL, waits, n, 0, NULL, 0);
    }
}

/* ---- main ---------------------------------------------------------------- */

static bool has_waitv(void)
{
    /* none are waited for: that is an error, if the call is known */
    return syscall(WAITV_SYSCALL, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL;
}

struct deaths *deaths_create(bool one_each)
{
    struct deaths *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->one_each = one_each || !has_waitv();
    d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&d->lock, NULL);
    if (d->fd >= 0)
        return d;
    deaths_destroy(d);
    return NULL;
}

static void wake(struct watcher *w)
{
    __atomic_fetch_add(&w->changes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &w->changes, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL,
            NULL, 0);
}

/* Wake the thread that waits for this word alone. */
static void wake_watch(const struct watch *watch)
{
    syscall(SYS_futex, robust_word(watch->robust), FUTEX_WAKE, 1, NULL, NULL,
            0);
}

static void forget(struct watch *watch)
{
    robust_detach(watch->robust);
    memset(watch, 0, sizeof(*watch));
}

void deaths_destroy(struct deaths *d)
{
    struct watcher *w;

    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->ending = true;
    pthread_mutex_unlock(&d->lock);
    while ((w = d->first)) {
        wake(w);
        for (size_t i = 0; i < w->max; i++)
            if (w->watches[i].worker != 0)
                wake_watch(&w->watches[i]);
        pthread_join(w->thread, NULL);
        for (size_t i = 0; i < w->max; i++)
            forget(&w->watches[i]);
        d->first = w->next;
        free(w);
    }
    pthread_mutex_destroy(&d->lock);
    fd_close(&d->fd);
    free(d);
}

int deaths_fd(const struct deaths *d)
{
    return d ? d->fd : -1;
}

/* NULL: none. */
static struct watch *find(struct watcher *w, uint64_t worker)
{
    for (size_t i = 0; i < w->max; i++)
        if (w->watches[i].worker == worker)
            return &w->watches[i];
    return NULL;
}

static struct watcher *add_watcher(struct deaths *d)
{
    struct watcher *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->deaths = d;
    w->max = d->one_each ? 1 : WAITS_MAX - 1;
    if (thread_start(&w->thread, "hvd-deaths", watcher_main, w) != 0) {
        free(w);
        return NULL;
    }
    w->next = d->first;
    d->first = w;
    return w;
}

bool deaths_watch(struct deaths *d, uint64_t worker, pid_t pid,
                  struct robust *robust)
{
    struct watcher *w = d ? d->first : NULL;
    struct watch *watch;
    struct waitv unused;

    while (w && !find(w, 0))
        w = w->next;
    if (!w && d)
        w = add_watcher(d);
    if (!w) {
        robust_detach(robust);
        return false;
    }
    pthread_mutex_lock(&d->lock);
    watch = find(w, 0);
    *watch = (struct watch){.worker = worker, .pid = pid, .robust = robust};
    look(d, watch, &unused); /* it may be held already */
    pthread_mutex_unlock(&d->lock);
    wake(w);
    return true;
}

void deaths_forget(struct deaths *d, uint64_t worker)
{
    for (struct watcher *w = d ? d->first : NULL; w; w = w->next) {
        struct watch *watch = find(w, worker);

        if (!watch)
            continue;
        pthread_mutex_lock(&d->lock);
        wake_watch(watch);
        forget(watch);
        pthread_mutex_unlock(&d->lock);
        wake(w);
    }
}

bool deaths_next(struct deaths *d, struct death *death_p)
{
    bool any = false;
    uint64_t count;

    if (!d)
        return false;
    (void)eventfd_read(d->fd, &count); /* before the look: no news is lost */
    pthread_mutex_lock(&d->lock);
    for (struct watcher *w = d->first; w && !any; w = w->next)
        for (size_t i = 0; i < w->max && !any; i++) {
            struct watch *watch = &w->watches[i];

            any = watch->dying && !watch->told;
            if (!any)
                continue;
            watch->told = true;
            *death_p = (struct death){watch->worker, watch->direct};
        }
    pthread_mutex_unlock(&d->lock);
    return any;
}
