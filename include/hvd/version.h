/* hvd/version.h - which release this is. docs/releasing.md says what may change
 * in which release. */
#ifndef HVD_VERSION_H
#define HVD_VERSION_H

#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The release of the headers that a program was compiled with. */
#define HVD_VERSION       "0.1.0"
#define HVD_VERSION_MAJOR 0
#define HVD_VERSION_MINOR 1
#define HVD_VERSION_PATCH 0
/* grows with each release: #if HVD_VERSION_CODE >= 200 */
#define HVD_VERSION_CODE \
    (HVD_VERSION_MAJOR * 10000 + HVD_VERSION_MINOR * 100 + HVD_VERSION_PATCH)

/* hvd_version - HVD_VERSION_CODE of the library that the program runs with. Any
 * thread. */
HVD_API int hvd_version(void);

#ifdef __cplusplus
}
#endif
#endif
