"""test_sinks - where words go that nobody takes: full pipes, a stopped terminal,
FIFOs without a reader, full disks, disks that hang.

In each of them a worker is killed meanwhile: it is replaced, training goes on,
and the job ends by itself, with its own exit status."""
import fcntl
import os
import re
import resource
import struct
import subprocess
import sys
import termios
import threading

from harness import PATIENCE_S, check, equal, main, scenario
import job as jobs

NP = ["-np", "2", "--min-np", "1", "-H", "localhost:2", "--slot-restarts", "9"]
LINES = 300000    # more than is kept for a reader
FLOOD = 4000000   # ... for files, and on its way to them


def begin(switch):
    with open(switch, "w", encoding="ascii"):
        pass


def full_pipe():
    """(end to read, end to write)"""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * 4096)
    return reader, writer


def waiting_in(reader):
    return struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD,
                                          b"...."))[0]


def replace_one(run):
    """Kill rank 1: another one comes, and they train."""
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"])
    run.whole(2, mark, {row["worker"]})


def finish(run, status=0):
    run.allow(3)
    run.ends(status)


def read_all(reader):
    """What is left in a pipe that its writers have closed, or will."""
    with os.fdopen(reader, "rb") as file:
        return file.read().decode(errors="replace")


# ---- our streams -------------------------------------------------------------

@scenario
def stdout_is_not_read(stage):
    reader, writer = full_pipe()
    run = stage.start(NP, ("--flood", "100000"), stdout=writer)
    os.close(writer)
    run.whole(2)
    replace_one(run)
    finish(run)
    check(any("stdout: nobody reads it" in line for line in run.errors),
          run.errors)
    os.close(reader)


@scenario
def stderr_is_not_read(stage):
    reader, writer = full_pipe()
    run = stage.start([*NP, "--log-level", "trace"], ("--talk",),
                      stderr=writer)
    os.close(writer)
    run.whole(2)
    run.says("step 50")
    replace_one(run)
    finish(run)
    os.close(reader)


@scenario
def a_failure_is_told_to_nobody(stage):
    """The verdict finds no room either: it does not keep the driver."""
    reader, writer = full_pipe()
    run = stage.start(["-np", "1", "--slot-restarts", "0"],
                      ["sh", "-c", "exit 1"], stderr=writer)
    os.close(writer)
    run.ends(1)
    os.close(reader)


@scenario
def both_are_one_stopped_terminal(stage):
    """Ctrl-S."""
    master, terminal = os.openpty()
    run = stage.start(NP, ("--talk", "--flood", "100000"), stdout=terminal,
                      stderr=terminal, TERM="xterm")
    run.event("generation_formed")
    check(os.read(master, 1), "nothing is shown")
    termios.tcflow(terminal, termios.TCOOFF)
    run.whole(2)
    replace_one(run)
    finish(run)
    os.close(terminal)
    os.close(master)


@scenario
def a_reader_that_comes_late_is_told(stage):
    """Files have everything, whoever reads stdout; there one line says what is
    missing."""
    directory = os.path.join(stage.root, "output")
    reader, writer = os.pipe()
    run = stage.start([*NP, "--output-filename", directory],
                      ("--flood", str(LINES)), stdout=writer)
    os.close(writer)
    paths = [os.path.join(directory, "rank.%d" % rank, "stdout")
             for rank in (0, 1)]
    for path in paths:
        run.until("the last line in " + path,
                  lambda: tail(path).endswith("line %d\n" % LINES), PATIENCE_S)
    said = []
    thread = threading.Thread(target=lambda: said.append(read_all(reader)))
    thread.start()
    run.whole(2)
    replace_one(run)
    finish(run)
    thread.join(PATIENCE_S)
    for path in paths:
        equal(numbers_in(path)[:LINES], list(range(1, LINES + 1)),
              "lines of " + path)
    shown = len(re.findall(r"<stdout>:line \d+$", said[0], re.M))
    dropped = re.findall(r"reader too slow -> (\d+) lines dropped$", said[0],
                         re.M)
    equal(len(dropped), 1, "markers")
    total = sum(len(numbers_in(path)) for path in paths)
    equal(shown + int(dropped[0]), total, "lines shown and dropped")


def tail(path):
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 100))
            return file.read().decode()
    except OSError:
        return ""


def numbers_in(path):
    with open(path, encoding="ascii") as file:
        return [int(line[5:]) for line in file if line.startswith("line ")]


# ---- files of workers' output ------------------------------------------------

def accounted(path):
    """(lines in it, lines that it says are missing)"""
    lost = here = 0
    with open(path, encoding="ascii") as file:
        for line in file:
            found = re.fullmatch(r"\[hvd-\w+: (\d+) lines dropped: .*\]\n",
                                 line)
            lost += int(found.group(1)) if found else 0
            here += not found
    numbers = numbers_in(path)
    check(numbers == sorted(numbers), "lines of %s are in disorder" % path)
    return here, lost


@scenario
def output_on_a_disk_that_hangs(stage):
    """For a moment workers wait, then they go on without it. What is missing is
    counted in its place when the disk is back. A line of which a worker paused
    in the middle is counted with each of its parts."""
    directory = os.path.join(stage.root, "output")
    under, switch = stage.hanging(os.path.join(directory, "rank"))
    if not under:
        return
    begin(switch)
    run = stage.start(["-np", "2", "-H", "localhost:2", "--output-filename",
                       directory], ("--flood", str(FLOOD)), under=under,
                      stdout=subprocess.DEVNULL)
    run.whole(2)
    os.unlink(switch)
    finish(run)
    for rank, n_others in ((0, 4), (1, 1)):  # of epochs, of the digest
        here, lost = accounted(
            os.path.join(directory, "rank.%d" % rank, "stdout"))
        check(0 <= here + lost - FLOOD - n_others <= 100, "lines of rank",
              rank, "here and lost:", here, lost)
        check(lost > 0, "nothing was lost: what hung?")
    check(any("takes nothing for 5 s" in line for line in run.errors),
          run.errors)
    check(any("lines are missing in its files" in line
              for line in run.errors), run.errors)


