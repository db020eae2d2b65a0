"""test_ssh - agents that are started through ssh: by a script in its place, which
runs what it is given here, with an environment as bare as a login's, and by a
real sshd on a port of its own.

Each client, agent, worker and driver is killed in turn, and nobody is left; a
host that refuses, hangs, floods, lacks the program or has another version of it
costs its own slots and a sentence.
"""
import getpass
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import (PATIENCE_S, Run, SILENCE_S, check, equal, main,
                     scenario)
import job as jobs

NP = ["-np", "3", "--min-np", "1", "--max-np", "3"]
ALPHA, BETA = "alpha", "beta"

# What it does depends on the name of the host. Its child gets a session of its
# own, as sshd gives one, so that only the lifeline tells of the client's end.
STAND_IN = """#!/bin/sh
agent=%(agent)s root=%(root)s
echo "$*" >>$root/called
while [ $# -gt 2 ]; do shift; done
[ "$1" = -- ] && shift
for host; do break; done
for remote; do :; done
case $host in
denied*) echo "alice@$host: Permission denied (publickey)." >&2; exit 255 ;;
silent*) exit 255 ;;
hang*) exec sleep 1000 ;;
garbage*) exec yes "$(printf 'garbage \\033[31m\\001')" >&2 ;;
endless*) exec cat /dev/zero >&2 ;;
sh | dash | bash | csh | fish) shell=$host ;;
missing*) remote=$(echo "$remote" | sed 's#/[^ ]*/hvd-#/nowhere/hvd-#') ;;
roomless*) rmdir "$root/gone" ;;
old*) remote="exec $agent-old --stdin" ;;
esac
cd /
exec setsid -w env -i HOME=/ USER=there LOGIN_ONLY=there PATH=/usr/bin:/bin \\
    TMPDIR="$TMPDIR" JOB_MARK="$JOB_MARK" ${shell-sh} -c "$remote"
"""


def stand_in(stage):
    return stage.file("ssh", STAND_IN % {
        "agent": os.path.join(stage.build, "tests/integration/hvd-agent"),
        "root": stage.root})


def start(stage, hosts, program=(), options=(), np=None, **more):
    return stage.start([*(np or NP), "--launcher", "ssh", "--ssh-command",
                        stand_in(stage), *options], program, hosts=hosts,
                       **more)


def train(stage, *options, **more):
    run = start(stage, (ALPHA + ":2", BETA + ":1"), options=options, **more)
    run.whole(3)
    run.epoch(0)
    return run


def finish(run, n=3):
    run.allow(3)
    run.ends(0)
    run.agrees(n)


def children(parent):
    return [pid for pid, its in jobs.parents() if its == parent]


def client(run, host):
    """The process in the place of ssh: its child is the agent."""
    for pid in children(run.process.pid):
        for agent in children(pid):
            if host == host_of(run, agent):
                return pid
    raise AssertionError("no client of " + host)


def host_of(run, pid):
    for event in run.seen("agent_started"):
        if event["pid"] == pid:
            return event["host"]
    return None


def agent_of(run, host):
    return run.seen("agent_started", host=host)[-1]["pid"]


def gone(pids):
    deadline = time.monotonic() + PATIENCE_S
    while {pid for pid, _ in jobs.parents()} & set(pids):
        check(time.monotonic() < deadline, "still there:", pids)
        time.sleep(jobs.POLL_S)


# ---- a job -------------------------------------------------------------------

@scenario
def job_on_two_hosts(stage):
    run = train(stage)
    equal({row["host"] for row in run.members()}, {ALPHA, BETA}, "hosts")
    with open(os.path.join(stage.root, "called"), encoding="utf-8") as file:
        words = file.readline()
    for option in ("-T", "BatchMode=yes", "ConnectTimeout=10",
                   "ServerAliveInterval=", "ClearAllForwardings=yes", " -- "):
        check(option in words, option, "in", words)
    finish(run)


