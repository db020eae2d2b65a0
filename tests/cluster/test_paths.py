#!/usr/bin/env python3
"""Starts on hosts, and paths between them: addresses, ports, keys, words."""
import os
import re
import subprocess
import sys
import time

import hosts as clusters
import stage as stages
from harness import check, equal, scenario
from stage import STEP_US

MARK = b"a tensor in the clear "
TRAINER = ("--epochs", "1", "--step-us", str(STEP_US))


@scenario
def day(stage):
    """Hosts come and go, one kill -9, and nobody loses a step."""
    stage.up(4)
    run = stage.launch(["-np", "2", "--min-np", "2", "--max-np", "8",
                        *stage.ssh_options()], TRAINER, ["host1:2"])
    run.whole(2)
    run.set_hosts("host1:2", "host2:2")
    run.whole(4)
    victim = run.members()[-1]
    mark = run.mark()
    clusters.kill(run.pid(victim))
    run.whole(4, mark, [victim["worker"]])
    mark = run.mark()
    run.set_hosts("host1:2")
    run.whole(2, mark)
    clusters.wait("an empty host2", lambda: not stage.cluster.left(2))
    run.set_hosts("host1:2", "host3:2", "host4:1")
    run.whole(5, mark)
    mark = run.mark()
    run.set_hosts("host3:2", "host4:1")
    run.whole(3, mark)
    run.finish(3)


@scenario
def sixteen_hosts(stage):
    run = stage.job(hosts=16)
    run.finish(16)


@scenario
def by_address_and_port(stage):
    """Hosts by address, sshd at another port, a variable, an odd directory."""
    cluster = stage.up(2)
    run = stage.job(2, names=[cluster.hosts[i].v4(1) for i in (1, 2)],
                    options=["--ssh-port", "2222", "-x", "CLUSTER_X=a 'b' $c"])
    for row in run.members():
        environment = clusters.read("/proc/%d/environ" % run.pid(row))
        check("CLUSTER_X=a 'b' $c\0" in environment, "environment of", row)
    run.finish(2)


@scenario
def ipv6_only(stage):
    stage.up(3, v4=False, v6=True)
    run = stage.job(3)
    run.finish(3)


@scenario
def drivers_host_trains_too(stage):
    """--launcher auto: there without ssh, elsewhere with it."""
    stage.up(2)
    run = stage.launch([
        "-np", "4", "--ssh-identity-file", stage.cluster.identity,
        "-H", "localhost:2,host1:1,host2:1"], TRAINER)
    run.whole(4)
    clients = [pid for pid in stage.cluster.processes(clusters.DRIVER)
               if re.match(r"(\S*/)?ssh ", clusters.command_of(pid))]
    equal(len(clients), 2, "ssh clients")
    run.finish(4)


@scenario
def misleading_bridge(stage):
    """Every host has the same address on a bridge of its own, first of all."""
    stage.up(3, mislead=True)
    run = stage.job(3)
    run.finish(3)


@scenario
def only_the_misleading_bridge(stage):
    """--network-interface names a network on which nobody reaches anybody: it
    is said who tried what, and the job ends."""
    stage.up(2, mislead=True)
    run = stage.launch(["-np", "2", *stage.ssh_options(), "-H", "host1,host2",
                        "--network-interface", "docker0", "--elastic-timeout",
                        "27", "--start-timeout", "25"], TRAINER)
    run.wait(stages.harness.PATIENCE_S)
    stage.note(run.verdict())
    equal(run.process.returncode, 1, "status")
    check(any("172.17.0.1" in line for line in run.errors), run.errors)


@scenario
def start_over_a_slow_link(stage):
    stage.up(3)
    stage.cluster.delay(2, 100)
    run = stage.job(3)
    stage.cluster.delay(2, 0)
    run.finish(3)


