"""contest - who is measured when, within a budget of time.

First the peers' settings and ways are looked at, twice (sweep.py); then rounds,
in which everybody that is left takes turns. Neighbours in time are those whose
figures are compared.
"""
import collections
import contextlib
import os
import statistics
import sys
import time

import contestants as who
import install
import launch
import nearness
import network
import report
import sweep

FAILURES_MAX = 2    # then a contestant is not asked for that again
LOOKING = 0.4       # of the budget, at most
LOOKING_LATE = 2    # times --deadline: there are many ways
MARGIN_S = 1        # less than that left: none
START_S = 1         # from the start of a contestant to the first size
LATE = 2            # a round takes so many times what is expected of it: sizes
                    # are measured again until the processors are near
CALLS_MIN = 6       # behind the warm-up, and one to check
NEAR_TRIES = 3      # until a size is measured while the processors are near


class OutOfTime(Exception):
    pass


class Contest:
    """records: (np, transport, collective, name, variant, way, size) -> figures
    of the rounds; looks: (np, transport, collective, size) -> name ->
    (variant, way) -> the least figure of the looks; failures: (np, transport,
    collective, name, variant) -> reasons."""

    def __init__(self, arguments, say):
        self.arguments, self.say = arguments, say
        self.records = collections.defaultdict(list)
        self.looks = collections.defaultdict(
            lambda: collections.defaultdict(dict))
        self.looked = set()   # (np, collective, key)
        self.dropped = set()  # the same
        self.failures = collections.defaultdict(list)
        self.seconds = {}
        self.kept_max = sweep.KEPT_MAX
        self.notes = [*arguments.missing,
                      *who.notes(arguments.build, arguments.peers)]
        self.start = time.monotonic()
        self.until = self.start + arguments.minutes * 60
        self.namespace = self.make_namespace()
        self.watch = nearness.Watch(arguments.build)
        self.nearness = None  # what it has seen
        self.far = 0  # figures taken though the processors were far apart
        self.everybody = {np: self.list_all(np) for np in arguments.np}

    def make_namespace(self):
        if "tcp-same" not in self.arguments.transports:
            return None
        try:
            return network.Namespace(who.SAME_CONTROL)
        except OSError as error:
            self.arguments.transports.remove("tcp-same")
            self.notes.append(
                "TCP under the same congestion control for all is missing: a "
                "network namespace could not be made (%s)." % error)
            return None

    def list_all(self, np):
        arguments = self.arguments
        return [one for one in who.list_all(arguments.build, np,
                                            arguments.peers)
                if set(one.transports) & set(arguments.transports)
                and (one.plain or not arguments.quick)]

    # ---- what is to be done --------------------------------------------------

    def pinned(self, np):
        if self.arguments.pin == "auto":
            return np <= len(os.sched_getaffinity(0))
        return self.arguments.pin == "yes"

    def sizes(self, collective):
        return [size for size in self.arguments.sizes
                if collective != who.IN_A_ROW or size <= who.ROW_SIZE_MAX]

    def tasks(self):
        """(np, collective, contestant), in order."""
        for np in self.arguments.np:
            for collective in self.arguments.collectives:
                for one in self.everybody[np]:
                    sizes = self.sizes(collective)
                    if sizes and one.takes(collective, sizes) and \
                            (np, collective, one.key) not in self.dropped:
                        yield np, collective, one

    def near(self, np, collective, one, size, factor, most=None):
        """Ways of this variant among those of the peer that are near its best,
        on any of its transports."""
        found = []
        for transport in one.transports:
            times = self.looks[np, transport, collective, size][one.name]
            found += [way for variant, way in sweep.near(times, factor, most)
                      if variant == one.variant and way not in found]
        return found

    def is_far(self, np, collective, one, size, times_of):
        """Nowhere near the best peer; times_of(transport, size)."""
        return all(one.name in sweep.far(times_of(transport, size),
                                         [who.PEERS, [who.MEMORY]])
                   for transport in one.transports)

    def is_far_in_looks(self, np, collective, one, size):
        size = sweep.stand_in(size, sweep.sizes(self.sizes(collective)))
        return self.is_far(np, collective, one, size, lambda transport, size:
                           self.looks[np, transport, collective, size])

    def is_far_in_rounds(self, np, collective, one, size):
        def times_of(transport, size):
            found = collections.defaultdict(dict)
            table = (np, transport, collective)
            for key, figures in self.records.items():
                if key[:3] == table and key[-1] == size:
                    found[key[3]][key[4:6]] = statistics.median(figures)
            return found
        return self.is_far(np, collective, one, size, times_of)

    def looked_at(self, np, collective, one, number):
        """Pairs of size and way for the first or the second look."""
        sizes = sweep.sizes(self.sizes(collective))
        if number == 1:
            return [(size, None) for size in sizes]
        return [(size, way) for size in sizes
                for way in self.near(np, collective, one, size, sweep.AGAIN)]

    def measured(self, np, collective, one, number):
        """The same for a round."""
        sizes = self.sizes(collective)
        if one.name == who.FIRST and number > 1:
            return []  # a process for each size: once says enough
        if (np, collective, one.key) not in self.looked:
            return [(size, None) for size in sizes
                    if one.plain or not one.has_ways]
        pairs, looked_at = [], sweep.sizes(sizes)
        for size in sizes:
            example = sweep.stand_in(size, looked_at)
            factor, most = sweep.NEAR, self.kept_max
            if self.is_far_in_looks(np, collective, one, size):
                if number == 1:
                    factor, most = 1, 1
                elif self.is_far_in_rounds(np, collective, one, size):
                    continue
            pairs += [(size, way) for way in self.near(
                np, collective, one, example, factor, most)]
        return pairs

    def expected_us(self, np, collective, one, size, way):
        """By the looks; of who was not looked at, the least of those that
        were."""
        size = sweep.stand_in(size, sweep.sizes(self.sizes(collective)))
        found = []
        for transport in one.transports:
            looks = self.looks.get((np, transport, collective, size), {})
            found += [us for name, times in looks.items()
                      for pair, us in times.items()
                      if not one.has_ways
                      or (name, pair) == (one.name, (one.variant, way))]
        return min(found, default=0)

    def expected_seconds(self):
        """What the first round would take, roughly."""
        total, calls = 0, who.WARMUP + CALLS_MIN
        for np, collective, one in self.tasks():
            pairs = self.measured(np, collective, one, 1)
            total += START_S * bool(pairs)
            for size, way in pairs:
                us = self.expected_us(np, collective, one, size, way) * \
                    size / sweep.stand_in(size, sweep.sizes(
                        self.sizes(collective)))
                total += self.arguments.time / 1e3 + \
                    sweep.seconds(size, us, calls, np)
        return total * LATE

    def spare_time(self):
        """Fewer runners-up, if the rounds would not end in time with them: the
        best of several figures that were each taken once is the luckiest."""
        wanted = self.arguments.rounds
        while True:
            took = self.expected_seconds()
            self.say("a round of at most %d for each peer and size will take "
                     "about %.0f s" % (self.kept_max, took))
            if self.kept_max == 1 or \
                    wanted * took < self.until - time.monotonic():
                return
            self.kept_max -= 1

    # ---- doing it ------------------------------------------------------------

    def start_one(self, point, one, until, late=1):
        """An outcome; OutOfTime: it would have taken too long."""
        left_s = until - time.monotonic()
        if left_s < MARGIN_S:
            raise OutOfTime
        inside = self.namespace if one.same_control \
            else contextlib.nullcontext()
        with inside:
            outcome = launch.run(one, point, min(
                self.arguments.deadline * late +
                nearness.PATIENCE_S * len(point.sizes), left_s))
        if outcome.why and time.monotonic() >= until:
            raise OutOfTime
        if self.arguments.verbose:
            self.say("np %d %s %s: %.1f s" % (
                point.np, point.collective, one.key, outcome.seconds))
        return outcome

    def fail(self, point, one, outcome):
        self.say("np %d %s %s: %s\n%s" % (
            point.np, point.collective, one.key, outcome.why,
            outcome.output.strip()))
        for transport in one.transports:
            failures = self.failures[point.np, transport, point.collective,
                                     one.name, one.variant]
            failures.append(outcome.why)
        if len(failures) >= FAILURES_MAX:
            self.dropped.add((point.np, point.collective, one.key))

    def look_at_one(self, point, one, until):
        outcome = self.start_one(point, one, until, LOOKING_LATE)
        self.looked.add((point.np, point.collective, one.key))
        for row in outcome.rows:
            for transport in one.transports:
                times = self.looks[point.np, transport, point.collective,
                                   row["asked"]][one.name]
                pair = one.variant, row["way"]
                if not row["wrong"]:
                    times[pair] = min(row["time_us"],
                                      times.get(pair, row["time_us"]))
        if outcome.why:
            self.fail(point, one, outcome)

    def note_rows(self, point, one, rows):
        for row in rows:
            if row.get("wrong"):
                continue
            variant, way = one.variant, row.get("way", "")
            if one.name == who.BOUND:
                variant, way = way, ""
            us = row["first_us"] if one.name == who.FIRST else row["time_us"]
            for transport in one.transports:
                self.records[point.np, transport, point.collective, one.name,
                             variant, way, row["asked"]].append(us)

    def measure_near(self, point, one):
        """Each size until the processors have been near each other meanwhile,
        but not for ever. Seconds; None: it failed."""
        took = 0
        for tries_left in reversed(range(NEAR_TRIES)):
            outcome = self.start_one(point, one, self.until)
            took += outcome.seconds
            far = {row["asked"] for row in outcome.rows if row.get("far")}
            if not tries_left or outcome.why:
                self.far += sum(row["asked"] in far for row in outcome.rows)
                far = set()
            self.note_rows(point, one, [row for row in outcome.rows
                                        if row["asked"] not in far])
            if outcome.why:
                self.fail(point, one, outcome)
                return None
            if not far:
                break
            point = point.only(far)
        return took

    def measure_one(self, np, collective, one, pairs):
        starts, time_ms = [pairs], self.arguments.time
        if one.name == who.FIRST:  # nothing has been tried before
            starts, time_ms = [[pair] for pair in pairs], 1
        total = 0
        for start in starts:
            point = who.Point(np, collective, start, time_ms, self.pinned(np))
            took = self.measure_near(point, one)
            if took is None:
                break
            total += took
        self.seconds[np, collective, one.key] = total

    def progress(self, *words):
        if sys.stderr.isatty():
            print("\r%s\033[K" % " ".join(map(str, words)), end="",
                  file=sys.stderr, flush=True)

    def look(self, number, until):
        for np, collective, one in self.tasks():
            pairs = self.looked_at(np, collective, one, number) \
                if one.has_ways else []
            if pairs:
                self.progress("look", number, "np", np, collective, one.key)
                self.look_at_one(who.Point(np, collective, pairs, 0,
                                           self.pinned(np), sweep=True),
                                 one, until)
        self.progress()

    def round(self, number):
        for np, collective, one in self.tasks():
            pairs = self.measured(np, collective, one, number)
            if pairs:
                self.progress("round", number, "np", np, collective, one.key)
                self.measure_one(np, collective, one, pairs)
        self.progress()

    def next_seconds(self, number):
        """What another round would take, at most."""
        return sum(self.seconds.get((np, collective, one.key), 0)
                   for np, collective, one in self.tasks()
                   if self.measured(np, collective, one, number))

    # ---- all of it -----------------------------------------------------------

    def timed(self, what, work, *arguments):
        """Was there time for it?"""
        began = time.monotonic()
        try:
            work(*arguments)
            return True
        except OutOfTime:
            self.progress()
            self.say("no time left for all of it: " + what)
            return False
        finally:
            self.say("%s took %.0f s" % (what, time.monotonic() - began))

    def look_twice(self):
        until = self.start + LOOKING * (self.until - self.start)
        for number in (1, 2):
            what = "look %d at the peers' settings" % number
            if not self.timed(what, self.look, number, until):
                self.notes.append(
                    "There was no time for all of " + what + ".")
                return

    def run(self):
        """The number of rounds; the last may be cut short."""
        if self.arguments.near == "ignore":
            return self.run_watched()
        with self.watch:
            rounds = self.run_watched()
            self.nearness = self.watch.result()
            return rounds

    def run_watched(self):
        if not self.arguments.quick:
            self.look_twice()
            self.spare_time()
        for number in range(1, self.arguments.rounds + 1):
            left_s = self.until - time.monotonic()
            if number > 1 and self.next_seconds(number) > left_s:
                self.say("no time for another round within %g minutes"
                         % self.arguments.minutes)
                return number - 1
            if not self.timed("round %d" % number, self.round, number):
                self.notes.append("There was no time for all of round %d."
                                  % number)
                return number
        return self.arguments.rounds

    def settings(self):
        """key without the transport -> words."""
        return {one.name + "/" + one.variant: one.settings
                for everybody in self.everybody.values() for one in everybody}

    def about(self, rounds):
        """This run, beside the runs that measure other tables (merge.py)."""
        arguments = self.arguments
        return {
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "seconds": round(time.monotonic() - self.start),
            "np": arguments.np,
            "transports": arguments.transports,
            "versions": report.versions(arguments.build, arguments.peers),
            "rounds": rounds,
            "kept_max": self.kept_max,
            "pinned": [np for np in arguments.np if self.pinned(np)],
            "nearness": self.nearness,
            "far": self.far,
        }

    def result(self, rounds):
        """All that the report needs, as plain data."""
        arguments = self.arguments
        table = ("np", "transport", "collective")
        names = (*table, "contestant", "variant", "way", "size")
        columns = [*arguments.peers]
        if any(one.name == who.MEMORY for everybody in self.everybody.values()
               for one in everybody):
            columns.append(who.MEMORY)
        return {
            "machine": report.machine(),
            "runs": [self.about(rounds)],
            "quick": arguments.quick,
            "time_ms": arguments.time,
            "np": arguments.np,
            "transports": arguments.transports,
            "congestion": network.default_control(),
            "collectives": [collective for collective in arguments.collectives
                            if self.sizes(collective)],
            "sizes": arguments.sizes,
            "peers": columns,
            "notes": self.notes,
            "settings": self.settings(),
            "cells": [dict(zip(names, key), us=figures)
                      for key, figures in sorted(self.records.items())],
            "looks": [dict(zip((*table, "size"), key), contestant=name,
                           variant=variant, way=way, us=us)
                      for key, times_of in sorted(self.looks.items())
                      for name, times in sorted(times_of.items())
                      for (variant, way), us in sorted(times.items())],
            "failures": [dict(zip((*table, "contestant", "variant"), key),
                              why=reasons)
                         for key, reasons in sorted(self.failures.items())],
        }


def prepare(arguments, say):
    """Installs and builds the peers. A reason why that is not possible, or
    None; a peer that only PyPI has may be missing: then it is left out."""
    names = arguments.peers
    reason = install.install(names, not arguments.no_install, say)
    missing = []
    if not reason and "OpenMPI 5" in names:
        why = install.install_openmpi5(arguments.build,
                                       not arguments.no_install, say)
        if why:
            names.remove("OpenMPI 5")
            missing.append("OpenMPI 5 is missing: %s." % why)
            say(missing[0])
    if not reason:
        try:
            install.build_peers(arguments.build, names, say)
        except RuntimeError as error:
            reason = str(error)
    arguments.missing = missing
    return reason
