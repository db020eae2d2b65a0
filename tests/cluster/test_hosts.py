#!/usr/bin/env python3
"""Hosts of namespaces do what they say, and leave nothing behind."""
import json
import os
import signal
import subprocess
import sys
import time

import stage as stages
from harness import check, equal, scenario
from hosts import DRIVER, children, state, wait

PROBE_S = 0.4
PROBE = """import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), %g).recv(9)
""" % PROBE_S
# ends only when it hears nothing for a while; prints how long silence lasted
TALK = """import socket, sys
s = socket.create_connection((sys.argv[1], 22), 5)
s.recv(999)
print("connected", flush=True)
s.settimeout(float(sys.argv[2]))
try:
    print("got %d" % len(s.recv(9)))
except OSError as error:
    print(type(error).__name__)
"""


def reaches(cluster, i, j, net=1, port=22):
    """Does host i get an answer of host j?"""
    address = cluster.hosts[j].v4(net) if cluster.has_v4 \
        else cluster.hosts[j].v6(net)
    return cluster.run(i, ["python3", "-c", PROBE, address, str(port)])[0] == 0


def expect(cluster, what, **pairs):
    """pairs: _1_2=False: host 1 does not reach host 2. On a busy machine an
    answer may take longer than a probe waits."""
    for pair, want in pairs.items():
        i, j = (int(word) for word in pair.strip("_").split("_"))
        if want:
            wait("%s: host %d reaches %d" % (what, i, j),
                 lambda i=i, j=j: reaches(cluster, i, j))
        else:
            check(not reaches(cluster, i, j), what, i, "reaches", j)


@scenario
def each_is_a_machine(stage):
    cluster = stage.up(2, v6=True)
    status, text, errors = cluster.ssh(
        1, "hostname; echo $TMPDIR; ls /proc | grep -c '^[0-9]'; ls /dev/shm; "
        "getent ahostsv4 host2 | head -1 | cut -d' ' -f1")
    equal(status, 0, "ssh: " + errors)
    name, tmp, n_processes, address = text.split()
    equal((name, address), ("host1", "10.77.1.2"), "names")
    check(tmp.endswith("host1/tmp"), tmp)
    check(int(n_processes) < 12, n_processes, "processes on host1")
    equal(cluster.run(DRIVER, ["hostname"])[1], "driver\n", "the driver's name")
    equal(cluster.ssh(1, "true", options=("-p", "2222"))[0], 0, "port 2222")


