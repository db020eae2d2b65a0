/* discovery/local.c - is a host name this machine? See local.h. */
#include "discovery/local.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* The machine's name, in full and up to its first dot. */
static bool is_own_name(const char *name)
{
    char own[256] = "";
    size_t n_short;

    if (gethostname(own, sizeof(own) - 1) != 0 || own[0] == '\0')
        return false;
    n_short = strcspn(own, ".");
    return strcasecmp(name, own) == 0 ||
           (strlen(name) == n_short && strncasecmp(name, own, n_short) == 0);
}

static bool is_own_address(struct in_addr address)
{
    struct ifaddrs *list;
    bool found = false;

    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        struct sockaddr_in in;

        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&in, i->ifa_addr, sizeof(in));
        found = in.sin_addr.s_addr == address.s_addr;
    }
    freeifaddrs(list);
    return found;
}

bool local_is_this_host(const char *name)
{
    struct in_addr address;

    if (strcasecmp(name, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, name, &address) == 1)
        return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET ||
               is_own_address(address);
    return is_own_name(name);
}
