/* tests/driver/test_options.c - the command line, as a table: what is typed and
 * what comes of it: the values, or the exit status and the one line. */
#include <hvd/version.h>

#include "driver/options_typed.h"

/* The counts, hosts and program in one line. */
static const char *show(void)
{
    static char text[TEXT_MAX];
    size_t n = (size_t)snprintf(text, sizeof(text), "%u/%u/%u ", o.np, o.min_np,
                                o.max_np);

    for (size_t i = 0; i < o.hosts.n; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s:%u ",
                              o.hosts.items[i].name, o.hosts.items[i].slots);
    for (int i = 0; i < o.n_program; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "[%s]", o.program[i]);
    ck_assert_ptr_null(o.program[o.n_program]);
    return text;
}

static const struct {
    const char *words, *expected; /* np/min/max hosts program */
} good[] = {
    {"-np 2 prog", "2/2/2 localhost:2 [prog]"},
    {"--num-proc 2 prog", "2/2/2 localhost:2 [prog]"},
    {"--num-proc=2 -- prog", "2/2/2 localhost:2 [prog]"},
    {"-np 2 prog -np 3 --help", "2/2/2 localhost:2 [prog][-np][3][--help]"},
    {"-np 2 -- prog -- -x", "2/2/2 localhost:2 [prog][--][-x]"},
    {"-np 2 -- --prog", "2/2/2 localhost:2 [--prog]"},
    {"--min-np 2 prog", "2/2/0 localhost:2 [prog]"},
    {"-np 3 --min-np 2 --max-np 4 prog", "3/2/4 localhost:3 [prog]"},
    {"-np 3 --min-num-proc 2 --max-num-proc 4 prog",
     "3/2/4 localhost:3 [prog]"},
    {"-H localhost:2,127.0.0.2:3 prog", "5/5/5 localhost:2 127.0.0.2:3 [prog]"},
    {"--hosts localhost:4 --max-np 3 --min-np 1 prog",
     "3/1/3 localhost:4 [prog]"},
    {"-H localhost,127.0.0.2 prog", "2/2/2 localhost:1 127.0.0.2:1 [prog]"},
    {"-H localhost --slots-per-host 4 prog", "4/4/4 localhost:4 [prog]"},
    {"--hostfile hosts prog", "3/3/3 localhost:3 [prog]"},
    {"-hostfile hosts prog", "3/3/3 localhost:3 [prog]"},
    {"--host-discovery-script ok.sh -np 2 prog", "2/2/0 [prog]"},
    {"--host-discovery-script ./ok.sh --min-np 2 --max-np 8 prog",
     "2/2/8 [prog]"},
    {"--min 2 --host-d ok.sh prog", "2/2/0 [prog]"}, /* abbreviated */
};

START_TEST(options_good_line_is_understood)
{
    ck_assert_msg(parse(good[_i].words), "%s: %s", good[_i].words, err);
    ck_assert_str_eq(show(), good[_i].expected);
    ck_assert_str_eq(err, "");
    options_fini(&o);
}
END_TEST

