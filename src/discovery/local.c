/* discovery/local.c - is a host name this machine? See local.h. */
#include "discovery/local.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"

enum { LINE_MAX_NBYTES = 4096, LINES_MAX = 100000 };

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

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && strcasecmp(name + n - n_end, end) == 0;
}

/* RFC 6761, and as systemd's resolver has it. */
static bool is_localhost(const char *name)
{
    return strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, "localhost.localdomain") == 0 ||
           ends_in(name, ".localhost");
}

/* An address of either family. */
struct address {
    int family;            /* AF_UNSPEC: none */
    struct in6_addr bytes; /* of v4 the first four */
};

/* "127.1" as resolvers read it, and "::ffff:127.0.0.1", are of v4. */
static struct address read_address(const char *text)
{
    struct address a = {.family = AF_UNSPEC};
    struct in_addr v4;

    if (inet_pton(AF_INET6, text, &a.bytes) == 1)
        a.family = AF_INET6;
    if (IN6_IS_ADDR_V4MAPPED(&a.bytes))
        memcpy(&v4, &a.bytes.s6_addr[12], sizeof(v4));
    else if (inet_aton(text, &v4) == 0)
        return a;
    a.family = AF_INET;
    memcpy(&a.bytes, &v4, sizeof(v4));
    return a;
}

static bool is_equal(const struct sockaddr *sa, const struct address *a)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (!sa || sa->sa_family != a->family)
        return false;
    if (a->family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        return memcmp(&v4.sin_addr, &a->bytes, sizeof(v4.sin_addr)) == 0;
    }
    memcpy(&v6, sa, sizeof(v6));
    return memcmp(&v6.sin6_addr, &a->bytes, sizeof(v6.sin6_addr)) == 0;
}

static bool is_own_address(const struct address *a)
{
    struct ifaddrs *list;
    bool found = false;

    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        found = is_equal(i->ifa_addr, a);
    freeifaddrs(list);
    return found;
}

static bool is_here(const struct address *a)
{
    return (a->family == AF_INET && a->bytes.s6_addr[0] == IN_LOOPBACKNET) ||
           (a->family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->bytes)) ||
           is_own_address(a);
}

bool local_has_address(const struct sockaddr *sa)
{
    struct address a = {.family = sa->sa_family};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        memcpy(&a.bytes, &v4.sin_addr, sizeof(v4.sin_addr));
    } else if (sa->sa_family == AF_INET6) {
        memcpy(&v6, sa, sizeof(v6));
        a.bytes = v6.sin6_addr;
    }
    return is_here(&a);
}

/* ---- the file ------------------------------------------------------------ */

static void add_name(char **names, size_t *n, size_t *max, const char *name)
{
    size_t nbytes = strlen(name) + 1;

    if (!array_reserve(names, max, *n + nbytes))
        return;
    memcpy(*names + *n, name, nbytes);
    *n += nbytes;
}

/* address name ..., and what follows a # is for people. */
static void read_line(struct local *local, char *line)
{
    static const char white[] = " \t\r\n";
    struct address address;
    char *rest, *word;

    line[strcspn(line, "#")] = '\0';
    word = strtok_r(line, white, &rest);
    if (!word)
        return;
    address = read_address(word);
    if (address.family == AF_UNSPEC || !is_here(&address))
        return;
    while ((word = strtok_r(NULL, white, &rest)))
        add_name(&local->names, &local->n, &local->max, word);
}

void local_init(struct local *local, const char *hosts_file)
{
    FILE *file = fopen(hosts_file, "re");
    char line[LINE_MAX_NBYTES];

    *local = (struct local){0};
    if (!file)
        return;
    for (int i = 0; i < LINES_MAX && fgets(line, sizeof(line), file); i++)
        read_line(local, line);
    fclose(file);
}

void local_fini(struct local *local)
{
    array_free(&local->names, &local->max);
    array_free(&local->others, &local->others_max);
    local->n = local->n_others = 0;
}

static bool is_among(const char *names, size_t n, const char *name)
{
    for (size_t at = 0; at < n; at += strlen(names + at) + 1)
        if (strcasecmp(names + at, name) == 0)
            return true;
    return false;
}

/* ---- names --------------------------------------------------------------- */

bool local_has(const struct local *local, const char *name)
{
    struct address address = read_address(name);

    if (address.family != AF_UNSPEC && is_here(&address))
        return true;
    return is_localhost(name) || is_own_name(name) ||
           is_among(local->names, local->n, name);
}

bool local_doubts(const struct local *local, const char *name)
{
    char own[256] = "";
    size_t n = strcspn(name, ".");

    return gethostname(own, sizeof(own) - 1) == 0 && n > 0 &&
           n == strcspn(own, ".") && strncasecmp(name, own, n) == 0 &&
           !is_among(local->others, local->n_others, name) &&
           !local_has(local, name);
}

void local_decide(struct local *local, const char *name, bool here)
{
    if (here)
        add_name(&local->names, &local->n, &local->max, name);
    else
        add_name(&local->others, &local->n_others, &local->others_max, name);
}

bool local_is_this_host(const char *name)
{
    struct local local;
    bool here;

    local_init(&local, LOCAL_HOSTS_FILE);
    here = local_has(&local, name);
    local_fini(&local);
    return here;
}
