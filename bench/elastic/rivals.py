"""rivals - jobs of Horovod and of torchrun that bench/recovery disturbs.

Each of four hosts, names of this machine, has one worker. Of Horovod a host is
a line of its discovery script. torchrun has no hosts: one is an agent, which
joins when it is started, and leaves at a SIGTERM.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "peers"),
                os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts")]
import disturbed  # noqa: E402
import frameworks  # noqa: E402
import job as jobs  # noqa: E402
import launch  # noqa: E402
import stamps  # noqa: E402

MARK = "RECOVERY_MARK"
# Removes the semaphores of Python's processes from /dev/shm, once they have
# ended, and then itself.
TRACKER = b"multiprocessing.resource_tracker"
TRACKER_S = 5
AGENT = "agent %d"
# Spellings of 127.0.0.1, which Horovod takes for hosts of their own.
HOSTS = ["localhost", "127.0.0.1", "127.1", "127.0.1", *(
    "localhost"[:i] + "LOCALHOST"[i:] for i in range(9))]


class Rival(disturbed.Disturbed):
    """settings: what is different from how it is shipped, as environment
    variables, some of which its launcher here reads (horovodrun.py,
    torchrun.py)."""

    def __init__(self, options, settings):
        self.directory = disturbed.new_directory()
        self.watch(stamps.Stamps(os.path.join(self.directory, "stamps"),
                                 disturbed.PROCESSES_MAX))
        self.options = options
        self.log = open(os.path.join(self.directory, "log"), "ab+")
        self.processes = []
        self.environment = {
            key: value for key, value in os.environ.items()
            if not key.startswith(("HVD_", "HOROVOD_", "TORCH"))}
        self.environment.update(settings, **{
            MARK: self.directory, "TMPDIR": self.directory,
            "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1"})

    def trainer(self, name):
        options = self.options
        return [os.path.join(HERE, name), *(str(word) for word in (
            self.stamps.path, options.state, options.gradient,
            options.step_us, options.commit_every))]

    def spawn(self, command, **environment):
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, env=dict(self.environment, **environment),
            cwd=self.directory, start_new_session=True)
        self.processes.append(process)
        return process

    def stop(self):
        mark = ("%s=%s" % (MARK, self.directory)).encode()
        launch.end_all(self.processes, mark, TRACKER)
        until = time.monotonic() + TRACKER_S
        while launch.marked(mark) and time.monotonic() < until:
            time.sleep(0.05)
        launch.end_all(self.processes, mark)
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def said(self):
        self.log.seek(0)
        text = self.log.read().decode("utf-8", "replace")
        return text.splitlines()[-20:]


class Horovod(Rival):
    # The host of a worker that failed is not used any more, and others there
    # are not: a host that was never there has to be listed.
    replaces = False

    def start(self):
        self.left = list(HOSTS)
        self.hosts = [self.left.pop(0) for _ in range(disturbed.NP)]
        script = os.path.join(self.directory, "hosts.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexec cat %s/hosts\n" % self.directory)
        os.chmod(script, 0o755)
        self._list()
        python = frameworks.interpreter(self.options.build, "horovod")
        self.spawn([python, os.path.join(HERE, "horovodrun.py"), "-np",
                    str(disturbed.NP), "--min-np", "2", "--max-np",
                    str(disturbed.NP), "--host-discovery-script", script,
                    "--network-interfaces", "lo", python,
                    *self.trainer("train_horovod.py")])

    def _list(self):
        path = os.path.join(self.directory, "hosts")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write("".join("%s:1\n" % host for host in self.hosts))
        os.rename(path + ".new", path)

    def ended(self):
        return self.processes[0].poll() is not None

    def add_host(self):
        self.hosts.append(self.left.pop(0))
        self._list()

    def remove_host(self, place):
        self.hosts.remove(place)
        self._list()

    def restore(self, n):
        for _ in range(n):
            self.add_host()


class Torchrun(Rival):
    """python: the one that has the PyTorch."""

    def __init__(self, options, settings, python):
        super().__init__(options, settings)
        self.python = python
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.agents = {}  # place -> Popen

    def start(self):
        for _ in range(disturbed.NP):
            self.add_host()

    def add_host(self):
        place = AGENT % len(self.processes)
        is_host = len(self.processes) == 0  # of the store where all meet
        self.agents[place] = self.spawn([
            self.python, os.path.join(HERE, "torchrun.py"),
            "--nnodes=2:%d" % disturbed.NP, "--nproc_per_node=1",
            "--max_restarts=100", "--rdzv_id=recovery", "--rdzv_backend=c10d",
            "--rdzv_endpoint=127.0.0.1:%d" % self.port,
            "--rdzv_conf=is_host=%d" % is_host,
            *self.trainer("train_torchrun.py"),
            os.path.join(self.directory, "checkpoint")],
            RECOVERY_PLACE=place, GLOO_SOCKET_IFNAME="lo")

    def remove_host(self, place):
        jobs.kill(self.agents.pop(place).pid, signal.SIGTERM)

    def ended(self):
        return any(agent.poll() is not None for agent in self.agents.values())
