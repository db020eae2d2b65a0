"""wire - sockets of libzmq that speak to a job's control sockets, or stand in a
driver's place, and messages of ours as bytes. Scenarios use it to say what no
dealer of ours would say.
"""
import contextlib
import ctypes
import hashlib
import socket
import struct
import threading

AGENT_HELLO, OUTPUT, HELLO = 1, 7, 32  # enum message_type
AGENT_WELCOME, AGENT_SHUTDOWN, WELCOME, SHUTDOWN = 16, 19, 48, 54

# how a worker greets another: magic and version of net/handshake.c
DATA_HELLO = b"HVDC\x07"


def pack(value):
    """msgpack, in its longest forms."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
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
    return derive(token, b"w", worker)


def prove(token, endpoint):
    """What somebody with this token says at this endpoint."""
    return hashlib.blake2b(b"h" + endpoint.encode(), digest_size=32,
                           key=token).digest()


def data_hello(job, generation, worker, peer, key):
    """From one worker to another, where gradients go (net/handshake.c), by who
    has the job's key and not the generation's."""
    said = DATA_HELLO + struct.pack(
        "<BBBQQQQ", 0, 1, 0, job, generation, worker,
        peer) + bytes(36)  # nonces, and the communicator
    member = hashlib.blake2b(said, digest_size=32, key=key).digest()
    return said + member[:20] + bytes(32)


def hello(job, worker, proof=bytes(32), port=1, more=None, connection=0):
    """more: a field that nobody knows."""
    return message(HELLO, {1: job, 4: worker},
                   {1: 4711, 2: proof, 3: "0", 4: "127.0.0.1", 5: port,
                    24: connection,
                    **({99: more} if more else {})})


def agent_hello(job, agent, proof, connection=0):
    return message(AGENT_HELLO, {1: job},
                   {1: agent, 2: "host", 3: 4711, 4: proof, 5: "0",
                    9: connection})


def output(job, worker, text, at):
    return message(OUTPUT, {1: job}, {1: worker, 2: 1, 4: text, 6: at,
                                       7: True})


# ---- keys -------------------------------------------------------------------

zmq = ctypes.CDLL("libzmq.so.5", use_errno=True)
zmq.zmq_ctx_new.restype = zmq.zmq_socket.restype = ctypes.c_void_p
KEY_NBYTES = 40  # in Z85, with a NUL behind it


def derive(secret, kind, number=0):
    """What belongs to a secret of the job: wire_token_derive()."""
    return hashlib.blake2b(kind + struct.pack("<Q", number), digest_size=32,
                           key=secret).digest()


def z85(key):
    text = ctypes.create_string_buffer(KEY_NBYTES + 1)
    zmq.zmq_z85_encode(text, key, ctypes.c_size_t(32))
    return text.value


def public_key(secret):
    """Of a secret key; both as bytes."""
    text = ctypes.create_string_buffer(KEY_NBYTES + 1)
    zmq.zmq_curve_public(text, z85(secret))
    key = ctypes.create_string_buffer(32)
    zmq.zmq_z85_decode(key, text.value)
    return key.raw


def driver_keys(secret):
    """(secret key, public key) of the driver with this secret."""
    key = derive(secret, b"d")
    return key, public_key(key)


# ---- sockets ----------------------------------------------------------------

DEALER, ROUTER = 5, 6
ROUTING_ID, LINGER, RCVTIMEO, LAST_ENDPOINT = 5, 17, 27, 32
CURVE_SERVER, CURVE_PUBLICKEY, CURVE_SECRETKEY, CURVE_SERVERKEY = 47, 48, 49, 50
DONTWAIT, SNDMORE, RCVMORE = 1, 2, 13


class Socket:
    """Of libzmq; of one thread at a time."""

    context = None

    def __init__(self, kind):
        if Socket.context is None:
            Socket.context = ctypes.c_void_p(zmq.zmq_ctx_new())
        self.socket = ctypes.c_void_p(zmq.zmq_socket(Socket.context, kind))
        self.set(LINGER, 0)

    def set(self, option, value):
        if isinstance(value, int):
            value = struct.pack("i", value)
        if zmq.zmq_setsockopt(self.socket, option, value, len(value)) != 0:
            raise OSError(ctypes.get_errno(), "zmq_setsockopt %d" % option)

    def get_text(self, option):
        text, n = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
        zmq.zmq_getsockopt(self.socket, option, text, ctypes.byref(n))
        return text.value.decode()

    def has_more(self):
        more, n = ctypes.c_int(0), ctypes.c_size_t(4)
        zmq.zmq_getsockopt(self.socket, RCVMORE, ctypes.byref(more),
                           ctypes.byref(n))
        return more.value != 0

    def put(self, body, flags=0):
        """False: it does not take it now."""
        return zmq.zmq_send(self.socket, body, ctypes.c_size_t(len(body)),
                            flags) >= 0

    def take(self, flags=0):
        """The frames of a message; None: there is none."""
        frames, room = [], ctypes.create_string_buffer(1 << 16)
        while not frames or self.has_more():
            n = zmq.zmq_recv(self.socket, room, ctypes.c_size_t(len(room)),
                             flags)
            if n < 0:
                return None
            frames.append(room.raw[:n])
        return frames

    def close(self):
        zmq.zmq_close(self.socket)


class Dealer(Socket):
    """Connected to a driver's endpoint. secrets: what its agent, or a worker,
    has inherited: (token, job's key, driver's key); None: without CURVE."""

    def __init__(self, endpoint, secrets=None, identity=b""):
        super().__init__(DEALER)
        if identity:
            self.set(ROUTING_ID, identity)
        if secrets:
            key = derive(secrets[0], b"g")
            self.set(CURVE_SERVERKEY, secrets[2])
            self.set(CURVE_PUBLICKEY, public_key(key))
            self.set(CURVE_SECRETKEY, key)
        zmq.zmq_connect(self.socket, endpoint.encode())

    def send(self, *bodies):
        for body in bodies:
            self.put(body)

    def receive(self):
        """The next message's body."""
        return self.take()[-1]


