"""test_gpu - jobs whose workers reduce on devices: a driver and a NCCL of host
memory (tests/gpu/fake) stand for a GPU in each slot. Kills end a collective of
NCCL as they end any other, whoever is told of the dead by NCCL.
"""
import os
import signal
import sys

from harness import (LOCAL, OTHER, PATIENCE_S, SILENCE_S, check, equal, main,
                     plain, scenario)
import job as jobs

NP = ["--min-np", "1", "--max-np", "4"]
BY_NCCL = "buffers of devices travel by NCCL"
STAGED = "buffers of devices are staged through host memory"
SYNCED = "bytes on devices by NCCL"


def libraries(stage, knobs):
    return jobs.gpu_environment(stage.build, knobs)


def start(stage, hosts=(LOCAL + ":4",), knobs="devices=4", n=4,
          program=("--device",), **more):
    run = stage.start(["-np", str(n), *NP], program, hosts=hosts,
                      HVD_LOG_LEVEL="info", **libraries(stage, knobs), **more)
    run.whole(n)
    run.epoch(0)
    return run


def finish(run, n=4):
    run.allow(3)
    run.ends(0)
    run.agrees(n)


def lose(run, row):
    """kill -9; the others go on in their processes, and it is replaced."""
    before, mark = set(run.pids().values()), run.mark()
    jobs.kill(row["pid"], signal.SIGKILL)
    after = run.whole(4, mark, {row["worker"]})["ranks"]
    equal(len(before & {r["pid"] for r in after}), 3, "surviving processes")
    equal([e["worker"] for e in run.seen("worker_lost", mark)],
          [row["worker"]], "workers lost")


def said(run, words):
    return [line for line in list(run.lines) if words in line]


@scenario
def check_build_says_what_is_here(stage):
    fake = os.path.join(stage.build, "tests/gpu/fake")
    out = stage.command("--check-build", LD_LIBRARY_PATH=fake,
                        FAKE_GPU="devices=3")[1]
    equal(out.splitlines()[-2:],
          ["CUDA:        driver 13.0, 3 devices",
           "NCCL:        2.28.9 (%s/libnccl.so.2)" % fake], "--check-build")
    out = stage.command("--check-build", LD_LIBRARY_PATH=fake,
                        HVD_NCCL_LIBRARY="/none", FAKE_GPU="devices=0")[1]
    check("CUDA:        not here (" in out and "NCCL:        not here" in out,
          out)


@scenario
def nccl_is_told_to_give_up_soon(stage):
    run = stage.start(["-np", "1", "-H", LOCAL + ":1", "-x",
                       "NCCL_IB_TIMEOUT=20"],
                      ["sh", "-c", "env | grep ^NCCL_"])
    run.wait(PATIENCE_S)
    told = dict(line.split(":")[-1].split("=", 1) for line in run.lines
                if ":NCCL_" in line)
    equal(told, {"NCCL_RUNTIME_CONNECT": "0", "NCCL_SOCKET_RETRY_CNT": "10",
                 "NCCL_SOCKET_RETRY_SLEEP_MSEC": "50", "NCCL_IB_TIMEOUT": "20",
                 "NCCL_RAS_ENABLE": "0", "NCCL_SOCKET_IFNAME": "=lo"}, "NCCL")


@scenario
def each_slot_a_device(stage):
    run = start(stage)
    run.says(BY_NCCL)
    equal(said(run, STAGED), [], "staged")
    finish(run)


@plain
@scenario
def kills(stage):
    """Of each slot once, in a collective or between two."""
    run = start(stage)
    for slot in (2, 0, 3, 1):
        lose(run, run.row(slot=slot))
    finish(run)


@scenario
def kills_of_which_nccl_tells_nobody(stage):
    run = start(stage, knobs="devices=4 silent=1 late_us=500")
    for rank in (3, 0, 1):
        lose(run, run.row(rank=rank))
    finish(run)


@plain
@scenario
def kills_without_revoke(stage):
    run = start(stage, knobs="devices=4 revoke=0")
    for rank in (0, 2):
        lose(run, run.row(rank=rank))
    finish(run)