static const struct {
    const char *words, *sentence;
} bad[] = {
    {"", "no program to run (see --help)"},
    {"-np 2", "no program to run (see --help)"},
    {"-np 2 --", "no program to run (see --help)"},
    {"prog", "-np is missing: how many workers?"},
    {"prog -np 2", "-np is missing: options go before the program, and \"-np\" "
                   "stands behind \"prog\""},
    {"--host-discovery-script ok.sh prog a --min-np=2",
     "-np is missing: options go before the program, and \"--min-np=2\" stands "
     "behind \"prog\""},
    {"prog -npx --np 2", "-np is missing: how many workers?"},
    {"--host-discovery-script ok.sh prog",
     "-np (or --min-np) is needed with --host-discovery-script"},
    {"--nope prog", "unknown option --nope (see --help)"},
    {"--nope=3 prog", "unknown option --nope=3 (see --help)"},
    {"-y prog", "unknown option -y (see --help)"},
    {"-n2 prog", "-n2 is no option: did you mean -np? (see --help)"},
    {"--np 2 prog", "--np is no option: did you mean -np? (see --help)"},
    {"--nproc 2 prog", "--nproc is no option: did you mean -np? (see --help)"},
    {"--num-procs=2 prog",
     "--num-procs=2 is no option: did you mean -np? (see --help)"},
    {"--nproc_per_node=2 prog",
     "--nproc_per_node=2 is no option: did you mean -np, or -H HOST:SLOTS? "
     "(see --help)"},
    {"--max-nnp 2 prog",
     "--max-nnp is no option: did you mean --max-np? (see --help)"},
    {"--min_np 2 prog",
     "--min_np is no option: did you mean --min-np? (see --help)"},
    {"--log_dir d prog",
     "--log_dir is no option: did you mean --output-filename? (see --help)"},
    {"--discovery-script s prog", "--discovery-script is no option: did you "
                                  "mean --host-discovery-script? (see --help)"},
    {"--host a prog", "--host is no option: did you mean -H? (see --help)"},
    {"-host a:1 prog", "-host is no option: did you mean -H? (see --help)"},
    {"-hosts a:1 prog",
     "-hosts is no option: did you mean --hosts? (see --help)"},
    {"-verbose -np 1 prog",
     "-verbose is no option: did you mean --verbose? (see --help)"},
    {"--verbose -vvv prog",
     "-vvv is no option: did you mean --verbose? (see --help)"},
    {"-pernode prog",
     "-pernode is no option: did you mean -H HOST:1? (see --help)"},
    {"-np 2 -ppn 2 prog",
     "-ppn is no option: did you mean -H HOST:SLOTS? (see --help)"},
    {"-iface eth0 prog",
     "-iface is no option: did you mean --network-interface? (see --help)"},
    {"-hostfile=hosts prog",
     "-hostfile=hosts is no option: did you mean --hostfile? (see --help)"},
    {"-min-np 2 prog",
     "-min-np is no option: did you mean --min-np? (see --help)"},
    {"-hv prog", "unknown option -hv (see --help)"},
    {"-Hlocalhost:2 prog",
     "-Hlocalhost:2 is no option: did you mean -H HOST:SLOTS,...? "
     "(see --help)"},
    {"-np 1 -p2222 prog",
     "-p2222 is no option: did you mean -p N? (see --help)"},
    {"-np 1 -xA=a_long_value_that_is_not_cut prog",
     "-xA=a_long_value_that_is_not_cut is no option: did you mean "
     "-x NAME[=VALUE]? (see --help)"},
    {"--he prog", "option --he could be several (see --help)"},
    {"--verbose=1 -np 1 prog", "--verbose: takes no value"},
    {"--min-np", "--min-np: a value is missing"},
    {"-H", "-H: a value is missing"},
    {"-np", "--num-proc: a value is missing"},
    {"--min-np x prog", "--min-np: \"x\" is not a number from 1 to 16384"},
    {"--min-np 0 prog", "--min-np: \"0\" is not a number from 1 to 16384"},
    {"--min-np -1 prog", "--min-np: \"-1\" is not a number from 1 to 16384"},
    {"--min-np 2x prog", "--min-np: \"2x\" is not a number from 1 to 16384"},
    {"--min-np '' prog", "--min-np: \"\" is not a number from 1 to 16384"},
    {"--min-np 16385 prog",
     "--min-np: \"16385\" is not a number from 1 to 16384"},
    {"-np 99999999999999999999999 prog",
     "--num-proc: \"99999999999999999999999\" is not a number from 1 to "
     "16384"},
    {"--min-np --max-np 4 prog",
     "--min-np: \"--max-np\" is not a number from 1 to 16384"},
    {"-np 2 --min-np 4 --max-np 2 prog", "--min-np 4 is above --max-np 2"},
    {"-np 2 --min-np 3 prog", "-np 2 is below --min-np 3"},
    {"-np 4 --max-np 3 prog", "-np 4 is above --max-np 3"},
    {"-np 4 -H localhost:3 prog", "-np 4 is more than the 3 slots of -H"},
    {"--min-np 4 -H localhost:3 prog", "-np 3 is below --min-np 4"},
    {"-np 4 --hostfile hosts prog",
     "-np 4 is more than the 3 slots of --hostfile"},
    {"-H localhost:0 prog", "-H: no slots"},
    {"-H '' prog", "-H: no slots"},
    {"-H a:1 -H b:1 prog", "--hosts is given twice, \"a:1\" and \"b:1\": write "
                           "one list, with a comma between hosts"},
    {"--hostfile a --hostfile b prog",
     "--hostfile is given twice, \"a\" and \"b\": write all hosts into one "
     "file"},
    {"--host-discovery-script a --host-discovery-script a prog",
     "--host-discovery-script is given twice, \"a\" and \"a\": one script "
     "prints all hosts"},
    {"--network-interface a --network-interface b prog",
     "--network-interface is given twice, \"a\" and \"b\": write one list, "
     "with commas"},
    {"-np 2 -H a:1 --host-discovery-script ok.sh prog",
     "-H and --host-discovery-script exclude each other"},
    {"-np 2 -H a:1 --hostfile hosts prog",
     "-H and --hostfile exclude each other"},
    {"-np 2 --hostfile hosts --host-discovery-script ok.sh prog",
     "--hostfile and --host-discovery-script exclude each other"},
    {"-np 1 -H localhost:x prog",
     "-H: \"localhost:x\": \"x\" is not a number of slots (0 to 1024)"},
    {"-np 1 --launcher local -H node1:2 prog",
     "-H: host \"node1\" is not this machine, and --launcher local starts "
     "workers only here"},
    {"--launcher local --hostfile far prog",
     "--hostfile: host \"node1\" is not this machine, and --launcher local "
     "starts workers only here"},
    {"--hostfile none prog", "--hostfile: \"none\": No such file or directory"},
    {"--hostfile . prog", "--hostfile: \".\": Is a directory"},
    {"--hostfile bad prog",
     "--hostfile: \"bad\": line 2: \"a:b:c\": \"b:c\" is "
     "not a number of slots (0 to 1024)"},
    {"-np 2 --host-discovery-script none.sh prog",
     "--host-discovery-script: \"none.sh\" does not exist"},
    {"-np 2 --host-discovery-script plain.sh prog",
     "--host-discovery-script: \"plain.sh\" is not executable"},
    {"-np 2 --notice-script none.sh prog",
     "--notice-script: \"none.sh\" does not exist"},
    {"-np 2 --notice-script plain.sh prog",
     "--notice-script: \"plain.sh\" is not executable"},
    {"-np 2 --host-discovery-script . prog",
     "--host-discovery-script: \".\" is a directory"},
    {"-np 2 --elastic-timeout soon prog",
     "--elastic-timeout: \"soon\" is not a number of seconds from 0 to "
     "100000000"},
    {"-np 2 --elastic-timeout 1.2.3 prog",
     "--elastic-timeout: \"1.2.3\" is not a number of seconds from 0 to "
     "100000000"},
    {"-np 2 --discovery-interval 0 prog",
     "--discovery-interval: \"0\" is not a number of seconds from 0.01 to "
     "100000000"},
    {"-np 2 --heartbeat-timeout 1 prog",
     "--heartbeat-timeout 1 is not above --heartbeat-interval 1"},
    {"-np 2 --driver-timeout 2 prog",
     "--driver-timeout 2 is not above twice --heartbeat-interval 1"},
    {"-np 2 --data-ports 0-5 prog",
     "--data-ports: \"0-5\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --data-ports 7-6 prog",
     "--data-ports: \"7-6\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --data-ports 7000 prog",
     "--data-ports: \"7000\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --data-ports 7-65536 prog",
     "--data-ports: \"7-65536\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --data-ports 7--9 prog",
     "--data-ports: \"7--9\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --data-ports 7-9- prog",
     "--data-ports: \"7-9-\" is not LOW-HIGH, two ports from 1 to 65535"},
    {"-np 2 --blacklist-cooldown-range 10 5 prog",
     "--blacklist-cooldown-range: LOW 10 is above HIGH 5"},
    {"-np 2 --blacklist-cooldown-range 10",
     "--blacklist-cooldown-range: needs two values, LOW and HIGH"},
    {"-np 2 --blacklist-cooldown-range 10 prog",
     "--blacklist-cooldown-range: \"prog\" is not a number of seconds from "
     "0.001 to 100000000"},
    {"-np 2 --slot-restarts 33 prog",
     "--slot-restarts: \"33\" is not a number from 0 to 32"},
    {"-np 2 --launcher slurm prog",
     "--launcher slurm: neither SLURM_JOB_ID nor HVD_SLURM_JOB_NAME is set: "
     "not inside salloc or sbatch"},
    {"-np 2 --launcher rocket prog",
     "--launcher: \"rocket\" is no launcher, try auto, local, ssh or slurm"},
    {"-np 2 -p 0 prog", "--ssh-port: \"0\" is not a number from 1 to 65535"},
    {"-np 2 --ssh-port 65536 prog",
     "--ssh-port: \"65536\" is not a number from 1 to 65535"},
    {"-np 2 -i none prog",
     "--ssh-identity-file: \"none\": No such file or directory"},
    {"-np 2 -i . prog", "--ssh-identity-file: \".\" is not a regular file"},
    {"-np 2 --ssh-command none.sh prog",
     "--ssh-command: \"none.sh\" does not exist"},
    {"-np 2 --ssh-command plain.sh prog",
     "--ssh-command: \"plain.sh\" is not executable"},
    {"-np 2 -x =1 prog", "-x: \"=1\" is not NAME or NAME=VALUE"},
    {"-np 2 -x 9A=1 prog", "-x: \"9A=1\" is not NAME or NAME=VALUE"},
    {"-np 2 -x A-B=1 prog", "-x: \"A-B=1\" is not NAME or NAME=VALUE"},
    {"-np 2 --env HVD_HOST=1 prog",
     "-x: HVD_HOST is none of the "
     "HVD_ variables that a user sets (see --help-env)"},
    {"-np 2 -x HVD_ALGORITM=ring prog",
     "-x: HVD_ALGORITM is none of the "
     "HVD_ variables that a user sets (see --help-env)"},
    {"-np 2 -x HVD_SIMD prog", "-x: HVD_SIMD is not set here"},
    {"-np 2 -x UNSET_HERE prog", "-x: UNSET_HERE is not set here"},
    {"-np 2 -H -oProxyCommand=x prog",
     "-H: \"-oProxyCommand=x\": a name of a host does not begin with '-'"},
    {"-np 2 -H -oProxyCommand prog",
     "-H: \"-oProxyCommand\": a name of a host does not begin with '-'"},
    {"-np 2 --log-level loud prog",
     "--log-level: \"loud\" is none of error, warn, info, debug, trace"},
    {"-np 2 --event-log /nowhere/log prog",
     "--event-log: \"/nowhere/log\": No such file or directory"},
    {"-np 2 --event-log . prog", "--event-log: \".\": Is a directory"},
    {"-np 2 --event-log hosts --timeline ./hosts prog",
     "--event-log and --timeline: both are \"hosts\""},
    {"-np 2 --event-log new --timeline ./new prog",
     "--event-log and --timeline: both are \"new\""},
    {"--hostfile hosts --event-log ./hosts prog",
     "--event-log and --hostfile: both are \"./hosts\""},
    {"--hostfile hosts --timeline link prog",
     "--timeline and --hostfile: both are \"link\""},
    {"-np 2 --host-discovery-script ok.sh --event-log ok.sh prog",
     "--event-log and --host-discovery-script: both are \"ok.sh\""},
    {"-np 2 --output-filename hosts/x prog",
     "--output-filename: \"hosts/x\": Not a directory"},
    {"-np 2 --output-filename hosts prog",
     "--output-filename: \"hosts\": Not a directory"},
    {"-np 2 --fusion-threshold 1T prog",
     "--fusion-threshold: \"1T\" is no number of bytes, as 128M, up to 1024G"},
    {"-np 2 --fusion-threshold -1 prog",
     "--fusion-threshold: \"-1\" is no number of bytes, as 128M, up to 1024G"},
    {"-np 2 --verify-state 0 prog",
     "--verify-state: \"0\" is none of first, off or a number of commits, as "
     "100 or 100,warn"},
    {"-np 2 --autotune-log= prog",
     "--autotune-log: \"\" is no path of at most 256 bytes"},
    {"-np 2 --cache-capacity 0 prog",
     "--cache-capacity: \"0\" is no number from 1 to 1000000"},
    {"--resume", "--resume: a value is missing"},
    {"--resume x --standby x", "--resume and --standby exclude each other"},
    {"--resume x -np 2", "--resume takes --num-proc from the job"},
    {"--standby x --job-dir x", "--standby takes --job-dir from the job"},
    {"--resume x --encrypt-data", "--resume takes --encrypt-data from the job"},
    {"--resume x --timeline t", "--resume takes --timeline from the job"},
    {"--resume x prog", "--resume takes the program from the job"},
    {"--take-over -np 2 prog", "--take-over goes with --resume"},
    {"--take-over --standby x", "--take-over goes with --resume"},
    {"--resume auto -np 2 prog", "--resume takes --num-proc from the job"},
    {"--resume auto --job-dir x --standby y",
     "--resume auto and --standby exclude each other"},
};

