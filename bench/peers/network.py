"""network - a network of one's own, where everybody has the same congestion
control.

What a socket starts with is the default of its network namespace. So a
namespace is made with a loopback and that default, and whoever shall have it is
started inside; the machine's own settings are never touched, and the namespace
ends with the last process in it. Takes root.
"""
import ctypes
import fcntl
import os
import socket
import struct

CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"
HERE = "/proc/self/ns/net"
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP, IFF_RUNNING = 0x1, 0x40


def default_control():
    """The machine's congestion control; "" if that cannot be read."""
    try:
        with open(CONTROL, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def controls():
    """Those that the kernel has by now."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control",
              encoding="ascii") as file:
        return file.read().split()


def _call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, "%s: %s" % (name, os.strerror(error)))


def _loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS,
                    struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING))


class Namespace:
    """with namespace: what is started here has its loopback and its congestion
    control. OSError on creation: not allowed, or no such control."""

    def __init__(self, control):
        self.control = control
        self.home = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
        _call("unshare", CLONE_NEWNET)
        try:
            _loopback_up()
            with open(CONTROL, "w", encoding="ascii") as file:
                file.write(control)
            self.other = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _call("setns", self.home, CLONE_NEWNET)

    def __enter__(self):
        _call("setns", self.other, CLONE_NEWNET)

    def __exit__(self, *_):
        _call("setns", self.home, CLONE_NEWNET)
