#!/usr/bin/env -S python3 -B
"""recoveries_hosts - consecutive recoveries of a job on several hosts: networks
that fail in ways that no process sees, a disk that is full, a driver that dies.

  scripts/recoveries_hosts.py --build DIR [--seed S] [--say]

A lane of scripts/soak, which reads a line of JSON for each recovery from stdout:
{"kind", "ms"}, {"failure"}, or {"job"}. It goes on until it is ended. Hosts are
namespaces with sshd (tests/cluster/hosts.py); needs root. Three hosts with a
worker each, tensors of 16 KB; the driver has a host of its own.

  dead       all established connections die, and new ones pass
  cable      the driver's host is cut off for 5 s
  switch     all hosts are cut off from each other, and from the driver
  pair       two hosts are cut off from each other
  mtu        packets of more than 1,400 bytes are lost between two hosts, whose
             MTU is 1,500
  boot       a host loses its power, and boots some time later
  full       the disk of the event log is full while a worker is killed
  successor  the driver is killed, and another one takes over (--resume)

Checks after each, in the time that is allowed: whoever was not hit is still a
member; three members train; the processes of the job are an agent and a worker
on each host. After dead, cable, switch and successor nobody may be lost, and a
worker that is killed then is replaced. After each job as in recoveries.py.
"""
import argparse
import json
import os
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "cluster"),
                os.path.join(ROOT, "scripts")]
import apart  # noqa: E402
import hosts as clusters  # noqa: E402
import job as jobs  # noqa: E402
import recoveries  # noqa: E402
from recoveries import Recoveries, Wrong  # noqa: E402

N_HOSTS = 3
CUT_S = 5         # longer than --heartbeat-timeout
NOTICE_S = 12     # a fault of the network -> the others train
BOOT_S = (3, 25)  # without power


