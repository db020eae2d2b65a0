/* tests/discovery/test_hosts.c - parser, order, differences of host lists. */
#include <string.h>

#include "discovery/hosts.h"
#include "support.h"

static struct hosts parse(const char *text, enum hosts_syntax syntax,
                          uint32_t default_slots)
{
    struct hosts hosts = {0};
    char error[HOSTS_ERROR_MAX] = "";

    ck_assert_msg(
        hosts_parse(text, strlen(text), syntax, default_slots, &hosts, error),
        "%s", error);
    return hosts;
}

/* "a:2 user@b:3 drain=5" */
static const char *show(const struct hosts *hosts)
{
    static char text[4096];
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < hosts->n; i++) {
        const struct host *host = &hosts->items[i];

        n += (size_t)snprintf(
            text + n, sizeof(text) - n, "%s%s%s%s:%u", i ? " " : "", host->user,
            host->user[0] ? "@" : "", host->name, host->slots);
        if (host->drains)
            n += (size_t)snprintf(text + n, sizeof(text) - n, " drain=%u",
                                  host->drain_s);
    }
    return text;
}

#define C60  "123456789012345678901234567890123456789012345678901234567890"
#define C63  C60 "123"
#define C253 C63 "." C63 "." C63 "." C60 "1"

static const struct {
    enum hosts_syntax syntax;
    uint32_t default_slots;
    const char *text, *expected;
} good[] = {
    /* Horovod, test_elastic_discovery.py: its eight inputs */
    {HOSTS_LINES, 4, "", ""},
    {HOSTS_LINES, 4, "host-1", "host-1:4"},
    {HOSTS_LINES, 4, "host-1:2", "host-1:2"},
    {HOSTS_LINES, 4, "host-1\nhost-2", "host-1:4 host-2:4"},
    {HOSTS_LINES, 4, "host-1:2\nhost-4:3", "host-1:2 host-4:3"},
    {HOSTS_LINES, 4, "\nhost-1:2\nhost-4:3", "host-1:2 host-4:3"},
    {HOSTS_LINES, 4, "host-1:2\n\nhost-4:3", "host-1:2 host-4:3"},
    {HOSTS_LINES, 4, "host-1:2\nhost-4:3\n", "host-1:2 host-4:3"},
    /* and what people write */
    {HOSTS_LINES, 0, "# nobody yet\n", ""},
    {HOSTS_LINES, 0, " a:1 # first\r\n\tb_2.x:1024\r\n", "a:1 b_2.x:1024"},
    {HOSTS_LINES, 0, "a:0\nb:007\nc:998", "a:0 b:7 c:998"},
    {HOSTS_LINES, 0, "a:1 drain=0\nb:2", "a:1 drain=0 b:2"},
    {HOSTS_LINES, 3, " a \tdrain=1000000 # x\nb:1", "a:3 drain=1000000 b:1"},
    {HOSTS_COMMAS, 0, "a:1,b:2", "a:1 b:2"},
    {HOSTS_COMMAS, 3, " a , 127.0.0.2:2,", "a:3 127.0.0.2:2"},
    {HOSTS_LINES, 3, "[fd00::1]:2\n[::ffff:10.0.0.1]",
     "fd00::1:2 ::ffff:10.0.0.1:3"},
    {HOSTS_LINES, 3, "[fd00::1] drain=5\n", "fd00::1:3 drain=5"},
    {HOSTS_COMMAS, 0, "[fd00::1]:2,b:1", "fd00::1:2 b:1"},
    {HOSTS_FILE, 2, "[fd00::1] slots=4\n[fd00::2]", "fd00::1:4 fd00::2:2"},
    {HOSTS_FILE, 2, "a slots=4\nb:3\nc\nd  slots=1 # x", "a:4 b:3 c:2 d:1"},
    /* one line for each slot: PBS, LSF; -H of Open MPI */
    {HOSTS_FILE, 1, "a\na\nb\na\nb\n", "a:3 b:2"},
    {HOSTS_FILE, 4, "a.x.\na.x", "a.x:8"},
    {HOSTS_FILE, 1, "u@a\nu@a", "u@a:2"},
    {HOSTS_COMMAS, 1, "a,a,b", "a:2 b:1"},
    /* Open MPI, LAM, MPICH, DeepSpeed */
    {HOSTS_FILE, 1, "a slots=2 max_slots=4\nb max-slots=4 slots=2", "a:2 b:2"},
    {HOSTS_FILE, 3, "a max_slots = 4\nb slots = 2 max_slots=9", "a:3 b:2"},
    {HOSTS_FILE, 1, "[fe80::1%eth0.2]:2\nu@[fe80::1%lo] slots=3",
     "fe80::1%eth0.2:2 u@fe80::1%lo:3"},
    {HOSTS_FILE, 1, "a\tslots =2\nb slots= 2\nc cpu=2", "a:2 b:2 c:2"},
    {HOSTS_FILE, 1, "a:4 # x\r\nb: 2\r\nc:2 max_slots=3", "a:4 b:2 c:2"},
    {HOSTS_FILE, 1, "a:4 binding=user:0,1\nb:2 ifname=ib0", "a:4 b:2"},
    /* Grid Engine's PE_HOSTFILE */
    {HOSTS_FILE, 1, "a 4 all.q@a UNDEFINED\nb 2 all.q@b <NULL>", "a:4 b:2"},
    {HOSTS_FILE, 1, "root@a slots=4\nj.d-e+f@b:2", "root@a:4 j.d-e+f@b:2"},
    {HOSTS_FILE, 1, "u@[fd00::1]:2\nA\\u@b", "u@fd00::1:2 A\\u@b:1"},
    {HOSTS_COMMAS, 1, "u@example.org@a:2", "u@example.org@a:2"},
    /* a byte order mark */
    {HOSTS_FILE, 1,
     "\xef\xbb\xbf"
     "a slots=2",
     "a:2"},
    {HOSTS_LINES, 1, "\xef\xbb\xbf", ""},
    {HOSTS_LINES, 1, "u@a.b.:2 drain = 5", "u@a.b:2 drain=5"},
    {HOSTS_LINES, 1, C253 ":2", C253 ":2"},
};

