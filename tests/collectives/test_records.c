/* tests/collectives/test_records.c - a stream of records, cut at any byte, and
 * damaged in every way that somebody between its ends could think of. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/mac.h"
#include "collectives/net/sealed.h"
#include "support.h"

static const uint8_t key[MAC_KEY_NBYTES] = {4, 7};

static int n_ciphers(void)
{
    ck_assert_int_eq(mac_init(), HVD_OK);
    return aead_has_aes() ? 2 : 1;
}

/* --- records --- */

enum { N = 4, NBYTES = 40, SIZE = NBYTES + RECORD_EXTRA_NBYTES };

/* What is sent: N records, each SIZE bytes; and who reads them. */
struct stream {
    struct records out, in;
    uint8_t bytes[N * SIZE], data[NBYTES];
};

static void stream_init(struct stream *s, int cipher)
{
    records_init(&s->out, (enum aead_cipher)cipher, key);
    records_init(&s->in, (enum aead_cipher)cipher, key);
    for (uint8_t i = 0; i < N; i++) {
        memset(s->data, i, sizeof(s->data));
        records_seal(&s->out, s->data, NBYTES, s->bytes + i * SIZE);
    }
}

/* How many of the records at bytes [n] are what was sent i-th? */
static int opened(struct records *r, const uint8_t *bytes, size_t n)
{
    uint8_t data[NBYTES], expected[NBYTES];
    int i = 0;

    for (; n >= SIZE; n -= SIZE, bytes += SIZE, i++) {
        memset(expected, i, sizeof(expected));
        if (records_peek(bytes, n) != SIZE || !records_open(r, bytes, data))
            break;
        ck_assert_mem_eq(data, expected, sizeof(data));
    }
    return i;
}

START_TEST(records_in_order_open)
{
    for (int cipher = 0; cipher < n_ciphers(); cipher++) {
        struct stream s;

        stream_init(&s, cipher);
        ck_assert_int_eq(opened(&s.in, s.bytes, sizeof(s.bytes)), N);
        records_fini(&s.in);
        records_fini(&s.out);
    }
}
END_TEST

/* Records [N] that are delivered, and how many of them open. */
static const struct {
    int order[N], good;
} orders[] = {
    {{1, 0, 2, 3}, 0},                    /* swapped */
    {{0, 2, 1, 3}, 1}, {{0, 0, 1, 2}, 1}, /* doubled */
    {{0, 1, 3, 3}, 2},                    /* one dropped */
    {{1, 2, 3, 3}, 0}, {{0, 1, 2, 0}, 3}, /* the first again */
};

START_TEST(records_out_of_order_refused)
{
    for (int cipher = 0; cipher < n_ciphers(); cipher++) {
        uint8_t bytes[N * SIZE];
        struct stream s;

        stream_init(&s, cipher);
        for (int i = 0; i < N; i++)
            memcpy(bytes + i * SIZE, s.bytes + orders[_i].order[i] * SIZE,
                   SIZE);
        ck_assert_int_eq(opened(&s.in, bytes, sizeof(bytes)), orders[_i].good);
    }
}
END_TEST

/* In the length, the text or the tag. */
START_TEST(records_any_flipped_bit_refused)
{
    for (int cipher = 0; cipher < n_ciphers(); cipher++)
        for (size_t bit = 0; bit < 8 * SIZE; bit++) {
            struct stream s;

            stream_init(&s, cipher);
            s.bytes[SIZE + bit / 8] ^= (uint8_t)(1u << bit % 8);
            ck_assert_int_eq(opened(&s.in, s.bytes, sizeof(s.bytes)), 1);
        }
}
END_TEST

START_TEST(records_of_another_key_or_cipher_refused)
{
    uint8_t other[MAC_KEY_NBYTES] = {4, 8};

    for (int cipher = 0; cipher < n_ciphers(); cipher++) {
        struct stream s;

        stream_init(&s, cipher);
        records_init(&s.in, (enum aead_cipher)cipher, other);
        ck_assert_int_eq(opened(&s.in, s.bytes, sizeof(s.bytes)), 0);
        if (n_ciphers() == 1)
            continue;
        records_init(&s.in, (enum aead_cipher) !cipher, key);
        ck_assert_int_eq(opened(&s.in, s.bytes, sizeof(s.bytes)), 0);
    }
}
END_TEST

