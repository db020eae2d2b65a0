#!/usr/bin/env python3
"""replay.py FILE ADDRESS:PORT ... - says each text of the file, a line of
hexadecimal digits, at each address, on a connection of its own, and waits a
while for what comes back. Says for each of these connections how many bytes
have, and whether it has ended: "nbytes open" or "nbytes ended"."""
import select
import socket
import sys
import time

PATIENCE_S = 8  # silence is no answer either


def dial(address, text):
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    sock.sendall(text)
    return sock


def read(sock):
    try:
        return sock.recv(1 << 16)
    except OSError:
        return b""  # a reset


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        texts = [bytes.fromhex(line) for line in file.read().split()]
    said = [dial(address, text) for text in texts for address in sys.argv[2:]]
    nbytes, living = dict.fromkeys(said, 0), set(said)
    until = time.monotonic() + PATIENCE_S
    while living and time.monotonic() < until:
        for sock in select.select(list(living), [], [], 0.1)[0]:
            text = read(sock)
            nbytes[sock] += len(text)
            if not text:
                living.remove(sock)
    for sock in said:
        print(nbytes[sock], "open" if sock in living else "ended")


if __name__ == "__main__":
    main()