@scenario
def output_on_a_disk_that_hangs_for_ever(stage):
    directory = os.path.join(stage.root, "output")
    under, switch = stage.hanging(directory)
    if not under:
        return
    run = stage.start([*NP, "--output-filename", directory], ("--talk",),
                      under=under)
    run.whole(2)
    begin(switch)
    replace_one(run)
    finish(run)
    check(any("its files lack their ends" in line for line in run.errors),
          run.errors)
    os.unlink(switch)


@scenario
def output_into_a_fifo_that_nobody_reads(stage):
    """Without a reader; and with one that does not read."""
    directory = os.path.join(stage.root, "output")
    os.makedirs(os.path.join(directory, "rank.0"))
    os.makedirs(os.path.join(directory, "rank.1"))
    os.mkfifo(os.path.join(directory, "rank.0", "stdout"))
    sleeper = os.path.join(directory, "rank.1", "stdout")
    os.mkfifo(sleeper)
    reader = os.open(sleeper, os.O_RDONLY | os.O_NONBLOCK)
    run = stage.start([*NP, "--output-filename", directory],
                      ("--talk", "--flood", "100000"))
    run.whole(2)
    replace_one(run)
    finish(run)
    check(any("files are incomplete" in line for line in run.errors),
          run.errors)
    check(any("lines are missing in its files" in line
              for line in run.errors), run.errors)
    os.close(reader)


@scenario
def the_disk_is_full(stage):
    """A limit for the driver's files alone is as good as a small disk."""
    directory = os.path.join(stage.root, "output")
    timeline = os.path.join(stage.root, "trace.json")
    run = stage.start([*NP, "--output-filename", directory, "--timeline",
                       timeline], ("--talk", "--flood", "100000"))
    run.event("generation_formed")
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (30000, 30000))
    run.whole(2)
    replace_one(run)
    run.says("step 300")
    finish(run)
    check(any("File too large -> files are incomplete" in line
              for line in run.errors), run.errors)
    check(any("File too large -> the workers' files were not merged" in line
              for line in run.errors), run.errors)


@scenario
def a_small_disk_is_full(stage):
    directory = os.path.join(stage.root, "disk")
    os.makedirs(directory)
    mount = ["unshare", "-m", "sh", "-c",
             "mount -t tmpfs -o size=1m none %s && exec \"$0\" \"$@\""
             % directory]
    if subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        stage.note("skipped: nothing can be mounted here")
        return
    run = stage.start([*NP, "--output-filename", directory + "/output",
                       "--timeline", directory + "/trace.json"],
                      ("--talk", "--flood", "200000"), under=mount)
    run.whole(2)
    replace_one(run)
    finish(run)
    check(any("No space left on device -> files are incomplete" in line
              for line in run.errors), run.errors)


# ---- event log and timeline --------------------------------------------------

@scenario
def an_event_log_is_not_read(stage):
    """Its reader stops in the middle of a flood of events: nobody can follow it
    here, so the trainer says what happens."""
    fifo = os.path.join(stage.root, "events")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    run = stage.start([*NP, "--event-log", fifo], ("--epochs", "1"))
    whole = ": 2 workers on 1 host"
    run.says(whole)
    oldest = min(trainers(run))
    for n_killed in range(2):
        run.says(whole, n_killed + 1)
        for pid in trainers(run):
            if pid != oldest:
                jobs.kill(pid)
    run.says(whole, 3)
    check(waiting_in(reader) > 0, "nothing is in the FIFO")
    run.allow(1)
    equal(run.wait(PATIENCE_S), 0, "exit status")
    check(any("takes no more -> its last " in line
              for line in run.errors), run.errors)
    os.close(reader)


def trainers(run):
    """pids of workers."""
    found = []
    for pid in run.processes():
        try:
            with open("/proc/%d/comm" % pid, encoding="ascii") as file:
                if file.read().strip() == "trainer":
                    found.append(pid)
        except OSError:
            continue
    return found


@scenario
def a_timeline_on_a_disk_that_hangs(stage):
    """Driver and workers go on; a replacement starts though it cannot open its
    file; ends have deadlines."""
    directory = os.path.join(stage.root, "traces")
    os.makedirs(directory)
    under, switch = stage.hanging(directory)
    if not under:
        return
    run = stage.start([*NP, "--timeline", os.path.join(directory, "t.json")],
                      under=under)
    run.whole(2)
    begin(switch)
    replace_one(run)
    finish(run)
    check(any("takes nothing -> the workers' files were not merged" in line
              for line in run.errors), run.errors)
    check(any("takes nothing -> its last events are lost" in line
              for line in run.errors), run.errors)
    os.unlink(switch)


@scenario
def fifos_in_a_timelines_way(stage):
    """Where workers would make their files, and where all are put together."""
    path = os.path.join(stage.root, "t.json")
    for name in ("t.1.json.new", "t.2.json", "t.3.json.new"):
        os.mkfifo(os.path.join(stage.root, name))
    run = stage.start([*NP, "--timeline", path])
    run.whole(2)
    os.mkfifo(path + ".new")
    replace_one(run)
    finish(run)
    check(any("the workers' files were not merged" in line
              for line in run.errors), run.errors)


if __name__ == "__main__":
    sys.exit(main())