class HostRecoveries(Recoveries):
    """Recoveries of jobs on hosts; say, progress: see there."""

    size, whole_s, per_job = N_HOSTS, 75, 4
    resumes = "successor"
    # the ssh of a driver that was killed, if its connection had died before:
    # three times ServerAliveInterval, and one that is under way
    linger_s = 60
    KINDS = ("dead", "cable", "switch", "pair", "mtu", "boot", "full",
             "successor")

    def __init__(self, build, seed, say, progress):
        super().__init__(build, seed, say, progress)
        self.prefix = ()
        self.step_us, self.n_steps = 5000, 12000
        self.cluster = None

    def close(self, keep):
        super().close(keep)
        if self.cluster:
            self.cluster.down(check=False)

    def start(self, n_steps, resumable=False):
        self.n_jobs += 1
        directory = os.path.join(self.directory, "job%d" % self.n_jobs)
        if self.cluster:
            self.cluster.down()
        self.cluster = clusters.Cluster(directory + ".cluster", N_HOSTS)
        self.job = jobs.Job(
            directory,
            ["-np", str(N_HOSTS), "--min-np", "1", "--max-np", str(N_HOSTS),
             "--slot-restarts", "32", "--launcher", "ssh",
             "--ssh-identity-file", self.cluster.identity,
             *(["--job-dir", os.path.join(directory, "job")] if resumable
               else [])],
            [os.path.join(self.build, "tests/integration/chaos_worker"),
             "--steps", str(n_steps), "--step-us", str(self.step_us),
             "--large"], self.build)
        self.put_log_on_a_disk_of_its_own()
        self.job.command[:0] = self.cluster.enter(clusters.DRIVER)
        self.job.set_hosts(*("host%d:1" % i for i in range(1, N_HOSTS + 1)))
        # each two hosts exchange tensors
        self.job.start(HVD_ALGORITHM="ring")
        self.whole(0)

    def put_log_on_a_disk_of_its_own(self):
        """It is mounted on the driver's host; others see it by /proc."""
        self.disk = os.path.join(self.job.directory, "disk")
        os.mkdir(self.disk)
        self.run_on_driver("mount", "-t", "tmpfs", "-o", "size=512k", "disk",
                           self.disk)
        path = os.path.join(self.disk, "events.jsonl")
        self.job.command[self.job.command.index(self.job.event_log)] = path
        self.job.event_log = "/proc/%d/root%s" % (
            self.cluster.hosts[clusters.DRIVER].init, path)

    def run_on_driver(self, *command):
        return self.cluster.run(clusters.DRIVER, command)

    # ---- what the base asks ------------------------------------------------

    def pid(self, row):
        return self.cluster.pid(number(row["host"]), row["pid"])

    def holdings(self):
        return None

    def differences(self, _before):
        """An agent and a worker on each host; sshd's are not counted."""
        found = {i: self.programs(i) for i in range(1, N_HOSTS + 1)}
        return ["host%d runs %s" % (i, names) for i, names in found.items()
                if names != ["chaos_worker", "hvd-agent"]]

    def programs(self, i):
        words = [clusters.command_of(pid) for pid in self.cluster.processes(i)]
        return sorted(os.path.basename(word.split()[0]) for word in words
                      if word and not word.startswith("sshd:"))

    def long_job(self, kinds):
        """A successor writes another log: `full` comes before it."""
        return super().long_job(sorted(kinds, key=self.resumes.__eq__))

    # ---- the kinds ---------------------------------------------------------

    def one_is_killed(self):
        """Nobody was lost, and the job does what it did before."""
        self.hit([self.random.choice(self.members())])

    def trains(self, mark, size):
        """So many train in a generation formed since; how long that took."""
        start = time.monotonic()
        self.job.until("%d members that train" % size, lambda:
                       self.job.running(mark, size), NOTICE_S)
        self.took_ms[self.kind].append((time.monotonic() - start) * 1e3)

    def nobody_is_lost(self, mark):
        lost = self.job.seen("worker_lost", mark) \
            + self.job.seen("agent_lost", mark)
        if lost:
            raise Wrong("lost: %s" % lost)

    def dead(self):
        self.nap(1)
        mark = self.job.mark()
        self.cluster.forget()
        self.trains(mark, N_HOSTS)
        self.nobody_is_lost(mark)
        self.one_is_killed()

    def away(self, hosts, seconds):
        mark = self.job.mark()
        for i in hosts:
            self.cluster.cut(i)
        time.sleep(seconds)
        for i in hosts:
            self.cluster.heal(i)
        self.nap(3)
        self.nobody_is_lost(mark)
        self.one_is_killed()

    def cable(self):
        self.nap(1)
        self.away([clusters.DRIVER], CUT_S)

    def switch(self):
        self.nap(1)
        self.away(range(N_HOSTS + 1), self.random.uniform(1, CUT_S + 2))

    def between_two(self, hit):
        """One of the two goes, whichever, and comes back."""
        i, j = self.random.sample(range(1, N_HOSTS + 1), 2)
        self.lose(self.on("host%d" % i) + self.on("host%d" % j))
        mark = self.job.mark()
        hit(i, j)
        self.trains(mark, N_HOSTS - 1)
        gone = {e["host"] for e in self.job.seen("worker_lost", mark)}
        if len(gone) != 1 or not gone <= {"host%d" % i, "host%d" % j}:
            raise Wrong("host%d and host%d lose each other: %s is removed"
                        % (i, j, sorted(gone)))
        mark = self.job.mark()
        for host in (i, j):
            self.cluster.heal(host)
        self.whole(mark)

    def pair(self):
        self.nap(1)
        self.between_two(self.cluster.part)

    def mtu(self):
        self.nap(1)
        self.between_two(self.cluster.narrow)
        if not any("MTU" in e["reason"] for e in self.job.seen("host_apart")):
            raise Wrong("nobody says MTU: %s" % self.job.seen("host_apart"))

    def boot(self):
        i = self.random.randint(1, N_HOSTS)
        mark, victims = self.job.mark(), self.lose(self.on("host%d" % i))
        self.cluster.power_off(i)
        self.survived(mark, victims)
        time.sleep(self.random.uniform(*BOOT_S))
        self.cluster.power_on(i)
        self.whole(mark, victims)

    def full(self):
        self.run_on_driver("sh", "-c", "cat /dev/zero >%s/fill" % self.disk)
        mark, victims = self.strike([self.random.choice(self.members())])
        time.sleep(self.random.uniform(0, 4))
        self.run_on_driver("rm", os.path.join(self.disk, "fill"))
        self.recovered(mark, victims)
        if not self.job.seen("worker_lost", mark, worker=min(victims)):
            raise Wrong("the log does not have the loss of worker %s"
                        % victims)

    def successor(self):
        self.nap(1)
        mark = self.job.mark()
        jobs.kill(self.job.process.pid)
        self.nap(4)
        self.job.resume(self.cluster.enter(clusters.DRIVER))
        self.job.until("another driver taking over", lambda:
                       self.job.seen("job_resumed", mark),
                       recoveries.RECOVER_S)
        self.nap(1)
        self.nobody_is_lost(mark)
        self.one_is_killed()


def number(host):
    return int(host.replace("host", ""))


class Lane:
    """Jobs one after the other; each recovery is a line."""

    def __init__(self, options):
        self.plays = HostRecoveries(options.build, options.seed, (
            lambda text: print(text, file=sys.stderr, flush=True))
            if options.say else lambda text: None, self.told)

    def run(self):
        todo = []
        while True:
            todo += self.plays.random.sample(self.plays.KINDS,
                                             len(self.plays.KINDS))
            while len(todo) >= self.plays.per_job:
                n = self.plays.per_job
                todo = self.job(todo[:n]) + todo[n:]

    def job(self, kinds):
        """Those that it did not come to."""
        tell(job=self.plays.n_jobs + 1)
        try:
            return self.plays.long_job(kinds)
        except (Wrong, jobs.Timeout, clusters.Broken, OSError) as found:
            tell(kind=self.plays.kind, failure="%s, job %d: %s\n%s" % (
                self.plays.kind, self.plays.n_jobs, found,
                self.plays.report()))
            self.plays.job.kill()
            return []

    def told(self):
        kind = self.plays.kind
        tell(kind=kind, ms=(self.plays.took_ms[kind] or [None])[-1])


def tell(**words):
    print(json.dumps(words), flush=True)


def main():
    parser = argparse.ArgumentParser(description="a lane of scripts/soak")
    parser.add_argument("--build", type=os.path.abspath, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--say", action="store_true")
    options = parser.parse_args()
    why = apart.missing()
    if why:
        print("no hosts: " + why, file=sys.stderr)
        return 2
    return apart.run(lambda: Lane(options).run())


if __name__ == "__main__":
    sys.exit(main())
