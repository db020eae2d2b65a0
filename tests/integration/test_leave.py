"""test_leave - hosts that say before that they will go: their workers leave in
time, no step is lost, and nothing counts as a failure.

No step is lost: whoever was there from the first generation to the end has
computed each step once (chaos_worker's "iterations-here").
"""
import os
import signal
import sys

from harness import (LOCAL, OTHER, PATIENCE_S, THIRD, Run, check, equal, main,
                     scenario)
import job as jobs

FOURTH = "127.0.0.4"
BOTH = ("localhost:2", "127.0.0.2:2")


def chaos(stage):
    """Trains until it is interrupted."""
    return [stage.chaos, "--steps", "1000000", "--step-us", "2000"]


def until_changed(stage, step_us=2000, more_steps=50):
    """Trains until the world has changed, however late, and so many steps."""
    return [stage.chaos, "--more-steps", str(more_steps), "--step-us",
            str(step_us)]


def agent_of(run, host):
    return run.seen("agent_started", host=host)[-1]["pid"]


def notice(run, *hosts):
    for host in hosts:
        jobs.kill(agent_of(run, host), signal.SIGTERM)


def hosts_of(formed):
    return {row["host"] for row in formed["ranks"]}


def without(run, mark, *hosts):
    """The generation that trains on none of these."""
    return run.until("a generation without %s" % (hosts,), lambda: (
        lambda g: g and not hosts_of(g) & set(hosts) and g)(
            run.running(mark)), PATIENCE_S)


def agent_has_ended(run, host):
    pid = agent_of(run, host)
    run.until("the end of the agent on " + host, lambda: pid not in {
        other for other, _ in jobs.parents()}, PATIENCE_S)


def no_failure(run, mark=0):
    for event in ("worker_lost", "agent_lost", "host_blacklisted"):
        equal(run.seen(event, mark), [], event)
    equal({e["reason"] for e in run.seen("generation_started", mark)}
          - {"hosts updated"}, set(), "why generations ended")


def no_step_lost(run, n):
    """So many have finished, and computed each step of theirs once."""
    found = run.digests()
    equal(len(found), n, "workers that finished")
    equal(len({digest for digest, _, _ in found}), 1, "digests")
    for _, steps, here in found:
        equal(here, steps, "steps computed")


@scenario
def sigterm_to_an_agent_drains_its_host(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], until_changed(stage),
                      hosts=BOTH)
    run.whole(4)
    mark = run.mark()
    notice(run, OTHER)
    leaving = run.event("host_leaving", mark, host=OTHER)
    check("SIGTERM" in leaving["reason"], leaving)
    equal(without(run, mark, OTHER)["size"], 2, "size")
    agent_has_ended(run, OTHER)
    equal(len(run.seen("worker_drained", mark)), 2, "drained")
    exits = run.until("how both ended", lambda: (
        lambda found: len(found) == 2 and found)(
            run.seen("worker_exited", mark, host=OTHER)), PATIENCE_S)
    equal({e["code"] for e in exits}, {0}, "codes")
    run.says("<stdout>:removed", 2)
    equal(run.seen("worker_spawned", mark), [], "spawned")
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 2)


@scenario
def host_is_used_again_when_it_is_listed_anew(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    mark = run.mark()
    notice(run, OTHER)
    without(run, mark, OTHER)
    agent_has_ended(run, OTHER)
    run.epoch(1)
    equal(run.seen("agent_started", mark), [], "agents")
    run.set_hosts("localhost:2")
    run.event("host_removed", mark, host=OTHER)
    run.set_hosts(*BOTH)
    run.whole(4, mark)
    no_failure(run)
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def notice_of_the_host_of_rank_0(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], until_changed(stage),
                      hosts=BOTH)
    mark = run.mark()
    run.whole(4)
    host = run.row(rank=0)["host"]
    notice(run, host)
    formed = without(run, mark, host)
    check(formed["ranks"][0]["joined"] == 1, formed)
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 2)


@scenario
def notice_during_a_step(stage):
    """All of them compute; they leave when the step is done."""
    run = stage.start(["-np", "4", "--min-np", "1"],
                      until_changed(stage, 300000, 2), hosts=BOTH)
    run.whole(4)
    mark = run.mark()
    notice(run, OTHER)
    without(run, mark, OTHER)
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 2)


@scenario
def several_notices_are_one_generation(stage):
    """All are told before any worker comes to a boundary."""
    hosts = [LOCAL, OTHER, THIRD, FOURTH]
    run = stage.start(["-np", "4", "--min-np", "1"], until_changed(stage),
                      hosts=[h + ":1" for h in hosts])
    run.whole(4)
    mark, pids = run.mark(), run.pids().values()
    for pid in pids:
        jobs.kill(pid, signal.SIGSTOP)
    notice(run, *hosts[1:])
    for host in hosts[1:]:
        run.event("host_leaving", mark, host=host)
    for pid in pids:
        jobs.kill(pid, signal.SIGCONT)
    without(run, mark, *hosts[1:])
    equal([e["size"] for e in run.seen("generation_formed", mark)], [1],
          "generations")
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 1)


