/* tests/driver/test_status.c - the status line on a pseudo terminal. Time is an
 * argument; what was drawn is read back from the other side. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "elastic/driver/output.h"
#include "elastic/driver/status.h"
#include "support.h"

static int master, terminal;
static struct output output;
static struct status s;

static void hide(void *arg)
{
    status_hide(arg);
}

static void say(enum log_level level, const char *line, void *arg)
{
    output_say(arg, line);
}

static void open_output(void)
{
    struct output_config config = {.out_fd = terminal,
                                   .err_fd = terminal,
                                   .wake_fd = -1,
                                   .before_write = hide,
                                   .before_write_arg = &s};

    ck_assert_int_eq(output_init(&output, &config), HVD_OK);
    log_set_sink(say, &output);
}

static void setup(void)
{
    struct winsize size = {.ws_row = 24, .ws_col = 40};
    struct termios raw;

    ck_assert_int_eq(setenv("TERM", "xterm", 1), 0);
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(ioctl(terminal, TIOCSWINSZ, &size), 0);
    ck_assert_int_eq(tcgetattr(terminal, &raw), 0);
    cfmakeraw(&raw);
    ck_assert_int_eq(tcsetattr(terminal, TCSANOW, &raw), 0);
    log_init("hvd-elastic", LOG_LEVEL_INFO);
    open_output();
    status_init(&s, terminal, &output);
}

static void teardown(void)
{
    status_fini(&s);
    log_set_sink(NULL, NULL);
    output_fini(&output);
    close(terminal);
    close(master);
}

/* What the terminal got since the last call. */
static const char *seen(void)
{
    static char text[4096];
    size_t n = 0;
    struct pollfd p = {.fd = master, .events = POLLIN};

    ck_assert(output_drain(&output, 20000));
    /* the kernel passes bytes on in the background: end with a mark */
    ck_assert_int_eq((int)write(terminal, "\1", 1), 1);
    while (n == 0 || text[n - 1] != '\1') {
        ssize_t got;

        ck_assert_int_eq(poll(&p, 1, -1), 1);
        got = read(master, text + n, sizeof(text) - 1 - n);
        ck_assert_int_gt((int)got, 0);
        n += (size_t)got;
    }
    text[n - 1] = '\0';
    return text;
}

static struct status_view view(uint64_t generation, const char *note)
{
    return (struct status_view){.generation = generation,
                                .size = 4,
                                .n_hosts = 2,
                                .commits_per_s = -1,
                                .note = note};
}

static const struct {
    struct status_view view;
    const char *expected;
} formats[] = {
    {{.commits_per_s = -1}, "starting"},
    {{.commits_per_s = -1, .note = "waiting for 2 workers"},
     "starting | waiting for 2 workers"},
    {{.generation = 1,
      .size = 1,
      .n_hosts = 1,
      .commits = 812,
      .commit_age_us = 3900000,
      .commits_per_s = 0.333},
     "gen 1 | 1 worker on 1 host | commit 812, 3 s ago, 0.33/s"},
    {{.generation = 1,
      .size = 2,
      .n_hosts = 1,
      .commits = 1,
      .commits_per_s = -1},
     "gen 1 | 2 workers on 1 host | commit 1"},
    {{.generation = 7,
      .size = 4,
      .n_hosts = 2,
      .commits = 99,
      .commits_per_s = 812.4,
      .recovery_us = 12345,
      .note = "bad\033[2Jnote"},
     "gen 7 | 4 workers on 2 hosts | commit 99, 812/s | recovered in 12.3 ms | "
     "bad?[2Jnote"},
};

START_TEST(status_format_shows_what_is_known)
{
    char text[STATUS_TEXT_MAX];

    status_format(&formats[_i].view, text, sizeof(text));
    ck_assert_str_eq(text, formats[_i].expected);
}
END_TEST

