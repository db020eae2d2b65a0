"""test_stages - the stages of scripts/test, which says what they are for."""
import argparse
import os
import re
import shutil
import subprocess
import sys

import stages
from stages import Stage

GPL = "/usr/share/common-licenses/GPL-3"
PLAIN = "build (warnings are errors)"
WHICHEVER = ("front", "back")
SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}


def build(directory, *options, **environment):
    """Set up or reconfigure, then compile."""
    setup = ["configure"] if os.path.exists(
        os.path.join(directory, "build.ninja")) else ["setup"]
    return {"command": ["sh", "-ec", 'd=$1; shift; meson "$@"; ninja -C "$d"',
                        "sh", directory, *setup, directory, *options],
            "environment": environment}


def count_tests(log):
    """A judge of `meson test`, by the log that it writes."""
    def judge(status, output):
        if status == 0 and "No suitable tests" in output:
            return 0, 0, 0, ""
        done = subprocess.run(["scripts/testlog", log], capture_output=True,
                              text=True, check=False)
        if done.returncode:
            return 0, 1, 0, done.stderr + "\n".join(
                output.splitlines()[-stages.TAIL:])
        *text, last = done.stdout.splitlines()
        passed, failed, skipped = map(int, last.split())
        # the tests that a time-out kept from running are in no log
        if status and not failed:
            failed = 1
            text.append(output.splitlines()[-1])
        return passed, failed, skipped, "\n".join(text)
    return judge


def tests(name, directory, limit_s, lane, needs, options, logbase, prefix=()):
    """The tests of a build that these options choose."""
    log = os.path.join(directory, "meson-logs", logbase + ".json")
    if os.path.exists(log):
        os.remove(log)
    return Stage("%s in %s" % (name, directory),
                 [*prefix, "meson", "test", "-C", directory, "--no-rebuild",
                  "--logbase", logbase, *options],
                 limit_s, lane, needs, count_tests(log))


def both(directory, limit_s, needs, options, only, prefix=(), lane="front"):
    """Tests of modules, of jobs, and those that hardly compute."""
    if only:
        return [tests("tests of " + only, directory, limit_s, "front", needs,
                      [*options, "--suite", only], "only", prefix)]
    return [tests("tests of modules", directory, limit_s, "back", needs,
                  [*options, "--no-suite", "integration", "--no-suite",
                   "cluster", "--no-suite", "waits"], "modules", prefix),
            tests("tests that wait", directory, limit_s, "waits", needs,
                  [*options, "--num-processes", "2", "--suite", "waits"],
                  "waits", prefix),
            tests("tests of jobs", directory, limit_s, lane, needs,
                  [*options, "--suite", "integration", "--no-suite", "waits"],
                  "jobs", prefix)]


def checks(status, output):
    """A judge of scripts/check."""
    found = re.search(r"^check: (\d+) passed, (\d+) failed$", output, re.M)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    return passed, failed or int(status != 0), 0, output.rstrip()


def built_with(name):
    return "build with sanitizers: " + SANITIZERS[name]


def sanitized(only):
    options = ["--timeout-multiplier", "4"]
    # The thread sanitizer of gcc 12 cannot place its shadow under the address
    # randomisation of newer kernels.
    fixed = ["setarch", os.uname().machine, "-R"]
    if subprocess.run([*fixed, "true"], check=False,
                      capture_output=True).returncode:
        fixed = []
    # -g1: a report names functions and lines, and no more is compiled
    for name, flags in SANITIZERS.items():
        yield Stage(built_with(name), limit_s=900, lane="back",
                    needs=[PLAIN], **build(
            "build-" + name, "-Dbench=false", "-Doptimization=1",
            "-Ddebug=false", "-Dc_args=-g1", "-Db_sanitize=" + flags))
    yield from both("build-asan", 1200, [built_with("asan")], options, only)
    # by whichever lane is through first
    yield from both("build-tsan", 1200, [built_with("tsan")], options, only,
                    fixed, lane=WHICHEVER)


def demonstrations():
    """By whichever lane is through first."""
    day = ["python3", "-B", "scripts/demo_day.py", "--short"]
    for name, limit_s, command in (
            ("chaos: 20 recoveries", 300, ["scripts/chaos", "--runs", "20"]),
            ("chaos: 5 recoveries of jobs on devices", 300,
             ["scripts/chaos", "--devices", "--runs", "5"]),
            ("the demo's day", 200, [*day, GPL]),
            ("the demo's day on devices", 200, [*day, "--devices", GPL])):
        yield Stage(name, command, limit_s, WHICHEVER, [PLAIN])


def everything(quick, only):
    yield Stage(PLAIN, limit_s=900, **build("build", "-Dwerror=true"))
    # limits end what hangs: a busy machine must not reach them
    yield from both("build", 1200, [PLAIN],
                    ["--timeout-multiplier", "2",
                     *(["--no-suite", "slow"] if quick else [])], only)
    if not quick and not only:
        yield tests("cluster: hosts with sshd", "build", 600, "front", [PLAIN],
                    ["--timeout-multiplier", "2", "--suite", "cluster"],
                    "cluster")
    if not quick:
        for stage in sanitized(only):
            yield stage
    if not quick and shutil.which("clang"):
        yield Stage("compile with clang", limit_s=600, lane="back",
                    needs=[PLAIN], **build(
            "build-clang", "-Dwerror=true", "-Doptimization=0",
            "-Dnccl=disabled",
            "-Ddebug=false", CC="clang"))
    if not only:
        yield Stage("install, and build an outside program",
                    ["scripts/check-install", "build"], 120, needs=[PLAIN])
        yield Stage("check", ["scripts/check", "build"], 300, "back", [PLAIN],
                    checks)
    if not quick and not only:
        yield from demonstrations()


def main():
    parser = argparse.ArgumentParser(prog="test", usage="see --help")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", metavar="SUITE")
    options = parser.parse_args()
    return stages.main(everything(options.quick, options.only))


if __name__ == "__main__":
    sys.exit(main())
