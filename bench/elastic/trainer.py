"""trainer - what a step of the workers written in Python is, the one of
recovery_worker.c: they sleep instead of computing, allreduce a gradient, and
stamp that.

Without a generation's number in their framework, rank 0 makes one up when it
enters, the time, and gives it to the others in the first element of the
gradient: no message but those that are there anyway.
"""
import mmap
import os
import time

import stamps

TAG_MAX = 1 << 23  # float32 holds it, and its sum with zeros


def held_memory():
    """What RECOVERY_MEMORY asks for, as recovery_worker.c holds it."""
    nbytes = int(os.environ.get("RECOVERY_MEMORY", "0"))
    if nbytes == 0:
        return None
    memory = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    page = bytes([1]) * mmap.PAGESIZE
    for at in range(0, nbytes, mmap.PAGESIZE):
        memory[at:at + mmap.PAGESIZE] = page[:nbytes - at]
    return memory


class Trainer:
    """arguments: STAMPS STATE_BYTES GRADIENT_BYTES STEP_US COMMIT_EVERY"""

    def __init__(self, arguments, place):
        state, gradient, step_us, self.commit_every = map(int, arguments[1:])
        self.ring = stamps.Ring(arguments[0], place)
        self.n_state, self.n_gradient = state // 4, gradient // 4
        self.step_s = step_us / 1e6
        self.rank = self.size = self.tag = 0
        self.memory = held_memory()

    def stop_step(self):
        return self.ring.stop_step()

    def enter(self, rank, size):
        """The training function was called."""
        self.rank, self.size = rank, size
        self.tag = int(time.monotonic() * 100) % TAG_MAX + 1
        self.ring.set_rank(rank)
        self.ring.stamp(stamps.ENTER, size, 0, 0)

    def compute(self, gradient):
        gradient.fill_(self.rank + 1)
        gradient[0] = 0 if self.rank else self.tag
        time.sleep(self.step_s)

    def stepped(self, gradient, number):
        """The gradient is everybody's sum."""
        world, end = int(gradient[0]), int(gradient[-1])
        if end != self.size * (self.size + 1) // 2 and len(gradient) > 1:
            raise SystemExit("WRONG: the sum of step %d is %d" % (number, end))
        self.ring.stamp(stamps.STEP, self.size, world, number)
