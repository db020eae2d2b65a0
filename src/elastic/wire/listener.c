/* elastic/wire/listener.c - see listener.h. */
#include "elastic/wire/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    DEFER_S = 5, /* who says nothing stays the kernel's as long */
    BACKLOG = 4096,
    /* Segments of the smallest MTU of IPv6, 1280 bytes, in both directions: a
     * path that loses larger packets passes all control messages. */
    SEGMENT_MAX = 1220
};

static socklen_t fill(const char *address, uint16_t port,
                      struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

    memset(sa, 0, sizeof(*sa));
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return sizeof(*v4);
    }
    (void)inet_pton(AF_INET6, address, &v6->sin6_addr); /* it is one of both */
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return sizeof(*v6);
}

static void set_reuse(int fd)
{
    int one = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

/* A port that was asked for may have connections of who had it before. */
static void set_options(int fd, int family, bool again)
{
    int one = 1, defer_s = DEFER_S, segment = SEGMENT_MAX;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s,
                     sizeof(defer_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (again)
        set_reuse(fd);
}

/* When the port is chosen, so that it is nobody else's: its connections have it
 * from the listener, and a successor can listen there while they linger. */
static bool open_for_connections(int fd)
{
    set_reuse(fd);
    return listen(fd, BACKLOG) == 0;
}

static int open_at(const char *address, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t len = fill(address, port, &sa);
    int fd, error;

    fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    set_options(fd, sa.ss_family, port != 0);
    if (bind(fd, (struct sockaddr *)&sa, len) == 0 && open_for_connections(fd))
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The descriptor is libzmq's once that has bound it. */
bool listener_bind(void *zmq_socket, const char *address, uint16_t port,
                   const char *endpoint)
{
    int fd = open_at(address, port), none = -1, error;
    bool bound;

    if (fd < 0)
        return false;
    bound = zmq_setsockopt(zmq_socket, ZMQ_USE_FD, &fd, sizeof(fd)) == 0 &&
            zmq_bind(zmq_socket, endpoint) == 0;
    error = errno;
    (void)zmq_setsockopt(zmq_socket, ZMQ_USE_FD, &none, sizeof(none));
    if (!bound)
        close(fd);
    errno = error;
    return bound;
}