START_TEST(hosts_parse_good_text_lists_hosts)
{
    struct hosts hosts = parse(good[_i].text, good[_i].syntax,
                               good[_i].default_slots);

    ck_assert_str_eq(show(&hosts), good[_i].expected);
    hosts_fini(&hosts);
}
END_TEST

static const struct {
    enum hosts_syntax syntax;
    const char *text, *error;
} bad[] = {
    {HOSTS_FILE, "b:1\n\na:x",
     "line 3: \"a:x\": \"x\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "a:1025",
     "line 1: \"a:1025\": \"1025\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "a:-1",
     "line 1: \"a:-1\": \"-1\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "a:99999999999999999999",
     "line 1: \"a:99999999999999999999\": \"99999999999999999999\" is not a "
     "number of slots (0 to 1024)"},
    {HOSTS_LINES,
     "a:", "line 1: \"a:\": \"\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "a:2:3",
     "line 1: \"a:2:3\": \"2:3\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "a", "line 1: \"a\": no number of slots"},
    {HOSTS_LINES, ":2", "line 1: \":2\": no name of a host"},
    {HOSTS_LINES, "0.0.0.0:2",
     "line 1: \"0.0.0.0:2\": no host has this address: it stands for all of a "
     "machine's own"},
    {HOSTS_COMMAS, "a:1,[0::]:2",
     "\"[0::]:2\": no host has this address: it stands for all of a "
     "machine's own"},
    {HOSTS_FILE, "a:1\nb:1\na:1", "line 3: \"a:1\": the host is listed twice"},
    {HOSTS_FILE, "a:1\nb:1\nu@a:1",
     "line 3: \"u@a:1\": the host is listed twice"},
    {HOSTS_LINES, "Segmentation fault\n",
     "line 1: \"Segmentation fault\": a script prints host:slots, and may add "
     "drain=SECONDS"},
    {HOSTS_LINES, "no hosts\nare here\nnor there\n",
     "line 1: \"no hosts\": a script prints host:slots, and may add "
     "drain=SECONDS (and 2 more lines)"},
    {HOSTS_LINES, "\033[1m\xff\x7f:1",
     "line 1: \"?[1m??:1\": a name of a host has letters, digits, '.', '_', "
     "'-'"},
    {HOSTS_LINES, "a slots=2",
     "line 1: \"a slots=2\": a script prints host:slots, and may add "
     "drain=SECONDS"},
    {HOSTS_LINES, "a:1 drain=",
     "line 1: \"a:1 drain=\": \"\" is not a number of seconds (0 to 1000000)"},
    {HOSTS_LINES, "a:1 drain=-5",
     "line 1: \"a:1 drain=-5\": \"-5\" is not a number of seconds (0 to "
     "1000000)"},
    {HOSTS_LINES, "a:1 drain=1000001",
     "line 1: \"a:1 drain=1000001\": \"1000001\" is not a number of seconds "
     "(0 to 1000000)"},
    {HOSTS_LINES, "a:1 drain=5 now",
     "line 1: \"a:1 drain=5 now\": a script prints host:slots, and may add "
     "drain=SECONDS"},
    {HOSTS_LINES, "a:1 drain",
     "line 1: \"a:1 drain\": a script prints host:slots, and may add "
     "drain=SECONDS"},
    {HOSTS_LINES, " drain=5",
     "line 1: \"drain=5\": a name of a host has letters, digits, '.', '_', "
     "'-'"},
    {HOSTS_FILE, "a slots=2 drain=5",
     "line 1: \"a slots=2 drain=5\": \"drain\" is not slots=N"},
    {HOSTS_FILE, "a 4x q",
     "line 1: \"a 4x q\": \"4x\" is not a number of slots "
     "(0 to 1024)"},
    {HOSTS_FILE, "a:2 4", "line 1: \"a:2 4\": \"4\" is not slots=N"},
    {HOSTS_COMMAS, "n[1-2,4]:2",
     "\"n[1-2\": a range of Slurm's is written out by scontrol show hostnames"},
    {HOSTS_FILE, "a slots", "line 1: \"a slots\": \"slots\" is not slots=N"},
    {HOSTS_COMMAS, "a:1 drain=5",
     "\"a:1 drain=5\": -H takes HOST:SLOTS, with commas"},
    {HOSTS_LINES, C63 "4:1",
     "line 1: \"" C63 "4:1\": a name of a host has 63 characters at most "
     "between two dots"},
    {HOSTS_LINES, C253 "2:1",
     "line 1: \"" C63
     ".1234567890123456...\": a name of a host has 253 characters at "
     "most"},
    {HOSTS_FILE, "@a:1", "line 1: \"@a:1\": no name of a user"},
    {HOSTS_FILE, "-o@a:1",
     "line 1: \"-o@a:1\": a name of a user does not begin with '-'"},
    {HOSTS_FILE, "u@-a:1",
     "line 1: \"u@-a:1\": a name of a host does not begin with '-'"},
    {HOSTS_FILE, "a..",
     "line 1: \"a..\": a name of a host has no empty part between two dots"},
    {HOSTS_FILE, ".a:1",
     "line 1: \".a:1\": a name of a host has no empty part between two dots"},
    {HOSTS_FILE, "u;v@a:1",
     "line 1: \"u;v@a:1\": a name of a user has letters, digits, '.', '_', "
     "'-', '+'"},
    {HOSTS_FILE, C63 "4@a:1",
     "line 1: \"" C63 "4@a:1\": a name of a user has 63 characters at most"},
    {HOSTS_COMMAS, "a:1,b:z",
     "\"b:z\": \"z\" is not a number of slots (0 to 1024)"},
    {HOSTS_COMMAS, "a:1,a:2", "\"a:2\": the host is listed twice"},
    {HOSTS_COMMAS, "fd00::1",
     "\"fd00::1\": an address of IPv6 stands in brackets: [fd00::1]:2"},
    {HOSTS_COMMAS, "a:1,::1",
     "\"::1\": an address of IPv6 stands in brackets: [fd00::1]:2"},
    {HOSTS_FILE, "fd00::1:2 slots=2",
     "line 1: \"fd00::1:2 slots=2\": an address of IPv6 stands in brackets: "
     "[fd00::1]:2"},
    {HOSTS_LINES, "u@2001:db8:0:0:0:0:0:1",
     "line 1: \"u@2001:db8:0:0:0:0:0:1\": an address of IPv6 stands in "
     "brackets: [fd00::1]:2"},
    {HOSTS_LINES, "fe80::1%eth0",
     "line 1: \"fe80::1%eth0\": an address of IPv6 stands in brackets: "
     "[fd00::1]:2"},
    {HOSTS_LINES, "node::2",
     "line 1: \"node::2\": \":2\" is not a number of slots (0 to 1024)"},
    {HOSTS_LINES, "[fd00::1",
     "line 1: \"[fd00::1\": a name of a host has letters, digits, '.', '_', "
     "'-'"},
    {HOSTS_LINES, "[]:1", "line 1: \"[]:1\": no name of a host"},
    {HOSTS_LINES, "[a host]:1",
     "line 1: \"[a host]:1\": in brackets is an address of IPv6"},
    {HOSTS_LINES, "[fd00::1]2",
     "line 1: \"[fd00::1]2\": behind a name of a host stands :SLOTS"},
    {HOSTS_FILE, "b:1\na slots=2 slots=3",
     "line 2: \"a slots=2 slots=3\": its number of slots is there twice"},
    {HOSTS_FILE, "a:2 slots=2",
     "line 1: \"a:2 slots=2\": its number of slots is there twice"},
    {HOSTS_LINES, "a:1 drain=2 drain=3",
     "line 1: \"a:1 drain=2 drain=3\": drain= is there twice"},
    {HOSTS_FILE, "[fe80::1%]:2",
     "line 1: \"[fe80::1%]:2\": in brackets is an address of IPv6"},
    {HOSTS_FILE, "[%eth0]:2",
     "line 1: \"[%eth0]:2\": in brackets is an address of IPv6"},
    {HOSTS_FILE, "[fe80::1%a/b]:2",
     "line 1: \"[fe80::1%a/b]:2\": in brackets is an address of IPv6"},
    {HOSTS_FILE, "a slots=two",
     "line 1: \"a slots=two\": \"two\" is not a number of slots (0 to 1024)"},
};

