/* elastic/wire/reach.c - see reach.h. */
#include "elastic/wire/reach.h"

#include <string.h>

#include "base/text.h"
#include "elastic/wire/address.h"

static void pack_one(const struct interface *item, struct text *t)
{
    text_add(t, item->name);
    text_add(t, " ");
    text_add(t, item->address);
    text_add(t, "/");
    text_u64(t, item->prefix);
    text_add(t, " ");
    text_u64(t, item->port);
    text_add(t, " ");
    text_u64(t, item->mbps);
    text_add(t, " ");
    text_u64(t, item->mtu);
    if (item->bridge)
        text_add(t, " bridge");
}

struct wire_strings reach_pack(const struct interface *items, size_t n,
                               char *buf)
{
    uint32_t nbytes = 0;

    for (size_t i = 0; i < n; i++) {
        struct text t = text_into(buf + nbytes, REACH_TEXT_MAX);

        pack_one(&items[i], &t);
        nbytes += (uint32_t)t.n + 1;
    }
    return (struct wire_strings){buf, nbytes};
}

/* What is said up to one of `ends`, or the end, in word [max]; moves on behind
 * it. false: nothing, or too much. */
static bool take_word(const char **at, const char *ends, char *word, size_t max)
{
    size_t n = 0;

    while ((*at)[n] && !strchr(ends, (*at)[n]))
        n++;
    if (n == 0 || n >= max)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n + ((*at)[n] != '\0');
    return true;
}

static bool take_number(const char **at, const char *ends, uint64_t max,
                        uint64_t *value_p)
{
    char word[12];
    uint64_t value = 0;

    if (!take_word(at, ends, word, sizeof(word)))
        return false;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9')
            return false;
        value = value * 10 + (uint64_t)(*c - '0');
    }
    *value_p = value;
    return value <= max;
}

static bool unpack_one(const char *text, struct interface *item)
{
    uint64_t prefix, port, mbps, mtu;

    *item = (struct interface){0};
    if (!take_word(&text, " ", item->name, sizeof(item->name)) ||
        !take_word(&text, "/", item->address, sizeof(item->address)) ||
        !take_number(&text, " ", 128, &prefix) ||
        !take_number(&text, " ", UINT16_MAX, &port) ||
        !take_number(&text, " ", UINT32_MAX, &mbps) ||
        !take_number(&text, " ", UINT32_MAX, &mtu) ||
        address_family(item->address) < 0)
        return false;
    item->prefix = (uint8_t)prefix;
    item->port = (uint16_t)port;
    item->mbps = (uint32_t)mbps;
    item->mtu = (uint32_t)mtu;
    item->bridge = strcmp(text, "bridge") == 0;
    return interface_set_network(item);
}

size_t reach_unpack(struct wire_strings strings,
                    struct interface items[INTERFACES_MAX])
{
    size_t n = 0;

    for (size_t at = 0; at < strings.nbytes && n < INTERFACES_MAX;
         at += strlen(strings.data + at) + 1)
        n += unpack_one(strings.data + at, &items[n]);
    return n;
}
