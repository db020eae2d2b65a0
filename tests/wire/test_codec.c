/* tests/wire/test_codec.c - messages survive the way to bytes and back;
 * everything else is refused with the right name. */
#include <string.h>

#include "elastic/wire/codec.h"
#include "elastic/wire/pack.h"
#include "elastic/wire/shapes.h"
#include "samples.h"
#include "support.h"

static uint8_t buf[WIRE_MESSAGE_MAX + 16];
static struct message got;

static const struct message *sample(enum message_type type)
{
    for (size_t i = 0; i < n_samples; i++)
        if (samples[i].type == type)
            return &samples[i];
    ck_abort_msg("no sample of %s", message_type_name(type));
}

static size_t encode(const struct message *m)
{
    long n = codec_encode(m, buf, sizeof(buf));

    ck_assert_msg(n > 0, "%s: %s", message_type_name(m->type),
                  codec_strerror((int)n));
    return (size_t)n;
}

static void take_span(struct wire_span *span, const struct wire_span *like)
{
    ck_assert_uint_eq(span->nbytes, like->nbytes);
    ck_assert_mem_eq(span->data, like->data, like->nbytes);
    ck_assert(span->data > buf && span->data < buf + sizeof(buf));
    memcpy(span, like, sizeof(*span)); /* its padding, too */
}

static void take_strings(struct wire_strings *strings,
                         const struct wire_strings *like)
{
    ck_assert_uint_eq(strings->nbytes, like->nbytes);
    ck_assert_mem_eq(strings->data, like->data, like->nbytes);
    memcpy(strings, like, sizeof(*strings));
}

/* Borrowed bytes are compared by content and then pointed to the same place. */
static void check_equal(struct message *m, const struct message *like)
{
    if (m->type == MSG_OUTPUT)
        take_span(&m->u.output.bytes, &like->u.output.bytes);
    if (m->type == MSG_ASSIGN)
        take_span(&m->u.assign.table, &like->u.assign.table);
    if (m->type == MSG_SPAWN) {
        take_strings(&m->u.spawn.argv, &like->u.spawn.argv);
        take_strings(&m->u.spawn.env, &like->u.spawn.env);
        take_strings(&m->u.spawn.cwd, &like->u.spawn.cwd);
    }
    if (m->type == MSG_AGENT_HELLO)
        take_strings(&m->u.agent_hello.addresses,
                     &like->u.agent_hello.addresses);
    if (m->type == MSG_PROBE)
        take_strings(&m->u.probe.addresses, &like->u.probe.addresses);
    ck_assert_mem_eq(m, like, sizeof(*m));
}

START_TEST(codec_every_message_comes_back_equal)
{
    const struct message *m = &samples[_i];
    const char *field;
    size_t n = encode(m);
    int rc = codec_decode(buf, n, &got, &field);

    ck_assert_msg(rc == CODEC_OK, "%s: %s %s", message_type_name(m->type),
                  codec_strerror(rc), field);
    ck_assert_str_eq(field, "");
    check_equal(&got, m);
}
END_TEST

START_TEST(codec_every_type_has_a_sample)
{
    size_t n = 0;

    for (uint64_t type = 0; type < 1000; type++)
        if (shape_of(type)) {
            ck_assert_int_eq(sample((enum message_type)type)->type, (int)type);
            n++;
        }
    ck_assert_uint_eq(n, n_samples);
    ck_assert_str_eq(message_type_name(MSG_READY), "READY");
    ck_assert_str_eq(message_type_name((enum message_type)63), "?");
}
END_TEST

START_TEST(codec_field_numbers_are_unique)
{
    for (uint64_t type = 0; type < 64; type++) {
        const struct shape *shape = shape_of(type);
        uint64_t seen = 0;

        for (uint32_t i = 0; shape && i < shape->n_fields; i++) {
            ck_assert_uint_lt(shape->fields[i].key, 64);
            ck_assert(!(seen >> shape->fields[i].key & 1));
            seen |= UINT64_C(1) << shape->fields[i].key;
        }
    }
}
END_TEST