START_TEST(hosts_parse_bad_text_names_the_line)
{
    struct hosts hosts = parse("keep:1", HOSTS_LINES, 0);
    char error[HOSTS_ERROR_MAX] = "";

    ck_assert(!hosts_parse(bad[_i].text, strlen(bad[_i].text), bad[_i].syntax,
                           0, &hosts, error));
    ck_assert_str_eq(error, bad[_i].error);
    ck_assert_str_eq(show(&hosts), "keep:1");
    hosts_fini(&hosts);
}
END_TEST

/* Default slots: 1. */
static const struct {
    const char *text, *expected, *error;
} skipped[] = {
    {"a:1\nb:x\nc:2", "a:1 c:2",
     "line 2: \"b:x\": \"x\" is not a number of slots (0 to 1024)"},
    {"Warning: kubectl is old\na:1\n? ?\n", "a:1",
     "line 1: \"Warning: kubectl is old\": \"kubectl\" is not a number of "
     "slots (0 to 1024) (and 1 more line)"},
    {"a:1\na:2\n", "a:1", "line 2: \"a:2\": the host is listed twice"},
    {"a\na", "a:1", "line 2: \"a\": the host is listed twice"},
    {"a:1 drain=x\nb:1", "b:1",
     "line 1: \"a:1 drain=x\": \"x\" is not a number of seconds (0 to "
     "1000000)"},
    {"a:1\nb:1", "a:1 b:1", ""},
};

