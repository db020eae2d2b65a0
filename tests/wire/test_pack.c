/* tests/wire/test_pack.c - msgpack values: every form, and every lie about a
 * length. */
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/pack.h"
#include "support.h"

struct form {
    const char *bytes;
    size_t nbytes;
    enum pack_type type;
    uint64_t value;
    uint32_t count;
};

#define FORM(bytes_, type_, value_, count_)                                 \
    {                                                                       \
        (bytes_), sizeof(bytes_) - 1, (type_), (uint64_t)(value_), (count_) \
    }

static const struct form forms[] = {
    FORM("\x00", PACK_UINT, 0, 0),
    FORM("\x7f", PACK_UINT, 127, 0),
    FORM("\xff", PACK_INT, -1, 0),
    FORM("\xe0", PACK_INT, -32, 0),
    FORM("\xc0", PACK_NIL, 0, 0),
    FORM("\xc2", PACK_BOOL, 0, 0),
    FORM("\xc3", PACK_BOOL, 1, 0),
    FORM("\xcc\xff", PACK_UINT, 255, 0),
    FORM("\xcd\x01\x02", PACK_UINT, 0x102, 0),
    FORM("\xce\x01\x02\x03\x04", PACK_UINT, 0x1020304, 0),
    FORM("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", PACK_UINT, -1, 0),
    FORM("\xd0\x80", PACK_INT, -128, 0),
    FORM("\xd0\x05", PACK_UINT, 5, 0),
    FORM("\xd1\x80\x00", PACK_INT, -32768, 0),
    FORM("\xd2\xff\xff\xff\xfe", PACK_INT, -2, 0),
    FORM("\xd3\x80\x00\x00\x00\x00\x00\x00\x00", PACK_INT, INT64_MIN, 0),
    FORM("\xa2hi", PACK_STR, 0, 2),
    FORM("\xd9\x02hi", PACK_STR, 0, 2),
    FORM("\xda\x00\x02hi", PACK_STR, 0, 2),
    FORM("\xdb\x00\x00\x00\x02hi", PACK_STR, 0, 2),
    FORM("\xc4\x01x", PACK_BIN, 0, 1),
    FORM("\xc5\x00\x01x", PACK_BIN, 0, 1),
    FORM("\xc6\x00\x00\x00\x01x", PACK_BIN, 0, 1),
    FORM("\x91\xc0", PACK_ARRAY, 0, 1),
    FORM("\xdc\x00\x01\xc0", PACK_ARRAY, 0, 1),
    FORM("\xdd\x00\x00\x00\x01\xc0", PACK_ARRAY, 0, 1),
    FORM("\x81\x01\x02", PACK_MAP, 0, 1),
    FORM("\xde\x00\x01\x01\x02", PACK_MAP, 0, 1),
    FORM("\xdf\x00\x00\x00\x01\x01\x02", PACK_MAP, 0, 1),
};

START_TEST(pack_next_reads_every_form)
{
    const struct form *f = &forms[_i];
    const uint8_t *bytes = (const uint8_t *)f->bytes;
    struct pack_reader r = {bytes, bytes + f->nbytes};
    struct pack_item item;

    ck_assert_int_eq(pack_scan(bytes, f->nbytes, 1, 10), CODEC_OK);
    ck_assert_int_eq(pack_next(&r, &item), CODEC_OK);
    ck_assert_int_eq(item.type, f->type);
    ck_assert_uint_eq(item.value, f->value);
    ck_assert_uint_eq(item.count, f->count);
    pack_skip(&r, &item);
    ck_assert_ptr_eq(r.at, r.end);
    for (size_t cut = 0; cut < f->nbytes; cut++)
        ck_assert_int_eq(pack_scan(bytes, cut, 1, 10), CODEC_TRUNCATED);
}
END_TEST

static int scan(const char *bytes, size_t nbytes)
{
    return pack_scan((const uint8_t *)bytes, nbytes, 4, 100);
}

START_TEST(scan_claims_beyond_the_input_are_refused)
{
    ck_assert_int_eq(scan("\xdd\xff\xff\xff\xff", 5), CODEC_TRUNCATED);
    ck_assert_int_eq(scan("\xdf\xff\xff\xff\xff", 5), CODEC_TRUNCATED);
    ck_assert_int_eq(scan("\xdb\xff\xff\xff\xff", 5), CODEC_TRUNCATED);
    ck_assert_int_eq(scan("\xc6\xff\xff\xff\xff", 5), CODEC_TRUNCATED);
    ck_assert_int_eq(scan("\x92\xc0", 2), CODEC_TRUNCATED);
}
END_TEST

START_TEST(scan_bytes_we_never_use_are_refused)
{
    for (int first = 0xc0; first < 0xe0; first++) {
        char bytes[32] = {(char)first};
        bool used = !(first == 0xc1 || (first >= 0xc7 && first <= 0xc9) ||
                      (first >= 0xd4 && first <= 0xd8));

        ck_assert_int_eq(scan(bytes, sizeof(bytes)), CODEC_FORMAT);
        ck_assert_int_eq(scan(bytes, 1) == CODEC_FORMAT, !used);
    }
}
END_TEST

START_TEST(scan_depth_and_items_are_limited)
{
    char deep[6] = "\x91\x91\x91\x91\x91\xc0";
    char wide[200];

    ck_assert_int_eq(scan(deep, 6), CODEC_LIMIT);
    ck_assert_int_eq(scan(deep + 1, 5), CODEC_OK);
    memset(wide, 0xc0, sizeof(wide));
    wide[0] = (char)0xdc;
    wide[1] = 0;
    wide[2] = 100;
    ck_assert_int_eq(scan(wide, 103), CODEC_LIMIT);
    wide[2] = 99;
    ck_assert_int_eq(scan(wide, 102), CODEC_OK);
    ck_assert_int_eq(scan(wide, 103), CODEC_FORMAT); /* one value too many */
}
END_TEST

START_TEST(writer_full_stays_full)
{
    uint8_t buf[4];
    struct pack_writer w = {.buf = buf, .max = sizeof(buf)};

    pack_str(&w, "long", 4);
    ck_assert(w.full);
    pack_nil(&w);
    ck_assert(w.full);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *tcase = tcase_create("pack");

    tcase_add_loop_test(tcase, pack_next_reads_every_form, 0,
                        (int)ARRAY_SIZE(forms));
    tcase_add_test(tcase, scan_claims_beyond_the_input_are_refused);
    tcase_add_test(tcase, scan_bytes_we_never_use_are_refused);
    tcase_add_test(tcase, scan_depth_and_items_are_limited);
    tcase_add_test(tcase, writer_full_stays_full);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