class Router(Socket):
    """In a driver's place. key: the driver's secret one; None: without CURVE."""

    def __init__(self, key=None):
        super().__init__(ROUTER)
        if key:
            self.set(CURVE_SERVER, 1)
            self.set(CURVE_SECRETKEY, key)
        zmq.zmq_bind(self.socket, b"tcp://127.0.0.1:*")
        self.endpoint = self.get_text(LAST_ENDPOINT)
        self.peer = None  # who spoke last

    def receive(self, timeout_s=None):
        """The next message's body, of anybody; None: none in that time."""
        self.set(RCVTIMEO, -1 if timeout_s is None else int(timeout_s * 1000))
        frames = self.take()
        if frames is None:
            return None
        self.peer = frames[0]
        return frames[-1]

    def send(self, *bodies):
        """To who spoke last."""
        for body in bodies:
            self.put(self.peer, SNDMORE)
            self.put(body)


class Flood:
    """The same message again and again, as fast as it is taken, from a thread
    of its own, until the block ends."""

    def __init__(self, sock, body):
        self.sock, self.body = sock, body
        self.n_sent, self.n_received, self.stopped = 0, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _put(self):
        peer = getattr(self.sock, "peer", None)
        if peer is not None and not self.sock.put(peer, DONTWAIT | SNDMORE):
            return False
        return self.sock.put(self.body, DONTWAIT)

    def _run(self):
        while not self.stopped:
            if self._put():
                self.n_sent += len(self.body)
            if self.sock.take(DONTWAIT) is not None:
                self.n_received += 1
        self.sock.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.stopped = True
        self.thread.join(30)


class RawFlood:
    """Bytes of no protocol, of somebody who dials again when he is dropped."""

    def __init__(self, endpoint, body):
        host, port = endpoint[6:].rsplit(":", 1)
        self.address, self.body = (host, int(port)), body
        self.n_sent, self.n_dialled, self.stopped = 0, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _once(self):
        with socket.create_connection(self.address, 30) as sock:
            self.n_dialled += 1
            while not self.stopped:
                self.n_sent += sock.send(self.body)

    def _run(self):
        while not self.stopped:
            with contextlib.suppress(OSError):
                self._once()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.stopped = True
        self.thread.join(30)
