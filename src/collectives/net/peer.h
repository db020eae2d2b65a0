/* collectives/net/peer.h - who the ranks of a comm are, as the driver says.
 * Threads: constants. */
#ifndef COLLECTIVES_NET_PEER_H
#define COLLECTIVES_NET_PEER_H

#include <stdint.h>

enum { COMM_ADDRESS_MAX = 160 };

/* What a process can do with others of its host (ability.h). */
enum comm_ability {
    COMM_CAN_SHARE = 1,  /* memfds with seals, mappings, eventfds, and a socket
                           that hands them over */
    COMM_CAN_ATTACH = 2, /* process_vm_readv(2), in both directions */
    COMM_CAN_WATCH = 4,  /* pidfd_open(2) */
    COMM_CAN_AES = 8,    /* instructions for AES: asked of both ends of a
                            connection, wherever they are */
    COMM_CAN_ALL = 15
};

struct comm_peer {
    uint64_t worker;
    uint32_t host; /* equal: same host; the door for shared memory */
    uint16_t port;
    uint8_t abilities; /* enum comm_ability: what all ranks of its host can do,
                          so it is equal for all of them. Without
                          COMM_CAN_SHARE they use TCP */
    char addresses[COMM_ADDRESS_MAX]; /* addresses.h */
};

/* Of peers [size], those on the host of `rank`, which is one of them. */
static inline int peers_beside(const struct comm_peer *peers, int size,
                               int rank)
{
    int n = 0;

    for (int i = 0; i < size; i++)
        n += peers[i].host == peers[rank].host;
    return n;
}

#endif
