"""disturbed - a job that is disturbed while it trains: what bench/recovery does
to everybody's alike, and how it sees what came of it.

A subclass starts the job and says how its hosts come and go; its workers stamp
their steps (stamps.py). A *place* is a host, by name.
"""
import bisect
import sys
import tempfile

import stamps
import worlds

NP = 4  # places, each with one worker
PROCESSES_MAX = 256  # in the life of one job


def new_directory():
    """In memory: stamps and snapshots are no test of a disk."""
    return tempfile.mkdtemp(prefix="hvd-recovery-", dir="/dev/shm")


class Disturbed:
    """with job: it runs."""

    replaces = True  # a worker that was killed comes back by itself

    def watch(self, its_stamps):
        self.stamps = its_stamps
        self.follower = stamps.Follower(its_stamps)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- what a subclass does ------------------------------------------------

    def start(self):
        raise NotImplementedError

    def stop(self):
        """Leaves nothing behind."""
        raise NotImplementedError

    def ended(self):
        """True: its launcher has ended, which no event asks for."""
        raise NotImplementedError

    def said(self):
        """The last lines of its output."""
        raise NotImplementedError

    def add_host(self):
        """One more that was never there."""
        raise NotImplementedError

    def remove_host(self, place):
        raise NotImplementedError

    def restore(self, n):
        """After a kill: what gets it back the n workers that are missing, where
        it does not do so by itself."""

    # ---- what its workers say ------------------------------------------------

    def place_of(self, pid):
        return self.follower.owners[pid].place

    def rank_of(self, pid):
        return self.follower.owners[pid].rank

    def steps(self, since_ns=0):
        """{place: [Step]} since then."""
        self.follower.poll()
        found = {}
        for pid, own in self.follower.steps.items():
            place = self.place_of(pid)
            if place:
                found.setdefault(place, []).extend(
                    own[bisect.bisect_left(own, (since_ns,)):])
        for own in found.values():
            own.sort()
        return found

    def whole(self, since_ns, size, n_steps):
        """The newest world, once it is of this size and each of its members
        has done so many steps; None before."""
        steps = self.steps(since_ns)
        world = worlds.newest(steps)
        if world and world.size == size \
                and worlds.least(steps, world.number) >= n_steps:
            return world
        return None

    def members(self, world):
        """{rank: (place, pid)} of a world that lasts."""
        return {self.rank_of(pid): (self.place_of(pid), pid)
                for pid, own in self.follower.steps.items()
                if own and own[-1].world == world.number}
