"""job - start hvd-elastic on a changing list of hosts and follow what it does.

What scripts/demo, scripts/chaos and tests/integration share. A Job is one driver
with a directory of its own (hosts, event log, TMPDIR); threads follow its event
log and its output, and a caller waits for events with a deadline. /proc tells
what its processes hold. Not a library for users: the event log is.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POLL_S = 0.005
LAST_WORDS_S = 2


class Timeout(Exception):
    """What was waited for did not happen; the message says what it was."""


# ---- devices ----------------------------------------------------------------

def real_gpu():
    """Are jobs on devices to use this machine's? scripts/gpu-check says so."""
    return "HVD_TEST_GPU" in os.environ


def gpu_environment(build, knobs, **more):
    """Of a job on devices: a driver and a NCCL of host memory, with what is to be
    wrong with them; or those of this machine, with nothing."""
    return {} if real_gpu() else {
        "LD_LIBRARY_PATH": os.path.join(build, "tests/gpu/fake"),
        "FAKE_GPU": knobs, **more}


def on_gpu(program):
    """... what is started: ranks share a GPU of this machine."""
    share = [os.path.join(ROOT, "scripts", "on-one-gpu")]
    return [*(share if real_gpu() else []), *program]


# ---- the job ----------------------------------------------------------------

class Job:
    def __init__(self, directory, options, program, build=None, on_line=None,
                 discovery=True):
        """discovery: a script that shows what set_hosts() was told; without,
        the options say which hosts there are."""
        build = build or os.path.join(ROOT, "build")
        self.directory = directory
        self.events = []
        self.lines = []    # of stdout and stderr
        self.errors = []   # of stderr
        self.on_line = on_line
        self.hosts = []
        self.changed = threading.Condition()
        # the whole path: jobs of other directories are not ours to end
        self.marker = "JOB_MARK=" + os.path.abspath(directory)
        self.tmp = os.path.join(directory, "tmp")
        self.event_log = os.path.join(directory, "events.jsonl")
        self.job_dir = os.path.join(directory, "job")
        self.n_drivers = 1
        self.script = os.path.join(directory, "hosts.sh")
        os.makedirs(self.tmp)
        self.show_hosts()
        self.command = [
            os.path.join(build, "src/elastic/driver/hvd-elastic"),
            *(["--host-discovery-script", self.script] if discovery else []),
            "--event-log", self.event_log, *options, "--", *program]
        self.process = None

    # ---- life --------------------------------------------------------------

    def set_script(self, text):
        """What the discovery script does from its next run on."""
        with open(self.script + ".new", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n%s\n" % text)
        os.chmod(self.script + ".new", 0o755)
        os.rename(self.script + ".new", self.script)

    def show_hosts(self):
        """The discovery script shows what set_hosts() was told."""
        self.set_script("exec cat %s/hosts" % self.directory)

    def set_hosts(self, *hosts):
        """What discovery sees from now on, each "name:slots"."""
        path = os.path.join(self.directory, "hosts")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write("".join(host + "\n" for host in hosts))
        os.rename(path + ".new", path)
        self.hosts = list(hosts)

    def start(self, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
              **environment):
        """stdout, stderr: a descriptor that somebody else reads, or nobody."""
        name, value = self.marker.split("=", 1)
        # the directory comes from the options: what a caller has set for
        # himself must not reach a job of ours
        env = {key: item for key, item in os.environ.items()
               if not key.startswith("HVD_")}
        env.update({name: value, "TMPDIR": self.tmp}, **environment)
        self.started = time.monotonic()
        self.ended = None
        # a test that is killed leaves no job that burns the processors
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.command],
            stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=stderr, text=True, errors="replace", env=env,
            start_new_session=True)
        self.threads = [
            threading.Thread(target=self._follow_events),
            threading.Thread(target=self._follow_output,
                             args=(self.process.stdout, ())),
            threading.Thread(target=self._follow_output,
                             args=(self.process.stderr, (self.errors,)))]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def follow(self, stream):
        """Begin to read the driver's stdout, for which start() had a
        descriptor."""
        thread = threading.Thread(target=self._follow_output,
                                  args=(stream, ()), daemon=True)
        self.threads.append(thread)
        thread.start()

    def resume(self, prefix=()):
        """Another driver takes over from the one that is dead: the job has to
        have its --job-dir in job_dir. prefix: what that one is started by."""
        self.process.wait()
        self.threads[0].join(10)  # agents hold its stderr: it may not end
        self.n_drivers += 1
        self.event_log = os.path.join(self.directory, "events.%d.jsonl"
                                      % self.n_drivers)
        at = next(i for i, word in enumerate(self.command)
                  if word.endswith("/hvd-elastic"))
        self.command = [*prefix, self.command[at], "--resume", self.job_dir,
                        "--event-log", self.event_log]
        self.start()

    def wait(self, timeout_s):
        """Exit status of the driver, once all it said has been read."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Timeout("the job did not end in %g s" % timeout_s) from None
        for thread in self.threads:
            thread.join(10)
        return status

    def kill(self):
        """End what is left, whoever it belongs to by now."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.orphans():
            kill(pid)

    def _follow_output(self, stream, lists):
        for line in stream or ():
            line = line.rstrip("\n")
            with self.changed:
                for known in (self.lines, *lists):
                    known.append(line)
                self.changed.notify_all()
                if self.on_line:
                    self.on_line(line)

    def _follow_events(self):
        rest = ""
        file = None
        while True:
            ended = self.process.poll() is not None
            if file is None and os.path.exists(self.event_log):
                file = open(self.event_log, encoding="utf-8")
            text = file.read() if file else ""
            if text:
                *lines, rest = (rest + text).split("\n")
                with self.changed:
                    self.events += [json.loads(line) for line in lines]
                    self.changed.notify_all()
            elif ended:
                break
            else:
                time.sleep(POLL_S)
        if file:
            file.close()

    # ---- what has happened -------------------------------------------------

    def seen(self, event, since=0, **fields):
        """Events of one name (None: all) from index `since` on with these
        fields."""
        with self.changed:
            return [e for e in self.events[since:]
                    if event in (None, e["event"])
                    and all(e.get(k) == v for k, v in fields.items())]

    def mark(self):
        """Index for `since`: what comes after now."""
        with self.changed:
            return len(self.events)

    def until(self, what, condition, timeout_s):
        """Wait for condition() to be true; its value. Ends with the job."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while True:
                value = condition()
                if value:
                    return value
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout("%g s passed without %s" % (timeout_s, what))
                if self._all_read():
                    value = condition()
                    if value:
                        return value
                    raise Timeout("the job ended (status %d) without %s" % (
                        self.process.returncode, what))
                self.changed.wait(min(left, 0.2))

    def _all_read(self):
        """The job has ended and everything it said is here. Its output may
        never end, as others can hold it: that is not waited for long."""
        if self.process.poll() is None or self.threads[0].is_alive():
            return False
        self.ended = self.ended or time.monotonic()
        return time.monotonic() > self.ended + LAST_WORDS_S \
            or not any(thread.is_alive() for thread in self.threads)

    def formed(self):
        """The newest generation_formed, or None."""
        found = self.seen("generation_formed")
        return found[-1] if found else None

    def members(self):
        return self.formed()["ranks"]

    def running(self, since, size=None, without=()):
        """The newest generation formed since then, once each of its ranks has
        completed a collective in it; None before. `size`: that many members;
        `without`: none of these workers."""
        formed = self.seen("generation_formed", since)
        if not formed or (size and formed[-1]["size"] != size):
            return None
        formed = formed[-1]
        if any(row["worker"] in without for row in formed["ranks"]):
            return None
        first = self.seen("first_collective", since,
                          generation=formed["generation"])
        if len({e["rank"] for e in first}) < formed["size"]:
            return None
        return formed

    def digests(self):
        """(digest, steps, iterations) of each worker that finished."""
        found = []
        for line in list(self.lines):
            match = re.search(r"final digest ([0-9a-f]+)(?: steps (\d+))?"
                              r"(?: iterations-here (\d+))?", line)
            if match:
                found.append((match.group(1), int(match.group(2) or 0),
                              int(match.group(3) or 0)))
        return found

    # ---- what it holds -----------------------------------------------------

    def processes(self):
        """pids of the job, without its driver; zombies do not count."""
        return [pid for pid in self.orphans() if pid != self.process.pid]

    def orphans(self):
        """pids that carry the mark of this job, whoever their parent is."""
        return [pid for pid, _ in parents()
                if self.marker.encode() in environment_of(pid)]

    def n_listening(self):
        """Sockets in LISTEN of agents and workers. A script that the driver
        has just forked holds those of the driver for a moment."""
        inodes = set()
        for pid in self.processes():
            inodes.update(sockets_of(pid))
        inodes.difference_update(sockets_of(self.process.pid))
        return len(inodes & tcp_sockets("0A"))


# ---- /proc ------------------------------------------------------------------

def parents():
    """(pid, parent) of every process that is not a zombie."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8",
                      errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            yield int(name), int(parent)


def environment_of(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def describe(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return "%d %s" % (pid, file.read().replace(b"\0", b" ").decode(
                errors="replace"))
    except OSError:
        return str(pid)


def fds_of(pid):
    """{fd: what it is} of a process; None when it is gone."""
    found = {}
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                found[int(name)] = os.readlink("/proc/%d/fd/%s" % (pid, name))
            except OSError:
                continue
    except OSError:
        return None
    return found


def tcp_sockets(*states):
    """Inodes of TCP sockets in these states (as in /proc/net/tcp)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        found.update(row[9] for row in rows if row[3] in states)
    return found


def connections():
    """Inodes of TCP sockets that have, or had, a peer."""
    return tcp_sockets("01", "02", "03", "04", "05", "08", "09", "0B")


def sockets_of(pid):
    return [target[8:-1] for target in (fds_of(pid) or {}).values()
            if target.startswith("socket:[")]


def kill(pid, number=signal.SIGKILL):
    """Signal one process; False: it is gone."""
    if pid <= 0:
        raise ValueError("pid %d would mean a group of processes" % pid)
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