START_TEST(records_without_a_length_of_one_refused)
{
    static const struct {
        uint8_t head[4];
        size_t n, size;
    } heads[] = {
        {{1, 0, 0, 0}, 3, 0}, /* not told yet */
        {{1, 0, 0, 0}, 4, 1 + RECORD_EXTRA_NBYTES},
        {{0, 0, 0, 0}, 4, SIZE_MAX},
        {{0, 0x40, 0, 0}, 4, RECORD_MAX + RECORD_EXTRA_NBYTES},
        {{1, 0x40, 0, 0}, 4, SIZE_MAX},
        {{1, 0, 1, 0}, 4, SIZE_MAX},
        {{1, 0, 0, 1}, 4, SIZE_MAX},
        {{1, 0, 0, 0x80}, 4, 1 + RECORD_EXTRA_NBYTES},
        {{0, 0, 0, 0x80}, 4, SIZE_MAX},
        {{0xff, 0xff, 0xff, 0xff}, 4, SIZE_MAX},
    };

    ck_assert_int_eq(RECORD_MAX, 0x4000);
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
        ck_assert_uint_eq(records_peek(heads[i].head, heads[i].n),
                          heads[i].size);
}
END_TEST

/* --- keys that change --- */

START_TEST(records_renewed_key_comes_once)
{
    uint8_t second[MAC_KEY_NBYTES] = {5}, bytes[3][SIZE], data[NBYTES] = {0};
    struct records out, in, early;

    (void)n_ciphers();
    records_init(&out, AEAD_CHACHA20_POLY1305, key);
    records_init(&in, AEAD_CHACHA20_POLY1305, key);
    records_seal(&out, data, NBYTES, bytes[0]);
    records_renew(&out, second);
    records_seal(&out, data, NBYTES, bytes[1]);
    records_seal(&out, data, NBYTES, bytes[2]);
    early = in;
    ck_assert(records_open(&early, bytes[0], data));
    ck_assert(!records_open(&early, bytes[1], data)); /* not expected */
    records_renew(&in, second);
    early = in;
    ck_assert(!records_open(&early, bytes[2], data)); /* one is missing */
    ck_assert(records_open(&in, bytes[0], data));
    ck_assert(records_open(&in, bytes[1], data));
    early = in;
    ck_assert(!records_open(&early, bytes[0], data)); /* of before */
    early = in;
    ck_assert(!records_open(&early, bytes[1], data));
    ck_assert(records_open(&in, bytes[2], data));
}
END_TEST

/* Nobody knows the key that has not been set. */
START_TEST(records_under_no_key_refused)
{
    uint8_t none[MAC_KEY_NBYTES] = {0}, bytes[SIZE], data[NBYTES] = {0};
    struct records out, in;

    (void)n_ciphers();
    records_init(&out, AEAD_CHACHA20_POLY1305, none);
    records_renew(&out, none);
    records_seal(&out, data, NBYTES, bytes);
    records_init(&in, AEAD_CHACHA20_POLY1305, key);
    ck_assert(!records_open(&in, bytes, data));
    records_init(&in, AEAD_CHACHA20_POLY1305, key);
    records_renew(&in, key);
    records_seal(&out, data, NBYTES, bytes);
    ck_assert(!records_open(&in, bytes, data));
}
END_TEST

/* No number comes twice under a key: the next one takes over, on both sides. */
START_TEST(records_numbers_used_up_next_key)
{
    for (int cipher = 0; cipher < n_ciphers(); cipher++) {
        uint8_t first[SIZE], second[SIZE], data[NBYTES] = {0};
        struct records out, in;

        records_init(&out, (enum aead_cipher)cipher, key);
        records_init(&in, (enum aead_cipher)cipher, key);
        records_seal(&out, data, NBYTES, first);
        out.number = in.number = RECORDS_PER_KEY - 1;
        for (uint64_t number = RECORDS_PER_KEY - 1; number != 2;
             number = out.number) {
            records_seal(&out, data, NBYTES, second);
            ck_assert_mem_ne(second, first, SIZE);
            ck_assert(records_open(&in, second, data));
            ck_assert_uint_eq(in.number, out.number);
        }
        ck_assert_mem_ne(out.key, key, sizeof(key));
        ck_assert_mem_eq(out.key, in.key, sizeof(key));
    }
}
END_TEST

/* --- both ends of a connection --- */