@scenario
def known_by_pid(stage):
    cluster = stage.up(1)
    child = subprocess.Popen([*cluster.enter(1), "sh", "-c",
                              "echo $$; exec sleep 1000"],
                             stdout=subprocess.PIPE, text=True)
    inside = int(child.stdout.readline())
    pid = cluster.pid(1, inside)
    check(pid and pid != inside, "pid", pid, "of", inside)
    equal(len(cluster.left(1)), 1, cluster.left(1))
    os.kill(pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    wait("its end", lambda: not cluster.left(1))
    equal(cluster.pid(1, inside), None, "pid of one that is gone")


@scenario
def cables_and_switch(stage):
    cluster = stage.up(3)
    expect(cluster, "whole", _1_2=True, _2_3=True, _0_1=True)
    cluster.cut(1)
    expect(cluster, "cut", _1_2=False, _0_1=False, _2_3=True)
    status = cluster.run(1, ["cat", "/sys/class/net/lo/operstate"])[0]
    equal(status, 0, "host1 goes on")
    cluster.heal(1)
    cluster.blackhole(2)
    expect(cluster, "blackhole", _1_2=False, _2_3=False, _1_3=True)
    cluster.heal(2)
    cluster.part(1, 2)
    expect(cluster, "part", _1_2=False, _2_1=False, _1_3=True, _3_2=True)
    cluster.heal(1)
    expect(cluster, "one side is healed", _1_2=True, _2_1=True)
    cluster.filter(3, "20-30")
    expect(cluster, "filter", _1_3=False, _3_1=True)
    wait("another port", lambda: reaches(cluster, 1, 3, port=2222))
    cluster.heal(3)
    expect(cluster, "healed", _1_2=True, _2_1=True, _1_3=True, _3_2=True)


@scenario
def one_way_only(stage):
    """What arrives there is answered, and the answer is lost."""
    cluster = stage.up(2)
    expect(cluster, "before", _1_2=True)
    before = cluster.interface_bytes(2)
    cluster.one_way(1, 2)
    expect(cluster, "one way", _1_2=False, _2_1=False)
    check(cluster.interface_bytes(1)[0] > before[0], "host1 hears host2")
    cluster.heal(1)
    expect(cluster, "healed", _1_2=True)


@scenario
def power(stage):
    """A connection to who loses power hears nothing; it comes up empty."""
    cluster = stage.up(2)
    talk = subprocess.Popen([*cluster.enter(1), "python3", "-c", TALK,
                             cluster.hosts[2].v4(1), "1"], text=True,
                            stdout=subprocess.PIPE)
    equal(talk.stdout.readline(), "connected\n", "talk")
    cluster.ssh(2, "sleep 1000 >/dev/null 2>&1 &")
    equal(len(cluster.left(2)) > 0, True, "processes before")
    cluster.power_off(2)
    # sshd greets once; a reset or an end would be another word
    equal(talk.stdout.read(), "TimeoutError\n", "silence")
    talk.wait()
    talk.stdout.close()
    cluster.power_on(2)
    equal(cluster.left(2), [], "processes after")
    expect(cluster, "on again", _1_2=True, _2_1=True)


@scenario
def frozen(stage):
    cluster = stage.up(2)
    cluster.freeze(2)
    expect(cluster, "frozen", _1_2=False)
    cluster.thaw(2)
    wait("an answer", lambda: reaches(cluster, 1, 2))


@scenario
def two_networks(stage):
    cluster = stage.up(2, nets=2, mislead=True)
    cluster.cut(1, 1)
    equal(reaches(cluster, 1, 2, 1), False, "the first network")
    wait("the second network", lambda: reaches(cluster, 1, 2, 2))
    _, text, _ = cluster.run(1, ["ip", "-j", "addr"])
    found = [(row["ifname"], [a["local"] for a in row["addr_info"]
                              if a["family"] == "inet"])
             for row in json.loads(text)]
    equal([a for _, a in found if a], [
        ["127.0.0.1"], ["172.17.0.1"], ["10.77.1.1"], ["10.77.2.1"]],
        "addresses in their order")


@scenario
def ipv6_only(stage):
    cluster = stage.up(2, v4=False, v6=True)
    expect(cluster, "IPv6", _1_2=True, _0_2=True)
    equal(cluster.ssh(2, "hostname")[1], "host2\n", "ssh")


@scenario
def delay_and_loss(stage):
    cluster = stage.up(2)
    start = time.monotonic()
    expect(cluster, "whole", _1_2=True)
    short = time.monotonic() - start
    cluster.delay(2, 50)
    start = time.monotonic()
    expect(cluster, "delayed", _1_2=True)
    took = time.monotonic() - start
    check(took >= 0.2, "two trips of 100 ms took %.3f s" % took)
    cluster.delay(2, 0)
    expect(cluster, "whole again", _1_2=True)
    cluster.loss(2, 100)
    expect(cluster, "all is lost", _1_2=False)
    cluster.loss(2, 0)
    expect(cluster, "nothing is lost", _1_2=True)
    stage.note("%.0f ms without a delay" % (short * 1e3))


@scenario
def hidden_and_locked(stage):
    cluster = stage.up(2)
    path = os.path.join(stage.root, "program")
    os.mkdir(path)
    stage.file("program/x", "")
    cluster.hide(1, path)
    equal(cluster.run(1, ["ls", path])[1], "", "what host1 sees")
    equal(cluster.run(2, ["ls", path])[1], "x\n", "what host2 sees")
    cluster.lock_out(2)
    equal(cluster.ssh(2, "true")[0], 255, "ssh with a wrong key")
    equal(cluster.ssh(1, "true")[0], 0, "ssh to another")


@scenario
def down_ends_all(stage):
    cluster = stage.up(3, nets=2)
    cluster.ssh(1, "setsid sleep 1000 >/dev/null 2>&1 &")
    cluster.delay(2, 10)
    cluster.power_off(3)
    spaces = [host.init for host in cluster.hosts if host.init]
    cluster.down()
    equal([pid for pid in spaces if state(pid) not in (None, "Z", "X")], [],
          "first processes of hosts")


HOLD = """import sys
sys.path.insert(0, %r)
sys.dont_write_bytecode = True
import apart, hosts, time
def hold():
    hosts.Cluster("/run/hvd/c", 2)
    print("up", flush=True)
    time.sleep(1000)
apart.run(hold)
"""


def hold_and_kill(number):
    """A program with hosts gets this signal; what is left of it."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD % stages.HERE], text=True,
        stdout=subprocess.PIPE, start_new_session=True)
    equal(child.stdout.readline(), "up\n", "hosts")
    beneath = descendants(child.pid)
    check(len(beneath) > 6, "processes beneath:", beneath)
    os.kill(child.pid, number)
    child.wait()
    child.stdout.close()
    wait("the end of all", lambda: not [
        pid for pid in beneath if os.path.exists("/proc/%d" % pid)])
    equal(os.path.exists("/run/hvd/c"), False, "files left")


def descendants(pid):
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


@scenario
def killed_with_9(stage):
    hold_and_kill(signal.SIGKILL)


@scenario
def told_to_end(stage):
    hold_and_kill(signal.SIGTERM)


@scenario
def a_job_on_the_drivers_host(stage):
    """Plumbing: the driver starts there, is followed, and leaves nothing."""
    stage.up(1)
    run = stage.launch(["-np", "2", "-H", "localhost:2"], (
        "--epochs", "1", "--step-us", "2000"))
    run.whole(2)
    equal(len(run.orphans()) > 3, True, "processes seen")
    run.finish(2)


if __name__ == "__main__":
    sys.exit(stages.main())
