/* discovery/hosts.h - who could run: parsing what a script, a file or -H says,
 * keeping the order of hosts by age, and telling what changed.
 *
 * Each line is `host` or `host:slots`; blank lines and what follows a `#` are
 * ignored; white space around is stripped, and a byte order mark. -H is the
 * same with commas. A hostfile's line may also be `host slots=N`, with
 * `max_slots=N`, in the words of Open MPI, or `host N` and more words, as Grid
 * Engine writes it; and a script's may end in `drain=SECONDS`: the host is to
 * be left within that time. slots are 1..1024
 * (0: the host is listed and gets nothing); seconds are 0..1000000, whole ones.
 * A name is 1..253 bytes of [A-Za-z0-9._-], at most 63 between two dots, the
 * first no '-' (ssh would take it for an option), or an address of IPv6 in
 * brackets, which are no part of it: `[fd00::1]:4`. A dot at its end is none.
 * `user@host` is the host, with the user for ssh.
 * A host without a number of slots that stands in a hostfile or in -H several
 * times has the slots of each (PBS_NODEFILE); any other host that is listed
 * twice is an error. A bad line of a script is skipped, unless all are bad; one
 * elsewhere refuses the whole text. Order is the order of the text: new hosts
 * go to the end of the list.
 *
 * Pure. Source: Horovod D10-D12, discovery parser cases. */
#ifndef DISCOVERY_HOSTS_H
#define DISCOVERY_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HOSTS_NAME_MAX = 254, /* with NUL; DNS has 253 at most */
    HOSTS_PART_MAX = 63,  /* between two dots */
    HOSTS_USER_MAX = 64,  /* with NUL */
    HOSTS_SLOTS_MAX = 1024,
    HOSTS_MAX = 16384,
    HOSTS_DRAIN_MAX_S = 1000000,
    HOSTS_ERROR_MAX = 256
};

struct host {
    char name[HOSTS_NAME_MAX];
    char user[HOSTS_USER_MAX]; /* to log in as; "": as ssh has it */
    bool counted;              /* the text says how many slots */
    uint32_t slots;
    bool drains;      /* it is to be left */
    uint32_t drain_s; /* ... within so many seconds */
};

struct hosts {
    struct host *items; /* [n] */
    size_t n, max;
};

void hosts_fini(struct hosts *hosts); /* zeroes: may be used again */

enum hosts_syntax { HOSTS_LINES, HOSTS_COMMAS, HOSTS_FILE };

/* Parse text [nbytes] into *hosts (replaced on success, untouched on failure).
 * default_slots is for lines without a count; 0: they are an error. error
 * [HOSTS_ERROR_MAX] gets one sentence about the first bad line, e.g. line 3:
 * "a:x": "x" is not a number of slots; or "". false: with that sentence; true
 * with one: the bad lines of a script were skipped. */
bool hosts_parse(const char *text, size_t nbytes, enum hosts_syntax syntax,
                 uint32_t default_slots, struct hosts *hosts, char *error);

/* Copy; false: out of memory, *to untouched. */
bool hosts_copy(const struct hosts *from, struct hosts *to);

/* Flags as Horovod's HostUpdateResult and wire hosts_updated_flags: missing
 * host or fewer slots: 1 (removed); new host or more slots: 2 (added); or-ed;
 * 0: same. Order does not matter. */
unsigned hosts_diff(const struct hosts *before, const struct hosts *after);

/* Finds names in a list that stays as it is meanwhile. */
struct hosts_index {
    const struct host *items; /* the list's: borrowed */
    uint32_t *table; /* [mask + 1], 1 + index into items; 0: free. NULL: there
                        was no memory, names are searched one by one */
    size_t mask, n;
};

void hosts_index_init(struct hosts_index *x, const struct hosts *hosts);
void hosts_index_fini(struct hosts_index *x);

/* Index of a name in the list, or -1. */
long hosts_index_find(const struct hosts_index *x, const char *name);

/* Order `available` by age: names that were in `previous` first, in that order,
 * then the others in their own. In place. D11. */
bool hosts_order(const struct hosts *previous, struct hosts *available);

#endif
