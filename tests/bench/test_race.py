"""test_race - bench/recovery --peers tells who did not come back, and is fair
to the peers: its table of samples that are written down here, and a race of
jobs that only pretend."""
import argparse
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "bench", "elastic"))
import contenders  # noqa: E402
import disturbed  # noqa: E402
import race  # noqa: E402
import table  # noqa: E402
import tap  # noqa: E402
from stamps import Step  # noqa: E402

OURS, PEER = (contenders.OURS, "default"), ("Horovod", "tuned")


def sample(column, t, variant="", event=race.WORKER, **others):
    return {"name": column[0], "config": column[1], "variant": variant,
            "event": event, "round": 0, "tried": True,
            "recovered": t is not None, "t": t, "size": 3, **others}


def tables(*samples, **others):
    return table.Table({
        "options": {"give_up": 60, "step_us": 10000, "gradient": 4096,
                    "state": 4096, "commit_every": 10},
        "machine": {"processors": 2, "model": "a model", "kernel": "6",
                    "stall_ms": 1}, "peers": {}, "left_out": {},
        "settings": [], "samples": list(samples), **others})


# ---- the table ---------------------------------------------------------------

def a_cell_has_median_spread_and_failures():
    shown = tables(sample(PEER, 5), sample(PEER, 7.25), sample(PEER, 6),
                   sample(PEER, None))
    assert shown.entry(PEER, race.WORKER, "t") == \
        "6.00 (5.00-7.25) 1 of 4 not in 60 s"
    shown = tables(sample(PEER, None))
    assert shown.entry(PEER, race.WORKER, "t") == "1 of 1 not in 60 s"


def four_again_is_of_who_gets_there_alone():
    shown = tables(sample(PEER, 5), sample(OURS, 1, whole=2),
                   sample(OURS, 1, whole=None))
    assert shown.entry(PEER, race.WORKER, "whole") == "-"
    assert shown.entry(OURS, race.WORKER, "whole") == \
        "2.00 1 of 2 not in 60 s"
    assert shown.entry(OURS, race.WORKER, "t") == "1.00"
    assert not shown.ours_recovered()


def what_was_not_tried_is_no_failure_of_the_event():
    lost = dict(sample(PEER, None), tried=False)
    shown = tables(lost, sample(PEER, 5), sample(OURS, 1))
    assert shown.entry(PEER, race.WORKER, "t") == "5.00"
    assert shown.entry(PEER, race.RANK0, "t") == "not tried"
    assert shown.lost() == [
        "Horovod, tuned: the job was lost 1 times on its way to an event"]


def of_several_settings_the_best_counts_for_each_event():
    shown = tables(
        sample(PEER, 5, "slow"), sample(PEER, 2, "fast"),
        sample(PEER, 4, "slow", race.ADDED, pause=3),
        sample(PEER, None, "fast", race.ADDED),
        settings=[[*PEER, "slow", "time-out 5 s"],
                  [*PEER, "fast", "time-out 1 s"]])
    assert shown.cell(PEER, race.WORKER, "t").median == 2
    assert shown.cell(PEER, race.ADDED, "t").median == 4
    assert shown.settings() == [
        "Horovod, tuned: time-out 5 s (the best at: host added)",
        "Horovod, tuned: time-out 1 s (the best at: kill worker)"]


def a_ratio_is_of_the_best_peer_and_ours_as_shipped():
    shown = tables(
        sample(OURS, 0.1), sample((contenders.OURS, "tuned"), 0.01),
        sample(("Horovod", "default"), 30), sample(PEER, 5))
    assert shown.ratio(race.WORKER, "t") == "50"
    assert shown.ratio(race.RANK0, "t") == ""


def ours_that_do_not_recover_are_told():
    assert tables(sample(OURS, 1), sample(PEER, None)).ours_recovered()
    assert not tables(sample(OURS, None)).ours_recovered()


def survivors_that_died_too_are_told():
    shown = tables(sample(PEER, 5, size=2), sample(PEER, 5))
    assert shown.smaller() == [
        "Horovod, tuned: others died too in 1 recoveries from a kill"]


def a_document_has_a_row_for_each_figure():
    shown = tables(sample(OURS, 0.1, foreign=0.5), sample(PEER, 5),
                   left_out={"torchrun": "no apt-get here"})
    lines = shown.markdown().splitlines()
    assert sum(line.startswith("|") for line in lines) == len(table.ROWS) + 2
    assert "- torchrun is left out: no apt-get here" in lines
    assert "0.100" in shown.text() and "5.00" in shown.text()


