/* collectives/net/frame.h - the 48-byte header in front of everything that
 * travels on a connection after its handshake.
 *
 *   DATA      kind, dtype, op, root, count name the call; algorithm says how
 *             its sender does it, step and offset how far that schedule is;
 *             nbytes of payload follow. shares: the payload is cut into so many
 *             equal ones (the last has the remainder); the first follows, share
 *             k travels on stripe k (stripes.h).
 *   ANNOUNCE  the same without payload: "this is what I wait in".
 *   ABORT     count: status, root: accused rank or -1; nbytes of text follow.
 *   LEAVE     kind: FRAME_LEAVE_*, value: boundary, count: a bit for each
 *             channel on which its sender has greeted the receiver, or was
 *             greeted: what came before on another one is on its way.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_NET_FRAME_H
#define COLLECTIVES_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER_NBYTES = 48,
    FRAME_TEXT_MAX = 400,
    FRAME_PAYLOAD_MAX = 1 << 20,
    FRAME_SHARES_MAX = 8
};

enum frame_type {
    FRAME_DATA = 1,
    FRAME_ABORT = 2,
    FRAME_LEAVE = 3,
    FRAME_ANNOUNCE = 4,
    FRAME_ALIVE = 5 /* so that the peer's kernel acknowledges something */
};

enum { FRAME_LEAVE_BOUNDARY = 1, FRAME_LEAVE_DONE = 2 };

enum { FRAME_TWO_LEVELS = 0x80, FRAME_ON_DEVICE = 0x40 };

struct frame {
    uint8_t type;
    uint8_t kind;
    uint8_t dtype;
    uint8_t op;
    uint8_t shares;    /* 0 as 1 */
    uint8_t algorithm; /* enum algorithm of what goes over the network, and
                      FRAME_TWO_LEVELS; or FRAME_ON_DEVICE */
    int32_t root;
    uint64_t sequence;
    uint64_t count;
    uint32_t step; /* below 2^24 */
    uint32_t nbytes;
    uint64_t offset;
    uint64_t value;
};

/* out [FRAME_HEADER_NBYTES] */
void frame_encode(const struct frame *frame, uint8_t *out);

/* false: no frame of ours (unknown type, payload over the limit of its type);
 * *frame_p is then undefined. */
bool frame_decode(const uint8_t *in, struct frame *frame_p);

/* Where share k of the payload begins, up to its end for k == shares. */
static inline size_t frame_share(const struct frame *frame, unsigned k)
{
    size_t shares = frame->shares > 1 ? frame->shares : 1;

    return k >= shares ? frame->nbytes : frame->nbytes / shares * k;
}

/* Bytes of payload that follow the header on its own connection. */
static inline size_t frame_inline(const struct frame *frame)
{
    return frame_share(frame, 1);
}

/* Both describe the same call: kind, dtype, op, root and count. */
bool frame_same_call(const struct frame *a, const struct frame *b);

#endif
