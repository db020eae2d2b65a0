"""slurm - a real Slurm on this machine: munged, slurmctld and nodes n1, n2 ...

    slurm = Slurm(directory, n=4, port=17000)
    slurm.ask("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=x")
    slurm.down()

Each node is a slurmd with a host name of its own, in one network: names of nodes
mean nothing to anybody but Slurm. Nodes have 4 processors, however many there are.
No cgroups, no affinity, no accounting, short waits.

Call under apart.run(): what is left when this process is killed ends with it, and
its ports are nobody else's.

Threads: one for each Slurm. Children: the daemons; down() ends them.
"""
import os
import subprocess

import apart
from hosts import read, wait, write

TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client",
         "munged": "munge", "unshare": "util-linux"}
PORTS = 100  # of one Slurm
CONFIG = """ClusterName=hvd
SlurmctldHost=%(host)s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=%(port)d
SrunPortRange=%(first)d-%(last)d
AuthType=auth/munge
AuthInfo=socket=%(dir)s/munge.socket
CryptoType=crypto/munge
StateSaveLocation=%(dir)s/state
SlurmdSpoolDir=%(dir)s/spool-%%n
SlurmctldPidFile=%(dir)s/slurmctld.pid
SlurmdPidFile=%(dir)s/slurmd-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=15
InactiveLimit=0
KillWait=5
WaitTime=0
MessageTimeout=10
TCPTimeout=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
PropagateResourceLimits=NONE
"""


def missing():
    """Why there can be no Slurm here: a sentence; None: there can be."""
    lacking = sorted({package for tool, package in TOOLS.items()
                      if not apart.find(tool)})
    if lacking:
        return "not installed: %s (scripts/bootstrap --cluster)" % (
            ", ".join(lacking))
    return apart.missing()


def plug():
    """A network to be found on: Slurm resolves no address on a machine that has
    none but loopback's."""
    for command in ("link add eth0 type veth peer name eth1",
                    "addr add 10.77.1.1/24 dev eth0",
                    "link set eth1 up", "link set eth0 up"):
        subprocess.run(["ip", *command.split()], check=True)


class Slurm:
    def __init__(self, directory, n=4, port=17000):
        self.directory = directory
        self.names = ["n%d" % (i + 1) for i in range(n)]
        self.daemons = {}
        self.config = os.path.join(directory, "slurm.conf")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("SLURM_")}
        self.env["SLURM_CONF"] = self.config
        for name in ("state", "munge", "log"):
            os.makedirs(os.path.join(directory, name), 0o755)
        self._write_files(port)
        try:
            self.munge()
            self.control()
            for i, name in enumerate(self.names):
                self.node(name, fresh=i)
            wait("idle nodes: %s" % self.logs, self._is_whole)
        except BaseException:
            self.down()
            raise

    # ---- up -----------------------------------------------------------------

    def _write_files(self, port):
        host = os.uname().nodename
        text = CONFIG % {"host": host, "port": port, "first": port + 40,
                         "last": port + PORTS - 1, "dir": self.directory}
        for i, name in enumerate(self.names):
            text += ("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d "
                     "CPUs=4 RealMemory=500 State=UNKNOWN\n" % (
                         name, host, port + 1 + i))
        text += "PartitionName=main Nodes=%s Default=YES MaxTime=60 State=UP\n" \
            % ",".join(self.names)
        write(self.config, text)
        # or slurmd insists on cgroups that nothing uses
        write(os.path.join(self.directory, "cgroup.conf"),
              "CgroupPlugin=cgroup/v1\n")
        os.chmod(self.directory, 0o755)
        os.chmod(os.path.join(self.directory, "munge"), 0o700)
        key = os.path.join(self.directory, "munge", "key")
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o600)

    def _start(self, name, command):
        path = os.path.join(self.directory, "log", name)
        with open(path, "a", encoding="ascii") as log:
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.env, start_new_session=True)

    def munge(self):
        where = os.path.join(self.directory, "munge")
        socket = os.path.join(self.directory, "munge.socket")
        self._start("munged", [
            apart.find("munged"), "--foreground", "--force", "--key-file",
            where + "/key", "--socket", socket, "--pid-file", where + "/pid",
            "--log-file", where + "/log", "--seed-file", where + "/seed"])
        wait("munged", lambda: os.path.exists(socket))

    def control(self):
        self._start("slurmctld", [apart.find("slurmctld"), "-D", "-f",
                                  self.config])

    def node(self, name, fresh=0):
        """Start its slurmd."""
        self._start(name, [
            "unshare", "--uts", "sh", "-c",
            'hostname "$1" && exec "$2" -D -N "$1" -f "$3"', "sh", name,
            apart.find("slurmd"), self.config])

    def _is_whole(self):
        status, text, _ = self.ask("sinfo", "-h", "-t", "idle", "-o", "%D",
                                   check=False)
        return status == 0 and text.strip() == str(len(self.names))

    @property
    def logs(self):
        return {name: read(os.path.join(self.directory, "log", name))[-400:]
                for name in self.daemons}

    # ---- use ----------------------------------------------------------------

    def ask(self, *command, check=True):
        """(status, stdout, stderr) of a command of Slurm's."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, env=self.env,
                              capture_output=True, text=True, timeout=20,
                              check=False)
        if check and done.returncode:
            raise AssertionError("%s: %s" % (" ".join(command), done.stderr))
        return done.returncode, done.stdout, done.stderr

    def node_is(self, name, state):
        self.ask("scontrol", "update", "NodeName=" + name, "State=" + state,
                 "Reason=test")

    def jobs(self):
        """Numbers of those that run, the oldest first."""
        return self.ask("squeue", "-h", "-r", "-S", "i", "-t", "RUNNING", "-o",
                        "%A")[1].split()

    def submit(self, *words):
        """The number of a job, whose own output nobody reads."""
        return self.ask("sbatch", "--parsable", "--output=/dev/null",
                        *words)[1].strip()

    # ---- down ---------------------------------------------------------------

    def end(self, name):
        daemon = self.daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def idle(self):
        """No job is left, nor a step of one."""
        wait("the end of jobs: %s" % self.ask("squeue")[1],
             lambda: not self.ask("squeue", "-h")[1].strip())

    def down(self):
        if "slurmctld" in self.daemons:
            self.ask("scancel", "--state=RUNNING", check=False)
            self.ask("scancel", "--state=PENDING", check=False)
        for daemon in self.daemons.values():
            daemon.terminate()
        for name in list(self.daemons):
            self.end(name)
