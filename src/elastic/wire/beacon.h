/* elastic/wire/beacon.h - the small file DIR/driver, in which the driver of a
 * job with a --job-dir says who and where it is. A successor replaces it;
 * agents and workers that hear nothing any more look there, and follow a higher
 * term.
 *
 * The directory is its owner's alone (0700): whoever can write there may stop
 * the job in other ways as well.
 *
 * Threads: any. Memory: none. */
#ifndef ELASTIC_WIRE_BEACON_H
#define ELASTIC_WIRE_BEACON_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

enum { BEACON_ENDPOINT_MAX = 64, BEACON_LIST_MAX = 20 * BEACON_ENDPOINT_MAX };

struct beacon {
    uint64_t job, term;
    int64_t pid;
    uint64_t started;                   /* of pid: base/proc.h */
    uint64_t machine;                   /* base/machine.h */
    char endpoint[BEACON_ENDPOINT_MAX]; /* of the control socket, there */
    char output_endpoint[BEACON_ENDPOINT_MAX];
    /* the same for other machines, as many, with commas; "": none */
    char far[BEACON_LIST_MAX], far_output[BEACON_LIST_MAX];
    bool here;        /* read: the driver is on this machine */
    bool own;         /* read: the file belongs to the reader's user */
    uint64_t touched; /* read: differs when it was written, or kept, since. No
                         time of any clock that is known here */
};

/* Where this machine reaches the driver of *b, which was read: lists with
 * commas; "": nowhere. */
const char *beacon_control(const struct beacon *b);
const char *beacon_output(const struct beacon *b);

/* HVD_ERR_DRIVER_LOST: there is none; HVD_ERR_SYSTEM: it cannot be read;
 * HVD_ERR_INVALID: it is not one. */
hvd_status_t beacon_read(const char *dir, struct beacon *b) HVD_MUST_CHECK;

/* Written beside it and renamed: readers see the old one or the new one. */
hvd_status_t beacon_write(const char *dir,
                          const struct beacon *b) HVD_MUST_CHECK;

/* Keep it from those who remove what is old; write it anew if it is damaged, or
 * gone and nobody else has written it. */
hvd_status_t beacon_keep(const char *dir,
                         const struct beacon *b) HVD_MUST_CHECK;

#endif
