"""test_moments - kill -9 at every moment that the protocol knows.

moment_worker ends itself at exactly the moment that its options name, once per
job. Whatever the moment: the survivors keep their processes and are members of
the last generation, the job succeeds, every worker that finishes prints the
digest of a run without faults, and only the victims died.
"""
import functools
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time

from harness import (LOCAL, OTHER, PATIENCE_S, SILENCE_S, SLOW, THIRD, check,
                     equal, main, scenario)

sys.dont_write_bytecode = True

BOTH = ("localhost:2", "127.0.0.2:2")
FIXED = ["-H", "localhost:2,127.0.0.2:2"]
STEPS = 150
LARGE = 32 << 20   # bytes of state, so that its transfer lasts
TAKE_TURNS = SLOW > 1
turns = itertools.count()


class Play:
    """One job of moment_worker, from its start to the last check."""

    def __init__(self, stage, moment, *arguments, hosts=None, np=4,
                 steps=STEPS, state_bytes=1 << 16, options=(), directory=None):
        self.stage = stage
        program = [os.path.join(stage.build,
                                "tests/integration/moment_worker"),
                   "--steps", str(steps), "--state-bytes", str(state_bytes)]
        self.digest = faultless(tuple(program))
        self.steps = steps
        options = ["-np", str(np), "--min-np", "2", *options]
        self.run = stage.start(
            options + ([] if hosts else FIXED),
            [*program, "--directory", directory or stage.root, "--moment",
             moment, *arguments], hosts=hosts)

    def first(self):
        """{worker: pid} of the members that the job began with."""
        self.run.event("generation_formed", generation=1)
        return {row["worker"]: row["pid"] for row in self.run.seen(
            "generation_formed", generation=1)[0]["ranks"]}

    def dead(self, n=1, since=0):
        """Wait for n victims of their own; their worker ids."""
        found = self.run.until(
            "%d deaths by SIGKILL" % n,
            lambda: (lambda e: len(e) >= n and e)(
                self.run.seen("worker_exited", since, signal=signal.SIGKILL)),
            PATIENCE_S)
        return {event["worker"] for event in found}

    def ends(self, n_deaths=1):
        """The job goes on to its end; who died is not asked."""
        before = self.first()
        dead = self.dead(n_deaths)
        equal(len(dead), n_deaths, "deaths")
        self.finishes(before, dead)
        return dead

    def finishes(self, before, dead=frozenset()):
        """The job ends well; `before` are its first members."""
        self.run.ends(0)
        exits = self.run.seen("worker_exited")
        equal({e["worker"] for e in exits
               if e.get("signal") == signal.SIGKILL}, dead,
              "workers that were killed")
        # a replacement that had not called yet when all was over
        terminated = {e["worker"] for e in exits
                      if e.get("signal") == signal.SIGTERM}
        ready = {e["worker"] for e in self.run.seen("worker_ready")}
        equal(terminated & ready, set(), "workers that were terminated")
        equal([e for e in exits if e.get("code")], [], "workers that failed")
        last = {row["worker"]: row["pid"] for row in self.run.members()}
        for worker, pid in before.items():
            if worker not in dead:
                equal(last.get(worker), pid, "pid of survivor %d" % worker)
        finished = self.run.digests()
        equal({digest[:2] for digest in finished}, {(self.digest, self.steps)},
              "digest and steps of all that finished")
        equal(len(finished), len(set(last) - dead), "workers that finished")


@functools.lru_cache(maxsize=None)
def faultless(program):
    """A world of one: what the state comes to without any fault."""
    with tempfile.TemporaryDirectory(prefix="hvd-test-") as directory:
        done = subprocess.run(
            [*program, "--directory", directory, "--step-us", "0"],
            timeout=PATIENCE_S, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False)
    equal(done.returncode, 0, "exit status of a run by hand: " + done.stderr)
    return done.stdout.split()[2]


def for_ranks(*ranks):
    """A scenario for each rank, named for it. A sanitizer sees the same code
    whoever dies: there the ranks take turns."""
    def wrap(function):
        chosen = [ranks[next(turns) % len(ranks)]] if TAKE_TURNS else ranks
        for rank in chosen:
            def played(stage, rank=rank):
                function(stage, rank)
            played.__name__ = "%s_rank_%d" % (function.__name__, rank)
            played.__doc__ = function.__doc__
            scenario(played)
        return function
    return wrap


# ---- while training ---------------------------------------------------------

@for_ranks(0, 2)
def computing(stage, rank):
    Play(stage, "compute", "--rank", str(rank)).ends()


