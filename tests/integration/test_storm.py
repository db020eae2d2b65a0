"""test_storm - collectives of all kinds at random, on buffers in all kinds of
memory, each of them right (storm_worker knows what has to come of it): on every
way that calls take between the processes of a host, and while workers are
killed or stopped.

A pause here is the choice of an instant, never a wait for something. The seed
is HVD_STORM_SEED or always the same; it repeats the calls, the instants and the
victims, not how they meet. A failure shows it in the command of the job.
HVD_STORM_TIMES makes it so many times as long.
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

from harness import Chances, SLOW, check, equal, main, scenario
import job as jobs

SEED = int(os.environ.get("HVD_STORM_SEED", "20"))
TIMES = int(os.environ.get("HVD_STORM_TIMES", "1"))
STEPS = (20 if SLOW == 1 else 10) * TIMES
SMALLER = () if SLOW == 1 else ("--max-bytes", "1000000")
N = 3
MANY = 4
RECOVERIES = (3 if SLOW == 1 else 2) * TIMES
STOPS = (10 if SLOW == 1 else 8) * TIMES
choose = Chances(SEED)


def start(stage, n, *program, under=(), options=(), **environment):
    worker = os.path.join(stage.build, "tests/integration/storm_worker")
    return stage.start(["-np", str(n), "--min-np", "1", "-H",
                        "localhost:%d" % n, *options],
                       [*under, worker, "--seed", str(SEED), *SMALLER,
                        *program],
                       **environment)


def ends_well(run, n):
    run.ends(0)
    run.agrees(n)
    check(run.digests()[0][1] >= STEPS, "steps:", run.digests())


def quiet(stage, n, *program, under=(), **environment):
    """Nothing happens to anybody; one generation does it all."""
    run = start(stage, n, "--steps", str(STEPS), *program, under=under,
                **environment)
    ends_well(run, n)
    equal(len(run.seen("generation_formed")), 1, "generations")


@scenario
def two_ranks(stage):
    quiet(stage, 2)


@scenario
def three_ranks(stage):
    quiet(stage, 3)


@scenario
def four_ranks(stage):
    quiet(stage, 4)


@scenario
def buffers_staged(stage):
    quiet(stage, N, HVD_LOCAL_BUFFERS="staged")


@scenario
def buffers_attached(stage):
    quiet(stage, N, HVD_LOCAL_BUFFERS="attached")


@scenario
def without_shared_memory(stage):
    quiet(stage, N, HVD_TRANSPORT="tcp")


@scenario
def without_process_vm_readv(stage):
    forbid = os.path.join(stage.build, "tests/integration/forbid")
    if subprocess.run([forbid, "pidfd_open", "true"], check=False,
                      capture_output=True).returncode != 0:
        stage.note("skipped: no seccomp filters here")
        return
    quiet(stage, N, under=[forbid, "process_vm_readv"])


@scenario
def roots_that_run_ahead(stage):
    """Nobody waits for anybody in a broadcast, as long as there is room."""
    quiet(stage, N, "--kind", "broadcast", "--max-bytes", "20000", "--calls",
          "32")


@scenario
def by_name(stage):
    quiet(stage, N, "--named")


@scenario
def by_name_without_shared_memory(stage):
    quiet(stage, MANY, "--named", HVD_TRANSPORT="tcp")


@scenario
def by_name_in_an_order_that_repeats(stage):
    quiet(stage, N, "--named", "--repeat", "50")


@scenario
def in_sets_by_name_in_an_order_that_repeats_without_shared_memory(stage):
    quiet(stage, MANY, "--sets", "--named", "--repeat", "50",
          HVD_TRANSPORT="tcp")


@scenario
def in_sets(stage):
    quiet(stage, MANY, "--sets")


@scenario
def in_sets_by_name_without_shared_memory(stage):
    quiet(stage, MANY, "--sets", "--named", HVD_TRANSPORT="tcp")


@scenario
def in_sets_for_which_descriptors_are_lacking(stage):
    """The job ends with that sentence: nobody waits for who cannot make one."""
    few = ["sh", "-c", 'ulimit -n 80; exec "$@"', "sh"]
    verdict = start(stage, N, "--sets", "--named", "--steps", str(STEPS),
                    under=few).ends(1)
    check("descriptors are needed" in verdict, "verdict:", verdict)


@scenario
def settings_of_rank_0_count(stage):
    """What starts the program on one slot sets what has to be equal on all."""
    other = ["sh", "-c", 'if [ "$HVD_SLOT" = 1 ]; then '
             "export HVD_CACHE_CAPACITY=3 HVD_ALGORITHM=halving "
             'HVD_FUSION_THRESHOLD=0; fi; exec "$@"', "sh"]
    run = start(stage, N, "--named", "--repeat", "10", "--steps", str(STEPS),
                under=other, HVD_TRANSPORT="tcp", HVD_ALGORITHM="ring")
    ends_well(run, N)
    run.says("HVD_ALGORITHM is halving here and ring on rank 0, which counts")
    run.says("HVD_CACHE_CAPACITY is 3 here and unset on rank 0, which counts")
    equal(len(run.seen("generation_formed")), 1, "generations")


@scenario
def rule_that_differs_is_named(stage):
    verdict = start(stage, 2, "--sets", "--lie").ends(1)
    check("the rule of communicator 4: rank 0 names (0), rank 1 names (1)"
          in verdict, "verdict:", verdict)


# ---- with losses and halts ----------------------------------------------------

def led(stage, n, *program, options=(), **environment):
    """Goes on until it is allowed to end."""
    control = os.path.join(stage.root, "lead")
    os.makedirs(control)
    run = start(stage, n, "--steps", str(STEPS), *program, control,
                options=["--slot-restarts", "32", *options], **environment)
    run.control = control
    run.whole(n)
    return run


def any_instant(longest_s):
    time.sleep(choose.uniform(0, longest_s * SLOW))


def member(run, slots):
    """Of another slot each time, as long as there are some: who fails again
    soon is replaced late."""
    if not slots:
        slots += choose.sample(range(MANY), MANY)
    return run.row(slot=slots.pop())


def kill(run, row, halted):
    """While another stands still; that one has yet to learn of it."""
    any_instant(0.2)
    if halted:
        jobs.kill(halted["pid"], signal.SIGSTOP)
        any_instant(0.01)
    jobs.kill(row["pid"], signal.SIGKILL)
    if halted:
        any_instant(0.05)
        jobs.kill(halted["pid"], signal.SIGCONT)


def kill_again_and_again(stage, n_recoveries, *program, **environment):
    run = led(stage, MANY, *program, **environment)
    slots = []
    for _ in range(n_recoveries):
        row, mark = member(run, slots), run.mark()
        others = [other for other in run.members() if other != row]
        kill(run, row, choose.choice(others) if choose.random() < 0.5 else None)
        run.whole(MANY, mark, {row["worker"]})
    run.allow(1)
    ends_well(run, MANY)


@scenario
def killed(stage):
    kill_again_and_again(stage, RECOVERIES)


@scenario
def killed_with_tcp(stage):
    kill_again_and_again(stage, RECOVERIES // 2, HVD_TRANSPORT="tcp")


@scenario
def joining(stage):
    quiet(stage, N, "--join", "--named")


@scenario
def joining_sets_without_shared_memory(stage):
    quiet(stage, MANY, "--join", "--sets", HVD_TRANSPORT="tcp")


@scenario
def killed_with_encrypted_tcp(stage):
    """In the middle of records, and of what several connections carry."""
    kill_again_and_again(stage, RECOVERIES // 2, options=["--encrypt-data"],
                         HVD_TRANSPORT="tcp", HVD_TCP_CONNECTIONS="3")


@scenario
def killed_by_name(stage):
    kill_again_and_again(stage, RECOVERIES, "--named", options=["--autotune"])


@scenario
def killed_in_an_order_that_repeats(stage):
    kill_again_and_again(stage, RECOVERIES, "--named", "--repeat", "50",
                         "--max-bytes", "100000")


@scenario
def killed_in_sets(stage):
    kill_again_and_again(stage, RECOVERIES, "--sets", "--named")


@scenario
def killed_joining(stage):
    kill_again_and_again(stage, RECOVERIES, "--join", "--sets", "--calls", "2")


@scenario
def stopped(stage):
    """Nobody is lost, and nothing is formed anew."""
    run = led(stage, N, "--named")
    mark = run.mark()
    for _ in range(STOPS):
        row = choose.choice(run.members())
        any_instant(0.05)
        jobs.kill(row["pid"], signal.SIGSTOP)
        any_instant(choose.choice([0.001, 0.01, 0.1, 0.3]))
        jobs.kill(row["pid"], signal.SIGCONT)
    run.allow(1)
    ends_well(run, N)
    equal(run.seen("generation_formed", mark), [], "generations")


def forget(stage, step, *program):
    run = led(stage, N, "--forget", str(step), "--named", *program, options=[
        "--heartbeat-interval", "0.1", "--stall-check-time", "0.5",
        "--stall-shutdown-time", "1"])
    lost = run.event("worker_lost")["worker"]
    run.whole(N, without={lost})
    run.allow(1)
    ends_well(run, N)
    # Before it, and beside it, others may be late where the machine is busy.
    stalls = [event["reason"] for event in run.seen("stall")]
    check(any(re.search("^'forgotten' has waited .* for ranks? [0-9].*, which "
                        "ha(s|ve) not posted it", text)
              for text in stalls), "stalls:", stalls)
    check(any("--stall-shutdown-time" in event["how"]
              for event in run.seen("worker_lost")), "how")


@scenario
def forgotten_name(stage):
    """Who has not posted what the others wait for is named, and goes at last."""
    forget(stage, 3)


@scenario
def forgotten_name_while_an_order_is_followed(stage):
    """Three steps alike are enough."""
    forget(stage, 10, "--repeat", "20")


if __name__ == "__main__":
    print("# seed %d" % SEED)
    sys.exit(main())
