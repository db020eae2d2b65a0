"""demo_day - the scripted day of scripts/demo: train charlm while hosts change.

Drives the job from outside only: the list of hosts that its discovery script
prints, and one kill -9. Paced by the losses that training prints and by the
event log, so it takes as long as the machine needs. Prints as it goes, then a
table of the generations, then whether all weights agree.

usage: demo_day.py [--short] [--devices] TEXT [BUILD]

  --short    as a test, at twice the pace
  --devices  charlm_cuda, on GPUs of host memory (tests/gpu/fake), or on this
             machine's if HVD_TEST_GPU is set
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import job as jobs

SHORT = "--short" in sys.argv
DEVICES = "--devices" in sys.argv
WORDS = [word for word in sys.argv[1:] if not word.startswith("--")]
BUILD = os.path.abspath(WORDS[1]) if len(WORDS) > 1 \
    else os.path.join(jobs.ROOT, "build")
CHARLM = os.path.join(BUILD, "examples/charlm_cuda/charlm_cuda" if DEVICES
                      else "examples/charlm/charlm")
BATCH = "256"
PATIENCE_S = 60

KERNELS = os.path.join(BUILD, "tests/gpu/fake/charlm_kernels.so")
GPUS = jobs.gpu_environment(BUILD, "devices=2 by_host=1",
                            FAKE_KERNELS=KERNELS) if DEVICES else {}

TURNS_S = 0.02  # a step whose ranks take turns on a GPU

# day_s: of training, of which the acts take about half; act_s: between two
# changes, at least; losses_s: between two losses.
Pace = collections.namedtuple("Pace", "day_s act_s losses_s")
PACE = Pace(20, 0.5, 0.2) if SHORT else Pace(40, 3.0, 0.7)


class Day:
    def __init__(self, text, directory, step_s):
        program = [CHARLM, "--batch", BATCH,
                   "--steps", str(int(PACE.day_s / step_s) + 1),
                   "--report", str(int(PACE.losses_s / step_s) + 1), text]
        if DEVICES:
            program = jobs.on_gpu(program)
        self.why = {}          # generation: what we did before it
        self.cause = "start"
        self.n_losses = 0
        self.resumed = []      # (step, iterations) of rank 0 in each
        self.job = jobs.Job(
            os.path.join(directory, "job"),
            ["-np", "2", "--min-np", "2", "--max-np", "8"], program,
            BUILD, self.show_line)
        self.shown = 0

    # ---- what is seen ------------------------------------------------------

    def say(self, mark, text):
        print("%7.2f s  %s %s" % (time.monotonic() - self.job.started, mark,
                                  text), flush=True)

    def show_line(self, line):
        loss = re.search(r"\bstep \d+ epoch \d+ loss \S+.*", line)
        resumed = re.match(r"\[0\].*\bresumed at step (\d+) .*"
                           r"iterations-here (\d+)", line)
        if loss:
            self.n_losses += 1
            self.say(" ", loss.group(0))
        elif resumed:
            self.resumed.append((int(resumed.group(1)), int(resumed.group(2))))
        elif "final digest" in line or re.search(r"\berror\b", line):
            self.say(" ", line)

    def show_events(self):
        """Print what the event log says about membership since last time."""
        with self.job.changed:
            new = self.job.events[self.shown:]
            self.shown += len(new)
        for event in new:
            generation = event.get("generation")
            if event["event"] == "generation_formed":
                self.why[generation] = self.cause
                self.say("=", "generation %d: %d workers: %s" % (
                    generation, event["size"], ", ".join(
                        "%s:%d" % (row["host"], row["slot"])
                        for row in event["ranks"])))
            elif event["event"] == "worker_lost":
                self.say("-", "worker %s is lost (%s)"
                         % (event.get("worker"), event.get("how")))
            elif event["event"] == "worker_ready":
                self.say("+", "worker %s is ready" % event.get("worker"))

    def until(self, what, condition):
        """Wait for a condition, printing what happens meanwhile."""
        def shown():
            self.show_events()
            return condition()
        value = self.job.until(what, shown, PATIENCE_S)
        self.show_events()
        return value

    # ---- what is done ------------------------------------------------------

    def train_a_while(self):
        losses, until = self.n_losses + 2, time.monotonic() + PACE.act_s
        self.until("losses being printed", lambda:
                   self.n_losses >= losses and time.monotonic() >= until)

    def act(self, cause, size, change):
        """Do something to the job, wait until it trains with `size`."""
        self.cause = cause
        self.say(">", cause)
        mark = self.job.mark()
        gone = change() or ()
        self.until("a generation of %d after: %s" % (size, cause), lambda:
                   self.job.running(mark, size, without=gone))
        self.train_a_while()

    def kill_one(self):
        """kill -9 a worker that is not rank 0; the survivors go on at once."""
        row = self.job.members()[-1]
        self.say(" ", "kill -9 %d: rank %d, worker %d at %s:%d" % (
            row["pid"], row["rank"], row["worker"], row["host"], row["slot"]))
        jobs.kill(row["pid"])
        return (row["worker"],)

    def play(self):
        set_hosts = self.job.set_hosts
        set_hosts("localhost:2")
        self.job.start(**GPUS)
        self.until("generation 1", lambda: self.job.running(0, 2))
        self.train_a_while()
        self.act("host 127.0.0.2 appears with 2 slots", 4,
                 lambda: set_hosts("localhost:2", "127.0.0.2:2"))
        self.act("one worker is killed with -9", 4, self.kill_one)
        self.act("host 127.0.0.2 disappears", 2,
                 lambda: set_hosts("localhost:2"))
        self.act("a new host, 127.0.0.3, comes with 2 slots", 4,
                 lambda: set_hosts("localhost:2", "127.0.0.3:2"))
        self.cause = "nothing of ours"
        self.say(">", "training goes on to its end")
        while True:
            self.show_events()
            try:
                return self.job.wait(0.2)
            except jobs.Timeout:
                if time.monotonic() - self.job.started > 4 * PATIENCE_S:
                    raise


def measure(text):
    """Seconds that a step takes with four workers on this machine, about."""
    n = 50
    start = time.monotonic()
    subprocess.run([CHARLM, "--batch", BATCH, "--steps", str(n), text],
                   stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, **GPUS})
    alone = (time.monotonic() - start) / n
    if DEVICES and jobs.real_gpu():
        return max(alone, TURNS_S)
    return alone * max(1, 4 / len(os.sched_getaffinity(0)))


# ---- the end of the day -----------------------------------------------------

def reasons(job):
    """Why each generation was formed, and who came and went with it."""
    before, reason, found = set(), "start", []
    for event in job.seen(None):
        if event["event"] == "generation_started":
            reason = event["reason"]
        if event["event"] == "generation_formed":
            now = {row["worker"] for row in event["ranks"]}
            found.append("%s: %s" % (reason, " ".join(
                ["-%d" % worker for worker in sorted(before - now)] +
                ["+%d" % worker for worker in sorted(now - before)])))
            before = now
    return found


def table(day):
    job = day.job
    print("\n          ms to first  steps    what we did before; "
          "why: workers lost and won")
    print("gen size   collective  repeated")
    after = None
    for formed, cost, why in zip(job.seen("generation_formed"), repeated(day),
                                 reasons(job)):
        generation = formed["generation"]
        first = [e["ms"] for e in
                 job.seen("first_collective", generation=generation)]
        if day.why.get(generation) != after:
            after = day.why.get(generation)
            print("%33s%s" % ("", after))
        print("%3d %4d %12s %9s   - %s" % (
            generation, formed["size"],
            "%.1f" % max(first) if first else "-", cost, why))


def repeated(day):
    """Steps that ran before each generation and are not in the state it starts
    from, as rank 0 counted them: it is the same process all day."""
    costs = [0] + [(iterations - iterations_before) - (step - step_before)
                   for (step_before, iterations_before), (step, iterations)
                   in zip(day.resumed, day.resumed[1:])]
    n = len(day.job.seen("generation_formed"))
    return [str(cost) for cost in costs] if len(costs) == n else ["?"] * n


def verdict(day, status):
    """True when the job ended well and all weights agree."""
    job = day.job
    digests = job.digests()
    last = job.formed()["size"]
    if digests:
        steps, most = max(d[1] for d in digests), max(d[2] for d in digests)
        print("\n%d steps are in the final state; who ran the most of them "
              "ran %d: %d repeated" % (steps, most, most - steps))
    agree = len({d[:2] for d in digests}) == 1 and len(digests) == last
    print("%d of %d workers finished, digests %s: %s" % (
        len(digests), last, "agree" if agree else "DIFFER",
        " ".join(sorted({d[0] for d in digests}))))
    if status != 0:
        finished = job.seen("job_finished")
        print("the job ended with status %d: %s"
              % (status, finished[-1].get("reason") if finished else "?"))
    left = job.orphans()
    if left:
        print("processes left behind: %s" % left)
    return agree and status == 0 and not left


def main():
    text = WORDS[0]
    if DEVICES and not jobs.real_gpu() and not os.path.exists(KERNELS):
        print("demo: skipped: charlm_cuda is not built here")
        return 0
    directory = tempfile.mkdtemp(prefix="hvd-demo-")
    day = Day(text, directory, measure(text))
    try:
        status = day.play()
        table(day)
        good = verdict(day, status)
    except jobs.Timeout as problem:
        print("\n".join(day.job.lines[-20:]))
        print("demo: " + str(problem))
        good = False
    except KeyboardInterrupt:
        good = False
    finally:
        day.job.kill()
        shutil.rmtree(directory, ignore_errors=True)
    print("demo: %s" % ("passed" if good else "FAILED"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