static const struct handshake hello = {.role = HANDSHAKE_HELLO,
                                       .flags = HANDSHAKE_SEALED,
                                       .job = 1,
                                       .generation = 2,
                                       .worker = 3,
                                       .peer = 4,
                                       .nonce = {5}};

struct ends {
    struct sealed *dialer, *listener;
};

static void ends_init(struct ends *e, bool answered)
{
    uint8_t bytes[HANDSHAKE_NBYTES];
    struct handshake reply;

    (void)n_ciphers();
    reply = handshake_reply(&hello, true, key, bytes);
    e->dialer = sealed_dial(&hello, key);
    e->listener = sealed_take(&hello, &reply, key);
    if (answered)
        sealed_answered(e->dialer, &reply, key);
}

static void ends_fini(struct ends *e)
{
    sealed_destroy(e->dialer);
    sealed_destroy(e->listener);
}

enum { HEAD = 48, TEXT_MAX = 3 * RECORD_MAX };

static uint8_t text[HEAD + TEXT_MAX], got[HEAD + TEXT_MAX];

/* What goes over the wire for a header and a payload of nbytes: *n_p. */
static uint8_t *wire_of(struct sealed *from, size_t nbytes, size_t *n_p)
{
    struct sealed_rest rest = {NULL, NULL, NULL, 0, 0, 0};
    uint8_t *wire = malloc(2 * sizeof(text));
    size_t head_n = HEAD, left = nbytes;

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * 11 + i / 253);
    *n_p = 0;
    while (head_n + left > 0 || !sealed_idle(from)) {
        const uint8_t *head = text + HEAD - head_n;
        const uint8_t *payload = text + HEAD + nbytes - left;
        size_t n = from->out_n - from->out_off;

        memcpy(wire + *n_p, from->out_bytes + from->out_off, n);
        *n_p += n;
        from->out_off = from->out_n;
        sealed_put(from, head, &head_n, payload, &left);
    }
    ck_assert(!sealed_owes(from));
    free(sealed_rest(from, &rest, &head_n));
    ck_assert_uint_eq(head_n, 0);
    return wire;
}

/* The receiver takes the header from a buffer, and says then where the payload
 * goes: as a connection does. Bytes of it that are in place. */
static size_t take(struct sealed *s, size_t done, size_t nbytes)
{
    bool any = true;

    while (any) {
        struct sealed_target t = {.in = got + done, .in_n = HEAD - done};

        if (done >= HEAD)
            t = (struct sealed_target){.dest = got + done,
                                       .dest_n = HEAD + nbytes - done};
        any = sealed_get(s, &t);
        done = (size_t)((done >= HEAD ? t.dest : t.in) - got);
    }
    return done;
}

static void arrive(struct sealed *s, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t room;
        uint8_t *to = sealed_room(s, &room);

        room = room < n ? room : n;
        ck_assert_uint_gt(room, 0);
        memcpy(to, bytes, room);
        sealed_arrived(s, room);
        bytes += room;
        n -= room;
    }
}

/* Small ones are one record; a large one's payload is of its own. */
static const size_t sizes[] = {0,
                               8,
                               SEALED_SMALL_MAX - HEAD,
                               SEALED_SMALL_MAX - HEAD + 1,
                               RECORD_MAX,
                               RECORD_MAX + 1,
                               TEXT_MAX};

START_TEST(sealed_cut_at_any_byte_arrives)
{
    size_t nbytes = sizes[_i], n, step;
    struct ends e;
    uint8_t *wire;

    ends_init(&e, false);
    wire = wire_of(e.dialer, nbytes, &n);
    ends_fini(&e);
    step = n > 1000 ? n / 397 : 1;
    for (size_t cut = 0; cut <= n; cut += step) {
        size_t done = 0;

        ends_init(&e, false);
        memset(got, 0, sizeof(got));
        arrive(e.listener, wire, cut);
        done = take(e.listener, done, nbytes);
        for (size_t at = cut; at < n; at += 5000) {
            arrive(e.listener, wire + at, n - at < 5000 ? n - at : 5000);
            done = take(e.listener, done, nbytes);
        }
        ck_assert(!e.listener->forged);
        ck_assert_uint_eq(done, HEAD + nbytes);
        ck_assert_mem_eq(got, text, HEAD + nbytes);
        ends_fini(&e);
    }
    free(wire);
}
END_TEST

