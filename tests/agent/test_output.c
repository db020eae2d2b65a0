/* Lines of a worker on their way: cutting, credit, dropping, the end, and a
 * connection that is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/agent/output.h"
#include "support.h"

enum { KEEP = 1000, PLENTY = 1 << 30, TEXT_MAX = 1 << 18 };

static struct output output;
static char text[TEXT_MAX]; /* what went out, | after each message */
static size_t n_text;
static size_t n_bytes; /* without the | */

static void setup(void)
{
    output_init(&output, 7, KEEP);
    n_text = n_bytes = 0;
    text[0] = 0;
}

static void teardown(void)
{
    output_fini(&output);
}

static void feed(const char *s)
{
    ck_assert(output_feed(&output, OUTPUT_STDOUT, s, strlen(s)));
}

/* The driver has all of it up to the end of this message. */
static void credit(const struct msg_output *m)
{
    struct msg_credit taken = {.nbytes = m->bytes.nbytes,
                               .worker = m->worker,
                               .taken = m->at + m->bytes.nbytes,
                               .stream = m->stream,
                               .eof = m->eof};

    output_taken(&output, &taken);
}

/* Until there is too little credit; the driver takes it, or is yet to. */
static void move(uint64_t room, bool taken)
{
    struct msg_output m;

    while (output_next(&output, OUTPUT_STDOUT, room, &m)) {
        ck_assert_uint_eq(m.worker, 7);
        ck_assert_int_eq(m.stream, OUTPUT_STDOUT);
        ck_assert_uint_le(m.bytes.nbytes, WIRE_OUTPUT_MAX);
        ck_assert_uint_lt(n_text + m.bytes.nbytes + 3, TEXT_MAX);
        if (m.bytes.nbytes > 0)
            memcpy(text + n_text, m.bytes.data, m.bytes.nbytes);
        n_text += m.bytes.nbytes;
        n_bytes += m.bytes.nbytes;
        n_text += (size_t)sprintf(text + n_text, m.eof ? "$" : "|");
        room -= m.bytes.nbytes;
        output_sent(&output, &m);
        if (taken)
            credit(&m);
    }
}

static void take(uint64_t room)
{
    move(room, true);
}

static void send(void)
{
    move(PLENTY, false);
}

static void expect(const char *wanted)
{
    ck_assert_str_eq(text, wanted);
    n_text = n_bytes = 0;
    text[0] = 0;
}

START_TEST(lines_wait_for_their_end)
{
    feed("one\ntw");
    take(PLENTY);
    expect("one\n|");
    feed("o\n");
    take(PLENTY);
    expect("two\n|");
}
END_TEST

START_TEST(lines_end_with_cr_or_crlf)
{
    feed("10%\r20%\r30%");
    take(PLENTY);
    expect("10%\r20%\r|");
    feed("\r");
    take(PLENTY);
    expect(""); /* a \n might follow */
    feed("\ndone\r\n");
    take(PLENTY);
    expect("30%\r\ndone\r\n|");
}
END_TEST

START_TEST(lines_settled_cr_is_an_end)
{
    feed("10%\r");
    output_settle(&output);
    take(PLENTY);
    expect("10%\r|");
}
END_TEST

START_TEST(lines_too_long_go_in_parts_as_they_are)
{
    static char block[3 * OUTPUT_LINE_MAX];

    output.keep_max = OUTPUT_KEEP_MAX;
    memset(block, 'x', sizeof(block) - 1);
    feed(block);
    take(PLENTY);
    ck_assert_uint_gt(n_bytes, OUTPUT_LINE_MAX);
    ck_assert_uint_lt(n_bytes, sizeof(block) - 1);
    feed("\n");
    take(OUTPUT_LINE_MAX);
    take(PLENTY);
    ck_assert_uint_eq(n_bytes, sizeof(block));
    for (size_t i = 0, at = 0; at < n_bytes - 1; i++)
        if (text[i] != '|') {
            ck_assert_int_eq(text[i], 'x');
            at++;
        }
}
END_TEST

START_TEST(lines_without_an_end_go_when_they_have_settled)
{
    struct msg_output m;

    feed("one\nContinue? ");
    output_settle(&output);
    take(PLENTY);
    expect("one\n|"); /* it may be about to end */
    output_settle(&output);
    ck_assert(output_next(&output, OUTPUT_STDOUT, PLENTY, &m));
    ck_assert(m.settled);
    take(PLENTY);
    expect("Continue? |");
    output_settle(&output);
    take(PLENTY);
    expect("");
    feed("yes");
    output_settle(&output);
    feed("!");
    output_settle(&output); /* something has come in between */
    take(PLENTY);
    expect("");
    feed("\n");
    ck_assert(output_next(&output, OUTPUT_STDOUT, PLENTY, &m));
    ck_assert(!m.settled);
    take(PLENTY);
    expect("yes!\n|");
}
END_TEST

