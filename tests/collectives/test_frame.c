/* tests/collectives/test_frame.c - frames, handshakes and the arena. */
#include <hvd/collectives.h>

#include "base/mac.h"
#include "base/random.h"
#include "collectives/net/frame.h"
#include "collectives/net/handshake.h"
#include "support.h"

START_TEST(frame_encoded_decodes_to_itself)
{
    struct frame in = {.type = FRAME_DATA,
                       .kind = 1,
                       .dtype = 2,
                       .op = 3,
                       .shares = 8,
                       .algorithm = 0xc5,
                       .root = -4,
                       .sequence = 1ull << 40,
                       .count = 1ull << 50,
                       .step = 0xfedcba,
                       .nbytes = 99,
                       .offset = 1ull << 33,
                       .value = 0x1122334455667788u};
    struct frame out;
    uint8_t bytes[FRAME_HEADER_NBYTES];

    frame_encode(&in, bytes);
    ck_assert(frame_decode(bytes, &out));
    ck_assert(frame_same_call(&in, &out));
    ck_assert_int_eq(out.root, -4);
    ck_assert_uint_eq(out.sequence, in.sequence);
    ck_assert_uint_eq(out.step, 0xfedcba);
    ck_assert_uint_eq(out.algorithm, 0xc5);
    ck_assert_uint_eq(out.nbytes, 99);
    ck_assert_uint_eq(out.shares, 8);
    ck_assert_uint_eq(frame_inline(&out), 12);
    ck_assert_uint_eq(frame_share(&out, 7), 84);
    ck_assert_uint_eq(frame_share(&out, 8), 99);
    ck_assert_uint_eq(out.offset, in.offset);
    ck_assert_uint_eq(out.value, in.value);
}
END_TEST

START_TEST(frame_too_large_or_unknown_refused)
{
    struct frame in = {.type = FRAME_DATA, .nbytes = FRAME_PAYLOAD_MAX + 1};
    struct frame out;
    uint8_t bytes[FRAME_HEADER_NBYTES];

    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
    in = (struct frame){.type = FRAME_ABORT, .nbytes = FRAME_TEXT_MAX + 1};
    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
    in = (struct frame){.type = FRAME_LEAVE, .nbytes = 1};
    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
    in = (struct frame){.type = FRAME_ANNOUNCE, .shares = 2};
    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
    in = (struct frame){.type = FRAME_DATA, .shares = FRAME_SHARES_MAX + 1};
    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
    in = (struct frame){.type = 9};
    frame_encode(&in, bytes);
    ck_assert(!frame_decode(bytes, &out));
}
END_TEST

START_TEST(handshake_any_flipped_bit_refused)
{
    struct handshake h = {HANDSHAKE_HELLO, 1, 1, 2, 3, 4, 5, {6}, {7}}, out;
    uint8_t key[MAC_KEY_NBYTES] = {8}, job_key[MAC_KEY_NBYTES] = {9};
    uint8_t bytes[HANDSHAKE_NBYTES];

    ck_assert_int_eq(mac_init(), HVD_OK);
    handshake_encode(&h, job_key, key, bytes);
    ck_assert(handshake_decode(bytes, &out) && handshake_verify(bytes, key));
    ck_assert_uint_eq(out.generation, 3);
    ck_assert_uint_eq(out.peer, 5);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(!handshake_decode(bytes, &out) ||
                  !handshake_verify(bytes, key));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    key[0]++;
    ck_assert(!handshake_verify(bytes, key));
}
END_TEST