@scenario
def kill_behind_which_the_abort_hangs(stage):
    """It is given up, as its kernels are known to be gone."""
    # the leak sanitizer of gcc 12 falls over threads that are left behind
    run = start(stage, knobs="devices=4 abort_hang_ms=60000",
                ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1")
    lose(run, run.row(rank=2))
    finish(run)


@scenario
def kill_while_communicators_are_made(stage):
    run = start(stage, knobs="devices=4 init_hang_ms=300")
    first = run.row(rank=1)
    mark = run.mark()
    jobs.kill(first["pid"], signal.SIGKILL)
    run.until("a smaller world", lambda: run.seen("generation_formed", mark),
              PATIENCE_S)
    second = run.row(rank=1)
    jobs.kill(second["pid"], signal.SIGKILL)
    run.whole(4, mark, {first["worker"], second["worker"]})
    equal({e["worker"] for e in run.seen("worker_lost", mark)},
          {first["worker"], second["worker"]}, "workers lost")
    finish(run)


@scenario
def one_device_for_all(stage):
    """They share it: two ranks of NCCL cannot."""
    run = start(stage, hosts=(LOCAL + ":2", OTHER + ":2"), knobs="devices=2")
    run.says(STAGED)
    equal(said(run, BY_NCCL), [], "by NCCL")
    lose(run, run.row(rank=1))
    finish(run)


@plain
@scenario
def ranks_share_a_device(stage):
    """... by NCCL, as scripts/gpu-check has them where there is one GPU."""
    run = start(stage, knobs="devices=1", program=[
        os.path.join(jobs.ROOT, "scripts/on-one-gpu"), stage.trainer,
        "--device", os.path.join(stage.directory(), "control")])
    run.says(BY_NCCL)
    for rank in (3, 0):
        lose(run, run.row(rank=rank))
    equal(said(run, STAGED), [], "staged")
    finish(run)


@scenario
def slots_come_and_go(stage):
    run = start(stage, hosts=(LOCAL + ":2",), n=2)
    mark = run.mark()
    run.set_hosts(LOCAL + ":4")
    run.whole(4, mark)
    mark = run.mark()
    run.set_hosts(LOCAL + ":3")
    run.whole(3, mark)
    equal(run.seen("worker_lost"), [], "lost")
    finish(run, 3)


def newcomers(stage, way, n_told, knobs="devices=4"):
    """What lies on the device reaches them; `n_told`: of four, who say that it
    has come by NCCL."""
    run = start(stage, knobs=knobs, HVD_DEVICE_SYNC=way)
    for rank in (3, 0):
        mark = len(list(run.lines))
        lose(run, run.row(rank=rank))
        run.until("%d who say so" % n_told, lambda: len(
            [line for line in list(run.lines)[mark:]
             if SYNCED in line]) >= n_told, PATIENCE_S)
    if n_told == 0:
        equal(said(run, SYNCED), [], "said so")
    finish(run)


@scenario
def newcomers_get_it_by_nccl(stage):
    newcomers(stage, "nccl", 4)


@plain
@scenario
def newcomers_get_it_through_hosts(stage):
    newcomers(stage, "host", 0)


@plain
@scenario
def little_goes_through_hosts(stage):
    newcomers(stage, "auto", 0)


@scenario
def kills_while_newcomers_get_it(stage):
    """Of the root, of a newcomer: at some moment of a sync that is late."""
    run = start(stage, knobs="devices=4 late_us=5000", HVD_DEVICE_SYNC="nccl")
    for rank in (0, 3):
        mark, first = run.mark(), run.row(rank=2)
        jobs.kill(first["pid"], signal.SIGKILL)
        run.until("a newcomer in the next world", lambda: run.seen(
            "generation_formed", mark, size=4), PATIENCE_S)
        second = run.row(rank=rank)
        jobs.kill(second["pid"], signal.SIGKILL)
        run.whole(4, mark, {first["worker"], second["worker"]})
        equal({e["worker"] for e in run.seen("worker_lost", mark)},
              {first["worker"], second["worker"]}, "workers lost")
    finish(run)


@plain
@scenario
def source_that_stops_while_newcomers_get_it(stage):
    """It is given up for its silence, as in any other call."""
    run = stage.start(
        ["-np", "4", *NP, "--heartbeat-interval", "0.2",
         "--heartbeat-timeout", "%g" % SILENCE_S], ("--device",),
        hosts=(LOCAL + ":4",), HVD_LOG_LEVEL="info", HVD_DEVICE_SYNC="nccl",
        **libraries(stage, "devices=4 late_us=5000"))
    run.whole(4)
    mark, first = run.mark(), run.row(rank=2)
    jobs.kill(first["pid"], signal.SIGKILL)
    run.until("a newcomer in the next world", lambda: run.seen(
        "generation_formed", mark, size=4), PATIENCE_S)
    root = run.row(rank=0)
    jobs.kill(root["pid"], signal.SIGSTOP)
    run.whole(4, mark, {first["worker"], root["worker"]})
    equal({e["worker"] for e in run.seen("worker_lost", mark)},
          {first["worker"], root["worker"]}, "workers lost")
    finish(run)


@plain
@scenario
def worker_that_wants_it_through_hosts(stage):
    """One decides for all: the others do not wait for it in a broadcast."""
    odd = stage.file("odd.sh", "#!/bin/sh\n[ $HVD_SLOT = 1 ] && "
                     "export HVD_DEVICE_SYNC=host\nexec \"$@\"\n")
    run = start(stage, HVD_DEVICE_SYNC="nccl", program=[
        odd, stage.trainer, "--device",
        os.path.join(stage.directory(), "control")])
    for rank in (3, 0):
        lose(run, run.row(rank=rank))
    equal(said(run, SYNCED), [], "said so")
    finish(run)


def device_breaks(stage, when):
    """Its worker ends with a sentence, the library's or the program's own, and
    is replaced: the others go on."""
    run = start(stage, knobs="devices=4 worker=3 " + when)
    row, mark = run.row(worker=3), run.mark()
    run.event("worker_lost", mark, worker=row["worker"])
    run.until("a sentence", lambda: (
        said(run, "CUDA_ERROR_ILLEGAL_ADDRESS -> this worker ends")
        or said(run, "cuMemcpyAsync: error 700")), PATIENCE_S)
    run.whole(4, mark, {row["worker"]})
    finish(run)


@scenario
def device_that_breaks(stage):
    device_breaks(stage, "sticky_at=200")


@plain
@scenario
def device_that_breaks_while_a_collective_runs(stage):
    device_breaks(stage, "break_at=200")


if __name__ == "__main__":
    sys.exit(main())
