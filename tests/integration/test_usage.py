"""test_usage - bad input: each a one-line error that names it. Exit status 2
for the command line and for files that can be checked before the start, 1 after
it.
"""
import os
import socket
import sys

from harness import check, equal, jobs, main, scenario


def refused(stage, culprit, *arguments):
    """Exit status 2 and one line on stderr with the culprit's name."""
    status, out, err = stage.command(*arguments)
    equal(status, 2, "exit status")
    equal(out, "", "stdout")
    equal(len(err.splitlines()), 1, "lines on stderr (%r)" % err)
    check(err.startswith("hvd-elastic: ") and culprit in err,
          "%r does not name %r" % (err, culprit))


def fails(run, *culprits):
    """Exit status 1; the last line of stderr, without details, says it all."""
    verdict = run.ends(1)
    check(verdict.startswith("hvd-elastic: "), "last line:", verdict)
    for culprit in culprits:
        check(culprit in verdict, "%r does not name %r" % (verdict, culprit))


# ---- before the start -------------------------------------------------------

@scenario
def no_program(stage):
    refused(stage, "program", "-np", "2")
    refused(stage, "program", "-np", "2", "--")
    refused(stage, "program")


@scenario
def unknown_option(stage):
    refused(stage, "--wat", "-np", "2", "--wat", "true")
    refused(stage, "-q", "-q", "true")


@scenario
def variable_of_workers_with_a_bad_value(stage):
    for name, value in (("HVD_TRANSPORT", "udp"), ("HVD_AUTOTUNE", "yes"),
                        ("HVD_FUSION_THRESHOLD", "much"),
                        ("HVD_VERIFY_STATE", "never")):
        for given in ({name: value}, {}):
            options = () if given else ("-x", "%s=%s" % (name, value))
            status, _, err = stage.command("-np", "1", *options, "true",
                                           **given)
            equal(status, 1, "exit status")
            check('hvd-elastic: %s: "%s" is no' % (name, value) in err, err)
            check("worker 1" not in err, err)


@scenario
def option_without_its_value(stage):
    refused(stage, "--min-np", "--min-np")


@scenario
def option_with_a_bad_value(stage):
    refused(stage, "--min-np", "--min-np", "many", "true")
    refused(stage, "--num-proc", "-np", "0", "true")
    refused(stage, "--num-proc", "-np", "-3", "true")
    refused(stage, "--elastic-timeout", "-np", "1", "--elastic-timeout", "x",
            "true")
    refused(stage, "--log-level", "-np", "1", "--log-level", "loud", "true")
    refused(stage, "--blacklist-cooldown-range", "-np", "1",
            "--blacklist-cooldown-range", "9", "3", "true")
    refused(stage, "--launcher", "-np", "1", "--launcher", "rsh", "true")


@scenario
def counts_that_contradict_each_other(stage):
    refused(stage, "--min-np 5", "--min-np", "5", "--max-np", "4", "true")
    refused(stage, "-np 2", "-np", "2", "--min-np", "3", "true")
    refused(stage, "-np 5", "-np", "5", "--max-np", "4", "true")
    refused(stage, "-np 5", "-np", "5", "-H", "localhost:4", "true")


@scenario
def hosts_that_contradict_each_other(stage):
    script = stage.file("hosts.sh", "#!/bin/sh\n")
    refused(stage, "-H", "-H", "localhost:1", "--host-discovery-script",
            script, "true")


@scenario
def bad_hosts(stage):
    refused(stage, "localhost:x", "-H", "localhost:x", "true")
    refused(stage, "a:1:2", "-H", "a:1:2", "true")
    path = stage.file("hosts", "localhost slots=2\nlocalhost slots=many\n")
    refused(stage, path, "--hostfile", path, "true")
    refused(stage, "/nowhere/hosts", "--hostfile", "/nowhere/hosts", "true")


@scenario
def host_that_is_not_this_machine(stage):
    refused(stage, "elsewhere.invalid", "--launcher", "local", "-H",
            "elsewhere.invalid:2", "true")


@scenario
def script_missing(stage):
    refused(stage, "/nowhere/hosts.sh", "-np", "1", "--host-discovery-script",
            "/nowhere/hosts.sh", "true")


@scenario
def script_not_executable(stage):
    path = stage.file("hosts.sh", "#!/bin/sh\n", 0o644)
    refused(stage, path, "-np", "1", "--host-discovery-script", path, "true")
    refused(stage, stage.root, "-np", "1", "--host-discovery-script",
            stage.root, "true")


@scenario
def files_that_cannot_be_written(stage):
    refused(stage, "/nowhere/log", "-np", "1", "--event-log", "/nowhere/log",
            "true")
    path = stage.file("file", "")
    refused(stage, path, "-np", "1", "--output-filename", path, "true")


@scenario
def help_and_version(stage):
    status, out, err = stage.command("--help")
    equal((status, err), (0, ""), "status and stderr of --help")
    check(len(out.splitlines()) <= 50, "--help does not fit one screen")
    for option in ("--version", "--check-build", "--help-env"):
        status, out, err = stage.command(option)
        equal((status, err), (0, ""), "status and stderr of " + option)
        check(out, option, "says nothing")


# ---- after the start --------------------------------------------------------

@scenario
def script_fails_at_first(stage):
    run = stage.start(["-np", "1", "--elastic-timeout", "1"], script="exit 7")
    fails(run, "--elastic-timeout (1 s)", run.script, "7")


