"""launch - start one contestant, wait for it within a deadline, leave nothing.

Its processes are known by a mark in their environment, because launchers put
them in sessions of their own. When it is over, none of them is alive, and what
they left in /dev/shm (some libraries do when they are killed) is removed.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

SHM = "/dev/shm"
# Names that the peers give to shared memory; others' files stay.
LEFTOVERS = ("vader_segment.", "sm_segment.", "mpich_", "psm2_shm", "ucx_",
             "osc_rdma", "osc_sm", "sem.mpich")
POLL_S = 0.01
TAIL = 600  # characters of output that are told about a failure


class Outcome:
    """rows: what was measured before the end. why: None, or what went wrong,
    as a short phrase; output: the end of what was said."""

    def __init__(self, rows, why, output, seconds):
        self.rows, self.why = rows, why
        self.output, self.seconds = output, seconds


def marked(mark):
    """Living processes with the mark."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % entry, "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def _runs(pid, words):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return words in file.read()
    except OSError:
        return False


def end_all(processes, mark, spared=None):
    """Kills until nobody with the mark is left: one may have been starting
    another. spared: but for those that have this in their command line."""
    deadline = time.monotonic() + 10
    while True:
        left = [pid for pid in marked(mark)
                if not spared or not _runs(pid, spared)]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in processes:
            process.poll()
        if not left or time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


def _sweep(before):
    for name in set(os.listdir(SHM)) - before if os.path.isdir(SHM) else ():
        if name.startswith(LEFTOVERS):
            try:
                os.unlink(os.path.join(SHM, name))
            except OSError:
                pass


def _wait(processes, deadline_s):
    """None, or why it ended otherwise."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        codes = [process.poll() for process in processes]
        bad = [code for code in codes if code]
        if bad:
            return "killed by signal %d" % -bad[0] if bad[0] < 0 \
                else "exit status %d" % bad[0]
        if all(code == 0 for code in codes):
            return None
        time.sleep(POLL_S)
    return "no end within %g s" % deadline_s


def _rows(path):
    rows = []
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            for line in file:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    break  # cut off by a kill
    return rows


def run(contestant, point, deadline_s):
    directory = tempfile.mkdtemp(prefix="compare.")
    mark = "COMPARE_MARK=" + directory
    base = {key: value for key, value in os.environ.items()
            if not key.startswith("HVD_")}
    base.update(TMPDIR=directory, COMPARE_MARK=directory)
    path = os.path.join(directory, "rows")
    before = set(os.listdir(SHM)) if os.path.isdir(SHM) else set()
    start = time.monotonic()
    processes = []
    why = None
    with open(os.path.join(directory, "output"), "w+",
              errors="replace") as output:
        try:
            for argv, extra in contestant.commands(point, path, directory):
                processes.append(subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, env=dict(base, **extra),
                    start_new_session=True))
            why = _wait(processes, deadline_s)
        except OSError as error:
            why = str(error)
        finally:
            end_all(processes, mark.encode())
            for process in processes:
                process.wait()
            _sweep(before)
            output.seek(0)
            said = output.read()[-TAIL:]
            rows = _rows(path)
            shutil.rmtree(directory, ignore_errors=True)
    if not why and any(row.get("wrong") for row in rows):
        why = "wrong result"
    return Outcome(rows, why, said, time.monotonic() - start)
