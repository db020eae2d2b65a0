"""hosts - a cluster on one machine: namespaces with sshd, on a switch.

    cluster = Cluster(directory, n=3)
    cluster.run(1, ["hostname"])            on host1; 0 is the driver's host
    cluster.cut(2); cluster.heal(2)
    cluster.down()

Each host has its own network, processes, mounts, name, /dev/shm and an sshd;
host0 ("driver") has none, and its processes are among ours. The switch is a
bridge for each network in a namespace of its own. Host i is "host<i>" in every
/etc/hosts, 10.77.<k>.<i> and with v6 fd77:<k>::<i> in network k (1, 2), the
driver's host has 100 for i. All see one file system, but for /etc/hosts,
/etc/ssh, /dev/shm, /proc and TMPDIR.

What is done to links is done at the switch, so that it looks to hosts as cables
and switches do: with rules by hardware address, so it holds with a delay too.

Call under apart.run(): what is left when this process is killed ends with it.

Threads: one for each Cluster. Children: the switch's shell, a process for each
host, relays; down() ends them and checks that nothing is left.
"""
import os
import signal
import subprocess
import time

DRIVER = 0
DRIVER_NUMBER = 100
PATIENCE_S = 20
POLL_S = 0.003
# Each boot's pids begin elsewhere, so that no two hosts have the same, where
# the kernel allows that.
PIDS_APART = 1000

BOOT = """
hostname "$NAME"
mount --bind "$DIR/hosts" /etc/hosts
mount --bind "$DIR/ssh" /etc/ssh
mount -t tmpfs -o mode=1777 shm /dev/shm
[ ! -d ~/.ssh ] || mount -t tmpfs home ~/.ssh
ip link set lo up
if [ "$MISLEAD" ]; then
    ip link add docker0 type bridge forward_delay 0 stp_state 0
    ip addr add 172.17.0.1/16 dev docker0
    ip link add veth0 type veth peer name veth1
    ip link set veth0 master docker0 up
    ip link set veth1 up
    ip link set docker0 up
fi
echo booted
"""
SSHD = """mount -t proc proc /proc
echo 4194304 >/proc/sys/kernel/pid_max || :
echo "$PIDS" >/proc/sys/kernel/ns_last_pid || :
mkdir -p /run/sshd
exec "$SSHD" -D -e -f "$DIR/$NAME/sshd_config"
"""
SSHD_CONFIG = """Port 22
Port 2222
HostKey %(dir)s/%(name)s/key
AuthorizedKeysFile %(dir)s/%(name)s/authorized
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
PrintMotd no
MaxStartups 100
SetEnv TMPDIR=%(dir)s/%(name)s/tmp
"""
RULES = """table bridge cluster {
    set dark { type ether_addr; }
    set lost { type ether_addr . ether_addr; }
    set narrow { type ether_addr . ether_addr; }
    set forgotten { type inet_service . inet_service; }
    set filtered { type ether_addr . inet_service; flags interval; }
    chain loss { }
    chain forward {
        type filter hook forward priority 0; policy accept;
        ether saddr @dark drop
        ether daddr @dark drop
        ether saddr . ether daddr @lost drop
        ether saddr . ether daddr @narrow meta length gt 1400 drop
        ether daddr . tcp dport @filtered drop
        tcp sport . tcp dport @forgotten drop
        jump loss
    }
}
"""


class Broken(Exception):
    """The cluster itself could not do something."""


def wait(what, condition, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Broken("%g s passed without %s" % (seconds, what))
        time.sleep(POLL_S)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path, text, mode=0o644):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, mode)


def namespace(pid, kind):
    try:
        return os.readlink("/proc/%s/ns/%s" % (pid, kind))
    except OSError:
        return None


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def state(pid):
    """A letter, as ps says it; None: gone."""
    return (read("/proc/%d/stat" % pid).rpartition(")")[2].split()
            or [None])[0]


def command_of(pid):
    return read("/proc/%d/cmdline" % pid).replace("\0", " ").strip()


