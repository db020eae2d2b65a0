"""apart - run a program in namespaces that end with it, whatever happens to it.

run(function) plays it in a process whose network, mounts, processes, names and
IPC are its own: nothing of it is seen by the machine, and several can be beside
each other. Its /run is memory that goes with it; temporary files go there. The
first process of these namespaces ends when function does, when run's caller is
told to end, and also when that is killed with -9: then the kernel kills all
that is left in them, and no interface, mount, file or process stays behind.

missing() says what keeps hosts from being made here, or None.

Threads: call before any is started. Needs root.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
TOOLS = {"sshd": "openssh-server", "ssh": "openssh-client",
         "ssh-keygen": "openssh-client", "ip": "iproute2", "nft": "nftables",
         "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}

libc = ctypes.CDLL(None, use_errno=True)


def find(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "")
                        + ":/usr/sbin:/sbin")


def missing():
    """Why there can be no hosts here: a sentence; None: there can be."""
    lacking = sorted({package for tool, package in TOOLS.items()
                      if not find(tool)})
    if lacking:
        return "not installed: %s (scripts/bootstrap --cluster)" % (
            ", ".join(lacking))
    if os.geteuid() != 0:
        return "hosts are namespaces, which need root"
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t",
         "proc", "proc", "/proc"], capture_output=True, text=True, check=False)
    if done.returncode:
        return "no namespaces here: %s" % done.stderr.strip()
    return None


def must(status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what)


def furnish():
    """In the new namespaces: mounts that nobody else sees."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for command in (["mount", "--make-rprivate", "/"],
                    ["mount", "-t", "proc", "proc", "/proc"],
                    ["mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run"],
                    ["ip", "link", "set", "lo", "up"]):
        subprocess.run(command, check=True)
    os.mkdir("/run/hvd", 0o755)
    tempfile.tempdir = "/run/hvd"


def play(function):
    """The exit status of function, as that of a process."""
    try:
        status = function()
    except SystemExit as end:
        status = end.code
    except BaseException:  # it ends here, and must be seen
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    os._exit(int(status or 0))


def reap(child):
    """As the first process: wait for whoever is left to it until child ends."""
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)


def first(function, alive):
    """The life of the first process. alive: readable once its parent is gone,
    which may have been before it could ask to be told."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    os.set_blocking(alive, False)
    try:
        os.read(alive, 1)
        os._exit(1)
    except BlockingIOError:
        pass
    furnish()
    child = os.fork()
    if child == 0:
        play(function)
    reap(child)


def run(function):
    """function's exit status."""
    sys.stdout.flush()
    must(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
                      | CLONE_NEWNET), "unshare")
    alive, ours = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        first(function, alive)
    os.close(alive)

    def ended(number, _frame):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os._exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ended)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xff
