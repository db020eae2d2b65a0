/* discovery/local.h - is a host name this machine? `localhost`, any 127.0.0.0/8
 * address, the own host names and interface addresses. Two such names are two
 * hosts. Touches the world (getifaddrs, gethostname); no name service is asked.
 * Threads: any. */
#ifndef DISCOVERY_LOCAL_H
#define DISCOVERY_LOCAL_H

#include <stdbool.h>

bool local_is_this_host(const char *name);

#endif
