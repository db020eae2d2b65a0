/* elastic/wire/claim.c - see claim.h. */
#include "elastic/wire/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mac.h"
#include "base/proc.h"

enum { NAME_NBYTES = 16 };

struct question {
    char magic[8];
    uint64_t worker;
};

/* With it come the descriptors whose bits are set, in order. */
struct answer {
    char magic[8];
    uint32_t verdict, which;
};

static const char asks[8] = "hvdasks", tells[8] = "hvdtell",
                  says[8] = "hvdsays";

/* Of one datagram. */
struct letter {
    struct iovec iov;
    struct msghdr msg;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) +
                                          CMSG_SPACE(PASSED_MAX * sizeof(int))];
};

static void letter_init(struct letter *l, void *data, size_t n,
                        size_t n_control)
{
    memset(l, 0, sizeof(*l));
    l->iov = (struct iovec){data, n};
    l->msg = (struct msghdr){.msg_iov = &l->iov,
                             .msg_iovlen = 1,
                             .msg_control = l->control,
                             .msg_controllen = n_control};
}

static const struct ucred *letter_sender(struct letter *l)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&l->msg); c;
         c = CMSG_NXTHDR(&l->msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
            return (const struct ucred *)(void *)CMSG_DATA(c);
    return NULL;
}

/* A name in the abstract namespace, which begins with NUL. */
static socklen_t address_of(const char *name, struct sockaddr_un *sa)
{
    size_t n = strnlen(name, CLAIM_NAME_MAX);

    memset(sa, 0, sizeof(*sa));
    sa->sun_family = AF_UNIX;
    memcpy(sa->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* The kernel puts the sender of each datagram beside it. */
static int open_socket(int flags, const struct sockaddr_un *sa, socklen_t n)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | flags, 0), yes = 1;

    if (fd >= 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0 ||
         bind(fd, (const struct sockaddr *)sa, n) != 0)) {
        int error = errno;

        fd_close(&fd);
        errno = error;
    }
    return fd;
}

/* ---- agent --------------------------------------------------------------- */

hvd_status_t claim_listen(char name[CLAIM_NAME_MAX], int *fd_p)
{
    uint8_t random[NAME_NBYTES];
    struct sockaddr_un sa;
    int n = snprintf(name, CLAIM_NAME_MAX, "hvd-agent-");

    mac_random(random, sizeof(random));
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(name + n, (size_t)(CLAIM_NAME_MAX - n), "%02x",
                      random[i]);
    *fd_p = open_socket(SOCK_NONBLOCK, &sa, address_of(name, &sa));
    if (*fd_p < 0)
        return error_errno("a socket for workers");
    return HVD_OK;
}

bool claim_receive(int fd, struct claim *c)
{
    const struct ucred *sender;
    struct question q = {0};
    struct letter l;
    ssize_t n;

    *c = (struct claim){0};
    /* no room for descriptors of others: the kernel closes them */
    letter_init(&l, &q, sizeof(q), CMSG_SPACE(sizeof(struct ucred)));
    l.msg.msg_name = &c->from;
    l.msg.msg_namelen = sizeof(c->from);
    n = recvmsg(fd, &l.msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EINTR;
    sender = letter_sender(&l);
    c->n_from = l.msg.msg_namelen;
    c->tells = memcmp(q.magic, tells, sizeof(tells)) == 0;
    if (n != sizeof(q) || !sender ||
        (!c->tells && memcmp(q.magic, asks, sizeof(asks)) != 0))
        return true;
    c->worker = q.worker;
    c->pid = sender->pid;
    c->uid = sender->uid;
    return true;
}

static void letter_attach(struct letter *l, const int *fds, size_t n)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(&l->msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, n * sizeof(int));
}

