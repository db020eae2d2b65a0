"""test_limits - one worker may do less than the others of its host: a limit, a
sandbox, its own environment. The job ends well with right answers (shm_worker
checks each), or before training with one sentence; and who comes to a job that
runs with such a limit does not end it.

What a worker may not do it is told by limit.sh, which stands before it.
"""
import os
import resource
import signal
import subprocess
import sys

from harness import (LOCAL, OTHER, PATIENCE_S, Run, SLOW, check, copy_program,
                     equal, jobs, main, scenario)

N = 3
COUNT = 1 << 17  # int64 of a large allreduce


def forbid(stage, names):
    return os.path.join(stage.build, "tests/integration/forbid") + " " + names


def filters_work(stage):
    """A sandbox around the tests may forbid filters of their own."""
    found = subprocess.run([*forbid(stage, "pidfd_open").split(), "true"],
                           check=False, capture_output=True)
    if found.returncode != 0:
        stage.note("skipped: no seccomp filters here")
    return found.returncode == 0


def limited(stage, who, limit, under=""):
    """shm_worker, behind a script in which those for whom the test `who` is
    true have run `limit`, or run under a program."""
    wrapper = stage.file("limit.sh", "#!/bin/sh\nif %s; then\n%s\n"
                         "exec %s \"$@\"\nfi\nexec \"$@\"\n" % (
                             who, limit or ":", under))
    return [wrapper, os.path.join(stage.build, "tests/integration/shm_worker")]


def start(stage, program, hosts=None, n=N, **environment):
    control = os.path.join(stage.root, "lead")
    os.makedirs(control, exist_ok=True)
    fixed = [] if hosts else ["-H", "%s:%d" % (LOCAL, n)]
    run = stage.start(["-np", str(n), "--min-np", str(min(n, 2)), *fixed],
                      [*program, "--epochs", "3", "--count", str(COUNT),
                       control], hosts=hosts, **environment)
    run.control = control
    return run


def goes_well(run, n=N):
    run.whole(n)
    for epoch in range(3):
        run.epoch(epoch)
    run.ends(0)
    run.agrees(n)


def one_is_limited(stage, limit, says=(), under="", **environment):
    program = limited(stage, '[ "$HVD_SLOT" = 1 ]', limit, under)
    run = start(stage, program, HVD_LOG_LEVEL="info", **environment)
    goes_well(run)
    for words in says:
        equal(len([line for line in run.lines if words in line]), 1,
              "lines with %r" % words)
    return run


# the thread sanitizer itself has to write a file
NO_FILES = "ulimit -f 0" if SLOW == 1 else "ulimit -f 100"
UNSHARED = "cannot share memory -> the ranks of its host use TCP"


@scenario
def files_of_no_bytes(stage):
    one_is_limited(stage, NO_FILES,
                   ["no shared memory (RLIMIT_FSIZE: ", UNSHARED])


@scenario
def small_files(stage):
    one_is_limited(stage, "ulimit -f 1000",
                   ["no shared memory (RLIMIT_FSIZE: ", UNSHARED])


@scenario
def files_of_100_megabytes(stage):
    one_is_limited(stage, "ulimit -f 200000")


@scenario
def short_address_space(stage):
    if SLOW > 1:
        stage.note("skipped: a sanitizer takes all of it")
        return
    one_is_limited(stage, "ulimit -v 1000000")


@scenario
def no_room_for_a_snapshot_names_the_limit(stage):
    if SLOW > 1:
        stage.note("skipped: a sanitizer takes all of it")
        return
    program = limited(stage, "true", "ulimit -v 1000000")
    program[1] = os.path.join(stage.build, "tests/integration/chaos_worker")
    run = stage.start(["-np", "2", "-H", LOCAL + ":2"],
                      [*program, "--state-bytes", "700000000"])
    verdict = run.ends(1)
    check("(RLIMIT_AS is 1024000000 bytes)" in verdict, verdict)


@scenario
def tcp_by_its_own_environment(stage):
    run = one_is_limited(stage, "export HVD_TRANSPORT=tcp", [UNSHARED])
    check(not [line for line in run.lines if "no shared memory" in line],
          "what was asked for is no warning")


@scenario
def no_memfd_create(stage):
    if filters_work(stage):
        one_is_limited(stage, "", ["no shared memory (memfd_create: ",
                                   UNSHARED], forbid(stage, "memfd_create"))


@scenario
def no_process_vm_readv(stage):
    if not filters_work(stage):
        return
    for how in ("", "--eperm "):
        one_is_limited(stage, "", ["no process_vm_readv ("],
                       forbid(stage, how + "process_vm_readv"),
                       HVD_LOCAL_BUFFERS="attached")