@scenario
def any_shell_finds_an_agent_with_an_odd_name(stage):
    """Whatever the user's shell there is."""
    odd = os.path.join(stage.root, "a 'b' $c \\d !e \"f\" [g]*;&|~#{h}(i)?")
    os.makedirs(odd)
    # by a process of its own: what another thread forks while a file is open
    # for writing keeps it from being executed
    subprocess.run(["cp", *(os.path.join(stage.build, "src/elastic", path)
                            for path in ("driver/hvd-elastic",
                                         "agent/hvd-agent")), odd], check=True)
    shells = [name for name in ("sh", "dash", "bash", "csh", "fish")
              if shutil.which(name, path="/usr/bin:/bin")]
    stage.note("shells: " + " ".join(shells))
    run = Run(stage, ["-np", str(len(shells)), "--launcher", "ssh",
                      "--ssh-command", stand_in(stage)], (), True)
    stage.runs.append(run)
    run.command[0] = os.path.join(odd, "hvd-elastic")
    run.set_hosts(*(name + ":1" for name in shells))
    run.start()
    run.whole(len(shells))
    for name in shells:
        with open("/proc/%d/cmdline" % agent_of(run, name), "rb") as file:
            equal(file.read(), os.path.join(odd, "hvd-agent").encode()
                  + b"\0--stdin\0", name)
    finish(run, len(shells))


@scenario
def port_and_key_are_handed_on(stage):
    key = stage.file("a key", "")
    run = start(stage, (ALPHA + ":1",), ["true"], ["-p", "2222", "-i", key],
                ["-np", "1"])
    run.event("agent_started")
    with open(os.path.join(stage.root, "called"), encoding="utf-8") as file:
        check("-p 2222 -i %s -- alpha" % key in file.readline(), "-p, -i")
    run.wait(PATIENCE_S)


@scenario
def secrets_are_in_no_arguments(stage):
    """Nor in an environment, nor is the driver's address."""
    run = train(stage)
    pids = [agent_of(run, ALPHA), client(run, ALPHA)]
    for pid in pids:
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (pid, name), "rb") as file:
                text = file.read()
            check(b"HVD_" not in text, name, "of", pid, text)
            check(b"tcp://" not in text, name, "of", pid, text)
    finish(run)


SHOW = ("import json, os; print(json.dumps([dict(os.environ), os.getcwd()]),"
        " flush=True)")


@scenario
def environment_and_directory_arrive(stage):
    program = [sys.executable, "-c", SHOW]
    run = start(stage, (ALPHA + ":1",), program,
                ["-x", "GIVEN=a = b", "-x", "TAKEN"], ["-np", "1"],
                TAKEN="from here", PLAIN="plain 'x'", HOSTNAME="driver",
                SSH_CONNECTION="1 2", DISPLAY=":1", XDG_RUNTIME_DIR="/x",
                CUDA_VISIBLE_DEVICES="7", HVD_SECRET_FD="3")
    line = run.says("<stdout>:[{")
    env, cwd = json.loads(line.partition("<stdout>:")[2])
    equal(cwd, os.getcwd(), "working directory")
    equal(env["HVD_HOST"], ALPHA, "HVD_HOST")
    equal(env["GIVEN"], "a = b", "GIVEN")
    equal(env["TAKEN"], "from here", "TAKEN")
    equal(env["PLAIN"], "plain 'x'", "PLAIN")
    equal(env["PATH"], os.environ["PATH"], "PATH")
    equal(env["LOGIN_ONLY"], "there", "LOGIN_ONLY")
    equal((env["HOME"], env["USER"]), ("/", "there"), "who is there")
    for name in ("HOSTNAME", "SSH_CONNECTION", "DISPLAY", "XDG_RUNTIME_DIR",
                 "CUDA_VISIBLE_DEVICES"):
        check(name not in env, name, "was handed on")
    run.wait(PATIENCE_S)


