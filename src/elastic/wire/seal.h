/* elastic/wire/seal.h - how a peer shows its token without saying it, and how
 * it knows the driver's words from those of somebody in the driver's place: who
 * listens where a dead driver has listened learns nothing that is good for
 * anything else, and is not believed.
 *
 * It is no encryption: who can read or change what is on its way between two
 * others is not kept from it.
 *
 * Threads: any. Memory: the caller's. After mac_init(). */
#ifndef ELASTIC_WIRE_SEAL_H
#define ELASTIC_WIRE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mac.h"

enum { SEAL_NBYTES = MAC_NBYTES };

/* proof [SEAL_NBYTES]: who has this token, [MAC_KEY_NBYTES], has dialled this
 * endpoint. At another it proves nothing. */
void seal_prove(const uint8_t *token, const char *endpoint, uint8_t *proof);

/* What stands for data [nbytes] in a seal: digest [SEAL_NBYTES]. */
void seal_digest(const void *data, size_t nbytes, uint8_t *digest);

/* Behind words [nbytes] their seal is put, or is; there is room for it. digest:
 * of a second frame; NULL: there is none. seal_fits() leaves another seal
 * there. */
void seal_put(const uint8_t *token, uint8_t *words, size_t nbytes,
              const uint8_t *digest);
bool seal_fits(const uint8_t *token, uint8_t *words, size_t nbytes,
               const uint8_t *digest);

#endif
