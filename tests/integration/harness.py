"""harness - scenarios of real processes, told as TAP.

A file of scenarios imports this, marks functions with @scenario and ends with
main(). Each scenario gets a Stage: it starts jobs there (scripts/job.py follows
their event log and output), waits for what they do, and asserts. When it is
over no process of its jobs may be left and their TMPDIR must be empty; that is
checked for all of them. A failure is told with the last events and lines.

Scenarios know nothing of each other, and mostly wait: HVD_TEST_JOBS of them (2)
play at the same time. One that measures the machine is @alone.

Nothing here waits for time: waits are for events, PATIENCE_S bounds them.
HVD_TEST_SLOW (a factor, for sanitizers) stretches that bound and the heartbeat
timeout.

usage: test_x.py BUILD_DIRECTORY [NAME ...]
"""
import concurrent.futures
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../scripts"))
import job as jobs  # noqa: E402

SLOW = float(os.environ.get("HVD_TEST_SLOW", "1"))
PATIENCE_S = 30 * SLOW
# Longer than any recovery that a test waits for: what only a heartbeat would
# mend must not pass unnoticed.
HEARTBEAT_S = 10 * SLOW
# ... where a scenario waits for it to pass. On a busy machine a process stands
# still for two or three seconds now and then, and nobody is to be given up for that.
SILENCE_S = 4.5
LOCAL = "localhost"
OTHER = "127.0.0.2"
THIRD = "127.0.0.3"

scenarios = []


def scenario(function):
    scenarios.append(function)
    return function


def alone(function):
    function.alone = True
    return scenario(function)


def plain(function):
    """Written above the others: this scenario is not played with a sanitizer,
    which would see no code that it does not see in another one."""
    if SLOW > 1:
        scenarios.remove(function)
    return function


playing = threading.local()


class Chances:
    """Draws as random.Random does, for each scenario from the seed and its own
    name, whatever plays beside it."""

    def __init__(self, seed):
        self.seed = seed

    def __getattr__(self, name):
        key = "%s %s" % (self.seed, playing.name)
        if key not in playing.drawn:
            playing.drawn[key] = random.Random(key)
        return getattr(playing.drawn[key], name)


class Wrong(AssertionError):
    """A check failed; the message says which."""


def check(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(item) for item in what))


def equal(got, want, what):
    check(got == want, "%s: %r instead of %r" % (what, got, want))


class Run(jobs.Job):
    """A job of trainer or any other program, and the files that lead it."""

    def __init__(self, stage, options, program, discovery):
        directory = stage.directory()
        self.control = os.path.join(directory, "control")
        os.makedirs(self.control)
        if not isinstance(program, list):
            program = [stage.trainer, *program, self.control]
        options = ["--discovery-interval", "0.05", "--heartbeat-timeout",
                   "%g" % HEARTBEAT_S, *options]
        super().__init__(directory, options, program, stage.build,
                         discovery=discovery)

    # ---- leading ------------------------------------------------------------

    def allow(self, n_epochs):
        """So many epochs of trainer may have ended."""
        path = os.path.join(self.control, "epoch")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(str(n_epochs))
        os.rename(path + ".new", path)

    def epoch(self, number):
        """Let this epoch (0, 1 ..) end; its line as a dict, said just once."""
        self.allow(number + 1)
        self.until("the end of epoch %d" % number,
                   lambda: self.epochs(number), PATIENCE_S)
        found = self.epochs(number)
        equal(len(found), 1, "lines of epoch %d" % number)
        return found[0]

    def epochs(self, number=None):
        found = []
        for line in list(self.lines):
            words = line.partition("<stdout>:")[2].split()
            if words and words[0] == "epoch":
                row = dict(zip(words[::2], words[1::2]))
                row = {key: value if key == "host" else int(value)
                       for key, value in row.items()}
                if number in (None, row["epoch"]):
                    found.append(row)
        return found

    # ---- waiting ------------------------------------------------------------

    def whole(self, size, since=0, without=()):
        """The generation of this size, once all of it trains."""
        return self.until("%d workers training" % size,
                          lambda: self.running(since, size, without),
                          PATIENCE_S)

    def event(self, name, since=0, **fields):
        return self.until(
            "%s %s" % (name, fields or ""),
            lambda: self.seen(name, since, **fields), PATIENCE_S)[0]

    def says(self, words, times=1):
        """Wait for a line with these words; the first."""
        return self.until(
            "the words %r" % words,
            lambda: (lambda found: len(found) >= times and found)(
                [line for line in list(self.lines) if words in line]),
            PATIENCE_S)[0]

    def ends(self, status=0):
        got = self.wait(PATIENCE_S)
        equal(got, status, "exit status")
        finished = self.seen("job_finished")
        if status in (0, 1):
            equal([e["status"] for e in finished], [status],
                  "status in job_finished")
        return self.verdict()

    def verdict(self):
        """The last line of stderr: what the driver says about the end."""
        return self.errors[-1] if self.errors else ""

    def agrees(self, n):
        """So many workers finished, with one state."""
        found = self.digests()
        equal(len(found), n, "workers that finished")
        equal(len({digest[0] for digest in found}), 1, "digests")

    # ---- who ----------------------------------------------------------------

    def row(self, **fields):
        """The member of the newest generation with these fields."""
        found = [row for row in self.members()
                 if all(row[key] == value for key, value in fields.items())]
        equal(len(found), 1, "members with %s" % fields)
        return found[0]

    def pids(self):
        return {row["rank"]: row["pid"] for row in self.members()}

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def nobody_left(self):
        """No process of this job, whoever its parent is by now."""
        deadline = time.monotonic() + PATIENCE_S
        while self.orphans():
            check(time.monotonic() < deadline, "processes left behind:",
                  [jobs.describe(pid) for pid in self.orphans()])
            time.sleep(jobs.POLL_S)


