#!/usr/bin/env python3
"""Hosts and links that fail while a job trains on them: only silence tells."""
import os
import random
import signal
import subprocess
import sys
import time

import hosts as clusters
import stage as stages
from harness import check, equal, scenario

# Silence means death after 2 s (--heartbeat-timeout); what is beyond is what
# looking, telling and a busy machine take.
SILENCE_S = 2
NOTICE_S = SILENCE_S + 6
CALM_S = 4
STEPS_BYTES = 50000  # as many a worker sends in some ten steps or more
# Delay and loss for this long; HVD_CLUSTER_LONG=300 for the whole five minutes.
ROUGH_S = float(os.environ.get("HVD_CLUSTER_LONG", "20"))


def start(stage, n=3, slots=1, options=(), large=False):
    return stage.job(hosts=n, slots=slots, options=options, program=trainer(
        large))


def trainer(large):
    return ("--epochs", "1", "--step-us", str(stages.STEP_US),
            *["--large"] * large)


def gone(run, host):
    return [row["worker"] for row in run.members() if row["host"] == host]


def lost_and_back(stage, run, hit, undo):
    """host3 falls silent: it is given up in time, the others go on; it comes
    back and is taken in again."""
    size, lost = len(run.members()), gone(run, "host3")
    old = stage.cluster.processes(3)
    mark, since = run.mark(), time.monotonic()
    hit()
    stage.note("given up after %.2f s" % run.within(
        NOTICE_S, since, run.event("agent_lost", mark, host="host3")))
    formed = run.whole(size - len(lost), mark, lost)
    stage.note("others train after %.2f s" % (
        max(e["t"] for e in run.seen("first_collective", mark,
                                     generation=formed["generation"]))
        + run.zero() - since))
    undo()
    run.whole(size, mark, lost)
    ended(old)
    run.finish(size)


def ended(processes):
    """Those of who was given up: they find that out, and end."""
    clusters.wait("the end of who was given up", lambda: not [
        pid for pid in processes if clusters.state(pid) not in (None, "Z", "X")
        and not clusters.command_of(pid).startswith("sshd:")],
        stages.harness.PATIENCE_S)


@scenario
def power_off(stage):
    run = start(stage, slots=2)
    lost_and_back(stage, run, lambda: stage.cluster.power_off(3),
                  lambda: stage.cluster.power_on(3))


@scenario
def power_off_of_rank_0s_host(stage):
    """Its successor has the state."""
    run = start(stage)
    first = run.row(rank=0)
    mark, since = run.mark(), time.monotonic()
    stage.cluster.power_off(stages.number(first["host"]))
    run.within(NOTICE_S, since, run.event("agent_lost", mark,
                                          host=first["host"]))
    run.whole(2, mark, [first["worker"]])
    run.finish(2)


@scenario
def cable_is_pulled(stage):
    run = start(stage, options=("--encrypt-data",))
    lost_and_back(stage, run, lambda: stage.cluster.cut(3),
                  lambda: stage.cluster.heal(3))


@scenario
def blackhole(stage):
    run = start(stage)
    lost_and_back(stage, run, lambda: stage.cluster.blackhole(3),
                  lambda: stage.cluster.heal(3))


@scenario
def driver_does_not_hear_a_host(stage):
    run = start(stage)
    lost_and_back(stage, run, lambda: stage.cluster.one_way(3, 0),
                  lambda: stage.cluster.heal(3))


@scenario
def nobody_hears_a_host(stage):
    """It hears all others, so that nothing looks wrong from there."""
    run = start(stage)

    def hit():
        for i in (0, 1, 2):
            stage.cluster.one_way(3, i)
    lost_and_back(stage, run, hit, lambda: stage.cluster.heal(3))


def have_sent(run, hosts):
    """Each has sent the data of some steps: who accuses another then says that
    it had answered in this generation, and is believed."""
    def sent():
        return [run.cluster.interface_bytes(i)[1] for i in hosts]
    before = sent()
    run.until("data of some steps", lambda: all(
        now > then + STEPS_BYTES for now, then in zip(sent(), before)),
        stages.harness.PATIENCE_S)