def children(pid):
    return [int(word) for word in
            read("/proc/%d/task/%d/children" % (pid, pid)).split()]


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Switch:
    """A shell in a network of its own, with a bridge for each network."""

    def __init__(self, n_nets):
        self.shell = subprocess.Popen(
            ["unshare", "--net", "sh"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for k in range(1, n_nets + 1):
            self.do("ip link add br%d type bridge forward_delay 0 stp_state 0"
                    " mcast_snooping 0" % k,
                    "echo 1 >/proc/sys/net/ipv6/conf/br%d/disable_ipv6" % k,
                    "ip link set br%d up" % k)
        self.do("nft -f - <<'END'\n%sEND" % RULES)

    def do(self, *commands):
        """What they print; each has to succeed."""
        text = "".join("{ %s\n} </dev/null || echo status $?\n" % command
                       if "<<" not in command
                       else "%s\n[ $? = 0 ] || echo status $?\n" % command
                       for command in commands)
        self.shell.stdin.write(text + "echo ---\n")
        self.shell.stdin.flush()
        lines = []
        while not lines or lines[-1] != "---":
            line = self.shell.stdout.readline()
            if not line:
                raise Broken("the switch is gone: %s" % lines)
            lines.append(line.rstrip("\n"))
        if any(line.startswith("status ") for line in lines):
            raise Broken("%s: %s" % ("; ".join(commands), lines))
        return lines[:-1]

    def set(self, verb, name, *elements):
        """nft: verb is add or delete."""
        self.do("nft %s element bridge cluster %s '{ %s }'" % (
            verb, name, ", ".join(elements)))

    def enter(self):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.shell.pid]

    def end(self):
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.shell.kill()
        self.shell.wait()


class Host:
    """What is known of one; the cluster does everything."""

    def __init__(self, number, directory):
        self.number = number
        self.name = "host%d" % number if number else "driver"
        self.address = number or DRIVER_NUMBER
        self.directory = os.path.join(directory, self.name)
        self.outer = None   # the process that was started
        self.init = None    # pid of the first process on the host, as we see it
        self.relays = {}    # net: process
        self.hidden = []    # directories that it does not see
        os.makedirs(os.path.join(self.directory, "tmp"))

    def mac(self, k):
        return "02:77:00:00:%02x:%02x" % (k, self.address)

    def v4(self, k):
        return "10.77.%d.%d" % (k, self.address)

    def v6(self, k):
        return "fd77:%d::%d" % (k, self.address)


class Cluster:
    def __init__(self, directory, n, nets=1, v4=True, v6=False, mislead=False,
                 relay=None):
        """nets: 1 or 2. mislead: every host has a bridge of its own before its
        networks, which is up and has the same address everywhere. relay: the
        program that delay() needs."""
        self.directory = directory
        self.nets = range(1, nets + 1)
        self.has_v4, self.has_v6, self.mislead = v4, v6, mislead
        self.relay = relay
        self.n_boots = 0
        self.rules = []  # (hosts that it concerns, set of nft, elements ...)
        os.makedirs(os.path.join(directory, "ssh"))
        self.hosts = [Host(i, directory) for i in range(n + 1)]
        self.identity = os.path.join(directory, "identity")
        self.switch = None
        try:
            self._write_files()
            self.switch = Switch(nets)
            for host in self.hosts:
                self._start(host)
            for host in self.hosts:
                self._join(host)
        except BaseException:
            self.down(check=False)
            raise

    # ---- up -----------------------------------------------------------------

    def _keygen(self, path):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C",
                        "", "-f", path], check=True)
        return read(path + ".pub").strip()

    def addresses(self, i):
        """All of a host's, network by network."""
        host = self.hosts[i]
        return [address for k in self.nets for address in
                [host.v4(k)] * self.has_v4 + [host.v6(k)] * self.has_v6]

    def _write_files(self):
        identity = self._keygen(self.identity)
        known, names = "", "127.0.0.1 localhost\n::1 localhost\n"
        for i, host in enumerate(self.hosts):
            key = self._keygen(os.path.join(host.directory, "key"))
            who = [host.name, *self.addresses(i)]
            known += "%s %s\n" % (",".join(
                who + ["[%s]:2222" % name for name in who]), key)
            names += "".join("%s %s\n" % (address, host.name)
                             for address in self.addresses(i))
            write(os.path.join(host.directory, "authorized"), identity + "\n")
            write(os.path.join(host.directory, "sshd_config"), SSHD_CONFIG % {
                "dir": self.directory, "name": host.name})
        write(os.path.join(self.directory, "hosts"), names)
        write(os.path.join(self.directory, "ssh", "ssh_known_hosts"), known)
        write(os.path.join(self.directory, "ssh", "ssh_config"), "")

    def _start(self, host):
        """Its first process; it has no network yet."""
        self.n_boots += 1
        flags = ["--net", "--mount", "--uts", "--ipc"]
        script = BOOT + "exec sleep infinity\n"
        if host.number != DRIVER:
            flags += ["--pid", "--fork", "--kill-child"]
            script = BOOT + SSHD
        environment = {
            "PATH": os.environ["PATH"], "HOME": os.path.expanduser("~"),
            "NAME": host.name, "DIR": self.directory,
            "PIDS": str(PIDS_APART * self.n_boots),
            "MISLEAD": "yes" if self.mislead else "",
            "SSHD": "/usr/sbin/sshd"}
        with open(os.path.join(host.directory, "log"), "w",
                  encoding="ascii") as log:
            host.outer = subprocess.Popen(
                ["unshare", *flags, "sh", "-ec", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment)

    def _ready(self, host):
        log = read(os.path.join(host.directory, "log"))
        if host.outer.poll() is not None:
            raise Broken("%s did not start: %s" % (host.name, log))
        words = "booted" if host.number == DRIVER else "listening on :: port 2"
        return words in log

    def _join(self, host):
        """Wait for it, and give it its links."""
        wait(host.name, lambda: self._ready(host))
        host.init = host.outer.pid if host.number == DRIVER \
            else children(host.outer.pid)[0]
        inside = "nsenter --net=/proc/%d/ns/net" % host.init
        commands = []
        for k in self.nets:
            eth = "eth%d" % (k - 1)
            commands += [
                "ip link add %s type veth peer name %s address %s netns %d" % (
                    port(host, k), eth, host.mac(k), host.init),
                "ip link set %s master br%d up" % (port(host, k), k)]
            batch = ["link set %s up" % eth]
            if self.has_v4:
                batch += ["addr add %s/24 dev %s" % (host.v4(k), eth)]
            if self.has_v6:
                batch += ["addr add %s/64 dev %s nodad" % (host.v6(k), eth)]
            commands.append("%s ip -batch - <<'END'\n%s\nEND" % (
                inside, "\n".join(batch)))
        self.switch.do(*commands)
        for path in host.hidden:
            self._hide(host, path)

    # ---- down ---------------------------------------------------------------

    def down(self, check=True):
        """End everything. check: see that nothing is left."""
        networks = {namespace(host.init, "net") for host in self.hosts}
        for host in self.hosts:
            self._halt(host)
        if self.switch:
            networks.add(namespace(self.switch.shell.pid, "net"))
            self.switch.end()
        self.switch = None
        if check:
            self._nothing_left(networks - {None})

    def _halt(self, host):
        for relay in host.relays.values():
            relay.kill()
            relay.wait()
        host.relays = {}
        if host.outer is None:
            return
        for pid in self.processes(host.number):
            kill(pid)
        if host.init:
            kill(host.init)
        host.outer.kill()
        host.outer.wait()
        wait("the end of " + host.name, lambda: not host.init
             or state(host.init) in (None, "Z", "X"))
        host.outer = host.init = None

    @staticmethod
    def _nothing_left(networks):
        """No process of these, so the kernel keeps none of them."""
        def left():
            return [pid for pid in pids() if namespace(pid, "net") in networks
                    and state(pid) not in (None, "Z", "X")]
        wait("the end of %s" % [command_of(pid) for pid in left()],
             lambda: not left())

    # ---- processes ----------------------------------------------------------

    def enter(self, i):
        """A command's beginning that runs the rest of it on host i."""
        host = self.hosts[i]
        spaces = ["net", "mnt", "uts", "ipc"] + ["pid"] * (i != DRIVER)
        return ["nsenter", *("--%s=/proc/%d/ns/%s" % (
            {"mnt": "mount"}.get(kind, kind), host.init, kind)
            for kind in spaces), "--"]

    def run(self, i, command, timeout_s=PATIENCE_S):
        """(status, stdout, stderr) of a command on host i."""
        done = subprocess.run(
            [*self.enter(i), *command], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout_s, check=False)
        return done.returncode, done.stdout, done.stderr

    def ssh(self, i, *command, user="", options=()):
        """The same by ssh, from the driver's host."""
        return self.run(DRIVER, [
            "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", "-i",
            self.identity, *options, user + self.hosts[i].name, *command])

    def processes(self, i):
        """All processes on host i, as we see them, without its first."""
        host = self.hosts[i]
        kind = "net" if i == DRIVER else "pid"
        space = namespace(host.init, kind) if host.init else None
        return [pid for pid in pids() if pid != host.init and space
                and namespace(pid, kind) == space
                and state(pid) not in (None, "Z", "X")]

    def left(self, i):
        """What runs on host i that does not belong to it, as sentences."""
        return ["%s: %d %s" % (self.hosts[i].name, pid, command_of(pid))
                for pid in self.processes(i)]

    def pid(self, i, inside):
        """Our pid of the process that has this one on host i; None: gone."""
        if i == DRIVER:
            return inside if inside in self.processes(i) else None
        for pid in self.processes(i):
            for line in read("/proc/%d/status" % pid).splitlines():
                if line.startswith("NSpid:") \
                        and line.split()[-1] == str(inside):
                    return pid
        return None

    # ---- power --------------------------------------------------------------

    def power_off(self, i):
        """Nothing more is sent, not even that connections end."""
        host = self.hosts[i]
        self.cut(i)
        self._halt(host)
        # connections that wait for an answer would keep the network
        self.switch.do(*("ip link del %s 2>/dev/null || :" % port(host, k)
                         for k in self.nets))

    def power_on(self, i):
        host = self.hosts[i]
        if host.outer:
            raise Broken("%s is on" % host.name)
        self._start(host)
        self._join(host)

    def freeze(self, i, number=signal.SIGSTOP):
        """All processes stop, and the kernel answers for them."""
        host = self.hosts[i]
        while True:
            going = [pid for pid in [host.init, *self.processes(i)]
                     if (state(pid) == "T") != (number == signal.SIGSTOP)
                     and not (i == DRIVER and pid == host.init)]
            if not going:
                return
            for pid in going:
                kill(pid, number)
            time.sleep(POLL_S)

    def thaw(self, i):
        self.freeze(i, signal.SIGCONT)

    # ---- links --------------------------------------------------------------

    def cut(self, i, net=None):
        """Pull its cable, or that of one network."""
        self.switch.do(*("ip link set %s down" % port(self.hosts[i], k)
                         for k in self._nets(net)))

    def heal(self, i):
        """Undo cut, blackhole, part, one_way, narrow, filter, of whichever
        side."""
        host = self.hosts[i]
        self.switch.do(*("ip link set %s up" % port(host, k)
                         for k in self.nets))
        for rule in [rule for rule in self.rules if i in rule[0]]:
            self.switch.set("delete", *rule[1:])
            self.rules.remove(rule)

    def blackhole(self, i, net=None):
        """Its carrier stays up, and every frame is lost."""
        self._rule((i,), "dark", [self.hosts[i].mac(k)
                                  for k in self._nets(net)])

    def part(self, i, j, net=None):
        """Just these two lose what they send to each other."""
        self.one_way(i, j, net)
        self.one_way(j, i, net)

    def one_way(self, i, j, net=None):
        """What i sends to j is lost."""
        self._rule((i, j), "lost", ["%s . %s" % (
            self.hosts[i].mac(k), self.hosts[j].mac(k))
            for k in self._nets(net)])

    def narrow(self, i, j):
        """Between these two, packets of more than 1,400 bytes are lost; their
        MTU is 1,500."""
        self.switch.do(*self._packets_of_the_wire(i),
                       *self._packets_of_the_wire(j))
        for k in self.nets:
            macs = self.hosts[i].mac(k), self.hosts[j].mac(k)
            self._rule((i, j), "narrow", ["%s . %s" % macs,
                                          "%s . %s" % macs[::-1]])

    def filter(self, i, *ports):
        """What is sent to these TCP ports of i is lost: single ones, "1-9"."""
        self._rule((i,), "filtered", [
            "%s . %s" % (self.hosts[i].mac(k), word)
            for k in self.nets for word in ports])

    def forget(self, port=None):
        """A firewall between all hosts is loaded again: packets of connections
        that it does not know are lost, new connections pass. port: only those
        of this port."""
        ports = {tuple(int(word.rpartition(":")[2], 16) for word in row[1:3])
                 for host in self.hosts for table in ("tcp", "tcp6")
                 for row in map(str.split, self.run(host.number, [
                     "cat", "/proc/net/" + table])[1].splitlines()[1:])
                 if row[3] == "01"}
        if port:
            ports = {ways for ways in ports if port in ways}
        self.switch.set("add", "forgotten", *{
            "%d . %d" % way for a, b in ports for way in ((a, b), (b, a))})

    def loss(self, i, percent):
        """So many of its frames are lost, both ways; of all hosts with 0."""
        commands = ["nft flush chain bridge cluster loss"] if not percent \
            else ["nft add rule bridge cluster loss ether %s %s numgen random "
                  "mod 1000 le %d drop" % (way, self.hosts[i].mac(k),
                                           percent * 10 - 1)
                  for k in self.nets for way in ("saddr", "daddr")]
        self.switch.do(*commands,
                       *(self._packets_of_the_wire(i) if percent else ()))

    def _packets_of_the_wire(self, i):
        """Commands: a frame that host i sends is one packet, not 64 KB that
        nobody has cut yet."""
        inside = "nsenter --net=/proc/%d/ns/net" % self.hosts[i].init
        return ["%s ip link set eth%d gso_max_segs 1" % (inside, k - 1)
                for k in self.nets]

    def delay(self, i, ms):
        """Its frames take so long, each way; 0: no longer."""
        host = self.hosts[i]
        for k in self.nets:
            relay = host.relays.pop(k, None)
            if relay:
                relay.terminate()
                relay.wait()
                self.switch.do("ip link set %s master br%d" % (
                    port(host, k), k), "ip link del d%d-%d" % (
                        host.address, k))
            if ms:
                self._delay(host, k, ms)

    def _delay(self, host, k, ms):
        near, far = "d%d-%d" % (host.address, k), "e%d-%d" % (host.address, k)
        self.switch.do("ip link add %s type veth peer name %s" % (near, far),
                       "ip link set %s up" % near,
                       "ip link set %s up" % far)
        host.relays[k] = subprocess.Popen(
            [*self.switch.enter(), self.relay, port(host, k), near, str(ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        host.relays[k].stdout.readline()  # it listens
        self.switch.do("ip link set %s nomaster" % port(host, k),
                       "ip link set %s master br%d" % (far, k))

    def _nets(self, net):
        return [net] if net else self.nets

    def _rule(self, who, name, elements):
        self.switch.set("add", name, *elements)
        self.rules.append((who, name, *elements))

    # ---- what hosts see -----------------------------------------------------

    def hide(self, i, path):
        """This directory is empty on host i, also after power_on()."""
        self.hosts[i].hidden.append(path)
        self._hide(self.hosts[i], path)

    def _hide(self, host, path):
        status, _, errors = self.run(host.number, [
            "mount", "-t", "tmpfs", "hidden", path])
        if status:
            raise Broken("%s cannot hide %s: %s" % (host.name, path, errors))

    def lock_out(self, i):
        """sshd of host i takes no key any more."""
        write(os.path.join(self.hosts[i].directory, "authorized"), "")

    def listen(self, path):
        """Everything that passes the switch goes into this file, until what
        comes back is called, which tells how many frames were missed."""
        child = subprocess.Popen(
            [*self.switch.enter(), "python3", "-B", os.path.join(
                os.path.dirname(os.path.abspath(__file__)), "listen.py"),
             path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        child.stdout.readline()

        def end():
            child.terminate()
            missed = int(child.communicate(timeout=PATIENCE_S)[0])
            return missed
        return end

    def listening(self, i):
        """TCP ports on which host i listens, but for its sshd's."""
        rows = [line.split() for table in ("tcp", "tcp6") for line in self.run(
            i, ["cat", "/proc/net/" + table])[1].splitlines()[1:]]
        return {int(row[1].rpartition(":")[2], 16) for row in rows
                if row[3] == "0A"} - {22, 2222}

    def interface_bytes(self, i, net=1):
        """(received, sent) of host i in a network."""
        row = self.run(i, ["cat", "/proc/net/dev"])[1].partition(
            "eth%d:" % (net - 1))[2].split()
        return int(row[0]), int(row[8])


def port(host, k):
    """The switch's end of a host's cable in network k."""
    return "p%d-%d" % (host.address, k)
