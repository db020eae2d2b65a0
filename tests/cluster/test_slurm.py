"""test_slurm - a job in an allocation of a real Slurm, and what becomes of it when
nodes drain, fail, are given back, and come. See slurm.py and harness.py.

Each scenario has a Slurm of its own, with four nodes. A trainer says at its end
what it has computed: the same, whatever was lost and made anew.

usage: test_slurm.py BUILD_DIRECTORY [NAME ...]
"""
import itertools
import os
import shlex
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "../integration")]
import apart  # noqa: E402
import harness  # noqa: E402
import slurm as slurms  # noqa: E402
from harness import PATIENCE_S, check, equal, scenario  # noqa: E402
from hosts import command_of, kill, state, wait  # noqa: E402
from stage import STEP_US, digest  # noqa: E402

N_BESIDE = 4
QUICK = ("--discovery-interval", "0.1", "--heartbeat-timeout", "10")
ports = itertools.count(17000, slurms.PORTS)


class Run(harness.Run):
    """A job with an allocation around it, or none."""

    def __init__(self, stage, options, program):
        super().__init__(stage, options, program, False)
        at = self.command.index("--discovery-interval")
        del self.command[at:at + 4]  # the product's own, or in the options

    def hosts_of(self):
        return sorted({row["host"] for row in self.members()})

    def client(self, host):
        """The pid of the srun that has started the agent of a host."""
        found = [pid for pid in self.orphans()
                 if "--nodelist=" + host in command_of(pid).split()
                 and command_of(pid).startswith("srun")]
        check(found, "no srun for", host)
        return min(found)  # the other one is its child

    def agent(self, host):
        found = [pid for pid in self.orphans()
                 if "hvd-agent" in command_of(pid).split(" ")[0]
                 and name_of(pid) == host]
        equal(len(found), 1, "agents of " + host)
        return found[0]

    def finish(self, size):
        """Let the training end: nobody lost a step, or made it twice."""
        self.epoch(0)
        self.ends()
        self.agrees(size)
        got, steps, _ = self.digests()[0]
        equal(got, digest(steps, 1), "digest after %d steps" % steps)


def name_of(pid):
    """Of the node that a process runs on."""
    words = [word for word in harness.jobs.environment_of(pid)
             if word.startswith(b"SLURMD_NODENAME=")]
    return words[0].partition(b"=")[2].decode() if words else None


class Stage(harness.Stage):
    def __init__(self, build):
        super().__init__(build)
        self.slurm = None

    def up(self):
        self.slurm = slurms.Slurm(os.path.join(self.root, "slurm"),
                                  port=next(ports))
        return self.slurm

    def job(self, *allocation, options=QUICK, **more):
        """A trainer under salloc with these options, or under nothing."""
        if not self.slurm:
            self.up()
        run = Run(self, options, ("--epochs", "1", "--step-us", str(STEP_US)))
        self.runs.append(run)
        if allocation:
            run.command[:0] = ["salloc", "-Q", *allocation]
        run.start(SLURM_CONF=self.slurm.config, **more)
        return run

    def settle(self):
        super().settle()
        if self.slurm:
            self.slurm.idle()

    def report(self):
        yield from super().report()
        for name, text in (self.slurm.logs if self.slurm else {}).items():
            yield from ("  %s: %s" % (name, line)
                        for line in text.splitlines())

    def close(self):
        for run in self.runs:
            if run.process and run.process.poll() is None:
                run.kill()
        if self.slurm:
            self.slurm.down()
        super().close()


@scenario
def allocation_needs_no_option(stage):
    run = stage.job("-N4", "--ntasks-per-node=2", options=())
    run.whole(8)
    equal(run.hosts_of(), ["n1", "n2", "n3", "n4"], "hosts")
    run.finish(8)


@scenario
def whole_nodes_have_a_worker_for_each_task(stage):
    """Whatever number of CPUs they have, and whatever somebody exports."""
    run = stage.job("-N2", "-n3", "--exclusive", options=(),
                    SRUN_CPUS_PER_TASK="3", SLURM_EXPORT_ENV="NONE",
                    SLURM_TIME_FORMAT="relative", SINFO_FORMAT="%N")
    run.whole(3)
    equal(run.hosts_of(), ["n1", "n2"], "hosts")
    run.finish(3)


@scenario
def job_that_is_over_is_named(stage):
    stage.up()
    job = stage.slurm.submit("-N1", "--wrap", "true")
    wait("its end", lambda: "JobState=COMPLETED" in stage.slurm.ask(
        "scontrol", "show", "job", job)[1])
    run = stage.job(options=("-np", "2"), SLURM_JOB_ID=job)
    run.wait(PATIENCE_S)
    run.says("job %s (SLURM_JOB_ID) is over" % job)


def nobody_is_lost(run, mark):
    equal(run.seen("worker_lost", mark), [], "lost")


