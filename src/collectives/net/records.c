/* collectives/net/records.c - see records.h. */
#include "collectives/net/records.h"

#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/mac.h"

#define RENEWED UINT32_C(0x80000000)

_Static_assert((int)AEAD_KEY_NBYTES == (int)MAC_NBYTES, "a MAC is a key");

void records_init(struct records *r, enum aead_cipher cipher,
                  const uint8_t *key)
{
    memset(r, 0, sizeof(*r));
    memcpy(r->key, key, sizeof(r->key));
    aead_init(&r->aead, cipher, key);
}

void records_fini(struct records *r)
{
    aead_fini(&r->aead);
    mac_wipe(r->key, sizeof(r->key));
    mac_wipe(r->new_key, sizeof(r->new_key));
}

void records_renew(struct records *r, const uint8_t *key)
{
    memcpy(r->new_key, key, sizeof(r->new_key));
    r->renews = true;
}

static void go_over(struct records *r, const uint8_t *key)
{
    memcpy(r->key, key, sizeof(r->key));
    aead_init(&r->aead, r->aead.cipher, key);
    r->number = 0;
}

/* The key of those before it cannot be made of it. */
static void count(struct records *r)
{
    static const char label[] = "the next key of hvd records";
    uint8_t next[MAC_NBYTES];

    if (++r->number < RECORDS_PER_KEY)
        return;
    mac_compute(r->key, label, sizeof(label), next);
    go_over(r, next);
    mac_wipe(next, sizeof(next));
}

static void renew(struct records *r)
{
    go_over(r, r->new_key);
    mac_wipe(r->new_key, sizeof(r->new_key));
    r->renews = false;
}

void records_seal(struct records *r, const void *data, size_t nbytes,
                  uint8_t *out)
{
    uint32_t renewed = r->renews ? RENEWED : 0;

    HVD_ASSERT(nbytes > 0 && nbytes <= RECORD_MAX);
    if (r->renews)
        renew(r);
    bytes_put(out, (uint32_t)nbytes | renewed, RECORD_HEAD_NBYTES);
    aead_seal(&r->aead, r->number, out, RECORD_HEAD_NBYTES, data, nbytes,
              out + RECORD_HEAD_NBYTES);
    count(r);
}

size_t records_peek(const uint8_t *in, size_t n)
{
    uint32_t nbytes;

    if (n < RECORD_HEAD_NBYTES)
        return 0;
    nbytes = (uint32_t)bytes_get(in, RECORD_HEAD_NBYTES) & ~RENEWED;
    if (nbytes == 0 || nbytes > RECORD_MAX)
        return SIZE_MAX;
    return nbytes + RECORD_EXTRA_NBYTES;
}

bool records_open(struct records *r, const uint8_t *in, uint8_t *out)
{
    uint32_t head = (uint32_t)bytes_get(in, RECORD_HEAD_NBYTES);

    if (head & RENEWED) {
        if (!r->renews)
            return false;
        renew(r);
    }
    if (!aead_open(&r->aead, r->number, in, RECORD_HEAD_NBYTES,
                   in + RECORD_HEAD_NBYTES, head & ~RENEWED, out))
        return false;
    count(r);
    return true;
}
