"""test_errors - ranks that disagree, users' errors, programs that leave early,
static programs, a program without a driver, and Ctrl-C: the exit status and the
sentence of each.
"""
import os
import signal
import subprocess
import sys

from harness import (LOCAL, OTHER, PATIENCE_S, check, equal, main, scenario)
import job as jobs

NP = ["-np", "3", "-H", "localhost:3"]


def all_say(run, *words):
    """The job ends with 1 and a sentence with these words, which every worker
    said too."""
    verdict = run.ends(1)
    for word in words:
        check(word in verdict, "%r is not in %r" % (word, verdict))
    told = [line for line in run.errors if "<stderr>:" in line]
    equal(len(told), 3, "workers that said why")
    for line in told:
        for word in words:
            check(word in line, "%r is not in %r" % (word, line))
    equal(len(run.seen("worker_spawned")), 3, "workers: nobody is restarted")


# ---- ranks disagree ---------------------------------------------------------

@scenario
def mismatch_of_counts(stage):
    run = stage.start(NP, ("--count-at", "20"))
    all_say(run, "allreduce", "rank 2", "1", "2")


@scenario
def mismatch_of_dtypes(stage):
    run = stage.start(NP, ("--dtype-at", "20"))
    all_say(run, "allreduce", "rank 2", "float64", "int64")


@scenario
def mismatch_of_operators(stage):
    run = stage.start(NP, ("--op-at", "20"))
    all_say(run, "allreduce", "rank 2", "max", "sum")


@scenario
def mismatch_of_roots(stage):
    run = stage.start(NP, ("--root-at", "20"))
    all_say(run, "broadcast", "rank 2")


@scenario
def mismatch_of_kinds(stage):
    run = stage.start(NP, ("--kind-at", "20"))
    all_say(run, "allreduce", "rank 2", "barrier")


@scenario
def ranks_commit_unequally_often(stage):
    """The second commit of a generation compares states, so both are there."""
    run = stage.start(["-np", "2"], ("--unequal",), hosts=["localhost:2"])
    check("hvd_state_commit" in run.ends(1) and
          "ranks must commit equally often" in run.verdict(), run.verdict())


@scenario
def ranks_commit_unequally_often_where_nothing_is_compared(stage):
    """Told when it matters: at the boundary where all are to leave."""
    run = stage.start(["-np", "2", "--verify-state", "off"], ("--unequal",),
                      hosts=["localhost:2"])
    run.whole(2)
    run.epoch(0)
    run.set_hosts("localhost:2", "127.0.0.2:1")
    check("ranks must commit equally often" in run.ends(1), run.verdict())


def refused_newcomer(stage, words, *options):
    """A newcomer that is odd by these options of trainer; the job, when it has
    gone with these words, and the mark before it came."""
    run = stage.start(["-np", "1", "--min-np", "1"], options,
                      hosts=["localhost:1"])
    run.whole(1)
    mark = run.mark()
    run.set_hosts("localhost:1", "127.0.0.2:1")
    exited = run.event("worker_exited", mark, host=OTHER)
    equal(exited["code"], 1, "exit code of the newcomer")
    run.says(words)
    run.epoch(0)
    return run, mark


def goes_on_without(run):
    run.allow(3)
    run.ends(0)
    run.agrees(1)
    equal(len(run.seen("worker_spawned")), 2, "workers: it is not restarted")


@scenario
def layout_of_a_newcomer_differs(stage):
    """It alone is refused; the others train on."""
    run, mark = refused_newcomer(stage, "layouts differ", "--odd-host", OTHER)
    equal(run.seen("generation_formed", mark), [], "generations")
    goes_on_without(run)


@scenario
def size_of_a_newcomer_differs(stage):
    """The same, when it is found out: as it gets the state."""
    run, _ = refused_newcomer(stage, "'model' has", "--size-host", OTHER)
    goes_on_without(run)


@scenario
def entry_added_in_train_keeps_newcomers_out(stage):
    run, _ = refused_newcomer(stage, "1 shared entries here, 2 at the source",
                              "--late-entry")
    goes_on_without(run)


@scenario
def the_plan_comes_true(stage):
    """Nothing happens between hvd_init() and the first generation."""
    run = stage.start(["-np", "3", "-H", "localhost:2,127.0.0.2:1"],
                      [stage.chaos, "--say-plan", "--steps", "20"])
    run.ends(0)
    said = [line.partition(":")[2] for line in run.lines if ":plan " in line]
    equal(len(said), 3, "workers that said their plan")
    for line in said:
        planned, _, became = line.removeprefix("plan ").partition(" is ")
        equal(planned, became, "the plan")


# ---- users' errors and exits ------------------------------------------------

