"""contestants - who takes part in bench/compare, and how each is started.

A contestant is a peer or ours, in one of its variants: settings of a library
that may be better or worse for a size. Of a peer's variants the best counts.
"""
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PACKAGES = {
    "OpenMPI": ["openmpi-bin", "libopenmpi-dev"],
    "MPICH": ["mpich", "libmpich-dev"],
    "Gloo": ["libgloo-dev", "g++"],
}
# Whose version is told for each.
NAMESAKE = {"OpenMPI": "openmpi-bin", "MPICH": "mpich", "Gloo": "libgloo-dev"}
COMMON = ["bench/peers/main.c", "bench/cases.c", "bench/gate.c",
          "bench/method.c"]
HEADERS = ["bench/cases.h", "bench/gate.h", "bench/method.h",
           "bench/peers/peer.h", "include/hvd/collectives.h"]
FLAGS = ["-O3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-D_GNU_SOURCE",
         "-I" + ROOT, "-I" + os.path.join(ROOT, "include")]

PEERS = ["OpenMPI", "MPICH", "Gloo"]
ALLOC, ORDINARY = "ours, hvd_alloc", "ours, ordinary"
OURS = [ALLOC, ORDINARY]
# The two ways of reading a peer's ordinary buffers, of which ORDINARY chooses.
FORCED = {"ours, staged": "staged", "ours, attached": "attached"}
TRIALS = 16  # calls of a size that ORDINARY chooses by (choice.h)
BOUND = "memory bound"
BOUND_FROM = 64 << 10  # below, it would be the bound of a barrier


class Point:
    """What one start measures, and how."""

    def __init__(self, np, collective, sizes, time_ms, pin):
        self.np, self.collective, self.sizes = np, collective, sizes
        self.time_ms, self.pin = time_ms, pin

    def options(self, json_path, gate=True):
        return [self.collective,
                "--sizes=" + ",".join(str(size) for size in self.sizes),
                "--time=%d" % self.time_ms, "--json=" + json_path,
                *(["--gate=" + json_path + ".gate"] if gate else []),
                *(["--pin"] if self.pin else [])]


class Contestant:
    """name: the column; commands(point, json, directory) lists (argv,
    environment) of the processes to start, each of which ends by itself."""

    def __init__(self, name, variant, transports, commands, settings,
                 spins=False):
        self.name, self.variant = name, variant
        self.spins = spins  # with more ranks than processors: hopeless
        self.transports, self.commands = transports, commands
        self.settings = settings  # for the report
        self.key = name + "/" + variant

    def takes(self, point):
        if self.name != BOUND and self.name not in FORCED and not self.spins:
            return True
        return point.collective == "allreduce" and \
            max(point.sizes) >= BOUND_FROM


def _openmpi(program, *settings):
    def commands(point, json_path, directory):
        return [(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                  "--bind-to", "none", "-np", str(point.np), *settings,
                  program, *point.options(json_path)], {})]
    return commands


def _mpich(program, **environment):
    def commands(point, json_path, directory):
        return [(["mpirun.mpich", "-bind-to", "none", "-np", str(point.np),
                  program, *point.options(json_path)], environment)]
    return commands


def _gloo(program, **environment):
    def commands(point, json_path, directory):
        store = os.path.join(directory, "store")
        os.makedirs(store)
        return [([program, *point.options(json_path)],
                 {"GLOO_RANK": str(rank), "GLOO_SIZE": str(point.np),
                  "GLOO_STORE": store, **environment}) for rank in range(point.np)]
    return commands


def _ours(build, buffers, **environment):
    def commands(point, json_path, directory):
        words = ["env", *("%s=%s" % item for item in environment.items())] \
            if environment else []
        in_place = ["--in-place"] if point.collective == "allreduce" else []
        warm_up = ["-w", str(TRIALS)] if buffers == "malloc" else []
        return [([os.path.join(build, "src/elastic/driver/hvd-elastic"),
                  "-np", str(point.np), "-H", "localhost:%d" % point.np,
                  "--log-level", "warn", "--", *words,
                  os.path.join(build, "bench/hvd-perf"), "--stat=median",
                  "--buffers=" + buffers, *in_place, *warm_up,
                  *point.options(json_path)], {})]
    return commands


def _bound(build):
    def commands(point, json_path, directory):
        sizes = [size for size in point.sizes if size >= BOUND_FROM]
        words = Point(point.np, point.collective, sizes, point.time_ms,
                      point.pin).options(json_path, gate=False)[1:]
        return [([os.path.join(build, "bench/membound"), "-n", str(point.np),
                  *words], {})]
    return commands


