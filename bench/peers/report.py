"""report - what bench/compare measured, as tables, goals, plots, a document.

A figure is the median over the rounds; of a peer's settings and ways, of the
one whose median is the smallest. A ratio is the best peer's figure divided by
ours: above 1 we are faster. Ours with hvd_alloc has one peer more: what a
program can do in memory that MPI allocates.
"""
import os
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import contestants as who  # noqa: E402
import install  # noqa: E402
import merge  # noqa: E402
import plot_svg  # noqa: E402
import sweep  # noqa: E402

K, M = 1 << 10, 1 << 20
HUNDRED = 100000000
ROW = [who.IN_A_ROW]


class Goal:
    """At least `ratio` at every size from `low` to `high` that was measured.
    against: columns; without, the peers'."""

    def __init__(self, text, ratio, ours, transport="host",
                 collectives=("allreduce",), low=0, high=1 << 40, nps=None,
                 against=None):
        self.text, self.ratio, self.ours = text, ratio, ours
        self.transport, self.collectives = transport, collectives
        self.low, self.high, self.nps = low, high, nps
        self.against = against


ALLOC, ORDINARY = [who.ALLOC], [who.ORDINARY]
PULL, PUSH = [who.BOUND + ", pull"], [who.BOUND + ", push"]
GOALS = [
    Goal("allreduce, hvd_alloc, from 64 KB: 1.5 x", 1.5, ALLOC, low=64 * K),
    Goal("the others, hvd_alloc, from 64 KB: 1.5 x", 1.5, ALLOC, low=64 * K,
         collectives=who.EVERY[1:]),
    Goal("every collective, hvd_alloc, below 64 KB: 1 x the libraries'", 1,
         ALLOC, high=64 * K - 1, collectives=who.EVERY, against=who.PEERS),
    Goal("allreduce, hvd_alloc, from 256 KB: 0.8 of the memory bound (push)",
         0.8, ALLOC, low=256 * K, against=PUSH),
    Goal("every collective, ordinary: 1 x at every size", 1, ORDINARY,
         collectives=who.EVERY),
    Goal("allreduce, ordinary: 0.9 of the better of staged and attached", 0.9,
         ORDINARY, low=64 * K, against=list(who.FORCED)),
    Goal("broadcast of 4 B, back to back: 1 x the libraries'", 1, who.OURS,
         high=4, collectives=ROW, against=who.PEERS),
    Goal("TCP, every collective: 1 x", 1, ORDINARY, "tcp", who.EVERY),
    Goal("TCP, allreduce, from 16 MB: 1.3 x", 1.3, ORDINARY, "tcp",
         low=16 * M),
    Goal("TCP, same congestion control, every collective: 1 x", 1, ORDINARY,
         "tcp-same", who.EVERY),
    Goal("TCP, same congestion control, allreduce, from 16 MB: 1.3 x", 1.3,
         ORDINARY, "tcp-same", low=16 * M),
]
SHORT = {who.ALLOC: "alloc", who.ORDINARY: "ordinary"}
TITLES = {"host": "one host", "tcp": "TCP",
          "tcp-same": "TCP, %s for all" % who.SAME_CONTROL}


def size_label(size):
    if size == HUNDRED:
        return "100 MB"
    for unit, factor in (("M", M), ("K", K)):
        if size >= factor and size % factor == 0:
            return "%d %s" % (size // factor, unit)
    return "{:,}".format(size)


def number(value):
    """Three significant digits, and no fraction of a large one."""
    if value >= 99.95:
        return "{:,.0f}".format(value)
    return "%.1f" % value if value >= 9.995 else "%.2f" % value


def machine():
    cpu, memory = platform.processor(), ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            fields = [line.partition(":") for line in file]
        named = {name.strip(): value.strip() for name, _, value in fields}
        cpu = "%s (family %s, model %s)" % (
            named.get("model name", cpu), named.get("cpu family", "?"),
            named.get("model", "?"))
        with open("/proc/meminfo", encoding="ascii") as file:
            memory = "%.0f GB" % (int(file.readline().split()[1]) / 1048576)
    except OSError:
        pass
    pages = "?"
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled",
                  encoding="ascii") as file:
            pages = file.read().partition("[")[2].partition("]")[0]
    except OSError:
        pass
    return {"cpu": cpu, "cores": os.cpu_count(), "memory": memory,
            "kernel": platform.release(), "huge_pages": pages}


def _said(*argv):
    result = subprocess.run(argv, capture_output=True, text=True,
                            cwd=install.ROOT)
    return result.stdout.strip() if result.returncode == 0 else ""


