"""test_kill - kill -9 and SIGSTOP of every kind of process: workers are
replaced, nothing hangs, and nobody is left behind.

A wait of 10 s stands against a heartbeat timeout of as much (harness.py): what
only silence would mend is a failure here, except where silence is the subject.
"""
import os
import signal
import sys

from harness import (HEARTBEAT_S, LOCAL, OTHER, PATIENCE_S, SILENCE_S, check,
                     equal, main, scenario)
import job as jobs

BOTH = ("localhost:2", "127.0.0.2:2")
NP = ["-np", "4", "--min-np", "1", "--max-np", "4"]
QUICK_S = 0.9 * HEARTBEAT_S
# with a shell between agent and worker, which PDEATHSIG does not reach across
SHELL = 'exec 3>&1; "$0" "$@"; exit $?'


def start(stage, program=(), options=()):
    run = stage.start([*NP, *options], program, hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    return run


def in_shell(stage):
    """trainer as the child of a shell, and where its files lie."""
    control = os.path.join(stage.root, "control")
    os.makedirs(control, exist_ok=True)
    return control, ["sh", "-c", SHELL, stage.trainer, control]


def kill(run, rows):
    """kill -9 these members; survivors train again, at once."""
    mark, victims = run.mark(), {row["worker"] for row in rows}
    for row in rows:
        jobs.kill(row["pid"], signal.SIGKILL)
    run.until("the survivors training", lambda:
              run.running(mark, None, victims), QUICK_S)
    return mark, victims


def finish(run, n=4):
    run.allow(3)
    run.ends(0)
    run.agrees(n)


def survive(run, rows):
    """They are replaced, and the survivors kept their processes."""
    before = run.pids().values()
    mark, victims = kill(run, rows)
    after = [row["pid"] for row in run.whole(4, mark, victims)["ranks"]]
    equal(len(set(before) & set(after)), 4 - len(rows), "surviving processes")
    first = run.seen("generation_formed", mark)[0]
    equal(first["size"], 4 - len(rows), "size of the survivors' generation")
    finish(run)


@scenario
def worker(stage):
    run = start(stage)
    survive(run, [run.row(rank=2)])


@scenario
def rank_0(stage):
    run = start(stage)
    survive(run, [run.row(rank=0)])


@scenario
def two_at_once(stage):
    run = start(stage)
    before = run.pids().values()
    mark, victims = kill(run, [run.row(rank=0), run.row(rank=3)])
    after = [row["pid"] for row in run.whole(4, mark, victims)["ranks"]]
    equal(len(set(before) & set(after)), 2, "surviving processes")
    finish(run)


@scenario
def all_but_one(stage):
    run = start(stage)
    last = run.row(rank=3)
    mark, victims = kill(run, [run.row(rank=rank) for rank in range(3)])
    rows = run.whole(4, mark, victims)["ranks"]
    equal(rows[0]["pid"], last["pid"], "rank 0, the only one with state")
    finish(run)


@scenario
def while_others_are_done(stage):
    """Rank 0 is still busy, in its own code, when the others have finished; one
    of those dies: all train again, from finished state, and finish."""
    run = start(stage, ("--slow-end",))
    run.allow(3)
    run.until("the end of the last epoch", lambda: run.epochs(2), PATIENCE_S)
    jobs.kill(run.row(rank=3)["pid"], signal.SIGKILL)
    run.event("worker_lost")
    run.allow(4)
    run.ends(0)
    found = run.digests()
    check(len(found) in (3, 4), "digests:", found)
    equal(len({digest[0] for digest in found}), 1, "digests")


@scenario
def the_last_busy_one_while_others_are_done(stage):
    """All others are DONE with the same state: the job has succeeded."""
    run = start(stage, ("--slow-end",))
    run.allow(3)
    run.until("the end of the last epoch", lambda: run.epochs(2), PATIENCE_S)
    jobs.kill(run.row(rank=0)["pid"], signal.SIGKILL)
    run.allow(4)
    run.ends(0)
    found = run.digests()
    check(len(found) in (3, 4), "digests:", found)
    equal(len({digest[0] for digest in found}), 1, "digests")


def kill_agent(run, host):
    """Its workers die with it; a new agent starts new ones."""
    gone = {row["worker"] for row in run.members() if row["host"] == host}
    pids = [row["pid"] for row in run.members() if row["host"] == host]
    agent = run.seen("agent_started", host=host)[-1]
    mark = run.mark()
    jobs.kill(agent["pid"], signal.SIGKILL)
    lost = run.event("agent_lost", mark, host=host)
    check("SIGKILL" in lost["how"], lost)
    run.until("the survivors training", lambda:
              run.running(mark, None, gone), QUICK_S)
    run.whole(4, mark, gone)
    run.until("the end of the agent's workers", lambda:
              not any(os.path.exists("/proc/%d" % pid) and
                      pid in dict(jobs.parents()) for pid in pids), PATIENCE_S)


@scenario
def agent(stage):
    run = start(stage)
    kill_agent(run, OTHER)
    finish(run)


@scenario
def agent_of_rank_0(stage):
    run = start(stage)
    kill_agent(run, LOCAL)
    finish(run)


@scenario
def both_agents(stage):
    """Nobody is left who holds the state."""
    run = start(stage)
    for started in run.seen("agent_started"):
        jobs.kill(started["pid"], signal.SIGKILL)
    check("nobody is left who holds the state" in run.ends(1), run.verdict())


@scenario
def agent_with_a_shell_between(stage):
    control, program = in_shell(stage)
    run = stage.start(NP, program, hosts=BOTH)
    run.control = control
    run.whole(4)
    run.epoch(0)
    kill_agent(run, OTHER)
    finish(run)


def kill_driver(run):
    jobs.kill(run.process.pid, signal.SIGKILL)
    equal(run.wait(PATIENCE_S), -signal.SIGKILL, "status of the driver")
    run.nobody_left()


@scenario
def driver(stage):
    kill_driver(start(stage))


@scenario
def driver_with_a_shell_between(stage):
    control, program = in_shell(stage)
    run = stage.start(NP, program, hosts=BOTH)
    run.control = control
    run.whole(4)
    kill_driver(run)


@scenario
def driver_before_anybody_is_ready(stage):
    run = stage.start(["-np", "2"], ["sleep", "1000"])
    run.event("worker_spawned")
    kill_driver(run)


@scenario
def driver_and_agents_at_once(stage):
    run = start(stage)
    for started in run.seen("agent_started"):
        jobs.kill(started["pid"], signal.SIGSTOP)
    jobs.kill(run.process.pid, signal.SIGKILL)
    for started in run.seen("agent_started"):
        jobs.kill(started["pid"], signal.SIGKILL)
    run.wait(PATIENCE_S)
    run.nobody_left()


@scenario
def shell_between_exits_with_its_worker(stage):
    """Its exit status is the worker's: nothing is lost on the way."""
    control, program = in_shell(stage)
    run = stage.start(["-np", "2"], program)
    run.control = control
    run.whole(2)
    finish(run, 2)


@scenario
def shell_between_is_killed(stage):
    """The worker below it goes with its group; the slot is filled again."""
    control, program = in_shell(stage)
    run = stage.start(["-np", "2", "--min-np", "1"], program)
    run.control = control
    run.whole(2)
    run.epoch(0)
    row, mark = run.row(rank=0), run.mark()
    shell = run.event("worker_spawned", worker=row["worker"])["pid"]
    below = [pid for pid, parent in jobs.parents() if parent == shell]
    equal(len(below), 1, "children of the shell")
    jobs.kill(shell, signal.SIGKILL)
    run.whole(2, mark, {row["worker"]})
    check(not os.path.exists("/proc/%d" % below[0])
          or below[0] not in dict(jobs.parents()), "the worker still lives")
    finish(run, 2)


@scenario
def stopped_in_a_session_of_its_own(stage):
    """Its group is not the one that the agent made: it is killed all the same,
    before somebody else gets its slot."""
    control, _ = in_shell(stage)
    run = stage.start(["-np", "2", "--min-np", "1", "--heartbeat-interval",
                       "0.2", "--heartbeat-timeout", "%g" % SILENCE_S],
                      ["setsid", "-w", stage.trainer, control])
    run.control = control
    run.whole(2)
    run.epoch(0)
    row, mark = run.row(rank=1), run.mark()
    leader = run.event("worker_spawned", worker=row["worker"])["pid"]
    below = [pid for pid, parent in jobs.parents() if parent == leader]
    equal(len(below), 1, "children of setsid")
    jobs.kill(below[0], signal.SIGSTOP)
    run.whole(2, mark, {row["worker"]})
    check(below[0] not in dict(jobs.parents()), "the worker still lives")
    finish(run, 2)


def silent(stage):
    run = stage.start([*NP, "--heartbeat-interval", "0.2",
                       "--heartbeat-timeout", "%g" % SILENCE_S], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    return run


def stopped(stage, rank):
    """Evicted after --heartbeat-timeout, and killed though it is stopped."""
    run = silent(stage)
    row, mark = run.row(rank=rank), run.mark()
    jobs.kill(row["pid"], signal.SIGSTOP)
    lost = run.event("worker_lost", mark, worker=row["worker"])
    check("heartbeats" in lost["how"], lost)
    jobs.kill(row["pid"], signal.SIGCONT)  # harmless, if it is in time at all
    run.whole(4, mark, {row["worker"]})
    gone = run.event("worker_exited", mark, worker=row["worker"])
    check("signal" in gone, gone)
    finish(run)


@scenario
def stopped_worker(stage):
    stopped(stage, 2)


@scenario
def stopped_rank_0(stage):
    stopped(stage, 0)


@scenario
def stopped_for_a_moment(stage):
    """Shorter than the timeout: nobody is lost, nothing is formed anew."""
    run = start(stage)
    mark = run.mark()
    jobs.kill(run.row(rank=1)["pid"], signal.SIGSTOP)
    run.allow(2)
    jobs.kill(run.row(rank=1)["pid"], signal.SIGCONT)
    run.epoch(1)
    equal(run.seen("generation_formed", mark), [], "generations")
    finish(run)


@scenario
def stopped_agent(stage):
    """Its host counts as lost, its workers are ended with it."""
    run = silent(stage)
    mark = run.mark()
    gone = {row["worker"] for row in run.members() if row["host"] == OTHER}
    jobs.kill(run.seen("agent_started", host=OTHER)[-1]["pid"], signal.SIGSTOP)
    run.event("agent_lost", mark, host=OTHER)
    run.whole(4, mark, gone)
    finish(run)


def hangs(stage, program=()):
    """A job that gives up who hangs, and the row of the one that shall."""
    run = start(stage, program, ["--heartbeat-interval", "0.2",
                                 "--hang-timeout", "%g" % SILENCE_S])
    return run, run.row(rank=1), run.mark()


def evicted(run, row, mark):
    lost = run.event("worker_lost", mark)
    equal(lost["worker"], row["worker"], "who was evicted")
    check("--hang-timeout" in lost["how"], lost)
    run.whole(4, mark, {row["worker"]})
    equal(len(run.seen("worker_lost", mark)), 1, "evictions")
    finish(run)


@scenario
def hung_worker(stage):
    """It reports, but gets nowhere while the others wait for it."""
    run, row, mark = hangs(stage)
    jobs.kill(row["pid"], signal.SIGHUP)
    evicted(run, row, mark)


@scenario
def hung_worker_while_others_poll(stage):
    """hvd_test() in a loop: they wait as well."""
    run, row, mark = hangs(stage, ("--poll",))
    jobs.kill(row["pid"], signal.SIGHUP)
    evicted(run, row, mark)


@scenario
def stuck_in_a_call(stage):
    """All wait in a collective that never ends: the generation does, and who
    does not come back from the call is evicted."""
    run, row, mark = hangs(stage)

    def sticks():
        jobs.kill(row["pid"], signal.SIGQUIT)
        return any("sticks" in line for line in list(run.lines))
    run.until("a thread that sticks", sticks, PATIENCE_S)
    run.says("all workers wait in collective calls")
    evicted(run, row, mark)


@scenario
def below_min_np_waits_for_the_replacement(stage):
    run = stage.start(["-np", "2", "-H", "localhost:2"])
    run.whole(2)
    run.epoch(0)
    row, mark = run.row(rank=0), run.mark()
    jobs.kill(row["pid"])
    formed = run.whole(2, mark, {row["worker"]})
    equal(formed["generation"], 2, "generation")
    equal(formed["ranks"][0]["joined"], 1, "first generation of rank 0")
    finish(run, 2)


@scenario
def children_of_a_worker(stage):
    """What a worker has started itself goes with it."""
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    run = stage.start(["-np", "2", "--min-np", "1"],
                      ["sh", "-c", 'sleep 1000 & exec "$0" "$1"',
                       stage.trainer, control])
    run.control = control
    run.whole(2)
    run.epoch(0)
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"])
    run.whole(2, mark, {row["worker"]})
    finish(run, 2)


@scenario
def newcomer_before_it_is_ready(stage):
    """Members notice nothing: one generation less than with two deaths."""
    run = start(stage)
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"], signal.SIGKILL)
    spawned = run.event("worker_spawned", mark)
    jobs.kill(spawned["pid"], signal.SIGKILL)
    gone = run.event("worker_exited", mark, worker=spawned["worker"])
    was_ready = run.seen("worker_ready", mark, worker=spawned["worker"])
    run.whole(4, mark, {row["worker"], spawned["worker"]})
    if not was_ready:
        sizes = [e["size"] for e in run.seen("generation_formed", mark)]
        equal(sizes, [3, 4], "sizes of generations (%s)" % gone)
    finish(run)


if __name__ == "__main__":
    sys.exit(main())
