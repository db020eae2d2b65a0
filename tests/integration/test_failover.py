"""test_failover - the driver dies, hangs or is replaced: the job goes on, in the
same processes, and nothing is lost (M15).

A successor is a job of its own to the harness: it has another event log, and the
same control directory, hosts and mark on its processes. A moment is held by a
process that is stopped, or that waits for a file.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import (LOCAL, OTHER, PATIENCE_S, Run, SILENCE_S, SLOW, THIRD,
                     check, equal, main, scenario)
import job as jobs

TIMEOUT_S = SILENCE_S    # silence that means dead
PATIENT_S = 20 * SLOW    # ... where somebody is stopped for a while


def start(stage, *options, np=4, hosts=("localhost:2", "127.0.0.2:2"),
          timeout_s=TIMEOUT_S, program=(), **more):
    return stage.start(["-np", str(np), "--min-np", "1",
                        "--heartbeat-interval", "0.2", "--heartbeat-timeout",
                        "%g" % timeout_s, "--job-dir", job_dir(stage),
                        *options], program, hosts=hosts, **more)


def started(stage, *options, **more):
    """A job of four workers that train, with one epoch behind them."""
    run = start(stage, *options, **more)
    run.whole(4)
    run.epoch(0)
    return run


def job_dir(stage):
    return os.path.join(stage.root, "job")


def succeed(stage, before, *options, command=()):
    """Another driver of the same job; command: exactly this one."""
    run = Run(stage, [], (), True)
    run.command = command or [
        stage.driver, "--event-log", run.event_log,
        *(options or ("--resume", job_dir(stage)))]
    run.control, run.marker = before.control, before.marker
    run.set_hosts = before.set_hosts
    stage.runs.append(run)
    run.start()
    return run


def kill_driver(run):
    run.process.kill()
    run.process.wait()


def kill_driver_and_be_noticed(run):
    """What an agent sends before it sees that the driver is gone is lost."""
    held = jobs.connections()
    open_ = lambda: {inode for pid in agents(run)
                     for inode in jobs.sockets_of(pid)} & held
    check(open_(), "no agent is connected")
    kill_driver(run)
    wait("agents to let go of the driver", lambda: not open_())


def agents(run):
    return [run.seen("agent_started", host=host)[-1]["pid"]
            for host in (LOCAL, OTHER)]


def processes(run):
    return [*agents(run), *run.pids().values()]


def alive(pids):
    living = {pid for pid, _ in jobs.parents()}
    return [pid for pid in pids if pid in living]


def all_live(pids, what):
    equal(alive(pids), list(pids), what)


def wait(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < deadline, "waited in vain for", what)
        time.sleep(jobs.POLL_S)


def finishes(run, n=4):
    run.allow(3)
    run.ends(0)
    run.agrees(n)


def nothing_lost(run, n=4):
    """Nobody was disturbed: no step was made twice, no process started anew."""
    finishes(run, n)
    for event in ("generation_started", "generation_formed", "worker_lost",
                  "worker_ready", "agent_lost"):
        equal(run.seen(event), [], event)
    for row in run.epochs():
        equal(row["rendezvous"], 1, "calls of the training function")


def adopted(run, term=2):
    run.event("job_resumed", term=term)
    run.says("goes on")


def gated(stage, before, after):
    """trainer with a wait for a file before or after it; (program, file, its
    control directory)."""
    gate = os.path.join(stage.root, "gate")
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    pause = "until [ -e %s ]; do sleep 0.02; done" % gate
    words = [*([pause] if before else []),
             "%s %s" % (stage.trainer, control), *([pause] if after else [])]
    return ["sh", "-c", " && ".join(words)], gate, control


def touch(path):
    open(path, "wb").close()


# ---- at each moment ----------------------------------------------------------

@scenario
def training(stage):
    run = started(stage)
    pids = processes(run)
    kill_driver(run)
    all_live(pids, "processes without a driver")
    after = succeed(stage, run)
    adopted(after)
    after.epoch(1)
    all_live(pids, "processes with another driver")
    nothing_lost(after)


@scenario
def training_goes_on_meanwhile(stage):
    """A step needs no driver, and what is printed then is kept."""
    told = os.path.join(stage.root, "told")
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    run = start(stage, program=["sh", "-c", "exec %s %s | tee -a %s" % (
        stage.trainer, control, told)])
    run.control = control
    run.whole(4)
    run.epoch(0)
    kill_driver_and_be_noticed(run)
    run.allow(2)
    wait("the end of an epoch", lambda: "epoch 1 " in open(told).read())
    after = succeed(stage, run)
    adopted(after)
    after.says("epoch 1 ")
    nothing_lost(after)


@scenario
def death_of_a_worker_meanwhile(stage):
    run = started(stage)
    victim = run.row(rank=2)
    kill_driver(run)
    jobs.kill(victim["pid"])
    after = succeed(stage, run)
    after.event("worker_exited", worker=victim["worker"], signal=9)
    after.whole(4, without=(victim["worker"],))
    after.epoch(1)
    finishes(after)


@scenario
def death_of_an_agent_meanwhile(stage):
    run = started(stage)
    gone = {row["worker"] for row in run.members() if row["host"] == OTHER}
    kill_driver(run)
    jobs.kill(agents(run)[1])
    after = succeed(stage, run)
    after.event("agent_lost", host=OTHER)
    after.whole(4, without=gone)
    finishes(after)


@scenario
def death_of_everybody_meanwhile(stage):
    """There is nothing to go on from, and it says so."""
    run = started(stage)
    kill_driver(run)
    for pid in processes(run):
        jobs.kill(pid)
    words = stage.command("--job-dir", job_dir(stage), "-np", "1", "true")[2]
    check("holds a job that has not ended: --resume it" in words, words)
    after = succeed(stage, run)
    check("nobody is left who holds the state" in after.ends(1),
          after.verdict())


@scenario
def rendezvous(stage):
    """Held by a survivor that does not answer."""
    run = started(stage, timeout_s=PATIENT_S)
    stopped, victim, mark = run.row(rank=1), run.row(rank=3), run.mark()
    jobs.kill(stopped["pid"], signal.SIGSTOP)
    jobs.kill(victim["pid"])
    run.event("generation_started", mark)
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    jobs.kill(stopped["pid"], signal.SIGCONT)
    after.whole(4, without=(victim["worker"],))
    finishes(after)


@scenario
def spawn(stage):
    """Workers have been started, and have not called."""
    program, gate, control = gated(stage, True, False)
    run = start(stage, program=program)
    run.control = control
    run.until("4 spawned", lambda: len(run.seen("worker_spawned")) == 4,
              PATIENCE_S)
    pids = [event["pid"] for event in run.seen("worker_spawned")]
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    touch(gate)
    after.whole(4)
    check(set(after.pids().values()) <= {*pids} | {
        event["pid"] for event in after.seen("worker_spawned")}, "who trains")
    finishes(after)


@scenario
def start_of_agents(stage):
    run = start(stage)
    run.event("host_added")
    kill_driver(run)
    after = succeed(stage, run)
    after.whole(4)
    finishes(after)


@scenario
def hold(stage):
    """A host was added, and a member that is stopped does not answer HOLD: the
    others may wait for a CUT by now."""
    run = started(stage, "--max-np", "6", timeout_s=PATIENT_S)
    stopped, mark = run.row(rank=1), run.mark()
    jobs.kill(stopped["pid"], signal.SIGSTOP)
    run.set_hosts("localhost:2", "127.0.0.2:2", "127.0.0.3:2")
    run.until("newcomers", lambda: len(run.seen(
        "worker_ready", mark, host=THIRD)) == 2, PATIENCE_S)
    pids = processes(run)
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    jobs.kill(stopped["pid"], signal.SIGCONT)
    after.whole(6)
    all_live(pids, "members")
    finishes(after, 6)


@scenario
def release(stage):
    """All have finished, nobody has exited."""
    program, gate, control = gated(stage, False, True)
    run = start(stage, program=program)
    run.control = control
    run.whole(4)
    run.allow(3)
    run.event("released")
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    touch(gate)
    after.ends(0)


@scenario
def release_that_was_not_written_down(stage):
    """The disk hangs just then, and the driver dies. Those who were released
    have something left to do: they say it."""
    under, switch = stage.hanging(job_dir(stage))
    if not under:
        return
    run = started(stage, program=("--epilogue",), under=under)
    pids = processes(run)
    touch(switch)
    run.allow(3)
    run.event("released")
    kill_driver(run)
    os.unlink(switch)
    after = succeed(stage, run)
    after.event("released")
    all_live(pids, "processes")
    run.allow(4)
    after.ends(0)
    equal(after.seen("worker_lost"), [], "workers lost")
    after.agrees(4)


@scenario
def interrupt(stage):
    """A drain, held by a worker that is stopped."""
    run = started(stage, timeout_s=PATIENT_S)
    stopped = run.row(rank=1)["pid"]
    jobs.kill(stopped, signal.SIGSTOP)
    run.interrupt()
    run.says("draining")
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    jobs.kill(stopped, signal.SIGCONT)
    after.allow(3)
    status = after.wait(PATIENCE_S)  # whether it was written down in time
    check(status in (0, 130), "exit status", status)


@scenario
def verdict(stage):
    """The job has failed, everybody knows it, nobody has exited."""
    gate = os.path.join(stage.root, "gate")
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    run = start(stage, program=[
        "sh", "-c", "%s --fail-at 20 %s; code=$?; "
        "until [ -e %s ]; do sleep 0.02; done; exit $code" % (
            stage.trainer, control, gate)])
    run.control = control
    run.allow(1)
    run.says("trainer: ", 4)
    kill_driver(run)
    after = succeed(stage, run)
    after.event("job_resumed")
    touch(gate)
    check("returned -1234" in after.ends(1), after.verdict())


@scenario
def environment(stage):
    """Agents that a successor starts have that of the job."""
    control = os.path.join(stage.root, "control")
    os.makedirs(control)
    run = start(stage, program=["sh", "-c", "echo mood $MOOD; exec %s %s" % (
        stage.trainer, control)], MOOD="fine")
    run.control = control
    run.whole(4)
    run.epoch(0)
    kill_driver(run)
    jobs.kill(agents(run)[1])
    after = succeed(stage, run)
    after.event("agent_started", host=OTHER)
    after.says("mood fine", 2)
    after.whole(4)
    finishes(after)


def epochs_of_rank_0(out):
    path = os.path.join(out, "rank.0", "stdout")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.split()[1] for line in file if line.startswith("epoch ")]


@scenario
def files_of_output(stage):
    """They are gone on with: nothing is missing, nothing is there twice."""
    out, trace = (os.path.join(stage.root, name) for name in ("out", "t.json"))
    run = started(stage, "--output-filename", out, "--timeline", trace)
    # what a driver has taken and not written yet dies with it
    run.until("epoch 0 in rank 0's file",
              lambda: epochs_of_rank_0(out) == ["0"], PATIENCE_S)
    kill_driver(run)
    after = succeed(stage, run)
    adopted(after)
    nothing_lost(after)
    equal(epochs_of_rank_0(out), ["0", "1", "2"], "epochs in rank 0's file")
    with open(trace, encoding="utf-8") as file:
        names = {event["name"] for event in json.load(file)}
    check("ALLREDUCE" in names, "spans of workers:", names)
    equal([name for name in os.listdir(stage.root) if name.startswith("t.")],
          ["t.json"], "parts of the timeline")


@scenario
def lines_of_a_worker_that_had_ended(stage):
    """Nobody reads the driver's stdout, so that it has not taken all of them
    when it dies."""
    n, reader, writer = 9000, *os.pipe()
    program, gate, control = gated(stage, False, False)
    program[2] = """case $HVD_HOST:$HVD_SLOT in %s:1)
        (until mv %s %s.gone 2>/dev/null; do sleep 0.02; done
        seq -f "$(head -c 200 /dev/zero | tr '\\0' x) line %%g of it" %d
        kill -9 $$) & esac; exec %s""" % (OTHER, gate, gate, n, program[2])
    run = start(stage, program=program, stdout=writer)
    os.close(writer)
    run.control = control
    run.whole(4)
    touch(gate)
    run.event("worker_exited", signal=9)
    kill_driver(run)
    os.close(reader)
    after = succeed(stage, run)
    after.event("job_resumed", term=2)
    after.says("line %d of it" % n)
    got = [int(line.split()[-3]) for line in list(after.lines)
           if line.endswith(" of it")]
    equal(got, list(range(n + 1 - len(got), n + 1)), "lines of it")
    after.whole(4)
    finishes(after)


@scenario
def second_successor(stage):
    """The first dies in the middle of it, or soon after."""
    run = started(stage)
    pids = processes(run)
    kill_driver(run)
    second = succeed(stage, run)
    second.event("job_resumed")
    kill_driver(second)
    third = succeed(stage, run)
    adopted(third, term=3)
    third.epoch(1)
    all_live(pids, "processes with a third driver")
    nothing_lost(third)


# ---- who takes over ----------------------------------------------------------

@scenario
def standby(stage):
    run = start(stage)
    run.whole(4)
    after = succeed(stage, run, "--standby", job_dir(stage))
    run.epoch(0)
    kill_driver(run)
    adopted(after)
    after.epoch(1)
    nothing_lost(after)


@scenario
def standby_that_misses_files(stage):
    """The discovery script and the job's directory are away: the hosts stay. And
    where its journal goes there is a directory at first: it tries again."""
    run = started(stage)
    after = succeed(stage, run, "--standby", job_dir(stage))
    in_the_way = os.path.join(job_dir(stage), "journal.2.new")
    os.mkdir(in_the_way)
    os.rename(run.script, run.script + ".away")
    kill_driver(run)
    after.says("Is a directory -> tried again each second")
    os.rmdir(in_the_way)
    adopted(after)
    after.says("--host-discovery-script")
    os.rename(run.script + ".away", run.script)
    after.epoch(1)
    nothing_lost(after)


@scenario
def standby_is_not_needed(stage):
    run = start(stage)
    run.whole(4)
    after = succeed(stage, run, "--standby", job_dir(stage))
    finishes(run)
    equal(after.wait(PATIENCE_S), 0, "exit status of the standby")
    check("ended without this driver: finished" in after.verdict(),
          after.verdict())


@scenario
def same_command_again(stage):
    """As a service manager runs it: resumed, not refused."""
    run = started(stage)
    kill_driver(run)
    after = succeed(stage, run, command=run.command)
    after.says("goes on")
    after.allow(3)
    equal(after.wait(PATIENCE_S), 0, "exit status")


@scenario
def auto_begins_and_resumes(stage):
    run = started(stage, "--resume", "auto")
    kill_driver(run)
    after = succeed(stage, run, "--job-dir", job_dir(stage), "--resume", "auto",
                    "-np", "1", "true")
    adopted(after)
    kill_driver(after)
    everybody = processes(run)
    for pid in everybody:
        jobs.kill(pid)
    wait("the end of all", lambda: not alive(everybody))
    again = start(stage, "--resume", "auto", np=1, hosts=("localhost:1",))
    again.whole(1)  # nobody lived
    finishes(again, 1)


@scenario
def cleaned_directory(stage):
    """Old files of DIR are removed: they come back, and no other job can begin
    meanwhile."""
    run = started(stage)
    names = [os.path.join(job_dir(stage), name) for name in ("driver", "lock.1")]
    for name in names:
        os.unlink(name)
    status, _, words = stage.command("--job-dir", job_dir(stage), "-np", "1",
                                     "true")
    equal(status, 2, "exit status of a second job")
    wait("the files", lambda: all(os.path.exists(name) for name in names))
    kill_driver(run)
    after = succeed(stage, run)
    adopted(after)
    nothing_lost(after)


@scenario
def hung_driver_that_wakes_behind_the_end(stage):
    run = started(stage, timeout_s=PATIENT_S)
    os.kill(run.process.pid, signal.SIGSTOP)
    after = succeed(stage, run, "--resume", job_dir(stage), "--take-over")
    adopted(after)
    finishes(after)
    lines = len(run.seen(None))
    shutil.rmtree(job_dir(stage))
    os.kill(run.process.pid, signal.SIGCONT)
    equal(run.wait(PATIENCE_S), 3, "exit status of the older driver")
    check("this job has ended without it" in run.verdict(), run.verdict())
    equal(len(run.seen(None)), lines, "events")


def loser(runs):
    """Which of two has ended, as it was not first."""
    wait("a refusal", lambda: any(run.process.poll() is not None
                                  for run in runs))
    lost = [run for run in runs if run.process.poll() is not None]
    equal(len(lost), 1, "drivers that were refused")
    return lost[0]


@scenario
def two_resumes_at_once(stage):
    run = started(stage)
    kill_driver(run)
    both = [succeed(stage, run), succeed(stage, run)]
    lost = loser(both)
    equal(lost.wait(PATIENCE_S), 2, "its exit status")
    check("another driver takes this job over" in lost.verdict() or
          "lives, process" in lost.verdict(), lost.verdict())
    both.remove(lost)
    adopted(both[0])
    nothing_lost(both[0])


@scenario
def standbys_and_a_resume(stage):
    """One of the three leads; a standby that does not stands by again."""
    run = started(stage)
    waiting = [succeed(stage, run, "--standby", job_dir(stage))
               for _ in range(2)]
    kill_driver(run)
    by_hand = subprocess.Popen(
        [stage.driver, "--resume", job_dir(stage)], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **dict([run.marker.split("=", 1)])})
    try:
        run.allow(3)
        check(by_hand.wait(PATIENCE_S) in (0, 2), by_hand.returncode)
        for one in waiting:
            equal(one.wait(PATIENCE_S), 0, "exit status of a standby")
    finally:
        by_hand.kill()
        by_hand.wait()


@scenario
def driver_that_hangs_is_replaced(stage):
    """... and, when it goes on, ends without touching anybody."""
    run = started(stage)
    pids = processes(run)
    run.process.send_signal(signal.SIGSTOP)
    refused = stage.command("--resume", job_dir(stage))
    equal(refused[0], 2, "exit status of --resume beside a living driver")
    check("lives, process %d" % run.process.pid in refused[2], refused[2])
    after = succeed(stage, run, "--resume", job_dir(stage), "--take-over")
    adopted(after)
    before = sorted(os.listdir(job_dir(stage)))
    run.process.send_signal(signal.SIGCONT)
    equal(run.process.wait(PATIENCE_S), 3, "exit status of the old driver")
    wait("its sentence", lambda: "term 2 (pid %d) has taken over this job"
         % after.process.pid in run.verdict())
    equal(sorted(os.listdir(job_dir(stage))), before, "files")
    after.epoch(1)
    all_live(pids, "processes after the old driver has ended")
    nothing_lost(after)


@scenario
def old_driver_finds_its_agent_replaced(stage):
    """Its own child has died, and it has a host to staff: not any more."""
    run = started(stage)
    gone = {row["worker"] for row in run.members() if row["host"] == OTHER}
    run.process.send_signal(signal.SIGSTOP)
    after = succeed(stage, run, "--resume", job_dir(stage), "--take-over")
    adopted(after)
    jobs.kill(agents(run)[1])
    after.whole(4, without=gone)
    pids = list(after.pids().values())
    n_agents = len(run.seen("agent_started"))
    run.process.send_signal(signal.SIGCONT)
    equal(run.process.wait(PATIENCE_S), 3, "exit status of the old driver")
    equal(len(run.seen("agent_started")), n_agents, "agents it has started")
    after.epoch(1)
    all_live(pids, "workers of the new one")
    finishes(after)


def freezing(stage):
    """(command to start a driver by, file that makes it stop in the middle of a
    turn); both None where it cannot be done."""
    if SLOW > 1:
        stage.note("skipped: a sanitizer has to be loaded first")
        return None, None
    switch = os.path.join(stage.root, "freeze")
    library = os.path.join(stage.build, "tests/integration/freeze.so")
    return ["env", "LD_PRELOAD=" + library, "FREEZE=" + switch], switch


def is_stopped(process):
    with open("/proc/%d/stat" % process.pid, encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


@scenario
def driver_that_hangs_in_a_turn_is_replaced(stage):
    """Its discovery script, which has taken its time, tells of another host in
    the rest of that turn: it starts no agent there any more."""
    under, switch = freezing(stage)
    if not under:
        return
    run = started(stage, under=under, timeout_s=PATIENT_S)
    asked, go = (os.path.join(stage.root, name) for name in ("asked", "go"))
    run.set_script("touch %s; until [ -e %s ]; do sleep 0.02; done; "
                   "exec cat %s/hosts" % (asked, go, run.directory))
    wait("discovery", lambda: os.path.exists(asked))
    touch(switch)
    wait("a turn", lambda: is_stopped(run.process))
    after = succeed(stage, run, "--resume", job_dir(stage), "--take-over")
    adopted(after)
    run.set_hosts("localhost:2", "127.0.0.2:2", THIRD + ":1")
    touch(go)
    after.event("agent_started", host=THIRD)
    after.whole(5)
    pids = processes(after)
    n_agents = len(run.seen("agent_started"))
    run.process.send_signal(signal.SIGCONT)
    equal(run.process.wait(PATIENCE_S), 3, "exit status of the old driver")
    equal(len(run.seen("agent_started")), n_agents, "agents it has started")
    equal(run.seen("host_added", host=THIRD), [], "what it says of the host")
    all_live(pids, "processes")
    finishes(after, 5)


@scenario
def driver_that_lives_is_replaced(stage):
    run = started(stage)
    pids = processes(run)
    after = succeed(stage, run, "--resume", job_dir(stage), "--take-over")
    equal(run.process.wait(PATIENCE_S), 3, "exit status of the old driver")
    adopted(after)
    all_live(pids, "processes")
    nothing_lost(after)


@scenario
def nobody_resumes(stage):
    run = started(stage, "--driver-timeout", "2")
    pids = processes(run)
    kill_driver(run)
    wait("the end of all", lambda: not alive(pids))
    run.wait(PATIENCE_S)  # what they said last has been read
    run.says("no driver has been heard of for 2 s (--driver-timeout)")


# ---- the journal -------------------------------------------------------------

def journal(stage):
    names = [name for name in os.listdir(job_dir(stage))
             if name.startswith("journal.")]
    equal(len(names), 1, "journals")
    return os.path.join(job_dir(stage), names[0])


@scenario
def damaged_tail(stage):
    run = started(stage)
    kill_driver(run)
    with open(journal(stage), "ab") as file:
        file.write(b"\x20\0\0\0torn")
    after = succeed(stage, run)
    after.says("8 bytes of the journal are damaged")
    adopted(after)
    nothing_lost(after)


@scenario
def most_of_the_journal_is_lost(stage):
    """Who lives is believed, and who is not known is adopted."""
    run = started(stage)
    kill_driver(run)
    size = os.path.getsize(journal(stage))
    os.truncate(journal(stage), size - size // 10)
    with open(journal(stage), "ab") as file:
        file.write(b"\xff")  # the cut may lie between two entries
    after = succeed(stage, run)
    after.says("are damaged")
    after.event("job_resumed")
    finishes(after)


@scenario
def agent_of_whom_nobody_knows(stage):
    """Nothing was written down of it, and it comes when all is decided: it
    ends, as its host is another's by then."""
    under, switch = stage.hanging(job_dir(stage))
    if not under:
        return
    run = start(stage, np=2, hosts=("localhost:2",), under=under)
    run.whole(2)
    run.epoch(0)
    touch(switch)
    run.set_hosts("localhost:2", "127.0.0.2:2")
    unknown = run.event("agent_started", host=OTHER)["pid"]
    run.whole(4)
    workers = [pid for pid in run.pids().values()]
    kill_driver(run)
    os.kill(unknown, signal.SIGSTOP)  # the death of its parent continues it
    os.unlink(switch)
    after = succeed(stage, run)
    after.says("has ended, as not all of it are here any more")
    os.kill(unknown, signal.SIGCONT)
    wait("the end of an agent of whom nobody knows",
         lambda: not alive([unknown]))
    after.whole(4)  # its host is there again
    finishes(after)
    equal(alive([unknown, *workers[2:]]), [], "left")