START_TEST(codec_every_prefix_is_refused)
{
    size_t n = encode(&samples[_i]);

    for (size_t cut = 0; cut < n; cut++)
        ck_assert_int_ne(codec_decode(buf, cut, &got, NULL), CODEC_OK);
    buf[n] = 0;
    ck_assert_int_eq(codec_decode(buf, n + 1, &got, NULL), CODEC_FORMAT);
}
END_TEST

START_TEST(codec_every_short_buffer_is_noticed)
{
    size_t n = encode(&samples[_i]);

    for (size_t max = 0; max < n; max++)
        ck_assert_int_eq(codec_encode(&samples[_i], buf, max), CODEC_SPACE);
    ck_assert_int_eq(codec_encode(&samples[_i], buf, n), (long)n);
}
END_TEST

/* ---- encode refuses what it would not decode -------------------------------
 */

START_TEST(encode_unknown_type_is_refused)
{
    struct message m = {.type = MSG_NONE};

    ck_assert_int_eq(codec_encode(&m, buf, sizeof(buf)), CODEC_UNKNOWN);
    m.type = (enum message_type)47;
    ck_assert_int_eq(codec_encode(&m, buf, sizeof(buf)), CODEC_UNKNOWN);
}
END_TEST

static void check_range(const struct message *m)
{
    ck_assert_int_eq(codec_encode(m, buf, sizeof(buf)), CODEC_RANGE);
}

START_TEST(encode_values_out_of_range_are_refused)
{
    struct message m = *sample(MSG_READY);

    m.u.ready.kind = 3;
    check_range(&m);
    m = *sample(MSG_LOST);
    m.u.lost.n_accused = WIRE_ACCUSED_MAX + 1;
    check_range(&m);
    m = *sample(MSG_HELLO);
    memset(m.u.hello.address, 'x', sizeof(m.u.hello.address));
    check_range(&m);
    m = *sample(MSG_SPAWN);
    m.u.spawn.argv.nbytes = 0;
    check_range(&m);
    m = *sample(MSG_SPAWN);
    m.u.spawn.argv.nbytes--; /* the last NUL is gone */
    check_range(&m);
    m = *sample(MSG_OUTPUT);
    m.u.output.bytes.nbytes = WIRE_OUTPUT_MAX + 1;
    check_range(&m);
    m = *sample(MSG_SPAWNED);
    m.u.spawned.worker = 0;
    check_range(&m);
}
END_TEST

START_TEST(encode_assign_ranks_beyond_sizes_are_refused)
{
    struct message m = *sample(MSG_ASSIGN);

    m.u.assign.rank = m.u.assign.size;
    check_range(&m);
    m = *sample(MSG_ASSIGN);
    m.u.assign.local_rank = m.u.assign.local_size;
    check_range(&m);
    m = *sample(MSG_ASSIGN);
    m.u.assign.cross_size = m.u.assign.size + 1;
    check_range(&m);
    m = *sample(MSG_ASSIGN);
    m.u.assign.root = m.u.assign.size;
    check_range(&m);
}
END_TEST

START_TEST(encode_beyond_the_limit_is_refused)
{
    static uint8_t table[WIRE_MESSAGE_MAX];
    struct message m = *sample(MSG_ASSIGN);

    m.u.assign.table = (struct wire_span){table, sizeof(table)};
    ck_assert_int_eq(codec_encode(&m, buf, sizeof(buf)), CODEC_LIMIT);
    m.u.assign.table.nbytes -= 200;
    ck_assert_int_gt(codec_encode(&m, buf, sizeof(buf)),
                     WIRE_MESSAGE_MAX - 200);
}
END_TEST

/* ---- decode: hand-made bytes ----------------------------------------------
 */

static struct pack_writer hand;

static void head(uint64_t version, uint64_t type)
{
    hand = (struct pack_writer){.buf = buf, .max = sizeof(buf)};
    pack_array(&hand, 4);
    pack_uint(&hand, version);
    pack_uint(&hand, type);
    pack_map(&hand, 1);
    pack_uint(&hand, 1);
    pack_uint(&hand, 77);
}

