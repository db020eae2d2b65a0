/* collectives/net/handshake.c - see handshake.h. Layout, little endian:
 *
 *    0 magic 4     4 version 2    6 role 1    7 channel 1
 *    8 job 8      16 generation 8
 *   24 worker 8   32 peer 8
 *   40 nonce 16   56 in_reply 16
 *   72 HELLO: MAC with the job's key, cut off; REPLY: zero 24
 *   96 mac 32 */
#include "collectives/net/handshake.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mac.h"

enum { MAGIC = 0x43445648, VERSION = 3, MEMBER_OFFSET = 72, MAC_OFFSET = 96 };

enum { MEMBER_NBYTES = MAC_OFFSET - MEMBER_OFFSET };

static void make_member(const uint8_t *bytes, const uint8_t *job_key,
                        uint8_t *mac)
{
    mac_compute(job_key, bytes, MEMBER_OFFSET, mac);
    memset(mac + MEMBER_NBYTES, 0, MAC_NBYTES - MEMBER_NBYTES);
}

void handshake_encode(const struct handshake *h, const uint8_t *job_key,
                      const uint8_t *key, uint8_t *out)
{
    uint8_t member[MAC_NBYTES];

    memset(out, 0, HANDSHAKE_NBYTES);
    bytes_put(out, MAGIC, 4);
    bytes_put(out + 4, VERSION, 2);
    out[6] = h->role;
    out[7] = h->channel;
    bytes_put(out + 8, h->job, 8);
    bytes_put(out + 16, h->generation, 8);
    bytes_put(out + 24, h->worker, 8);
    bytes_put(out + 32, h->peer, 8);
    memcpy(out + 40, h->nonce, sizeof(h->nonce));
    memcpy(out + 56, h->in_reply, sizeof(h->in_reply));
    if (h->role == HANDSHAKE_HELLO) {
        make_member(out, job_key, member);
        memcpy(out + MEMBER_OFFSET, member, MEMBER_NBYTES);
    }
    mac_compute(key, out, MAC_OFFSET, out + MAC_OFFSET);
}

bool handshake_decode(const uint8_t *in, struct handshake *h_p)
{
    if (bytes_get(in, 4) != MAGIC || bytes_get(in + 4, 2) != VERSION)
        return false;
    *h_p = (struct handshake){
        .role = in[6],
        .channel = in[7],
        .job = bytes_get(in + 8, 8),
        .generation = bytes_get(in + 16, 8),
        .worker = bytes_get(in + 24, 8),
        .peer = bytes_get(in + 32, 8),
    };
    memcpy(h_p->nonce, in + 40, sizeof(h_p->nonce));
    memcpy(h_p->in_reply, in + 56, sizeof(h_p->in_reply));
    return (h_p->role == HANDSHAKE_HELLO || h_p->role == HANDSHAKE_REPLY) &&
           h_p->channel < CHANNEL_COUNT;
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

void handshake_reply(const struct handshake *hello, const uint8_t *key,
                     uint8_t *out)
{
    struct handshake reply = {
        .role = HANDSHAKE_REPLY,
        .channel = hello->channel,
        .job = hello->job,
        .generation = hello->generation,
        .worker = hello->peer,
        .peer = hello->worker,
    };

    mac_random(reply.nonce, sizeof(reply.nonce));
    memcpy(reply.in_reply, hello->nonce, sizeof(reply.in_reply));
    handshake_encode(&reply, NULL, key, out);
}