static const char argv_of_job[] =
    "hvd-elastic\0--num-proc\0"
    "2\0--event-log\0log\0--encrypt-data\0--log-level\0"
    "warn\0--job-dir\0x\0--\0prog\0-x";

START_TEST(options_of_a_successor_are_the_jobs_and_its_own_words)
{
    struct options given;

    ck_assert_msg(parse("--resume x --event-log other --take-over"), "%s", err);
    ck_assert(o.take_over);
    ck_assert_str_eq(o.resume, "x");
    given = o;
    ck_assert(options_inherit(argv_of_job, sizeof(argv_of_job), &given,
                              &(struct hosts){0}, &o, stderr));
    ck_assert_str_eq(show(), "2/2/2 localhost:2 [prog][-x]");
    ck_assert_str_eq(o.event_log, "other");
    ck_assert_int_eq(o.log_level, LOG_LEVEL_WARN);
    ck_assert(o.encrypt_data);
    ck_assert_str_eq(o.job_dir, "x");
    ck_assert_ptr_null(o.resume);
    options_fini(&o);
    options_fini(&given);
}
END_TEST

/* As a running driver does: words are what its successor says on stderr. */
static const struct {
    const char *argv; /* up to an empty word */
    const char *shown, *words;
} inherited[] = {
    {"hvd-elastic\0--hostfile\0gone\0--\0prog\0", "5/5/5 a:2 b:3 [prog]",
     "hvd-elastic: --hostfile: \"gone\": No such file or directory -> the "
     "hosts "
     "of the journal are used\n"},
    {"hvd-elastic\0--hostfile\0/dev/fd/0\0--\0prog\0", "5/5/5 a:2 b:3 [prog]",
     "hvd-elastic: --hostfile: it is no file that can be read again -> the "
     "hosts "
     "of the journal are used\n"},
    {"hvd-elastic\0--hostfile\0bad\0-np\0004\0--\0prog\0",
     "4/4/4 a:2 b:3 [prog]",
     "hvd-elastic: --hostfile: \"bad\": line 2: \"a:b:c\": \"b:c\" is not a "
     "number of slots (0 to 1024) -> the hosts of the journal are used\n"},
    {"hvd-elastic\0--hostfile\0hosts\0--\0prog\0", "3/3/3 localhost:3 [prog]",
     ""},
    {"hvd-elastic\0-np\0001\0--host-discovery-script\0gone.sh\0--\0prog\0",
     "1/1/0 [prog]", ""},
    {"hvd-elastic\0-np\0001\0--notice-script\0gone.sh\0--ssh-command\0gone\0--"
     "\0prog\0",
     "1/1/1 localhost:1 [prog]", ""},
    {"hvd-elastic\0-np\0001\0--event-log\0gone/log\0--timeline\0gone/t\0--"
     "\0prog\0",
     "1/1/1 localhost:1 [prog]", ""},
    {"hvd-elastic\0-np\0001\0--event-log\0/dev/fd/5\0--\0prog\0",
     "1/1/1 localhost:1 [prog]",
     "hvd-elastic: --event-log: \"/dev/fd/5\" was a descriptor of the driver "
     "before -> there is no event log from now on\n"},
    {"hvd-elastic\0-np\0001\0--output-filename\0plain.sh\0--\0prog\0",
     "1/1/1 localhost:1 [prog]",
     "hvd-elastic: --output-filename: \"plain.sh\": Not a directory -> files "
     "are "
     "incomplete until it is there\n"},
};

