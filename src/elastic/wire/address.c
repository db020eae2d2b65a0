/* elastic/wire/address.c - see address.h. */
#include "elastic/wire/address.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

static bool is_one_v4(const struct in_addr *v4)
{
    uint32_t address = ntohl(v4->s_addr);

    return address != INADDR_ANY && !IN_MULTICAST(address) &&
           address != INADDR_BROADCAST;
}

static bool is_one_v6(const struct in6_addr *v6)
{
    return !IN6_IS_ADDR_UNSPECIFIED(v6) && !IN6_IS_ADDR_MULTICAST(v6) &&
           !IN6_IS_ADDR_LINKLOCAL(v6);
}

int address_family(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return is_one_v4(&v4) ? AF_INET : -1;
    if (inet_pton(AF_INET6, address, &v6) == 1)
        return is_one_v6(&v6) ? AF_INET6 : -1;
    return -1;
}

bool address_of_endpoint(const char *endpoint, char *address)
{
    const char *at = endpoint, *colon = strrchr(endpoint, ':');
    size_t n;

    if (strlen(endpoint) >= ADDRESS_ENDPOINT_MAX ||
        strncmp(at, "tcp://", 6) != 0)
        return false;
    at += 6;
    if (!colon || colon <= at)
        return false;
    n = (size_t)(colon - at);
    if (*at == '[' && at[n - 1] == ']') {
        at++;
        n -= 2;
    }
    memcpy(address, at, n);
    address[n] = '\0';
    return true;
}

int address_endpoint_family(const char *endpoint)
{
    char address[ADDRESS_ENDPOINT_MAX];

    return address_of_endpoint(endpoint, address) ? address_family(address)
                                                  : -1;
}

bool address_endpoint_is_loopback(const char *endpoint)
{
    char address[ADDRESS_ENDPOINT_MAX];

    return address_of_endpoint(endpoint, address) &&
           (strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0);
}

bool address_take(const char **list_p, char *endpoint)
{
    size_t n = strcspn(*list_p, ",");

    if (n == 0 || n >= ADDRESS_ENDPOINT_MAX)
        return false;
    memcpy(endpoint, *list_p, n);
    endpoint[n] = '\0';
    *list_p += n + ((*list_p)[n] == ',');
    return true;
}

/* Digits alone: strtoul takes signs and blanks. */
static bool take_port(const char **at, uint16_t *port_p)
{
    unsigned long port = 0;
    size_t n = strspn(*at, "0123456789");

    for (size_t i = 0; i < n && i < 6; i++)
        port = port * 10 + (unsigned long)((*at)[i] - '0');
    *at += n;
    *port_p = (uint16_t)port;
    return n > 0 && n <= 5 && port > 0 && port <= UINT16_MAX;
}

bool address_ports(const char *text, uint16_t *low_p, uint16_t *high_p)
{
    uint16_t low, high;

    if (!take_port(&text, &low) || *text++ != '-' || !take_port(&text, &high) ||
        *text || low > high)
        return false;
    *low_p = low;
    *high_p = high;
    return true;
}