START_TEST(hosts_parse_skips_bad_lines_of_a_script)
{
    struct hosts hosts = {0};
    char error[HOSTS_ERROR_MAX] = "before";

    ck_assert(hosts_parse(skipped[_i].text, strlen(skipped[_i].text),
                          HOSTS_LINES, 1, &hosts, error));
    ck_assert_str_eq(show(&hosts), skipped[_i].expected);
    ck_assert_str_eq(error, skipped[_i].error);
    hosts_fini(&hosts);
}
END_TEST

START_TEST(hosts_parse_adds_up_to_a_bound)
{
    struct hosts hosts = {0};
    char error[HOSTS_ERROR_MAX];

    ck_assert(!hosts_parse("a\na\na", 5, HOSTS_FILE, 400, &hosts, error));
    ck_assert_str_eq(error, "line 3: \"a\": more than 1024 slots");
    ck_assert(!hosts_parse("a,a:1", 5, HOSTS_COMMAS, 1, &hosts, error));
    ck_assert_str_eq(error, "\"a:1\": the host is listed twice");
    ck_assert(!hosts_parse("a:1,a", 5, HOSTS_COMMAS, 1, &hosts, error));
    ck_assert_str_eq(error, "\"a\": the host is listed twice");
}
END_TEST

START_TEST(hosts_parse_nul_byte_is_refused)
{
    struct hosts hosts = {0};
    char error[HOSTS_ERROR_MAX];

    ck_assert(!hosts_parse("a\0b:1", 5, HOSTS_LINES, 0, &hosts, error));
    ck_assert_str_eq(error, "line 1: \"a?b:1\": a name of a host has letters, "
                            "digits, '.', '_', '-'");
}
END_TEST

