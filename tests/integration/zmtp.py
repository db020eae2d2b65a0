"""zmtp - as much of ZeroMQ's protocol (ZMTP 3.0, no encryption) as a stranger
needs to talk to a control socket, or to stand in a driver's place; and messages
of ours as bytes. Scenarios use it to say what no dealer of ours would say.
"""
import contextlib
import hashlib
import socket
import struct
import threading

GREETING = (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0")
            + b"\0" + bytes(31))
MORE, LONG, COMMAND = 1, 2, 4
AGENT_HELLO, OUTPUT, HELLO = 1, 7, 32  # enum message_type
AGENT_WELCOME, AGENT_SHUTDOWN, WELCOME, SHUTDOWN = 16, 19, 48, 54


def frame(body, flags=0):
    if len(body) > 255:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


def ready(kind, identity):
    def field(name, value):
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return frame(b"\x05READY" + field(b"Socket-Type", kind)
                 + field(b"Identity", identity), COMMAND)


def pack(value):
    """msgpack, in its longest forms."""
    if value is None:
        return b"\xc0"
    if isinstance(value, int):
        return struct.pack(">BQ", 0xcf, value)
    if isinstance(value, str):
        return struct.pack(">BB", 0xd9, len(value)) + value.encode()
    if isinstance(value, bytes):
        return struct.pack(">BB", 0xc4, len(value)) + value
    if isinstance(value, dict):
        return struct.pack(">BH", 0xde, len(value)) + b"".join(
            pack(key) + pack(item) for key, item in value.items())
    return struct.pack(">BH", 0xdc, len(value)) + b"".join(map(pack, value))


def message(kind, envelope, body):
    return pack([1, kind, envelope, body])


def token_of_worker(token, worker):
    """What its agent, which has `token`, hands over to a worker."""
    return hashlib.blake2b(b"w" + struct.pack("<Q", worker), digest_size=32,
                           key=token).digest()


def prove(token, endpoint):
    """What somebody with this token says at this endpoint."""
    return hashlib.blake2b(b"h" + endpoint.encode(), digest_size=32,
                           key=token).digest()


def data_hello(job, generation, worker, peer, key):
    """From one worker to another, where gradients go (net/handshake.c), by who
    has the job's key and not the generation's."""
    said = struct.pack("<4sHBBQQQQ", b"HVDC", 3, 1, 0, job, generation, worker,
                       peer) + bytes(32)
    member = hashlib.blake2b(said, digest_size=32, key=key).digest()
    return said + member[:24] + bytes(32)


def hello(job, worker, proof=bytes(32), port=1, more=None):
    """more: a field that nobody knows."""
    return message(HELLO, {1: job, 4: worker},
                   {1: 4711, 2: proof, 3: "0", 4: "127.0.0.1", 5: port,
                    **({99: more} if more else {})})


def agent_hello(job, agent, proof):
    return message(AGENT_HELLO, {1: job},
                   {1: agent, 2: "host", 3: 4711, 4: proof, 5: "0"})


def output(job, worker, text):
    return message(OUTPUT, {1: job}, {1: worker, 2: 1, 4: text})


class Connection:
    """One that has shaken hands. kind: DEALER, or ROUTER in a driver's place."""

    def __init__(self, sock, kind=b"DEALER", identity=b""):
        self.sock, self.rest = sock, b""
        sock.sendall(GREETING + ready(kind, identity))
        self._take(len(GREETING))
        self._frame()

    def close(self):
        self.sock.close()

    def _take(self, n):
        while len(self.rest) < n:
            got = self.sock.recv(1 << 16)
            if not got:
                raise ConnectionError("closed by the peer")
            self.rest += got
        taken, self.rest = self.rest[:n], self.rest[n:]
        return taken

    def _frame(self):
        flags, n = self._take(2)
        if flags & LONG:
            n = struct.unpack(">Q", bytes([n]) + self._take(7))[0]
        return flags, self._take(n)

    def send(self, *bodies):
        self.sock.sendall(b"".join(map(frame, bodies)))

    def receive(self):
        """The next message's body."""
        while True:
            flags, body = self._frame()
            if not flags & COMMAND:
                return body


def dial(endpoint, identity=b""):
    """endpoint: tcp://127.0.0.1:4711"""
    host, port = endpoint[6:].rsplit(":", 1)
    sock = socket.create_connection((host, int(port)))
    return Connection(sock, identity=identity)


class Flood:
    """The same messages again and again on a connection, as fast as it takes
    them, from a thread of its own, until the block ends or its peer has."""

    def __init__(self, connection, *bodies):
        frames = b"".join(map(frame, bodies))
        self.bytes = frames * (1 + (1 << 20) // len(frames))
        self.connection, self.n_sent, self.stopped = connection, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while not self.stopped:
                self.n_sent += self.connection.sock.send(self.bytes)
        except OSError:
            pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.stopped = True
        with contextlib.suppress(OSError):  # its peer has ended
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(30)
        self.connection.close()
