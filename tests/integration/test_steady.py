"""What collectives ask of the system, once they have warmed up: no allocation,
no change of a mapping, whatever the transport, the buffers and the way to call.
The system calls that are left are told by bench/steady, which needs strace.
Each is alone: a progress thread that gets no core has more calls waiting than
those of the warm-up had, and a place is made for each of them.

usage: test_steady.py BUILD_DIRECTORY [NAME ...]
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import LOCAL, OTHER, SLOW, alone, check, equal, main  # noqa: E402

N_SMALL = 60
N_LARGE = 8
LARGE = 1 << 20  # of two ranks: more than a post holds, and several blocks
WAYS = ("", "_async", "_async_x4")
KINDS = ("allreduce", "broadcast", "allgather", "allgatherv", "reduce_scatter",
         "alltoall", "alltoallv", "barrier")
OTHERS = ("allreduce_in_place", "alltoall_in_place", "grouped",
          "grouped_async", "boundary_check", "boundary_commit")


def cases(run):
    """{name: {rank: ...}} of what each rank has told."""
    found = {}
    for line in run.lines:
        words = line.partition("<stdout>:")[2].split()
        if words[:1] == ["steady"] and words[1] != "thread":
            name, nbytes, rank, n = words[1], *map(int, words[2:5])
            counts = dict(zip(("allocations", "frees", "maps"),
                              map(int, words[5:8])))
            found.setdefault(name, []).append((nbytes, rank, n, counts))
    return found


def steady(stage, buffers, hosts=(LOCAL + ":2",), np=2, **environment):
    program = [os.path.join(stage.build, "tests/integration/steady_worker"),
               buffers, str(N_SMALL), str(N_LARGE), str(LARGE)]
    # a heartbeat allocates, whatever it falls into
    run = stage.start(["-np", str(np), "-H", ",".join(hosts),
                       "--heartbeat-interval", "60", "--heartbeat-timeout",
                       "120"], program, **environment)
    equal(run.wait(120 * SLOW), 0, "exit status")
    found = cases(run)
    equal(set(found), {kind + way for kind in KINDS for way in WAYS}
          | set(OTHERS), "cases")
    quiet = [line.split()[-1] for line in run.lines if "<stdout>:quiet " in line]
    if quiet:
        equal(quiet, [str(N_SMALL)] * np, "boundaries without a system call")
    else:
        stage.note("not asked for system calls: a sanitizer or the kernel")
    for name, rows in found.items():
        equal({rank for _, rank, _, _ in rows}, set(range(np)),
              "ranks that ran " + name)
        for nbytes, rank, n, counts in rows:
            check(not any(counts.values()), "%d x %s of %d bytes, rank %d: %s"
                  % (n, name, nbytes, rank, counts))


@alone
def steady_buffers_from_hvd_alloc(stage):
    steady(stage, "alloc")


@alone
def steady_ordinary_buffers_staged(stage):
    steady(stage, "malloc", HVD_LOCAL_BUFFERS="staged")


@alone
def steady_ordinary_buffers_attached(stage):
    steady(stage, "malloc", HVD_LOCAL_BUFFERS="attached")


@alone
def steady_ordinary_buffers_measured(stage):
    steady(stage, "malloc")


@alone
def steady_three_ranks(stage):
    steady(stage, "alloc", (LOCAL + ":3",), 3)


@alone
def steady_tcp(stage):
    steady(stage, "malloc", HVD_TRANSPORT="tcp")


@alone
def steady_two_hosts(stage):
    steady(stage, "malloc", (LOCAL + ":2", OTHER + ":2"), 4)


if __name__ == "__main__":
    sys.exit(main())