# ---- a race ------------------------------------------------------------------

class Pretended(disturbed.Disturbed):
    """Steps at once whenever it is looked at; a kill of rank 0 ends it."""

    def __init__(self):
        self.n, self.number, self.gone, self.dead = 0, 0, set(), False
        self.own = {}
        self.places = ["h0", "h1", "h2", "h3"]

    def start(self):
        self.number = 1

    def stop(self):
        self.dead = True

    def ended(self):
        return self.dead

    def said(self):
        return ["the last line"]

    def add_host(self):
        self.places.append("h%d" % (10 + self.number))
        self.number += 1

    def remove_host(self, place):
        self.places.remove(place)
        self.number += 1

    def steps(self, since_ns=0):
        for place in [] if self.dead else self.places:
            self.n += 1
            self.own.setdefault(place, []).extend(
                Step(time.monotonic_ns(), self.number, len(self.places),
                     self.n) for _ in range(race.SETTLED))
        return {place: [step for step in own if step.ns >= since_ns]
                for place, own in self.own.items()}

    def members(self, world):
        return {rank: (place, rank) for rank, place in enumerate(self.places)}

    def killed(self, rank):
        self.dead = rank == 0
        self.remove_host(self.places[rank])
        if not self.dead:
            self.add_host()


class Chance:
    @staticmethod
    def uniform(low, high):
        return low

    @staticmethod
    def randrange(low, high):
        return low


def who_does_not_come_back_is_counted_and_the_rest_tried_anew():
    jobs_made = []

    def make(options):
        jobs_made.append(Pretended())
        return jobs_made[-1]

    race.say = lambda text: None
    race.jobs.kill = lambda rank: jobs_made[-1].killed(rank)
    one = race.Race(argparse.Namespace(rounds=1, give_up=2, quiet=0), Chance)
    one.run([contenders.Contender("Pretended", "default", "", "", make)])
    found = [(s["event"], s["recovered"]) for s in one.samples]
    assert found == [
        (race.START, True), (race.WORKER, True), (race.RANK0, False),
        (race.START, True), (race.REMOVED, True), (race.ADDED, True)], found
    assert len(jobs_made) == 2 and all(job.dead for job in jobs_made)
    failed = one.samples[2]
    assert failed["tried"] and failed["said"] == ["the last line"]
    assert one.samples[4]["size"] == 3 and one.samples[5]["size"] == 4


def who_is_lost_between_two_events_gets_another_job():
    jobs_made = []

    class Lost(Pretended):
        replaces = False  # and dies of what shall get it back to four

        def killed(self, rank):
            self.remove_host(self.places[rank])

        def restore(self, n):
            self.dead = n > 0

    def make(options):
        jobs_made.append(Lost())
        return jobs_made[-1]

    race.jobs.kill = lambda rank: jobs_made[-1].killed(rank)
    one = race.Race(argparse.Namespace(rounds=1, give_up=2, quiet=0), Chance)
    one.run([contenders.Contender("Lost", "default", "", "", make)])
    tried = [s["event"] for s in one.samples if s["tried"]]
    assert tried == [race.START, race.WORKER, race.START, race.RANK0,
                     race.START, race.REMOVED, race.ADDED], tried
    assert [s["event"] for s in one.samples if not s["tried"]] == [
        race.RANK0, race.REMOVED]


def who_does_not_start_has_tried_nothing():
    class Dead(Pretended):
        def start(self):
            self.dead = True

    one = race.Race(argparse.Namespace(rounds=1, give_up=2, quiet=0), Chance)
    one.run([contenders.Contender("Dead", "default", "", "",
                                  lambda options: Dead())])
    assert [(s["event"], s["tried"], s["recovered"]) for s in one.samples] \
        == [(race.START, True, False)]


if __name__ == "__main__":
    sys.exit(tap.run([
        a_cell_has_median_spread_and_failures,
        four_again_is_of_who_gets_there_alone,
        what_was_not_tried_is_no_failure_of_the_event,
        of_several_settings_the_best_counts_for_each_event,
        a_ratio_is_of_the_best_peer_and_ours_as_shipped,
        ours_that_do_not_recover_are_told,
        survivors_that_died_too_are_told,
        a_document_has_a_row_for_each_figure,
        who_does_not_come_back_is_counted_and_the_rest_tried_anew,
        who_is_lost_between_two_events_gets_another_job,
        who_does_not_start_has_tried_nothing,
    ]))