def between(stage, hit, hosts=3, slots=1, large=False):
    """Two hosts that cannot talk, and the driver hears both: one of them goes,
    as a whole and at once, not a third, and nobody takes its place and stops
    the others again."""
    run = start(stage, hosts, slots, large=large)
    have_sent(run, (1, 2))
    mark, before, since = run.mark(), run.members(), time.monotonic()
    hit()
    left = (hosts - 1) * slots
    run.until("all others train", lambda: run.running(mark, left),
              stages.harness.PATIENCE_S)
    stage.note("%d train after %.1f s" % (left, time.monotonic() - since))
    equal(len(run.seen("generation_formed", mark)), 1, "generations")
    equal(len({e["host"] for e in run.seen("worker_lost", mark)}), 1, "hosts")
    check("host3" in run.hosts_of(), run.members())
    kept = {row["worker"] for row in run.members()}
    check(kept < {row["worker"] for row in before}, "who trains:", kept)
    mark = run.mark()
    time.sleep(CALM_S)  # that long
    equal(run.seen("generation_started", mark), [], "interruptions")
    run.finish(left)
    return run


@scenario
def cut_between_two(stage):
    between(stage, lambda: stage.cluster.part(1, 2), hosts=4, slots=2)


@scenario
def cut_between_two_one_way(stage):
    between(stage, lambda: stage.cluster.one_way(1, 2))


@scenario
def large_packets_are_lost_between_two(stage):
    """A switch has a smaller MTU than the hosts: small packets pass, so the two
    seem to hear each other."""
    run = between(stage, lambda: stage.cluster.narrow(1, 2), large=True)
    stage.note(run.seen("host_apart")[0]["reason"])
    check("1500 bytes" in run.seen("host_apart")[0]["reason"],
          run.seen("host_apart"))


@scenario
def what_a_rank_has_sent_is_lost(stage):
    """Rank 1 has sent all that rank 2 needs, and waits for rank 0, which waits
    for rank 2: only rank 1's kernel knows that it has not arrived."""
    run = stage.job(hosts=3, program=("--epochs", "1", "--step-us",
                                      str(stages.STEP_US), "--uneven"),
                    HVD_ALGORITHM="ring")
    mark, since = run.mark(), time.monotonic()
    stage.cluster.narrow(*(stages.number(run.row(rank=rank)["host"])
                           for rank in (1, 2)))
    run.until("both others train", lambda: run.running(mark, 2),
              NOTICE_S + 2 * SILENCE_S)
    stage.note("2 train after %.1f s" % (time.monotonic() - since))
    run.finish(2)


@scenario
def large_packets_are_lost_from_the_start(stage):
    """No generation has both hosts, and the sentence names the MTU."""
    cluster = stage.up(2)
    cluster.narrow(1, 2)
    run = stage.launch(["-np", "2", "--min-np", "1", "--start-timeout", "8",
                        *stage.ssh_options(), "-H", "host1,host2"],
                       trainer(True))
    run.whole(1)
    check("MTU" in run.seen("host_apart")[0]["reason"], run.seen("host_apart"))
    run.finish(1)
    equal(run.seen("worker_lost"), [], "lost")


@scenario
def frozen_for_a_moment(stage):
    """Nobody is given up for less than the silence that counts."""
    run = start(stage)
    mark, before = run.mark(), run.pids()
    stage.cluster.freeze(2)
    time.sleep(SILENCE_S / 2)  # that long, and no longer
    stage.cluster.thaw(2)
    start_at = time.monotonic()
    stages.clusters.wait("a moment", lambda:
                         time.monotonic() > start_at + SILENCE_S)
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")
    equal(run.pids(), before, "processes")
    run.finish(3)