START_TEST(status_format_long_note_is_cut)
{
    char note[STATUS_TEXT_MAX * 2], text[STATUS_TEXT_MAX];
    struct status_view v = view(1, note);

    memset(note, 'n', sizeof(note) - 1);
    note[sizeof(note) - 1] = '\0';
    status_format(&v, text, sizeof(text));
    ck_assert_uint_eq(strlen(text), sizeof(text) - 1);
}
END_TEST

START_TEST(status_set_draws_one_line_cut_to_the_width)
{
    struct status_view v = view(7, "waiting for rank 3 (host a) 12 s");

    status_set(&s, &v, 1000000);
    ck_assert_str_eq(seen(), "\rgen 7 | 4 workers on 2 hosts | waiting \033[K");
    status_set(&s, &v, 2000000); /* nothing new */
    ck_assert_str_eq(seen(), "");
    ck_assert(status_deadline(&s) == CLOCK_NEVER);
}
END_TEST

START_TEST(status_many_changes_draw_ten_times_a_second)
{
    struct status_view v = view(1, NULL);
    int n_drawn = 0;

    for (uint64_t now = 1000000; now < 2000000; now += 1000) {
        v.generation++;
        status_set(&s, &v, now);
        n_drawn += s.drawn_us == now;
    }
    ck_assert_int_eq(n_drawn, 10);
    ck_assert_uint_eq(status_deadline(&s), s.drawn_us + 100000);
    seen();
    status_tick(&s, status_deadline(&s));
    seen();
    ck_assert(status_deadline(&s) == CLOCK_NEVER);
}
END_TEST

START_TEST(status_log_line_moves_it_away_and_it_comes_back)
{
    struct status_view v = view(7, NULL);

    status_set(&s, &v, 1000000);
    seen();
    log_info("generation 8 formed");
    ck_assert_str_eq(seen(),
                     "\r\033[Khvd-elastic: info: generation 8 formed\n");
    ck_assert_uint_eq(status_deadline(&s), 1100000);
    status_tick(&s, 1099999);
    ck_assert_str_eq(seen(), "");
    status_tick(&s, 1100000);
    ck_assert_str_eq(seen(), "\rgen 7 | 4 workers on 2 hosts\033[K");
}
END_TEST

START_TEST(status_hide_twice_clears_once)
{
    struct status_view v = view(7, NULL);

    status_set(&s, &v, 1000000);
    seen();
    status_hide(&s);
    status_hide(&s);
    ck_assert_str_eq(seen(), "\r\033[K");
}
END_TEST

START_TEST(status_without_a_terminal_draws_nothing)
{
    struct status_view v = view(7, NULL);
    struct status plain;
    int fds[2];
    char byte;

    ck_assert_int_eq(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    status_init(&plain, fds[1], &output);
    status_set(&plain, &v, 1000000);
    status_tick(&plain, 2000000);
    status_hide(&plain);
    ck_assert(status_deadline(&plain) == CLOCK_NEVER);
    status_fini(&plain);
    ck_assert_int_eq((int)read(fds[0], &byte, 1), -1);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(status_dumb_terminal_draws_nothing)
{
    struct status plain;

    ck_assert_int_eq(setenv("TERM", "dumb", 1), 0);
    status_init(&plain, terminal, &output);
    ck_assert(!plain.terminal);
    status_fini(&plain);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tcase = tcase_create("status");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, status_format_shows_what_is_known, 0,
                        (int)(sizeof(formats) / sizeof(formats[0])));
    tcase_add_test(tcase, status_format_long_note_is_cut);
    tcase_add_test(tcase, status_set_draws_one_line_cut_to_the_width);
    tcase_add_test(tcase, status_many_changes_draw_ten_times_a_second);
    tcase_add_test(tcase, status_log_line_moves_it_away_and_it_comes_back);
    tcase_add_test(tcase, status_hide_twice_clears_once);
    tcase_add_test(tcase, status_without_a_terminal_draws_nothing);
    tcase_add_test(tcase, status_dumb_terminal_draws_nothing);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