/* Whoever has the one key need not have the other. */
START_TEST(handshake_hello_is_a_members)
{
    struct handshake h = {HANDSHAKE_HELLO, 1, 1, 2, 3, 4, 5, {6}, {0}};
    uint8_t key[MAC_KEY_NBYTES] = {8}, job_key[MAC_KEY_NBYTES] = {9};
    uint8_t bytes[HANDSHAKE_NBYTES];

    ck_assert_int_eq(mac_init(), HVD_OK);
    handshake_encode(&h, job_key, key, bytes);
    ck_assert(handshake_is_member(bytes, job_key));
    for (size_t bit = 0; bit < 8 * (sizeof(bytes) - MAC_NBYTES); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(!handshake_is_member(bytes, job_key));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    handshake_encode(&h, key, key, bytes);
    ck_assert(!handshake_is_member(bytes, job_key));
    handshake_reply(&h, true, key, bytes);
    ck_assert(!handshake_is_member(bytes, job_key));
}
END_TEST

START_TEST(handshake_reply_repeats_the_nonce)
{
    struct handshake h = {HANDSHAKE_HELLO, 1, 1, 2, 3, 4, 5, {6}, {0}, 7}, out;
    uint8_t key[MAC_KEY_NBYTES] = {8}, bytes[HANDSHAKE_NBYTES];

    ck_assert_int_eq(mac_init(), HVD_OK);
    handshake_reply(&h, true, key, bytes);
    ck_assert(handshake_decode(bytes, &out) && handshake_verify(bytes, key));
    ck_assert_int_eq(out.role, HANDSHAKE_REPLY);
    ck_assert_int_eq(out.flags, HANDSHAKE_SEALED);
    ck_assert_uint_eq(out.worker, 5);
    ck_assert_uint_eq(out.set, 7);
    ck_assert_mem_eq(out.in_reply, h.nonce, sizeof(h.nonce));
}
END_TEST

/* A listener that does not encrypt says so. */
START_TEST(handshake_reply_says_what_the_listener_does)
{
    struct handshake h = {.role = HANDSHAKE_HELLO,
                          .flags = HANDSHAKE_SEALED | HANDSHAKE_AES};
    uint8_t key[MAC_KEY_NBYTES] = {8}, bytes[HANDSHAKE_NBYTES];
    struct handshake out;

    ck_assert_int_eq(mac_init(), HVD_OK);
    ck_assert_int_eq(handshake_reply(&h, true, key, bytes).flags, h.flags);
    ck_assert_int_eq(handshake_reply(&h, false, key, bytes).flags, 0);
    ck_assert(handshake_decode(bytes, &out));
    ck_assert_int_eq(out.flags, 0);
    h.flags = 4; /* of a later version */
    handshake_encode(&h, key, key, bytes);
    ck_assert(!handshake_decode(bytes, &out));
}
END_TEST

/* No two streams have the same, whatever differs in their handshakes. */
START_TEST(handshake_keys_all_differ)
{
    static uint8_t keys[12][MAC_KEY_NBYTES];
    struct handshake a = {HANDSHAKE_HELLO, 1, 1, 2, 3, 4, 5, {6}, {0}};
    struct handshake b = {HANDSHAKE_REPLY, 1, 1, 2, 3, 5, 4, {7}, {6}};
    struct handshake c = a, d = a, e = b;
    uint8_t key[MAC_KEY_NBYTES] = {8}, other[MAC_KEY_NBYTES] = {9};

    c.nonce[15]++;
    d.channel++;
    e.nonce[15]++;
    handshake_key(key, HANDSHAKE_EARLY, &a, NULL, keys[0]);
    handshake_key(key, HANDSHAKE_EARLY, &c, NULL, keys[1]);
    handshake_key(key, HANDSHAKE_EARLY, &d, NULL, keys[2]);
    handshake_key(other, HANDSHAKE_EARLY, &a, NULL, keys[3]);
    for (int i = 0; i < 2; i++) {
        enum handshake_stream s = i ? HANDSHAKE_ANSWER : HANDSHAKE_RENEWED;

        handshake_key(key, s, &a, &b, keys[4 + 4 * i]);
        handshake_key(key, s, &c, &b, keys[5 + 4 * i]);
        handshake_key(key, s, &a, &e, keys[6 + 4 * i]);
        handshake_key(other, s, &a, &b, keys[7 + 4 * i]);
    }
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < i; k++)
            ck_assert_mem_ne(keys[i], keys[k], MAC_KEY_NBYTES);
}
END_TEST

START_TEST(alloc_any_size_aligned_and_zeroed)
{
    static const size_t sizes[] = {1, 4096, 100000, 3 << 20};
    void *ptr = NULL;

    for (size_t k = 0; k < 4; k++) {
        ck_assert_ptr_nonnull(ptr = hvd_alloc(sizes[k]));
        ck_assert_uint_eq((uintptr_t)ptr % 4096, 0);
        ck_assert_int_eq(((char *)ptr)[0], 0);
        ck_assert_int_eq(((char *)ptr)[sizes[k] - 1], 0);
        memset(ptr, 1, sizes[k]);
        hvd_free(ptr);
    }
    hvd_free(NULL);
}
END_TEST

START_TEST(alloc_nothing_or_too_much_refused)
{
    ck_assert_ptr_null(hvd_alloc(0));
    ck_assert_str_eq(hvd_last_error(), "hvd_alloc: 0 bytes");
    ck_assert_ptr_null(hvd_alloc(SIZE_MAX));
    ck_assert_ptr_null(hvd_alloc(SIZE_MAX / 4));
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "no memory for "));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("frame");

    tcase_add_test(tc, frame_encoded_decodes_to_itself);
    tcase_add_test(tc, frame_too_large_or_unknown_refused);
    tcase_add_test(tc, handshake_any_flipped_bit_refused);
    tcase_add_test(tc, handshake_hello_is_a_members);
    tcase_add_test(tc, handshake_reply_repeats_the_nonce);
    tcase_add_test(tc, handshake_reply_says_what_the_listener_does);
    tcase_add_test(tc, handshake_keys_all_differ);
    tcase_add_test(tc, alloc_any_size_aligned_and_zeroed);
    tcase_add_test(tc, alloc_nothing_or_too_much_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
