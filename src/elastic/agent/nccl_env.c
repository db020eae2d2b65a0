/* elastic/agent/nccl_env.c - see nccl_env.h. */
#include "elastic/agent/nccl_env.h"

#include <string.h>

#include "base/interfaces.h"
#include "base/text.h"

/* - Connections are made when a communicator is, which has a deadline, and not
 *   by the first call that needs them.
 * - To dial who is gone takes 3 s where it took a minute, and an abort waits
 *   half a second for it where it waited three.
 * - InfiniBand gives up after 4 to 8 s, not 30.
 * - RAS would be a second detector, slower than heartbeats, at a port that all
 *   jobs of a host share. */
const char *const nccl_env[] = {"NCCL_RUNTIME_CONNECT=0",
                                "NCCL_SOCKET_RETRY_CNT=10",
                                "NCCL_SOCKET_RETRY_SLEEP_MSEC=50",
                                "NCCL_IB_TIMEOUT=18",
                                "NCCL_RAS_ENABLE=0",
                                NULL};

static const char *name_of(const struct interface *items, size_t n,
                           const char *address, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(items[i].address) == length &&
            memcmp(items[i].address, address, length) == 0)
            return items[i].name;
    return NULL;
}

static bool is_loopback(const char *addresses)
{
    size_t length = strcspn(addresses, ",");

    return strncmp(addresses, "127.", 4) == 0 ||
           (length == 3 && memcmp(addresses, "::1", 3) == 0);
}

/* Is `name` among the names that follow the prefix? An interface may have
 * several of the addresses. */
static bool has(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (; *names; names += strcspn(names, ",") + (strchr(names, ',') != NULL))
        if (strcspn(names, ",") == length && memcmp(names, name, length) == 0)
            return true;
    return false;
}

bool nccl_env_interfaces(const char *addresses, char *text, size_t max)
{
    static const char prefix[] = "NCCL_SOCKET_IFNAME==";
    struct interface items[INTERFACES_MAX];
    struct text t = text_into(text, max);
    const char *names = text + sizeof(prefix) - 1;
    size_t n = 0;

    text_add(&t, prefix);
    if (is_loopback(addresses)) {
        text_add(&t, "lo");
        return true;
    }
    if (interfaces_list(NULL, items, &n) != HVD_OK)
        return false;
    for (const char *a = addresses; *a; a += strspn(a, ",")) {
        size_t length = strcspn(a, ",");
        const char *name = name_of(items, n, a, length);

        a += length;
        if (!name || has(names, name))
            continue;
        text_add(&t, *names ? "," : "");
        text_add(&t, name);
    }
    return *names != '\0';
}