@scenario
def environment_reaches_workers_here_too(stage):
    run = stage.start(["-np", "1", "-x", "GIVEN=x", "-H", "localhost:1"],
                      ["sh", "-c", "echo given $GIVEN"])
    run.says("<stdout>:given x")
    run.wait(PATIENCE_S)


@scenario
def environment_too_large_is_refused(stage):
    # one string of execve has 128 KiB at most
    big = {"BIG%d" % i: "x" * 120000 for i in range(10)}
    run = start(stage, (ALPHA + ":1",), ["true"], np=["-np", "1"], **big)
    equal(run.wait(PATIENCE_S), 1, "status")
    check("the environment for workers is longer than" in run.verdict(),
          run.verdict())
    run = stage.start(["-np", "1", "-H", "localhost"], **big)
    run.whole(1)
    finish(run, 1)


@scenario
def directory_that_is_missing_there_is_named(stage):
    path = os.path.join(stage.root, "gone")
    os.makedirs(path)
    run = start(stage, ("roomless:1",), ["true"],
                ["--elastic-timeout", "8"], ["-np", "1"],
                under=["sh", "-c", 'cd "$0" && exec "$@"', path])
    equal(run.wait(PATIENCE_S), 1, "status")
    check('host roomless: cannot enter "%s": No such file' % path
          in run.verdict(), run.verdict())


@scenario
def program_that_is_missing_there_is_named(stage):
    run = start(stage, (ALPHA + ":1",), ["/nowhere/train"],
                ["--elastic-timeout", "8"], ["-np", "1"])
    equal(run.wait(PATIENCE_S), 1, "status")
    check('host alpha: cannot execute "/nowhere/train": No such file'
          in run.verdict(), run.verdict())


@scenario
def interrupt_drains(stage):
    run = train(stage)
    run.interrupt()
    run.ends(130)


@scenario
def local_hosts_need_no_ssh(stage):
    run = stage.start(["-np", "2", "--ssh-command", stand_in(stage)],
                      hosts=("localhost:1", ALPHA + ":1"))
    run.whole(2)
    with open(os.path.join(stage.root, "called"), encoding="utf-8") as file:
        equal(len(file.readlines()), 1, "calls of ssh")
    finish(run, 2)


# ---- hosts that are no use ---------------------------------------------------

@scenario
def hosts_that_cannot_be_started_are_named(stage):
    run = start(stage, (ALPHA + ":1", "denied:1", "missing:1", "old:1",
                        "silent:1"),
                np=["-np", "1", "--min-np", "1", "--max-np", "5"])
    for words in ("host denied: could not be started: alice@denied: "
                  "Permission denied (publickey).",
                  "host missing: could not be started: no hvd-agent at "
                  "/nowhere/hvd-agent nor in PATH",
                  "host old is blacklisted: is hvd-agent 0.0.1, and this is "
                  "hvd-elastic ",
                  "host silent: could not be started: ssh exited with status "
                  "255"):
        run.says(words)
    run.event("host_blacklisted", host="old")
    equal(len(run.seen("host_blacklisted", host="old")), 1, "tries of old")
    run.whole(1)
    finish(run, 1)


@scenario
def garbage_without_end_holds_nothing_up(stage):
    run = start(stage, (ALPHA + ":1", "garbage:1", "endless:1"),
                np=["-np", "1", "--min-np", "1", "--max-np", "3"],
                options=["--start-timeout", "4"])
    run.whole(1)
    run.epoch(0)
    for host in ("garbage", "endless"):
        run.event("start_failed", host=host)
    check(len(run.lines) < 200, "%d lines" % len(run.lines))
    finish(run, 1)


@scenario
def hosts_that_hang_keep_nobody_waiting(stage):
    """60 of 100, and they come first."""
    hosts = (["hang%d:1" % i for i in range(60)] +
             ["host%d:1" % i for i in range(40)])
    run = start(stage, hosts, ["sleep", "1000"],
                np=["-np", "100", "--min-np", "1"],
                options=["--start-timeout", "20"])
    run.until("40 agents", lambda: len(run.seen("agent_started")) == 40,
              PATIENCE_S)
    equal(run.seen("agent_lost"), [], "agents given up before")
    run.interrupt()
    run.interrupt()
    run.wait(PATIENCE_S)


