/* discovery/local.h - is a host name this machine? `localhost`, any 127.0.0.0/8
 * address, ::1, the own host names and interface addresses, and what /etc/hosts
 * calls those. Two such names are two hosts.
 *
 * Touches the world (getifaddrs, gethostname, the file); no name service is
 * asked, which could take as long as it likes: a name of this machine that only
 * a server knows is taken for another machine's. Threads: any. */
#ifndef DISCOVERY_LOCAL_H
#define DISCOVERY_LOCAL_H

#include <stdbool.h>
#include <stddef.h>

#define LOCAL_HOSTS_FILE "/etc/hosts"

bool local_is_this_host(const char *name);

/* The same for many names: the file is read once. Zeroed: an empty file. */
struct local {
    char *names; /* [n] what the file calls this machine, each with its NUL */
    size_t n, max;
};

/* A file that is not there, or no memory: an empty one. */
void local_init(struct local *local, const char *hosts_file);
void local_fini(struct local *local);
bool local_has(const struct local *local, const char *name);

#endif