@scenario
def frozen_for_long(stage):
    """Given up; awake again its processes find that out, and end."""
    run = start(stage)
    lost = gone(run, "host3")
    old = stage.cluster.processes(3)
    mark, since = run.mark(), time.monotonic()
    stage.cluster.freeze(3)
    run.within(NOTICE_S, since, run.event("agent_lost", mark, host="host3"))
    run.whole(2, mark, lost)
    stage.cluster.thaw(3)
    ended(old)
    run.whole(3, mark, lost)
    run.finish(3)


@scenario
def suspended_for_long(stage):
    """A virtual machine that is saved, and goes on as if nothing had been."""
    run = start(stage)

    def hit():
        stage.cluster.blackhole(3)
        stage.cluster.freeze(3)

    def undo():
        stage.cluster.heal(3)
        stage.cluster.thaw(3)
    lost_and_back(stage, run, hit, undo)


@scenario
def driver_frozen_for_long(stage):
    """Whoever was away himself judges nobody by it."""
    run = start(stage)
    mark, before = run.mark(), run.pids()
    stage.cluster.freeze(clusters.DRIVER)
    time.sleep(SILENCE_S * 1.5)  # that long
    stage.cluster.thaw(clusters.DRIVER)
    run.finish(3)
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")
    equal(len(before), 3, "processes")


def nobody_lost(run, mark):
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")


@scenario
def connections_die(stage):
    """A firewall forgets them, those of ssh included, and lets new ones pass:
    everybody dials again, at the same addresses."""
    run = start(stage)
    mark, since = run.mark(), time.monotonic()
    stage.cluster.forget()
    formed = run.whole(3, mark)
    stage.note("all train after %.1f s" % (
        max(e["t"] for e in run.seen("first_collective", mark,
                                     generation=formed["generation"]))
        + run.zero() - since))
    time.sleep(SILENCE_S * 1.5)  # longer than what is silent is waited for
    nobody_lost(run, mark)
    run.finish(3)


def chatty(stage, n, nbytes, pause_s):
    """A job whose workers write n lines as well, ten at a time."""
    stage.trainer = stage.file("chatty", """#!/bin/sh
i=0; fill=$(head -c %d /dev/zero | tr '\\0' x)
while [ $i -lt %d ]; do
  i=$((i + 1)); echo "$fill line $i of $HVD_HOST"
  [ $((i %% 10)) -ne 0 ] || sleep %g
done &
exec %s "$@"
""" % (nbytes, n, pause_s, stage.trainer))
    return start(stage)


def printed_once(run, n):
    for i in range(1, 4):
        run.says("line %d of host%d" % (n, i))
    run.finish(3)
    for i in range(1, 4):
        got = [int(line.split()[-3]) for line in list(run.lines)
               if line.endswith(" of host%d" % i)]
        equal(sorted(set(range(1, n + 1)) - set(got))[:9], [], "lost")
        equal(got, sorted(set(got)), "lines of host%d" % i)


@scenario
def connections_die_and_no_line_is_lost(stage):
    """What workers write meanwhile is sent again, and printed once."""
    run = chatty(stage, 3000, 0, 0.01)
    for _ in range(3):
        n = len(run.lines)
        stage.cluster.forget()
        run.until("more lines", lambda n=n: len(run.lines) > n + 100,
                  stages.harness.PATIENCE_S)
    printed_once(run, 3000)


@scenario
def connections_of_output_die_and_no_line_is_lost(stage):
    """The others stand: TCP tries for 15 s. More is written meanwhile than
    agents send ahead."""
    run = chatty(stage, 1500, 2000, 0.1)
    rows = stage.cluster.run(clusters.DRIVER, ["cat", "/proc/net/tcp"])[1]
    used = [int(row[1].rpartition(":")[2], 16) for row in map(
        str.split, rows.splitlines()[1:]) if row[3] == "01"]
    found = {port for port in used if port != 22 and used.count(port) == 3}
    equal(len(found), 1, "ports with a connection of each agent")
    stage.cluster.forget(found.pop())
    printed_once(run, 1500)