START_TEST(marker_begins_a_line)
{
    char line[32];

    feed("half");
    output_settle(&output);
    output_settle(&output);
    take(PLENTY);
    expect("half|");
    feed(" whole\n");
    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof(line), "line %04d\n", i);
        feed(line);
    }
    take(PLENTY);
    ck_assert_int_eq(strncmp(text, "...\n[hvd-agent: ", 16), 0);
}
END_TEST

START_TEST(lines_of_cr_at_every_cut_survive)
{
    static const char all[] = "a\r\nbb\r\n\r\r\n\nccc\rd\n";

    for (size_t cut = 0; cut < sizeof(all); cut++) {
        ck_assert(output_feed(&output, OUTPUT_STDOUT, all, cut));
        ck_assert(output_feed(&output, OUTPUT_STDOUT, all + cut,
                              sizeof(all) - 1 - cut));
        take(PLENTY);
        expect("a\r\nbb\r\n\r\r\n\nccc\rd\n|");
    }
}
END_TEST

START_TEST(credit_bounds_each_message_at_a_line)
{
    feed("aaaa\nbbbb\ncccc\n");
    take(12);
    expect("aaaa\nbbbb\n|");
    take(4);
    expect("");
    take(5);
    expect("cccc\n|");
}
END_TEST

static void feed_too_much(void)
{
    char line[32];

    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof(line), "line %04d\n", i); /* 10 bytes */
        feed(line);
    }
}

static const char too_much_begins[] =
    "[hvd-agent: 100 lines dropped: the driver does not read fast enough]\n|"
    "line 0100\n";

START_TEST(credit_none_drops_the_oldest_with_marker)
{
    feed_too_much();
    take(PLENTY);
    ck_assert_int_eq(
        strncmp(text, too_much_begins, sizeof(too_much_begins) - 1), 0);
    ck_assert_ptr_nonnull(strstr(text, "line 0199\n|"));
    ck_assert_uint_le(n_bytes, KEEP + 80);
    feed("more\n");
    n_text = 0;
    take(PLENTY);
    expect("more\n|");
}
END_TEST

START_TEST(credit_none_drops_from_the_fuller_stream)
{
    struct msg_output m;

    ck_assert(output_feed(&output, OUTPUT_STDERR, "error\n", 6));
    for (int i = 0; i < 200; i++)
        feed("123456789\n");
    ck_assert(output_next(&output, OUTPUT_STDERR, PLENTY, &m));
    ck_assert_uint_eq(m.bytes.nbytes, 6);
    ck_assert_uint_gt(output.queues[0].n_dropped, 99);
}
END_TEST

START_TEST(end_sends_the_rest_with_eof)
{
    feed("one\nrest");
    output_end(&output, OUTPUT_STDOUT);
    ck_assert(!output_finished(&output));
    take(PLENTY);
    expect("one\nrest$");
    output_end(&output, OUTPUT_STDERR);
    ck_assert(!output_finished(&output));
}
END_TEST

START_TEST(end_of_an_empty_stream_needs_no_credit)
{
    struct msg_output m;

    output_end(&output, OUTPUT_STDOUT);
    take(0);
    expect("$");
    take(0);
    expect("");
    output_end(&output, OUTPUT_STDERR);
    ck_assert(output_next(&output, OUTPUT_STDERR, 0, &m));
    ck_assert(m.eof);
    output_sent(&output, &m);
    ck_assert(!output_finished(&output));
    credit(&m);
    ck_assert(output_finished(&output));
}
END_TEST

START_TEST(rewind_sends_again_what_was_not_taken)
{
    struct msg_output m;

    feed("one\ntwo\n");
    take(4);
    send();
    feed("three\n");
    send();
    expect("one\n|two\n|three\n|");
    output_rewind(&output);
    ck_assert(output_next(&output, OUTPUT_STDOUT, PLENTY, &m));
    ck_assert_uint_eq(m.at, 4);
    take(PLENTY);
    expect("two\nthree\n|");
    output_rewind(&output);
    take(PLENTY);
    expect("");
}
END_TEST

START_TEST(rewind_tells_the_end_again)
{
    feed("rest");
    output_end(&output, OUTPUT_STDOUT);
    send();
    output_rewind(&output);
    send();
    expect("rest$rest$");
    output_rewind(&output);
    take(PLENTY);
    output_rewind(&output);
    take(PLENTY);
    expect("rest$");
}
END_TEST

