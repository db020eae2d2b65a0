/* collectives/net/handshake.h - the first 128 bytes in each direction of a
 * connection, and the keys of what is encrypted behind them.
 *
 * The dialer sends a hello and streams frames behind it; the listener checks it
 * and sends its reply before its own frames. Both carry a MAC with the
 * generation key over everything in front of it, the role included; the reply
 * repeats the dialer's nonce, so it is fresh. The hello is as fresh as the key,
 * which is drawn for the generation, and is taken once: the listener has one
 * connection per set, worker and channel, however that ends. What the dialer
 * says behind the reply, if it is encrypted, is under a key that the listener's
 * nonce is part of (sealed.h).
 *
 * Both say whether what follows is encrypted, and how: ends that disagree find
 * out here. The dialer chooses the cipher, of those that both can.
 *
 * A hello has a second one before that, with the job's key, which every worker
 * has from its birth: a listener that has yet to learn the generation's key
 * knows by it whom to keep waiting.
 *
 * Over AF_UNIX descriptors come with the first byte; the MAC does not cover
 * them: that socket has no one between its ends.
 *
 * Threads: any. Memory: the caller's. */
#ifndef COLLECTIVES_NET_HANDSHAKE_H
#define COLLECTIVES_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HANDSHAKE_NBYTES = 128, HANDSHAKE_NONCE_NBYTES = 16 };

enum handshake_role { HANDSHAKE_HELLO = 1, HANDSHAKE_REPLY = 2 };

enum handshake_flag {
    HANDSHAKE_SEALED = 1, /* records follow (records.h), else frames */
    HANDSHAKE_AES = 2     /* SEALED: with AES-256-GCM */
};

/* What a key is for. */
enum handshake_stream {
    HANDSHAKE_EARLY = 1,   /* from the dialer, behind its hello */
    HANDSHAKE_ANSWER = 2,  /* from the listener */
    HANDSHAKE_RENEWED = 3, /* from the dialer, who has the reply */
};

/* What a connection is for; one of each between two ranks. */
enum comm_channel {
    CHANNEL_DATA,     /* collectives; the higher rank dials */
    CHANNEL_TRANSFER, /* state; the higher rank dials */
    CHANNEL_ASK,      /* ANNOUNCE to a higher rank that has not dialled */
    CHANNEL_LOCAL, /* within a host, AF_UNIX: hello and reply carry the memory's
                    * descriptors, frames are about it; the higher rank dials */
    CHANNEL_STRIPE, /* and up: shares of large frames, see stripes.h; the higher
                     * rank dials */
    CHANNEL_COUNT = CHANNEL_STRIPE + 7
};

struct handshake {
    uint8_t role;
    uint8_t channel; /* enum comm_channel */
    uint8_t flags;   /* enum handshake_flag */
    uint64_t job;
    uint64_t generation;
    uint64_t worker;                          /* who speaks */
    uint64_t peer;                            /* to whom */
    uint8_t nonce[HANDSHAKE_NONCE_NBYTES];    /* fresh, the speaker's */
    uint8_t in_reply[HANDSHAKE_NONCE_NBYTES]; /* REPLY: the dialer's nonce */
    uint32_t set; /* which comm of the generation: comm.h */
};

/* out [HANDSHAKE_NBYTES]; keys of job and generation [MAC_KEY_NBYTES], that of
 * the job for a HELLO alone. */
void handshake_encode(const struct handshake *h, const uint8_t *job_key,
                      const uint8_t *key, uint8_t *out);

/* false: not ours (magic, version, role, channel, flags). Says nothing about
 * the MAC: which key to check with depends on the generation it names. */
bool handshake_decode(const uint8_t *in, struct handshake *h_p);

bool handshake_verify(const uint8_t *in, const uint8_t *key);

/* A HELLO of somebody who has the job's key. */
bool handshake_is_member(const uint8_t *in, const uint8_t *job_key);

/* The listener's answer to `hello`: what it is, and its bytes, out
 * [HANDSHAKE_NBYTES]. sealed: the listener encrypts; if the dialer does too it
 * is with the dialer's cipher. */
struct handshake handshake_reply(const struct handshake *hello, bool sealed,
                                 const uint8_t *key, uint8_t *out);

/* out [MAC_KEY_NBYTES]: of all that both have said, or the hello alone (EARLY;
 * reply: NULL), by the generation's key. */
void handshake_key(const uint8_t *key, enum handshake_stream stream,
                   const struct handshake *hello, const struct handshake *reply,
                   uint8_t *out);

#endif
