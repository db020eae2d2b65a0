/* base/machine.c - see machine.h. */
#include "base/machine.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"

/* FNV-1a: nobody gains by an id that is another's. */
static uint64_t mix(uint64_t id, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        id = (id ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    return id;
}

uint64_t machine_id(void)
{
    uint64_t id = UINT64_C(0xcbf29ce484222325);
    struct utsname names;
    char text[64];
    int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

    fd_close(&fd);
    if (n > 0)
        id = mix(id, text, (size_t)n);
    if (uname(&names) == 0)
        id = mix(id, names.nodename, strlen(names.nodename) + 1);
    return id > MACHINE_NONE ? id : MACHINE_NONE + 1;
}

bool machine_is_this(uint64_t id)
{
    return id == 0 || id == machine_id();
}
