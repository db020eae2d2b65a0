/* base/mac.c - keyed BLAKE2b and getrandom by libsodium. See mac.h. */
#include "base/mac.h"

#include <sodium.h>

#include "base/error.h"

hvd_status_t mac_init(void)
{
    if (sodium_init() < 0)
        return error_set(HVD_ERR_SYSTEM, "libsodium could not be initialised");
    return HVD_OK;
}

void mac_random(void *buf, size_t nbytes)
{
    randombytes_buf(buf, nbytes);
}

void mac_wipe(void *buf, size_t nbytes)
{
    sodium_memzero(buf, nbytes);
}

void mac_compute(const uint8_t *key, const void *data, size_t nbytes,
                 uint8_t *out)
{
    crypto_generichash(out, MAC_NBYTES, data, nbytes, key, MAC_KEY_NBYTES);
}

_Static_assert((int)MAC_KEY_NBYTES == (int)crypto_scalarmult_BYTES &&
                   (int)MAC_KEY_NBYTES == (int)crypto_scalarmult_SCALARBYTES,
               "a key of ours is one of Curve25519's");

void mac_public_key(const uint8_t *secret, uint8_t *public_key)
{
    crypto_scalarmult_base(public_key, secret);
}

bool mac_equal(const uint8_t *a, const uint8_t *b)
{
    return sodium_memcmp(a, b, MAC_NBYTES) == 0;
}
