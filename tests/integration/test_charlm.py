"""test_charlm - the example that trains a language model, with its gradients
posted by name while it computes others.
"""
import collections
import json
import os
import signal
import sys

from harness import (LOCAL, OTHER, SLOW, alone, check, equal, main, plain,
                     scenario)
import job as jobs
from spans import begin_of, end_of, lane


def learned(stage, n, *options):
    """The digest that so many ranks agree on."""
    run = stage.start(["-np", str(n), "-H", "%s:%d" % (LOCAL, n)],
                      stage.example("charlm", "--steps", "50", *options))
    run.ends(0)
    run.agrees(n)
    return run.digests()[0]


@scenario
def by_name_as_by_one_call(stage):
    """The same bits, of two ranks; with more, who is added first depends on
    where a number lies in its buffer."""
    equal(learned(stage, 2, "--by-name"), learned(stage, 2), "digest")
    learned(stage, 3, "--by-name")


@scenario
def one_dies_while_gradients_travel(stage):
    """Nobody takes its place: its host is not used again."""
    steps = 600 if SLOW == 1 else 60
    run = stage.start(["-np", "3", "--min-np", "2", "--strict-blacklist"],
                      stage.example("charlm", "--steps", str(steps), "--report",
                                    "5", "--hidden", "200", "--by-name"),
                      hosts=(LOCAL + ":2", OTHER + ":1"))
    run.whole(3)
    run.says("step 5 ")
    jobs.kill(run.row(host=OTHER)["pid"], signal.SIGKILL)
    run.ends(0)
    run.agrees(2)
    equal({digest[1] for digest in run.digests()}, {steps}, "steps")


def times_of(events, pid, name):
    """When each call by this name was posted, and when it began."""
    times, end = collections.defaultdict(list), 0
    for span in lane(events, pid, name):
        if begin_of(span) >= end:  # not a phase of the one before
            times[span["name"]].append(begin_of(span))
            end = end_of(span)
    return times["NEGOTIATE_ALLREDUCE"], times["ALLREDUCE"]


@plain
@alone
def gradients_travel_while_others_are_computed(stage):
    """The last layer's call has begun when the first one's is not posted yet.
    Not in each step: the thread that runs it shares the cores with the ranks."""
    steps = 20
    path = os.path.join(stage.root, "trace.json")
    run = stage.start(["-np", "2", "-H", LOCAL + ":2", "--timeline", path],
                      stage.example("charlm", "--steps", str(steps), "--hidden",
                                    "1000", "--by-name"))
    run.ends(0)
    run.agrees(2)
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    early = 0
    for pid in (1, 2):
        _, begun = times_of(events, pid, "scores")
        posted, _ = times_of(events, pid, "embedding")
        equal((len(begun), len(posted)), (steps, steps), "calls")
        early += sum(one < other for one, other in zip(begun, posted))
    stage.note("in %d of %d steps" % (early, 2 * steps))
    check(early > 0, "no call runs while a gradient is computed")


if __name__ == "__main__":
    sys.exit(main())
