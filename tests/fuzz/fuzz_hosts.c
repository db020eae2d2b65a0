/* tests/fuzz/fuzz_hosts.c - libFuzzer's door to the parser of hosts: whatever
 * the bytes of a script, a hostfile or -H, there is a list that keeps its
 * bounds, or one sentence. The first byte says which syntax, and whether lines
 * need a number of slots. A list, written anew, is read as the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "discovery/hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct host *h)
{
    HVD_ASSERT(h->name[0] != '\0' &&
               memchr(h->name, '\0', sizeof(h->name)) != NULL &&
               memchr(h->user, '\0', sizeof(h->user)) != NULL);
    HVD_ASSERT(h->slots <= HOSTS_SLOTS_MAX && h->drain_s <= HOSTS_DRAIN_MAX_S);
}

static void check_alike(const struct hosts *one, const struct hosts *other)
{
    HVD_ASSERT(one->n == other->n && hosts_diff(one, other) == 0);
    for (size_t i = 0; i < one->n; i++)
        HVD_ASSERT(strcmp(one->items[i].name, other->items[i].name) == 0);
}

static void write_anew(const struct hosts *hosts)
{
    size_t max = 1 + hosts->n * (HOSTS_NAME_MAX + 16), n = 0;
    char *text = malloc(max), error[HOSTS_ERROR_MAX];
    struct hosts again = {0};

    HVD_ASSERT(text != NULL);
    text[0] = '\0';
    for (size_t i = 0; i < hosts->n; i++) {
        const char *name = hosts->items[i].name;
        bool brackets = strpbrk(name, ":%") != NULL;

        n += (size_t)snprintf(text + n, max - n, "%s%s%s:%u\n",
                              brackets ? "[" : "", name, brackets ? "]" : "",
                              hosts->items[i].slots);
    }
    HVD_ASSERT(hosts_parse(text, n, HOSTS_LINES, 0, &again, error));
    check_alike(hosts, &again);
    hosts_fini(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum hosts_syntax syntaxes[] = {HOSTS_LINES, HOSTS_COMMAS,
                                                 HOSTS_FILE};
    char error[HOSTS_ERROR_MAX];
    struct hosts hosts = {0};
    bool good;

    if (size == 0)
        return 0;
    good = hosts_parse((const char *)data + 1, size - 1,
                       syntaxes[data[0] % ARRAY_SIZE(syntaxes)], data[0] >> 7,
                       &hosts, error);
    HVD_ASSERT(memchr(error, '\0', sizeof(error)) != NULL);
    HVD_ASSERT(good || error[0] != '\0');
    HVD_ASSERT(hosts.n <= HOSTS_MAX && (good || hosts.n == 0));
    for (size_t i = 0; i < hosts.n; i++)
        check_host(&hosts.items[i]);
    if (good)
        write_anew(&hosts);
    hosts_fini(&hosts);
    return 0;
}