# ---- kills -------------------------------------------------------------------

def goes_on_without(run, pid):
    """The client of BETA: its agent is heard without it, so nobody is lost, and
    it ends with the job."""
    mark, agent = run.mark(), agent_of(run, BETA)
    jobs.kill(pid)
    run.says("host beta: its ssh was killed by signal 9 (SIGKILL)")
    run.epoch(1)
    for event in ("agent_lost", "worker_lost", "generation_started"):
        equal(run.seen(event, mark), [], event)
    finish(run)
    gone([agent])


@scenario
def client_is_killed(stage):
    run = train(stage)
    goes_on_without(run, client(run, BETA))


@scenario
def agent_is_killed(stage):
    run = train(stage)
    mark, old = run.mark(), run.row(host=BETA)
    jobs.kill(agent_of(run, BETA))
    run.event("agent_lost", mark, host=BETA)
    gone([old["pid"]])
    run.whole(3, mark, (old["worker"],))
    finish(run)


@scenario
def agent_is_killed_after_its_client(stage):
    """The end of its own connection tells, and no heartbeat is waited for."""
    run = train(stage, "--heartbeat-timeout", "%g" % (10 * PATIENCE_S))
    mark, old, agent = run.mark(), run.row(host=BETA), agent_of(run, BETA)
    jobs.kill(client(run, BETA))
    run.says("host beta: its ssh was killed by signal 9 (SIGKILL)")
    jobs.kill(agent)
    run.event("agent_lost", mark, host=BETA)
    run.whole(3, mark, (old["worker"],))
    finish(run)


@scenario
def agent_is_stopped(stage):
    """Its heartbeats end; the client that is killed then is all that is here,
    and it ends itself when it runs again."""
    run = train(stage, "--heartbeat-timeout", "%g" % SILENCE_S)
    mark, old = run.mark(), run.row(host=BETA)
    agent = agent_of(run, BETA)
    jobs.kill(agent, signal.SIGSTOP)
    run.event("agent_lost", mark, host=BETA)
    jobs.kill(agent, signal.SIGCONT)
    gone([agent, old["pid"]])
    run.whole(3, mark, (old["worker"],))
    finish(run)


@scenario
def driver_is_killed(stage):
    run = train(stage)
    run.process.kill()
    run.process.wait()
    run.nobody_left()


@scenario
def driver_and_clients_are_killed_together(stage):
    run = train(stage)
    clients = children(run.process.pid)
    run.process.kill()
    for pid in clients:
        jobs.kill(pid)
    run.process.wait()
    run.nobody_left()


@scenario
def driver_is_killed_while_hosts_hang(stage):
    run = start(stage, ["hang%d:1" % i for i in range(40)], ["true"],
                np=["-np", "40"])
    run.until("clients", lambda: len(children(run.process.pid)) >= 32,
              PATIENCE_S)
    run.process.kill()
    run.process.wait()
    run.nobody_left()


def with_job_dir(stage, *options):
    """A job on this machine and another that outlives its driver, which dies."""
    job_dir = os.path.join(stage.root, "jobdir")
    run = stage.start([*NP, "--ssh-command", stand_in(stage), "--job-dir",
                       job_dir, "--heartbeat-interval", "0.2",
                       "--heartbeat-timeout", "%g" % SILENCE_S, *options],
                      hosts=("localhost:2", BETA + ":1"))
    run.whole(3)
    run.epoch(0)
    run.process.kill()
    run.process.wait()
    after = Run(stage, [], (), True)
    after.command = [stage.driver, "--resume", job_dir, "--event-log",
                     after.event_log]
    after.control, after.marker = run.control, run.marker
    stage.runs.append(after)
    return run, after