def held_up(stage, gates):
    """A job whose driver's stdout nobody reads: host1 and host2 write more than
    it keeps, then host3 less than its agent sends ahead."""
    stage.trainer = stage.file("held-up", """#!/bin/sh
echo $HVD_HOST is here
case $HVD_HOST in host3) n=600 ;; *) n=8000 ;; esac
(until [ -e %s.$HVD_HOST ]; do sleep 0.1; done
seq -f "$(head -c 200 /dev/zero | tr '\\0' x) line %%g of $HVD_HOST" $n
rm %s.$HVD_HOST) &
exec %s "$@"
""" % (gates, gates, stage.trainer))
    descriptor, writer = os.pipe()
    run = stage.job(hosts=3, discovery=True, stdout=writer, program=trainer(
        False))
    os.close(writer)
    reader = open(descriptor, encoding="utf-8")
    for _ in range(3):
        check(reader.readline().endswith("is here\n"))
    for i in (1, 2, 3):
        gate = stage.file("%s.host%d" % (os.path.basename(gates), i), "")
        clusters.wait("all that host%d writes" % i,
                      lambda gate=gate: not os.path.exists(gate))
    return run, reader


@scenario
def agent_that_ends_leaves_its_lines_to_a_driver_that_is_held_up(stage):
    """It has no CREDIT for them, and dials anew; the driver has them."""
    run, reader = held_up(stage, os.path.join(stage.root, "gate"))
    old, mark = stage.cluster.processes(3), run.mark()
    run.set_hosts("host1:1", "host2:1")
    run.whole(2, mark, gone(run, "host3"))
    ended(old)
    run.follow(reader)
    run.says("line 600 of host3")
    run.finish(2)
    got = [int(line.split()[-3]) for line in list(run.lines)
           if line.endswith(" of host3")]
    equal(got, list(range(1, 601)), "lines of host3")


def waits_out(stage, cut):
    """Hosts that cannot be heard for longer than the silence that counts, all
    of them at once: nobody is given up."""
    run = start(stage)
    mark = run.mark()
    for i in cut:
        stage.cluster.cut(i)
    time.sleep(2.5 * SILENCE_S)  # that long
    for i in cut:
        stage.cluster.heal(i)
    run.until("a word of it", lambda: [
        line for line in list(run.errors) if "heard again" in line],
        stages.harness.PATIENCE_S)
    sent = trains(run)
    run.until("more steps", lambda: trains(run) > sent,
              stages.harness.PATIENCE_S)
    time.sleep(SILENCE_S)
    nobody_lost(run, mark)
    run.finish(3)


@scenario
def driver_is_cut_off(stage):
    waits_out(stage, [clusters.DRIVER])


@scenario
def switch_is_away(stage):
    waits_out(stage, range(4))


def trains(run):
    """Steps that rank 0 has made, as its host's network sees it."""
    return run.cluster.interface_bytes(stages.number(
        run.row(rank=0)["host"]))[1]


def rough(stage, hit, undo):
    """Slow, but alive: nobody is given up, and it goes on."""
    run = start(stage)
    mark = run.mark()
    hit()
    began, sent = time.monotonic(), trains(run)
    while time.monotonic() < began + ROUGH_S:
        run.until("more steps", lambda: trains(run) > sent,
                  stages.harness.PATIENCE_S)
        sent = trains(run)
        equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
              "lost")
        time.sleep(0.2)
    undo()
    run.finish(3)


@scenario
def delay_and_loss(stage):
    """200 ms to one host each way, and 1 % of what all send."""
    def hit():
        stage.cluster.delay(2, 200)
        for i in (1, 2, 3):
            stage.cluster.loss(i, 1)

    def undo():
        stage.cluster.delay(2, 0)
        stage.cluster.loss(1, 0)
    rough(stage, hit, undo)


