"""test_strangers - somebody who has no business here connects to a job's ports,
and says nothing, or garbage, or what is meant for another job, without end. The
job goes on as if nobody were there: deaths, silence and signals are noticed, and
nobody is blamed for it.
"""
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import wire
from harness import (HEARTBEAT_S, LOCAL, OTHER, PATIENCE_S, SILENCE_S, SLOW,
                     alone, check, copy_program, equal, main, scenario)
import job as jobs

TOKEN = bytes(range(1, 33))
DRIVER = bytes(range(2, 34))  # the secret of a driver that is none
BOTH = ("localhost:2", "127.0.0.2:2")
NP = ["-np", "4", "--min-np", "1", "--max-np", "4"]
SILENT = 300         # connections to each port: more than may wait there
PROMPTLY_S = 0.9 * HEARTBEAT_S
# to look through these takes longer than to receive them
GARBAGE = wire.pack([None] * 4000)
FOREIGN = wire.hello(job=4711, worker=1, more=[None] * 3800)
SAID_OF = {GARBAGE: "message of 4003 bytes", FOREIGN: "of another job"}


# ---- where they can be reached ----------------------------------------------

def variable(pid, name):
    """Of the environment that the process was started with."""
    for entry in jobs.environment_of(pid):
        key, _, value = entry.decode(errors="replace").partition("=")
        if key == name:
            return value
    return None


def agent(run, host=LOCAL):
    return run.seen("agent_started", host=host)[-1]["pid"]


def endpoint(run, name="HVD_DRIVER"):
    return variable(agent(run), name)


def bug_agents(stage):
    """From now on a script stands before the agents that tells us what they
    have inherited, and no stranger knows."""
    real, stage.build = stage.build, os.path.join(stage.root, "bugged")
    for part in ("driver", "agent"):
        os.makedirs(os.path.join(stage.build, "src/elastic", part))
    copy_program(os.path.join(real, "src/elastic/driver/hvd-elastic"),
                 os.path.join(stage.build, "src/elastic/driver"))
    stage.file("bugged/src/elastic/agent/hvd-agent", """#!/bin/sh
cat /proc/self/fd/$HVD_SECRET_FD > %s/secrets.$HVD_HOST
if [ -n "$FORGE" ] && [ $HVD_HOST = %s ]; then
    ( %s -B %s forge %s & ) >/dev/null 2>&1
    while [ ! -e %s/forging ]; do sleep 0.02; done
fi
exec %s/src/elastic/agent/hvd-agent
""" % (stage.root, OTHER, sys.executable, os.path.abspath(__file__),
       stage.root, stage.root, real))


def secrets(stage, host):
    """(token, the job's key, the driver's key) of the agent there."""
    return read_secrets(os.path.join(stage.root, "secrets." + host))


def read_secrets(path):
    with open(path, "rb") as file:
        words = file.read()
    return words[:32], words[32:64], words[64:]


def token(stage, host):
    return secrets(stage, host)[0]


def listening(pids):
    """(address, port) of each TCP socket that these listen on."""
    inodes = {inode for pid in pids for inode in jobs.sockets_of(pid)}
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return [("127.0.0.1", int(row[1].split(":")[1], 16)) for row in rows
            if row[3] == "0A" and row[9] in inodes]


# ---- strangers --------------------------------------------------------------

class Silent:
    """So many connections to every data port of a job, also of those who come
    later; who is closed comes back."""

    def __init__(self, run, n):
        self.run, self.n = run, n
        self.open = {}       # address -> sockets
        self.n_closed = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _dial(self, address):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        return sock

    def _is_closed(self, sock):
        try:
            return sock.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _look_after(self, address):
        kept = []
        for sock in self.open.get(address, []):
            if self._is_closed(sock):
                sock.close()
                self.n_closed += 1
            else:
                kept.append(sock)
        while len(kept) < self.n:
            kept.append(self._dial(address))
        self.open[address] = kept

    def _work(self):
        while not self.stopped.is_set():
            ports = listening(pid for pid in self.run.processes()
                              if variable(pid, "HVD_WORKER"))
            for address in ports:
                self._look_after(address)
            for address in set(self.open) - set(ports):
                for sock in self.open.pop(address):
                    sock.close()
            self.stopped.wait(0.05)

    def settled(self):
        """All places where connections wait have been fought for."""
        return len(self.open) >= 4 and self.n_closed > 0

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.stopped.set()
        self.thread.join(30)
        for sockets in self.open.values():
            for sock in sockets:
                sock.close()


