/* base/mac.h - message authentication and random bytes. The only file that sees
 * sodium.h but aead.h's. Threads: any, after mac_init() has returned once. */
#ifndef BASE_MAC_H
#define BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum { MAC_KEY_NBYTES = 32, MAC_NBYTES = 32 };

/* Once per process, before the others; cheap when repeated. */
hvd_status_t mac_init(void) HVD_MUST_CHECK;

void mac_random(void *buf, size_t nbytes);

/* Forget a key; not left out as a store that nobody reads would be. */
void mac_wipe(void *buf, size_t nbytes);

/* out [MAC_NBYTES] = MAC of data [nbytes] under key [MAC_KEY_NBYTES]. */
void mac_compute(const uint8_t *key, const void *data, size_t nbytes,
                 uint8_t *out);

/* The public key [MAC_KEY_NBYTES] of any 32 bytes that are a secret one, on
 * Curve25519. Some 50 us. */
void mac_public_key(const uint8_t *secret, uint8_t *public_key);

/* In constant time. */
bool mac_equal(const uint8_t *a, const uint8_t *b);

#endif
