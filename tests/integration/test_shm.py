"""test_shm - workers of one host that are killed or stopped at any instant of
their collectives in shared memory: the others recover, with the right answers
(shm_worker checks each), and neither names, descriptors, mappings nor memory
are left behind.

A pause here is the choice of an instant, never a wait for something. Instants
and victims are drawn from HVD_TEST_SEED, or a seed that is printed: it repeats
the choices, not the interleaving.
"""
import os
import random
import signal
import sys
import time

from harness import Chances, SILENCE_S, SLOW, check, equal, main, scenario
import job as jobs

N = 3
MANY = 8  # a slot that fails often is filled late: many slots fail in turn
FIRST = 3  # recoveries until everything is there that stays
RECOVERIES = 14 if SLOW == 1 else MANY - 1
FEWER = MANY - 1 if SLOW == 1 else FIRST + 1
MIB = 1 << 20
SEED = int(os.environ.get("HVD_TEST_SEED", random.randrange(1 << 32)))
choose = Chances(SEED)


def start(stage, *program, n=N, options=(), buffers=None, hosts=None):
    environment = {"HVD_LOCAL_BUFFERS": buffers} if buffers else {}
    control = os.path.join(stage.root, "lead")
    os.makedirs(control)
    worker = os.path.join(stage.build, "tests/integration/shm_worker")
    run = stage.start(["-np", str(n), "--min-np", "1", "--max-np", str(n),
                       *(["-H", "localhost:%d" % n] if hosts is None else []),
                       "--slot-restarts", "32", *options],
                      [worker, *program, control], hosts, **environment)
    run.control = control
    run.whole(n)
    run.epoch(0)
    return run


def any_instant(longest_s=0.05):
    time.sleep(choose.uniform(0, longest_s * SLOW))


def names():
    return set(os.listdir("/dev/shm"))


def memory_of(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file if ":" in line)
    return int(rows["VmRSS"].split()[0]) << 10


def holdings(pid):
    """What a process has open and mapped, and its resident memory."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as file:
        maps = len(file.readlines())
    return len(jobs.fds_of(pid)), maps, memory_of(pid)


def arenas(pid):
    """Files of hvd_alloc that a process has mapped, its own included."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as file:
        rows = [line.split() for line in file if "hvd-arena" in line]
    return {row[4] for row in rows}


def same_holdings(before, after):
    """A connection or a piece of the heap may come and go; what every recovery
    leaves behind would be many."""
    kinds = ("descriptors", "mappings", "bytes of resident memory")
    # a sanitizer keeps what was freed, and more of its own
    limits = (3, 10, 24 * MIB) if SLOW == 1 else (3, 100)
    for kind, limit, a, b in zip(kinds, limits, before, after):
        check(b <= a + limit, "%s: %d, then %d" % (kind, a, b))


def kill_again_and_again(stage, n_recoveries, buffers=None):
    before = names()
    run = start(stage, "--epochs", str(n_recoveries + 2), "--count",
                str(MIB // 8), n=MANY, buffers=buffers)
    witness, first = run.row(rank=0), None
    slots = []
    for i in range(n_recoveries):
        slots = slots or choose.sample(
            sorted({row["slot"] for row in run.members()} - {witness["slot"]}),
            MANY - 1)
        row, mark = run.row(slot=slots.pop()), run.mark()
        any_instant()
        jobs.kill(row["pid"], signal.SIGKILL)
        run.whole(MANY, mark, {row["worker"]})
        run.epoch(i + 1)
        if i + 1 == FIRST:
            first = holdings(witness["pid"])
    same_holdings(first, holdings(witness["pid"]))
    equal(names() - before, set(), "names in /dev/shm")
    run.allow(n_recoveries + 2)
    run.ends(0)
    run.agrees(MANY)


@scenario
def killed_at_any_instant(stage):
    kill_again_and_again(stage, RECOVERIES)


@scenario
def killed_at_any_instant_staged(stage):
    kill_again_and_again(stage, FEWER, "staged")


@scenario
def killed_at_any_instant_attached(stage):
    kill_again_and_again(stage, FEWER, "attached")


@scenario
def stopped_and_evicted(stage):
    """Somebody stands still in the middle of a large call. The others get their
    memory back once its agent has killed it, and go on with right answers."""
    run = start(stage, "--epochs", "5", "--count", str(4 * MIB // N),
                options=["--heartbeat-interval", "0.2", "--heartbeat-timeout",
                         "%g" % SILENCE_S])
    for epoch in range(1, 4):
        row, mark = choose.choice(run.members()), run.mark()
        any_instant(0.2)
        jobs.kill(row["pid"], signal.SIGSTOP)
        lost = run.event("worker_lost", mark, worker=row["worker"])
        check("heartbeats" in lost["how"], lost)
        jobs.kill(row["pid"], signal.SIGCONT)  # harmless, if it is in time
        run.whole(N, mark, {row["worker"]})
        run.epoch(epoch)
    run.allow(5)
    run.ends(0)
    run.agrees(N)


@scenario
def stopped_for_moments(stage):
    """Nobody is lost, nothing is formed anew, all answers are right."""
    run = start(stage, "--epochs", "3", "--count", str(MIB // 4))
    mark = run.mark()
    for _ in range(60):
        row = choose.choice(run.members())
        any_instant(0.02)
        jobs.kill(row["pid"], signal.SIGSTOP)
        any_instant(0.02)
        jobs.kill(row["pid"], signal.SIGCONT)
    run.epoch(1)
    equal(run.seen("generation_formed", mark), [], "generations")
    run.allow(3)
    run.ends(0)
    run.agrees(N)


@scenario
def alone_lets_go_of_the_dead(stage):
    """Who is alone on its host in the end has no comm with shared memory, and
    keeps none of the others' memory for all that."""
    run = start(stage, "--epochs", "3", "--count", str(MIB),
                hosts=["localhost:%d" % N])
    run.epoch(1)
    mark = run.mark()
    run.set_hosts("localhost:1")
    last = run.whole(1, mark)["ranks"][0]["pid"]
    run.until("the arena of one process alone",
              lambda: len(arenas(last)) == 1, 60 * SLOW)
    run.allow(3)
    run.ends(0)


if __name__ == "__main__":
    print("# seed %d" % SEED)
    sys.exit(main())