@scenario
def silences_that_are_short(stage):
    """All is lost, and comes again, before the silence that counts is over. (A
    cable that is pulled makes Linux forget addresses, and ask again after a
    second: then it may be longer.)"""
    run = start(stage)
    mark = run.mark()
    for _ in range(5):
        stage.cluster.blackhole(3)
        time.sleep(SILENCE_S / 4)  # that long
        stage.cluster.heal(3)
        time.sleep(SILENCE_S / 2)
    sent = trains(run)
    run.until("more steps", lambda: trains(run) > sent,
              stages.harness.PATIENCE_S)
    equal(run.seen("agent_lost", mark) + run.seen("worker_lost", mark), [],
          "lost")
    run.finish(3)


@scenario
def cut_host_ends_by_itself(stage):
    """Nobody can tell it: --driver-timeout does."""
    run = start(stage, options=("--driver-timeout", "3"))
    lost = gone(run, "host3")
    old = stage.cluster.processes(3)
    mark, since = run.mark(), time.monotonic()
    stage.cluster.cut(3)
    run.whole(2, mark, lost)
    ended(old)
    took = time.monotonic() - since
    check(took < 3 + 10, "ended after %.1f s" % took)
    run.finish(2)


def draw(chance, cluster):
    """(what is done to a host, how it is undone)"""
    i = chance.choice((2, 3))
    return chance.choice((
        (lambda: cluster.cut(i), lambda: cluster.heal(i)),
        (lambda: cluster.blackhole(i), lambda: cluster.heal(i)),
        (lambda: cluster.one_way(i, 0), lambda: cluster.heal(i)),
        (lambda: cluster.one_way(0, i), lambda: cluster.heal(i)),
        (lambda: cluster.power_off(i), lambda: cluster.power_on(i)),
        (lambda: cluster.freeze(i), lambda: cluster.thaw(i)),
        (lambda: cluster.freeze(0), lambda: cluster.thaw(0)),
        (lambda: kill_some(cluster, i, "hvd-agent"), lambda: None),
        (lambda: kill_some(cluster, i, "trainer"), lambda: None),
        (lambda: kill_some(cluster, 0, "ssh"), lambda: None)))


def kill_some(cluster, i, program):
    for pid in cluster.processes(i):
        if clusters.command_of(pid).split(" ")[0].endswith(program):
            clusters.kill(pid)
            return


@scenario
def one_after_the_other(stage):
    """Whatever comes. The next may come before the driver knows of the last,
    so host1, which has the state, is spared: else nobody might have it."""
    seed = int(os.environ.get("HVD_TEST_SEED", time.time_ns() % 10**6))
    stage.note("HVD_TEST_SEED=%d" % seed)
    chance = random.Random(seed)
    run = start(stage, options=("--slot-restarts", "32",
                                "--ssh-command", stage.quick_ssh()))
    began = time.monotonic()
    while time.monotonic() < began + ROUGH_S:
        hit, undo = draw(chance, stage.cluster)
        hit()
        time.sleep(chance.choice((0.1, 1, SILENCE_S + 1)))
        undo()
        run.whole(3)  # perhaps not to know of it yet: then the next is on top
    run.finish()


# ---- kill -9 of what holds a job together -----------------------------------

def ends_everywhere(stage):
    """Nothing of the job is left on any host."""
    run = stage.runs[-1]
    since = time.monotonic()
    run.nobody_left()
    stage.note("all has ended after %.1f s" % (time.monotonic() - since))


def kill_on(run, i, program, words=""):
    """kill -9 of the processes of a program on host i with this in their
    command line."""
    found = [pid for pid in run.cluster.processes(i)
             for command in [clusters.command_of(pid)]
             if os.path.basename(command.split()[0]) == program
             and words in command]
    check(found, "no %s with %r on host %d" % (program, words, i))
    for pid in found:
        clusters.kill(pid)
    return found


