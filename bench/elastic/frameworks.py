"""frameworks - Horovod and PyTorch, whose recoveries ours are held against.

Debian's PyTorch, and Horovod's source from PyPI, built against it into a
virtual environment in the build directory; with it, if wanted, the newest
PyTorch from PyPI. Only what is missing. Horovod takes minutes of all
processors, the newest PyTorch 5 GB of disk. "horovod" has Gloo; "horovod-mpi",
an environment of its own, has Debian's OpenMPI too.
"""
import functools
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "peers"))
import install  # noqa: E402

# Debian's PyTorch is seen by Debian's interpreter only.
PYTHON = "/usr/bin/python3"
TORCH = ["python3-torch", "python3-numpy", "python3-yaml"]
# The headers of PyTorch are a package of their own, and want pybind11.
HOROVOD = [*TORCH, "python3-psutil", "python3-venv", "python3-dev",
           "libtorch-dev", "pybind11-dev", "g++", "make", "cmake"]
HOROVOD_VERSION = "0.28.1"
# Its setup.py calls bdist_wheel and distutils as they were.
HOROVOD_NEEDS = ["packaging", "cloudpickle", "setuptools<70", "wheel"]
HOROVOD_OPTIONS = {
    "HOROVOD_WITH_GLOO": "1", "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1", "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_NVTX": "1"}
# Of each of its environments: more packages, and how it takes MPI.
HOROVODS = {"horovod": ([], "HOROVOD_WITHOUT_MPI"),
            "horovod-mpi": (install.PACKAGES["OpenMPI"], "HOROVOD_WITH_MPI")}
NEWEST = "torch==2.15.*"
TAIL = 1500  # characters of a command's output that are told


class Missing(Exception):
    """Why something is not there and does not get there."""


def place(build, name):
    """The virtual environment of horovod, horovod-mpi or newest."""
    return os.path.join(install.programs(build), name + ".venv")


def python(build, name):
    return os.path.join(place(build, name), "bin/python")


def _call(command, directory=None, **environment):
    try:
        result = subprocess.run(
            command, cwd=directory, text=True, stdout=subprocess.PIPE,
            env=dict(os.environ, **environment), stderr=subprocess.STDOUT)
    except OSError as why:
        raise Missing(str(why)) from None
    if result.returncode != 0:
        raise Missing("%s failed:\n%s" % (" ".join(command),
                                          result.stdout.strip()[-TAIL:]))


def _asked(interpreter, code):
    """What code prints, or None if it fails or there is no interpreter."""
    try:
        result = subprocess.run([interpreter, "-c", code], text=True,
                                capture_output=True)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def torch_version(interpreter):
    return _asked(interpreter, "import torch; print(torch.__version__)")


def horovod_version(build, name="horovod"):
    return _asked(python(build, name), "import horovod.torch as hvd, horovod;"
                  "assert hvd.gloo_built() and hvd.mpi_built() == %s;"
                  "print(horovod.__version__)" % (name == "horovod-mpi"))


# ---- one after the other -----------------------------------------------------

def _packages(packages, allowed, say):
    reason = install.install_packages(packages, allowed, say)
    if reason:
        raise Missing(reason)


def _get_torch(_, allowed, say):
    _packages(TORCH, allowed, say)


def _environment(where, *options):
    if not os.path.exists(os.path.join(where, "bin/pip")):
        _call([PYTHON, "-m", "venv", *options, where])


def _unpack(where):
    """Horovod's source; what an attempt has built there stays."""
    source = os.path.join(where, "horovod-" + HOROVOD_VERSION)
    if os.path.isdir(source):
        return source
    archive = source + ".tar.gz"
    if not os.path.exists(archive):
        _call([os.path.join(where, "bin/pip"), "download", "-q", "--no-deps",
               "--no-binary", ":all:", "--no-build-isolation", "-d", where,
               "horovod==" + HOROVOD_VERSION])
    shutil.unpack_archive(archive, where)
    return source


def _get_horovod(name, build, allowed, say):
    """setup.py is called here: pip would build a second time after a failure,
    and throw away what was built."""
    if horovod_version(build, name) == HOROVOD_VERSION:
        return
    where, (packages, mpi) = place(build, name), HOROVODS[name]
    if not allowed:
        raise Missing("it is not installed in %s (--no-install)" % where)
    _packages([*HOROVOD, *packages], allowed, say)
    say("building Horovod in %s: some minutes" % where)
    _environment(where, "--system-site-packages")
    pip = [os.path.join(where, "bin/pip"), "install", "-q"]
    _call([*pip, *HOROVOD_NEEDS])
    source = _unpack(where)
    _call([python(build, name), "setup.py", "-q", "bdist_wheel"], source,
          MAKEFLAGS="-j%d" % len(os.sched_getaffinity(0)),
          PATH=os.path.join(where, "bin") + ":" + os.environ["PATH"],
          **{**HOROVOD_OPTIONS, mpi: "1"})
    wheels = os.path.join(source, "dist")
    _call([*pip, "--force-reinstall", "--no-deps",
           *(os.path.join(wheels, wheel) for wheel in os.listdir(wheels)
             if wheel.endswith(".whl"))])
    if horovod_version(build, name) != HOROVOD_VERSION:
        raise Missing("it was built in %s and cannot be imported" % where)
    shutil.rmtree(source)


def _get_newest(build, allowed, say):
    where = place(build, "newest")
    if torch_version(python(build, "newest")):
        return
    if not allowed:
        raise Missing("it is not installed in %s (--no-install)" % where)
    _packages(["python3-venv"], allowed, say)
    say("installing %s in %s: 5 GB" % (NEWEST, where))
    _environment(where)
    _call([os.path.join(where, "bin/pip"), "install", "-q", NEWEST, "numpy"])


GET = {"torch": _get_torch, "newest": _get_newest,
       **{name: functools.partial(_get_horovod, name) for name in HOROVODS}}


def get(build, name, allowed, say):
    """None, or in words why it is not there."""
    os.makedirs(install.programs(build), exist_ok=True)
    try:
        GET[name](build, allowed, say)
    except Missing as why:
        return str(why)
    return None


def interpreter(build, name):
    """By which one it is run."""
    return PYTHON if name == "torch" else python(build, name)