@for_ranks(0, 2)
def computing_with_a_forked_child(stage, rank):
    """The child keeps what it inherited, and is ended with the worker."""
    Play(stage, "compute", "--rank", str(rank), "--with-child").ends()


@for_ranks(0, 2)
def waiting_in_a_collective(stage, rank):
    """Its peers are not in it yet, and find it dead when they come."""
    Play(stage, "collective-wait", "--rank", str(rank), "--delay-us",
         "20000").ends()


@for_ranks(0, 3)
def moving_in_a_collective(stage, rank):
    Play(stage, "collective-move", "--rank", str(rank), "--large-bytes",
         str(48 << 20)).ends()


@for_ranks(0, 1)
def before_the_copy_of_a_commit(stage, rank):
    Play(stage, "commit", "--rank", str(rank)).ends()


@for_ranks(0, 3)
def within_the_copy_of_a_commit(stage, rank):
    Play(stage, "serialize", "--rank", str(rank)).ends()


def two(stage, first, second):
    Play(stage, "compute", "--rank", str(first), "--rank",
         str(second)).ends(2)


@scenario
def two_at_once_of_one_host(stage):
    two(stage, 0, 1)


@scenario
def two_at_once_of_two_hosts(stage):
    two(stage, 1, 2)


def stop(pid):
    """One thread takes the signal and stops the others: not at once."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + PATIENCE_S
    while any(state(pid, thread) not in "Tt"
              for thread in os.listdir("/proc/%d/task" % pid)):
        check(time.monotonic() < end, "process", pid, "does not stop")
        time.sleep(0.001)


def state(pid, thread):
    with open("/proc/%d/task/%s/stat" % (pid, thread),
              encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


@for_ranks(0, 3)
def held_at_a_boundary(stage, rank):
    """One worker is stopped and does not answer HOLD; the victim waits for the
    cut when it dies."""
    play = Play(stage, "held", "--rank", str(rank), "--no-collective",
                "--step-us", "2000", "--late-host", THIRD, hosts=BOTH,
                steps=3000)
    run = play.run
    play.first()
    stopped = run.row(rank=1)["pid"]
    run.set_hosts(*BOTH, "127.0.0.3:1")
    run.event("worker_spawned", host=THIRD)
    stop(stopped)
    stage.file("go", "")  # READY of the newcomer is what HOLD follows
    play.dead()
    os.kill(stopped, signal.SIGCONT)
    play.ends()


# ---- between two generations ------------------------------------------------

@for_ranks(0, 2)
def after_ready(stage, rank):
    """READY has left or is leaving when the victim restores."""
    Play(stage, "restore", "--lead", "1", "--rank", str(rank)).ends(2)


@for_ranks(0, 2)
def after_assign_before_connecting(stage, rank):
    """The others have their ASSIGN long before the victim would."""
    Play(stage, "restore", "--lead", "1", "--rank", str(rank), "--delay-us",
         "100000").ends(2)


@for_ranks(0, 2)
def in_a_reset_callback(stage, rank):
    Play(stage, "reset", "--lead", "1", "--rank", str(rank)).ends(2)


def resets(run, generation):
    """What the members were told in their reset: (reason, size, size of the
    generation that made the snapshot) of each."""
    found = []
    for line in list(run.lines):
        words = line.partition("<stdout>:")[2].split()
        if words[:3] == ["reset", "generation", str(generation)]:
            found.append((words[4], int(words[6]), int(words[8])))
    return sorted(found)


@scenario
def resets_say_why(stage):
    """A newcomer joins; then a member dies."""
    play = Play(stage, "none", "--until", "go", hosts=("localhost:2",), np=2)
    run = play.run
    run.whole(2)
    run.set_hosts("localhost:2", "127.0.0.2:1")
    second = run.whole(3)["generation"]
    mark = run.mark()
    os.kill(run.row(host=OTHER)["pid"], signal.SIGKILL)
    third = run.event("generation_formed", mark)
    newest = max(tuple(row["state"]) for row in third["ranks"])
    committed = 3 if newest[0] == second else 2
    stage.file("go", "")
    run.ends(0)
    equal(resets(run, 1), [], "resets in the first generation")
    equal(resets(run, second), [("hosts-updated", 3, 2)] * 2 +
          [("joined", 3, 2)], "resets with a newcomer")
    equal([row for row in resets(run, third["generation"])
           if row[0] != "joined"],
          [("peer-lost", third["size"], committed)] * 2,
          "resets of the survivors")


def source_dies(stage, rank):
    """The play, and whether the victim died while it was still sending."""
    play = Play(stage, "sync-source", "--rank", str(rank), "--generation", "2",
                "--delay-us", "3000", "--until", "dead-%d" % rank, hosts=BOTH,
                state_bytes=LARGE, steps=30, directory=stage.directory())
    play.first()
    play.run.set_hosts(*BOTH, "127.0.0.3:2")
    play.dead()
    return play, not play.run.seen("state_synced", generation=2, rank=4 + rank)


@for_ranks(0, 1)
def in_a_sync_as_source(stage, rank):
    """Two newcomers, dealt to the first two sources; both keep their lives. Who
    dies comes too late where the machine has stopped for a while."""
    for _ in range(3):
        play, in_time = source_dies(stage, rank)
        dead = play.ends()
        if in_time:
            break
        stage.note("it had sent the state before it died: once more")
    check(in_time, "the victim has always sent the state before it died")
    run = play.run
    finished = {e["worker"] for e in run.seen("worker_exited", code=0)}
    spawned = {e["worker"] for e in run.seen("worker_spawned", host=THIRD)}
    check(spawned <= finished | dead, "newcomers", spawned, "of", finished)


def as_receiver(stage, moment):
    """A newcomer; the members notice nothing worse than one more reset."""
    play = Play(stage, moment, "--host", THIRD, "--until", "dead-0",
                hosts=BOTH, state_bytes=1 << 20)
    play.first()
    play.run.set_hosts(*BOTH, "127.0.0.3:1")
    play.ends()


@scenario
def in_a_sync_as_receiver_with_half_a_copy(stage):
    as_receiver(stage, "deserialize")


@scenario
def in_a_sync_as_receiver_at_its_end(stage):
    as_receiver(stage, "on-sync")


@for_ranks(0, 2)
def in_a_sync_as_a_receiver_who_is_a_member(stage, rank):
    """It missed the last commit, and dies over the one it is sent."""
    Play(stage, "deserialize", "--lead", "1", "--stale",
         str(rank if rank == 0 else rank + 1), "--rank", str(rank),
         "--generation", "2").ends(2)


# ---- at the end -------------------------------------------------------------

@for_ranks(0, 3)
def between_the_last_commit_and_done(stage, rank):
    Play(stage, "last", "--rank", str(rank)).ends()


@for_ranks(0, 3)
def between_the_last_commit_and_done_when_others_are(stage, rank):
    """Nothing is lost: the others, all DONE, are released."""
    play = Play(stage, "last", "--rank", str(rank), "--delay-us", "300000")
    play.ends()
    equal(play.run.formed()["generation"], 1, "generations")


@for_ranks(0, 3)
def while_done(stage, rank):
    """Others still train when the victim, done, dies: they all finish anew."""
    play = Play(stage, "done", "--rank", str(rank), "--delay-us", "50000")
    play.dead()
    stage.file("go", "")
    play.ends()
    check(play.run.formed()["generation"] > 1, "a second generation")


@for_ranks(0, 3)
def in_the_commit_after_train(stage, rank):
    """All commits have a collective in a callback, also the first one, before
    train: it is lost in the others' last, and the end is done again."""
    Play(stage, "last", "--rank", str(rank), "--commit-barrier").ends()


