/* bench/handover_watch.c - how long does a line take between two processors?
 *
 *     handover_watch FILE
 *
 * Makes FILE (handover.h) and keeps it up to date until it is killed or whoever
 * has started it is gone. A look takes some ten microseconds of the first two
 * processors that it may use, twenty times a second, before everybody else if
 * it is allowed to. With one processor there is nothing to look at.
 *
 * Threads: two. Memory: one page. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/handover.h"
#include "bench/method.h"

enum { EXCHANGES = 100, TRIES = 5, SPINS_MAX = 50000, LOOK_MS = 50 };
enum { FAR = 2 }; /* times the least ever seen */

static _Alignas(128) atomic_int turn;
static sem_t asked;

static void be_first(int processor)
{
    struct sched_param first = {.sched_priority = 1};

    (void)method_pin(processor);
    /* else they look when both are let in, which is less often */
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
}

/* false: the other is not running. */
static bool await_turn(int mine)
{
    for (int i = 0; i < SPINS_MAX; i++)
        if (atomic_load(&turn) == mine)
            return true;
    return false;
}

static void *answer(void *arg)
{
    be_first(1);
    for (;;)
        if (sem_wait(&asked) == 0)
            while (await_turn(1))
                atomic_store(&turn, 0);
    return arg;
}

/* ns of an exchange; 0: there was none. */
static int64_t exchange(void)
{
    int64_t start = method_now_ns();

    for (int i = 0; i < EXCHANGES; i++) {
        atomic_store(&turn, 1);
        if (!await_turn(0))
            return 0;
    }
    return (method_now_ns() - start) / EXCHANGES;
}

static int64_t look(void)
{
    int64_t least = 0;

    atomic_store(&turn, 1);
    sem_post(&asked);
    if (!await_turn(0))
        return 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t ns = exchange();

        if (ns > 0 && (least == 0 || ns < least))
            least = ns;
    }
    return least;
}

static void note(struct handover_page *page, uint64_t ns)
{
    uint64_t least = atomic_load(&page->least_ns);

    if (least == 0 || ns < least)
        least = ns;
    atomic_store(&page->least_ns, least);
    atomic_store(&page->last_ns, ns);
    atomic_store(&page->is_far, ns > FAR * least);
    atomic_fetch_add(&page->far, ns > FAR * least);
    atomic_fetch_add(&page->looks, 1);
}

static void watch(struct handover_page *page)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};

    be_first(0);
    for (;;) {
        int64_t ns = look();

        if (ns > 0)
            note(page, (uint64_t)ns);
        nanosleep(&pause, NULL);
    }
}

static struct handover_page *make_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *page = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(struct handover_page)) == 0)
        page = mmap(NULL, sizeof(struct handover_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        fprintf(stderr, "handover_watch: %s: %s\n", path, strerror(errno));
    return page == MAP_FAILED ? NULL : page;
}

int main(int argc, char **argv)
{
    struct handover_page *page = argc == 2 ? make_page(argv[1]) : NULL;
    pthread_t thread;

    if (page == NULL)
        return 2;
    sem_init(&asked, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return 0;
    if (pthread_create(&thread, NULL, answer, NULL) != 0)
        return 1;
    watch(page);
    return 0;
}