def floods(stage, run, body, name="HVD_DRIVER"):
    """Of somebody who has an agent's key: nobody else is heard at all. With a
    sanitizer one is as much as the driver can read."""
    n = 2 if SLOW == 1 else 1
    return [wire.Flood(wire.Dealer(endpoint(run, name), secrets(stage, OTHER)),
                       body) for _ in range(n)]


class All:
    """Several blocks as one."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def __enter__(self):
        for block in self.blocks:
            block.__enter__()
        return self

    def __exit__(self, *what):
        for block in self.blocks:
            block.__exit__(*what)


# ---- a job among them -------------------------------------------------------

def start(stage, options=(), program=(), **environment):
    run = stage.start([*NP, *options], program, hosts=BOTH, **environment)
    run.whole(4)
    run.epoch(0)
    return run


def lose_one(run):
    """kill -9; the survivors go on in their processes, and nobody else goes."""
    before, mark, row = run.pids().values(), run.mark(), run.row(rank=2)
    killed = time.monotonic()
    jobs.kill(row["pid"], signal.SIGKILL)
    run.until("the survivors training", lambda: run.running(
        mark, None, {row["worker"]}), PATIENCE_S)
    took = time.monotonic() - killed
    after = [r["pid"] for r in run.whole(4, mark, {row["worker"]})["ranks"]]
    equal(len(set(before) & set(after)), 3, "surviving processes")
    equal([e["worker"] for e in run.seen("worker_lost", mark)],
          [row["worker"]], "workers lost")
    return took


def finish(run):
    run.allow(3)
    run.ends(0)
    run.agrees(4)


@scenario
def silent_at_every_data_port(stage):
    run = start(stage, HVD_TRANSPORT="tcp")
    with Silent(run, SILENT) as strangers:
        run.until("strangers that were closed", strangers.settled, PATIENCE_S)
        for _ in range(3):
            stage.note("recovered in %.3f s" % lose_one(run))
        stage.note("%d were closed" % strangers.n_closed)
        finish(run)


@alone
def two_thousand_silent_at_every_data_port(stage):
    """More than the kernel lets wait while nobody looks."""
    run = start(stage, HVD_TRANSPORT="tcp")
    with Silent(run, 2000) as strangers:
        run.until("strangers that were closed", strangers.settled, PATIENCE_S)
        stage.note("recovered in %.3f s" % lose_one(run))
        stage.note("%d were closed" % strangers.n_closed)
        finish(run)


def data_ports(run):
    """(worker, address, port) of each."""
    return [(int(variable(pid, "HVD_WORKER")), *listening([pid])[0])
            for pid in run.processes() if variable(pid, "HVD_WORKER")]


def greet(run, port, n, key):
    """n connections that say they are far ahead of it."""
    worker, *address = port
    job = int(variable(agent(run), "HVD_JOB"))
    socks = []
    for _ in range(n):
        sock = socket.create_connection(tuple(address))
        sock.sendall(wire.data_hello(job, 1 << 60, 1, worker, key))
        socks.append(sock)
    return socks


def awaits_close(sock, until):
    sock.settimeout(max(0.01, until - time.monotonic()))
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@scenario
def ahead_at_every_data_port(stage):
    """They say that they wait for a generation that a worker has yet to be told
    of: who has no key of the job does not, and keeps nobody out."""
    bug_agents(stage)
    run = start(stage, HVD_TRANSPORT="tcp")
    key = secrets(stage, LOCAL)[1]
    ports = data_ports(run)
    equal(len(ports), 4, "workers that listen")
    strangers = [sock for port in ports
                 for sock in greet(run, port, 100, bytes(32))]
    until = time.monotonic() + 8  # who waits may wait 10 s
    equal([sock for sock in strangers if not awaits_close(sock, until)], [],
          "strangers that were kept")
    member = greet(run, ports[0], 1, key)[0]
    check(not awaits_close(member, time.monotonic() + 0.5),
          "who has the key waits")
    strangers += [sock for port in ports
                  for sock in greet(run, port, 100, bytes(32))]
    stage.note("recovered in %.3f s" % lose_one(run))
    finish(run)
    for sock in [member, *strangers]:
        sock.close()


@alone
def silent_at_the_drivers_ports(stage):
    """They do not even say that they speak ZeroMQ."""
    run = start(stage)
    strangers = []
    for name in ("HVD_DRIVER", "HVD_OUTPUT"):
        host, port = endpoint(run, name)[6:].rsplit(":", 1)
        strangers += [socket.create_connection((host, int(port)))
                      for _ in range(SILENT)]
    stage.note("recovered in %.3f s" % lose_one(run))
    finish(run)
    for sock in strangers:
        sock.close()


@alone
def silent_until_the_driver_has_no_descriptor(stage):
    """Who is there trains on; discovery cannot be asked, which is said now and
    then. Who comes waits until the strangers have gone."""
    run = start(stage)
    pid, row = run.process.pid, run.row(rank=2)
    most = len(os.listdir("/proc/%d/fd" % pid)) + 20
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    host, port = endpoint(run)[6:].rsplit(":", 1)
    strangers = [socket.create_connection((host, int(port)))
                 for _ in range(SILENT)]
    run.until("no descriptor is left", lambda: len(os.listdir(
        "/proc/%d/fd" % pid)) == most, PATIENCE_S)
    mark, killed = run.mark(), time.monotonic()
    jobs.kill(row["pid"], signal.SIGKILL)
    run.until("the survivors training", lambda: run.running(
        mark, 3, {row["worker"]}), PATIENCE_S)
    took = time.monotonic() - killed
    stage.note("recovered in %.3f s" % took)
    check(took < PROMPTLY_S, "the survivors trained after %g s" % took)
    # a script that ran already has its descriptors: only the next one fails
    run.says("discovery failed")
    for sock in strangers:
        sock.close()
    run.whole(4, mark, {row["worker"]})
    equal([e["worker"] for e in run.seen("worker_lost", mark)],
          [row["worker"]], "workers lost")
    failures = [line for line in run.lines if "discovery failed" in line]
    check(0 < len(failures) < 10, "lines", failures)
    finish(run)


def loses_one_in_a_flood(stage, body, name="HVD_DRIVER"):
    bug_agents(stage)
    run = start(stage)
    with All(*floods(stage, run, body, name)) as flood:
        run.says(SAID_OF[body])  # it is there
        took = lose_one(run)
        finish(run)
    stage.note("%.3f s, %d MB" % (took, sum(
        one.n_sent for one in flood.blocks) >> 20))
    check(took < PROMPTLY_S, "the survivors trained after %g s" % took)
    return run


@alone
def garbage_at_the_driver(stage):
    """It is said, once in a while."""
    run = loses_one_in_a_flood(stage, GARBAGE)
    said = [line for line in run.errors if SAID_OF[GARBAGE] in line]
    check(1 <= len(said) <= 20, "lines about it:", said[:20])


@alone
def words_of_another_job_at_the_driver(stage):
    run = loses_one_in_a_flood(stage, FOREIGN)
    said = [line for line in run.errors if SAID_OF[FOREIGN] in line]
    check(1 <= len(said) <= 20, "lines about it:", said[:20])


@alone
def garbage_where_output_arrives(stage):
    loses_one_in_a_flood(stage, GARBAGE, "HVD_OUTPUT")


def notices_silence_in_a_flood(stage, body):
    """A deadline: it passes although the driver always has something to read."""
    bug_agents(stage)
    run = start(stage, ["--heartbeat-timeout", "%g" % SILENCE_S])
    with All(*floods(stage, run, body)):
        run.says(SAID_OF[body])
        mark, row = run.mark(), run.row(rank=1)
        jobs.kill(row["pid"], signal.SIGSTOP)
        run.event("worker_lost", mark, worker=row["worker"])
        run.whole(4, mark, {row["worker"]})
        finish(run)


@alone
def silence_is_noticed_in_garbage(stage):
    notices_silence_in_a_flood(stage, GARBAGE)


@alone
def silence_is_noticed_in_words_of_another_job(stage):
    notices_silence_in_a_flood(stage, FOREIGN)


@alone
def sigterm_is_noticed_in_a_flood(stage):
    bug_agents(stage)
    run = start(stage)
    with All(*floods(stage, run, GARBAGE)):
        run.says(SAID_OF[GARBAGE])
        begun = time.monotonic()
        run.interrupt(signal.SIGTERM)
        run.ends(128 + signal.SIGTERM)
        took = time.monotonic() - begun
    check(took < PROMPTLY_S, "the job ended after %g s" % took)


@scenario
def second_hello_of_a_worker_is_refused(stage):
    """With its token: its script, say, has started a second one. The address
    would be told to the others, and nobody could reach the worker."""
    bug_agents(stage)
    run = start(stage, HVD_TRANSPORT="tcp")
    row = run.row(rank=1)
    job = int(variable(agent(run), "HVD_JOB"))
    its_agents, job_key, driver_key = secrets(stage, row["host"])
    mine = wire.token_of_worker(its_agents, row["worker"])
    proof = wire.prove(mine, endpoint(run))
    second = wire.Dealer(endpoint(run), (mine, job_key, driver_key))
    for connection in (0, 0, 1, 1 << 32):  # by which it has dialled last
        second.send(wire.hello(job, row["worker"], proof,
                               connection=connection))
    line = run.says("worker %d (" % row["worker"])
    check("HELLO of pid 4711 at 127.0.0.1:1 is refused" in line, line)
    lose_one(run)
    equal(len([text for text in run.lines
               if "pid 4711" in text]), 1,
          "lines about it")
    second.close()
    finish(run)


@scenario
def hello_with_the_token_of_another_is_refused(stage):
    """Of none, of the worker's agent, of the next worker, of another agent's;
    nor with what proves the right one elsewhere, nor with itself."""
    bug_agents(stage)
    run = start(stage)
    job = int(variable(agent(run), "HVD_JOB"))
    row = run.row(rank=0)
    own, other = token(stage, LOCAL), token(stage, OTHER)
    equal(row["host"], LOCAL, "host of rank 0")
    stranger = wire.Dealer(endpoint(run), secrets(stage, OTHER),
                           b"w%d" % row["worker"])
    right = wire.token_of_worker(own, row["worker"])
    wrong = [wire.prove(token, endpoint(run)) for token in (
        bytes(32), own, wire.token_of_worker(own, row["worker"] + 1),
        wire.token_of_worker(other, row["worker"]))]
    for proof in wrong + [right, wire.prove(right, endpoint(run, "HVD_OUTPUT"))]:
        stranger.send(wire.hello(job, row["worker"], proof))
    run.says("HELLO of worker %d: without its token -> refused" %
             row["worker"])
    lose_one(run)
    equal([line for line in run.lines if "pid 4711" in line], [],
          "lines of who had the token")
    stranger.close()
    finish(run)


def forge(root):
    """In an agent's place, where output arrives: it forwards for all workers.
    Ends with the driver."""
    own = read_secrets(os.path.join(root, "secrets." + OTHER))
    job = int(os.environ["HVD_JOB"])
    proof = wire.prove(own[0], os.environ["HVD_OUTPUT"])
    driver = wire.Dealer(os.environ["HVD_OUTPUT"], own)
    driver.send(wire.agent_hello(job, int(os.environ["HVD_AGENT"]), proof,
                                 1 << 32))
    driver.receive()  # welcome: the agent's own connection is older
    with open(os.path.join(root, "forging"), "w", encoding="ascii"):
        pass
    lifeline = int(os.environ["HVD_LIFELINE_FD"])
    at = 1 << 32  # behind what the workers have written
    while not select.select([lifeline], [], [], 0.02)[0]:
        driver.send(*(wire.output(job, worker, b"forged %d\n" % worker, at)
                      for worker in range(1, 5)))
        at += 100
    return 0


@scenario
def output_of_anothers_worker_is_dropped(stage):
    bug_agents(stage)
    run = start(stage, FORGE="1")
    theirs = {row["worker"] for row in run.members() if row["host"] == OTHER}
    run.says("which it does not run -> dropped")
    for worker in theirs:
        run.says("forged %d" % worker)
    run.allow(3)
    run.ends(0)
    equal({int(line.split()[-1]) for line in run.lines if "forged" in line},
          theirs, "workers whose output was believed")


# ---- in a driver's place ----------------------------------------------------

class Impostor:
    """Listens where an agent or a worker looks for its driver, say where one has
    died, takes what they say, and talks to them. Of the job it knows all but
    the tokens, and the driver's key only if it is told so."""

    def __init__(self, key=wire.driver_keys(DRIVER)[0]):
        self.control, self.output = wire.Router(key), wire.Router(key)

    def hear(self):
        """What one of them says."""
        said = self.control.receive(PATIENCE_S)
        check(said is not None, "nobody has called")
        return said

    def close(self):
        self.control.close()
        self.output.close()


