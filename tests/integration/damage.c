/* tests/integration/damage.c - for LD_PRELOAD: what a worker sends of its state
 * arrives with one byte changed. DAMAGE=N: the first N times; 0: always.
 *
 * A state travels in payloads that nothing else in the tests is as large as. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LARGE_NBYTES = 1 << 18, BUFFER_MAX = 2 << 20 };

/* Where the byte is, behind the first entries of the state. */
enum { AT = 1024 };

static bool is_large(const struct msghdr *msg)
{
    return msg->msg_iovlen == 2 && msg->msg_iov[1].iov_len >= LARGE_NBYTES &&
           msg->msg_iov[1].iov_len <= BUFFER_MAX;
}

static bool is_due(long n_done)
{
    const char *text = getenv("DAMAGE");
    long limit = text ? atol(text) : 0;

    return n_done < limit || limit == 0;
}

/* One thread of the caller sends. */
__attribute__((visibility("default"))) ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    static char buffer[BUFFER_MAX];
    static long n_done;
    struct msghdr damaged = *msg;
    struct iovec iov[2];
    ssize_t n;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
    if (!is_large(msg) || !is_due(n_done))
        return real(fd, msg, flags);
    memcpy(iov, msg->msg_iov, sizeof(iov));
    memcpy(buffer, iov[1].iov_base, iov[1].iov_len);
    buffer[AT] ^= 1;
    iov[1].iov_base = buffer;
    damaged.msg_iov = iov;
    n = real(fd, &damaged, flags);
    n_done += n > (ssize_t)(iov[0].iov_len + AT);
    return n;
}