@scenario
def journal_on_a_disk_that_hangs(stage):
    """It keeps nobody waiting: neither a recovery nor the end."""
    under, switch = stage.hanging(job_dir(stage))
    if not under:
        return
    run = start(stage, under=under)
    run.whole(4)
    touch(switch)
    victim, mark = run.row(rank=2), run.mark()
    jobs.kill(victim["pid"])
    run.whole(4, mark, (victim["worker"],))
    finishes(run)
    os.unlink(switch)


@scenario
def what_cannot_be_resumed(stage):
    """One clear line each; and an ended job's directory takes another one."""
    def refused(words, *arguments):
        status, _, said = stage.command(*arguments)
        equal(status, 2, "exit status of %s" % " ".join(arguments))
        check(words in said and said.count("\n") == 1, said)

    nowhere = os.path.join(stage.root, "nowhere")
    refused("there is no such directory", "--resume", nowhere)
    os.mkdir(nowhere, 0o700)
    refused("there is no job in", "--resume", nowhere)
    refused("there is no job in", "--standby", nowhere)
    run = start(stage, np=1, hosts=("localhost:1",))
    run.whole(1)
    refused("its driver is process %d" % run.process.pid,
            "--job-dir", job_dir(stage), "-np", "1", "true")
    finishes(run, 1)
    refused("has ended: finished", "--resume", job_dir(stage))
    refused("takes --num-proc from the job", "--resume", job_dir(stage),
            "-np", "2")
    refused("takes the program from the job", "--resume", job_dir(stage),
            "true")
    refused("--take-over goes with --resume", "--take-over", "-np", "1", "true")
    again = start(stage, np=1, hosts=("localhost:1",))
    again.whole(1)
    finishes(again, 1)


@scenario
def directory_of_another(stage):
    path = os.path.join(stage.root, "open")
    os.mkdir(path)
    os.chmod(path, 0o755)
    status, _, words = stage.command("--job-dir", path, "-np", "1", "true")
    equal(status, 2, "exit status")
    check("is open to others" in words, words)
    if os.geteuid() != 0:
        return
    os.chmod(path, 0o700)
    os.chown(path, 65534, 65534)
    for option in ("--job-dir", "--resume", "--standby"):
        words = stage.command(option, path, *(
            ("-np", "1", "true") if option == "--job-dir" else ()))[2]
        check("belongs to another user" in words, words)


if __name__ == "__main__":
    sys.exit(main())
