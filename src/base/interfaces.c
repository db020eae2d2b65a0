/* base/interfaces.c - see interfaces.h. */
#include "base/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

/* bytes [16] of a numeric address: how many it has; 0: it is none. */
static size_t parse(const char *address, uint8_t *bytes)
{
    memset(bytes, 0, 16);
    if (inet_pton(AF_INET, address, bytes) == 1)
        return 4;
    return inet_pton(AF_INET6, address, bytes) == 1 ? 16 : 0;
}

static void mask(uint8_t *bytes, size_t nbytes, unsigned prefix)
{
    for (size_t i = 0; i < nbytes; i++, prefix -= prefix < 8 ? prefix : 8)
        bytes[i] &= prefix < 8 ? (uint8_t)(0xff00 >> prefix) : 0xff;
}

bool interface_set_network(struct interface *item)
{
    size_t n = parse(item->address, item->network);

    if (n == 0 || item->prefix > 8 * n)
        return false;
    mask(item->network, n, item->prefix);
    return true;
}

bool interface_is_near(const struct interface *item, const char *address)
{
    uint8_t own[16], other[16];
    size_t n = parse(address, other);

    if (n == 0 || parse(item->address, own) != n)
        return false;
    mask(other, n, item->prefix);
    return memcmp(other, item->network, n) == 0;
}

static unsigned count_bits(const void *mask, size_t nbytes)
{
    const uint8_t *bytes = mask;
    unsigned n = 0;

    for (size_t i = 0; i < nbytes; i++)
        n += (unsigned)__builtin_popcount(bytes[i]);
    return n;
}

static bool read_v4(const struct ifaddrs *entry, struct interface *item)
{
    struct sockaddr_in in, mask = {0};

    memcpy(&in, entry->ifa_addr, sizeof(in));
    if (entry->ifa_netmask)
        memcpy(&mask, entry->ifa_netmask, sizeof(mask));
    item->prefix = (uint8_t)count_bits(&mask.sin_addr, sizeof(mask.sin_addr));
    return inet_ntop(AF_INET, &in.sin_addr, item->address,
                     sizeof(item->address)) != NULL;
}

static bool read_v6(const struct ifaddrs *entry, struct interface *item)
{
    struct sockaddr_in6 in, mask = {0};

    memcpy(&in, entry->ifa_addr, sizeof(in));
    if (entry->ifa_netmask)
        memcpy(&mask, entry->ifa_netmask, sizeof(mask));
    item->prefix = (uint8_t)count_bits(&mask.sin6_addr, sizeof(mask.sin6_addr));
    return !IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr) &&
           inet_ntop(AF_INET6, &in.sin6_addr, item->address,
                     sizeof(item->address)) != NULL;
}

/* What the kernel says of a device; 0: nothing, or that it does not know. */
static uint32_t read_number(const char *name, const char *what)
{
    char path[64], text[24] = "";
    long value;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, what);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof(text), file)) /* some devices refuse to be asked */
        text[0] = '\0';
    fclose(file);
    value = strtol(text, NULL, 10);
    return value > 0 && value < INT32_MAX ? (uint32_t)value : 0;
}

/* Asked by a socket: /sys may be that of another network namespace. */
static uint32_t read_mtu(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool told;

    if (fd < 0) /* there is no IPv4 */
        return read_number(name, "mtu");
    memcpy(request.ifr_name, name, strlen(name) + 1);
    told = ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
    close(fd);
    return told ? (uint32_t)request.ifr_mtu : 0;
}

static bool is_bridge(const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", name);
    return access(path, F_OK) == 0;
}

/* false: it has no address that another machine could use. */
static bool read_entry(const struct ifaddrs *entry, struct interface *item)
{
    bool good = false;

    *item = (struct interface){0};
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) ||
        strlen(entry->ifa_name) >= sizeof(item->name))
        return false;
    memcpy(item->name, entry->ifa_name, strlen(entry->ifa_name) + 1);
    if (entry->ifa_addr->sa_family == AF_INET)
        good = read_v4(entry, item);
    else if (entry->ifa_addr->sa_family == AF_INET6)
        good = read_v6(entry, item);
    if (!good || !interface_set_network(item))
        return false;
    item->bridge = is_bridge(item->name);
    item->mbps = read_number(item->name, "speed");
    item->mtu = read_mtu(item->name);
    return true;
}

struct list {
    struct interface *items; /* [INTERFACES_MAX] */
    size_t n;
};

/* Those of one name, or with name NULL all that are bridges, or are not. */
static void add(struct list *list, const struct ifaddrs *all, const char *name,
                size_t n_name, bool bridges)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct interface *item = &list->items[list->n];

        if (list->n == INTERFACES_MAX)
            return;
        if (name ? strlen(i->ifa_name) != n_name ||
                       memcmp(i->ifa_name, name, n_name) != 0
                 : (i->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        if (read_entry(i, item) && (name || item->bridge == bridges))
            list->n++;
    }
}

static hvd_status_t add_named(struct list *list, const struct ifaddrs *all,
                              const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ","), before = list->n;

        add(list, all, names, n, false);
        if (list->n == before)
            return error_set(HVD_ERR_INVALID,
                             "there is no interface \"%.*s\" that is up and "
                             "has an address",
                             (int)n, names);
        names += n + (names[n] == ',');
    }
    return HVD_OK;
}

hvd_status_t interfaces_list(const char *names,
                             struct interface items[INTERFACES_MAX],
                             size_t *n_p)
{
    struct list list = {.items = items};
    hvd_status_t status = HVD_OK;
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0)
        return error_errno("cannot list the interfaces");
    if (names && *names) {
        status = add_named(&list, all, names);
    } else {
        add(&list, all, NULL, 0, false);
        add(&list, all, NULL, 0, true);
    }
    freeifaddrs(all);
    if (status == HVD_OK)
        *n_p = list.n;
    return status;
}
