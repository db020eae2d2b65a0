/* base/directory.h - a directory with all that lead to it.
 *
 * Threads: any. It may wait for a file system. */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include <stdbool.h>

/* As mkdir -p. False: errno. */
bool directory_make(const char *path);

#endif
