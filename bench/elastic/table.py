"""table - what bench/recovery --peers measured, as text and a document: pure.

A cell is the median of the samples that recovered, and from the least to the
greatest; of several settings, of the one that recovered most often and, among
those, has the smallest median.
"""
import collections
import statistics

import contenders as who
import race

Cell = collections.namedtuple("Cell", "tried failed median low high variant")
NEVER = Cell(0, 0, None, None, None, "")
COUNTS = ("again",)
WHOLE = "whole"  # only samples of those who come back to four by themselves

# row, event, figure
ROWS = (
    ("`kill -9` of a worker, until the next step of all", race.WORKER, "t"),
    ("... until four step again", race.WORKER, WHOLE),
    ("... steps done again", race.WORKER, "again"),
    ("`kill -9` of rank 0, until the next step of all", race.RANK0, "t"),
    ("... until four step again", race.RANK0, WHOLE),
    ("... steps done again", race.RANK0, "again"),
    ("a host added, pause of those that stay", race.ADDED, "pause"),
    ("... until all four step", race.ADDED, "t"),
    ("a host removed, pause of those that stay", race.REMOVED, "pause"),
    ("... until the three step", race.REMOVED, "t"),
    ("start of four", race.START, "t"),
    ("a step, undisturbed", None, "step"),
)


def number(value, figure="t"):
    if figure in COUNTS:
        return "%g" % value
    if value >= 9.95:
        return "%.1f" % value
    return "%.2f" % value if value >= 0.995 else "%.3f" % value


def _counted(words, samples):
    """A line for each contender and variant that has some."""
    found = collections.Counter(
        (sample["name"], sample["config"], sample["variant"])
        for sample in samples)
    return ["%s: %s" % (", ".join(filter(None, one)), words % n)
            for one, n in found.items()]


