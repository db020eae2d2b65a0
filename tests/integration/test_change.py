"""test_change - hosts come and go under load: all members leave a generation at
the same boundary, whatever lies between two boundaries, nothing is lost, and
discovery that fails later changes nothing.
"""
import os
import random
import signal
import sys
import time

from harness import (LOCAL, OTHER, PATIENCE_S, SLOW, THIRD, check, equal, main,
                     scenario)
import job as jobs

BOTH = ("localhost:2", "127.0.0.2:2")
NP = ["-np", "2", "--min-np", "2"]


def left_together(run, at_least=1):
    """In each generation that hosts_updated ended, all old members left at its
    cut."""
    n, cut, old = 0, None, {}
    for event in list(run.events):
        if event["event"] == "hosts_updated":
            cut = event["cut"]
        elif event["event"] == "generation_formed":
            rows = event["ranks"]
            left = {row["worker"]: row["left"] for row in rows
                    if row["joined"] < event["generation"]}
            if cut is not None:
                equal(set(left.values()), {cut}, "left of generation %d" % (
                    event["generation"] - 1))
                equal(len({tuple(row["state"]) for row in rows
                           if row["worker"] in old}), 1, "states")
                n += 1
            cut, old = None, {row["worker"]: row for row in rows}
    check(n >= at_least, "only %d changes" % n)


def shake(run, choose):
    """Delay each rank's HOLD by another time: stop it for a moment."""
    rows = [row for row in run.members() if choose.random() < 0.7]
    for row in rows:
        jobs.kill(row["pid"], signal.SIGSTOP)
    for row in choose.sample(rows, len(rows)):
        time.sleep(choose.uniform(0, 0.01))
        jobs.kill(row["pid"], signal.SIGCONT)


def come_and_go(stage, program, n_rounds=4 if SLOW == 1 else 2):
    """Hosts are added and removed while ranks are shaken; n_rounds * 2 + 1
    generations at least."""
    seed = int(os.environ.get("HVD_TEST_SEED", "20240607"))
    choose = random.Random(seed)
    stage.note("seed %d" % seed)
    run = stage.start(NP, program, hosts=["localhost:2"])
    run.event("generation_formed")
    for _ in range(n_rounds):
        for hosts in (BOTH, ("localhost:2",)):
            mark = run.mark()
            run.set_hosts(*hosts)
            for _ in range(3):
                shake(run, choose)
            run.until("%d members" % (2 * len(hosts)), lambda: [
                e for e in run.seen("generation_formed", mark)
                if e["size"] == 2 * len(hosts)], PATIENCE_S)
    left_together(run, 2 * n_rounds)
    equal([line for line in run.lines if "error" in line.lower()], [],
          "errors")
    return run


def led(stage, *options):
    run = come_and_go(stage, options)
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def a_change_is_expected_before_it_is_due(stage):
    """The newcomers take their time, and the members hear of them before."""
    run = stage.start(NP, [stage.chaos, "--say-pending", "--steps", "1000000",
                           "--start-sleep-ms", "1500"], hosts=["localhost:2"])
    run.event("generation_formed")
    run.set_hosts(*BOTH)
    run.until("4 members", lambda: [
        e for e in run.seen("generation_formed") if e["size"] == 4], PATIENCE_S)
    for worker in (1, 2):
        said = [line for line in run.lines if "gen 1: hosts" in line and
                line.startswith("[%d]" % (worker - 1))]
        equal([line.split()[-1] for line in said][:1], ["expected"],
              "the first change that worker %d heard of" % worker)
    run.interrupt()
    run.ends(130)


@scenario
def same_boundary_with_allreduce(stage):
    led(stage)


@scenario
def same_boundary_with_broadcasts_only(stage):
    """Rank 0 runs ahead of the others: nothing makes it wait."""
    led(stage, "--broadcast-only", "--step-us", "0")


@scenario
def same_boundary_with_local_ones_between(stage):
    led(stage, "--local-between")


@scenario
def same_boundary_with_steps_of_no_length(stage):
    led(stage, "--step-us", "0", "--local-between")


@scenario
def same_boundary_without_collectives(stage):
    """Ranks share nothing but their boundaries."""
    run = come_and_go(stage, [stage.chaos, "--no-collective", "--steps",
                              "1000000", "--step-us", "300"])
    run.interrupt()
    run.ends(130)
    left_together(run)


@scenario
def same_boundary_with_rare_commits(stage):
    run = come_and_go(stage, [stage.chaos, "--commit-every", "7", "--steps",
                              "1000000", "--step-us", "300"])
    run.interrupt()
    run.ends(130)