START_TEST(options_of_a_successor_need_no_files)
{
    struct host items[] = {{.name = "a", .slots = 2},
                           {.name = "b", .slots = 3}};
    struct hosts known = {.items = items, .n = 2, .max = 2};
    FILE *to_err = fmemopen(err, sizeof(err), "w");
    struct options given = {.log_level = LOG_LEVEL_INFO};
    size_t n = 0;

    while (inherited[_i].argv[n])
        n += strlen(inherited[_i].argv + n) + 1;
    ck_assert(
        options_inherit(inherited[_i].argv, n, &given, &known, &o, to_err));
    fclose(to_err);
    ck_assert_str_eq(show(), inherited[_i].shown);
    ck_assert_str_eq(err, inherited[_i].words);
    options_fini(&o);
}
END_TEST

static const char argv_of_auto[] = "hvd-elastic\0--job-dir\0x\0--resume\0"
                                   "auto\0-np\0"
                                   "2\0prog";

/* "auto" is a directory, unless --job-dir names one. */
START_TEST(options_auto_begins_or_resumes)
{
    struct options given = {.log_level = LOG_LEVEL_INFO};

    ck_assert(parse("--resume auto"));
    ck_assert(!o.resume_auto);
    ck_assert_str_eq(o.resume, "auto");
    options_fini(&o);
    ck_assert_msg(parse("--job-dir x --resume auto --take-over -np 2 prog"),
                  "%s", err);
    ck_assert(o.resume_auto && o.take_over);
    ck_assert_ptr_null(o.resume);
    ck_assert_str_eq(show(), "2/2/2 localhost:2 [prog]");
    options_fini(&o);
    ck_assert(options_inherit(argv_of_auto, sizeof(argv_of_auto), &given,
                              &(struct hosts){0}, &o, stderr));
    ck_assert_str_eq(show(), "2/2/2 localhost:2 [prog]");
    options_fini(&o);
}
END_TEST