static void check_decode(int error, const char *field)
{
    const char *named;

    ck_assert_int_eq(codec_decode(buf, hand.nbytes, &got, &named), error);
    ck_assert_str_eq(named, field);
    ck_assert_int_eq(got.type, error == CODEC_OK ? got.type : MSG_NONE);
}

START_TEST(decode_unknown_fields_are_skipped)
{
    head(WIRE_VERSION, MSG_CREDIT);
    pack_map(&hand, 3);
    pack_uint(&hand, 200);
    pack_map(&hand, 1); /* { "deep": [nil, [1.0]] } */
    pack_str(&hand, "deep", 4);
    pack_array(&hand, 2);
    pack_nil(&hand);
    pack_array(&hand, 1);
    pack_bool(&hand, true);
    pack_uint(&hand, 1);
    pack_uint(&hand, 4096);
    pack_uint(&hand, 201);
    pack_int(&hand, -1);
    check_decode(CODEC_OK, "");
    ck_assert_uint_eq(got.u.credit.nbytes, 4096);
    ck_assert_uint_eq(got.job, 77);
}
END_TEST

START_TEST(decode_another_version_is_named_before_all_else)
{
    hand = (struct pack_writer){.buf = buf, .max = sizeof(buf)};
    pack_array(&hand, 1);
    pack_uint(&hand, WIRE_VERSION + 1);
    check_decode(CODEC_VERSION, "");
    head(WIRE_VERSION + 1, 47);
    pack_map(&hand, 0);
    check_decode(CODEC_VERSION, "");
    head(WIRE_VERSION + 1, MSG_CREDIT);
    pack_nil(&hand);
    check_decode(CODEC_VERSION, "");
}
END_TEST

START_TEST(decode_hello_of_another_version_is_read)
{
    head(WIRE_VERSION + 1, MSG_AGENT_HELLO);
    pack_map(&hand, 0);
    check_decode(CODEC_MISSING, "u.agent_hello.agent");
    head(WIRE_VERSION + 1, MSG_HELLO);
    pack_nil(&hand);
    check_decode(CODEC_TYPE, "");
}
END_TEST

START_TEST(decode_unknown_type_is_refused)
{
    head(WIRE_VERSION, 47);
    pack_map(&hand, 0);
    check_decode(CODEC_UNKNOWN, "");
}
END_TEST

START_TEST(decode_missing_field_is_named)
{
    head(WIRE_VERSION, MSG_CREDIT);
    pack_map(&hand, 0);
    check_decode(CODEC_MISSING, "u.credit.nbytes");
}
END_TEST

START_TEST(decode_duplicate_field_is_named)
{
    head(WIRE_VERSION, MSG_CREDIT);
    pack_map(&hand, 2);
    for (int i = 0; i < 2; i++) {
        pack_uint(&hand, 1);
        pack_uint(&hand, 5);
    }
    check_decode(CODEC_DUPLICATE, "u.credit.nbytes");
}
END_TEST

START_TEST(decode_wrong_type_is_named)
{
    head(WIRE_VERSION, MSG_CREDIT);
    pack_map(&hand, 1);
    pack_uint(&hand, 1);
    pack_int(&hand, -5);
    check_decode(CODEC_TYPE, "u.credit.nbytes");
}
END_TEST

START_TEST(decode_flag_out_of_range_is_named)
{
    head(WIRE_VERSION, MSG_HOLD);
    pack_map(&hand, 2);
    pack_uint(&hand, 1);
    pack_uint(&hand, 1);
    pack_uint(&hand, 2);
    pack_uint(&hand, 256 + HOSTS_ADDED); /* would fit after a cut to 8 bits */
    check_decode(CODEC_RANGE, "u.hold.flags");
}
END_TEST

static void notice_text(const char *text, size_t nbytes)
{
    head(WIRE_VERSION, MSG_ABORT);
    pack_map(&hand, 2);
    pack_uint(&hand, 1);
    pack_uint(&hand, ABORT_LOST);
    pack_uint(&hand, 3);
    pack_str(&hand, text, nbytes);
}

