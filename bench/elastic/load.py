"""load - how many processors others use while something is measured.

What this process and all that it starts use is counted by a control group,
which only root can make; what all use, and what the machine's own host takes,
is in /proc/stat.
"""
import os
import time

# controller in /proc/self/cgroup, where, a file there, and its unit
HIERARCHIES = (("cpuacct", "/sys/fs/cgroup/cpuacct", "cpuacct.usage", 1e9),
               ("", "/sys/fs/cgroup", "cpu.stat", 1e6))
QUIET = 0.25  # processors
LOOK_S = 1.0
REMOVE_S = 2.0


def busy_s(line):
    """Seconds that all processors were busy: the first line of /proc/stat."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / \
        os.sysconf("SC_CLK_TCK")


def used_s(text, unit):
    """Seconds, from the file of a control group."""
    return int(text.split()[1 if text.startswith("usage") else 0]) / unit


def own_group(text, controller):
    """Which group of this hierarchy a process is in, by its
    /proc/self/cgroup; None: there is none."""
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path.strip("/")
    return None


def _move(group):
    """This process; what it starts follows."""
    with open(os.path.join(group, "cgroup.procs"), "r+",
              encoding="ascii") as file:
        file.write(str(os.getpid()))


def _remove(group):
    """Waits for processes of ours that are ending still."""
    until = time.monotonic() + REMOVE_S
    while time.monotonic() < until:
        try:
            os.rmdir(group)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)


class Load:
    """with load: the processors others use can be told, if anybody may."""

    def __init__(self):
        self.home = self.group = self.file = None

    def __enter__(self):
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            groups = file.read()
        for controller, root, name, unit in HIERARCHIES:
            path = own_group(groups, controller)
            if path is not None and not self.group:
                self._enter(os.path.join(root, path), name, unit)
        self.mark()
        return self

    def _enter(self, home, name, unit):
        group = os.path.join(home, "recovery.%d" % os.getpid())
        try:
            os.mkdir(group)
            _move(group)
        except OSError:
            _remove(group)
            return
        self.home, self.group, self.unit = home, group, unit
        self.file = os.path.join(group, name)

    def __exit__(self, *_):
        if self.group:
            _move(self.home)
            _remove(self.group)
            self.group = None

    def _now(self):
        with open("/proc/stat", encoding="ascii") as file:
            busy = busy_s(file.readline())
        with open(self.file, encoding="ascii") as file:
            return time.monotonic(), busy - used_s(file.read(), self.unit)

    def mark(self):
        self.since = self._now() if self.group else None

    def foreign(self):
        """Processors that others have used since mark(), None: unknown."""
        if not self.group:
            return None
        (start, before), (end, after) = self.since, self._now()
        return round(max(0, after - before) / max(end - start, 0.01), 2)

    def wait_quiet(self, patience_s):
        """Until others hardly use anything, or patience is at an end."""
        until = time.monotonic() + patience_s
        while self.group and time.monotonic() < until:
            self.mark()
            time.sleep(LOOK_S)
            if self.foreign() < QUIET:
                return