@scenario
def not_dumpable(stage):
    one_is_limited(stage, "export SHM_WORKER_UNDUMPABLE=1", [
        "no process_vm_readv (this process is not dumpable)"],
        HVD_LOCAL_BUFFERS="attached")


@scenario
def no_pidfd_open(stage):
    if filters_work(stage):
        one_is_limited(stage, "", ["no pidfd_open ("],
                       forbid(stage, "pidfd_open"))


@scenario
def another_user(stage):
    if os.geteuid() != 0:
        stage.note("skipped: only root can start others' programs")
        return
    os.chmod(stage.root, 0o755)
    one_is_limited(stage, "", ["is of another user than others there"],
                   "setpriv --reuid 65534 --clear-groups")


@scenario
def nothing_at_all(stage):
    if filters_work(stage):
        one_is_limited(stage, NO_FILES, [UNSHARED], forbid(
            stage, "memfd_create,process_vm_readv,pidfd_open"))


@scenario
def few_descriptors(stage):
    one_is_limited(stage, "ulimit -n 1024")
    one_is_limited(stage, "ulimit -Hn 200\nulimit -Sn 38",
                   [": RLIMIT_NOFILE 38 -> "])
    if SLOW == 1:  # a sanitizer has some of its own
        one_is_limited(stage, "ulimit -n 64")


@scenario
def too_few_descriptors(stage):
    """Enough to call the driver, not enough for a generation."""
    program = limited(stage, '[ "$HVD_SLOT" = 1 ]', "ulimit -n 38")
    run = start(stage, program)
    run.ends(1)
    for words in ("worker 2 (localhost:1) failed: 3 ranks, 3 of them here: ",
                  "RLIMIT_NOFILE allows 38"):
        check(words in run.verdict(), run.verdict())
    equal(run.epochs(), [], "epochs")


# a session of its own, so that no signal of the agent's reaches what it starts
WRAPPER = """exec python3 -c 'import subprocess, sys
status = subprocess.Popen(sys.argv[1:], start_new_session=True).wait()
subprocess.call(sys.argv[1:])
sys.exit(status)' "$@"
"""


@scenario
def behind_a_wrapper_that_closes_descriptors(stage):
    """As conda run, accelerate launch and sudo do. The second program that it
    starts is not that worker, as one that a worker starts."""
    run = start(stage, limited(stage, "true", WRAPPER))
    goes_well(run)
    for worker in range(1, N + 1):
        check([line for line in run.lines
               if "a child of worker %d of a job" % worker in line and
               "env -u HVD_DRIVER" in line], "worker", worker, "is not told")


@scenario
def behind_a_wrapper_it_ends_with_its_agent(stage):
    """No driver that could tell it, no signal: the lifeline."""
    run = start(stage, limited(stage, "true", WRAPPER))
    rows = run.whole(N)["ranks"]
    run.process.send_signal(signal.SIGSTOP)
    jobs.kill(run.seen("agent_started")[-1]["pid"])
    run.until("the end of %d workers" % len(rows), lambda: not [
        pid for pid, parent in jobs.parents() if pid in run.orphans() and
        pid != run.process.pid], PATIENCE_S)
    jobs.kill(run.process.pid)
    run.wait(PATIENCE_S)


# ---- to a job that runs -------------------------------------------------------

@scenario
def small_files_while_it_trains(stage):
    """Nothing is made then; the next generation makes mailboxes."""
    run = start(stage, limited(stage, "false", ""))
    rows = {row["rank"]: row for row in run.whole(N)["ranks"]}
    files = 0 if SLOW == 1 else 64 << 10  # less than a mailbox
    resource.prlimit(rows[1]["pid"], resource.RLIMIT_FSIZE, (files, files))
    run.epoch(0)
    mark = run.mark()
    jobs.kill(rows[2]["pid"])
    run.whole(N, mark, [rows[2]["pid"]])
    run.epoch(1)
    run.epoch(2)
    run.ends(0)
    run.agrees(N)
    equal(len(run.seen("worker_lost")), 1, "workers lost")
    check([line for line in run.lines if UNSHARED in line], "is not said")


def joins(stage, limit, under, before, after, who, n_after):
    """Somebody limited comes, trains with the others, and goes."""
    program = limited(stage, who, limit, under)
    run = start(stage, program, hosts=before, n=2)
    run.whole(2)
    run.epoch(0)
    mark = run.mark()
    run.set_hosts(*after)
    run.whole(n_after, mark)
    run.epoch(1)
    mark = run.mark()
    run.set_hosts(*before)
    run.whole(2, mark)
    run.epoch(2)
    run.ends(0)
    run.agrees(2)
    equal(run.seen("worker_lost"), [], "workers lost")