@scenario
def drained_node_is_left(stage):
    """At a boundary, and it comes back."""
    run = stage.job("-N4", "--ntasks-per-node=1",
                    options=(*QUICK, "--min-np", "2"))
    run.whole(4)
    mark = run.mark()
    stage.slurm.ask("scontrol", "update", "NodeName=n3", "State=DRAIN",
                    "Reason=test")
    run.event("host_leaving", mark, host="n3")
    run.whole(3, mark)
    equal(run.hosts_of(), ["n1", "n2", "n4"], "hosts")
    mark = run.mark()
    stage.slurm.ask("scontrol", "update", "NodeName=n3", "State=RESUME")
    run.whole(4, mark)
    nobody_is_lost(run, 0)
    run.finish(4)


@scenario
def node_that_is_down_is_lost(stage):
    run = stage.job("-N4", "--ntasks-per-node=1", "--no-kill",
                    options=(*QUICK, "--min-np", "2"))
    run.whole(4)
    mark = run.mark()
    stage.slurm.ask("scontrol", "update", "NodeName=n3", "State=DOWN",
                    "Reason=test")
    run.whole(3, mark)
    equal(run.hosts_of(), ["n1", "n2", "n4"], "hosts")
    run.finish(3)


@scenario
def job_that_shrinks(stage):
    run = stage.job("-N4", "--ntasks-per-node=1",
                    options=(*QUICK, "--min-np", "2"))
    run.whole(4)
    mark = run.mark()
    stage.slurm.ask("scontrol", "update", "JobId=" + stage.slurm.jobs()[0],
                    "NodeList=n1,n4")
    run.whole(2, mark)
    equal(run.hosts_of(), ["n1", "n4"], "hosts")
    run.finish(2)


@scenario
def kill_of_srun(stage):
    """Its agent ends with it, and another one is started."""
    run = stage.job("-N2", "--ntasks-per-node=1",
                    options=(*QUICK, "--min-np", "1"))
    lost = run.whole(2)
    agent = run.agent("n2")
    mark = run.mark()
    kill(run.client("n2"))
    run.event("agent_lost", mark, host="n2")
    wait("the end of its agent", lambda: state(agent) in (None, "Z"))
    run.whole(2, mark)
    equal(run.hosts_of(), ["n1", "n2"], "hosts")
    check(lost, "nobody trained")
    run.finish(2)


@scenario
def driver_is_killed(stage):
    """srun outlives it, and so do the agents: a successor goes on with them."""
    stage.up()
    job = os.path.join(stage.directory(), "job")
    run = Run(stage, (*QUICK, "--min-np", "1", "--job-dir", job),
              ("--epochs", "1", "--step-us", str(STEP_US)))
    stage.runs.append(run)
    run.command = ["salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c",
                   "%s; exec %s --resume %s" % (
                       shlex.join(run.command), stage.driver, job)]
    run.start(SLURM_CONF=stage.slurm.config)
    run.whole(2)
    kill(min(pid for pid in run.orphans()
             if command_of(pid).split(" ")[0] == stage.driver))
    run.says("goes on")
    run.epoch(0)
    equal(run.wait(PATIENCE_S), 0, "status")
    run.agrees(2)


@scenario
def pool_grows_and_shrinks(stage):
    """Each job of one node; the driver is in none of them."""
    holder = ("-J", "hvd-pool", "-N1", "--ntasks-per-node=2", "--exclusive",
              "--wrap", "sleep 1000")
    first = stage.up().submit(*holder)
    run = stage.job(options=(*QUICK, "-np", "2", "--max-np", "4"),
                    HVD_SLURM_JOB_NAME="hvd-pool")
    run.whole(2)
    mark = run.mark()
    stage.slurm.submit(*holder)
    run.whole(4, mark)
    mark = run.mark()
    stage.slurm.ask("scancel", first)
    run.whole(2, mark)
    run.finish(2)
    stage.slurm.ask("scancel", "--name=hvd-pool")


@scenario
def notice_of_slurm_drains(stage):
    """As sbatch --signal=B:USR1@300 sends it."""
    run = stage.job("-N2", "--ntasks-per-node=1")
    run.whole(2)
    named = {pid for pid in run.orphans()
             if os.path.basename(command_of(pid).split(" ")[0])
             == "hvd-elastic"}
    # a child bears the name of its parent until it has become another program
    driver = [pid for pid, parent in harness.jobs.parents()
              if pid in named and parent not in named]
    equal(len(driver), 1, "drivers")
    os.kill(driver[0], signal.SIGUSR1)
    equal(run.event("job_finished")["status"], 128 + signal.SIGUSR1, "status")
    run.wait(PATIENCE_S)
    nobody_is_lost(run, 0)


def play():
    slurms.plug()
    return harness.main(Stage, N_BESIDE)


def main():
    why = slurms.missing()
    if why:
        print("1..0 # SKIP " + why)
        return 0
    return apart.run(play)


if __name__ == "__main__":
    sys.exit(main())