def versions(build, peers):
    found = {name: install.version(build, name) for name in peers}
    own = _said(os.path.join(build, "src/elastic/driver/hvd-elastic"),
                "--version")
    commit = _said("git", "rev-parse", "--short", "HEAD")
    changed = _said("git", "status", "--porcelain", "--untracked-files=no",
                    "src", "include", "bench")
    found["hvd-elastic"] = "%s, commit %s%s" % (
        own, commit or "?", " with changes" if changed else "")
    found["gcc"] = _said("gcc", "-dumpfullversion")
    return found


class Cell:
    def __init__(self, figures, variant, way):
        self.us = statistics.median(figures)
        self.low, self.high = min(figures), max(figures)
        self.variant, self.way = variant, way

    def text(self):
        spread = "" if self.low == self.high else \
            " (%s-%s)" % (number(self.low), number(self.high))
        return number(self.us) + spread


class Report:
    def __init__(self, result):
        self.result = result
        self.cells = {}   # (np, transport, collective, column, size) -> Cell
        self.failed = {}  # (np, transport, collective, column) -> reason
        for item in result["cells"]:
            column = item["contestant"]
            if column == who.BOUND:
                column += ", " + item["variant"]  # pull or push
            key = (item["np"], item["transport"], item["collective"], column,
                   item["size"])
            cell = Cell(item["us"], item["variant"], item["way"])
            if key not in self.cells or cell.us < self.cells[key].us:
                self.cells[key] = cell
        for item in result["failures"]:
            self.failed[(item["np"], item["transport"], item["collective"],
                         item["contestant"])] = item["why"][-1]

    # ---- figures -------------------------------------------------------------

    def get(self, table, column, size):
        return self.cells.get((*table, column, size))

    def peers_of(self, ours):
        return [name for name in self.result["peers"]
                if name != who.MEMORY or ours == who.ALLOC]

    def ratio(self, table, ours, size, against=None):
        mine = self.get(table, ours, size)
        found = [cell.us for name in against or self.peers_of(ours)
                 for cell in [self.get(table, name, size)] if cell]
        return min(found) / mine.us if mine and found else None

    def tables(self):
        measured = merge.measured(self.result)
        return [(np, transport, collective) for np in self.result["np"]
                for transport in self.result["transports"]
                for collective in self.result["collectives"]
                if (np, transport) in measured]

    def columns(self, table):
        others = [who.MEMORY, who.FIRST, *who.FORCED, *PULL, *PUSH]
        peers = [name for name in self.result["peers"] if name != who.MEMORY]
        return [name for name in [*peers, *who.OURS, *others]
                if name not in [who.ALLOC, *others] or any(
                    self.get(table, name, size)
                    for size in self.result["sizes"])]

    def entry(self, table, column, size):
        cell = self.get(table, column, size)
        if cell:
            return cell.text()
        return self.failed.get((*table, column), "")

    def rows(self, table):
        """Lines of words; the first is the head."""
        columns = self.columns(table)
        ours = [name for name in who.OURS if name in columns]
        lines = [["size", *columns, *("best / " + SHORT[name]
                                      for name in ours)]]
        for size in self.sizes(table):
            ratios = [self.ratio(table, name, size) for name in ours]
            lines.append([size_label(size),
                          *(self.entry(table, name, size) for name in columns),
                          *(number(ratio) if ratio else "" for ratio in ratios)
                          ])
        return lines

    def sizes(self, table):
        return [size for size in self.result["sizes"]
                if table[2] != who.IN_A_ROW or size <= who.ROW_SIZE_MAX]

    def best_settings(self, table):
        """For each peer, by which setting and way each size was the best."""
        lines = []
        for name in self.result["peers"]:
            sizes_of = {}
            for size in self.sizes(table):
                cell = self.get(table, name, size)
                if cell:
                    words = ", ".join(filter(None, (cell.variant, cell.way)))
                    sizes_of.setdefault(words, []).append(size_label(size))
            if sizes_of:
                lines.append("- %s: %s" % (name, "; ".join(
                    "%s (%s)" % (words, ", ".join(sizes))
                    for words, sizes in sizes_of.items())))
        return lines

    # ---- goals ---------------------------------------------------------------

    def judge(self, goal, np):
        """(met or None, words)"""
        found = []
        for collective in goal.collectives:
            table = (np, goal.transport, collective)
            for size in self.result["sizes"]:
                for ours in goal.ours:
                    ratio = self.ratio(table, ours, size, goal.against)
                    if ratio and goal.low <= size <= goal.high:
                        found.append((ratio, collective, size, ours))
        if not found:
            return None, "not measured"
        ratio, collective, size, ours = min(found)
        n_met = sum(item[0] >= goal.ratio for item in found)
        where = [size_label(size)]
        if len(goal.collectives) > 1:
            where.insert(0, collective)
        if len(goal.ours) > 1:
            where.append(ours.partition(", ")[2])
        return ratio >= goal.ratio, "%d of %d; least %s at %s" % (
            n_met, len(found), number(ratio), ", ".join(where))

    def goals(self):
        """(np, text, verdict, words) for each goal."""
        lines, measured = [], merge.measured(self.result)
        for np in self.result["np"]:
            for goal in GOALS:
                if (np, goal.transport) in measured \
                        and (not goal.nps or np in goal.nps):
                    met, words = self.judge(goal, np)
                    verdict = {True: "met", False: "missed", None: "-"}[met]
                    lines.append((str(np), goal.text, verdict, words))
        return lines

    # ---- output --------------------------------------------------------------

    def title(self, table):
        np, transport, collective = table
        if collective == who.IN_A_ROW:
            collective = "broadcast, back to back"
        return "%s, %d ranks, %s" % (collective, np, TITLES[transport])

    def text(self):
        out = []
        for table in self.tables():
            rows = self.rows(table)
            widths = [max(len(row[i]) for row in rows)
                      for i in range(len(rows[0]))]
            out.append("\n%s (us: median, least-greatest of the rounds)"
                       % self.title(table))
            out += ["  ".join(word.rjust(width) for word, width
                              in zip(row, widths)) for row in rows]
        out.append("\ngoals")
        out += ["np %s  %-6s  %s: %s" % (np, verdict, text, words)
                for np, text, verdict, words in self.goals()]
        out += ["", *self.result["notes"]]
        return "\n".join(out)

    def plot(self, directory):
        os.makedirs(directory, exist_ok=True)
        for table in self.tables():
            series = []
            for name in self.columns(table):
                points = {size: self.get(table, name, size).us
                          for size in self.result["sizes"]
                          if self.get(table, name, size)}
                if points:
                    dashed = name not in [*self.result["peers"], *who.OURS]
                    series.append((name, points, dashed))
            text = plot_svg.lines(self.title(table), series, size_label)
            if text:
                with open(os.path.join(directory, self.plot_name(table)), "w",
                          encoding="utf-8") as file:
                    file.write(text)

    @staticmethod
    def plot_name(table):
        return "%s-%s-np%d.svg" % (table[2], table[1], table[0])

    def write_markdown(self, path, plots):
        relative = os.path.relpath(plots, os.path.dirname(path) or ".")
        out = [HEAD, self.markdown_machine(), METHOD,
               *([QUICK] if self.result["quick"] else []),
               self.markdown_settings(),
               "## Goals\n\nRatios of the best peer's time to ours; \"least\" "
               "is the worst place.\n",
               _markdown_table([("np", "goal", "", "where"), *self.goals()])]
        for table in self.tables():
            out.append("\n## %s\n" % self.title(table))
            if os.path.exists(os.path.join(plots, self.plot_name(table))):
                out.append("![%s](%s/%s)\n" % (self.title(table), relative,
                                               self.plot_name(table)))
            out.append(_markdown_table(self.rows(table)))
            best = self.best_settings(table)
            if best:
                out.append("\nThe peers' figures are by:\n\n" + "\n".join(best))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(out) + "\n")

    def markdown_machine(self):
        result, about = self.result, self.result["machine"]
        lines = [
            "| | |", "|---|---|",
            "| processor | %s, %d cores |" % (about["cpu"], about["cores"]),
            "| memory | %s, transparent huge pages: %s |" % (
                about["memory"], about["huge_pages"]),
            "| kernel | Linux %s |" % about["kernel"],
            "| congestion control | %s |" % (result["congestion"] or "?"),
            "| a round | %d ms for each size |" % result["time_ms"]]
        for run in result["runs"]:
            lines += ["| **measured** | **%s** |" % ", ".join(
                ["np %d" % np for np in run["np"]] +
                [TITLES[transport] for transport in run["transports"]]),
                *self.markdown_run(run)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def markdown_run(run):
        pinned = ", ".join("np %d" % np for np in run["pinned"])
        seen = run["nearness"]
        return [
            "| until | %s, %d minutes |" % (run["date"], run["seconds"] / 60),
            "| rounds | %d, of a peer %d settings at most for each size |"
            % (run["rounds"], run["kept_max"]),
            *("| %s | %s |" % item for item in run["versions"].items()),
            "| ranks bound to processors | %s |" % (pinned or "none"),
            *(["| processors far from each other | %.0f %% of the time; %d "
               "figures taken then |" % (100 * seen["far"] / seen["looks"],
                                         run["far"])] if seen else [])]

    def markdown_settings(self):
        lines = ["| contestant | settings |", "|---|---|"]
        for key, words in sorted(self.result["settings"].items()):
            if words:
                lines.append("| %s | %s |" % (key.replace("/", ", "), words))
        lines += ["", *("- " + note for note in self.result["notes"]), ""]
        failures = ["- np %d, %s, %s, %s %s: %s" % (
            item["np"], item["transport"], item["collective"],
            item["contestant"], item["variant"], "; ".join(item["why"]))
            for item in self.result["failures"]]
        if failures:
            lines += ["What failed:", "", *failures, ""]
        return "\n".join(lines)


def _markdown_table(rows):
    head, *rest = [[word or " " for word in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rest)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


HEAD = """# Performance

Written by `bench/compare`; a table is from one run, and the runs are described
here. How long one call of a collective takes, ours and those of OpenMPI, MPICH
and Gloo, in microseconds. Ratios above 1: we are faster than the best of them.
"""

METHOD = """## Method

float32, sum, root 0; allreduce in place, the others from one buffer to another.
A size is that of the greatest buffer: the operand's, or the result's of
allgather and alltoall, rounded up to one element for each rank. Buffers are
page aligned and touched before; those of the peers are ordinary memory, but in
the column *MPI's memory*. Ordinary memory is the C library's, ours under the
same settings of it as the peers' (MALLOC below): huge pages, which make the
reading of another process's memory cheaper. The result is checked element by
element at each size.

Each call follows a barrier and is timed on its own on each rank. A call's time
is that of its slowest rank, and the figure is the median over the calls, the
same code for everybody (`bench/method.c`). Behind the library's barrier ranks
meet again in memory that is no library's, and the time begins for all when the
last one is there (`bench/gate.c`): a barrier that lets the root out first makes
a broadcast of a few bytes look ten times as fast. *Back to back* are %d calls
without a barrier between two, and the figure is the mean of one: there a root
may run ahead, and does.
A line of memory takes so many ns to go from one of two processors to the other
and back, and where their host moves virtual processors about, five times as
many for seconds at a time. Who is measured then looks five times as slow, and of
two settings that one the better that had luck. So a watch looks twenty times a
second (`bench/handover.h`): everybody waits until they are near, and a size
during which they were not is measured again, twice at most.

The contestants take turns: each is started once per collective and round, and
the tables show the median, least and greatest over the rounds. %d calls go
before the timed ones, everybody's, and 100 ms of them at the first size. In so
many calls ours with ordinary buffers tries its three ways of showing them (later
it does so now and then, which is timed with all else). The column *%s*
is what they cost on average in a process of its own for each size, with all
that is made at the first call.

*One host* is each one's best means, *TCP* is loopback TCP only: the peers'
under the congestion control of the machine, ours by losses alone, which is part
of what it does (`src/collectives/net/connection.h`). In *TCP, %s for all* that is
everybody's, in a network namespace. Gloo always uses TCP, its figures stand
under one host too, and our buffers from hvd_alloc take the same code there as
ordinary ones, which are measured. Where ranks outnumber the processors nobody is bound to one;
else the calling threads are, rank by rank, everybody's alike.

Of a peer's settings below, and of the algorithms that its program can ask for,
the best for each size counts: of OpenMPI all of coll/tuned, and its allreduce
in place of its reduce_scatter. All of them are looked at with a few calls,
those within %g times a peer's best once more, sizes above %d MB by the one
below; the rounds measure those within %g times its best, %d at most, or fewer
where time was short. A peer whose best is more than %g times the best peer's
time in the looks and in the first round is left out of the others. Below each
table stands what was the best.

*MPI's memory* is what a program can do that lets MPI allocate its buffers:
MPI's collectives on those of MPI_Alloc_mem, and without them plain loops over
windows of MPI_Win_allocate_shared (`bench/peers/window.c`). It is a peer of
ours with hvd_alloc, and not of ours with ordinary buffers.

The *memory bound* is an allreduce without a protocol: threads in one process,
huge pages, the traffic to memory and one barrier (`bench/membound.c`). *pull*:
nobody writes into a peer's memory; *push*: everybody does, as ours does with
hvd_alloc, whose bound it is.
""" % (who.ROW, who.WARMUP, who.FIRST, who.SAME_CONTROL, sweep.AGAIN,
       sweep.SIZE_MAX >> 20, sweep.NEAR, sweep.KEPT_MAX, sweep.FAR)

QUICK = """*Quick:* fewer settings, and of the algorithms the one that was the
fastest in a few calls.
"""
