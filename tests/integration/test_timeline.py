"""test_timeline - --timeline FILE: JSON at every moment, whoever is killed, and
the right spans in it.
"""
import collections
import json
import os
import random
import signal
import subprocess
import sys

from harness import PATIENCE_S, check, equal, main, scenario
import job as jobs
from spans import begin_of, end_of, lane

BOTH = ("localhost:2", "127.0.0.2:2")
SLOWLY = ("--step-us", "2000")  # nothing is dropped
LANES = {1: "collectives", 2: "elastic"}


def timeline_of(stage):
    directory = os.path.join(stage.root, "timeline")
    os.makedirs(directory)
    return os.path.join(directory, "trace.json")


def start(stage, options, program=(), hosts=None):
    path = timeline_of(stage)
    return stage.start([*options, "--timeline", path], program, hosts), path


# ---- looking -----------------------------------------------------------------

def files(path):
    """What a person would look at: not what is being made."""
    directory = os.path.dirname(path)
    return sorted(os.path.join(directory, name)
                  for name in os.listdir(directory)
                  if not name.endswith(".new"))


def load(path, alive=False):
    """A file that is being written may be copied in the middle of a copy: who
    reads it then looks again. Nothing excuses a file whose writer is dead."""
    for attempt in range(2 if alive else 1):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            return json.loads(text)
        except FileNotFoundError:
            if alive:
                return []  # merged
            raise
        except ValueError as wrong:
            problem = "%s: %s: %r" % (path, wrong, text[-200:])
    check(False, problem)
    return None


def load_all(path, alive=False):
    return [event for name in files(path) for event in load(name, alive)]


def check_event(event):
    """What a viewer needs."""
    check(isinstance(event["name"], str) and event["name"], event)
    check(isinstance(event["pid"], int) and isinstance(event["tid"], int),
          event)
    check(event["ph"] in "XBEbeiM", event)
    if event["ph"] != "M":
        check(event["ts"] > 0, event)
    if event["ph"] == "X":
        check(event["dur"] >= 0, event)
    if event["ph"] in "be":
        check(event["cat"] and "id" in event, event)


def check_nesting(events):
    """In each lane a span lies within another or beside it. Clocks have three
    decimals, so whole nanoseconds compare exactly."""
    lanes = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append(
                (begin_of(event), end_of(event), event["name"]))
    for lane, spans in lanes.items():
        stack = []
        for begin, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            check(not stack or end <= stack[-1], lane, name, "overlaps")
            stack.append(end)


def check_all(events):
    for event in events:
        check_event(event)
    check_nesting(events)
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
             if e["name"] == "thread_name"}
    for pid in {e["pid"] for e in events if e["pid"] > 0}:
        for tid, name in LANES.items():
            equal(named.get((pid, tid)), name, "lane %d of %d" % (tid, pid))


def names_of(events, pid):
    return collections.Counter(e["name"] for e in events
                               if e["pid"] == pid and e["ph"] != "E")


def pids_of(events):
    return {event["pid"] for event in events}


# ---- scenarios ---------------------------------------------------------------

@scenario
def one_file_in_the_end(stage):
    run, path = start(stage, ["-np", "2", "-H", "localhost:1,127.0.0.2:1"],
                      SLOWLY)
    run.whole(2)
    run.allow(3)
    run.ends(0)
    equal(files(path), [path], "files")
    events = load(path)
    check_all(events)
    equal(pids_of(events), {0, 1, 2}, "processes")
    first, second = names_of(events, 1), names_of(events, 2)
    check(first["ALLREDUCE"] > 3, first)
    for name in ("ALLREDUCE", "BROADCAST", "COMMIT"):
        equal(first[name], second[name], name)
    for name in ("RENDEZVOUS", "GENERATION 1", "SYNC"):
        equal(first[name], 1, name)
        equal(names_of(events, 0)[name], name != "SYNC", name)
    said = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    equal(said, {"driver"} | {"worker %d (%s:0)" % (row["worker"], row["host"])
                              for row in run.members()}, "names of processes")