@scenario
def notice_of_all_hosts(stage):
    """One stays with the state, until others have it."""
    run = stage.start(["-np", "4", "--min-np", "1"], chaos(stage), hosts=BOTH)
    run.whole(4)
    mark = run.mark()
    notice(run, LOCAL, OTHER)
    one = run.until("one that stays", lambda: [
        e for e in run.seen("generation_formed", mark) if e["size"] == 1],
        PATIENCE_S)[0]
    run.set_hosts(*BOTH, "127.0.0.3:2")
    formed = without(run, mark, LOCAL, OTHER)
    equal(hosts_of(formed), {THIRD}, "hosts")
    check(formed["ranks"][0]["state"] > one["ranks"][0]["state"], formed)
    no_failure(run)
    run.interrupt()
    run.ends(130)


@scenario
def notice_below_min_np(stage):
    """It stays until another comes."""
    run = stage.start(["-np", "2", "--min-np", "2"], chaos(stage),
                      hosts=["localhost:1", "127.0.0.2:1"])
    run.whole(2)
    mark = run.mark()
    notice(run, OTHER)
    run.event("generation_formed", mark)
    equal(hosts_of(run.whole(2, mark)), {LOCAL, OTHER}, "hosts")
    run.set_hosts("localhost:1", "127.0.0.2:1", "127.0.0.3:1")
    equal(hosts_of(without(run, mark, OTHER)), {LOCAL, THIRD}, "hosts")
    no_failure(run)
    run.interrupt()
    run.ends(130)


@scenario
def notice_below_min_np_and_nobody_comes(stage):
    """It leaves when half of its time is over; the other one waits, with the
    state."""
    run = stage.start(["-np", "2", "--min-np", "2", "--drain-timeout", "6"],
                      chaos(stage), hosts=["localhost:1", "127.0.0.2:1"])
    run.whole(2)
    mark = run.mark()
    leaving = notice(run, OTHER) or run.event("host_leaving", mark)
    drained = run.event("worker_drained", mark, host=OTHER)
    took_s = drained["t"] - leaving["t"]
    check(took_s >= 2.99, "it left after %g s" % took_s)
    agent_has_ended(run, OTHER)
    no_failure(run)
    run.set_hosts("localhost:1", "127.0.0.2:1", "127.0.0.3:1")
    formed = without(run, mark, OTHER)
    equal(hosts_of(formed), {LOCAL, THIRD}, "hosts")
    equal(formed["ranks"][0]["joined"], 1, "first generation of rank 0")
    run.interrupt()
    run.ends(130)


@scenario
def notice_in_a_rendezvous(stage):
    """Somebody dies, and is waited for by one that is stopped."""
    run = stage.start(["-np", "4", "--min-np", "1", "--slot-restarts", "1"],
                      chaos(stage), hosts=["localhost:2", "127.0.0.2:1",
                                           "127.0.0.3:1"])
    run.whole(4)
    mark, held = run.mark(), run.row(host=THIRD)
    jobs.kill(held["pid"], signal.SIGSTOP)
    dead = run.row(host=LOCAL, slot=1)
    jobs.kill(dead["pid"])
    run.event("generation_started", mark)
    notice(run, OTHER)
    run.event("host_leaving", mark, host=OTHER)
    jobs.kill(held["pid"], signal.SIGCONT)
    without(run, mark, OTHER)
    equal([e["worker"] for e in run.seen("worker_lost", mark)],
          [dead["worker"]], "lost")
    run.interrupt()
    run.ends(130)


@scenario
def sigterm_twice_is_a_loss_and_no_failure(stage):
    run = stage.start(["-np", "4", "--min-np", "1", "--strict-blacklist"],
                      chaos(stage), hosts=BOTH)
    run.whole(4)
    for pid in (row["pid"] for row in run.members()):
        jobs.kill(pid, signal.SIGSTOP)
    mark = run.mark()
    notice(run, OTHER)
    run.event("host_leaving", mark)
    notice(run, OTHER)
    run.until("the loss of its workers", lambda: len(
        run.seen("worker_lost", mark, host=OTHER)) == 2, PATIENCE_S)
    for row in run.members():
        if row["host"] == LOCAL:
            jobs.kill(row["pid"], signal.SIGCONT)
    without(run, mark, OTHER)
    equal(run.seen("host_blacklisted"), [], "blacklisted")
    run.interrupt()
    run.ends(130)


