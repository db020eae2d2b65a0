/* base/version.h - which source this was built of.
 *
 * VERSION_RELEASE is the release, a macro. version_commit follows it in what is
 * shown and compared: "+1a2b3c4d5e6f", with "-dirty" if the source was changed
 * since, or "+unknown" if it was built outside a git checkout. So
 * "0.1.0+1a2b3c4d5e6f" names a build.
 *
 * It is "" in programs that are not installed, such as tests: these are not
 * linked anew for each commit. Threads: any. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <stdbool.h>

#include <hvd/version.h>

#ifndef VERSION_RELEASE /* a test makes an agent of another release */
#define VERSION_RELEASE HVD_VERSION
#endif

enum { VERSION_MAX = 32 }; /* of a build, with its NUL */

extern const char version_commit[];

/* This build. out [VERSION_MAX]. */
void version_text(char *out);

/* Do both name builds of one release? */
bool version_same_release(const char *one, const char *other);

#endif