@scenario
def the_first_collective_is_told_after_the_sync(stage):
    """Not that of the first save's callback, when nobody has a state yet."""
    run = Play(stage, "none", "--commit-barrier", np=2).run
    run.ends(0)
    told = [event["event"] for event in run.events
            if event.get("rank") == 1 and event["generation"] == 1]
    check(told.index("state_synced") < told.index("first_collective"), told)


@scenario
def a_collective_in_on_sync_is_refused(stage):
    """Rank 0 has nothing to receive, and runs no such callback."""
    run = Play(stage, "none", "--sync-barrier", np=2).run
    verdict = run.ends(1)
    check("on_sync callback: hvd_barrier: in a callback of a sync" in verdict,
          verdict)


# ---- what was trained on ----------------------------------------------------

def samples(stage, commit_every):
    """Each epoch hands out each sample once, through deaths and changes of
    hosts; sampler_worker counts."""
    over = os.path.join(stage.root, "over")
    run = stage.start(
        ["-np", "4", "--min-np", "2"],
        [os.path.join(stage.build, "tests/integration/sampler_worker"),
         "-k", str(commit_every), "-f", over], hosts=BOTH)
    for turn, victims in enumerate(((0,), (2,), (1, 2), (3,), (0, 1))):
        run.whole(4 if turn % 2 == 0 else 5)
        mark = run.mark()
        rows = [run.row(rank=rank) for rank in victims]
        for row in rows:
            os.kill(row["pid"], signal.SIGKILL)
        run.whole(4 if turn % 2 == 0 else 5, mark,
                  {row["worker"] for row in rows})
        run.set_hosts(*BOTH, *(["127.0.0.3:1"] if turn % 2 == 0 else []))
    stage.file("over", "")
    run.ends(0)
    digests = run.digests()
    check(digests, "workers that finished")
    equal(len({digest[:2] for digest in digests}), 1, "digests")