def takes_the_other(stage, run, host, networks):
    """Agent and worker of this host go on by another network, nobody is lost,
    and ssh, which has no other, is not missed."""
    mark, since = run.mark(), time.monotonic()
    for net in networks:
        stage.cluster.cut(host, net=net)
    run.whole(len(run.members()), mark)
    stage.note("all train after %.1f s" % (time.monotonic() - since))
    run.until("the end of ssh", lambda: [
        line for line in list(run.errors) if "its ssh" in line
        and "host%d" % host in line], stages.harness.PATIENCE_S)
    for net in networks:
        stage.cluster.heal(host)
    time.sleep(3)  # what hung since comes through, and is none of ours
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")


def breaking_ssh(stage):
    """For --ssh-command: ends as soon as its network is dead."""
    return stage.file("ssh", "#!/bin/sh\nexec ssh -o ServerAliveInterval=1 "
                      "-o ServerAliveCountMax=2 \"$@\"\n")


@scenario
def one_of_two_networks_dies(stage):
    """The first, by which everybody came: nobody is lost."""
    stage.up(3, nets=2)
    run = stage.job(3, options=["--ssh-command", breaking_ssh(stage)])
    takes_the_other(stage, run, 3, [1])
    run.finish(3)


@scenario
def kill_when_the_other_network_is_in_use(stage):
    """Who moved is started again, and told to go, like everybody else."""
    stage.up(3, nets=2)
    run = stage.job(3, discovery=True,
                    options=["--ssh-command", breaking_ssh(stage)])
    takes_the_other(stage, run, 3, [1])
    victim = run.row(host="host3")
    mark = run.mark()
    os.kill(run.pid(victim), 9)
    run.whole(3, mark, [victim["worker"]])
    mark = run.mark()
    run.set_hosts("host1", "host2")
    run.whole(2, mark)
    clusters.wait("an empty host3", lambda: not stage.cluster.left(3))
    run.finish(2)


@scenario
def data_takes_the_other_network(stage):
    """Workers do not reach each other by the first; the driver does: nobody is
    lost, and they train by the second."""
    stage.up(3, nets=2)
    run = stage.job(3)
    mark, since = run.mark(), time.monotonic()
    for i in (1, 2):
        stage.cluster.part(3, i, net=1)
    run.whole(3, mark)
    stage.note("all train after %.1f s" % (time.monotonic() - since))
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")
    run.finish(3)


@scenario
def second_of_two_networks_dies(stage):
    """Nobody needs it, or finds another way."""
    stage.up(3, nets=2)
    run = stage.job(3)
    mark = run.mark()
    stage.cluster.cut(3, net=2)
    run.finish(3)
    equal(run.seen("agent_lost", mark), [], "agents lost")


@scenario
def network_interface(stage):
    """--network-interface: data connections are there and nowhere else."""
    cluster = stage.up(2, nets=2)
    before = [cluster.interface_bytes(1, k)[1] for k in (1, 2)]
    run = stage.launch(["-np", "2", *stage.ssh_options(), "-H",
                        "host1,host2", "--network-interface", "eth1"],
                       [os.path.join(stage.build,
                                     "tests/cluster/marked_worker"),
                        stage.root])
    run.whole(2)
    clusters.wait("traffic", lambda: cluster.interface_bytes(1, 2)[1]
                  > before[1] + (4 << 20))
    sent = [cluster.interface_bytes(1, k)[1] for k in (1, 2)]
    check(sent[0] - before[0] < (1 << 20), "sent by the first:", sent)
    stage.file("epoch", "")
    run.ends()


# ---- hosts that cannot be used ----------------------------------------------

def refused(stage, words, prepare, options=(), names=("host3",)):
    """Two of three hosts train; of the third there are these words."""
    stage.up(3)
    prepare(stage.cluster)
    run = stage.launch(["-np", "2", "--min-np", "1", *stage.ssh_options(),
                        "-H", "host1,host2,host3", *options], TRAINER)
    formed = run.whole(2)
    equal(sorted(row["host"] for row in formed["ranks"]), ["host1", "host2"],
          "hosts that train")
    line = run.until("words of " + " ".join(names), lambda: [
        line for line in list(run.errors) if re.search(words, line)
        and all(name in line for name in names)],
        stages.harness.PATIENCE_S)[0]
    stage.note(line)
    mark = run.mark()
    run.finish(2)
    equal(run.seen("generation_formed", mark), [], "interruptions")
    return run


