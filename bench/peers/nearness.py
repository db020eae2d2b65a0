"""nearness - whether the processors are near each other; bench/handover.h.

Where their host moves them apart now and then, every contestant waits for them
to be near, and what was measured while they were not is measured again.
"""
import mmap
import os
import struct
import subprocess
import tempfile
import time

VARIABLE = "BENCH_HANDOVER"
LEARN_S = 15      # until the watch has seen both, where there are two
PATIENCE_S = 20   # of a measurement, at most: bench/handover.c
PAGE = struct.Struct("@5Q")  # struct handover_page


class Watch:
    """Runs while it is entered; whoever is started then finds it."""

    def __init__(self, build):
        self.program = os.path.join(build, "bench/handover_watch")
        self.directory = self.process = self.page = None

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="compare.")
        path = os.path.join(self.directory.name, "handover")
        self.process = subprocess.Popen([self.program, path],
                                        stdin=subprocess.DEVNULL)
        until = time.monotonic() + LEARN_S
        while self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        if os.path.exists(path):
            os.environ[VARIABLE] = path
            with open(path, "rb") as file:
                self.page = mmap.mmap(file.fileno(), PAGE.size,
                                      prot=mmap.PROT_READ)
        return self

    def __exit__(self, *_):
        os.environ.pop(VARIABLE, None)
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()

    def result(self):
        """Looks, how many of them found the processors far apart, the least
        time of a line there and back in ns; None: nobody could look."""
        if self.page is None:
            return None
        looks, far, _, least_ns, _ = PAGE.unpack(self.page[:PAGE.size])
        return {"looks": looks, "far": far, "least_ns": least_ns} \
            if looks else None
