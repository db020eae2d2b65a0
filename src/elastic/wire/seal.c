/* elastic/wire/seal.c - see seal.h.
 *
 * One key makes three kinds of MAC: tokens of children and other keys
 * (secret.c), proofs, and seals. They begin with different bytes: that of an
 * enum wire_token_kind, 'h', and that of a msgpack array. */
#include "elastic/wire/seal.h"

#include <string.h>

#include "base/array.h"
#include "elastic/wire/address.h"

void seal_prove(const uint8_t *token, const char *endpoint, uint8_t *proof)
{
    char words[1 + ADDRESS_ENDPOINT_MAX] = "h";
    size_t n = strlen(endpoint);

    HVD_ASSERT(n < ADDRESS_ENDPOINT_MAX);
    memcpy(words + 1, endpoint, n);
    mac_compute(token, words, 1 + n, proof);
}

void seal_digest(const void *data, size_t nbytes, uint8_t *digest)
{
    static const uint8_t no_key[MAC_KEY_NBYTES];

    mac_compute(no_key, data, nbytes, digest);
}

/* The digest takes the place of the seal while this is made. */
void seal_put(const uint8_t *token, uint8_t *words, size_t nbytes,
              const uint8_t *digest)
{
    uint8_t seal[SEAL_NBYTES];
    size_t n = nbytes;

    if (digest) {
        memcpy(words + n, digest, SEAL_NBYTES);
        n += SEAL_NBYTES;
    }
    mac_compute(token, words, n, seal);
    memcpy(words + nbytes, seal, SEAL_NBYTES);
}

bool seal_fits(const uint8_t *token, uint8_t *words, size_t nbytes,
               const uint8_t *digest)
{
    uint8_t seal[SEAL_NBYTES];

    memcpy(seal, words + nbytes, SEAL_NBYTES);
    seal_put(token, words, nbytes, digest);
    return mac_equal(seal, words + nbytes);
}
