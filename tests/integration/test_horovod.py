"""test_horovod - Horovod's behaviours by their names there, as real processes.

Cases that depend on its rule for failures (one costs the host) run with
--strict-blacklist and have a twin under our default (one costs the slot a
restart). docs/conformance.md says where we differ and why.
"""
import signal
import sys

from harness import LOCAL, OTHER, PATIENCE_S, check, equal, main, scenario
import job as jobs

STRICT = ["--strict-blacklist"]
BOTH = ("localhost:2", "127.0.0.2:2")
FIXED = ["-H", "localhost:2,127.0.0.2:2"]


# ---- how jobs are started ---------------------------------------------------

@scenario
def r1_run_with_hosts(stage):
    """-np of the slots of -H; those beyond it join, up to --max-np."""
    run = stage.start(["-np", "2", "--min-np", "2", "--max-np", "2", *FIXED])
    equal([row["host"] for row in run.whole(2)["ranks"]], [LOCAL, LOCAL],
          "hosts")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def r1_run_with_hosts_alone(stage):
    """Without -np: all of their slots."""
    run = stage.start(FIXED)
    run.whole(4)
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def r1_run_with_hostfile(stage):
    path = stage.file("hosts", "# two hosts\nlocalhost slots=1\n127.0.0.2:2\n")
    run = stage.start(["--hostfile", path])
    run.whole(3)
    run.allow(3)
    run.ends(0)
    run.agrees(3)


@scenario
def r2_run_with_discovery_script(stage):
    """Hosts without a number have --slots-per-host slots."""
    run = stage.start(["-np", "4", "--slots-per-host", "2"],
                      script="echo; echo localhost; echo '127.0.0.2 # two'")
    equal([row["host"] for row in run.whole(4)["ranks"]],
          [LOCAL, LOCAL, OTHER, OTHER], "hosts")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


# ---- driver -----------------------------------------------------------------

@scenario
def d1_rank_and_size(stage):
    """Two hosts of two slots: four workers, ranks host by host."""
    run = stage.start(["-np", "2", "--min-np", "2", "--max-np", "4"],
                      hosts=BOTH)
    rows = run.whole(4)["ranks"]
    equal([(row["rank"], row["host"], row["slot"]) for row in rows],
          [(0, LOCAL, 0), (1, LOCAL, 1), (2, OTHER, 0), (3, OTHER, 1)],
          "ranks, hosts, slots")
    run.allow(3)
    run.ends(0)
    run.agrees(4)
    equal(sorted(e["code"] for e in run.seen("worker_exited")), [0] * 4,
          "exit codes")


def fail_host(stage, strict):
    run = stage.start(["-np", "4", "--min-np", "2", *strict], hosts=BOTH)
    run.whole(4)
    equal(run.epoch(0)["size"], 4, "size of epoch 0")
    mark = run.mark()
    victims = [row for row in run.members() if row["host"] == OTHER]
    for row in victims:
        jobs.kill(row["pid"], signal.SIGUSR1)
    return run, mark, {row["worker"] for row in victims}


@scenario
def d2_rank_and_size_with_host_failure_strict(stage):
    run, mark, victims = fail_host(stage, STRICT)
    run.whole(2, mark, victims)
    equal({row["host"] for row in run.members()}, {LOCAL}, "hosts left")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def d2_rank_and_size_with_host_failure(stage):
    """Both slots are restarted and the world is 4 again."""
    run, mark, victims = fail_host(stage, [])
    run.whole(4, mark, victims)
    equal(run.seen("host_blacklisted"), [], "blacklisted hosts")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def d3_rank_and_size_with_host_added(stage):
    run = stage.start(["-np", "2", "--min-np", "2", "--max-np", "4"],
                      hosts=["localhost:2"])
    before = {row["worker"]: row["rank"] for row in run.whole(2)["ranks"]}
    mark = run.mark()
    run.set_hosts(*BOTH)
    after = {row["worker"]: row["rank"] for row in run.whole(4, mark)["ranks"]}
    equal({worker: after.get(worker) for worker in before}, before,
          "ranks of the survivors")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def d4_wait_for_available_slots(stage):
    """The start waits for -np slots, through several answers of discovery."""
    run = stage.start(["-np", "3", "--min-np", "1"], hosts=[])
    for n_hosts in range(1, 4):
        equal(run.seen("generation_formed"), [], "generations")
        run.set_hosts(*["127.0.0.%d:1" % n for n in range(2, 2 + n_hosts)])
        run.event("worker_ready", host="127.0.0.%d" % (1 + n_hosts))
    equal(run.whole(3)["generation"], 1, "generation")
    run.allow(3)
    run.ends(0)


