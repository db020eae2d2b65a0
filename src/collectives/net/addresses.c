/* collectives/net/addresses.c - see addresses.h. */
#include "collectives/net/addresses.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"

static struct sockaddr_in *v4_of(struct sockaddr_storage *sa)
{
    return (struct sockaddr_in *)(void *)sa;
}

static struct sockaddr_in6 *v6_of(struct sockaddr_storage *sa)
{
    return (struct sockaddr_in6 *)(void *)sa;
}

/* The word up to the next comma. */
static bool parse_word(const char *word, size_t n, struct sockaddr_storage *sa)
{
    char text[INET6_ADDRSTRLEN];

    memset(sa, 0, sizeof(*sa));
    if (n >= sizeof(text))
        return false;
    memcpy(text, word, n);
    text[n] = '\0';
    if (inet_pton(AF_INET, text, &v4_of(sa)->sin_addr) == 1)
        sa->ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &v6_of(sa)->sin6_addr) == 1)
        sa->ss_family = AF_INET6;
    return sa->ss_family != 0;
}

static const char *wrong_v4(const struct in_addr *in)
{
    uint32_t a = ntohl(in->s_addr);

    if (a == INADDR_ANY || a == INADDR_BROADCAST || IN_MULTICAST(a))
        return "is no address of one machine";
    return NULL;
}

static const char *wrong_v6(const struct in6_addr *a)
{
    if (IN6_IS_ADDR_UNSPECIFIED(a) || IN6_IS_ADDR_MULTICAST(a))
        return "is no address of one machine";
    if (IN6_IS_ADDR_LINKLOCAL(a))
        return "is good on one link only, and others cannot know which: give "
               "an address that is no fe80::";
    if (IN6_IS_ADDR_V4MAPPED(a))
        return "is an address of IPv4: write it as one";
    return NULL;
}

/* Why nobody should be told this one; NULL: it is fine. */
static const char *wrong_with(struct addresses *list,
                              struct sockaddr_storage *sa)
{
    const char *wrong = sa->ss_family == AF_INET
                            ? wrong_v4(&v4_of(sa)->sin_addr)
                            : wrong_v6(&v6_of(sa)->sin6_addr);

    for (size_t i = 0; wrong == NULL && i < list->n; i++)
        if (memcmp(&list->items[i], sa, sizeof(*sa)) == 0)
            return "is there twice";
    return wrong;
}

hvd_status_t addresses_parse(const char *text, struct addresses *addresses_p)
{
    struct addresses list = {.n = 0};
    bool more = true;

    while (more) {
        size_t n = strcspn(text, ",");
        struct sockaddr_storage sa;
        const char *wrong;

        if (list.n == ADDRESSES_MAX)
            return error_set(HVD_ERR_INVALID, "more than %d addresses",
                             ADDRESSES_MAX);
        if (!parse_word(text, n, &sa))
            return error_set(HVD_ERR_INVALID, "not a numeric address: '%.*s'",
                             (int)n, text);
        wrong = wrong_with(&list, &sa);
        if (wrong != NULL)
            return error_set(HVD_ERR_INVALID, "%.*s %s", (int)n, text, wrong);
        list.items[list.n++] = sa;
        more = text[n] == ',';
        text += n + 1;
    }
    *addresses_p = list;
    return HVD_OK;
}

size_t addresses_count(const char *text)
{
    size_t n = 1;

    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

bool addresses_item(const char *text, size_t k, uint16_t port,
                    struct sockaddr_storage *sa_p, socklen_t *len_p)
{
    while (k-- > 0)
        text += strcspn(text, ",") + 1;
    if (!parse_word(text, strcspn(text, ","), sa_p))
        return false;
    address_set_port(sa_p, port);
    *len_p = address_len(sa_p);
    return true;
}

socklen_t address_len(const struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                    : sizeof(struct sockaddr_in6);
}

void address_set_port(struct sockaddr_storage *sa, uint16_t port)
{
    if (sa->ss_family == AF_INET)
        v4_of(sa)->sin_port = htons(port);
    else
        v6_of(sa)->sin6_port = htons(port);
}

uint16_t address_port(const struct sockaddr_storage *sa)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)sa;
    const struct sockaddr_in6 *v6 =
        (const struct sockaddr_in6 *)(const void *)sa;

    return ntohs(sa->ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

void address_text(struct text *t, const struct sockaddr_storage *sa)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)sa;
    const struct sockaddr_in6 *v6 =
        (const struct sockaddr_in6 *)(const void *)sa;
    const void *in = sa->ss_family == AF_INET ? (const void *)&v4->sin_addr
                                              : (const void *)&v6->sin6_addr;
    char words[INET6_ADDRSTRLEN];

    if (inet_ntop(sa->ss_family, in, words, sizeof(words)) == NULL)
        return;
    text_add(t, words);
}

void address_text_port(struct text *t, const struct sockaddr_storage *sa)
{
    bool brackets = sa->ss_family == AF_INET6;

    text_add(t, brackets ? "[" : "");
    address_text(t, sa);
    text_add(t, brackets ? "]:" : ":");
    text_u64(t, address_port(sa));
}

void addresses_text(struct text *t, const char *text, uint16_t port)
{
    size_t n = addresses_count(text);

    for (size_t i = 0; i < n; i++) {
        struct sockaddr_storage sa;
        socklen_t len;

        if (i > 0)
            text_add(t, i + 1 < n ? ", " : " and ");
        if (addresses_item(text, i, port, &sa, &len))
            address_text_port(t, &sa);
        else /* whoever is told such a thing has to see it */
            text_add(t, text);
    }
}
