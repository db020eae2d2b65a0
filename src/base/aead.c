/* base/aead.c - AES-256-GCM and ChaCha20-Poly1305 by libsodium. See aead.h. */
#include "base/aead.h"

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"

enum { NONCE_NBYTES = 12 };

_Static_assert((int)AEAD_KEY_NBYTES == (int)crypto_aead_aes256gcm_KEYBYTES &&
                   (int)AEAD_KEY_NBYTES ==
                       (int)crypto_aead_chacha20poly1305_IETF_KEYBYTES,
               "one size of key");
_Static_assert((int)NONCE_NBYTES == (int)crypto_aead_aes256gcm_NPUBBYTES &&
                   (int)NONCE_NBYTES ==
                       (int)crypto_aead_chacha20poly1305_IETF_NPUBBYTES,
               "one size of nonce");
_Static_assert((int)AEAD_TAG_NBYTES == (int)crypto_aead_aes256gcm_ABYTES &&
                   (int)AEAD_TAG_NBYTES ==
                       (int)crypto_aead_chacha20poly1305_IETF_ABYTES,
               "one size of tag");
_Static_assert((int)AEAD_STATE_NBYTES >=
                   (int)sizeof(crypto_aead_aes256gcm_state),
               "room for the rounds");

bool aead_has_aes(void)
{
    return crypto_aead_aes256gcm_is_available() == 1;
}

static crypto_aead_aes256gcm_state *rounds_of(const struct aead *aead)
{
    return (crypto_aead_aes256gcm_state *)(uintptr_t)aead->state;
}

void aead_init(struct aead *aead, enum aead_cipher cipher, const uint8_t *key)
{
    aead->cipher = cipher;
    if (cipher == AEAD_AES256_GCM)
        (void)crypto_aead_aes256gcm_beforenm(rounds_of(aead), key);
    else
        memcpy(aead->state, key, AEAD_KEY_NBYTES);
}

void aead_fini(struct aead *aead)
{
    sodium_memzero(aead->state, sizeof(aead->state));
}

static void nonce_of(uint64_t number, uint8_t *nonce)
{
    memset(nonce, 0, NONCE_NBYTES);
    bytes_put(nonce, number, 8);
}

/* Neither can fail: lengths are far below the limits of both. */
void aead_seal(const struct aead *aead, uint64_t number, const void *ad,
               size_t ad_nbytes, const void *data, size_t nbytes, uint8_t *out)
{
    uint8_t nonce[NONCE_NBYTES];

    nonce_of(number, nonce);
    if (aead->cipher == AEAD_AES256_GCM)
        (void)crypto_aead_aes256gcm_encrypt_afternm(out, NULL, data, nbytes, ad,
                                                    ad_nbytes, NULL, nonce,
                                                    rounds_of(aead));
    else
        (void)crypto_aead_chacha20poly1305_ietf_encrypt(
            out, NULL, data, nbytes, ad, ad_nbytes, NULL, nonce, aead->state);
}

bool aead_open(const struct aead *aead, uint64_t number, const void *ad,
               size_t ad_nbytes, const uint8_t *sealed, size_t nbytes,
               void *out)
{
    uint8_t nonce[NONCE_NBYTES];
    size_t n = nbytes + AEAD_TAG_NBYTES;

    nonce_of(number, nonce);
    if (aead->cipher == AEAD_AES256_GCM)
        return crypto_aead_aes256gcm_decrypt_afternm(out, NULL, NULL, sealed, n,
                                                     ad, ad_nbytes, nonce,
                                                     rounds_of(aead)) == 0;
    return crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, n,
                                                     ad, ad_nbytes, nonce,
                                                     aead->state) == 0;
}