START_TEST(hosts_parse_long_garbage_is_cut)
{
    struct hosts hosts = {0};
    char text[5000], error[HOSTS_ERROR_MAX];

    memset(text, '!', sizeof(text));
    ck_assert(!hosts_parse(text, sizeof(text), HOSTS_LINES, 0, &hosts, error));
    ck_assert_uint_lt(strlen(error), HOSTS_ERROR_MAX);
    ck_assert_ptr_nonnull(strstr(error, "!...\""));
}
END_TEST

START_TEST(hosts_parse_too_many_hosts_is_refused)
{
    static char text[(HOSTS_MAX + 1) * 10];
    struct hosts hosts = {0};
    struct hosts_index index;
    char error[HOSTS_ERROR_MAX];
    size_t n = 0;

    for (int i = 0; i < HOSTS_MAX; i++)
        n += (size_t)sprintf(text + n, "h%d:1\n", i);
    ck_assert(hosts_parse(text, n, HOSTS_LINES, 0, &hosts, error));
    ck_assert_uint_eq(hosts.n, HOSTS_MAX);
    hosts_index_init(&index, &hosts);
    ck_assert_int_eq(hosts_index_find(&index, "h16383"), 16383);
    ck_assert_int_eq(hosts_index_find(&index, "h16384"), -1);
    hosts_index_fini(&index);
    n += (size_t)sprintf(text + n, "more:1\n");
    ck_assert(!hosts_parse(text, n, HOSTS_LINES, 0, &hosts, error));
    ck_assert_str_eq(error, "more than 16384 hosts");
    hosts_fini(&hosts);
}
END_TEST

START_TEST(D11_order_available_hosts)
{
    struct hosts previous = parse("a:1\nb:1\nc:1", HOSTS_LINES, 0);
    struct hosts available = parse("d:1\nc:2\nb:1", HOSTS_LINES, 0);

    ck_assert(hosts_order(&previous, &available));
    ck_assert_str_eq(show(&available), "b:1 c:2 d:1");
    hosts_fini(&previous);
    hosts_fini(&available);
}
END_TEST

START_TEST(hosts_order_new_hosts_keep_the_order_of_the_text)
{
    struct hosts previous = {0};
    struct hosts available = parse("z:1\ny:1\nx:1", HOSTS_LINES, 0);

    ck_assert(hosts_order(&previous, &available));
    ck_assert_str_eq(show(&available), "z:1 y:1 x:1");
    hosts_fini(&available);
}
END_TEST

/* Flags: 1 removed, 2 added. D10: each of three changes is told, whether or not
 * there are enough slots; D12: added, added, removed, mixed, none. */
static const struct {
    const char *before, *after;
    unsigned flags;
} diffs[] = {
    {"", "", 0},
    {"a:2", "a:2", 0},
    {"a:2\nb:1", "b:1\na:2", 0},
    {"", "a:2", 2},
    {"a:2", "", 1},
    {"a:2", "a:4", 2},
    {"a:2", "a:1", 1},
    {"a:2\nb:2", "a:4\nb:1", 3},
    {"a:2\nb:2", "a:2\nc:2", 3},
    {"a:2\nb:2", "a:3", 3},
};

