"""attack - where processes of hosts listen, and who floods them (flood.py)."""
import os
import subprocess
import sys

FLOOD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flood.py")


def program(pid):
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return ""


def sockets(pid):
    """Inodes of its sockets."""
    found = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            found.add(os.readlink("/proc/%d/fd/%s" % (pid, fd))[8:-1])
        except OSError:
            pass
    return found


def listens(cluster, i, pid):
    """TCP ports of IPv4 on which a process of host i listens."""
    mine = sockets(pid)
    rows = [line.split() for line in cluster.run(
        i, ["cat", "/proc/net/tcp"])[1].splitlines()[1:]]
    return [int(row[1].rpartition(":")[2], 16) for row in rows
            if row[3] == "0A" and row[9] in mine]


class Flood:
    """Of these addresses by host i, on this core alone."""

    def __init__(self, cluster, i, kind, addresses, core=None, n_least=0,
                 rate=0):
        pin = ["taskset", "-c", str(core)] if core is not None else []
        self.process = subprocess.Popen(
            cluster.enter(i) + pin + [sys.executable, FLOOD, kind,
                                      str(n_least), str(rate), *addresses],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self):
        return int(self.process.communicate()[0])
