/* base/directory.c - see directory.h. */
#include "base/directory.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

bool directory_make(const char *path)
{
    char part[PATH_MAX];

    if (strlen(path) >= sizeof(part)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(part, path);
    for (char *slash = part; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        if (slash)
            *slash = '/';
    }
    return true;
}
