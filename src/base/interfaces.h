/* base/interfaces.h - the addresses of this machine at which others may reach
 * it.
 *
 * Touches the world: getifaddrs(3), a socket, /sys/class/net. Threads: any.
 * Memory: the caller's. */
#ifndef BASE_INTERFACES_H
#define BASE_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum {
    INTERFACES_MAX = 16,
    INTERFACE_NAME_MAX = 16,   /* IFNAMSIZ, with its NUL */
    INTERFACE_ADDRESS_MAX = 46 /* INET6_ADDRSTRLEN, with its NUL */
};

struct interface {
    char name[INTERFACE_NAME_MAX];
    char address[INTERFACE_ADDRESS_MAX]; /* numeric, of one machine */
    uint8_t prefix;                      /* bits of the network: */
    uint8_t network[16]; /* the address without the others; v4: the first 4 */
    bool bridge;   /* of containers or virtual machines here: its address is
                         that of many machines */
    uint32_t mbps; /* 0: not known */
    uint32_t mtu;  /* bytes; 0: not known */
    uint16_t port; /* where its owner answers; 0: nowhere (yet) */
};

/* Fill in `network` from address and prefix. false: not of that form. */
bool interface_set_network(struct interface *item);

/* Is the numeric address in the network of this interface? */
bool interface_is_near(const struct interface *item, const char *address);

/* names: "eth0,ib0", those alone, in this order; "" or NULL: all that are up,
 * but loopback and link-local ones, bridges last. One row for each address.
 * HVD_ERR_INVALID: there is no such interface, or it is down or has no address:
 * the sentence names it. HVD_OK with *n_p 0: nothing but loopback. */
hvd_status_t interfaces_list(const char *names,
                             struct interface items[INTERFACES_MAX],
                             size_t *n_p) HVD_MUST_CHECK;

#endif
