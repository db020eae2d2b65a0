/* discovery/assignment.h - ranks out of who is there.
 *
 * Order (M13): hosts by the age of their oldest member, then by their order
 * before; ranks host-major; within a host members by age, then newcomers by
 * slot. So rank 0 is always an oldest worker. At most max ranks: survivors
 * first, the youngest dropped.
 *
 * Pure. Source: Horovod get_host_assignments (reference 1.6) for local and
 * cross ranks; D1-D3. */
#ifndef DISCOVERY_ASSIGNMENT_H
#define DISCOVERY_ASSIGNMENT_H

#include <stddef.h>
#include <stdint.h>

struct candidate {
    uint64_t worker;
    uint64_t joined; /* first generation it was a member of; 0: newcomer */
    uint32_t host;   /* index; its order before: lower is older */
    uint32_t slot;
    void *owner; /* the caller's; carried along */
    /* results, of those chosen */
    uint32_t rank, local_rank, local_size, cross_rank, cross_size;
};

/* Choose at most `max` of candidates [n], sort them so that the chosen ones
 * come first in rank order, and fill in the results. Returns how many were
 * chosen. scratch: n * sizeof(uint32_t) * 4 bytes of work space, contents
 * undefined. */
size_t assignment_compute(struct candidate *candidates, size_t n, size_t max,
                          uint32_t *scratch);

#endif
