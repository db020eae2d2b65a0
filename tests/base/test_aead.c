/* tests/base/test_aead.c - both ciphers: what was sealed opens, and nothing
 * else does. */
#include <string.h>

#include "base/aead.h"
#include "base/mac.h"
#include "support.h"

enum { MAX = 300 };

static const uint8_t key[AEAD_KEY_NBYTES] = {1, 2, 3};

/* false: this processor has no such. */
static bool begin(struct aead *aead, int cipher)
{
    ck_assert_int_eq(mac_init(), HVD_OK);
    if (cipher == AEAD_AES256_GCM && !aead_has_aes())
        return false;
    aead_init(aead, (enum aead_cipher)cipher, key);
    return true;
}

/* The 14th case of the paper that proposes GCM (McGrew, Viega). */
START_TEST(aead_aes_is_aes_256_gcm)
{
    static const uint8_t zero[AEAD_KEY_NBYTES],
        expected[] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e,
                      0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18,
                      0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
                      0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    uint8_t out[sizeof(expected)];
    struct aead aead;

    if (!begin(&aead, AEAD_AES256_GCM))
        return;
    aead_init(&aead, AEAD_AES256_GCM, zero);
    aead_seal(&aead, 0, NULL, 0, zero, 16, out);
    ck_assert_mem_eq(out, expected, sizeof(expected));
}
END_TEST

START_TEST(aead_sealed_opens_also_in_place)
{
    uint8_t data[MAX], sealed[MAX + AEAD_TAG_NBYTES], opened[MAX];
    struct aead aead;

    if (!begin(&aead, _i))
        return;
    for (size_t n = 0; n <= MAX; n++) {
        memset(data, (int)n, sizeof(data));
        aead_seal(&aead, n, "head", 4, data, n, sealed);
        ck_assert(n < 8 || memcmp(sealed, data, n) != 0);
        ck_assert(aead_open(&aead, n, "head", 4, sealed, n, opened));
        ck_assert(n == 0 || memcmp(opened, data, n) == 0);
        memcpy(sealed, data, n);
        aead_seal(&aead, n, "head", 4, sealed, n, sealed);
        ck_assert(aead_open(&aead, n, "head", 4, sealed, n, sealed));
        ck_assert(n == 0 || memcmp(sealed, data, n) == 0);
    }
    aead_fini(&aead);
}
END_TEST

START_TEST(aead_other_key_number_head_or_bit_refused)
{
    uint8_t data[20] = {7}, sealed[20 + AEAD_TAG_NBYTES], opened[20];
    uint8_t other[AEAD_KEY_NBYTES] = {9};
    struct aead aead;

    if (!begin(&aead, _i))
        return;
    aead_seal(&aead, 5, "head", 4, data, sizeof(data), sealed);
    for (size_t bit = 0; bit < 8 * sizeof(sealed); bit++) {
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(!aead_open(&aead, 5, "head", 4, sealed, 20, opened));
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (int bit = 0; bit < 64; bit++)
        ck_assert(!aead_open(&aead, 5 ^ UINT64_C(1) << bit, "head", 4, sealed,
                             20, opened));
    ck_assert(!aead_open(&aead, 5, "heaD", 4, sealed, 20, opened));
    ck_assert(!aead_open(&aead, 5, "head", 3, sealed, 20, opened));
    ck_assert(aead_open(&aead, 5, "head", 4, sealed, 20, opened));
    aead_init(&aead, (enum aead_cipher)_i, other);
    ck_assert(!aead_open(&aead, 5, "head", 4, sealed, 20, opened));
}
END_TEST

START_TEST(aead_ended_key_is_wiped)
{
    static const uint8_t zero[AEAD_STATE_NBYTES];
    struct aead aead;

    if (!begin(&aead, _i))
        return;
    ck_assert_mem_ne(aead.state, zero, AEAD_KEY_NBYTES);
    aead_fini(&aead);
    ck_assert_mem_eq(aead.state, zero, sizeof(zero));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("aead");
    TCase *tcase = tcase_create("aead");

    tcase_add_test(tcase, aead_aes_is_aes_256_gcm);
    tcase_add_loop_test(tcase, aead_sealed_opens_also_in_place, 0, 2);
    tcase_add_loop_test(tcase, aead_other_key_number_head_or_bit_refused, 0, 2);
    tcase_add_loop_test(tcase, aead_ended_key_is_wiped, 0, 2);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
