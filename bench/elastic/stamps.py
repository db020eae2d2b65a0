"""stamps - the file that bench/recovery and its workers share (bench/stamps.h):
when each worker did what, by its own clock.

Stamps makes and reads it, Ring is what a worker written in Python stamps with;
the others are in C. Follower reads the steps of all as they come. Nothing here
is slow to import: workers do that before all else.
"""
import collections
import fcntl
import mmap
import os
import struct
import time

HEAD_NBYTES, RECORDS = 4096, 32768  # stamps.h
RING_HEAD_NBYTES, RECORD_NBYTES = 32, 32
RING_NBYTES = RING_HEAD_NBYTES + RECORD_NBYTES * RECORDS
PLACE_NBYTES = 12
MAGIC = 0x3173706d61747368
ENTER, BEGIN, STEP, LOST, LEFT, STALL = range(1, 7)
NEVER = 2**64 - 1

# A step that was completed: when, in which world (generation) of how many, and
# its number.
Step = collections.namedtuple("Step", "ns world size number")
Owner = collections.namedtuple("Owner", "pid place rank")


class Stamps:
    """The shared file; a stamp is (kind, size, generation, step, ns)."""

    def __init__(self, path, n_rings):
        self.path = path
        with open(path, "wb+") as file:
            file.truncate(HEAD_NBYTES + n_rings * RING_NBYTES)
            self.map = mmap.mmap(file.fileno(), 0)
        struct.pack_into("<QIIQQ", self.map, 0, MAGIC, n_rings, 0, 0, NEVER)
        # pack_into writes zeros first, and workers would see them
        self.words = memoryview(self.map)[:HEAD_NBYTES].cast("Q")

    def set_stall(self, pid):
        self.words[2] = pid

    def set_stop(self, step):
        self.words[3] = step

    def n_rings(self):
        """Rings that have an owner, or are about to."""
        n_max, n = struct.unpack_from("<II", self.map, 8)
        return min(n, n_max)

    def owner(self, index):
        """Whose ring it is; place and rank: of those who tell them here."""
        pid, _, place, rank = struct.unpack_from(
            "<QQ%dsI" % PLACE_NBYTES, self.map,
            HEAD_NBYTES + index * RING_NBYTES)
        return Owner(pid, place.rstrip(b"\0").decode("ascii"), rank)

    def count(self, index):
        """Stamps so far, also those that newer ones have replaced."""
        return struct.unpack_from(
            "<Q", self.map, HEAD_NBYTES + index * RING_NBYTES + 8)[0]

    def records(self, index, start, end):
        """Stamps of a ring by number, those that are there still."""
        at = HEAD_NBYTES + index * RING_NBYTES + RING_HEAD_NBYTES
        return [struct.unpack_from("<IIQQQ", self.map,
                                   at + RECORD_NBYTES * (i % RECORDS))
                for i in range(max(0, start, end - RECORDS), end)]

    def newest(self, pid, count=1):
        """The last `count` stamps of a process, oldest first."""
        for index in range(self.n_rings()):
            if self.owner(index).pid == pid:
                n = self.count(index)
                return self.records(index, n - count, n)
        return []

    def since(self, pid, ns):
        """The stamps of a process that are not older than ns."""
        found, count = [], 64
        while True:
            found = self.newest(pid, count)
            if len(found) < count or found[0][4] < ns:
                return [s for s in found if s[4] >= ns]
            count *= 4


class Follower:
    """The steps of every process, as far as looked at: {pid: [Step]}."""

    def __init__(self, stamps):
        self.stamps, self.steps, self.owners, self.read = stamps, {}, {}, {}

    def poll(self):
        for index in range(self.stamps.n_rings()):
            owner, end = self.stamps.owner(index), self.stamps.count(index)
            if owner.pid == 0:
                continue  # takes it just now
            found = self.stamps.records(index, self.read.get(index, 0), end)
            self.read[index] = end
            self.owners[owner.pid] = owner
            self.steps.setdefault(owner.pid, []).extend(
                Step(ns, world, size, number)
                for kind, size, world, number, ns in found if kind == STEP)


class Ring:
    """What one process stamps into. place: where it runs."""

    def __init__(self, path, place):
        with open(path, "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # against others of its kind
            self.map = mmap.mmap(file.fileno(), 0)
            magic, n_max, index = struct.unpack_from("<QII", self.map, 0)
            if magic != MAGIC or index >= n_max:
                raise OSError("%s: no ring is left, or no file of stamps"
                              % path)
            self.at = HEAD_NBYTES + index * RING_NBYTES
            struct.pack_into("<QQ%dsI" % PLACE_NBYTES, self.map, self.at,
                             os.getpid(), 0, place.encode("ascii"), 0)
            struct.pack_into("<I", self.map, 12, index + 1)
            # the map has a descriptor of its own, which would hold the lock
            fcntl.flock(file, fcntl.LOCK_UN)
        # one store each: pack_into would show zeros in between
        self.words = memoryview(self.map)[:len(self.map) & ~7].cast("Q")
        self.n = 0

    def set_rank(self, rank):
        struct.pack_into("<I", self.map, self.at + 16 + PLACE_NBYTES, rank)

    def stop_step(self):
        return self.words[3]

    def stamp(self, kind, size, world, step):
        struct.pack_into(
            "<IIQQQ", self.map, self.at + RING_HEAD_NBYTES +
            RECORD_NBYTES * (self.n % RECORDS), kind, size, world, step,
            time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.n += 1
        self.words[self.at // 8 + 1] = self.n
