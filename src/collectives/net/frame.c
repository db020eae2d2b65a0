/* collectives/net/frame.c - encode and decode frame headers. See frame.h. Pure.
 */
#include "collectives/net/frame.h"

#include "base/bytes.h"

void frame_encode(const struct frame *frame, uint8_t *out)
{
    out[0] = frame->type;
    out[1] = frame->kind;
    out[2] = frame->dtype;
    out[3] = frame->op;
    bytes_put(out + 4, (uint32_t)frame->root, 4);
    bytes_put(out + 8, frame->sequence, 8);
    bytes_put(out + 16, frame->count, 8);
    bytes_put(out + 24, frame->step, 3);
    out[27] = frame->algorithm;
    bytes_put(out + 28, frame->nbytes, 3);
    bytes_put(out + 31, frame->shares > 1 ? frame->shares - 1u : 0, 1);
    bytes_put(out + 32, frame->offset, 8);
    bytes_put(out + 40, frame->value, 8);
}

static bool size_ok(const struct frame *frame)
{
    if (frame->shares == 0 || (frame->shares > 1 && frame->type != FRAME_DATA))
        return false;
    switch (frame->type) {
    case FRAME_DATA:
        return frame->nbytes <= FRAME_PAYLOAD_MAX;
    case FRAME_ABORT:
        return frame->nbytes <= FRAME_TEXT_MAX;
    case FRAME_LEAVE:
    case FRAME_ANNOUNCE:
    case FRAME_ALIVE:
        return frame->nbytes == 0;
    default:
        return false;
    }
}

bool frame_decode(const uint8_t *in, struct frame *frame_p)
{
    *frame_p = (struct frame){
        .type = in[0],
        .kind = in[1],
        .dtype = in[2],
        .op = in[3],
        .root = (int32_t)(uint32_t)bytes_get(in + 4, 4),
        .sequence = bytes_get(in + 8, 8),
        .count = bytes_get(in + 16, 8),
        .step = (uint32_t)bytes_get(in + 24, 3),
        .algorithm = in[27],
        .nbytes = (uint32_t)bytes_get(in + 28, 3),
        .shares = in[31] < FRAME_SHARES_MAX ? (uint8_t)(in[31] + 1) : 0,
        .offset = bytes_get(in + 32, 8),
        .value = bytes_get(in + 40, 8),
    };
    return size_ok(frame_p);
}

bool frame_same_call(const struct frame *a, const struct frame *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
           a->root == b->root && a->count == b->count;
}