START_TEST(options_bad_line_is_one_sentence_and_exit_2)
{
    char expected[TEXT_MAX];

    snprintf(expected, sizeof(expected), "hvd-elastic: %s\n", bad[_i].sentence);
    ck_assert_msg(!parse(bad[_i].words), "accepted: %s", bad[_i].words);
    ck_assert_str_eq(err, expected);
    ck_assert_str_eq(out, "");
    ck_assert_int_eq(exit_status, 2);
}
END_TEST

START_TEST(options_defaults_are_those_of_the_help)
{
    ck_assert(parse("-np 1 prog"));
    ck_assert_uint_eq(o.slots_per_host, 1);
    ck_assert_uint_eq(o.discovery_interval_us, 1000000);
    ck_assert_uint_eq(o.discovery_timeout_us, 10000000);
    ck_assert_uint_eq(o.elastic_timeout_us, 600000000);
    ck_assert_uint_eq(o.start_timeout_us, 300000000);
    ck_assert_uint_eq(o.drain_timeout_us, 30000000);
    ck_assert_uint_eq(o.exit_timeout_us, 3600000000);
    ck_assert_uint_eq(o.commit_timeout_us, 3600000000);
    ck_assert_uint_eq(o.heartbeat_interval_us, 1000000);
    ck_assert_uint_eq(o.heartbeat_timeout_us, 2000000);
    ck_assert_uint_eq(o.hang_timeout_us, 0);
    ck_assert_uint_eq(o.stall_check_us, 60000000);
    ck_assert_uint_eq(o.stall_shutdown_us, 0);
    ck_assert_uint_eq(o.driver_timeout_us, 600000000);
    ck_assert_int_eq(o.reset_limit, -1);
    ck_assert_uint_eq(o.slot_restarts, 3);
    ck_assert(!o.strict_blacklist && o.blacklist.cooldown && !o.timestamps);
    ck_assert_uint_eq(o.blacklist.low_us, 10000000);
    ck_assert_uint_eq(o.blacklist.high_us, 600000000);
    ck_assert(!o.encrypt_data);
    ck_assert_ptr_null(o.script);
    ck_assert_ptr_null(o.output_dir);
    ck_assert_ptr_null(o.event_log);
    ck_assert_int_eq(o.log_level, LOG_LEVEL_INFO);
    options_fini(&o);
}
END_TEST