def list_all(build, np, names, quick):
    """Everybody for so many ranks; names: which peers."""
    crowded = np > (os.cpu_count() or 1)
    programs = os.path.join(build, "bench/peers")
    openmpi, mpich, gloo = (os.path.join(programs, name.lower())
                            for name in PEERS)
    ways = [("", ["--mca", "mpi_yield_when_idle", "0"])]
    if crowded:
        ways = [("yield", ["--mca", "mpi_yield_when_idle", "1"]),
                *([] if quick else ways)]
    ob1 = ["--mca", "pml", "ob1"]
    over_tcp = [*ob1, "--mca", "btl", "tcp,self"]
    over_ucx = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                "--mca", "opal_common_ucx_devices", "any"]
    no_cma = [*ob1, "--mca", "btl_vader_single_copy_mechanism", "none"]
    everybody = []

    def add(name, variant, transports, commands, settings, spins=False):
        everybody.append(Contestant(name, variant, transports, commands,
                                    settings, spins))

    for way, extra in ways:
        for variant, words in (("default", []), ("tcp", over_tcp)):
            words = words + extra
            add("OpenMPI", "-".join(filter(None, (variant, way))),
                ["tcp" if variant == "tcp" else "host"],
                _openmpi(openmpi, *words), " ".join(words),
                spins=crowded and not way)
    for variant, words in () if quick else (("no-cma", no_cma),
                                            ("ucx", over_ucx)):
        words = words + ways[0][1]
        add("OpenMPI", variant, ["host"], _openmpi(openmpi, *words),
            " ".join(words))
    add("MPICH", "default", ["host"], _mpich(mpich), "")
    tcp = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}
    add("MPICH", "tcp", ["tcp"], _mpich(mpich, **tcp),
        " ".join("%s=%s" % item for item in tcp.items()))
    for variant, environment in (("newer", {}), ("older", {"GLOO_OLD": "1"})):
        add("Gloo", variant, ["host", "tcp"], _gloo(gloo, **environment),
            "algorithms of its %s interface, the fastest for each size"
            % variant)
    everybody = [one for one in everybody if one.name in names]
    for name, buffers in zip(OURS, ("alloc", "malloc")):
        add(name, "host", ["host"], _ours(build, buffers), "")
        add(name, "tcp", ["tcp"], _ours(build, buffers, HVD_TRANSPORT="tcp"),
            "HVD_TRANSPORT=tcp")
    for name, way in FORCED.items():
        add(name, "host", ["host"],
            _ours(build, "malloc", HVD_LOCAL_BUFFERS=way),
            "HVD_LOCAL_BUFFERS=" + way)
    add(BOUND, "", ["host"], _bound(build), "")
    return everybody


# ---- installing and building -------------------------------------------------

def installed_version(package):
    result = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package],
        capture_output=True, text=True)
    status, _, version = result.stdout.partition(" ")
    return version if result.returncode == 0 and status == "installed" \
        else None


def install(names, allowed, say):
    """Debian's packages of these peers, those that are missing. A reason why
    not, or None."""
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        return "no dpkg-query and apt-get here"
    missing = [package for name in names for package in PACKAGES[name]
               if not installed_version(package)]
    if not missing:
        return None
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends",
               *missing]
    if not allowed:
        return "missing: %s (--no-install)" % " ".join(missing)
    if os.geteuid() != 0:
        return "not root; run: " + " ".join(command)
    say("installing " + " ".join(missing))
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


def build_peers(build, names, say):
    """One program for each, in the build directory, where it is older than
    its sources. RuntimeError: it does not compile."""
    programs = os.path.join(build, "bench/peers")
    os.makedirs(programs, exist_ok=True)
    for name in names:
        target = os.path.join(programs, name.lower())
        own = "bench/peers/gloo.cc" if name == "Gloo" else "bench/peers/mpi.c"
        if not _newer(target, [*COMMON, *HEADERS, own]):
            continue
        say("building the program of " + name)
        if name != "Gloo":
            _compile(["mpicc." + name.lower(), "-std=gnu11", *FLAGS, *COMMON,
                      own, "-o", target], say)
            continue
        objects = []
        for source in COMMON:
            objects.append(os.path.join(
                programs, os.path.basename(source) + ".o"))
            _compile(["gcc", "-std=gnu11", *FLAGS, "-c", source, "-o",
                      objects[-1]], say)
        _compile(["g++", "-std=c++17", *FLAGS, own, *objects, "-lgloo",
                  "-pthread", "-o", target], say)
