"""test_posted - asynchronous calls in real jobs: chaos_worker posts, computes,
and leaves half of its requests in flight, for a commit to complete or for the
end of a generation to fail. It aborts if one is not complete then, or wrong.
"""
import signal
import sys

from harness import LOCAL, OTHER, PATIENCE_S, equal, main, scenario
import job as jobs

NP = ["-np", "4", "--min-np", "1", "--max-np", "4"]
BOTH = (LOCAL + ":2", OTHER + ":2")
ENDLESS = ["--posted", "--steps", "1000000", "--step-us", "200"]


@scenario
def completed_by_commits_and_by_the_end(stage):
    run = stage.start(["-np", "3", "-H", "localhost:3"],
                      [stage.chaos, "--posted", "--steps", "201"])
    run.ends(0)
    run.agrees(3)


@scenario
def in_a_static_program(stage):
    run = stage.start(["-np", "2"], [stage.chaos, "--static", "--posted",
                                     "--steps", "101"])
    run.ends(0)
    run.agrees(2)


def killed_one_by_one(stage, program, ranks):
    run = stage.start([*NP, "--slot-restarts", "32"], program, hosts=BOTH)
    mark, victims = 0, set()
    for rank in ranks:
        run.whole(4, mark, victims)
        row = run.row(rank=rank)
        mark, victims = run.mark(), victims | {row["worker"]}
        jobs.kill(row["pid"], signal.SIGKILL)
    run.whole(4, mark, victims)
    run.interrupt()
    run.ends(130)


@scenario
def failed_by_deaths_at_any_moment(stage):
    killed_one_by_one(stage, [stage.chaos, *ENDLESS], (2, 0, 3, 1))


@scenario
def by_several_threads_by_turns(stage):
    """One at a time issues calls, as an autograd engine's threads do."""
    killed_one_by_one(stage, [stage.chaos, "--by-turns", *ENDLESS[1:]], (1, 0))


@scenario
def by_name_beside_calls_in_order(stage):
    """Two threads meet the loss of a peer at once: one of them leaves."""
    for options in (["--static"], ["--static", "--posted"]):
        run = stage.start(["-np", "3", "-H", "localhost:3"], [
            stage.chaos, "--beside", *options, *ENDLESS[1:]])
        run.whole(3)
        run.event("first_collective", rank=0)
        victim = run.row(rank=1)
        jobs.kill(victim["pid"])
        run.ends(1)
        for gone in run.seen("worker_exited"):
            if gone["worker"] != victim["worker"]:
                equal(gone.get("code"), 1, gone)


@scenario
def by_turns_and_posted(stage):
    run = stage.start(["-np", "3"], [stage.chaos, "--by-turns", "--posted",
                                     "--steps", "201"])
    run.ends(0)
    run.agrees(3)


@scenario
def left_behind_at_boundaries(stage):
    run = stage.start(["-np", "2", "--min-np", "1", "--max-np", "4"],
                      [stage.chaos, *ENDLESS, "--commit-every", "3"],
                      hosts=BOTH[:1])
    run.whole(2)
    for hosts, size in ((BOTH, 4), (BOTH[1:], 2), (BOTH, 4)):
        mark = run.mark()
        run.set_hosts(*hosts)
        run.until("%d members" % size,
                  lambda: run.running(mark, size), PATIENCE_S)
    run.interrupt()
    run.ends(130)


if __name__ == "__main__":
    sys.exit(main())
