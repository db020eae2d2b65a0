/* discovery/local.h - is a host name this machine? These are: `localhost`,
 * `localhost.localdomain` and names that end in `.localhost`; any address of
 * 127.0.0.0/8 (127.1) and ::1; the own host names and interface addresses, and
 * the names of those in /etc/hosts. Two such names are two hosts.
 *
 * Touches the world (getifaddrs, gethostname, the file). It asks no name
 * service, which could take as long as it likes: a name that only a server
 * knows is another machine's until local_decide(). Threads: any, one at a
 * time. */
#ifndef DISCOVERY_LOCAL_H
#define DISCOVERY_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define LOCAL_HOSTS_FILE "/etc/hosts"

bool local_is_this_host(const char *name);

/* The same for many names: the file is read once. Zeroed: an empty file. */
struct local {
    char *names; /* [n] what this machine is called, each with its NUL */
    size_t n, max;
    char *others; /* [n_others] what it is not, likewise: it was decided */
    size_t n_others, others_max;
};

/* A file that is not there, or no memory: an empty one. */
void local_init(struct local *local, const char *hosts_file);
void local_fini(struct local *local);
bool local_has(const struct local *local, const char *name);

/* The name is not known, and begins with this machine's own, as
 * gpu3.example.org on gpu3: a name service may know that it is this machine. */
bool local_doubts(const struct local *local, const char *name);
/* Note the answer. Without memory the name is in doubt again. */
void local_decide(struct local *local, const char *name, bool here);
/* An address of this machine, also of loopback. */
bool local_has_address(const struct sockaddr *sa);

#endif