def alone_with(impostor, command, **environment):
    """A process that takes the impostor for its driver; its lifeline."""
    secret = os.memfd_create("secret")
    os.write(secret, TOKEN + bytes(32) + wire.driver_keys(DRIVER)[1])
    lifeline, ours = os.pipe()
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("HVD_")}
    env.update(HVD_DRIVER=impostor.control.endpoint,
               HVD_OUTPUT=impostor.output.endpoint,
               HVD_JOB="1", HVD_HOST="host", HVD_SECRET_FD=str(secret),
               HVD_LIFELINE_FD=str(lifeline), HVD_LOG_LEVEL="error",
               **environment)
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL,
                               pass_fds=[secret, lifeline])
    os.close(secret)
    os.close(lifeline)
    return process, ours


def ends_in_a_flood(command, end, **environment):
    """Its HELLOs go on, and so does its end; end(process, lifeline)."""
    impostor = Impostor()
    process, lifeline = alone_with(impostor, command, **environment)
    try:
        impostor.hear()
        with wire.Flood(impostor.control, GARBAGE) as flood:
            until = time.monotonic() + PATIENCE_S
            while flood.n_received < 10:
                check(time.monotonic() < until, "no HELLO in a flood")
                time.sleep(jobs.POLL_S)
            end(process, lifeline)
            process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        impostor.output.close()
    return process.returncode