@scenario
def notice_while_there_is_no_driver(stage):
    """It is said to the one that takes over."""
    directory = os.path.join(stage.root, "job")
    run = stage.start(["-np", "4", "--min-np", "1", "--job-dir", directory,
                       "--heartbeat-interval", "0.2"], hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    run.process.kill()
    run.process.wait()
    notice(run, OTHER)
    heir = Run(stage, [], (), True)
    heir.command = [stage.driver, "--resume", directory, "--event-log",
                    heir.event_log]
    heir.control, heir.marker = run.control, run.marker
    stage.runs.append(heir)
    heir.start()
    heir.event("host_leaving", host=OTHER)
    equal(without(heir, 0, OTHER)["size"], 2, "size")
    no_failure(heir)
    heir.allow(3)
    heir.ends(0)
    heir.agrees(2)


# ---- --notice-script --------------------------------------------------------

def told(stage, words=""):
    """A script that waits for the file of its host, and prints it."""
    return stage.file("notice.sh", '#!/bin/sh\n%s\nfor i in $(seq 60); do\n'
                      '  [ -e "%s/$HVD_HOST" ] && exec cat "%s/$HVD_HOST"\n'
                      '  sleep 0.05\ndone\n' % (words, stage.root, stage.root))


@scenario
def notice_script_says_so(stage):
    run = stage.start(["-np", "4", "--min-np", "1", "--notice-script",
                       told(stage)], until_changed(stage), hosts=BOTH)
    run.whole(4)
    mark = run.mark()
    stage.file(OTHER, "45 spot instance: terminate\n")
    leaving = run.event("host_leaving", mark, host=OTHER)
    equal(leaving["reason"], "spot instance: terminate", "reason")
    check(30000 < leaving["ms"] <= 45000, leaving)
    without(run, mark, OTHER)
    agent_has_ended(run, OTHER)
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 2)


def complains(stage, script, words):
    """One line, and the job goes on."""
    run = stage.start(["-np", "2", "--min-np", "1", "--notice-script", script],
                      hosts=["localhost:2"])
    run.whole(2)
    line = run.says(words)
    check("--notice-script" in line, line)
    run.allow(3)
    run.ends(0)
    run.agrees(2)
    equal(run.seen("host_leaving"), [], "hosts that leave")
    equal(len([line for line in run.lines if words in line]), 1, "lines")


@scenario
def notice_script_fails(stage):
    complains(stage, stage.file("notice.sh", "#!/bin/sh\nexit 7\n"), "status 7")


@scenario
def notice_script_prints_nonsense(stage):
    complains(stage, stage.file("notice.sh", "#!/bin/sh\necho soon 5\n"),
              '"soon 5" is not a number of seconds')


@scenario
def notice_script_hangs(stage):
    """Its children are killed with it; nobody waits for it at the end."""
    complains(stage, stage.file("notice.sh", "#!/bin/sh\nsleep 1000 | cat\n"),
              "did not finish within 5 s")


@scenario
def notice_script_that_is_not_there(stage):
    status, _, errors = stage.command("-np", "1", "--notice-script", "/none",
                                      "true")
    equal((status, errors), (2, 'hvd-elastic: --notice-script: "/none" does '
                             'not exist\n'), "refusal")


# ---- discovery --------------------------------------------------------------

@scenario
def discovery_says_drain(stage):
    run = stage.start(["-np", "4", "--min-np", "1"], until_changed(stage),
                      hosts=BOTH)
    run.whole(4)
    mark = run.mark()
    run.set_hosts("localhost:2", "127.0.0.2:2 drain=20")
    leaving = run.event("host_leaving", mark, host=OTHER)
    check(10000 < leaving["ms"] <= 20000, leaving)
    without(run, mark, OTHER)
    agent_has_ended(run, OTHER)
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 2)


@scenario
def discovery_says_drain_and_one_does_not_leave(stage):
    """It is killed when its time is over, though --drain-timeout is not."""
    run = stage.start(["-np", "4", "--min-np", "1", "--strict-blacklist"],
                      hosts=BOTH)
    run.whole(4)
    run.epoch(0)
    row, mark = run.row(rank=3), run.mark()
    jobs.kill(row["pid"], signal.SIGHUP)
    run.set_hosts("localhost:2", "127.0.0.2:2 drain=1")
    lost = run.event("worker_lost", mark, worker=row["worker"])
    check("before its host was to go" in lost["how"], lost)
    without(run, mark, OTHER)
    equal(run.seen("host_blacklisted"), [], "blacklisted")
    run.allow(3)
    run.ends(0)
    run.agrees(2)


@scenario
def worker_asks_to_leave_and_no_step_is_lost(stage):
    run = stage.start(["-np", "4", "--min-np", "1"],
                      [*until_changed(stage), "--drain-on-term"], hosts=BOTH)
    run.whole(4)
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"], signal.SIGTERM)
    run.event("worker_drained", mark, worker=row["worker"])
    run.whole(3, mark, {row["worker"]})
    run.ends(0)
    no_failure(run)
    no_step_lost(run, 3)


if __name__ == "__main__":
    sys.exit(main())