@scenario
def agent_elsewhere_waits_for_a_slow_driver(stage):
    """The job's directory names the same driver: there is no other one, and the
    agent makes no directory that tells its workers of another."""
    slow = stage.file("slow-ssh", """#!/bin/sh
((kill -STOP $PPID; sleep 1; kill -CONT $PPID) </dev/null >/dev/null 2>&1 &)
exec %s "$@"
""" % stand_in(stage))
    run = stage.start([*NP, "--ssh-command", slow, "--job-dir",
                       os.path.join(stage.root, "jobdir")],
                      hosts=("localhost:2", BETA + ":1"))
    run.whole(3)
    equal(os.listdir(run.tmp), [], "what agents tell of successors")
    finish(run)


@scenario
def successor_adopts_who_is_elsewhere(stage):
    """They call where the driver was, and the successor listens there."""
    run, after = with_job_dir(stage)
    after.start()
    after.says("goes on")
    after.epoch(1)
    for event in ("agent_lost", "worker_lost", "generation_formed"):
        equal(after.seen(event), [], event)
    finish(after)


@scenario
def agent_elsewhere_dies_without_a_driver(stage):
    """Nobody tells of its end: it does not call."""
    run, after = with_job_dir(stage)
    old = run.row(host=BETA)
    jobs.kill(agent_of(run, BETA))
    gone([old["pid"]])
    here = {row["pid"] for row in run.members() if row["host"] != BETA}
    after.start()
    after.event("agent_lost", host=BETA)
    after.whole(3, without=(old["worker"],))
    check(here < {row["pid"] for row in after.members()}, "who was here stays")
    finish(after)


@scenario
def agent_elsewhere_waits_for_a_driver_in_vain(stage):
    run, after = with_job_dir(stage, "--driver-timeout", "2")
    stage.runs.remove(after)
    run.nobody_left()


# ---- stdin -------------------------------------------------------------------

def hand(stage, text):
    agent = os.path.join(stage.build, "src/elastic/agent/hvd-agent")
    done = subprocess.run([agent, "--stdin"], input=text, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    equal(done.returncode, 2, "status")
    equal(done.stdout, b"", "stdout")
    equal(done.stderr.count(b"\n"), 1, "lines")
    return done.stderr.decode()


@scenario
def what_is_handed_over_must_be_whole(stage):
    for text in (b"", b"hvd-agent 1", b"hvd-agent 1\nHVD_HOST = a\n"):
        check("stdin ended before all was said" in hand(stage, text), text)
    for text in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 100000,
                 b"hvd-agent 1\n" + b"x" * 100000, b"hvd-agent 1\nend\n"):
        check("of the handover" in hand(stage, text), text[:20])
    secrets = b"".join(b"HVD_%s = %s\n" % (name, b"0" * 64) for name in
                       (b"TOKEN", b"JOB_KEY", b"DRIVER_KEY"))
    check("HVD_DRIVER is not set" in hand(
        stage, b"hvd-agent 1\n" + secrets + b"end\n"), "HVD_DRIVER")


# ---- a real sshd -------------------------------------------------------------

