#!/usr/bin/env python3
"""A host of the network that has no business with a job connects to its ports
without end: silent, with a byte, with noise, with frames that are too long. Who
joins meanwhile joins, nobody is lost, nothing is said, and no descriptors
gather. And it says again what it has heard others say. (The same of one machine,
and who speaks with keys: tests/integration/test_strangers.py.)"""
import os
import sys
import time

import hosts as clusters
import stage as stages
from attack import Flood, listens, program
from harness import check, equal, scenario
from wire import DATA_HELLO

# kind -> so many connections at least
KINDS = {"silent": 0, "byte": 0, "junk": 0, "long": 0, "churn": 30000}
HELLO_NBYTES = 128
REPLAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replay.py")
FDS_MAX = 200   # of an agent 53 and of a worker 85 were seen
LINES_MAX = 8


def flooded(stage, name):
    """Host 4 floods the process `name` of host 1 while host 3 joins and
    leaves."""
    cluster = stage.up(4)
    run = stage.job(2, discovery=True, options=["--max-np", "3"])
    pid = next(p for p in cluster.processes(1) if program(p) == name)
    ports = ["%s:%d" % (cluster.hosts[1].v4(1), port)
             for port in listens(cluster, 1, pid)]
    check(ports, "no ports of", name)
    start = run.mark()
    for kind in KINDS:
        flood = Flood(cluster, 4, kind, ports, n_least=KINDS[kind])
        most = 0
        for hosts in (("host1", "host2", "host3"), ("host1", "host2")):
            mark, n_said = run.mark(), len(run.errors)
            began = time.monotonic()
            run.set_hosts(*("%s:1" % host for host in hosts))
            run.whole(len(hosts), mark)
            most = max(most, len(os.listdir("/proc/%d/fd" % pid)))
            check(len(run.errors) - n_said <= LINES_MAX, "lines",
                  run.errors[n_said:])
            stage.note("%s: %d hosts after %.2f s" % (
                kind, len(hosts), time.monotonic() - began))
        stage.note("%s: %d connections, %d descriptors" % (
            kind, flood.end(), most))
        check(most <= FDS_MAX, "descriptors", most)
    for event in ("host_apart", "worker_lost", "agent_lost"):
        equal(run.seen(event, start), [], event)
    run.finish(2)


def ports_of(run, cluster, name="trainer"):
    """HOST's address:port for each at which such a process listens."""
    return ["%s:%d" % (cluster.hosts[i].v4(1), port)
            for i in (1, 2) for pid in cluster.processes(i)
            if program(pid) == name for port in listens(cluster, i, pid)]


def hellos(path):
    """What dialers have said first on data connections, of all that passed."""
    with open(path, "rb") as file:
        text = file.read()
    found, at = set(), text.find(DATA_HELLO)
    while at >= 0:
        found.add(text[at:at + HELLO_NBYTES])
        at = text.find(DATA_HELLO, at + 1)
    return sorted(hello for hello in found if len(hello) == HELLO_NBYTES)


def generation_of(hello):
    return int.from_bytes(hello[16:24], "little")


def say_again(stage, texts, addresses):
    """Host 4 says each of these at each address: (bytes that came back, "open"
    or "ended") of each connection."""
    path = stage.file("texts", "\n".join(text.hex() for text in texts))
    said = stage.cluster.run(4, [sys.executable, REPLAY, path, *addresses])[1]
    return [(int(nbytes), state) for nbytes, state in map(str.split,
                                                          said.splitlines())]


@scenario
def who_says_again_what_was_said_is_not_believed(stage):
    """Hellos of this generation and of one that has ended, to everybody."""
    cluster = stage.up(4)
    path = os.path.join(stage.root, "heard")
    end = cluster.listen(path)
    run = stage.job(2)
    victim, mark = run.row(rank=1), run.mark()
    clusters.kill(run.pid(victim))
    run.whole(2, mark, [victim["worker"]])
    time.sleep(0.5)  # so much of training
    equal(end(), 0, "frames missed")
    heard, mark = hellos(path), run.mark()
    check(len(heard) >= 2, "hellos heard:", len(heard))
    ports = ports_of(run, cluster)
    said = say_again(stage, heard, ports)
    stage.note("%d hellos at %d ports: %s" % (len(heard), len(ports), said))
    equal({state for _, state in said}, {"ended"}, "connections")
    newest = max(map(generation_of, heard))
    check(newest > 1, "no hello of a generation that is not the first")
    for k, (nbytes, _) in enumerate(said):
        # who is late is told goodbye; who says again what was said is not
        check(nbytes == 0 or generation_of(heard[k // len(ports)]) < newest,
              nbytes, "bytes for", heard[k // len(ports)])
    for event in ("generation_started", "worker_lost", "agent_lost"):
        equal(run.seen(event, mark), [], event)
    run.finish(2)


@scenario
def at_an_agent(stage):
    flooded(stage, "hvd-agent")


@scenario
def at_a_worker(stage):
    flooded(stage, "trainer")


if __name__ == "__main__":
    sys.exit(stages.main())