START_TEST(decode_text_must_fit_and_have_no_nul)
{
    char longest[WIRE_TEXT_MAX];

    memset(longest, 'x', sizeof(longest));
    notice_text(longest, sizeof(longest) - 1);
    check_decode(CODEC_OK, "");
    ck_assert_uint_eq(strlen(got.u.abort.text), WIRE_TEXT_MAX - 1);
    notice_text(longest, sizeof(longest));
    check_decode(CODEC_RANGE, "u.abort.text");
    notice_text("a\0b", 3);
    check_decode(CODEC_RANGE, "u.abort.text");
    notice_text("", 0);
    check_decode(CODEC_OK, "");
}
END_TEST

START_TEST(decode_digest_must_be_whole)
{
    uint8_t digest[WIRE_DIGEST_NBYTES + 1] = {0};

    for (size_t n = 0; n <= sizeof(digest); n++) {
        head(WIRE_VERSION, MSG_READY);
        pack_map(&hand, 1);
        pack_uint(&hand, 5);
        pack_bin(&hand, digest, n);
        if (n == WIRE_DIGEST_NBYTES)
            check_decode(CODEC_MISSING, "u.ready.kind");
        else
            check_decode(CODEC_RANGE, "u.ready.layout");
    }
}
END_TEST

START_TEST(decode_strings_must_end_with_nul)
{
    head(WIRE_VERSION, MSG_SPAWN);
    pack_map(&hand, 1);
    pack_uint(&hand, 3);
    pack_bin(&hand, "a\0b", 3);
    check_decode(CODEC_RANGE, "u.spawn.argv");
}
END_TEST

START_TEST(decode_too_large_is_refused_unread)
{
    memset(buf, 0xc0, sizeof(buf));
    ck_assert_int_eq(codec_decode(buf, WIRE_MESSAGE_MAX + 1, &got, NULL),
                     CODEC_LIMIT);
}
END_TEST

START_TEST(decode_error_texts_exist)
{
    for (int error = CODEC_NOMEM; error <= CODEC_OK; error++)
        ck_assert_str_ne(codec_strerror(error), "unknown error");
    ck_assert_str_eq(codec_strerror(1), "unknown error");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec");
    TCase *tcase = tcase_create("codec");
    int n = (int)n_samples;

    tcase_add_loop_test(tcase, codec_every_message_comes_back_equal, 0, n);
    tcase_add_test(tcase, codec_every_type_has_a_sample);
    tcase_add_test(tcase, codec_field_numbers_are_unique);
    tcase_add_loop_test(tcase, codec_every_prefix_is_refused, 0, n);
    tcase_add_loop_test(tcase, codec_every_short_buffer_is_noticed, 0, n);
    tcase_add_test(tcase, encode_unknown_type_is_refused);
    tcase_add_test(tcase, encode_values_out_of_range_are_refused);
    tcase_add_test(tcase, encode_assign_ranks_beyond_sizes_are_refused);
    tcase_add_test(tcase, encode_beyond_the_limit_is_refused);
    tcase_add_test(tcase, decode_unknown_fields_are_skipped);
    tcase_add_test(tcase, decode_another_version_is_named_before_all_else);
    tcase_add_test(tcase, decode_hello_of_another_version_is_read);
    tcase_add_test(tcase, decode_unknown_type_is_refused);
    tcase_add_test(tcase, decode_missing_field_is_named);
    tcase_add_test(tcase, decode_duplicate_field_is_named);
    tcase_add_test(tcase, decode_wrong_type_is_named);
    tcase_add_test(tcase, decode_flag_out_of_range_is_named);
    tcase_add_test(tcase, decode_text_must_fit_and_have_no_nul);
    tcase_add_test(tcase, decode_digest_must_be_whole);
    tcase_add_test(tcase, decode_strings_must_end_with_nul);
    tcase_add_test(tcase, decode_too_large_is_refused_unread);
    tcase_add_test(tcase, decode_error_texts_exist);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