class Stage:
    """Where one scenario plays."""

    def __init__(self, build):
        self.build = build
        self.trainer = os.path.join(build, "tests/integration/trainer")
        self.chaos = os.path.join(build, "tests/integration/chaos_worker")
        self.driver = os.path.join(build, "src/elastic/driver/hvd-elastic")
        self.root = tempfile.mkdtemp(prefix="hvd-test-")
        self.runs = []
        self.notes = []  # told with its result

    def example(self, name, *options):
        """The command of examples/NAME, with a text to learn from."""
        return [os.path.join(self.build, "examples", name, name), *options,
                os.path.join(jobs.ROOT, "LICENSE")]

    def note(self, text):
        self.notes.append(text)

    def directory(self):
        return os.path.join(self.root, "run%d-%s" % (
            len(self.runs), os.path.basename(self.root)))

    def start(self, options, program=(), hosts=None, script=None, under=(),
              **more):
        """A job. hosts: what discovery says; None: the options name hosts.
        script: the discovery script itself. program: a list (the command), or
        a tuple: options of trainer. under: a command that starts the job.
        more: see Job.start."""
        run = Run(self, options, program, hosts is not None or bool(script))
        self.runs.append(run)
        if hosts is not None:
            run.set_hosts(*hosts)
        if script:
            run.set_script(script)
        run.command[:0] = under
        run.start(**more)
        return run

    def command(self, *arguments, **env):
        """hvd-elastic that ends by itself: (status, stdout, stderr)."""
        done = subprocess.run([self.driver, *arguments], timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, cwd=self.root, check=False,
                              env={**os.environ, **env})
        return done.returncode, done.stdout, done.stderr

    def hanging(self, directory):
        """(command to start a job by, file that makes the disk with this
        directory hang); both None where it cannot be done."""
        switch = os.path.join(self.root, "hangs")
        under = [os.path.join(self.build, "tests/integration/hang"), directory,
                 switch]
        done = subprocess.run([*under, "true"], check=False)
        if done.returncode == 125:
            self.note("skipped: no seccomp filters here")
            return None, None
        equal(done.returncode, 0, "hang true")
        return under, switch

    def file(self, name, text, mode=0o755):
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def settle(self):
        """Jobs that have ended have left nothing."""
        for run in self.runs:
            check(run.process.poll() is not None, "a job still runs")
            run.nobody_left()
            # what is killed while it starts leaves its sanitizer's file
            equal([name for name in os.listdir(run.tmp)
                   if not name.startswith("tsan.rodata.")], [],
                  "files left in TMPDIR")
            for line in run.lines:
                check("WRONG" not in line, line)

    def report(self):
        """What its jobs did last, as lines."""
        for run in self.runs:
            status = run.process.poll() if run.process else "not started"
            yield "job %s status %s" % (run.directory, status)
            yield " ".join(run.command)
            for event in run.events[-40:]:
                yield "  %s" % event
            for line in run.lines[-30:]:
                yield "  " + line

    def close(self):
        for run in self.runs:
            run.kill()
        shutil.rmtree(self.root, ignore_errors=True)


def copy_program(program, to):
    """By a process of its own: a child that another thread forks meanwhile would
    hold the copy open for writing, and nobody may execute that."""
    subprocess.run(["cp", program, to], check=True)


def play(build, function, kind=Stage):
    """(what was wrong, as lines, or none; its notes, how long it took)"""
    start = time.monotonic()
    stage = kind(build)
    playing.name, playing.drawn = function.__name__, {}
    problem = []
    try:
        function(stage)
        stage.settle()
    except (Wrong, jobs.Timeout, subprocess.TimeoutExpired) as found:
        problem = [*stage.report(), "%s: %s" % (type(found).__name__, found)]
    except Exception:  # a mistake of the scenario's own
        problem = [*stage.report(), *traceback.format_exc().splitlines()]
    finally:
        stage.close()
    return problem, [*stage.notes, "%.2f s" % (time.monotonic() - start)]


def played(build, chosen, kind, n_beside):
    """What play() says of each, in order."""
    apart = {function for function in chosen if hasattr(function, "alone")}
    n_jobs = int(os.environ.get("HVD_TEST_JOBS", n_beside))
    with concurrent.futures.ThreadPoolExecutor(n_jobs) as pool:
        begun = {function: pool.submit(play, build, function, kind)
                 for function in chosen if function not in apart}
        concurrent.futures.wait(begun.values() if apart else [])
        try:
            for function in chosen:
                yield (play(build, function, kind) if function in apart
                       else begun[function].result())
        finally:  # Ctrl-C waits for those that play, not for all
            pool.shutdown(wait=False, cancel_futures=True)


def main(kind=Stage, n_beside=2):
    """kind: of stage; n_beside: so many scenarios play beside each other."""
    build = os.path.abspath(sys.argv[1])
    chosen = [function for function in scenarios
              if not sys.argv[2:] or function.__name__ in sys.argv[2:]]
    n_failed = 0
    print("1..%d" % len(chosen), flush=True)
    for i, (problem, notes) in enumerate(
            played(build, chosen, kind, n_beside), 1):
        for line in problem:
            print("# " + line)
        print("%s %d - %s" % ("not ok" if problem else "ok", i,
                              chosen[i - 1].__name__))
        for note in notes:
            print("# " + note, flush=True)
        n_failed += bool(problem)
    return 1 if n_failed or not chosen else 0