@scenario
def limited_host_joins(stage):
    joins(stage, NO_FILES, "", ["localhost:2"],
          ["localhost:2", OTHER + ":2"], '[ "$HVD_HOST" = %s ]' % OTHER, 4)


@scenario
def limited_worker_joins_a_host(stage):
    under = forbid(stage, "memfd_create") if filters_work(stage) else ""
    joins(stage, NO_FILES, under, ["localhost:2"], ["localhost:3"],
          '[ "$HVD_SLOT" = 2 ]', 3)


@scenario
def program_closes_everything(stage):
    """It ends, and says why; the agent, which lives, is not blamed."""
    program = limited(stage, "true", "export SHM_WORKER_CLOSES=1")
    run = start(stage, program, n=1)
    run.ends(1)
    check([line for line in run.lines
           if "the program closed descriptors of libhvd" in line],
          "is not said")
    check(not [line for line in run.lines if "agent of this host" in line],
          "the agent is blamed")


# ---- the whole job ------------------------------------------------------------

def limits(text):
    """A command that starts another with these limits."""
    return ["/bin/sh", "-c", text + '\nexec "$@"', "limits"]


def all_are_limited(stage, under, **environment):
    goes_well(start(stage, limited(stage, "true", ""), under=under,
                    **environment))


def ends_at_once(stage, under, *words):
    """With one sentence, before anything is started."""
    run = start(stage, limited(stage, "true", ""), under=under)
    equal(run.wait(PATIENCE_S), 1, "exit status")
    equal(len(run.lines), 1, "lines")
    for word in words:
        check(word in run.verdict(), run.verdict())


@scenario
def whole_job_with_small_files(stage):
    all_are_limited(stage, limits("ulimit -f 100"))


@scenario
def whole_job_without_process_vm_readv(stage):
    if filters_work(stage):
        all_are_limited(stage, forbid(stage, "process_vm_readv").split(),
                        HVD_LOCAL_BUFFERS="attached")


@scenario
def whole_job_without_a_working_directory(stage):
    """Somebody has removed it, and nothing that is given is relative to it."""
    all_are_limited(stage, limits("cd $(mktemp -d)\nrmdir $PWD"))


@scenario
def whole_job_without_prlimit64(stage):
    if SLOW > 1:
        stage.note("skipped: a sanitizer asks for its limits itself")
    elif filters_work(stage):
        all_are_limited(stage, forbid(stage, "--eperm prlimit64").split())


@scenario
def worker_without_accept4_says_so(stage):
    """libzmq would abort it, and others would wait for it."""
    if filters_work(stage):
        run = start(stage, limited(stage, "true", "", forbid(stage, "accept4")))
        run.ends(1)
        check([line for line in run.lines if "hvd_init: system call accept4: "
               "Function not implemented -> " in line], "is not said")


@scenario
def whole_job_without_close_range(stage):
    """An old kernel, or an old container runtime."""
    for how in ("", "--eperm ") if filters_work(stage) else ():
        all_are_limited(stage, forbid(stage, how + "close_range").split())


CALLER = """
import os, resource, signal, sys
for number in signal.SIGHUP, signal.SIGINT, signal.SIGCHLD:
    signal.signal(number, signal.SIG_IGN)
for number in signal.SIGPIPE, signal.SIGXFSZ, signal.SIGQUIT:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 2000))
os.umask(0o777)
os.close(0)
os.dup2(1, 7)
os.execv(sys.argv[1], sys.argv[1:])
"""

STATUS = """
while read name value; do case $name in SigBlk:|SigIgn:|Umask:)
    echo "$name" $value;; esac; done </proc/self/status
[ -e /proc/self/fd/7 ] && echo open: 7
"""


@scenario
def workers_have_what_the_caller_had(stage):
    """A daemon, nohup, & in a script: what is ignored there stays so, and what
    driver and agent need besides is their own matter."""
    job = os.path.join(stage.root, "job")
    run = stage.start(
        ["-np", str(N), "--job-dir", job],
        [*limited(stage, "true", STATUS), "--epochs", "3", "--count",
         str(COUNT), os.path.join(stage.root, "lead")],
        script="sleep 0.1; echo localhost:%d" % N,
        under=[sys.executable, "-c", CALLER])
    run.control = os.path.join(stage.root, "lead")
    os.makedirs(run.control)
    run.whole(N)
    equal(os.stat(job).st_mode & 0o777, 0o700, "mode of the job directory")
    for number in (signal.SIGHUP, signal.SIGINT):
        run.interrupt(number)
    goes_well(run)
    for words in ("SigBlk: %016x" % (1 << signal.SIGTERM - 1),
                  "SigIgn: %016x" % (1 << signal.SIGHUP - 1 |
                                     1 << signal.SIGINT - 1),
                  "Umask: 0777"):
        equal(len([line for line in run.lines if words in line]), N,
              "workers with " + words)
    equal([line for line in run.lines if "open: 7" in line], [],
          "workers with a descriptor of the caller's")


