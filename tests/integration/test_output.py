"""test_output - what workers print: prefixes, files per rank, and who reads it.
"""
import fcntl
import os
import re
import struct
import sys
import termios

from harness import PATIENCE_S, check, equal, main, scenario
import job as jobs

NP = ["-np", "2", "-H", "localhost:1,127.0.0.2:1"]


def told(lines, rank, stream):
    """What this rank said, without its prefix."""
    prefix = "[%d]<%s>:" % (rank, stream)
    return [line[len(prefix):] for line in lines if line.startswith(prefix)]


@scenario
def lines_carry_rank_and_stream(stage):
    run = stage.start(NP, ("--talk",))
    run.whole(2)
    run.says("[0]<stdout>:step 3")
    run.says("[1]<stderr>:trouble 3")
    run.allow(3)
    run.ends(0)
    for rank in (0, 1):
        out = told(run.lines, rank, "stdout")
        steps = [line for line in out if line.startswith("step")]
        equal(steps, ["step %d" % (i + 1) for i in range(len(steps))],
              "steps of rank %d" % rank)
        err = told(run.errors, rank, "stderr")
        equal(err, ["trouble %d" % (i + 1) for i in range(len(steps))],
              "stderr of rank %d" % rank)


@scenario
def lines_carry_the_rank_of_now(stage):
    """Rank 1 becomes rank 0 when its predecessor dies."""
    run = stage.start(["-np", "2", "--min-np", "1", "--strict-blacklist", "-H",
                       "localhost:1,127.0.0.2:1"], ("--talk",))
    run.whole(2)
    run.epoch(0)
    jobs.kill(run.row(rank=0)["pid"])
    row = run.whole(1, 1)["ranks"][0]
    equal(row["host"], "127.0.0.2", "host of the survivor")
    run.epoch(1)
    run.allow(3)
    run.ends(0)
    equal([row["host"] for row in run.epochs()],
          ["localhost", "127.0.0.2", "127.0.0.2"], "hosts of rank 0")


@scenario
def timestamps(stage):
    run = stage.start([*NP, "--prefix-output-with-timestamp"], ("--talk",))
    run.whole(2)
    run.says("<stdout>:step 3")
    run.allow(3)
    run.ends(0)
    lines = [line for line in run.lines if "<stdout>:step " in line]
    for line in lines:
        check(re.match(r".*\d\d:\d\d:\d\d.*\[[01]\]<stdout>:step \d+$", line),
              line)


@scenario
def stdout_is_in_blocks_if_wished(stage):
    """The trainer does not flush: its lines come at once by hvd_init alone."""
    run = stage.start(NP, ("--talk",), HVD_STDOUT_BUFFERING="block")
    run.whole(2)
    run.says("[0]<stderr>:trouble 50")
    equal(told(run.lines, 0, "stdout"), [], "lines so far")
    run.allow(3)
    run.ends(0)
    check("step 50" in told(run.lines, 0, "stdout"), run.lines[:3])


def read(directory, rank, stream):
    path = os.path.join(directory, "rank.%d" % rank, stream)
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


@scenario
def files_per_rank(stage):
    directory = os.path.join(stage.root, "new", "output")
    run = stage.start([*NP, "--output-filename", directory], ("--talk",))
    run.whole(2)
    run.says("[1]<stdout>:step 3")
    run.allow(3)
    run.ends(0)
    for rank in (0, 1):
        for stream, lines in (("stdout", run.lines), ("stderr", run.errors)):
            equal(read(directory, rank, stream), told(lines, rank, stream),
                  "rank.%d/%s" % (rank, stream))


@scenario
def files_are_appended_to(stage):
    """A replacement, and another job, truncate nothing."""
    directory = os.path.join(stage.root, "output")
    first = []
    for _ in range(2):
        run = stage.start(["-np", "2", "--min-np", "1", "--max-np", "2", "-H",
                           "localhost:1,127.0.0.2:1", "--output-filename",
                           directory], ("--talk",))
        run.whole(2)
        run.says("[1]<stdout>:step 3")
        row, mark = run.row(rank=1), run.mark()
        jobs.kill(row["pid"])
        run.whole(2, mark, {row["worker"]})
        run.allow(3)
        run.ends(0)
        lines = read(directory, 1, "stdout")
        check(lines[:3] == ["step 1", "step 2", "step 3"], lines[:5])
        equal(lines[:len(first)], first, "what was there before")
        check(len(lines) > len(first), "nothing new")
        first = lines


@scenario
def last_words_are_complete(stage):
    """Much output right before the end, and a line without its end. The last
    line of stderr is in the sentence about the job."""
    run = stage.start(["-np", "1", "--slot-restarts", "0"],
                      ["sh", "-c", "echo cause >&2; seq 1 20000; printf end; "
                       "exit 1"])
    run.ends(1)
    check(run.errors[-1].endswith("its last line: cause"), run.errors)
    numbers = [line.rpartition(":")[2] for line in run.lines
               if line.startswith("[localhost:0]<stdout>:")]
    equal((len(numbers), numbers[-1:]), (20001, ["end"]), "lines, the last")
    equal(numbers[:-1], [str(i) for i in range(1, 20001)], "lines")


@scenario
def long_lines_and_carriage_returns(stage):
    run = stage.start(
        ["-np", "1", "--slot-restarts", "0"],
        ["sh", "-c", r"printf 'a\rb\nc'; head -c 200000 /dev/zero | "
         r"tr '\0' x; echo; exit 1"])
    run.ends(1)
    said = [line.partition("<stdout>:")[2] for line in run.lines
            if "<stdout>:" in line]
    equal(said[:2], ["a", "b"], "lines")
    equal(sum(map(len, said[2:])), 200001, "bytes of the long line")


def start_into_a_pipe(stage):
    """(job, descriptor to read its stdout from); the pipe holds one page."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    run = stage.start(["-np", "2", "--min-np", "1", "-H", "localhost:2"],
                      ("--talk", "--step-us", "50"), stdout=writer)
    os.close(writer)
    return run, reader


@scenario
def a_reader_that_leaves_ends_nothing(stage):
    """hvd-elastic ... | head: the job goes on, without its output."""
    run, reader = start_into_a_pipe(stage)
    check(os.read(reader, 1), "no output")
    os.close(reader)
    run.whole(2)
    run.allow(3)
    run.ends(0)


@scenario
def a_reader_that_sleeps_delays_nothing(stage):
    """The pipe, of one page, is taken when a worker is killed: it is replaced
    all the same, and the job ends though nobody ever reads."""
    run, reader = start_into_a_pipe(stage)
    run.whole(2)
    run.until("a full pipe", lambda: struct.unpack("i", fcntl.ioctl(
        reader, termios.FIONREAD, b"....")) > (0,), PATIENCE_S)
    row, mark = run.row(rank=1), run.mark()
    jobs.kill(row["pid"])
    run.whole(2, mark, {row["worker"]})
    run.allow(3)
    run.ends(0)
    os.close(reader)


if __name__ == "__main__":
    sys.exit(main())