@scenario
def d6_all_workers_fail(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    pids = run.pids().values()
    for pid in pids:
        jobs.kill(pid, signal.SIGUSR1)
    run.ends(1)
    equal([e.get("code") for e in run.seen("worker_exited")
           if e["pid"] in pids], [1] * 4, "exit codes")


@scenario
def d7_exit_0_without_done_is_a_failure(stage):
    """Horovod stops everything, well, at the first exit 0; a pod that is ended
    politely then looks like success. Ours: who leaves without having finished
    has failed, the others go on and the slot is filled again."""
    run = stage.start(["-np", "2", "--min-np", "1", *FIXED])
    run.whole(4)
    run.epoch(0)
    victim, mark = run.row(rank=1), run.mark()
    jobs.kill(victim["pid"], signal.SIGUSR2)
    lost = run.event("worker_lost", mark, worker=victim["worker"])
    check("before it was done" in lost["how"], lost)
    run.whole(4, mark, {victim["worker"]})
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def d8_host_shutdown_on_worker_failure_strict(stage):
    """The sibling of a failed worker is stopped too."""
    run = stage.start(["-np", "4", "--min-np", "1", *STRICT], hosts=BOTH)
    rows = run.whole(4)["ranks"]
    mark = run.mark()
    jobs.kill(rows[0]["pid"], signal.SIGUSR1)
    run.whole(2, mark, {rows[0]["worker"], rows[1]["worker"]})
    run.event("host_blacklisted", mark, host=LOCAL)
    run.event("worker_exited", mark, worker=rows[1]["worker"])
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def d8_sibling_goes_on(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], hosts=BOTH)
    rows = run.whole(4)["ranks"]
    mark = run.mark()
    jobs.kill(rows[0]["pid"], signal.SIGUSR1)
    after = run.whole(4, mark, {rows[0]["worker"]})["ranks"]
    equal(after[0]["worker"], rows[1]["worker"], "the new rank 0")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def d14_shutdown_on_initial_discovery_failure(stage):
    """At once if no other try would mend it, else when time is up."""
    for status in (2, 3):
        run = stage.start(["-np", "1", "--elastic-timeout", "1"],
                          script="exit %d" % status)
        check("hosts.sh" in run.ends(1), run.verdict())
        equal(run.seen("worker_spawned"), [], "workers")


# ---- training ---------------------------------------------------------------

def added_and_removed(stage, slots):
    run = stage.start(["-np", str(slots), "--min-np", str(slots)],
                      hosts=["localhost:%d" % slots])
    run.whole(slots)
    row = run.epoch(0)
    equal((row["size"], row["host"]), (slots, LOCAL), "epoch 0")

    mark = run.mark()
    run.set_hosts("localhost:%d" % slots, "127.0.0.2:%d" % slots)
    run.whole(2 * slots, mark)
    row = run.epoch(1)
    equal((row["size"], row["host"], row["start_rank"]), (2 * slots, LOCAL, 0),
          "epoch 1")

    mark = run.mark()
    run.set_hosts("127.0.0.2:%d" % slots)
    run.whole(slots, mark)
    row = run.epoch(2)
    equal((row["size"], row["host"], row["start_rank"], row["rendezvous"]),
          (slots, OTHER, slots, 3), "epoch 2")
    run.ends(0)
    run.agrees(slots)
    equal(len([line for line in run.lines if line.endswith(":removed")]),
          slots, "workers that were told that they were removed")
    equal(len(run.epochs()), 3, "lines")


@scenario
def e1_hosts_added_and_removed_2_slots(stage):
    added_and_removed(stage, 2)


@scenario
def e1_hosts_added_and_removed_1_slot(stage):
    added_and_removed(stage, 1)


def one_fails(stage, number, options, hosts, strict):
    run = stage.start(["-np", "4", "--min-np", "2", *options, *strict],
                      hosts=hosts)
    run.whole(4)
    row = run.epoch(0)
    equal((row["size"], row["rendezvous"]), (4, 1), "epoch 0")

    victim, mark = run.row(rank=0), run.mark()
    jobs.kill(victim["pid"], number)
    if strict:
        run.whole(2, mark)
        want = (2, OTHER, 2, 2)
    else:
        run.whole(4, mark, {victim["worker"]})
        survivors = run.seen("generation_formed", mark)[0]
        equal(survivors["size"], 3, "size of the survivors' generation")
        want = (4, LOCAL, 1, 3)
    for number in (1, 2):
        row = run.epoch(number)
        equal((row["size"], row["host"], row["start_rank"],
               row["rendezvous"]), want, "epoch %d" % number)
    run.ends(0)
    run.agrees(want[0])
    equal(len(run.epochs()), 3, "lines")


@scenario
def e2_single_rank_failure_exit_strict(stage):
    one_fails(stage, signal.SIGUSR1, [], BOTH, STRICT)


@scenario
def e2_single_rank_failure_exit(stage):
    one_fails(stage, signal.SIGUSR1, [], BOTH, [])


@scenario
def e2_single_rank_failure_kill_strict(stage):
    one_fails(stage, signal.SIGKILL, [], BOTH, STRICT)


@scenario
def e2_single_rank_failure_kill(stage):
    one_fails(stage, signal.SIGKILL, [], BOTH, [])


@scenario
def e3_fault_tolerance_without_scaling_exit_strict(stage):
    one_fails(stage, signal.SIGUSR1, FIXED, None, STRICT)


@scenario
def e3_fault_tolerance_without_scaling_exit(stage):
    one_fails(stage, signal.SIGUSR1, FIXED, None, [])


