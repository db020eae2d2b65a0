"""stage - where scenarios on hosts play: tests/integration's harness, with ssh.

    @scenario
    def host_is_cut(stage):
        run = stage.job(hosts=3)          3 hosts of one worker each train
        stage.cluster.cut(2)
        ...

    main()

A scenario gets a cluster of its own, so several play beside each other; they
mostly wait. The driver runs on the driver's host, agents start by ssh, with the
product's own timeouts unless the scenario says otherwise. After each scenario
no process is left on a host that is on, no file in its TMPDIR, and nothing of
the cluster.

Without root, sshd or the like it is one line: skipped, and why.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "../integration")]
import apart  # noqa: E402
import harness  # noqa: E402
import hosts as clusters  # noqa: E402
from harness import check, equal  # noqa: E402

N_BESIDE = 6   # scenarios that wait beside each other
STEP_US = 4000
MASK = (1 << 64) - 1
FACTOR = 0x9e3779b97f4a7c15
N_WEIGHTS = 256


def digest(steps, epochs):
    """What trainer says after these, none of them lost or made twice."""
    weights = [0] * N_WEIGHTS
    for step in range(1, steps + 1):
        weights = [((w ^ (step + i)) * FACTOR) & MASK
                   for i, w in enumerate(weights)]
    d = steps ^ epochs << 32
    for w in weights:
        d = ((d ^ w) * FACTOR) & MASK
    return "%016x" % d


class Run(harness.Run):
    """A job whose driver is on the driver's host, or on `host`."""

    def __init__(self, stage, options, program, discovery,
                 host=clusters.DRIVER):
        super().__init__(stage, options, program, discovery)
        self.cluster = stage.cluster
        self.host = host
        # the product's own, or what the options say
        at = self.command.index("--heartbeat-timeout")
        del self.command[at:at + 2]

    def start(self, **more):
        self.command[:0] = self.cluster.enter(self.host)
        super().start(**more)

    def orphans(self):
        """On all hosts; but what sshd has for a client is sshd's, which may
        not know that the client is gone."""
        return [pid for i in range(len(self.cluster.hosts))
                for pid in self.cluster.processes(i)
                if not clusters.command_of(pid).startswith("sshd:")]

    def pid(self, row):
        """Ours, of what has this pid on its host; None: it is gone."""
        return self.cluster.pid(number(row["host"]), row["pid"])

    def pids(self):
        return {row["rank"]: self.pid(row) for row in self.members()}

    def hosts_of(self):
        """Names of the newest generation's hosts."""
        return sorted({row["host"] for row in self.members()})

    def finish(self, size=None):
        """Let the training end; nobody lost a step or made it twice. size: so
        many finish; None: whoever is there."""
        self.epoch(0)
        self.ends()
        self.agrees(size or max(1, len(self.digests())))
        got, steps, _ = self.digests()[0]
        equal(got, digest(steps, 1), "digest after %d steps" % steps)

    def within(self, seconds, since, event):
        """This event came so soon after the moment `since` (monotonic)."""
        took = event["t"] + self.zero() - since
        check(took <= seconds, "%s only after %.2f s, not %.2f" % (
            event["event"], took, seconds))
        return took

    def zero(self):
        return self.seen("job_started")[0]["clock"]


def number(host):
    """Of a host by its name or address."""
    found = re.fullmatch(r"host(\d+)|10\.77\.\d\.(\d+)|fd77:\d::(\d+)", host)
    n = int(next(word for word in found.groups() if word)) if found else 0
    return 0 if n == clusters.DRIVER_NUMBER else n


class Stage(harness.Stage):
    def __init__(self, build):
        super().__init__(build)
        self.cluster = None

    def up(self, n, **more):
        """Hosts; see hosts.Cluster."""
        self.cluster = clusters.Cluster(
            os.path.join(self.root, "cluster"), n,
            relay=os.path.join(self.build, "tests/cluster/relay"), **more)
        return self.cluster

    def ssh_options(self):
        return ["--launcher", "ssh", "--ssh-identity-file",
                self.cluster.identity]

    def quick_ssh(self):
        """For --ssh-command: gives up connecting after 2 s."""
        return self.file("ssh", "#!/bin/sh\n"
                         "exec ssh -o ConnectTimeout=2 \"$@\"\n")

    def job(self, hosts, slots=1, options=(), program=None, names=None,
            discovery=False, whole=True, **more):
        """A job of trainer on hosts 1.. of a cluster that is up, or comes up
        now. names: what its hosts are called instead; discovery: a script
        tells them, else -H."""
        if not self.cluster:
            self.up(hosts)
        names = names or ["host%d" % i for i in range(1, hosts + 1)]
        listed = ["%s:%d" % (name if ":" not in name else "[%s]" % name, slots)
                  for name in names]
        n = hosts * slots
        options = ["-np", str(n), "--min-np", "1", *self.ssh_options(),
                   *(["-H", ",".join(listed)] if not discovery else []),
                   *options]
        run = self.launch(options, program or (
            "--epochs", "1", "--step-us", str(STEP_US)),
            listed if discovery else None, **more)
        if whole:
            run.whole(n)
        return run

    def launch(self, options, program, listed=None, **more):
        run = Run(self, options, program, listed is not None)
        self.runs.append(run)
        if listed is not None:
            run.set_hosts(*listed)
        run.start(**more)
        return run

    def settle(self):
        super().settle()
        for host in self.cluster.hosts if self.cluster else ():
            equal(os.listdir(os.path.join(host.directory, "tmp")), [],
                  "files left in TMPDIR of " + host.name)
        if self.cluster:
            self.cluster.down()

    def report(self):
        yield from super().report()
        for host in (self.cluster.hosts if self.cluster and self.cluster.switch
                     else ()):
            for line in self.cluster.left(host.number):
                yield "  left: " + line

    def close(self):
        for run in self.runs:
            if run.process and run.process.poll() is None:
                run.process.kill()
                run.process.wait()
        if self.cluster:
            self.cluster.down(check=False)
        super().close()


def main(n_beside=N_BESIDE):
    why = apart.missing()
    if why:
        print("1..0 # SKIP " + why)
        return 0
    return apart.run(lambda: harness.main(Stage, n_beside))