@scenario
def kill_of_an_ssh_client(stage):
    """Its agent is heard without it: nobody is lost; and it ends with the
    job."""
    run = start(stage)
    mark = run.mark()
    kill_on(run, clusters.DRIVER, "ssh", "-- host3 ")
    run.until("a word of it", lambda: [
        line for line in list(run.errors) if "host host3: its ssh" in line],
        stages.harness.PATIENCE_S)
    time.sleep(4)  # longer than what is silent is waited for
    equal(run.seen("agent_lost", mark) + run.seen("generation_started", mark),
          [], "lost")
    run.finish(3)


@scenario
def kill_of_an_agent(stage):
    """The end of its connection tells, and no heartbeat is waited for."""
    run = start(stage, slots=2, options=("--heartbeat-timeout", "30"))
    lost = gone(run, "host3")
    mark, since = run.mark(), time.monotonic()
    kill_on(run, 3, "hvd-agent")
    stage.note("%.3f s" % run.within(
        15, since, run.event("agent_lost", mark, host="host3")))
    run.whole(6, mark, lost)
    run.finish(6)


@scenario
def kill_of_a_worker(stage):
    """The replacement comes, though the path to its host loses large packets:
    SPAWN has the environment, and needs several packets."""
    run = start(stage, options=("-x", "LONG=" + "x" * 4000))
    row = run.row(host="host2")
    stage.cluster.narrow(clusters.DRIVER, 2)
    mark = run.mark()
    os.kill(run.pid(row), signal.SIGKILL)
    run.whole(3, mark, [row["worker"]])
    run.finish(3)


@scenario
def kill_of_the_driver(stage):
    """Agents notice at once, through ssh as well."""
    run = start(stage, options=("--driver-timeout", "3"))
    run.process.kill()
    run.process.wait()
    ends_everywhere(stage)


def outlived(stage, *options):
    """A job on two hosts without whose driver it trains on."""
    return start(stage, 2, options=(*options, "--job-dir", os.path.join(
        stage.directory(), "job")))


@scenario
def driver_with_a_job_dir_is_killed(stage):
    """Agents on other machines call where it was, and a successor is there."""
    run = outlived(stage)
    run.process.kill()
    mark, since = run.mark(), time.monotonic()
    run.resume(stage.cluster.enter(clusters.DRIVER))
    run.says("goes on")
    stage.note("goes on after %.2f s" % (time.monotonic() - since))
    for event in ("agent_lost", "worker_lost", "generation_formed"):
        equal(run.seen(event, mark), [], event)
    run.finish(2)
    ends_everywhere(stage)


def succeed(stage, run, host, *options):
    """Another driver of the same job, on this host."""
    hvd = [word for word in run.command if word.endswith("/hvd-elastic")]
    after = stages.Run(stage, [], (), True, host)
    after.command = [*hvd, *options, "--event-log", after.event_log]
    after.control, after.marker = run.control, run.marker
    stage.runs.append(after)
    after.start()
    return after


def shared(stage, hidden_on=()):
    """A job on the driver's own host and two others, which see its directory,
    and a standby on host1."""
    stage.up(2)
    directory = os.path.join(stage.root, "shared")
    os.mkdir(directory)
    for i in hidden_on:
        stage.cluster.hide(i, directory)
    job_dir = os.path.join(directory, "job")
    run = stage.launch([
        "-np", "3", "--min-np", "1", "-H", "driver:1,host1:1,host2:1",
        "--ssh-identity-file", stage.cluster.identity, "--job-dir", job_dir],
        trainer(False))
    run.job_dir = job_dir
    run.whole(3)
    after = succeed(stage, run, 1, "--standby", job_dir)
    after.says("standing by")
    return run, after


def undisturbed(after, run, pids):
    """It goes on with everybody, and each is the same process."""
    after.says("goes on")
    for event in ("agent_lost", "worker_lost", "generation_formed"):
        equal(after.seen(event), [], event)
    equal([pid for pid in pids.values() if clusters.state(pid) is None], [],
          "processes that have ended")
    after.finish(3)


