/* base/version.c - see version.h. */
#include "base/version.h"

#include <stdio.h>
#include <string.h>

/* commit.c.in defines it in what is installed. */
__attribute__((weak)) const char version_commit[] = "";

void version_text(char *out)
{
    snprintf(out, VERSION_MAX, VERSION_RELEASE "%s", version_commit);
}

bool version_same_release(const char *one, const char *other)
{
    size_t n = strcspn(one, "+");

    return n == strcspn(other, "+") && memcmp(one, other, n) == 0;
}