@scenario
def e3_fault_tolerance_without_scaling_kill_strict(stage):
    one_fails(stage, signal.SIGKILL, FIXED, None, STRICT)


@scenario
def e3_fault_tolerance_without_scaling_kill(stage):
    one_fails(stage, signal.SIGKILL, FIXED, None, [])


@scenario
def e4_all_ranks_failure(stage):
    run = stage.start(["-np", "4", "--min-np", "2", *FIXED])
    run.whole(4)
    run.epoch(0)
    for pid in run.pids().values():
        jobs.kill(pid, signal.SIGKILL)
    check("nobody is left who holds the state" in run.ends(1), run.verdict())


@scenario
def e5_all_hosts_blacklisted_strict(stage):
    """The last worker that holds the state trains on until it fails, too."""
    run = stage.start(["-np", "4", "--min-np", "1", *STRICT], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    mark = run.mark()
    jobs.kill(run.row(rank=0)["pid"], signal.SIGUSR1)
    run.whole(2, mark)
    mark = run.mark()
    jobs.kill(run.row(rank=0)["pid"], signal.SIGUSR1)
    run.whole(1, mark)
    jobs.kill(run.row(rank=0)["pid"], signal.SIGUSR1)
    run.ends(1)
    equal({e["host"] for e in run.seen("host_blacklisted")}, {LOCAL, OTHER},
          "blacklisted hosts")
    check("exited with status 1" in run.verdict(), run.verdict())


@scenario
def e5_all_hosts_blacklisted(stage):
    """By default slots are restarted: one failure per host is no end."""
    run = stage.start(["-np", "4", "--min-np", "1"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    mark, gone = run.mark(), set()
    for host in (LOCAL, OTHER):
        victim = run.row(host=host, slot=0)
        gone.add(victim["worker"])
        jobs.kill(victim["pid"], signal.SIGUSR1)
    run.whole(4, mark, gone)
    equal(run.seen("host_blacklisted"), [], "blacklisted hosts")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def e5_budgets_used_up(stage):
    """A slot that fails more often than --slot-restarts is closed."""
    run = stage.start(["-np", "2", "--min-np", "1", "--slot-restarts", "1",
                       "-H", "localhost:1,127.0.0.2:1"])
    run.whole(2)
    run.epoch(0)
    for _ in range(2):
        mark, victim = run.mark(), run.row(host=OTHER)
        jobs.kill(victim["pid"], signal.SIGUSR1)
        run.until("another generation", lambda: run.running(
            mark, None, {victim["worker"]}), PATIENCE_S)
        if not run.seen("slot_closed"):
            run.whole(2, mark, {victim["worker"]})
    run.event("slot_closed", host=OTHER)
    equal(run.seen("host_blacklisted"), [], "blacklisted hosts")
    run.allow(3)
    run.ends(0)
    run.agrees(1)


@scenario
def e6_min_hosts_timeout(stage):
    seconds = "6"  # the job has to begin within them, too
    run = stage.start(["-np", "2", "--min-np", "2", "--elastic-timeout",
                       seconds, *STRICT],
                      hosts=["localhost:1", "127.0.0.2:1"])
    run.whole(2)
    run.epoch(0)
    jobs.kill(run.row(rank=0)["pid"], signal.SIGUSR1)
    check("--elastic-timeout" in run.ends(1), run.verdict())


def two_changes(stage, limit):
    run = stage.start(["-np", "1", "--min-np", "1", "--reset-limit",
                       str(limit)], hosts=["localhost:1"])
    run.whole(1)
    run.epoch(0)
    mark = run.mark()
    run.set_hosts("localhost:1", "127.0.0.2:1")
    run.whole(2, mark)
    run.epoch(1)
    run.set_hosts("127.0.0.2:1")
    return run


@scenario
def e7_reset_limit_reached(stage):
    check("--reset-limit 1" in two_changes(stage, 1).ends(1))


@scenario
def e7_reset_limit_kept(stage):
    run = two_changes(stage, 2)
    run.event("generation_formed", generation=3)
    run.epoch(2)
    run.ends(0)
    equal(len(run.epochs()), 3, "lines")


@scenario
def e8_resurrecting_blacklisted_host(stage):
    """Back after its cooldown, and no longer the oldest."""
    run = stage.start(["-np", "4", "--min-np", "2", *STRICT,
                       "--blacklist-cooldown-range", "1", "2"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    mark = run.mark()
    jobs.kill(run.row(rank=0)["pid"], signal.SIGUSR1)
    black = run.event("host_blacklisted", mark, host=LOCAL)
    check(black["until"] - black["t"] >= 1, "cooldown:", black)
    run.whole(2, mark)
    formed = run.whole(4, mark)
    check(formed["t"] >= black["until"], "back before its time:", formed)
    equal([row["host"] for row in formed["ranks"]],
          [OTHER, OTHER, LOCAL, LOCAL], "hosts by rank")
    run.allow(3)
    run.ends(0)
    run.agrees(4)


if __name__ == "__main__":
    sys.exit(main())