void claim_answer(int fd, const struct claim *c, enum claim_verdict verdict,
                  const int *fds)
{
    struct answer a = {.verdict = verdict};
    struct sockaddr_un to = c->from;
    int sent[PASSED_MAX];
    struct letter l;
    size_t n = 0;

    memcpy(a.magic, says, sizeof(says));
    for (unsigned i = 0; i < PASSED_MAX && verdict == CLAIM_GRANTED; i++) {
        if (fds[i] < 0)
            continue;
        sent[n++] = fds[i];
        a.which |= 1U << i;
    }
    letter_init(&l, &a, sizeof(a), n > 0 ? CMSG_SPACE(n * sizeof(int)) : 0);
    l.msg.msg_name = &to;
    l.msg.msg_namelen = c->n_from;
    if (n > 0)
        letter_attach(&l, sent, n);
    (void)!sendmsg(fd, &l.msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- worker -------------------------------------------------------------- */

/* Until it is readable, or writable; false: deadline. */
static bool await(int fd, short events, uint64_t deadline_us)
{
    struct pollfd pollfd = {.fd = fd, .events = events};
    uint64_t now_us;

    while ((now_us = clock_now_us()) < deadline_us)
        if (poll(&pollfd, 1, clock_poll_ms(now_us, deadline_us)) > 0)
            return true;
    errno = ETIMEDOUT;
    return false;
}

static bool send_question(int fd, const char *magic, uint64_t worker,
                          uint64_t deadline_us)
{
    struct question q = {.worker = worker};

    memcpy(q.magic, magic, sizeof(q.magic));
    while (send(fd, &q, sizeof(q), MSG_NOSIGNAL) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return false;
        if (!await(fd, POLLOUT, deadline_us))
            return false;
    }
    return true;
}

/* In another user namespace our agent may be nobody, in another pid namespace
 * it has no number. */
static bool is_trusted(const struct ucred *agent)
{
    pid_t line[PROC_LINE_MAX];
    size_t n;

    if (agent->uid == 0 || agent->uid == getuid() || agent->uid == geteuid())
        return true;
    n = agent->pid > 0 ? proc_line(getpid(), line) : 0;
    for (size_t i = 0; i < n; i++)
        if (line[i] == agent->pid)
            return true;
    return false;
}

/* The descriptors of a letter go to fds. */
static void take_fds(struct letter *l, uint32_t which, int *fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&l->msg); c;
         c = CMSG_NXTHDR(&l->msg, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int), i = 0;
        int got[PASSED_MAX];

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
            n > PASSED_MAX)
            continue;
        memcpy(got, CMSG_DATA(c), n * sizeof(int));
        for (unsigned k = 0; k < PASSED_MAX && i < n; k++)
            if (which & 1U << k)
                fds[k] = got[i++];
        while (i < n)
            close(got[i++]);
    }
}

static void close_fds(int *fds)
{
    for (size_t i = 0; i < PASSED_MAX; i++)
        fd_close(&fds[i]);
}

/* true: an answer of the agent's. */
static bool take_answer(int fd, enum claim_verdict *verdict_p, int *fds)
{
    const struct ucred *sender;
    struct answer a = {0};
    struct letter l;
    ssize_t n;

    letter_init(&l, &a, sizeof(a), sizeof(l.control));
    n = recvmsg(fd, &l.msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return false;
    take_fds(&l, a.which, fds);
    sender = letter_sender(&l);
    *verdict_p = (enum claim_verdict)a.verdict;
    if (n == sizeof(a) && memcmp(a.magic, says, sizeof(says)) == 0 && sender &&
        a.verdict <= CLAIM_STRANGER && is_trusted(sender))
        return true;
    close_fds(fds);
    return false;
}

static hvd_status_t converse(int fd, uint64_t worker,
                             enum claim_verdict *verdict_p, int *fds)
{
    uint64_t deadline_us = clock_now_us() + CLAIM_MS * UINT64_C(1000);

    if (!send_question(fd, asks, worker, deadline_us))
        return error_errno("its agent cannot be asked");
    while (await(fd, POLLIN, deadline_us))
        if (take_answer(fd, verdict_p, fds))
            return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "its agent does not answer within %d s",
                     CLAIM_MS / 1000);
}

/* Bound without a name: the kernel finds one, for the answer. -1: errno. */
static int dial(const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = open_socket(SOCK_NONBLOCK, &sa, sizeof(sa.sun_family)), error;
    socklen_t n = address_of(name, &sa);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&sa, n) != 0) {
        error = errno;
        fd_close(&fd);
        errno = error;
    }
    return fd;
}

hvd_status_t claim_ask(const char *name, uint64_t worker,
                       enum claim_verdict *verdict_p, int *fds)
{
    int fd = dial(name);
    hvd_status_t status;

    for (size_t i = 0; i < PASSED_MAX; i++)
        fds[i] = -1;
    if (fd < 0)
        return error_errno("its agent cannot be asked");
    status = converse(fd, worker, verdict_p, fds);
    close(fd);
    return status;
}

void claim_tell(const char *name, uint64_t worker)
{
    int fd = dial(name);

    if (fd >= 0)
        (void)send_question(fd, tells, worker,
                            clock_now_us() + CLAIM_TELL_MS * UINT64_C(1000));
    fd_close(&fd);
}
