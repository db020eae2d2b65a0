/* elastic/wire/address.c - see address.h. */
#include "elastic/wire/address.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

int address_family(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127 ? AF_INET : -1;
    if (inet_pton(AF_INET6, address, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) ? AF_INET6 : -1;
    return -1;
}

/* "tcp://[::1]:4711" -> "::1"; false: not of that form. */
static bool address_of(const char *endpoint, char address[ADDRESS_ENDPOINT_MAX])
{
    const char *at = endpoint, *colon = strrchr(endpoint, ':');
    size_t n;

    if (strncmp(at, "tcp://", 6) != 0)
        return false;
    at += 6;
    if (!colon || colon <= at)
        return false;
    n = (size_t)(colon - at);
    if (*at == '[' && at[n - 1] == ']') {
        at++;
        n -= 2;
    }
    if (n >= ADDRESS_ENDPOINT_MAX)
        return false;
    memcpy(address, at, n);
    address[n] = '\0';
    return true;
}

int address_endpoint_family(const char *endpoint)
{
    char address[ADDRESS_ENDPOINT_MAX];

    if (strlen(endpoint) >= ADDRESS_ENDPOINT_MAX ||
        !address_of(endpoint, address))
        return -1;
    return address_family(address);
}