def outlives(command, forged, **environment):
    """What it does not believe; and it does not say its token."""
    impostor = Impostor()
    process, lifeline = alone_with(impostor, command, **environment)
    try:
        said = [impostor.hear()]
        impostor.control.send(*forged)
        said += [impostor.hear() for _ in range(10)]
        equal([words for words in said if TOKEN in words], [],
              "words with its token")
        os.close(lifeline)
        equal(process.wait(PATIENCE_S), 1, "status, behind its lifeline's end")
    finally:
        process.kill()
        process.wait()
        impostor.close()


def close_lifeline(process, lifeline):
    os.close(lifeline)


def interrupt(process, lifeline):
    process.send_signal(signal.SIGINT)


@alone
def agent_ends_in_a_flood(stage):
    program = os.path.join(stage.build, "src/elastic/agent/hvd-agent")
    for end in (close_lifeline, interrupt):
        equal(ends_in_a_flood([program], end, HVD_AGENT="1"), 1, "status")


@alone
def worker_ends_in_a_flood(stage):
    equal(ends_in_a_flood([stage.trainer, stage.root], close_lifeline,
                          HVD_WORKER="1", HVD_SLOT="0",
                          HVD_ADDRESS="127.0.0.1"), 1, "status")


@scenario
def agent_believes_no_impostor(stage):
    program = os.path.join(stage.build, "src/elastic/agent/hvd-agent")
    of = {1: 1, 2: 1}
    outlives([program], [wire.message(wire.AGENT_WELCOME, of, {}),
                         wire.message(wire.AGENT_SHUTDOWN, of, {})],
             HVD_AGENT="1")