START_TEST(options_say_how_agents_are_started)
{
    ck_assert(parse("-np 1 prog"));
    ck_assert_int_eq(o.launcher, LAUNCHER_AUTO);
    ck_assert_uint_eq(o.ssh_port, 0);
    ck_assert_ptr_null(o.ssh_identity_file);
    ck_assert_ptr_null(o.ssh_command);
    ck_assert_uint_eq(o.n_env, 0);
    options_fini(&o);
    ck_assert(parse("-H node1:2,10.0.0.1:1 --launcher ssh -p 2222 -i hosts "
                    "--ssh-command ok.sh -x A=1=2 --env PATH -x _b= prog -x"));
    ck_assert_str_eq(show(), "3/3/3 node1:2 10.0.0.1:1 [prog][-x]");
    ck_assert_int_eq(o.launcher, LAUNCHER_SSH);
    ck_assert_uint_eq(o.ssh_port, 2222);
    ck_assert_str_eq(o.ssh_identity_file, "hosts");
    ck_assert_str_eq(o.ssh_command, "ok.sh");
    ck_assert_uint_eq(o.n_env, 3);
    ck_assert_str_eq(o.env[0], "A=1=2");
    ck_assert_str_eq(o.env[1], "PATH");
    ck_assert_str_eq(o.env[2], "_b=");
    options_fini(&o);
}
END_TEST