@scenario
def script_is_wrong(stage):
    fails(stage.start(["-np", "1"], script="exit 2"), "status 2")


@scenario
def slurm_that_is_not_here_is_named(stage):
    """A container has its variables, and not its programs."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "../../examples/slurm/discover.sh")
    status, _, err = stage.command("-np", "1", "--host-discovery-script",
                                   script, "true", PATH="/nowhere",
                                   SLURM_JOB_ID="7")
    equal(status, 1, "exit status")
    check("scontrol is not in PATH" in err and "-H localhost:N" in err, err)


@scenario
def script_prints_garbage_at_first(stage):
    fails(stage.start(["-np", "1"], script="echo 'what is?'"), "what is?")


@scenario
def script_hangs_at_first(stage):
    run = stage.start(["-np", "1", "--discovery-timeout", "0.3",
                       "--elastic-timeout", "1"], script="exec sleep 1000")
    fails(run, run.script, "0.3 s")


@scenario
def script_lists_another_machine(stage):
    run = stage.start(["-np", "1", "--elastic-timeout", "1"],
                      script="echo elsewhere.invalid:2")
    fails(run, "elsewhere.invalid")


@scenario
def script_prints_nothing_is_no_error(stage):
    """No hosts yet; the job starts when there are some."""
    run = stage.start(["-np", "2"], hosts=[])
    check(run.process.poll() is None, "it has ended")
    run.set_hosts("localhost:2")
    run.whole(2)
    run.allow(3)
    run.ends(0)


@scenario
def never_enough_hosts(stage):
    run = stage.start(["-np", "2", "--elastic-timeout", "4"],
                      hosts=["localhost:1"])
    fails(run, "only 1 of 2 workers", "--elastic-timeout (4 s)")


def free_ports(n):
    """The first of n ports in a row that nobody had a moment ago."""
    for _ in range(1000):
        socks = [socket.socket()]
        try:
            socks[0].bind(("127.0.0.1", 0))
            port = socks[0].getsockname()[1]
            for at in range(port + 1, port + n):
                socks.append(socket.socket())
                socks[-1].bind(("127.0.0.1", at))
            return port
        except (OSError, OverflowError):
            continue
        finally:
            for sock in socks:
                sock.close()
    raise AssertionError("no %d free ports in a row" % n)


@scenario
def data_ports_are_of_the_range(stage):
    low = free_ports(8)
    run = stage.start(["-np", "2", "--data-ports", "%d-%d" % (low, low + 7)],
                      hosts=("localhost:2",))
    run.whole(2)
    run.epoch(0)
    env = jobs.environment_of(run.row(rank=0)["pid"])
    check(b"HVD_DATA_PORTS=%d-%d" % (low, low + 7) in env, "range not told")
    run.allow(4)
    run.ends(0)


@scenario
def data_ports_are_all_taken(stage):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = stage.start(["-np", "1", "--slot-restarts", "0",
                           "-H", "localhost:1", "--elastic-timeout", "6",
                           "--data-ports", "%d-%d" % (port, port)])
        run.says("HVD_ADDRESS=127.0.0.1: each data port from %d to %d is taken "
                 "on 127.0.0.1" % (port, port))
        run.ends(1)


@scenario
def program_does_not_exist(stage):
    fails(stage.start(["-np", "2"], ["/nowhere/train"]), "/nowhere/train")
    fails(stage.start(["-np", "2"], ["no-such-program"]), "no-such-program")


@scenario
def program_not_executable(stage):
    path = stage.file("train", "#!/bin/sh\n", 0o644)
    fails(stage.start(["-np", "2"], [path]), path)


@scenario
def program_crashes_at_once_on_all_slots(stage):
    run = stage.start(["-np", "2", "-H", "localhost:1,127.0.0.2:1",
                       "--slot-restarts", "1"], ["sh", "-c", "exit 3"])
    fails(run, "exited with status 3")
    equal(len(run.seen("worker_spawned")), 4, "attempts")


@scenario
def program_is_killed_at_once(stage):
    run = stage.start(["-np", "1", "--slot-restarts", "0"],
                      ["sh", "-c", "kill -SEGV $$"])
    fails(run, "SIGSEGV")


@scenario
def program_never_calls_the_library(stage):
    """It ends well, but nobody trained: not a success."""
    run = stage.start(["-np", "1", "--slot-restarts", "0"], ["true"])
    fails(run, "status 0")


@scenario
def program_never_becomes_ready(stage):
    run = stage.start(["-np", "1", "--slot-restarts", "0", "--start-timeout",
                       "0.5"], ["sleep", "1000"])
    fails(run, "--start-timeout")


@scenario
def program_hangs_before_its_training(stage):
    run = stage.start(["-np", "1", "--slot-restarts", "0", "--start-timeout",
                       "0.5"], ("--hang-at-start",))
    fails(run, "was not ready to train within --start-timeout")


@scenario
def layouts_differ(stage):
    """Both layouts are named; the job ends, nothing is restarted."""
    run = stage.start(["-np", "2", "-H", "localhost:1,127.0.0.2:1"],
                      ("--odd-host", "127.0.0.2"))
    fails(run, "layout", "odd", "model")
    equal(len(run.seen("worker_spawned")), 2, "attempts")
    told = [line for line in run.lines if "<stderr>:trainer: state layout" in
            line]
    check(told and all("{model shared}" in line and
                       "{model shared, odd shared}" in line for line in told),
          run.lines)


if __name__ == "__main__":
    sys.exit(main())