class Table:
    def __init__(self, result):
        self.result = result
        self.columns = list(dict.fromkeys(
            (sample["name"], sample["config"])
            for sample in result["samples"]))

    def _of_variant(self, column, variant, event, figure):
        """What was not tried, as the job did not get so far, is no failure of
        this event; it is one of another."""
        mine = [sample for sample in self.result["samples"]
                if (sample["name"], sample["config"]) == column
                and sample["variant"] == variant and sample["tried"]
                and event in (None, sample["event"])
                and (figure != WHOLE or WHOLE in sample)]
        values = [sample[figure] for sample in mine
                  if sample.get(figure) is not None]
        failed = sum(not sample["recovered"] or
                     figure == WHOLE and sample[WHOLE] is None
                     for sample in mine)
        return Cell(len(mine), failed,
                    statistics.median(values) if values else None,
                    min(values, default=None), max(values, default=None),
                    variant)

    def best(self, column, event, figure):
        variants = dict.fromkeys(sample["variant"] for sample in
                                 self.result["samples"] if
                                 (sample["name"], sample["config"]) == column)
        cells = [cell for cell in (self._of_variant(column, one, event, figure)
                                   for one in variants) if cell.tried]
        return min(cells, default=NEVER, key=lambda cell: (
            cell.failed / cell.tried, cell.median is None, cell.median))

    def cell(self, column, event, figure):
        """The first figure of an event tells which variant is the best: all of
        them are of one."""
        first = next(row[2] for row in ROWS if row[1] == event)
        return self._of_variant(
            column, self.best(column, event, first).variant, event, figure)

    def ours_recovered(self):
        return all(sample["recovered"] and sample.get(WHOLE, 0) is not None
                   for sample in self.result["samples"]
                   if sample["name"] == who.OURS)

    # ---- words ---------------------------------------------------------------

    def failures(self, cell):
        return "%d of %d not in %g s" % (cell.failed, cell.tried,
                                         self.result["options"]["give_up"])

    def entry(self, column, event, figure):
        cell = self.cell(column, event, figure)
        if not cell.tried:
            return "-" if figure == WHOLE else "not tried"
        words = []
        if cell.median is not None:
            words.append(number(cell.median, figure))
            if cell.low != cell.high:
                words.append("(%s-%s)" % (number(cell.low, figure),
                                          number(cell.high, figure)))
        if event and cell.failed:
            words.append(self.failures(cell))
        return " ".join(words) or "-"

    def ratio(self, event, figure):
        """The best peer's median over ours as shipped."""
        ours = self.cell((who.OURS, who.DEFAULT), event, figure)
        theirs = [cell.median for cell in (
            self.cell(column, event, figure) for column in self.columns
            if column[0] != who.OURS) if cell.median is not None]
        if figure in COUNTS or not ours.median or not theirs:
            return ""
        return "%.3g" % (min(theirs) / ours.median)

    def rows(self):
        """Lines of words; the first is the head."""
        head = ["seconds", *("%s, %s" % column for column in self.columns),
                "best peer / ours, default"]
        return [head, *([text, *(self.entry(column, event, figure)
                                 for column in self.columns),
                         self.ratio(event, figure)]
                        for text, event, figure in ROWS)]

    def settings(self):
        """What is different from how each is shipped; of several, which were
        the best of what."""
        lines = []
        for name, config, variant, words in self.result["settings"]:
            best = [event.replace("_", " ") for event in race.EVENTS
                    if self.cell((name, config), event, "t").variant == variant
                    and variant]
            lines.append("%s, %s: %s%s" % (
                name, config, words, variant and " (the best at: %s)" %
                (", ".join(best) or "nothing")))
        return lines

    def foreign(self):
        """How much others had of the processors meanwhile."""
        lines = []
        for name, config in self.columns:
            values = [sample["foreign"] for sample in self.result["samples"]
                      if (sample["name"], sample["config"]) == (name, config)
                      and sample.get("foreign") is not None]
            if values:
                lines.append("%s, %s: %.2f, at most %.2f" % (
                    name, config, statistics.median(values), max(values)))
        return lines

    def smaller(self):
        """Kills that others than the victim did not survive."""
        return _counted(
            "others died too in %d recoveries from a kill",
            [sample for sample in self.result["samples"]
             if sample["event"] in race.KILLS and sample["recovered"]
             and sample["size"] < race.NP - 1])

    def lost(self):
        """Jobs that did not get to where an event could happen."""
        return _counted(
            "the job was lost %d times on its way to an event",
            [sample for sample in self.result["samples"]
             if not sample["tried"]])

    def notes(self):
        result, host = self.result, self.result["machine"]
        options = result["options"]
        return [
            "%d processors, %s, Linux %s; a sleep of 1 ms up to %g ms late" % (
                host["processors"], host["model"], host["kernel"],
                host["stall_ms"]),
            "rounds: %d; four hosts of one worker, each with %d MB of memory "
            "besides; a step: sleep of %g ms, allreduce of %d KB; %d KB of "
            "state, kept each %d steps" % (
                1 + max((s["round"] for s in result["samples"]), default=-1),
                options.get("worker_memory", 0) >> 20,
                options["step_us"] / 1000, options["gradient"] >> 10,
                options["state"] >> 10, options["commit_every"]),
            *("%s: %s" % item for item in result["peers"].items()),
            *("%s is left out: %s" % item
              for item in result["left_out"].items()),
            *self.settings(), *self.smaller(), *self.lost(),
            *("processors that others used, " + line
              for line in self.foreign())]

    # ---- output --------------------------------------------------------------

    def text(self):
        """Contenders below each other: their cells are wide."""
        head, *rows = self.rows()
        lines = []
        for (text, *cells), (*_, figure) in zip(rows, ROWS):
            lines.append("\n" + text.replace("`", "") +
                         ("" if figure in COUNTS else ", s"))
            lines += ["  %-28s %s" % item for item in zip(head[1:], cells)
                      if item[1]]
        return "\n".join([*lines, "", *self.notes(), ""])

    def markdown(self):
        rows = [[word or " " for word in row] for row in self.rows()]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|" + "---|" * len(rows[0]))
        return "\n".join([HEAD, *lines, "", *("- " + note
                                              for note in self.notes()), ""])


HEAD = """# Recovery beside Horovod and torchrun

Written by `bench/recovery --peers`, everybody in turns in one run; how it is
measured is told in `bench/README.md`. Seconds: median (least-greatest).
"""