@scenario
def newcomers_do_not_hold_up_members(stage):
    """A new host's workers take a second to start; members train on."""
    slow = stage.file("slow", '#!/bin/sh\n[ "$HVD_HOST" = localhost ] || '
                      'while [ ! -e "$1/go" ]; do sleep 0.02; done\n'
                      'exec "$0.real" "$1"\n')
    os.symlink(stage.trainer, slow + ".real")
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    run = stage.start(NP, [slow, control], hosts=["localhost:2"])
    run.control = control
    run.whole(2)
    mark = run.mark()
    run.set_hosts(*BOTH)
    run.event("worker_spawned", mark, host=OTHER)
    run.epoch(0)
    run.epoch(1)
    equal(run.seen("generation_started", mark), [], "interruptions")
    with open(os.path.join(control, "go"), "w", encoding="ascii"):
        pass
    run.whole(4, mark)
    left_together(run)
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def max_np_keeps_the_rest_out(stage):
    run = stage.start(["-np", "2", "--min-np", "1", "--max-np", "3"],
                      hosts=["localhost:2"])
    run.whole(2)
    mark = run.mark()
    run.set_hosts(*BOTH)
    run.whole(3, mark)
    run.epoch(0)
    equal(len(run.seen("worker_spawned")), 3, "workers")
    run.allow(3)
    run.ends(0)
    run.agrees(3)


@scenario
def slots_come_and_go(stage):
    run = stage.start(["-np", "1", "--min-np", "1"], hosts=["localhost:1"])
    run.whole(1)
    for slots in (3, 2):
        mark = run.mark()
        run.set_hosts("localhost:%d" % slots)
        rows = run.whole(slots, mark)["ranks"]
        equal([row["slot"] for row in rows], list(range(slots)), "slots")
    left_together(run, 2)
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def all_hosts_exchanged(stage):
    """The state moves to the newcomers before its holders go."""
    run = stage.start(["-np", "2", "--min-np", "2"], hosts=["localhost:2"])
    run.whole(2)
    run.epoch(0)
    mark = run.mark()
    run.set_hosts("127.0.0.2:1", "127.0.0.3:1")
    run.until("the new hosts alone", lambda: [
        e for e in run.seen("generation_formed", mark)
        if {row["host"] for row in e["ranks"]} == {OTHER, THIRD}], PATIENCE_S)
    equal(run.epoch(1)["epoch"], 1, "epoch")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def host_removed_below_min_np_waits(stage):
    """Who cannot be spared stays until somebody replaces him."""
    run = stage.start(NP, hosts=["localhost:1", "127.0.0.2:1"])
    run.whole(2)
    mark = run.mark()
    run.set_hosts("localhost:1")
    run.event("host_removed", mark, host=OTHER)
    run.epoch(0)
    equal(run.formed()["size"], 2, "size")
    run.set_hosts("localhost:1", "127.0.0.3:1")
    run.until("the exchange", lambda: {
        row["host"] for row in run.members()} == {LOCAL, THIRD}, PATIENCE_S)
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def worker_asks_to_leave(stage):
    """hvd_drain: it leaves at a boundary, its slot stays empty."""
    run = stage.start(["-np", "4", "--min-np", "1"], ("--drain-on-term",),
                      hosts=BOTH)
    run.whole(4)
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"], signal.SIGTERM)
    run.event("worker_drained", mark, worker=row["worker"])
    run.whole(3, mark, {row["worker"]})
    left_together(run)
    run.epoch(0)
    run.allow(3)
    run.ends(0)
    run.agrees(3)


# ---- discovery that fails later ---------------------------------------------

def last_list_kept(stage, script, words, options=()):
    run = stage.start([*NP, *options], hosts=["localhost:2"])
    run.whole(2)
    mark = run.mark()
    run.set_script(script)
    run.says(words, times=1)
    run.epoch(0)
    equal(run.seen("host_removed", mark), [], "hosts removed")
    equal(run.seen("generation_formed", mark), [], "generations")
    run.set_script("echo localhost:2; echo 127.0.0.2:1")
    run.whole(3, mark)
    run.allow(3)
    run.ends(0)
    run.agrees(3)


@scenario
def discovery_fails_later(stage):
    last_list_kept(stage, "exit 9", "9")


@scenario
def discovery_fails_at_first(stage):
    """Whom it asks is not there yet, and comes."""
    run = stage.start(NP, script="exit 1")
    run.says("no hosts are known")
    run.set_script("echo localhost:2; echo 127.0.0.2:1")
    run.whole(3)
    run.allow(3)
    run.ends(0)
    run.agrees(3)


@scenario
def discovery_prints_garbage_later(stage):
    last_list_kept(stage, "echo 'what is?'", "what is?")


@scenario
def discovery_hangs_later(stage):
    last_list_kept(stage, "exec sleep 1000", "0.5 s",
                   ["--discovery-timeout", "0.5"])


@scenario
def discovery_lists_another_machine_later(stage):
    last_list_kept(stage, "echo elsewhere.invalid:2", "elsewhere.invalid",
                   ["--launcher", "local"])


@scenario
def removed_while_it_computes(stage):
    """The others wait for --drain-timeout, not for its step; who has to leave
    with it, and waits for it too, leaves in peace."""
    run = stage.start([*NP, "--drain-timeout", "0.5"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    row, mark = run.row(rank=3), run.mark()
    jobs.kill(row["pid"], signal.SIGHUP)
    run.set_hosts("localhost:2")
    lost = run.event("worker_lost", mark, worker=row["worker"])
    check("--drain-timeout" in lost["how"], lost)
    run.whole(2, mark, {row["worker"]})
    equal(len(run.seen("worker_lost", mark)), 1, "workers lost")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


if __name__ == "__main__":
    sys.exit(main())
