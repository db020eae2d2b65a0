"""listen - everything that passes a switch, in a file.

usage: listen.py FILE      in the switch's network; ends when it is told to

Frames of all interfaces as they come in, one after the other. Says "ready" when
it listens, and at its end how many frames the kernel had no room for.
"""
import signal
import socket
import struct
import sys

ETH_P_ALL = 3
PACKET_OUTGOING = 4
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_RCVBUFFORCE = 33


def main():
    listening = [True]

    def told(_number, _frame):
        listening[0] = False
    signal.signal(signal.SIGTERM, told)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                         socket.htons(ETH_P_ALL))
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 128 << 20)
    wire.settimeout(0.1)
    print("ready", flush=True)
    with open(sys.argv[1], "wb") as file:
        while listening[0]:
            try:
                frame, where = wire.recvfrom(1 << 17)
            except TimeoutError:
                continue
            if where[2] != PACKET_OUTGOING:
                file.write(frame)
    print(struct.unpack("II", wire.getsockopt(
        SOL_PACKET, PACKET_STATISTICS, 8))[1])


if __name__ == "__main__":
    main()
