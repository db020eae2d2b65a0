/* base/assert.c - the last words of an assertion that failed: see array.h. */
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"

static struct iovec words(const char *text)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)text,
                          .iov_len = strlen(text)};
}

/* One system call, no memory, no lock: it may be in a signal handler or in a
 * forked child. */
void assert_failed(const char *place, const char *condition)
{
    struct iovec line[] = {words("hvd: this should not happen: "), words(place),
                           words(": not "), words(condition), words("\n")};
    ssize_t n = writev(STDERR_FILENO, line, ARRAY_SIZE(line));

    (void)n;
    abort();
}
