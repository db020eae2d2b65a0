/* tests/cluster/relay.c - a cable that is long: frames take a while.
 *
 *     relay A B MS       moves frames between the interfaces A and B
 *
 * Each frame that comes in at one goes out at the other MS milliseconds later,
 * in order, both ways; for kernels without sch_netem. It says "ready" once it
 * listens. The headers with which the kernel passes on segments that it has not
 * cut yet go along, so checksums are right and large frames stay whole. A
 * direction that holds more than 64 MB loses what comes next, as a queue does.
 *
 * Threads: one. Memory: a list of frames for each direction. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum {
    FRAME_MAX = 65536 + 128, /* with the header of virtio_net */
    QUEUE_MAX = 64 << 20,
    SOCKET_BYTES = 16 << 20,
    BURST = 64,
};

struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t nbytes;
    unsigned char bytes[];
};

/* What came in at one end. */
struct direction {
    struct frame *first, *last;
    size_t nbytes;
    int in, out;
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof(value)) != 0)
        die("setsockopt");
}

static int open_end(const char *name)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);

    if (fd < 0 || at.sll_ifindex == 0)
        die(name);
    set(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
    set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set(fd, SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES);
    set(fd, SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        die(name);
    return fd;
}

static void keep(struct direction *way, const unsigned char *bytes,
                 size_t nbytes, int64_t due_ns)
{
    struct frame *frame;

    if (way->nbytes + nbytes > QUEUE_MAX)
        return;
    frame = malloc(sizeof(*frame) + nbytes);
    if (!frame)
        return;
    *frame = (struct frame){.due_ns = due_ns, .nbytes = nbytes};
    memcpy(frame->bytes, bytes, nbytes);
    if (way->last)
        way->last->next = frame;
    else
        way->first = frame;
    way->last = frame;
    way->nbytes += nbytes;
}

static void take_in(struct direction *way, int64_t delay_ns)
{
    static unsigned char bytes[FRAME_MAX];

    for (int i = 0; i < BURST; i++) {
        ssize_t n = read(way->in, bytes, sizeof(bytes));

        if (n < 0) /* nothing more, or the link is down for now */
            return;
        keep(way, bytes, (size_t)n, now_ns() + delay_ns);
    }
}

/* False: the interface takes nothing for the moment. */
static bool send_first(struct direction *way)
{
    struct frame *frame = way->first;

    if (write(way->out, frame->bytes, frame->nbytes) < 0 &&
        (errno == EAGAIN || errno == ENOBUFS))
        return false;
    way->first = frame->next;
    if (!way->first)
        way->last = NULL;
    way->nbytes -= frame->nbytes;
    free(frame);
    return true;
}

/* When to look again. */
static int64_t send_due(struct direction *way)
{
    int64_t now = now_ns();

    while (way->first && way->first->due_ns <= now)
        if (!send_first(way))
            return now + 50000;
    return way->first ? way->first->due_ns : INT64_MAX;
}

static void sleep_until(struct pollfd *fds, int64_t ns)
{
    int64_t left = ns - now_ns();
    struct timespec t;

    if (left < 0)
        left = 0;
    if (ns == INT64_MAX || left > 1000000000)
        left = 1000000000;
    t.tv_sec = left / 1000000000;
    t.tv_nsec = left % 1000000000;
    if (ppoll(fds, 2, &t, NULL) < 0 && errno != EINTR)
        die("poll");
}

int main(int argc, char **argv)
{
    struct direction there = {.in = -1}, back = {.in = -1};
    int64_t delay_ns;

    if (argc != 4) {
        fputs("usage: relay A B MS\n", stderr);
        return 2;
    }
    there.in = back.out = open_end(argv[1]);
    back.in = there.out = open_end(argv[2]);
    delay_ns = (int64_t)(strtod(argv[3], NULL) * 1e6);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t a = send_due(&there), b = send_due(&back);
        struct pollfd fds[2] = {{there.in, POLLIN, 0}, {back.in, POLLIN, 0}};

        sleep_until(fds, a < b ? a : b);
        take_in(&there, delay_ns);
        take_in(&back, delay_ns);
    }
}
