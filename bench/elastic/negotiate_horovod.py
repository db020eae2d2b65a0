"""negotiate_horovod - what bench/negotiate_worker measures, of Horovod: the
gradients of a model by hvd.allreduce_async_, each rank in an order of its own.

  horovodrun --gloo -np 2 python negotiate_horovod.py COUNTS MODE NAP_US STEPS IDLE_S

COUNTS: elements of each tensor, with commas. MODE: shuffled, same, grouped.
hvd.synchronize spins until a call is done; with a nap it is asked and slept
between instead, which leaves the cores to the threads that work. Rank 0 prints
a line of JSON, with the words of negotiate_worker.
"""
import json
import random
import resource
import statistics
import sys
import time

import horovod
import horovod.torch as hvd
import torch

WARMUP = 5
CALLS = 100


def cpu_s():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def wakeups():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_nvcsw + r.ru_nivcsw


class Steps:
    def __init__(self, counts, mode, nap_us):
        self.mode, self.nap_s = mode, nap_us * 1e-6
        self.grads = [torch.full((n,), float(hvd.rank() + 1)) for n in counts]
        self.names = ["grad.%03d" % i for i in range(len(counts))]
        self.chance = random.Random(hvd.rank())

    def wait(self, handle):
        while self.nap_s and not hvd.poll(handle):
            time.sleep(self.nap_s)
        hvd.synchronize(handle)

    def step(self):
        """Seconds until all are posted, and until all are done."""
        order = list(range(len(self.grads)))
        if self.mode == "shuffled":
            self.chance.shuffle(order)
        begun = time.perf_counter()
        if self.mode == "grouped":
            handles = [hvd.grouped_allreduce_async_(self.grads, name="grads")]
        else:
            handles = [hvd.allreduce_async_(self.grads[i], name=self.names[i])
                       for i in order]
        posted = time.perf_counter()
        for handle in handles:
            self.wait(handle)
        return posted - begun, time.perf_counter() - begun

    def latency_us(self):
        one, took = torch.ones(1), []
        for _ in range(WARMUP + CALLS):
            begun = time.perf_counter()
            self.wait(hvd.allreduce_async_(one, name="one"))
            took.append(time.perf_counter() - begun)
        return statistics.median(took[WARMUP:]) * 1e6


def main(counts, mode, nap_us, n_steps, idle_s):
    torch.set_num_threads(1)
    hvd.init()
    steps = Steps([int(n) for n in counts.split(",")], mode, int(nap_us))
    first = steps.step()[1]
    want = (hvd.size() + 1) / 2
    assert all(abs(float(g.min()) - want) < 1e-4 and
               abs(float(g.max()) - want) < 1e-4 for g in steps.grads)
    for _ in range(1, WARMUP):
        steps.step()
    hvd.barrier()
    cpu = cpu_s()
    took = [steps.step() for _ in range(int(n_steps))]
    cpu = (cpu_s() - cpu) / int(n_steps)
    latency_us = steps.latency_us()
    hvd.barrier()
    idle_cpu, woken = cpu_s(), wakeups()
    time.sleep(float(idle_s))
    idle_cpu, woken = cpu_s() - idle_cpu, wakeups() - woken
    if hvd.rank() == 0:
        print(json.dumps({
            "system": "horovod", "version": horovod.__version__,
            "np": hvd.size(), "mode": mode, "tensors": len(steps.grads),
            "step_ms": statistics.median(t[1] for t in took) * 1e3,
            "step_ms_min": min(t[1] for t in took) * 1e3,
            "submit_ms": statistics.median(t[0] for t in took) * 1e3,
            "cpu_ms": cpu * 1e3, "first_ms": first * 1e3,
            "lat_us": latency_us, "idle_cpu_s": idle_cpu,
            "idle_wakeups": woken}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
