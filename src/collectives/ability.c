/* collectives/ability.c - see ability.h.
 *
 * Memory: none that stays, but for the arena. */
#include "collectives/ability.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/aead.h"
#include "base/log.h"
#include "collectives/local/arena.h"
#include "collectives/local/mailbox.h"
#include "collectives/net/endpoint_impl.h"

enum {
    STAGE_NBYTES = 4 << 20,     /* what a comm stages operands in */
    FILES_NBYTES_MIN = 64 << 20 /* less holds a mailbox, and no arena of use */
};

/* Room for its mapping. */
static bool try_map(int fd)
{
    void *map = mmap(NULL, sizeof(struct mailbox), PROT_READ, MAP_SHARED, fd,
                     0);

    return map != MAP_FAILED && munmap(map, sizeof(struct mailbox)) == 0;
}

/* The steps that a mailbox takes. NULL, or what failed by errno. */
static const char *try_memory(int *fd_p, int *readable_p, int *doorbell_p)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    char path[64];

    *fd_p = memfd_create("hvd-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd_p < 0)
        return "memfd_create";
    if (!arena_extend(*fd_p, sizeof(struct mailbox)))
        return "ftruncate";
    if (fcntl(*fd_p, F_ADD_SEALS, seals) != 0)
        return "F_ADD_SEALS";
    snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd_p);
    *readable_p = open(path, O_RDONLY | O_CLOEXEC);
    if (*readable_p < 0)
        return "/proc/self/fd";
    if (!try_map(*fd_p))
        return "mmap";
    *doorbell_p = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *doorbell_p < 0 ? "eventfd" : NULL;
}

/* Memory that others can read is there, and not only its beginning. */
static const char *try_arena(void)
{
    uint64_t offset;
    void *ptr;
    bool shared;

    if (arena_fd() < 0)
        return "no arena";
    ptr = hvd_alloc(STAGE_NBYTES);
    if (ptr == NULL)
        return "no memory";
    shared = arena_find(ptr, STAGE_NBYTES, &offset);
    hvd_free(ptr);
    errno = ENOMEM;
    return shared ? NULL : "no room in the arena";
}

static const char *try_mailbox(void)
{
    int fds[] = {-1, -1, -1};
    const char *failed = try_memory(&fds[0], &fds[1], &fds[2]);
    int error = errno;

    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    errno = error;
    return failed;
}

static const char *try_share(void)
{
    const char *failed = try_mailbox();

    return failed != NULL ? failed : try_arena();
}

static void say_unshared(const char *what, const char *why)
{
    log_warn("no shared memory (%s: %s) -> the ranks of this host use TCP",
             what, why);
}

static bool can_share(const struct endpoint *endpoint)
{
    struct rlimit files;
    const char *failed;
    char why[64];

    if (!endpoint_has_local(endpoint)) {
        say_unshared("AF_UNIX", "no socket");
        return false;
    }
    /* first, as what little there would be is no use, and to name it */
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 &&
        files.rlim_cur < FILES_NBYTES_MIN) {
        snprintf(why, sizeof(why), "%llu bytes",
                 (unsigned long long)files.rlim_cur);
        say_unshared("RLIMIT_FSIZE", why);
        return false;
    }
    failed = try_share();
    if (failed != NULL)
        say_unshared(failed, strerror(errno));
    return failed == NULL;
}

/* Whether the others may is theirs to try, once they are there (Yama). */
static bool can_attach(void)
{
    static const uint64_t word = 0x0123456789abcdef;
    uint64_t copy = 0;
    struct iovec to = {&copy, sizeof(copy)};
    struct iovec from = {(void *)(uintptr_t)&word, sizeof(word)};
    const char *why = NULL;

    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof(word) ||
        copy != word)
        why = strerror(errno);
    else if (prctl(PR_GET_DUMPABLE) != 1)
        why = "this process is not dumpable";
    if (why != NULL)
        log_info("no process_vm_readv (%s) -> the ranks of this host copy "
                 "buffers that are not from hvd_alloc",
                 why);
    return why == NULL;
}

static bool can_watch(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd >= 0) {
        close(fd);
        return true;
    }
    log_info("no pidfd_open (%s) -> the ranks of this host write no results "
             "into each other's memory",
             strerror(errno));
    return false;
}

/* What the last probe found, less what has gone; and who we were. */
static unsigned found;
static uid_t user;

unsigned ability_probe(const struct endpoint *endpoint, bool share)
{
    unsigned abilities = 0;

    if (!share)
        log_debug("HVD_TRANSPORT=tcp -> the ranks of this host use TCP");
    if (share && can_share(endpoint))
        abilities |= COMM_CAN_SHARE;
    if (can_attach())
        abilities |= COMM_CAN_ATTACH;
    if (can_watch())
        abilities |= COMM_CAN_WATCH;
    if (aead_has_aes())
        abilities |= COMM_CAN_AES;
    found = abilities;
    user = geteuid();
    return abilities;
}

/* Descriptors are not looked at here: a comm makes room for its own, or says
 * how many it lacks (descriptors.h). */
unsigned ability_gone(void)
{
    const char *failed;

    if (!(found & COMM_CAN_SHARE))
        return 0;
    failed = try_mailbox();
    if (failed != NULL && errno == EMFILE)
        failed = NULL;
    if (failed == NULL && geteuid() == user)
        return 0;
    if (failed != NULL)
        say_unshared(failed, strerror(errno));
    else
        say_unshared("geteuid", "not the user any more that others trust");
    found &= ~(unsigned)COMM_CAN_SHARE;
    return COMM_CAN_SHARE;
}
