"""stages - stages of work, each a command, in lanes beside each other.

What mostly waits, and judges how others wait (jobs that are killed, demos), runs
in the lane "front" at the usual priority; what needs processors alone (compilers,
tests of single modules) in the lane "back" behind it, at a lower one; what hardly
computes at all (tests of time-outs) in the lane "waits", for it would keep a place
in another. So the processors are busy all the time, and whatever waits for a
moment gets it. What is of several lanes is run, at the usual priority, by the one
of them that first has nothing before it: none idles while another has much to do.

A stage has a name, a command, a time-out, and the stages that it needs: when one
of those has failed it is left out. Each lane takes its stages in their order, the
first that has all that it needs, and runs one at a time. The lanes together
count what passed and failed: a stage is one, unless its `judge` says what it
comes to.

Threads: one for each lane; the caller's waits. Children: one for each lane, ended
at a time-out or an interrupt.
"""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

TAIL = 30
KILL_S = 10      # from SIGTERM to SIGKILL
BACK_NICE = 5


class Stage:
    def __init__(self, name, command, limit_s, lane="front", needs=(),
                 judge=None, environment=None):
        """lane: a name, or several. judge: (status, output) -> (passed, failed,
        skipped, text)."""
        self.name = name
        self.command = command
        self.limit_s = limit_s
        self.lanes = (lane,) if isinstance(lane, str) else lane
        self.needs = needs
        self.judge = judge or judge_as_one
        self.environment = environment or {}
        self.begun = False
        self.failed = None  # or True, False: it has ended


def judge_as_one(status, output):
    """A stage that is one case; what it said is worth reading if it failed."""
    if status == 0:
        return 1, 0, 0, ""
    return 0, 1, 0, "\n".join(output.splitlines()[-TAIL:])


def tell(child, number):
    """Its group: a shell's compiler, too. Not Popen.send_signal(), which may reap
    it: others wait for that."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


class Stages:
    def __init__(self, stages):
        self.stages = list(stages)
        self.changed = threading.Condition()
        self.children = set()
        self.over = False
        self.counts = [0, 0, 0]
        self.summary = []
        self.start = time.monotonic()

    def run(self):
        """(passed, failed, skipped); the summary's lines are in `summary`."""
        lanes = [threading.Thread(target=self._lane, args=(name,))
                 for name in sorted({name for stage in self.stages
                                     for name in stage.lanes})]
        for thread in lanes:
            thread.start()
        try:
            for thread in lanes:
                while thread.is_alive():
                    thread.join(0.2)
        except BaseException:  # an interrupt, or SIGTERM
            self._end()
            raise
        return tuple(self.counts)

    def _end(self):
        with self.changed:
            self.over = True
            self.changed.notify_all()
            for child in self.children:
                tell(child, signal.SIGTERM)

    # ---- a lane ------------------------------------------------------------

    def _lane(self, name):
        stage = self._next(name)
        while stage:
            self._play(stage)
            stage = self._next(name)

    def _next(self, lane):
        """The first stage of this lane that can begin; None: there is none."""
        with self.changed:
            while not self.over:
                waiting = [stage for stage in self.stages
                           if lane in stage.lanes and not stage.begun]
                if not waiting:
                    return None
                for stage in waiting:
                    states = [self._state(name) for name in stage.needs]
                    if True in states:
                        self._leave_out(stage)
                        break
                    if None not in states:
                        stage.begun = True
                        return stage
                else:
                    self.changed.wait(1)
        return None

    def _state(self, name):
        """Of a stage that is needed; one that is not in this run has passed."""
        return next((stage.failed for stage in self.stages
                     if stage.name == name), False)

    def _leave_out(self, stage):
        """What it needs has failed, which is counted already."""
        stage.begun = stage.failed = True
        self.summary.append("     left out: %s" % stage.name)

    def _play(self, stage):
        self._say("== " + stage.name)
        start = time.monotonic()
        status, cpu_s, output = self._execute(stage)
        passed, failed, skipped, text = stage.judge(status, output)
        self._ended(stage, "%-4s %4.0f s %4.0f s cpu  %s%s" % (
            "FAIL" if failed else "ok", time.monotonic() - start, cpu_s,
            stage.name, " (%d passed, %d failed, %d skipped)" % (
                passed, failed, skipped) if passed + failed > 1 else ""),
            (passed, failed, skipped), text)

    def _ended(self, stage, line, counts, text):
        with self.changed:
            if text:
                print(text)
            print("   " + line, flush=True)
            self.summary.append(line)
            self.counts = [a + b for a, b in zip(self.counts, counts)]
            stage.failed = counts[1] > 0
            self.changed.notify_all()

    def _say(self, text):
        with self.changed:
            print(text, flush=True)

    # ---- a command ---------------------------------------------------------

    def _execute(self, stage):
        """(exit status, seconds of processor time, what it printed)."""
        command = list(stage.command)
        if stage.lanes == ("back",):
            command[:0] = ["nice", "-n", str(BACK_NICE)]
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **stage.environment})
            with self.changed:
                self.children.add(child)
                if self.over:
                    tell(child, signal.SIGTERM)
            status, usage = self._wait(child, stage.limit_s, log)
            with self.changed:
                self.children.discard(child)
            log.seek(0)
            return status, usage.ru_utime + usage.ru_stime, log.read()

    @staticmethod
    def _wait(child, limit_s, log):
        def give_up():
            log.write("timed out after %g s\n" % limit_s)
            log.flush()
            tell(child, signal.SIGTERM)
            killer.start()
        killer = threading.Timer(KILL_S, tell, (child, signal.SIGKILL))
        timer = threading.Timer(limit_s, give_up)
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        killer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        return child.returncode, usage


def main(stages):
    """Run them, print the summary; the exit status."""
    def interrupted(number, _frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, interrupted)
    run = Stages(stages)
    passed, failed, skipped = run.run()
    print("\n%s" % "\n".join(run.summary))
    print("%.0f s" % (time.monotonic() - run.start))
    if skipped:
        print("%d skipped" % skipped)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0