START_TEST(options_take_knobs_for_workers)
{
    ck_assert_msg(parse("-np 1 -x HVD_LOG_LEVEL=debug -x HVD_ALGORITHM=ring "
                        "-x HVD_TRANSPORT=tcp -x HVD_NCCL_LIBRARY=/x prog"),
                  "%s", err);
    ck_assert_uint_eq(o.n_env, 4);
    ck_assert_str_eq(o.env[0], "HVD_LOG_LEVEL=debug");
    ck_assert_str_eq(o.env[3], "HVD_NCCL_LIBRARY=/x");
    options_fini(&o);
}
END_TEST

START_TEST(options_times_take_fractions)
{
    ck_assert(parse("-np 1 --elastic-timeout 0.5 --start-timeout 2.25 "
                    "--drain-timeout 0 --hang-timeout 60 "
                    "--heartbeat-interval .1 --heartbeat-timeout 1 "
                    "--discovery-interval 0.05 --discovery-timeout 3 prog"));
    ck_assert_uint_eq(o.elastic_timeout_us, 500000);
    ck_assert_uint_eq(o.start_timeout_us, 2250000);
    ck_assert_uint_eq(o.drain_timeout_us, 0);
    ck_assert_uint_eq(o.hang_timeout_us, 60000000);
    ck_assert_uint_eq(o.heartbeat_interval_us, 100000);
    ck_assert_uint_eq(o.heartbeat_timeout_us, 1000000);
    ck_assert_uint_eq(o.discovery_interval_us, 50000);
    ck_assert_uint_eq(o.discovery_timeout_us, 3000000);
    options_fini(&o);
}
END_TEST