START_TEST(sealed_byte_by_byte_arrives)
{
    size_t n, done = 0;
    struct ends e;
    uint8_t *wire;

    ends_init(&e, false);
    wire = wire_of(e.dialer, 8, &n);
    for (size_t i = 0; i < n; i++) {
        arrive(e.listener, wire + i, 1);
        done = take(e.listener, done, 8);
        ck_assert_uint_eq(done, i + 1 == n ? HEAD + 8 : 0);
    }
    ck_assert_mem_eq(got, text, HEAD + 8);
    free(wire);
    ends_fini(&e);
}
END_TEST

/* Both ways, before and behind the answer. */
START_TEST(sealed_answer_renews_the_dialers_key)
{
    struct ends e;
    size_t n[3];
    uint8_t *wire[3];

    ends_init(&e, false);
    wire[0] = wire_of(e.dialer, 8, &n[0]);
    arrive(e.listener, wire[0], n[0]);
    ck_assert_uint_eq(take(e.listener, 0, 8), HEAD + 8);
    ends_fini(&e);
    ends_init(&e, true);
    wire[1] = wire_of(e.dialer, 8, &n[1]);
    ck_assert_uint_eq(n[1], n[0]);
    ck_assert_mem_ne(wire[1], wire[0], n[0]);
    arrive(e.listener, wire[1], n[1]);
    ck_assert_uint_eq(take(e.listener, 0, 8), HEAD + 8);
    wire[2] = wire_of(e.listener, 8, &n[2]);
    arrive(e.dialer, wire[2], n[2]);
    ck_assert_uint_eq(take(e.dialer, 0, 8), HEAD + 8);
    ends_fini(&e);
    /* another answer to the same hello: nothing of the one before fits */
    ends_init(&e, true);
    arrive(e.listener, wire[1], n[1]);
    ck_assert_uint_eq(take(e.listener, 0, 8), 0);
    ck_assert(e.listener->forged);
    arrive(e.dialer, wire[2], n[2]);
    ck_assert_uint_eq(take(e.dialer, 0, 8), 0);
    ck_assert(e.dialer->forged);
    ends_fini(&e);
    for (int i = 0; i < 3; i++)
        free(wire[i]);
}
END_TEST

/* Its own words, sent back, are nobody's. */
START_TEST(sealed_reflected_refused)
{
    struct ends e;
    uint8_t *wire;
    size_t n;

    ends_init(&e, true);
    wire = wire_of(e.dialer, 8, &n);
    arrive(e.dialer, wire, n);
    ck_assert_uint_eq(take(e.dialer, 0, 8), 0);
    ck_assert(e.dialer->forged);
    free(wire);
    ends_fini(&e);
}
END_TEST

START_TEST(sealed_forged_nothing_more_is_given)
{
    struct ends e;
    uint8_t *wire;
    size_t n;

    ends_init(&e, false);
    wire = wire_of(e.dialer, RECORD_MAX, &n);
    wire[HEAD + RECORD_EXTRA_NBYTES + 100] ^= 1;
    arrive(e.listener, wire, n);
    ck_assert_uint_eq(take(e.listener, 0, RECORD_MAX), HEAD);
    ck_assert(e.listener->forged);
    ck_assert_uint_eq(take(e.listener, HEAD, RECORD_MAX), HEAD);
    free(wire);
    ends_fini(&e);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("records");
    TCase *tc = tcase_create("records");

    tcase_add_test(tc, records_in_order_open);
    tcase_add_loop_test(tc, records_out_of_order_refused, 0,
                        ARRAY_SIZE(orders));
    tcase_add_test(tc, records_any_flipped_bit_refused);
    tcase_add_test(tc, records_of_another_key_or_cipher_refused);
    tcase_add_test(tc, records_without_a_length_of_one_refused);
    tcase_add_test(tc, records_renewed_key_comes_once);
    tcase_add_test(tc, records_under_no_key_refused);
    tcase_add_test(tc, records_numbers_used_up_next_key);
    tcase_add_loop_test(tc, sealed_cut_at_any_byte_arrives, 0,
                        ARRAY_SIZE(sizes));
    tcase_add_test(tc, sealed_byte_by_byte_arrives);
    tcase_add_test(tc, sealed_answer_renews_the_dialers_key);
    tcase_add_test(tc, sealed_reflected_refused);
    tcase_add_test(tc, sealed_forged_nothing_more_is_given);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