@scenario
def standby_on_another_machine_leads(stage):
    """The driver's own host is one of the job, and lives."""
    run, after = shared(stage)
    pids = run.pids()
    since = time.monotonic()
    run.process.kill()
    after.says("on another machine")
    undisturbed(after, run, pids)
    stage.note("ended after %.2f s" % (time.monotonic() - since))


@scenario
def machine_of_the_driver_dies_and_a_standby_leads(stage):
    """Its slots are lost, and nobody else."""
    run, after = shared(stage)
    pids = {row["host"]: run.pid(row) for row in run.members()}
    since = time.monotonic()
    stage.cluster.power_off(clusters.DRIVER)
    after.whole(2)
    stage.note("two train after %.2f s" % (time.monotonic() - since))
    for host in ("host1", "host2"):
        check(clusters.state(pids[host]), "the worker of %s has ended" % host)
    after.finish(2)


@scenario
def driver_freezes_and_a_standby_on_another_machine_leads(stage):
    """Its lock is held all the time. When it goes on it hurts nothing."""
    run, after = shared(stage)
    pids = run.pids()
    since = time.monotonic()
    os.kill(run.process.pid, signal.SIGSTOP)
    after.says("goes on")
    stage.note("goes on after %.2f s" % (time.monotonic() - since))
    os.kill(run.process.pid, signal.SIGCONT)
    equal(run.process.wait(stages.harness.PATIENCE_S), 3, "its status")
    undisturbed(after, run, pids)


@scenario
def standbys_on_two_machines(stage):
    """One leads when the driver is killed, and the other when that one is."""
    run, first = shared(stage)
    second = succeed(stage, run, 2, "--standby", run.job_dir)
    second.says("standing by")
    pids = run.pids()
    run.process.kill()
    leads = clusters.wait("a driver", lambda: [
        one for one in (first, second)
        if any("goes on" in line for line in list(one.lines))],
        stages.harness.PATIENCE_S)
    equal(len(leads), 1, "drivers")
    kill_on(run, leads[0].host, "hvd-elastic")
    undisturbed(second if leads[0] is first else first, run, pids)


@scenario
def standby_that_a_host_would_not_find_leaves_the_job_alone(stage):
    """An agent does not see the job's directory: a driver where the one before
    was leads on."""
    run, after = shared(stage, hidden_on=(2,))
    pids = run.pids()
    run.process.kill()
    after.says("which is not this machine")
    again = succeed(stage, run, clusters.DRIVER, "--resume", run.job_dir)
    undisturbed(again, run, pids)
    equal(after.wait(stages.harness.PATIENCE_S), 0, "status of the standby")


@scenario
def driver_hangs_and_another_takes_over(stage):
    """Agents elsewhere call its port, which is free when it has ended."""
    run = outlived(stage, "--heartbeat-timeout", "5")
    driver = run.process
    os.kill(driver.pid, signal.SIGSTOP)
    after = succeed(stage, run, clusters.DRIVER, "--resume", run.job_dir,
                    "--take-over")
    after.says("hangs and holds its ports -> killed")
    equal(driver.wait(stages.harness.PATIENCE_S), -signal.SIGKILL,
          "status of the older one")
    after.says("goes on")
    for event in ("agent_lost", "worker_lost", "generation_formed"):
        equal(after.seen(event), [], event)
    after.finish(2)


@scenario
def power_off_of_the_drivers_host(stage):
    """It says nothing more: --driver-timeout, and everything ends."""
    run = start(stage, options=("--driver-timeout", "3"))
    stage.cluster.power_off(clusters.DRIVER)
    run.process.wait()
    ends_everywhere(stage)


@scenario
def ctrl_c(stage):
    run = start(stage)
    run.interrupt()
    run.wait(stages.harness.PATIENCE_S)
    ends_everywhere(stage)


if __name__ == "__main__":
    sys.exit(stages.main())
