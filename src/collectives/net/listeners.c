/* collectives/net/listeners.c - see listeners.h.
 *
 * Another process may take the port on one of the addresses between two calls
 * of ours: then all are closed, and another port has its turn. */
#include "collectives/net/listeners.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"

enum {
    DEFER_S = 5, /* who says nothing stays the kernel's as long: dialers do */
    FREE_PORT_TRIES = 64, /* the first address has it free, another has not */
    ADDRESS_TEXT_MAX = 64
};

/* A port of a range is wanted again soon: connections of who had it before may
 * not have been forgotten yet. Two that listen still exclude each other. */
static void socket_options(int fd, const struct sockaddr_storage *sa,
                           bool again)
{
    int one = 1, defer_s = DEFER_S;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s,
                     sizeof(defer_s));
    if (sa->ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (again)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

static hvd_status_t cannot_listen(const struct sockaddr_storage *sa)
{
    int error = errno;
    char words[ADDRESS_TEXT_MAX];
    struct text t = text_into(words, sizeof(words));

    address_text(&t, sa);
    errno = error;
    if (error == EADDRNOTAVAIL)
        return error_set(HVD_ERR_SYSTEM, "%s is not an address of this machine",
                         words);
    return error_errno("listen on %s port %u", words, address_port(sa));
}

/* *taken_p: by somebody else, and nothing is open. */
static hvd_status_t listen_on(const struct sockaddr_storage *sa, bool again,
                              int backlog, int *fd_p, bool *taken_p)
{
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);
    hvd_status_t status = HVD_OK;

    *taken_p = false;
    if (fd < 0)
        return error_errno("data socket");
    socket_options(fd, sa, again);
    if (bind(fd, (const struct sockaddr *)sa, address_len(sa)) == 0 &&
        listen(fd, backlog) == 0) {
        *fd_p = fd;
        return HVD_OK;
    }
    *taken_p = errno == EADDRINUSE && address_port(sa) != 0;
    if (!*taken_p)
        status = cannot_listen(sa);
    close(fd);
    return status;
}

static hvd_status_t find_port(struct listeners *l)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(l->fds[0], (struct sockaddr *)&sa, &len) != 0)
        return error_errno("getsockname");
    l->port = address_port(&sa);
    return HVD_OK;
}

/* All at one port; 0: whichever is free on the first. */
static hvd_status_t listen_at(const struct listeners_config *config,
                              const struct addresses *list, uint16_t port,
                              struct listeners *l, bool *taken_p)
{
    bool again = port != 0;
    hvd_status_t status = HVD_OK;

    *taken_p = false;
    *l = (struct listeners){.port = port};
    for (size_t i = 0; i < list->n && status == HVD_OK && !*taken_p; i++) {
        struct sockaddr_storage sa = list->items[i];

        address_set_port(&sa, l->port);
        status = listen_on(&sa, again, config->backlog, &l->fds[i], taken_p);
        if (status != HVD_OK || *taken_p)
            break;
        l->n++;
        if (l->port == 0)
            status = find_port(l);
    }
    if (status != HVD_OK || *taken_p)
        listeners_close(l);
    return status;
}

static hvd_status_t listen_anywhere(const struct listeners_config *config,
                                    const struct addresses *list,
                                    struct listeners *l)
{
    bool taken = true;

    for (int i = 0; i < FREE_PORT_TRIES && taken; i++)
        HVD_TRY(listen_at(config, list, 0, l, &taken));
    if (taken)
        return error_set(HVD_ERR_SYSTEM, "no port is free on all of %s",
                         config->addresses);
    return HVD_OK;
}

static hvd_status_t listen_in_range(const struct listeners_config *config,
                                    const struct addresses *list,
                                    struct listeners *l)
{
    unsigned low = config->port_low, n = config->port_high - low + 1u;
    bool taken = true;

    for (unsigned i = 0; i < n && taken; i++) {
        unsigned at = (unsigned)((config->first + i) % n);

        HVD_TRY(listen_at(config, list, (uint16_t)(low + at), l, &taken));
    }
    if (taken)
        return error_set(HVD_ERR_SYSTEM,
                         "each data port from %u to %u is taken on %s", low,
                         config->port_high, config->addresses);
    return HVD_OK;
}

hvd_status_t listeners_open(const struct listeners_config *config,
                            struct listeners *listeners_p)
{
    struct addresses list;
    struct listeners l;

    HVD_TRY(addresses_parse(config->addresses, &list));
    HVD_ASSERT(config->port_low <= config->port_high);
    HVD_TRY(config->port_low > 0 ? listen_in_range(config, &list, &l)
                                 : listen_anywhere(config, &list, &l));
    *listeners_p = l;
    return HVD_OK;
}

void listeners_close(struct listeners *l)
{
    for (size_t i = 0; i < l->n; i++)
        close(l->fds[i]);
    l->n = 0;
}
