#!/usr/bin/env python3
"""flood.py KIND N RATE ADDRESS:PORT ... - connects RATE times a second, 0: as
fast as it can, until its stdin ends and it has N times: silent (and stays), byte
(says one, and stays), junk (80 bytes, and goes), long (64 KiB of which each number
is the largest there is, and stays), churn (goes at once). Says how often it has."""
import errno
import os
import select
import socket
import struct
import sys
import time

HELD = {"silent": 4000, "byte": 4000, "junk": 200, "long": 200, "churn": 200}
SAID = {"silent": b"", "byte": b"H", "junk": None, "long": b"\xff" * 65536,
        "churn": b""}
AT_ONCE = 100


def dial(address):
    """None: there is no port left here."""
    host, _, port = address.rpartition(":")
    sock = socket.socket()
    sock.setblocking(False)
    # a reset leaves no port behind for a minute
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                    struct.pack("ii", 1, 0))
    if sock.connect_ex((host, int(port))) in (0, errno.EINPROGRESS):
        return sock
    sock.close()
    return None


def say(sock, text):
    try:
        sock.send(os.urandom(80) if text is None else text)
    except OSError:
        pass  # not connected yet, or closed


def main():
    kind, addresses = sys.argv[1], sys.argv[4:]
    n_least, rate = map(int, sys.argv[2:4])
    began = time.monotonic()
    held, new, n = [], [], 0
    while n < n_least or not select.select([sys.stdin], [], [], 0)[0]:
        before, new = new, [sock for sock in (
            dial(addresses[i % len(addresses)])
            for i in range(AT_ONCE)) if sock]
        n += len(new)
        for sock in before if SAID[kind] != b"" else ():
            say(sock, SAID[kind])
        held += new
        for sock in held[:max(0, len(held) - HELD[kind])]:
            sock.close()
        if rate:
            time.sleep(max(0, began + n / rate - time.monotonic()))
        del held[:max(0, len(held) - HELD[kind])]
    print(n)


if __name__ == "__main__":
    main()
