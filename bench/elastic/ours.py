"""ours - jobs of hvd-elastic that bench/recovery disturbs."""
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "scripts"))
import disturbed  # noqa: E402
import job as jobs  # noqa: E402
import stamps  # noqa: E402

HOST = "127.0.0.%d"


def patience_s():
    """A machine may take ten seconds for a gigabyte that it never had."""
    return 30 + 60 * int(os.environ.get("RECOVERY_MEMORY", "0")) / (1 << 30)


def wait(what, condition, pause_s=0.02):
    deadline = time.monotonic() + patience_s()
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause_s)
    raise jobs.Timeout("%g s passed without %s" % (patience_s(), what))


class Run:
    """One job of recovery workers. under: a command that starts each; more:
    what else they are told."""

    def __init__(self, options, hosts, n_processes, step_us=None,
                 settings=None, under=(), more=()):
        self.directory = disturbed.new_directory()
        self.stamps = stamps.Stamps(os.path.join(self.directory, "stamps"),
                                    n_processes)
        n = sum(int(host.split(":")[1]) for host in hosts)
        program = [*under, os.path.join(options.build, "bench/recovery_worker"),
                   self.stamps.path, options.state, options.gradient,
                   step_us or options.step_us, options.commit_every, *more]
        self.job = jobs.Job(
            os.path.join(self.directory, "job"),
            ["-np", str(n), "--min-np", "2", *(settings or [
                "--max-np", str(max(n, 8)), "--slot-restarts", "32",
                "--discovery-interval", "0.1"]), *(["--job-dir", os.path.join(
                    self.directory, "kept")] if options.job_dir else [])],
            [str(word) for word in program], options.build)
        self.job.set_hosts(*hosts)

    def __enter__(self):
        self.job.start()
        return self

    def __exit__(self, kind, value, trace):
        if kind is jobs.Timeout:
            sys.stderr.write("".join(line + "\n" for line in
                                     self.job.lines[-20:]))
        self.job.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def clock_ns(self, event):
        """When an event of the log happened, by CLOCK_MONOTONIC."""
        start = self.job.seen("job_started")[0]["clock"]
        return round((start + event["t"]) * 1e9)

    def whole(self, size, n_steps=10):
        """Wait until `size` workers have done steps together; who they are."""
        return wait("a generation of %d workers" % size,
                    lambda: self._whole(size, n_steps))

    def _whole(self, size, n_steps):
        formed = self.job.formed()
        if not formed or formed["size"] != size:
            return None
        for row in formed["ranks"]:
            newest = self.stamps.newest(row["pid"], 2 * n_steps)
            if len(newest) < 2 * n_steps \
                    or newest[0][2] != formed["generation"] \
                    or newest[-1][2] != formed["generation"]:
                return None
        return formed

    def stall(self, victim, survivors):
        """Everybody waits in the allreduce that the victim does not enter, until
        set_stall(0)."""
        self.stamps.set_stall(victim)
        wait("survivors in a collective",
             lambda: self._all_wait(victim, survivors), 0.001)
        time.sleep(0.002)

    def _all_wait(self, victim, survivors):
        last = self.stamps.newest(victim)[0]
        return last[0] == stamps.STALL and all(
            (other[0], other[3]) == (stamps.BEGIN, last[3])
            for other in (self.stamps.newest(pid)[0] for pid in survivors))

    def end(self, n_steps=2000):
        """Let all finish, so many steps from now; they must succeed."""
        formed = self.job.formed()
        steps = [self.stamps.newest(row["pid"])[0][3]
                 for row in formed["ranks"]]
        self.stamps.set_stop(max(steps) + n_steps)
        status = self.job.wait(patience_s())
        if status != 0:
            raise jobs.Timeout("the job ended with status %d" % status)


class Ours(disturbed.Disturbed):
    """Of four hosts with one worker each, under these settings."""

    def __init__(self, options, settings):
        self.hosts = ["localhost", *(HOST % i for i in range(2, 5))]
        self.n_hosts = len(self.hosts)
        self.run = Run(options, self._listed(), disturbed.PROCESSES_MAX,
                       settings=["--max-np", str(disturbed.NP), *settings])
        self.watch(self.run.stamps)

    def _listed(self):
        return [host + ":1" for host in self.hosts]

    def start(self):
        self.run.job.start()

    def stop(self):
        self.run.__exit__(None, None, None)

    def ended(self):
        return self.run.job.process.poll() is not None

    def said(self):
        return self.run.job.lines[-20:]

    def add_host(self):
        self.n_hosts += 1
        self.hosts.append(HOST % self.n_hosts)
        self.run.job.set_hosts(*self._listed())

    def remove_host(self, place):
        self.hosts.remove(place)
        self.run.job.set_hosts(*self._listed())

    def place_of(self, pid):
        spawned = self.run.job.seen("worker_spawned", pid=pid)
        return spawned[0]["host"] if spawned else None

    def rank_of(self, pid):
        return next((row["rank"] for row in self.run.job.members()
                     if row["pid"] == pid), None)