START_TEST(rewind_after_a_part_was_taken)
{
    struct msg_credit part = {.worker = 7, .stream = OUTPUT_STDOUT};

    feed("one\ntwo\n");
    send();
    part.taken = 4;
    output_taken(&output, &part);
    part.taken = 2; /* late */
    output_taken(&output, &part);
    output_rewind(&output);
    send();
    expect("one\ntwo\n|two\n|");
    part.taken = UINT64_MAX; /* of more than there is */
    output_taken(&output, &part);
    feed("three\n");
    take(PLENTY);
    expect("three\n|");
}
END_TEST

/* The driver has line 0000 .. 0049 and has said so in vain. */
START_TEST(rewind_does_not_number_new_lines_as_old_ones)
{
    struct msg_output m;
    char line[32];

    for (int i = 0; i < 50; i++) {
        snprintf(line, sizeof(line), "line %04d\n", i);
        feed(line);
    }
    send();
    output_rewind(&output);
    feed_too_much();
    ck_assert(output_next(&output, OUTPUT_STDOUT, PLENTY, &m));
    ck_assert_ptr_nonnull(strstr((const char *)m.bytes.data, " dropped: "));
    ck_assert_uint_eq(m.at, 500);
    ck_assert(m.first);
    output_sent(&output, &m);
    ck_assert(output_next(&output, OUTPUT_STDOUT, PLENTY, &m));
    ck_assert_uint_eq(m.at, 500 + strlen(output.queues[0].marker));
}
END_TEST

START_TEST(rewind_does_not_bring_dropped_lines_back)
{
    feed("first\n");
    send();
    expect("first\n|");
    feed_too_much();
    send();
    ck_assert_int_eq(
        strncmp(text, too_much_begins, sizeof(too_much_begins) - 1), 0);
    n_text = 0;
    output_rewind(&output);
    send();
    ck_assert_int_eq(strncmp(text, "line 0100\n", 10), 0);
    ck_assert_ptr_nonnull(strstr(text, "line 0199\n|"));
}
END_TEST

START_TEST(end_with_little_credit_comes_in_pieces)
{
    feed("aaaa\nbbbb\nrest");
    output_end(&output, OUTPUT_STDOUT);
    take(5);
    take(5);
    take(3);
    take(4);
    expect("aaaa\n|bbbb\n|rest$");
}
END_TEST

START_TEST(memory_goes_back_when_empty)
{
    output.keep_max = OUTPUT_KEEP_MAX;
    for (int i = 0; i < 20000; i++)
        feed("123456789\n");
    ck_assert_uint_gt(output.queues[0].bytes_max, 199999);
    for (int i = 0; i < 10; i++) {
        n_text = 0;
        take(WIRE_OUTPUT_MAX);
    }
    ck_assert_uint_eq(output.queues[0].tail, 0);
    ck_assert_uint_le(output.queues[0].bytes_max, 65536);
}
END_TEST

START_TEST(room_is_what_may_come_before_lines_are_dropped)
{
    ck_assert_uint_eq(output_room(&output), KEEP);
    feed("12345\n");
    ck_assert(output_feed(&output, OUTPUT_STDERR, "half", 4));
    ck_assert_uint_eq(output_room(&output), KEEP - 10);
    take(PLENTY);
    ck_assert_uint_eq(output_room(&output), KEEP - 4);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("agent output");
    TCase *tcase = tcase_create("lines");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, lines_wait_for_their_end);
    tcase_add_test(tcase, lines_end_with_cr_or_crlf);
    tcase_add_test(tcase, lines_settled_cr_is_an_end);
    tcase_add_test(tcase, lines_too_long_go_in_parts_as_they_are);
    tcase_add_test(tcase, lines_without_an_end_go_when_they_have_settled);
    tcase_add_test(tcase, marker_begins_a_line);
    tcase_add_test(tcase, lines_of_cr_at_every_cut_survive);
    tcase_add_test(tcase, credit_bounds_each_message_at_a_line);
    tcase_add_test(tcase, credit_none_drops_the_oldest_with_marker);
    tcase_add_test(tcase, credit_none_drops_from_the_fuller_stream);
    tcase_add_test(tcase, end_sends_the_rest_with_eof);
    tcase_add_test(tcase, end_of_an_empty_stream_needs_no_credit);
    tcase_add_test(tcase, end_with_little_credit_comes_in_pieces);
    tcase_add_test(tcase, room_is_what_may_come_before_lines_are_dropped);
    tcase_add_test(tcase, memory_goes_back_when_empty);
    tcase_add_test(tcase, rewind_sends_again_what_was_not_taken);
    tcase_add_test(tcase, rewind_tells_the_end_again);
    tcase_add_test(tcase, rewind_after_a_part_was_taken);
    tcase_add_test(tcase, rewind_does_not_bring_dropped_lines_back);
    tcase_add_test(tcase, rewind_does_not_number_new_lines_as_old_ones);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return support_run(suite_make());
}
