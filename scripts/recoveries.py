"""recoveries - consecutive recoveries of real jobs at random moments, and what
must hold after each.

What scripts/chaos and scripts/soak share. A lane is one Recoveries: jobs of four
workers on two hosts (localhost and 127.0.0.2), one after the other; each sees
some recoveries, then runs to its end. What happens, and when, is drawn from the
lane's seed; the moments are real time, so a seed repeats the choices, not the
interleaving. The time-outs are the product's own: silence means dead after 2 s.

Somebody dies, and the others train again without him:
  worker     a worker that is not rank 0
  root       rank 0
  two        two at once
  newcomer   a replacement that is not READY yet, right after its spawn
  join       a member right after a newcomer became READY
  formed     a member right after a generation was formed (ASSIGN, connect, sync)
  again      a member right after another was killed
  host       a member right after a host was removed
  agent      an agent; its workers go with it
  end        a member around the end of a job
Somebody is silent for ever (SIGSTOP), and counts as dead:
  stopped    a member
  mute       an agent; its workers go with it
Somebody is away for a while (SIGSTOP, SIGCONT), which costs nobody anything:
  frozen     all processes of a job, longer or shorter than the time-outs; a
             member is killed when they wake up
  absent     the driver, while a member is killed
  deaf       an agent, shorter than the time-outs, while its worker is killed
Nobody dies:
  scale      a host goes, and comes back
  blind      discovery fails, while a member is killed
  notice     a host says that it will go, and goes when it has been left, or
             before; then it is back
The driver dies, and another one takes over (--resume):
  driver     a member is killed before it or after it

Checks after each: nobody hung (deadlines); whoever was not hit, or on a host
that was, is still a member, the same process; in the whole again world the
LISTEN sockets of the job, /dev/shm and TMPDIR are what they were before, its
processes are the agents and the members, and each member holds the fds that the
newest one holds, which has seen nobody die; after each job: exit status 0, no
process left, and all workers that finished printed one digest. Connections are
made when a schedule or a sync first needs them: of these a worker may hold as
many as a world of this size can need, two to each peer.
"""
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import job as jobs

HOSTS = ("localhost:2", "127.0.0.2:2")
SIZE = 4
RECOVER_S = 10     # kill -> the survivors train again
WHOLE_S = 40       # -> four members again: a slot's second restart waits
SETTLE_S = 5       # -> descriptors, sockets and processes as before
END_S = 120
PER_JOB = 8        # recoveries: a slot that fails often is restarted late
STEP_US = 1000
STEPS = 10000
# a step there, on devices of host memory, or where ranks take turns on a GPU
DEVICE_SLOWER = 20 if jobs.real_gpu() else 5
CONNECTIONS_MAX = 1 + 2 * (SIZE - 1)    # the driver; per peer data and sync
LEAVE_S = 3        # no recovery starts so close to the end
SHORT_STEPS = 500
NCCL_SHM = re.compile(r"/dev/shm/nccl-.*")  # one of each generation
FREEZE_S = 4       # longer or shorter than --heartbeat-timeout
DEAF_S = 0.6       # shorter, counted from the last heartbeat


class Wrong(Exception):
    """A check failed; the message says which."""


# A /dev/shm of the job's own, so that it is not blamed for what others leave in
# theirs; where that is not allowed, everybody's.
OWN_SHM = ("unshare", "--mount", "sh", "-c",
           'mount -t tmpfs none /dev/shm && exec "$@"', "sh")


def own_shm():
    try:
        made = subprocess.run([*OWN_SHM, "true"], capture_output=True,
                              check=False)
    except FileNotFoundError:
        return ()
    return OWN_SHM if made.returncode == 0 else ()


def holdings(job):
    """What must be the same before and after a recovery."""
    return {
        "processes of the job": len(job.processes()),
        "LISTEN sockets": job.n_listening(),
        "/dev/shm": sorted(os.listdir("/proc/%d/root/dev/shm"
                                      % job.process.pid)),
        "TMPDIR": sorted(os.listdir(job.tmp)),
    }


