/* base/aead.h - authenticated encryption under a key that its owner uses for
 * one stream of messages: their numbers are the nonces. A door of its own to
 * sodium.h beside mac.h: who seals what the driver says, or proves who he is,
 * has no use for ciphers.
 *
 * Threads: any, after mac_init() has returned once. Memory: the caller's. */
#ifndef BASE_AEAD_H
#define BASE_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AEAD_KEY_NBYTES = 32, AEAD_TAG_NBYTES = 16, AEAD_STATE_NBYTES = 512 };

enum aead_cipher {
    AEAD_CHACHA20_POLY1305, /* RFC 8439, every processor */
    AEAD_AES256_GCM         /* those that have instructions for it: faster */
};

struct aead {
    enum aead_cipher cipher;
    _Alignas(16) uint8_t state[AEAD_STATE_NBYTES]; /* the key, or its rounds */
};

/* May AES256_GCM be used in this process? */
bool aead_has_aes(void);

/* key [AEAD_KEY_NBYTES]; AES256_GCM: only if aead_has_aes(). */
void aead_init(struct aead *aead, enum aead_cipher cipher, const uint8_t *key);
/* Wipes the key. */
void aead_fini(struct aead *aead);

/* out [nbytes + AEAD_TAG_NBYTES] = data [nbytes] encrypted, authenticated
 * together with ad [ad_nbytes]. number: never twice under one key. out may be
 * data, or not overlap it. */
void aead_seal(const struct aead *aead, uint64_t number, const void *ad,
               size_t ad_nbytes, const void *data, size_t nbytes, uint8_t *out);

/* The reverse: out [nbytes] of sealed [nbytes + AEAD_TAG_NBYTES]. false: it is
 * not what was sealed with this number; nothing in out is then of use. out may
 * be sealed, or not overlap it. */
bool aead_open(const struct aead *aead, uint64_t number, const void *ad,
               size_t ad_nbytes, const uint8_t *sealed, size_t nbytes,
               void *out);

#endif
