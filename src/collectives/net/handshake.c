/* collectives/net/handshake.c - see handshake.h. Layout, little endian:
 *
 *    0 magic 4     4 version 1    5 flags 1   6 role 1    7 channel 1
 *    8 job 8      16 generation 8
 *   24 worker 8   32 peer 8
 *   40 nonce 16   56 in_reply 16   72 set 4
 *   76 HELLO: MAC with the job's key, cut off; REPLY: zero 20
 *   96 mac 32 */
#include "collectives/net/handshake.h"

#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/mac.h"

enum { MAGIC = 0x43445648, VERSION = 7, MEMBER_OFFSET = 76, MAC_OFFSET = 96 };

enum {
    MEMBER_NBYTES = MAC_OFFSET - MEMBER_OFFSET,
    SAID_NBYTES = MEMBER_OFFSET, /* all but the MACs */
    FLAGS = HANDSHAKE_SEALED | HANDSHAKE_AES
};

static void make_member(const uint8_t *bytes, const uint8_t *job_key,
                        uint8_t *mac)
{
    mac_compute(job_key, bytes, MEMBER_OFFSET, mac);
    memset(mac + MEMBER_NBYTES, 0, MAC_NBYTES - MEMBER_NBYTES);
}

/* out [SAID_NBYTES] */
static void put_said(const struct handshake *h, uint8_t *out)
{
    bytes_put(out, MAGIC, 4);
    out[4] = VERSION;
    out[5] = h->flags;
    out[6] = h->role;
    out[7] = h->channel;
    bytes_put(out + 8, h->job, 8);
    bytes_put(out + 16, h->generation, 8);
    bytes_put(out + 24, h->worker, 8);
    bytes_put(out + 32, h->peer, 8);
    memcpy(out + 40, h->nonce, sizeof(h->nonce));
    memcpy(out + 56, h->in_reply, sizeof(h->in_reply));
    bytes_put(out + 72, h->set, 4);
}

void handshake_encode(const struct handshake *h, const uint8_t *job_key,
                      const uint8_t *key, uint8_t *out)
{
    uint8_t member[MAC_NBYTES];

    memset(out, 0, HANDSHAKE_NBYTES);
    put_said(h, out);
    if (h->role == HANDSHAKE_HELLO) {
        make_member(out, job_key, member);
        memcpy(out + MEMBER_OFFSET, member, MEMBER_NBYTES);
    }
    mac_compute(key, out, MAC_OFFSET, out + MAC_OFFSET);
}

bool handshake_decode(const uint8_t *in, struct handshake *h_p)
{
    if (bytes_get(in, 4) != MAGIC || in[4] != VERSION)
        return false;
    *h_p = (struct handshake){
        .role = in[6],
        .channel = in[7],
        .flags = in[5],
        .job = bytes_get(in + 8, 8),
        .generation = bytes_get(in + 16, 8),
        .worker = bytes_get(in + 24, 8),
        .peer = bytes_get(in + 32, 8),
        .set = (uint32_t)bytes_get(in + 72, 4),
    };
    memcpy(h_p->nonce, in + 40, sizeof(h_p->nonce));
    memcpy(h_p->in_reply, in + 56, sizeof(h_p->in_reply));
    return (h_p->role == HANDSHAKE_HELLO || h_p->role == HANDSHAKE_REPLY) &&
           h_p->channel < CHANNEL_COUNT && (h_p->flags & ~FLAGS) == 0;
}

bool handshake_verify(const uint8_t *in, const uint8_t *key)
{
    uint8_t mac[MAC_NBYTES];

    mac_compute(key, in, MAC_OFFSET, mac);
    return mac_equal(mac, in + MAC_OFFSET);
}

bool handshake_is_member(const uint8_t *in, const uint8_t *job_key)
{
    uint8_t claimed[MAC_NBYTES] = {0}, member[MAC_NBYTES];

    memcpy(claimed, in + MEMBER_OFFSET, MEMBER_NBYTES);
    make_member(in, job_key, member);
    return mac_equal(claimed, member);
}

struct handshake handshake_reply(const struct handshake *hello, bool sealed,
                                 const uint8_t *key, uint8_t *out)
{
    struct handshake reply = {
        .role = HANDSHAKE_REPLY,
        .channel = hello->channel,
        .flags = sealed ? HANDSHAKE_SEALED | hello->flags : 0,
        .job = hello->job,
        .generation = hello->generation,
        .worker = hello->peer,
        .peer = hello->worker,
        .set = hello->set,
    };

    mac_random(reply.nonce, sizeof(reply.nonce));
    memcpy(reply.in_reply, hello->nonce, sizeof(reply.in_reply));
    handshake_encode(&reply, NULL, key, out);
    return reply;
}

/* None is as long as what the MACs of the handshake are of. */
void handshake_key(const uint8_t *key, enum handshake_stream stream,
                   const struct handshake *hello, const struct handshake *reply,
                   uint8_t *out)
{
    static const char label[] = "a key of hvd records";
    uint8_t said[sizeof(label) + 1 + 2 * SAID_NBYTES] = {0};
    uint8_t *at = said + sizeof(label);

    HVD_ASSERT((reply == NULL) == (stream == HANDSHAKE_EARLY));
    memcpy(said, label, sizeof(label));
    *at++ = (uint8_t)stream;
    put_said(hello, at);
    if (reply != NULL)
        put_said(reply, at + SAID_NBYTES);
    mac_compute(key, said, sizeof(said), out);
}
