"""test_encrypt - what --encrypt-data does for a job whose workers use TCP: it
recovers as any other, under a successor of its driver too, and a process that
reads its packets on the network learns nothing.

The reader is a raw socket on the loopback device of a network namespace that
the job has to itself, which needs root: packets that other tests send at the
same time would fill the socket, and the kernel would drop the job's.
"""
import contextlib
import ctypes
import fcntl
import os
import random
import socket
import string
import struct
import threading

from harness import (LOCAL, OTHER, Run, alone, check, copy_program, equal, main,
                     plain, scenario)
import job as jobs
from wire import DATA_HELLO

BOTH = ("localhost:2", "127.0.0.2:2")
PROTECTIONS = "protections: control CURVE, data handshakes authenticated, data "
ENCRYPTED = PROTECTIONS + "encrypted ("
OPEN = PROTECTIONS + "not encrypted (--encrypt-data)"


def start(stage, *options, **more):
    run = stage.start(["-np", "4", "--min-np", "1", "--max-np", "4",
                       "--encrypt-data", *options], (), hosts=BOTH,
                      HVD_TRANSPORT="tcp", **more)
    run.says(ENCRYPTED)
    run.whole(4)
    run.epoch(0)
    return run


def lose(run, **who):
    """A member dies, and is replaced; the survivors go on."""
    return lose_row(run, run.row(**who))


def lose_row(run, row):
    mark = run.mark()
    jobs.kill(row["pid"])
    return run.whole(4, mark, {row["worker"]})


def finish(run):
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def a_death(stage):
    run = start(stage)
    before = run.pids()
    after = [row["pid"] for row in lose(run, rank=2)["ranks"]]
    equal(len(set(after) & set(before.values())), 3, "surviving processes")
    finish(run)


@scenario
def the_one_with_all_the_listeners(stage):
    run = start(stage)
    lose(run, rank=0)
    finish(run)


@scenario
def several_connections(stage):
    run = stage.start(["-np", "4", "--encrypt-data"], (), hosts=BOTH,
                      HVD_TRANSPORT="tcp", HVD_TCP_CONNECTIONS="4")
    run.whole(4)
    finish(run)


@scenario
def another_driver(stage):
    """Survivors and who comes later were told by different drivers."""
    directory = os.path.join(stage.root, "job")
    first = start(stage, "--job-dir", directory, "--heartbeat-interval", "0.2")
    first.process.kill()
    first.process.wait()
    run = Run(stage, [], (), True)
    run.command = [stage.driver, "--resume", directory, "--event-log",
                   run.event_log]
    run.control, run.marker = first.control, first.marker
    run.set_hosts = first.set_hosts
    stage.runs.append(run)
    run.start()
    run.says(ENCRYPTED)
    run.event("job_resumed")
    run.epoch(1)
    lose_row(run, first.row(host=OTHER, slot=1))
    finish(run)


# ---- who reads along ---------------------------------------------------------

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@contextlib.contextmanager
def own_network():
    """This thread, and the processes that it starts, have a loopback device
    that nobody else sends on. Raises PermissionError for all but root."""
    with open("/proc/thread-self/ns/net", "rb") as before:
        checked(LIBC.unshare(CLONE_NEWNET))
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, SIOCSIFFLAGS,
                            struct.pack("16sh14x", b"lo", IFF_UP))
            yield
        finally:
            checked(LIBC.setns(before.fileno(), CLONE_NEWNET))


class Reader:
    """All that passes the loopback device, for as long as it is open."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                    socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # FORCE
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.1)
        self.packets = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._read)

    def _read(self):
        while True:
            try:
                packet, address = self.socket.recvfrom(1 << 17)
            except TimeoutError:
                if self.over.is_set():
                    return
                continue
            if address[2] != socket.PACKET_OUTGOING:  # each passes twice
                self.packets.append(packet)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.over.set()
        self.thread.join()
        self.socket.close()

    def times(self, words):
        return sum(packet.count(words) for packet in self.packets)

    def hellos(self):
        """Of data connections: (their job, their flags)."""
        at = [(packet, packet.find(DATA_HELLO)) for packet in self.packets]
        return [(int.from_bytes(packet[i + 8:i + 16], "little"),
                 packet[i + 5]) for packet, i in at if i >= 0]


def bug_agents(stage):
    """From now on a script stands before the agents that tells us what they
    have inherited; returns where."""
    real, stage.build = stage.build, os.path.join(stage.root, "bugged")
    for part in ("driver", "agent"):
        os.makedirs(os.path.join(stage.build, "src/elastic", part))
    copy_program(os.path.join(real, "src/elastic/driver/hvd-elastic"),
                 os.path.join(stage.build, "src/elastic/driver"))
    stage.file("bugged/src/elastic/agent/hvd-agent", """#!/bin/sh
cat /proc/self/fd/$HVD_SECRET_FD > %s/secrets.$HVD_HOST
exec %s/src/elastic/agent/hvd-agent
""" % (stage.root, real))
    return [os.path.join(stage.root, "secrets." + host)
            for host in (LOCAL, OTHER)]


def keys_in(paths):
    """(token, the job's key) of these."""
    for path in paths:
        with open(path, "rb") as file:
            words = file.read()
        yield from (words[:32], words[32:64])


def read_along(stage, *options):
    """Runs a job whose operands are one word. The word, and its reader;
    None: not root."""
    word = "".join(random.choices(string.ascii_letters, k=8))
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(own_network())
        except PermissionError:
            stage.note("skipped: only root can read along")
            return word, None
        return word, read_word(stage, word, *options)


def read_word(stage, word, *options):
    program = [os.path.join(stage.build, "tests/integration/pattern_worker"),
               word]
    secrets = bug_agents(stage)
    with Reader() as reader:
        run = stage.start(["-np", "2", *options], program,
                          hosts=("localhost:1", "127.0.0.2:1"))
        run.ends(0)
        moved = int(run.says("moved").split()[-1])
    sent = sum(len(packet) for packet in reader.packets)
    stage.note("read %d bytes" % sent)
    check(sent > 2 * moved, "only %d bytes were read" % sent)
    for key in keys_in(secrets):
        equal(reader.times(key), 0, "keys that were read")
    return reader


@plain
@alone
def reader_of_a_job_that_does_not_encrypt(stage):
    word, reader = read_along(stage)
    if reader:
        stage.runs[0].says(OPEN)
        found = reader.times(word.encode())
        check(found > 100000, "the word was read %d times" % found)


@plain
@alone
def reader_of_a_job_that_does(stage):
    word, reader = read_along(stage, "--encrypt-data")
    if reader:
        stage.runs[0].says(ENCRYPTED)
        equal(reader.times(word.encode()), 0, "words that were read")
        check(any(flags & 1 for _, flags in reader.hellos()), "no hello")


if __name__ == "__main__":
    raise SystemExit(main())