@scenario
def worker_believes_no_impostor(stage):
    of = {1: 1, 2: 1, 4: 1}
    outlives([stage.trainer, stage.root],
             [wire.message(wire.WELCOME, of, {1: 100, 2: 10000, 3: 10000}),
              wire.message(wire.SHUTDOWN, of, {1: 3, 2: 0, 3: "forged"})],
             HVD_WORKER="1", HVD_SLOT="0", HVD_ADDRESS="127.0.0.1")


def says_nothing(key, command, **environment):
    """To somebody in the driver's place without the driver's key."""
    impostor = Impostor(key)
    process, lifeline = alone_with(impostor, command, **environment)
    try:
        equal(impostor.control.receive(1), None, "what it said")
        os.close(lifeline)
        equal(process.wait(PATIENCE_S), 1, "status, behind its lifeline's end")
    finally:
        process.kill()
        process.wait()
        impostor.close()


@scenario
def nobody_speaks_to_another_driver(stage):
    program = os.path.join(stage.build, "src/elastic/agent/hvd-agent")
    for key in (None, wire.driver_keys(TOKEN)[0]):
        says_nothing(key, [program], HVD_AGENT="1")
        says_nothing(key, [stage.trainer, stage.root], HVD_WORKER="1",
                     HVD_SLOT="0", HVD_ADDRESS="127.0.0.1")