START_TEST(options_strict_blacklist_is_for_good)
{
    ck_assert(parse("-np 1 --strict-blacklist prog x"));
    ck_assert(!o.blacklist.cooldown);
    options_fini(&o);
}
END_TEST

START_TEST(options_blacklist_takes_two_values)
{
    ck_assert(parse("--blacklist-cooldown-range 10 100.5 -np 1 "
                    "--strict-blacklist --slot-restarts 0 --reset-limit 0 "
                    "prog x"));
    ck_assert(o.blacklist.cooldown && o.strict_blacklist);
    ck_assert_uint_eq(o.blacklist.low_us, 10000000);
    ck_assert_uint_eq(o.blacklist.high_us, 100500000);
    ck_assert_uint_eq(o.slot_restarts, 0);
    ck_assert_int_eq(o.reset_limit, 0);
    ck_assert_str_eq(show(), "1/1/1 localhost:1 [prog][x]");
    options_fini(&o);
}
END_TEST

START_TEST(options_help_fits_one_screen)
{
    size_t n_lines = 0;

    ck_assert(!parse("--help"));
    ck_assert_int_eq(exit_status, 0);
    ck_assert_str_eq(err, "");
    for (char *at = out; *at; n_lines++) {
        size_t n = strcspn(at, "\n");

        ck_assert_msg(n <= 80, "wider than 80: %.*s", (int)n, at);
        at += n + 1;
    }
    ck_assert_uint_le(n_lines, 50);
    ck_assert_ptr_nonnull(strstr(out, "  -np, --num-proc N  "));
    ck_assert_ptr_nonnull(strstr(out, "  -H, --hosts HOST:SLOTS,...  "));
}
END_TEST

START_TEST(options_information_leaves_with_0)
{
    static const struct {
        const char *words, *expected;
    } cases[] = {
        {"--version", "hvd-elastic " HVD_VERSION "\n"},
        {"-v", "hvd-elastic " HVD_VERSION "\n"},
        {"-h", "usage: hvd-elastic [options] [--] program"},
        {"-np 2 --help prog", "usage: hvd-elastic [options] [--] program"},
        {"--help-env", "  HVD_SLOT "},
        {"--check-build", "launchers:   local, ssh, slurm\n"},
        {"-cb", "launchers:   local, ssh, slurm\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert(!parse(cases[i].words));
        ck_assert_int_eq(exit_status, 0);
        ck_assert_ptr_nonnull(strstr(out, cases[i].expected));
        ck_assert_str_eq(err, "");
    }
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("options");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, options_good_line_is_understood, 0, N(good));
    tcase_add_loop_test(tcase, options_bad_line_is_one_sentence_and_exit_2, 0,
                        N(bad));
    tcase_add_test(tcase,
                   options_of_a_successor_are_the_jobs_and_its_own_words);
    tcase_add_test(tcase, options_auto_begins_or_resumes);
    tcase_add_loop_test(tcase, options_of_a_successor_need_no_files, 0,
                        N(inherited));
    tcase_add_test(tcase, options_defaults_are_those_of_the_help);
    tcase_add_test(tcase, options_times_take_fractions);
    tcase_add_test(tcase, options_say_how_agents_are_started);
    tcase_add_test(tcase, options_take_knobs_for_workers);
    tcase_add_test(tcase, options_blacklist_takes_two_values);
    tcase_add_test(tcase, options_strict_blacklist_is_for_good);
    tcase_add_test(tcase, options_help_fits_one_screen);
    tcase_add_test(tcase, options_information_leaves_with_0);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