@scenario
def host_without_the_program(stage):
    refused(stage, "hvd-agent", lambda cluster: cluster.hide(
        3, os.path.join(stage.build, "src")))


@scenario
def host_without_the_workers_program(stage):
    refused(stage, "trainer", lambda cluster: cluster.hide(
        3, os.path.join(stage.build, "tests/integration")))


@scenario
def host_that_does_not_take_the_key(stage):
    refused(stage, "(?i)permission denied", lambda cluster: cluster.lock_out(3))


@scenario
def host_that_nobody_knows(stage):
    """Its key is not the one in known_hosts."""
    def change(cluster):
        path = os.path.join(cluster.hosts[3].directory, "key")
        for name in (path, path + ".pub"):
            os.remove(name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        path], check=True)
        cluster.power_off(3)
        cluster.power_on(3)
    refused(stage, "(?i)host key", change)


@scenario
def host_that_is_off(stage):
    refused(stage, "(?i)no route|timed out|cannot be reached|connect",
            lambda cluster: cluster.power_off(3))


@scenario
def wrong_identity_for_all(stage):
    """The job ends with a sentence, not by a time-out."""
    cluster = stage.up(2)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                    os.path.join(stage.root, "wrong")], check=True)
    run = stage.launch(["-np", "2", "--launcher", "ssh", "-H", "host1,host2",
                        "--ssh-identity-file",
                        os.path.join(stage.root, "wrong"),
                        "--elastic-timeout", "10"], TRAINER)
    run.wait(stages.harness.PATIENCE_S)
    check(any("ermission denied" in line for line in run.errors), run.errors)
    check(run.process.returncode == 1, "status", run.process.returncode)
    equal([line for i in (1, 2) for line in cluster.left(i)], [], "left")


@scenario
def newcomer_that_others_cannot_reach(stage):
    """The driver and its agent hear each other. It is told who tried what, the
    others train on and are not interrupted; once they can, it joins."""
    stage.up(3)
    for i in (1, 2):
        stage.cluster.part(3, i)
    run = stage.launch(["-np", "2", "--min-np", "1", *stage.ssh_options()],
                       TRAINER, ["host1", "host2"])
    run.whole(2)
    mark = run.mark()
    run.set_hosts("host1", "host2", "host3")
    apart = run.event("host_apart", mark, host="host3")
    stage.note(apart["reason"])
    check(re.search(r"host3.*cannot be reached from host host[12]|"
                    r"host[12].*cannot be reached from host host3",
                    apart["reason"]), apart)
    equal(run.seen("generation_formed", mark), [], "interruptions")
    stage.cluster.heal(3)
    run.whole(3, mark)
    run.finish(3)


@scenario
def newcomer_that_one_cannot_reach(stage):
    """The other can. The two that train are not held up over and over: it is
    refused, or leaves them alone after one attempt."""
    stage.up(3)
    stage.cluster.part(3, 1)
    run = stage.launch(["-np", "2", "--min-np", "1", *stage.ssh_options()],
                       TRAINER, ["host1", "host2"])
    run.whole(2)
    run.set_hosts("host1", "host2", "host3")
    mark = run.mark()
    run.until("word of host3", lambda: run.seen("host_apart", mark)
              or run.seen("worker_lost", mark), stages.harness.PATIENCE_S)
    run.until("two that train", lambda: run.running(0, 2),
              stages.harness.PATIENCE_S)
    mark = run.mark()
    time.sleep(4)  # that long
    equal(run.seen("generation_started", mark), [], "interruptions")
    run.finish(2)


# ---- ports ------------------------------------------------------------------

@scenario
def data_ports(stage):
    run = stage.job(2, slots=2, options=["--data-ports", "7000-7015"])
    for i in (1, 2):
        ports = stage.cluster.listening(i)
        data = {port for port in ports if 7000 <= port <= 7015}
        check(len(data) >= 2, "ports of host", i, ports)
        stage.note("host%d listens on %s" % (i, sorted(ports)))
    run.finish(4)