@scenario
def standard_descriptors_are_closed(stage):
    """Nothing that is printed gets into a file of the job."""
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        job = stage.directory() + ".job"
        command = [stage.driver, "-np", "1", "--job-dir", job, "--",
                   "sh", "-c", "echo pri''nted; echo pri''nted >&2"]
        done = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh",
                               *command], check=False, capture_output=True,
                              timeout=PATIENCE_S)
        equal(done.returncode, 1, "exit status (never called hvd_init)")
        for name in os.listdir(job):
            with open(os.path.join(job, name), "rb") as file:
                check(b"printed" not in file.read(), name)


@scenario
def whole_job_that_cannot_start(stage):
    if SLOW == 1:
        ends_at_once(stage, limits("ulimit -f 0"), "RLIMIT_FSIZE")
    ends_at_once(stage, limits("ulimit -n 100"), "RLIMIT_NOFILE", "256")
    ends_at_once(stage, limits("ulimit -s 64"), "RLIMIT_STACK", "192")
    if filters_work(stage):
        ends_at_once(stage, forbid(stage, "pidfd_open").split(), "pidfd_open")
        ends_at_once(stage, forbid(stage, "memfd_create").split(),
                     "memfd_create")
        for call in "waitid", "accept4", "sched_setscheduler":
            ends_at_once(stage, forbid(stage, "--eperm " + call).split(),
                         "system call %s: Operation not permitted" % call)


@scenario
def workers_have_the_users_limits(stage):
    """Driver and agent take what the hard limit has; the program does not get
    it unasked."""
    program = limited(stage, "true", "echo files $(ulimit -Sn) $(ulimit -Hn)")
    run = start(stage, program, under=limits("ulimit -Hn 2000\nulimit -Sn 300"))
    goes_well(run)
    equal(len([line for line in run.lines if "files 300 2000" in line]), N,
          "workers with the limits of their user")


@scenario
def newcomer_without_descriptors_is_left_out(stage):
    """It cannot enter its first generation; the others go on without it."""
    program = limited(stage, '[ "$HVD_HOST" = %s ]' % OTHER, "ulimit -n 38")
    run = start(stage, program, hosts=["localhost:2"], n=2)
    run.whole(2)
    run.epoch(0)
    mark = run.mark()
    run.set_hosts("localhost:2", OTHER + ":1")
    run.says("failed: 3 ranks, 1 of them here: ")
    run.whole(2, mark)
    run.epoch(1)
    run.epoch(2)
    run.ends(0)
    run.agrees(2)


# ---- the driver has no memory for the key of one ------------------------------

def lacks(stage, what):
    """A job of trainer whose driver lacks what tests/integration/lacking.c
    says."""
    driver = os.path.join(stage.root, "hvd-elastic")
    copy_program(os.path.join(stage.build,
                              "tests/integration/hvd-elastic-lacking"), driver)
    os.symlink(os.path.join(stage.build, "src/elastic/agent/hvd-agent"),
               os.path.join(stage.root, "hvd-agent"))
    run = Run(stage, ["-np", "2", "-H", LOCAL + ":2"], (), False)
    run.command[0] = driver
    stage.runs.append(run)
    run.start(HVD_TEST_LACKS=what)
    return run


def trains(run):
    run.whole(2)
    run.allow(1000)
    run.ends(0)
    run.agrees(2)


@scenario
def no_memory_for_the_key_of_a_worker_it_is_started_later(stage):
    run = lacks(stage, "worker 3")
    run.says("no memory for the key of worker 1 -> it is started later")
    trains(run)
    equal(sorted(e["worker"] for e in run.seen("worker_spawned")), [1, 2],
          "workers that were started")


@scenario
def no_memory_for_the_key_of_an_agent_it_is_a_failure_of_its_host(stage):
    run = lacks(stage, "agent 1")
    failed = run.event("start_failed")
    check("could not be started: no memory for its key" in failed["reason"],
          failed)
    trains(run)


if __name__ == "__main__":
    sys.exit(main())
