"""test_absence - processes that do not run for a while (Ctrl-Z, docker pause, a
debugger): longer than the others may be silent, and yet nobody is blamed who
did nothing, as long as the timeout that is about the absent one allows it.

The pauses are the subject here, not a way to wait for something.
"""
import signal
import sys
import time

from harness import LOCAL, OTHER, SILENCE_S, SLOW, check, equal, main, scenario
import job as jobs

TIMEOUT_S = SILENCE_S  # that must not count: of whoever is not absent
ABSENCE_S = 2 * TIMEOUT_S
LONG_S = 60 * SLOW


def start(stage, heartbeat_s, driver_s):
    run = stage.start(["-np", "4", "--min-np", "1", "--heartbeat-interval",
                       "0.2", "--heartbeat-timeout", "%g" % heartbeat_s,
                       "--driver-timeout", "%g" % driver_s,
                       "--hang-timeout", "%g" % max(heartbeat_s, driver_s)],
                      hosts=("localhost:2", "127.0.0.2:2"))
    run.whole(4)
    run.epoch(0)
    return run


def pause(pids):
    for pid in pids:
        jobs.kill(pid, signal.SIGSTOP)
    time.sleep(ABSENCE_S)
    for pid in pids:
        jobs.kill(pid, signal.SIGCONT)


def goes_on(run, pids):
    """Nobody is lost, and nothing is formed anew."""
    mark = run.mark()
    pause(pids)
    run.epoch(1)
    for event in ("generation_formed", "worker_lost", "agent_lost"):
        equal(run.seen(event, mark), [], event)
    run.allow(3)
    run.ends(0)
    run.agrees(4)


def agents(run):
    return [run.seen("agent_started", host=host)[-1]["pid"]
            for host in (LOCAL, OTHER)]


@scenario
def everybody(stage):
    run = start(stage, TIMEOUT_S, TIMEOUT_S)
    goes_on(run, [run.process.pid, *agents(run), *run.pids().values()])


@scenario
def everybody_who_wakes_in_another_order(stage):
    run = start(stage, TIMEOUT_S, TIMEOUT_S)
    goes_on(run, [*run.pids().values(), *agents(run), run.process.pid])


@scenario
def driver(stage):
    run = start(stage, TIMEOUT_S, LONG_S)
    goes_on(run, [run.process.pid])


@scenario
def agent(stage):
    run = start(stage, LONG_S, TIMEOUT_S)
    goes_on(run, agents(run)[1:])


@scenario
def worker(stage):
    run = start(stage, LONG_S, TIMEOUT_S)
    goes_on(run, [run.row(rank=2)["pid"]])


@scenario
def worker_that_has_finished(stage):
    """The job waits for its exit, and says why that does not come."""
    run = stage.start(["-np", "2", "--heartbeat-interval", "0.2",
                       "--heartbeat-timeout", "%g" % TIMEOUT_S],
                      ("--epochs", "1", "--epilogue"))
    run.whole(2)
    run.allow(1)
    run.event("released")
    stopped = run.row(rank=1)
    jobs.kill(stopped["pid"], signal.SIGSTOP)
    line = run.says("sends no heartbeats any more")
    check("worker %d (" % stopped["worker"] in line, line)
    jobs.kill(stopped["pid"], signal.SIGCONT)
    run.allow(2)
    run.ends(0)
    equal(sum("no heartbeats any more" in line for line in run.lines), 1,
          "lines about a worker that is stopped")


@scenario
def rank_0(stage):
    run = start(stage, LONG_S, TIMEOUT_S)
    goes_on(run, [run.row(rank=0)["pid"]])


@scenario
def driver_that_is_absent_for_too_long(stage):
    """--driver-timeout is when they give up, and nobody is left behind."""
    run = start(stage, LONG_S, TIMEOUT_S)
    jobs.kill(run.process.pid, signal.SIGSTOP)
    pids = [*agents(run), *run.pids().values()]
    deadline = time.monotonic() + LONG_S
    while set(pids) & {pid for pid, _ in jobs.parents()}:
        check(time.monotonic() < deadline, "they go on without a driver")
        time.sleep(jobs.POLL_S)
    jobs.kill(run.process.pid, signal.SIGCONT)
    run.ends(1)
    run.nobody_left()


if __name__ == "__main__":
    sys.exit(main())