@scenario
def each_sample_once_with_each_step_committed(stage):
    samples(stage, 1)


@scenario
def each_sample_once_with_rare_commits(stage):
    samples(stage, 5)


# ---- programs that do not keep to the rules ---------------------------------

@scenario
def who_computes_on_after_the_cut_goes_back(stage):
    """train returns HVD_OK after HVD_HOSTS_UPDATED, and its state is ahead."""
    play = Play(stage, "none", "--careless", "--until", "go", hosts=BOTH)
    run = play.run
    before = play.first()
    run.set_hosts(*BOTH, "127.0.0.3:1")
    run.whole(5)
    stage.file("go", "")
    play.finishes(before)


# ---- newcomers --------------------------------------------------------------

def newcomer(stage, moment, *arguments):
    """Dies before READY; the members are not interrupted for it."""
    play = Play(stage, moment, "--host", THIRD, "--until", "dead-0", *arguments,
                hosts=BOTH)
    run = play.run
    play.first()
    run.set_hosts(*BOTH, "127.0.0.3:1")
    victim = play.dead().pop()
    check(not run.seen("worker_ready", worker=victim), "it was READY")
    play.ends()


@scenario
def newcomer_before_init(stage):
    newcomer(stage, "init-before")


@scenario
def newcomer_at_once_in_init(stage):
    newcomer(stage, "init")


@scenario
def newcomer_in_the_middle_of_init(stage):
    newcomer(stage, "init", "--delay-us", "700")


@scenario
def newcomer_between_init_and_run(stage):
    newcomer(stage, "init-after")


# ---- agents -----------------------------------------------------------------

def parent(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def agent_killed(stage, host):
    """Its workers die with it; the others go on, and it comes back."""
    play = Play(stage, "none", "--until", "go", "--with-child")
    run = play.run
    play.first()
    run.whole(4)
    victims = {row["worker"] for row in run.members() if row["host"] == host}
    pids = [row["pid"] for row in run.members() if row["host"] == host]
    survivors = {row["worker"]: row["pid"] for row in run.members()
                 if row["host"] != host}
    os.kill(parent(pids[0]), signal.SIGKILL)
    run.event("agent_lost", host=host)
    stage.file("go", "")
    run.ends(0)
    last = {row["worker"]: row["pid"] for row in run.members()}
    equal({w: last.get(w) for w in survivors}, survivors, "survivors")
    check(not victims & set(last), "the dead are members")
    finished = run.digests()
    equal({digest[:2] for digest in finished}, {(play.digest, play.steps)},
          "digest and steps of all that finished")
    equal(len(finished), len(last), "workers that finished")


@scenario
def agent_of_rank_0(stage):
    agent_killed(stage, LOCAL)


@scenario
def agent_of_others(stage):
    agent_killed(stage, OTHER)


@scenario
def agent_stopped(stage):
    """Given up for its silence: it and its workers, with what they forked, are
    not left beside those who get their slots."""
    play = Play(stage, "none", "--until", "go", "--with-child",
                options=["--heartbeat-interval", "0.2", "--heartbeat-timeout",
                         "%g" % SILENCE_S])
    run = play.run
    play.first()
    run.whole(4)
    pids = [row["pid"] for row in run.members() if row["host"] == OTHER]
    agent = parent(pids[0])
    mark = run.mark()
    os.kill(agent, signal.SIGSTOP)
    run.event("agent_lost", host=OTHER)
    run.event("worker_spawned", mark, host=OTHER)
    run.until("the end of the old agent's processes",
              lambda: not [pid for pid in run.orphans()
                           if pid in (agent, *pids) or group(pid) in pids],
              PATIENCE_S)
    stage.file("go", "")
    run.ends(0)
    equal({digest[:2] for digest in run.digests()},
          {(play.digest, play.steps)}, "digest and steps")


if __name__ == "__main__":
    sys.exit(main())
