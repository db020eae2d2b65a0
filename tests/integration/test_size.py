"""test_size - what the driver has to do with much that is of no use to it: more
hosts than it will ever need, a discovery script that cannot be killed.

Memory by /proc, CPU by what a run of discovery costs: how long anything takes is
of no interest here.
"""
import os
import subprocess

from harness import (LOCAL, OTHER, PATIENCE_S, SLOW, alone, check, equal, jobs,
                     main, scenario)

HOSTS, SLOTS = 4096, 8
RUNS = 20


def fields(pid, name):
    with open("/proc/%d/%s" % (pid, name), encoding="ascii") as file:
        return file.read()


def cpu_s(pid):
    words = fields(pid, "stat").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid):
    for line in fields(pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise jobs.Timeout("no VmHWM in /proc")


def n_runs(run):
    """How often discovery has been asked, since it is counted."""
    asked = os.path.join(run.directory, "asked")
    return os.path.getsize(asked) if os.path.exists(asked) else 0


def count_runs(run):
    run.set_script("printf x >>%s/asked\nexec cat %s/hosts" % (
        (run.directory,) * 2))


@alone
def four_thousand_hosts_for_two_workers(stage):
    hosts = ["127.1.%d.%d:%d" % (i >> 8, i & 255, SLOTS)
             for i in range(HOSTS)]
    run = stage.start(["-np", "2", "--max-np", "2", "--log-level", "warn"],
                      hosts=hosts, MALLOC_PERTURB_="0")
    count_runs(run)
    run.whole(2)
    run.epoch(0)
    equal(len(run.seen("agent_started")), 1, "agents")
    first, before_s = n_runs(run), cpu_s(run.process.pid)
    run.until("%d runs of discovery" % RUNS,
              lambda: n_runs(run) >= first + RUNS, PATIENCE_S)
    each_ms = (cpu_s(run.process.pid) - before_s) * 1000 / RUNS
    peak = peak_mb(run.process.pid)
    stage.note("%.1f MB, %.1f ms a run" % (peak, each_ms))
    if SLOW == 1:  # a sanitizer has its own
        check(peak <= 40, "the driver has taken %.1f MB" % peak)
        check(each_ms <= 40, "a run of discovery takes %.1f ms" % each_ms)
    run.set_hosts("127.1.0.0:2")  # 4,095 of them leave
    run.until("their removal", lambda: len(
        run.seen("host_removed")) == HOSTS - 1, PATIENCE_S)
    run.epoch(1)
    run.allow(9)
    run.ends(0)
    run.agrees(2)


def may_trace(stage, program):
    """A sandbox may forbid ptrace(2)."""
    fifo = stage.file("none", "")
    with subprocess.Popen([program, "ready", fifo],
                          stdout=subprocess.PIPE) as process:
        line = process.stdout.readline()
        process.kill()
    if not line:
        stage.note("skipped: no ptrace here")
    return bool(line)


@scenario
def a_script_that_cannot_be_killed_is_replaced(stage):
    program = os.path.join(stage.build, "tests/discovery/unkillable")
    if not may_trace(stage, program):
        return
    run = stage.start(["-np", "2", "--max-np", "3", "--discovery-timeout",
                       "%g" % (0.5 * SLOW)], hosts=[LOCAL + ":2"])
    run.whole(2)
    run.epoch(0)
    fifo = os.path.join(run.directory, "fifo")
    os.mkfifo(fifo)
    run.set_script("[ -e %s/stuck ] && exec cat %s/hosts\necho $$ >%s/stuck\n"
                   "exec %s nothing %s" % (*(run.directory,) * 3, program,
                                           fifo))
    line = run.says("cannot be killed -> process ")
    pid = int(line.partition("-> process ")[2].split()[0])
    with open(os.path.join(run.directory, "stuck"), encoding="ascii") as file:
        equal(pid, int(file.read()), "the process that is named")
    run.set_hosts(LOCAL + ":2", OTHER + ":1")
    run.whole(3)  # discovery goes on
    check(os.path.exists("/proc/%d" % pid), "it could be killed after all")
    with open(fifo, "wb"):  # the file system answers again
        pass
    run.until("its end", lambda: not os.path.exists("/proc/%d" % pid),
              PATIENCE_S)
    equal(len([line for line in run.lines if "cannot be killed" in line]), 1,
          "lines about it")
    run.allow(9)
    run.ends(0)
    run.agrees(3)


if __name__ == "__main__":
    raise SystemExit(main())