class Sshd:
    """On a port of loopback, with keys of its own."""

    def __init__(self, stage):
        self.root, self.process = stage.root, None
        program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:"
                               + os.environ["PATH"])
        if not program or not shutil.which("ssh"):
            stage.note("skipped: no sshd here (openssh-server)")
            return
        if os.getuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "",
                            "-f", self.path(name)], check=True)
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        stage.file("sshd_config", "\n".join((
            "ListenAddress 127.0.0.1", "HostKey " + self.path("host"),
            "PidFile none", "UsePAM no", "StrictModes no",
            "AuthorizedKeysFile " + self.path("authorized"),
            "PermitRootLogin prohibit-password", "AcceptEnv JOB_MARK TMPDIR",
            "MaxStartups 100", "")))
        for _ in range(10):
            if self.listen(program):
                return
        stage.note("skipped: sshd does not start: " + self.said())
        self.process = None

    def path(self, name):
        return os.path.join(self.root, name)

    def said(self):
        with open(self.path("sshd.log"), encoding="utf-8",
                  errors="replace") as file:
            return file.read().strip().replace("\n", "; ")

    def listen(self, program):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with open(self.path("sshd.log"), "wb") as log:
            self.process = subprocess.Popen(
                [program, "-D", "-e", "-f", self.path("sshd_config"), "-p",
                 str(self.port)], stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if "Server listening" in self.said():
                return True
            time.sleep(jobs.POLL_S)
        self.close()
        return False

    def command(self, stage, key="user"):
        """ssh with a configuration of this sshd's: every name is it."""
        stage.file("ssh_config", "\n".join((
            "Host *", "HostName 127.0.0.1", "User " + getpass.getuser(),
            "SendEnv JOB_MARK TMPDIR", "IdentitiesOnly yes",
            "IdentityAgent none", "StrictHostKeyChecking accept-new",
            "LogLevel ERROR",
            "UserKnownHostsFile " + self.path("known"), "")))
        return ["--ssh-command", stage.file(
            "real-ssh", "#!/bin/sh\nexec ssh -F %s \"$@\"\n"
            % shlex.quote(self.path("ssh_config"))),
                "-p", str(self.port), "-i", self.path(key)]

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def with_sshd(play):
    def played(stage):
        sshd = Sshd(stage)
        try:
            if sshd.process:
                play(stage, sshd)
        finally:
            sshd.close()
    played.__name__ = play.__name__
    return scenario(played)


def train_by(stage, sshd):
    run = stage.start([*NP, "--launcher", "ssh", *sshd.command(stage)],
                      hosts=(ALPHA + ":2", BETA + ":1"))
    run.whole(3)
    run.epoch(0)
    return run


@with_sshd
def sshd_job_trains(stage, sshd):
    run = train_by(stage, sshd)
    equal({row["host"] for row in run.members()}, {ALPHA, BETA}, "hosts")
    finish(run)


@with_sshd
def sshd_client_is_killed(stage, sshd):
    run = train_by(stage, sshd)
    (client_of_beta,) = [pid for pid in children(run.process.pid)
                         if " beta " in jobs.describe(pid)]
    goes_on_without(run, client_of_beta)


@with_sshd
def sshd_agent_is_killed(stage, sshd):
    run = train_by(stage, sshd)
    mark, old = run.mark(), run.row(host=BETA)
    jobs.kill(agent_of(run, BETA))
    run.event("agent_lost", mark, host=BETA)
    gone([old["pid"]])
    run.whole(3, mark, (old["worker"],))
    finish(run)


@with_sshd
def sshd_driver_is_killed(stage, sshd):
    run = train_by(stage, sshd)
    run.process.kill()
    run.process.wait()
    run.nobody_left()


def ends_with(run, words):
    equal(run.wait(PATIENCE_S), 1, "status")
    check(words in run.verdict(), run.verdict())


@with_sshd
def sshd_that_knows_no_such_key(stage, sshd):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                    sshd.path("other")], check=True)
    run = stage.start(["-np", "1", "--elastic-timeout", "8", "--launcher",
                       "ssh", "-H", ALPHA + ":1",
                       *sshd.command(stage, "other")],
                      ["true"])
    ends_with(run, "could not be started: %s@127.0.0.1: Permission denied"
              % getpass.getuser())


@with_sshd
def sshd_that_is_not_there(stage, sshd):
    words = sshd.command(stage)
    sshd.close()
    run = stage.start(["-np", "1", "--elastic-timeout", "8", "--launcher",
                       "ssh", "-H", ALPHA + ":1", *words], ["true"])
    ends_with(run, "port %d: Connection refused" % sshd.port)


if __name__ == "__main__":
    sys.exit(main())