@scenario
def spans_tell_what_was_called(stage):
    run, path = start(stage, ["-np", "2"], SLOWLY)
    run.whole(2)
    run.allow(3)
    run.ends(0)
    events = load(path)
    for event in events:
        if event["name"] == "ALLREDUCE":
            equal({key: event["args"][key]
                   for key in ("bytes", "count", "dtype", "op")},
                  {"bytes": 16, "count": 2, "dtype": "int64", "op": "sum"},
                  "what is said of an allreduce")
    phases = ("NEGOTIATE_ALLREDUCE", "shared_memory")
    for pid in (1, 2):
        inside = names_of(events, pid)
        for phase in phases:
            check(inside[phase] > 0, phase, inside)
    # the same clock for all: two ranks' n-th allreduce overlap
    both = [[(e["ts"], e["ts"] + e["dur"]) for e in events
             if e["pid"] == pid and e["name"] == "ALLREDUCE"]
            for pid in (1, 2)]
    for one, other in zip(*both):
        check(one[0] <= other[1] and other[0] <= one[1], one, other)
    # and the driver's: all of it within the job
    t = {e["name"]: e["ts"] for e in events if e["pid"] == 0 and "ts" in e}
    for event in events:
        check("ts" not in event or
              t["job_started"] <= event["ts"] <= t["job_finished"], event)


def calls_of(spans, *names):
    """[(call, names of its phases)]: NEGOTIATE depends on who comes first."""
    calls = []
    for span in spans:
        if span["name"].startswith("NEGOTIATE_"):
            continue
        if span["name"] in names:
            calls.append((span, []))
        elif calls and end_of(span) <= end_of(calls[-1][0]):
            calls[-1][1].append(span["name"])
        else:
            equal(span["name"], "QUEUE", "between calls")
    return calls


@scenario
def posted_and_grouped_calls_show_their_phases(stage):
    steps = 20
    small = ["MEMCPY_IN_FUSION_BUFFER", "shared_memory",
             "MEMCPY_OUT_FUSION_BUFFER"]
    run, path = start(stage, ["-np", "2"],
                      [stage.chaos, "--posted", "--steps", str(steps)])
    run.ends(0)
    events = load(path)
    check_all(events)
    for pid in (1, 2):
        spans = lane(events, pid, "group")
        calls = calls_of(spans, "ALLREDUCE")
        equal(len(calls), steps, "groups")
        for call, phases in calls:
            check(phases in (small + ["shared_memory"],
                             ["shared_memory"] + small), phases)
        queued = [span for span in spans if span["name"] == "QUEUE"]
        equal([end_of(span) for span in queued],
              [begin_of(call) for call, _ in calls],
              "ends of QUEUE and begins of calls")
        for name, kind in (("asynchronous", "BARRIER"), ("sum", "ALLREDUCE"),
                           ("sent", "BROADCAST")):
            calls = calls_of(lane(events, pid, name), kind)
            equal(len(calls), steps, "calls in the lane " + name)
            for call, phases in calls:
                equal(phases, ["shared_memory"], name)
        ids = {end: sorted(e["id"] for e in events if e["ph"] == end and
                           (e["pid"], e["name"]) == (pid, "QUEUE"))
               for end in "be"}
        equal(len(set(ids["b"])), steps, "barriers that have waited")
        equal(ids["b"], ids["e"], "begins and ends of QUEUE")


@scenario
def valid_while_it_runs(stage):
    run, path = start(stage, ["-np", "2"])
    run.whole(2)
    seen = set()
    while len(seen) < 20:
        seen.add(len(load_all(path, alive=True)))
        check(run.process.poll() is None, "the job has ended")
    run.allow(3)
    run.ends(0)
    check_all(load(path))


@scenario
def killed_workers_leave_whole_files(stage):
    """Some are killed while they write, all while they run."""
    run, path = start(stage, ["-np", "3", "--min-np", "1", "--max-np", "3",
                              "--slot-restarts", "32", "-H",
                              "localhost:1,127.0.0.2:1,127.0.0.3:1"],
                      ("--step-us", "1000"))  # 10^5 steps are a long read
    rng = random.Random(7)
    victims = []
    run.whole(3)
    for _ in range(8):  # a slot that fails again is filled later each time
        row = rng.choice(run.members())
        mark = run.mark()
        victim, wanted = row["worker"], rng.randrange(1, 120)  # in one part
        own = path.replace(".json", ".%d.json" % victim)
        # how far it is by then is not ours to know: a random moment
        run.until("what the victim writes", lambda: names_of(
            load(own, alive=True), victim)["BROADCAST"] >= wanted, PATIENCE_S)
        jobs.kill(row["pid"])
        run.event("worker_exited", mark, worker=victim)
        victims.append(victim)
        found = load(own)
        check_all(found)
        check(names_of(found, victim)["BROADCAST"] >= wanted, own)
        load_all(path, alive=True)
        run.whole(3, mark, set(victims))
    run.allow(3)
    run.ends(0)
    equal(files(path), [path], "files")
    events = load(path)
    check_all(events)
    check(set(victims) < pids_of(events), "killed workers are missing")
    lost = [e for e in events if e["name"] == "PEER_LOST"]
    check(lost and all(e["args"]["generation"] > 0 for e in lost), lost)
    equal(names_of(events, 0)["worker_lost"], len(victims), "lost workers")
    formed = {e["generation"] for e in run.seen("generation_formed")}
    for generation in formed:
        equal(names_of(events, 0)["GENERATION %d" % generation], 1,
              "spans of generation %d" % generation)