START_TEST(hosts_diff_tells_removed_and_added)
{
    struct hosts before = parse(diffs[_i].before, HOSTS_LINES, 0);
    struct hosts after = parse(diffs[_i].after, HOSTS_LINES, 0);

    ck_assert_uint_eq(hosts_diff(&before, &after), diffs[_i].flags);
    hosts_fini(&before);
    hosts_fini(&after);
}
END_TEST

/* One poll after another, as the driver does: order, compare, replace. */
static unsigned update(struct hosts *current, const char *text)
{
    struct hosts next = parse(text, HOSTS_LINES, 0);
    unsigned flags;

    ck_assert(hosts_order(current, &next));
    flags = hosts_diff(current, &next);
    hosts_fini(current);
    *current = next;
    return flags;
}

START_TEST(D10_send_notifications_without_assignments_flags)
{
    struct hosts current = {0};

    ck_assert_uint_eq(update(&current, "a:8\nb:4"), 2);
    ck_assert_uint_eq(update(&current, "a:1"), 1); /* below any minimum */
    ck_assert_uint_eq(update(&current, "a:1\nb:4"), 2);
    ck_assert_uint_eq(update(&current, "b:4\nc:4"), 3);
    hosts_fini(&current);
}
END_TEST

START_TEST(D12_update_available_hosts)
{
    struct hosts current = {0}, snapshot = {0};

    ck_assert_uint_eq(update(&current, "a:2"), 2);
    ck_assert(hosts_copy(&current, &snapshot));
    ck_assert_uint_eq(update(&current, "a:2\nb:2"), 2);
    ck_assert_uint_eq(update(&current, "b:2"), 1);
    ck_assert_uint_eq(update(&current, "b:1\nc:2"), 3);
    ck_assert_uint_eq(update(&current, "c:2\nb:1"), 0);
    ck_assert_str_eq(show(&current), "b:1 c:2");
    ck_assert_str_eq(show(&snapshot), "a:2");
    hosts_fini(&snapshot);
    hosts_fini(&current);
}
END_TEST

START_TEST(hosts_copy_of_an_empty_list_is_empty)
{
    struct hosts none = {0}, copy = parse("a:1", HOSTS_LINES, 0);
    struct hosts_index index;

    ck_assert(hosts_copy(&none, &copy));
    ck_assert_uint_eq(copy.n, 0);
    hosts_index_init(&index, &copy);
    ck_assert_int_eq(hosts_index_find(&index, "a"), -1);
    hosts_index_fini(&index);
    hosts_fini(&copy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hosts");
    TCase *tcase = tcase_create("hosts");

    tcase_add_loop_test(tcase, hosts_parse_good_text_lists_hosts, 0,
                        (int)(sizeof(good) / sizeof(good[0])));
    tcase_add_loop_test(tcase, hosts_parse_bad_text_names_the_line, 0,
                        (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(tcase, hosts_parse_skips_bad_lines_of_a_script, 0,
                        (int)(sizeof(skipped) / sizeof(skipped[0])));
    tcase_add_test(tcase, hosts_parse_adds_up_to_a_bound);
    tcase_add_test(tcase, hosts_parse_nul_byte_is_refused);
    tcase_add_test(tcase, hosts_parse_long_garbage_is_cut);
    tcase_add_test(tcase, hosts_parse_too_many_hosts_is_refused);
    tcase_add_test(tcase, D11_order_available_hosts);
    tcase_add_test(tcase, hosts_order_new_hosts_keep_the_order_of_the_text);
    tcase_add_loop_test(tcase, hosts_diff_tells_removed_and_added, 0,
                        (int)(sizeof(diffs) / sizeof(diffs[0])));
    tcase_add_test(tcase, D10_send_notifications_without_assignments_flags);
    tcase_add_test(tcase, D12_update_available_hosts);
    tcase_add_test(tcase, hosts_copy_of_an_empty_list_is_empty);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