@scenario
def control_port(stage):
    run = stage.job(2, options=["--control-port", "7500"])
    check(7500 in stage.cluster.listening(clusters.DRIVER), "ports",
          stage.cluster.listening(clusters.DRIVER))
    run.finish(2)


@scenario
def filtered_data_ports_are_named(stage):
    """Somebody is told a port; once it is open all is well."""
    cluster = stage.up(2)
    for i in (1, 2):
        cluster.filter(i, "7000-7015")
    run = stage.launch(["-np", "2", "--min-np", "2", *stage.ssh_options(),
                        "-H", "host1,host2", "--data-ports", "7000-7015",
                        "--slot-restarts", "32"], TRAINER)
    stage.note(run.until("a line with a port", lambda: [
        line for line in list(run.errors) if re.search(r"\b70\d\d\b", line)],
        stages.harness.PATIENCE_S)[0])
    for i in (1, 2):
        cluster.heal(i)
    run.whole(2)
    run.finish(2)


@scenario
def filtered_control_port_is_named(stage):
    """Nobody reaches the driver: one sentence with the port, and the end."""
    cluster = stage.up(2)
    cluster.filter(clusters.DRIVER, "7500")
    run = stage.launch(["-np", "2", *stage.ssh_options(), "-H", "host1,host2",
                        "--control-port", "7500", "--elastic-timeout", "15",
                        "--start-timeout", "8"], TRAINER)
    run.wait(stages.harness.PATIENCE_S)
    check(any("7500" in line for line in run.errors), run.errors)
    equal(run.process.returncode, 1, "status")


@scenario
def this_machine_alone_at_first(stage):
    """A script lists another one later: the job grows onto the network."""
    stage.up(1)
    run = stage.launch(["-np", "1", "--max-np", "2", "--ssh-identity-file",
                        stage.cluster.identity], TRAINER, ["localhost:1"])
    run.whole(1)
    mark = run.mark()
    run.set_hosts("localhost:1", "host1:1")
    run.whole(2, mark)
    run.finish(2)


# ---- who listens ------------------------------------------------------------

def secret_of(run):
    """The job's, of which all keys are made (driver/entry.c: JOB, field 2)."""
    with open(os.path.join(run.job_dir, "journal.1"), "rb") as file:
        found = re.search(rb"\x02\xc4\x20(.{32})", file.read(), re.S)
    check(found, "no secret in the journal")
    return found.group(1)


def heard(stage, options):
    """(whether the mark passed in the clear, whether a key did)"""
    cluster = stage.up(2)
    directory = os.path.join(stage.root, "run0-" + os.path.basename(
        stage.root))
    path = os.path.join(stage.root, "heard")
    end = cluster.listen(path)
    run = stage.launch(
        ["-np", "2", "--min-np", "1", "--job-dir",
         os.path.join(directory, "job"), *stage.ssh_options(), *options],
        [os.path.join(stage.build, "tests/cluster/marked_worker"),
         stage.root], ["host1"] + ["host2"])
    run.whole(2)
    secret = secret_of(run)
    victim = run.row(rank=1)
    mark = run.mark()
    clusters.kill(run.pid(victim))   # a sync of the state
    run.whole(2, mark, [victim["worker"]])
    clusters.wait("traffic", lambda: os.path.getsize(path) > (2 << 20))
    stage.file("epoch", "")
    run.ends()
    equal(end(), 0, "frames missed")
    with open(path, "rb") as file:
        text = file.read()
    stage.note("%.1f MB heard" % (len(text) / 1e6))
    keys = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    return MARK in text, any(key in text for key in keys)


@scenario
def who_listens_hears_data(stage):
    """Without --encrypt-data: so this scenario's next would notice."""
    equal(heard(stage, []), (True, False), "heard: tensors, keys")


@scenario
def who_listens_hears_nothing(stage):
    equal(heard(stage, ["--encrypt-data"]), (False, False),
          "heard: tensors, keys")


if __name__ == "__main__":
    sys.exit(stages.main())