@scenario
def killed_driver_leaves_whole_files(stage):
    for i in range(8):
        path = os.path.join(stage.root, "timeline%d" % i, "trace.json")
        os.makedirs(os.path.dirname(path))
        run = stage.start(["-np", "2", "--timeline", path],
                          ("--step-us", "0"))
        run.whole(2)
        rng = random.Random(i)
        while len(load_all(path, alive=True)) < rng.randrange(10000):
            check(run.process.poll() is None, "the job has ended")
        run.process.kill()
        run.wait(PATIENCE_S)
        run.nobody_left()
        for name in files(path):
            check_all(load(name))
        events = load_all(path)
        equal(pids_of(events), {0, 1, 2}, "processes")


@scenario
def hosts_come_and_go(stage):
    run, path = start(stage, ["-np", "1", "--min-np", "1"], (),
                      hosts=("localhost:1",))
    run.whole(1)
    mark = run.mark()
    run.set_hosts("localhost:1", "127.0.0.2:1")
    run.whole(2, mark)
    run.allow(3)
    run.ends(0)
    events = load(path)
    check_all(events)
    first = names_of(events, 1)
    equal([first["GENERATION 1"], first["GENERATION 2"]], [1, 1],
          "generations")
    equal(first["HOSTS_UPDATED"], 1, "hosts updated")
    equal(names_of(events, 2)["GENERATION 2"], 1, "the newcomer's")
    equal(names_of(events, 0)["hosts_updated"], 1, "the driver's")


@scenario
def an_older_jobs_files_are_not_ours(stage):
    run, path = start(stage, ["-np", "2"])
    old = path.replace(".json", ".2.part1.json")
    stage.file(old, '[\n{"name":"process_name","ph":"M","pid":2,"tid":1,'
               '"args":{"name":"worker 2 (x:0)","job":"1"}}\n]\n', 0o644)
    run.whole(2)
    run.allow(3)
    run.ends(0)
    check("worker 2 (x:0)" not in
          {e["args"]["name"] for e in load(path)
           if e["name"] == "process_name"}, "merged what was not ours")


@scenario
def started_by_hand(stage):
    path = timeline_of(stage)
    control = stage.file("epoch", "9", 0o644)
    done = subprocess.run([stage.trainer, os.path.dirname(control)],
                          env={**os.environ, "HVD_TIMELINE": path},
                          timeout=PATIENCE_S, capture_output=True, check=False)
    equal(done.returncode, 0, "exit status")
    events = load(path.replace(".json", ".0.json"))
    check_all(events)
    check(names_of(events, 0)["ALLREDUCE"] > 0, "no collectives")
    check(names_of(events, 0)["COMMIT"] > 0, "no commits")


@scenario
def impossible_files_are_refused(stage):
    fifo = os.path.join(stage.root, "fifo")
    os.mkfifo(fifo)
    for path, why in (("none/trace.json", "No such file or directory"),
                      (stage.root, "Is a directory"),
                      (fifo, "not a regular file"),
                      ("", "Is a directory")):
        status, _, err = stage.command("-np", "1", "--timeline", path, "true")
        equal(status, 2, "exit status")
        equal(err, 'hvd-elastic: --timeline: "%s": %s\n' % (path, why),
              "what it says")


@scenario
def a_worker_that_cannot_write_trains(stage):
    path = timeline_of(stage)
    os.makedirs(path.replace(".json", ".2.json"))  # in its way
    run = stage.start(["-np", "2", "--timeline", path])
    run.whole(2)
    run.allow(3)
    run.ends(0)
    run.agrees(2)
    check(any("this worker has none" in line for line in run.errors),
          run.errors)
    equal(pids_of(load(path)), {0, 1}, "processes")


if __name__ == "__main__":
    sys.exit(main())