@alone
def bytes_of_no_protocol_at_the_driver(stage):
    run = start(stage)
    with All(*(wire.RawFlood(endpoint(run, name), os.urandom(1 << 16))
               for name in ("HVD_DRIVER", "HVD_OUTPUT"))) as flood:
        took = lose_one(run)
        finish(run)
    stage.note("%.3f s, %d connections" % (took, sum(
        one.n_dialled for one in flood.blocks)))
    check(took < PROMPTLY_S, "the survivors trained after %g s" % took)


@scenario
def who_has_no_key_is_not_heard(stage):
    """Words of a worker with its right proof, without CURVE, with the keys of
    nobody, and with those of another job's driver."""
    bug_agents(stage)
    run = start(stage)
    row, job = run.row(rank=1), int(variable(agent(run), "HVD_JOB"))
    its_agents, job_key, driver_key = secrets(stage, row["host"])
    mine = wire.token_of_worker(its_agents, row["worker"])
    words = wire.hello(job, row["worker"], wire.prove(mine, endpoint(run)))
    dealers = [wire.Dealer(endpoint(run), keys) for keys in (
        None, (TOKEN, job_key, driver_key),
        (mine, job_key, wire.driver_keys(DRIVER)[1]))]
    for dealer in dealers:
        dealer.send(words)
    run.says("with a key that nobody here has -> refused")
    lose_one(run)
    equal([line for line in run.lines if "pid 4711" in line], [],
          "lines of who was heard")
    for dealer in dealers:
        dealer.close()
    finish(run)


if __name__ == "__main__":
    sys.exit(forge(sys.argv[2]) if sys.argv[1] == "forge" else main())
