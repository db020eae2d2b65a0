"""test_state - what may become of a job's state: programs that do not look at
what a call returned, and state that does not arrive as it was sent.
"""
import os
import signal
import sys

from harness import LOCAL, OTHER, PATIENCE_S, SLOW, check, equal, main, scenario
import job as jobs

BOTH = ("localhost:1", "127.0.0.2:1")
NP = ["-np", "1", "--min-np", "1"]
LARGE = "3000000"  # bytes: several pieces of a transfer
FOREVER = ["--steps", "1000000", "--step-us", "1000"]


# ---- programs that go on where they should return ---------------------------

def heedless(stage, *options):
    """chaos_worker adds to its state what nobody may see again, and says WRONG
    when it does."""
    run = stage.start(["-np", "2", "--min-np", "2"],
                      [stage.chaos, "--heedless", *FOREVER, *options],
                      hosts=["localhost:2"])
    run.event("generation_formed")
    return run


def ends(run):
    run.interrupt()
    run.ends(130)
    equal([line for line in run.lines if "WRONG" in line], [], "spoilt states")


def hosts_come_and_go(stage, *options):
    run = heedless(stage, *options)
    for _ in range(3):
        for hosts, size in (("localhost:2", "127.0.0.2:1"), 3), (
                ("localhost:2",), 2):
            mark = run.mark()
            run.set_hosts(*hosts)
            formed = run.event("generation_formed", mark, size=size)
            equal(len({tuple(row["state"]) for row in formed["ranks"]
                       if row["joined"] < formed["generation"]}), 1, "states")
    ends(run)


@scenario
def hosts_updated_is_ignored(stage):
    hosts_come_and_go(stage)


@scenario
def hosts_updated_is_ignored_without_collectives(stage):
    hosts_come_and_go(stage, "--no-collective")


@scenario
def hosts_updated_is_ignored_with_rare_commits(stage):
    hosts_come_and_go(stage, "--commit-every", "7")


@scenario
def a_loss_is_ignored(stage):
    run = heedless(stage)
    for rank in 1, 0, 1:
        mark, row = run.mark(), run.row(rank=rank)
        jobs.kill(row["pid"], signal.SIGKILL)
        run.whole(2, mark, {row["worker"]})
    ends(run)


# ---- ranks that differ ---------------------------------------------------------

def diverging(stage, at, rule, steps=40, *options):
    return stage.start(["-np", "3", "--verify-state", rule],
                       [stage.chaos, "--diverge-at", str(at), "--steps",
                        str(steps), *options], hosts=["localhost:3"])


def names_the_rank(run, commit):
    run.ends(1)
    check("at commit %d of generation 1 entry 'weights' differs: rank 1 differs "
          "from ranks 0, 2 ->" % commit in run.event("job_finished")["reason"],
          run.lines)


@scenario
def ranks_that_differ_are_named_at_the_first_commit(stage):
    names_the_rank(diverging(stage, 0, "first"), 1)


@scenario
def ranks_that_differ_fail_the_job_though_train_returns_ok(stage):
    names_the_rank(diverging(stage, 0, "first", 40, "--quits"), 1)


@scenario
def ranks_that_differ_are_named_at_every_nth_commit(stage):
    names_the_rank(diverging(stage, 5, "10"), 10)


@scenario
def ranks_that_differ_may_go_on_with_a_warning(stage):
    run = diverging(stage, 0, "first,warn")
    run.ends(0)
    said = [line for line in run.lines if "entry 'weights' differs" in line]
    check(said and all("warn" in line for line in said), run.lines)


@scenario
def objects_that_differ_are_a_warning(stage):
    run = diverging(stage, -1, "first", 40, "--odd-object")
    run.ends(0)
    run.says("warn: ")
    run.says("entry 'odd object' differs: ranks 1, 2 differ from rank 0")


@scenario
def ranks_that_differ_later_go_on(stage):
    diverging(stage, 5, "first").ends(0)


# ---- damage on the way -------------------------------------------------------

def damaging(stage, times):
    """One worker, and then another that its state is sent to, damaged."""
    if SLOW > 1:
        stage.note("skipped: a sanitizer has to be loaded first")
        return None
    library = os.path.join(stage.build, "tests/integration/damage.so")
    wrapper = stage.file("damage.sh", "#!/bin/sh\nDAMAGE=%d LD_PRELOAD=%s "
                         "exec \"$@\"\n" % (times, library))
    run = stage.start([*NP, "--slot-restarts", "1"],
                      [wrapper, stage.chaos, *FOREVER, "--state-bytes", LARGE],
                      hosts=[BOTH[0]])
    run.event("first_collective")
    run.set_hosts(*BOTH)
    return run


DAMAGED = "sync from rank 0: entry 'weights' (3000008 bytes) arrived damaged"


@scenario
def state_that_is_damaged_once_is_sent_again(stage):
    run = damaging(stage, 1)
    if not run:
        return
    run.says(DAMAGED)
    mark = run.mark()
    formed = run.event("generation_formed", 0, size=2)
    run.until("the newcomer in sync",
              lambda: run.seen("state_synced"), PATIENCE_S)
    equal(run.seen("worker_lost"), [], "lost workers")
    check(formed and mark >= 0)
    ends(run)


@scenario
def state_that_is_always_damaged_ends_newcomers_alone(stage):
    """Who of the two is at fault nobody can know: the younger goes, and who
    holds the state trains on."""
    run = damaging(stage, 0)
    if not run:
        return
    elder = run.row(rank=0)["worker"]
    run.says(DAMAGED, 2)
    run.event("slot_closed", host=OTHER)
    mark = run.mark()
    run.until("the elder alone", lambda: [
        e for e in run.seen("generation_formed")
        if e["size"] == 1 and e["generation"] > 2], PATIENCE_S)
    equal([e for e in run.seen("worker_lost") if e["worker"] == elder], [],
          "losses of the elder")
    equal(run.seen("state_synced", mark), [], "syncs")
    check(run.members()[0]["worker"] == elder, "the elder is no member")
    ends(run)


if __name__ == "__main__":
    sys.exit(main())