@scenario
def error_of_the_user(stage):
    """It ends the job and names the worker; it is no loss to recover from."""
    run = stage.start(NP, ("--fail-at", "20"))
    verdict = run.ends(1)
    check("-1234" in verdict and "worker 1" in verdict, verdict)
    equal(len(run.seen("worker_spawned")), 3, "workers: nobody is restarted")


@scenario
def exit_1_in_the_middle(stage):
    run = stage.start(["-np", "2", "--min-np", "2", "-H", "localhost:2",
                       "--slot-restarts", "0", "--elastic-timeout", "6"])
    run.whole(2)
    run.epoch(0)
    jobs.kill(run.row(rank=1)["pid"], signal.SIGUSR1)
    check("exited with status 1" in run.ends(1), run.verdict())


@scenario
def exit_without_shutdown(stage):
    """After hvd_elastic_run has said HVD_OK nothing more is asked for."""
    run = stage.start(["-np", "2"], [stage.chaos, "--no-shutdown"])
    run.ends(0)
    run.agrees(2)


@scenario
def many_deaths_without_progress(stage):
    """A program that dies whenever it trains ends the job, not the night."""
    run = stage.start(["-np", "2", "--min-np", "1", "-H",
                       "localhost:1,127.0.0.2:1", "--slot-restarts", "2"],
                      [stage.chaos, "--exit-at", "0", "--exit-code", "5"])
    check("exited with status 5" in run.ends(1), run.verdict())


@scenario
def worker_that_gives_up_is_a_death(stage):
    """The others train on, and the log has the sentence."""
    run = stage.start(["-np", "2", "--min-np", "1"],
                      [stage.chaos, "--abandon-at", "20", "--exit-code", "5",
                       "--steps", "300"])
    run.ends(0)
    why = "worker 1 (localhost:0) gave up: no more data"
    check(run.seen("generation_started", reason=why),
          "the generation has another reason")
    equal([e["how"] for e in run.seen("worker_lost") if e["worker"] == 1],
          ["gave up: no more data"], "how worker 1 was lost")


@scenario
def worker_of_a_static_job_that_gives_up_ends_it(stage):
    run = stage.start(["-np", "2"], [stage.chaos, "--static", "--abandon-at",
                                     "20", "--exit-code", "5"])
    check("gave up: no more data" in run.ends(1), run.verdict())


# ---- static programs and no driver ------------------------------------------

@scenario
def static_success(stage):
    run = stage.start(NP, ("--static",))
    run.whole(3)
    run.epoch(0)
    run.allow(3)
    run.ends(0)
    run.agrees(3)


@scenario
def static_loss(stage):
    run = stage.start(["-np", "3", "--min-np", "1", "-H", "localhost:3"],
                      ("--static",))
    run.whole(3)
    run.epoch(0)
    jobs.kill(run.row(rank=1)["pid"])
    verdict = run.ends(1)
    # as its agent or as its peers saw it
    check("static" in verdict and "worker 2" in verdict, verdict)
    equal(len(run.seen("generation_formed")), 1, "generations")
    equal(len(run.seen("worker_spawned")), 3, "workers: nobody is restarted")


@scenario
def static_exit_without_shutdown(stage):
    run = stage.start(["-np", "2"], [stage.chaos, "--static",
                                     "--no-shutdown"])
    check("status 0" in run.ends(1), run.verdict())


@scenario
def static_takes_nobody_in(stage):
    run = stage.start(["-np", "2", "--min-np", "2"], ("--static",),
                      hosts=["localhost:2"])
    run.whole(2)
    mark = run.mark()
    run.set_hosts("localhost:2", "127.0.0.2:2")
    run.event("host_added", mark, host=OTHER)
    run.epoch(0)
    equal(run.seen("worker_spawned", mark), [], "newcomers")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


def alone(stage, *options):
    """The program by hand, without a driver: a world of one."""
    control = stage.root
    with open(control + "/epoch", "w", encoding="ascii") as file:
        file.write("3")
    return subprocess.run([stage.trainer, *options, control],
                          capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)


@scenario
def world_of_one_without_a_driver(stage):
    for options in ((), ("--static",)):
        done = alone(stage, *options)
        equal((done.returncode, done.stderr), (0, ""), "status and stderr")
        lines = done.stdout.splitlines()
        equal(len(lines), 4, "lines")
        check(lines[0].startswith("epoch 0 size 1 start_rank 0"), lines[0])
        check(lines[3].startswith("final digest"), lines[3])


@scenario
def error_of_the_user_without_a_driver(stage):
    done = alone(stage, "--fail-at", "0")
    equal(done.returncode, 1, "status")
    check("-1234" in done.stderr or "user" in done.stderr, done.stderr)


# ---- Ctrl-C -----------------------------------------------------------------

