"""test_charlm_cuda - the example that trains on devices, charlm_cuda: a driver
and a NCCL of host memory (tests/gpu/fake) stand for a GPU in each slot, and the
example's kernels, compiled for the host, for what they compute. What is done to
a job is done while its devices hold, so that it does not end before.
"""
import os
import re
import signal
import subprocess
import sys

from harness import LOCAL, PATIENCE_S, check, equal, main, scenario
import job as jobs

STEPS, REPORT = 40, 5
HOLD_AT = 250  # launches: behind the first report, before the last
NEAR = 0.005   # sums are made in another order than on the host


def example(stage, name, *options):
    return stage.example(name, "--steps", str(STEPS), "--report", str(REPORT),
                         *options)


def gpu(stage, knobs=""):
    """The environment that makes one."""
    fake = os.path.join(stage.build, "tests/gpu/fake")
    return jobs.gpu_environment(
        stage.build, "devices=4 " + knobs,
        FAKE_KERNELS=os.path.join(fake, "charlm_kernels.so"),
        FAKE_RELEASE=os.path.join(stage.root, "release"))


def start(stage, n, knobs="", *options):
    return stage.start(["-np", str(n), "--min-np", "1", "--max-np", "4"],
                       jobs.on_gpu(example(stage, "charlm_cuda", *options)),
                       hosts=["%s:%d" % (LOCAL, n)], **gpu(stage, knobs))


def held(stage, n, *options):
    """A job that has begun to train, and goes on once it is released."""
    run = start(stage, n, "hold_at=%d" % HOLD_AT, *options)
    run.whole(n)
    run.says("step %d " % REPORT)
    return run


def release(stage):
    stage.file("release", "")


def losses(run):
    """Of the reports, {step: loss}."""
    found = [re.search(r"\bstep (\d+) epoch \d+ loss (\S+)", line)
             for line in list(run.lines)]
    return {int(match[1]): float(match[2]) for match in found if match}


def newcomers(run, n, mark):
    """Wait until so many are ready; then their first generation can begin."""
    run.until("%d newcomers" % n, lambda: len(run.seen("worker_ready", mark)) == n,
              PATIENCE_S)


def finish(run, n):
    run.ends(0)
    run.agrees(n)
    equal({digest[1] for digest in run.digests()}, {STEPS}, "steps")


def learns_it(stage, *options):
    host = stage.start(["-np", "4", "-H", LOCAL + ":4"], example(stage, "charlm"))
    finish(host, 4)
    device = start(stage, 4, "", *options)
    finish(device, 4)
    want, got = losses(host), losses(device)
    equal(sorted(got), list(range(REPORT, STEPS + 1, REPORT)), "reports")
    check(got[STEPS] < 0.9 * got[REPORT], "the loss does not fall:", got)
    for step in got:
        check(abs(got[step] - want[step]) < NEAR, "step", step, got, want)


@scenario
def learns_what_the_host_learns(stage):
    learns_it(stage)


@scenario
def learns_it_by_name(stage):
    learns_it(stage, "--by-name")


def goes_on_behind_a_kill(stage, *options):
    """The others go on in their processes, and it is replaced."""
    run = held(stage, 4, *options)
    lost, before, mark = run.row(rank=2), set(run.pids().values()), run.mark()
    jobs.kill(lost["pid"], signal.SIGKILL)
    run.event("worker_lost", mark, worker=lost["worker"])
    newcomers(run, 1, mark)
    release(stage)
    after = run.whole(4, mark, {lost["worker"]})["ranks"]
    equal(before - {row["pid"] for row in after}, {lost["pid"]}, "processes lost")
    finish(run, 4)


@scenario
def worker_is_killed(stage):
    goes_on_behind_a_kill(stage)


@scenario
def worker_is_killed_in_calls_by_name(stage):
    goes_on_behind_a_kill(stage, "--by-name")


@scenario
def slots_are_added(stage):
    run = held(stage, 2)
    mark = run.mark()
    run.set_hosts(LOCAL + ":4")
    newcomers(run, 2, mark)
    release(stage)
    run.whole(4, mark)
    equal(run.seen("worker_lost"), [], "lost")
    finish(run, 4)


def by_hand(stage, command, knobs=""):
    return subprocess.run(command, timeout=PATIENCE_S, check=False,
                          env={**os.environ, **gpu(stage, knobs)},
                          capture_output=True, text=True)


@scenario
def gradients_are_those_of_the_host(stage):
    """Steps of Adam hide by how much one is wrong: they go by its sign."""
    want, got = ([float(line) for line in by_hand(stage, [os.path.join(
        stage.build, "tests/gpu", name)]).stdout.splitlines()]
        for name in ("sums_host", "sums_device"))
    equal(len(got), len(want), "sums")
    check(len(want) > 20000, "sums:", len(want))
    for i, (one, other) in enumerate(zip(got, want)):
        check(abs(one - other) < 1e-5 + 1e-4 * abs(other), i, one, other)


@scenario
def alone(stage):
    """Without hvd-elastic, and where CUDA fails."""
    command = example(stage, "charlm_cuda")
    done = by_hand(stage, command)
    equal((done.returncode, done.stderr), (0, ""), "alone")
    done = by_hand(stage, example(stage, "charlm_cuda", "--by-name"))
    equal((done.returncode, done.stderr), (0, ""), "by name")
    for knobs, words in (("memory=4096", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"),
                         ("devices=0", "not supported here: hvd_device_set: CUDA: "
                          "CUDA_ERROR_NO_DEVICE")):
        done = by_hand(stage, command, knobs)
        equal((done.returncode, done.stderr),
              (1, "charlm_cuda: error: %s\n" % words), knobs)


if __name__ == "__main__":
    sys.exit(main())