class Recoveries:
    """say(text): details of what happens. progress(): after each recovery.
    devices: workers reduce on a GPU each, of host memory (tests/gpu/fake), by
    NCCL or, in every third job, staged."""

    size, whole_s, per_job = SIZE, WHOLE_S, PER_JOB
    resumes = "driver"  # the kind that needs a job directory
    linger_s = 0        # processes may outlive their job for so long

    def __init__(self, build, seed, say, progress, devices=False):
        self.random = random.Random(seed)
        self.build, self.say, self.progress = build, say, progress
        self.devices = devices
        self.step_us = STEP_US * (DEVICE_SLOWER if devices else 1)
        self.n_steps = STEPS // (DEVICE_SLOWER if devices else 1)
        self.directory = tempfile.mkdtemp(prefix="hvd-recoveries-")
        self.tried = collections.Counter()
        self.done = collections.Counter()
        self.took_ms = collections.defaultdict(list)
        self.n_jobs = 0
        self.kind = None
        self.hit_by_us = set()  # workers that may be gone, after this recovery
        self.job = None
        self.prefix = own_shm()

    def close(self, keep):
        """Ends what runs. keep: what it left is for a reader."""
        if self.job:
            self.job.kill()
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, n_steps, resumable=False):
        self.n_jobs += 1
        program = [os.path.join(self.build,
                                "tests/integration/chaos_worker"),
                   "--steps", str(n_steps), "--step-us", str(self.step_us),
                   *(["--device"] if self.devices else [])]
        if self.devices:
            program = jobs.on_gpu(program)
        self.job = jobs.Job(
            os.path.join(self.directory, "job%d" % self.n_jobs),
            ["-np", str(SIZE), "--min-np", "1", "--max-np", str(SIZE),
             "--slot-restarts", "32"], program, self.build)
        if resumable:
            at = self.job.command.index("--")
            self.job.command[at:at] = ["--job-dir", self.job.job_dir]
        self.job.command[:0] = self.prefix
        self.job.set_hosts(*HOSTS)
        self.job.start(**(self.fakes() if self.devices else {}))
        self.whole(0)

    def fakes(self):
        """Devices and what is wrong with them, for the next job."""
        knobs = "devices=2 by_host=%d silent=%d late_us=%d revoke=%d part_ms=%d" % (
            self.n_jobs % 3 != 0, self.random.random() < 0.5,
            self.random.choice((0, 50, 500)), self.random.random() < 0.7,
            self.random.choice((0, 500)))
        self.say("job %d: %s" % (self.n_jobs, knobs))
        return jobs.gpu_environment(self.build, knobs)

    # ---- waiting -----------------------------------------------------------

    def whole(self, since, without=()):
        """Wait until four members train, none of them in `without`."""
        return self.job.until(
            "a whole world", lambda:
            self.job.running(since, self.size, without), self.whole_s)

    def nap(self, longest_s):
        """A random moment: mostly soon."""
        time.sleep(longest_s * self.random.random() ** 2)

    def members(self, *, root=None):
        """Rows of the newest generation; root: only or without rank 0."""
        rows = self.job.members()
        if root is not None:
            rows = [row for row in rows
                    if (row["rank"] == self.job.formed()["root"]) == root]
        return rows

    def strike(self, rows):
        """kill -9 these workers; (index, their ids) for what must follow."""
        mark = self.job.mark()
        for row in rows:
            jobs.kill(self.pid(row))
            self.say("killed rank %s, worker %s, pid %d" % (
                row.get("rank", "-"), row["worker"], row["pid"]))
        return mark, self.lose(rows)

    def pid(self, row):
        return row["pid"]

    def lose(self, rows):
        """These need not be there any more; their ids."""
        victims = {row["worker"] for row in rows}
        self.hit_by_us |= victims
        return victims

    def survived(self, mark, victims):
        """The survivors train again, without the victims, in time."""
        start = time.monotonic()
        self.job.until("the survivors training again", lambda:
                       self.job.running(mark, None, victims), RECOVER_S)
        self.took_ms[self.kind].append((time.monotonic() - start) * 1e3)

    def recovered(self, mark, victims):
        self.survived(mark, victims)
        self.whole(mark, victims)

    def hit(self, rows):
        self.recovered(*self.strike(rows))

    # ---- the kinds ---------------------------------------------------------

    def worker(self):
        self.nap(0.3)
        self.hit([self.random.choice(self.members(root=False))])

    def root(self):
        self.nap(0.3)
        self.hit(self.members(root=True))

    def two(self):
        self.nap(0.3)
        self.hit(self.random.sample(self.members(), 2))

    def newcomer(self):
        """Its death must not touch the members: they stay one generation."""
        mark, victims = self.strike([self.random.choice(self.members())])
        spawned = self.job.until("a replacement being spawned", lambda:
                                 self.job.seen("worker_spawned", mark),
                                 WHOLE_S)[0]
        self.nap(0.02)
        if self.job.seen("worker_ready", mark, worker=spawned["worker"]):
            self.say("the newcomer was READY already")
        jobs.kill(spawned["pid"])
        victims.add(spawned["worker"])
        self.recovered(mark, victims)

    def join(self):
        mark, victims = self.strike([self.random.choice(self.members())])
        self.job.until("a newcomer being ready", lambda:
                       self.job.seen("worker_ready", mark), WHOLE_S)
        self.nap(0.02)
        self.hit([self.random.choice(
            [row for row in self.members() if row["worker"] not in victims])])

    def formed(self):
        mark, victims = self.strike([self.random.choice(self.members())])
        self.job.until("a generation being formed", lambda:
                       self.job.seen("generation_formed", mark), RECOVER_S)
        self.nap(0.01)
        self.hit([self.random.choice(self.members())])

    def again(self):
        first, second = self.random.sample(self.members(), 2)
        mark, victims = self.strike([first])
        self.nap(0.05)
        more = self.strike([second])[1]
        self.survived(mark, victims | more)
        self.whole(mark, victims | more)

    def host(self):
        self.lose(self.on("127.0.0.2"))
        mark = self.job.mark()
        self.job.set_hosts(HOSTS[0])
        self.job.until("the removal being seen", lambda:
                       self.job.seen("host_removed", mark), RECOVER_S)
        self.nap(0.02)
        struck, victims = self.strike([self.random.choice(
            self.on("localhost"))])
        self.survived(struck, victims)
        self.job.set_hosts(*HOSTS)
        self.whole(struck, victims)

    def agent(self):
        self.nap(0.3)
        self.lose_host(signal.SIGKILL)

    def on(self, host):
        """Members on this host."""
        return [row for row in self.members() if row["host"] == host]

    def agent_of(self, host):
        return self.job.seen("agent_started", host=host)[-1]["pid"]

    def lose_host(self, number):
        """A host's agent gets this signal; its workers are lost with it."""
        host = self.random.choice(HOSTS).split(":")[0]
        victims = self.lose(self.on(host))
        mark = self.job.mark()
        jobs.kill(self.agent_of(host), number)
        self.say("signal %d for the agent of %s" % (number, host))
        self.recovered(mark, victims)

    def stopped(self):
        self.nap(0.3)
        row = self.random.choice(self.members())
        mark, victims = self.job.mark(), self.lose([row])
        jobs.kill(row["pid"], signal.SIGSTOP)
        self.say("stopped rank %d, pid %d" % (row["rank"], row["pid"]))
        self.recovered(mark, victims)

    def mute(self):
        self.nap(0.3)
        self.lose_host(signal.SIGSTOP)

    def away(self, pids, longest_s, meanwhile=None):
        """These stop, and go on, in two orders; what meanwhile() returned."""
        pids = list(pids)
        self.random.shuffle(pids)
        for pid in pids:
            jobs.kill(pid, signal.SIGSTOP)
        found = meanwhile and meanwhile()
        away_s = self.random.uniform(0, longest_s)
        self.say("%d processes are away for %.2f s" % (len(pids), away_s))
        time.sleep(away_s)
        self.random.shuffle(pids)
        for pid in pids:
            jobs.kill(pid, signal.SIGCONT)
        return found

    def strike_one(self, rows):
        return self.strike([self.random.choice(rows)])

    def frozen(self):
        self.nap(0.3)
        self.away([self.job.process.pid, *self.job.processes()], FREEZE_S)
        self.nap(0.3)
        self.hit([self.random.choice(self.members())])

    def absent(self):
        self.nap(0.3)
        self.recovered(*self.away([self.job.process.pid], FREEZE_S,
                                  lambda: self.strike_one(self.members())))

    def deaf(self):
        self.nap(0.3)
        host = self.random.choice(HOSTS).split(":")[0]
        self.recovered(*self.away([self.agent_of(host)], DEAF_S,
                                  lambda: self.strike_one(self.on(host))))

    def scale(self):
        self.nap(0.3)
        mark, victims = self.job.mark(), self.lose(self.on("127.0.0.2"))
        self.job.set_hosts(HOSTS[0])
        self.survived(mark, victims)
        self.job.set_hosts(*HOSTS)
        self.whole(mark, victims)

    def notice(self):
        self.nap(0.3)
        mark, victims = self.job.mark(), self.lose(self.on("127.0.0.2"))
        agent = self.agent_of("127.0.0.2")
        jobs.kill(agent, signal.SIGTERM)
        self.say("127.0.0.2 says that it will go")
        if self.random.random() < 0.5:
            self.nap(0.02)
            jobs.kill(agent)
        self.survived(mark, victims)
        self.job.set_hosts(HOSTS[0])
        self.job.until("the removal being seen", lambda:
                       self.job.seen("host_removed", mark), RECOVER_S)
        self.job.set_hosts(*HOSTS)
        self.whole(mark, victims)

    def count_lines(self, text):
        return sum(text in line for line in self.job.errors)

    def blind(self):
        """Nothing is known of the hosts meanwhile; they are as they were."""
        failed = "discovery failed"
        before = self.count_lines(failed)
        self.job.set_script(self.random.choice(("exit 3", "echo a b c")))
        self.job.until("discovery failing", lambda:
                       self.count_lines(failed) > before, RECOVER_S)
        self.hit([self.random.choice(self.members())])
        self.job.show_hosts()

    def resume(self):
        """Where the job's own /dev/shm is."""
        mark = self.job.mark()
        inside = self.agent_of("localhost")
        self.job.resume(("nsenter", "--mount=/proc/%d/ns/mnt" % inside)
                        if self.prefix else ())
        self.job.until("another driver taking over", lambda:
                       self.job.seen("job_resumed", mark), RECOVER_S)

    def driver(self):
        self.nap(0.3)
        before = self.random.random() < 0.5
        jobs.kill(self.job.process.pid)
        self.nap(FREEZE_S)
        struck = self.strike_one(self.members()) if before else None
        self.nap(FREEZE_S)
        self.resume()
        self.nap(0.3)
        self.recovered(*struck or self.strike_one(self.members()))

    KINDS = ("worker", "root", "two", "newcomer", "join", "formed", "again",
             "host", "agent", "stopped", "mute", "frozen", "absent", "deaf",
             "scale", "blind", "notice", "driver")

    # ---- checks ------------------------------------------------------------

    def recover(self, kind):
        self.kind, self.hit_by_us = kind, set()
        self.tried[kind] += 1
        before = self.holdings()
        members = {row["worker"] for row in self.members()}
        getattr(self, kind)()
        self.settled(before)
        lost = members - self.hit_by_us \
            - {row["worker"] for row in self.members()}
        if lost:
            raise Wrong("workers were lost that nobody had hit: %s"
                        % sorted(lost))
        self.done[kind] += 1

    def holdings(self):
        found = holdings(self.job)
        # as it begins, the discovery script may be running
        found["processes of the job"] = len(HOSTS) + SIZE
        return found

    def settled(self, before):
        start = time.monotonic()
        first = None
        while True:
            wrong = "; ".join(self.differences(before))
            if not wrong:
                if first:
                    self.say("settled after %.1f s: %s" % (
                        time.monotonic() - start, first))
                return
            first = first or wrong
            # the driver outlives its job's processes by some moments
            if self.job.seen("job_finished"):
                raise jobs.Timeout("the job ended before it was settled; "
                                   "at first: %s" % first)
            if time.monotonic() > start + SETTLE_S:
                raise Wrong("%s; at first: %s" % (wrong, first))
            time.sleep(0.05)

    def differences(self, before):
        after = holdings(self.job)
        if self.devices:  # NCCL's are its own: a death while it meets leaves one
            after["LISTEN sockets"] = before["LISTEN sockets"]
        wrong = ["%s: %s, not %s" % (name, after[name], before[name])
                 for name in before if before[name] != after[name]]
        members = sorted(self.job.members(), key=lambda row: row["worker"])
        held = [holds(row["pid"]) for row in members]
        for row, own in zip(members, held):
            if own is None or held[-1] is None:
                continue
            who = "pid %d (rank %d)" % (row["pid"], row["rank"])
            if own["connection"] > CONNECTIONS_MAX and not self.devices:
                wrong.append("%s: %d connections" % (who, own["connection"]))
            wrong += ["%s: %s: %d, the newest member %d" % (
                who, kind, own[kind], held[-1][kind])
                for kind in set(own) | set(held[-1])
                if kind != "connection" and own[kind] != held[-1][kind]
                and not (self.devices and kind == "socket")]
        return wrong

    def finish(self, n_digests=None):
        """The job ends by itself: well, whole, leaving nothing."""
        job = self.job
        status = job.wait(END_S)
        if status != 0 and not self.spoiled():
            raise Wrong("the job ended with status %d" % status)
        found = job.digests()
        if len({digest[0] for digest in found}) != 1 \
                or not (n_digests or self.size) <= len(found) <= self.size:
            raise Wrong("digests of the workers that finished: %s" % found)
        left = self.left_behind()
        if left:
            raise Wrong("processes left behind: %s" % left)
        if os.listdir(job.tmp):
            raise Wrong("left in TMPDIR: %s" % os.listdir(job.tmp))
        shutil.rmtree(job.directory)

    def left_behind(self):
        """Processes of the job that are there when they may no longer be."""
        until = time.monotonic() + self.linger_s
        while self.job.orphans() and time.monotonic() < until:
            time.sleep(0.2)
        return [jobs.describe(pid) for pid in self.job.orphans()]

    def spoiled(self):
        """Has it failed only because a kill came when all had finished?"""
        ends = self.job.seen("job_finished", status=1)
        return bool(self.job.seen("released") and ends and re.search(
            "had finished, but then (was killed by signal 9 .SIGKILL.|died with its "
            "agent)$", ends[0]["reason"]))

    # ---- jobs --------------------------------------------------------------

    def long_job(self, kinds):
        """Play kinds while the job lasts; those that were not played."""
        self.start(self.n_steps, self.resumes in kinds)
        # A step takes step_us at least: until then nobody can be at its end.
        last = time.monotonic() + self.n_steps * self.step_us / 1e6 - LEAVE_S
        kinds = list(kinds)
        while kinds and time.monotonic() < last:
            self.say("%s ..." % kinds[0])
            try:
                self.recover(kinds[0])
            except jobs.Timeout as ended:
                if not self.job.seen("released"):
                    raise
                self.say("not counted: %s" % ended)
                self.tried[kinds[0]] -= 1
                self.finish(1)  # not whole: a slot that failed often waits
                return kinds
            kinds.pop(0)
            self.progress()
        self.finish()
        return kinds

    def short_job(self, at):
        """Kill a member at this part of a job's life; its duration in s."""
        self.start(SHORT_STEPS // (DEVICE_SLOWER if self.devices else 1))
        start = time.monotonic()
        if at is None:
            self.finish()
            return time.monotonic() - start
        time.sleep(max(0, at * self.short_s))
        row = self.random.choice(self.members())
        hit = jobs.kill(row["pid"])
        # who is killed between its digest and its end has printed it
        self.finish(SIZE - 1)
        if hit:
            self.tried["end"] += 1
            self.done["end"] += 1
            self.progress()
        return hit

    def end_jobs(self, n):
        self.short_s = self.short_job(None)
        self.say("a short job trains for %.2f s" % self.short_s)
        misses = 0
        while n:
            if self.short_job(self.random.uniform(0.7, 1.02)):
                n -= 1
            else:
                misses += 1
                if misses % 10 == 0:  # the machine may do less by now
                    self.short_s = self.short_job(None)
                if misses > 100:
                    raise Wrong("100 kills came after the end of the job")

    def report(self):
        """What a failed check leaves for a reader."""
        job = self.job
        return "\n".join([
            "---- the last events and lines of job %d (%s)" % (
                self.n_jobs, job.directory),
            *map(str, job.events[-25:]), *job.lines[-15:]])


def holds(pid):
    """Counter of the kinds of a process's fds; None when it is gone."""
    fds = jobs.fds_of(pid)
    if fds is None:
        return None
    connected = jobs.connections()
    return collections.Counter(
        "connection" if target[8:-1] in connected
        else NCCL_SHM.sub("NCCL's memory", target.partition(":[")[0])
        for target in fds.values())