def drained(stage, number, options, hosts):
    run = stage.start(options, hosts=hosts)
    run.whole(4)
    run.epoch(0)
    run.interrupt(number)
    run.ends(128 + number)
    equal(len([line for line in run.lines if line.endswith(":removed")]), 4,
          "workers that were told that they were removed")
    equal({e.get("code") for e in run.seen("worker_exited")}, {0},
          "exit codes")


@scenario
def ctrl_c_once_drains(stage):
    drained(stage, signal.SIGINT, ["-np", "4", "-H",
                                   "localhost:2,127.0.0.2:2"], None)


@scenario
def sigterm_once_drains(stage):
    drained(stage, signal.SIGTERM, ["-np", "4", "--min-np", "2"],
            ("localhost:2", "127.0.0.2:2"))


@scenario
def sigterm_to_all_processes(stage):
    """As systemd does. Workers die of it, agents say that their hosts go."""
    run = stage.start(["-np", "4", "--min-np", "2"],
                      hosts=("localhost:2", "127.0.0.2:2"))
    run.whole(4)
    run.epoch(0)
    run.interrupt(signal.SIGTERM)
    run.says("once more kills")
    for pid in run.processes():
        jobs.kill(pid, signal.SIGTERM)
    run.ends(128 + signal.SIGTERM)
    check("interrupted" in run.verdict(), run.verdict())


@scenario
def ctrl_c_twice_kills(stage):
    """The workers are stopped and would never drain."""
    run = stage.start(["-np", "2", "-H", "localhost:1,127.0.0.2:1"])
    run.whole(2)
    for pid in run.pids().values():
        jobs.kill(pid, signal.SIGSTOP)
    run.interrupt()
    run.says("once more kills")
    run.interrupt()
    run.ends(130)
    equal([e.get("signal") for e in run.seen("worker_exited")],
          [signal.SIGKILL] * 2, "signals")


@scenario
def ctrl_c_of_workers_that_do_not_drain(stage):
    """They reach no boundary: after --drain-timeout they are ended."""
    run = stage.start(["-np", "2", "--drain-timeout", "0.3", "-H",
                       "localhost:2"])
    run.whole(2)
    for pid in run.pids().values():
        jobs.kill(pid, signal.SIGHUP)
    run.says("hangs")
    run.interrupt()
    check("--drain-timeout" in run.ends(130), run.verdict())


@scenario
def ctrl_c_before_there_are_hosts(stage):
    run = stage.start(["-np", "2"], hosts=[])
    run.event("job_started")
    run.interrupt()
    run.ends(130)


@scenario
def ctrl_c_before_anybody_is_ready(stage):
    run = stage.start(["-np", "2"], ["sleep", "1000"])
    run.event("worker_spawned")
    run.interrupt()
    run.ends(130)


@scenario
def ctrl_c_of_a_static_job(stage):
    run = stage.start(["-np", "2"], ("--static",))
    run.whole(2)
    run.interrupt()
    run.ends(130)


def in_epilogue(stage):
    """A job whose workers have finished and wait for a file; its name."""
    gate = os.path.join(stage.root, "gate")
    run = stage.start(["-np", "2"], [
        "sh", "-c", "%s --steps 5 && until [ -e %s ]; do sleep 0.02; done"
        % (stage.chaos, gate)])
    run.event("released")
    run.interrupt()
    run.says("ending; once more kills")
    return run, gate


@scenario
def ctrl_c_once_lets_finished_workers_end(stage):
    run, gate = in_epilogue(stage)
    open(gate, "wb").close()
    run.ends(0)


@scenario
def ctrl_c_twice_kills_finished_workers(stage):
    run, _ = in_epilogue(stage)
    run.interrupt()
    check("interrupted twice" in run.ends(130), run.verdict())


@scenario
def stopped_after_it_has_finished(stage):
    """It has a deadline, and the job an end and a cause."""
    run = stage.start(["-np", "2", "--exit-timeout", "1"], [
        "sh", "-c", "%s --steps 5 && kill -STOP $$" % stage.chaos])
    check("did not exit within --exit-timeout" in run.ends(1), run.verdict())


@scenario
def status_of_a_worker_that_had_finished(stage):
    run = stage.start(["-np", "2"],
                      ["sh", "-c", stage.chaos + " --steps 5; exit 3"])
    check("had finished, but then exited with status 3" in run.ends(1),
          run.verdict())


@scenario
def ctrl_c_while_a_slot_waits(stage):
    """In a rendezvous below --min-np there is nobody to wait for."""
    run = stage.start(["-np", "2", "--min-np", "2", "--strict-blacklist", "-H",
                       "localhost:1,127.0.0.2:1"])
    run.whole(2)
    run.epoch(0)
    jobs.kill(run.row(host=LOCAL)["pid"])
    run.event("host_blacklisted", host=LOCAL)
    run.interrupt()
    run.ends(130)


if __name__ == "__main__":
    sys.exit(main())
