"""race - the same losses and changes of hosts for everybody, by turns.

In each round each contender starts a job of four and goes through the events;
where it does not come back from one, or is lost before the next, the others are
tried in a new job. Before each event the job has to run undisturbed, and the
machine, if it can, be quiet.
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "scripts"))
import contenders  # noqa: E402
import disturbed  # noqa: E402
import job as jobs  # noqa: E402
import load  # noqa: E402
import worlds  # noqa: E402

NP = disturbed.NP
START, WORKER, RANK0, REMOVED, ADDED = (
    "start", "kill_worker", "kill_rank0", "host_removed", "host_added")
EVENTS = (WORKER, RANK0, REMOVED, ADDED)
KILLS = (WORKER, RANK0)
SETTLED = 20   # steps of each that a world has done before it is disturbed
AFTER, AFTER_S = 5, 5.0  # and afterwards, for a pause that comes late
LOOK_S = 0.05  # who looks competes for the processors
LOOK_BACK_NS = 2 * 10**9


def say(text):
    print("recovery: " + text, file=sys.stderr, flush=True)


def wait(job, seconds, condition):
    """What condition() gives once it is true; None: it never was, or the job
    is at its end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        if job.ended():
            return condition()
        time.sleep(LOOK_S)
    return None


# ---- one event ---------------------------------------------------------------

def settled(job, size, seconds):
    """{rank: (place, pid)} once so many run undisturbed; or None."""
    world = wait(job, seconds, lambda: job.whole(0, size, SETTLED))
    members = job.members(world) if world else {}
    return members if sorted(members) == list(range(size)) else None


def prepare(job, event, seconds):
    """The members to whom this event can happen, or None: it did not get
    there."""
    world = worlds.newest(job.steps())
    if event == ADDED and world.size == NP:
        members = settled(job, NP, seconds)
        if members:
            job.remove_host(members[NP - 1][0])
    elif event != ADDED and not job.replaces:
        job.restore(NP - world.size)
    return settled(job, NP - 1 if event == ADDED else NP, seconds)


def disturb(job, event, members, chance):
    """Makes it happen: (the instant before, the place that goes or None)."""
    place, pid = members[
        0 if event == RANK0 else chance.randrange(1, len(members))]
    leaves, _ = members[max(members)]
    ns = time.monotonic_ns()
    if event in KILLS:
        jobs.kill(pid)
        return ns, place
    if event == REMOVED:
        job.remove_host(leaves)
        return ns, leaves
    job.add_host()
    return ns, None


def outcome(job, event, ns, seconds):
    """(the first world afterwards, the first of NP after a kill)"""
    size = {REMOVED: NP - 1, ADDED: NP}.get(event)  # of a kill: any

    def find(size):
        return wait(job, seconds, lambda: worlds.since(
            job.steps(ns - LOOK_BACK_NS), ns, size))

    found = find(size)
    if not found:
        return None, None
    full = find(NP) if event in KILLS and job.replaces else None
    wait(job, AFTER_S, lambda: worlds.least(
        job.steps(ns), worlds.newest(job.steps(ns)).number) >= AFTER)
    return found, full


def figures(steps, ns, found, stay):
    """All in seconds, but `again` and `size`."""
    pauses = [worlds.pause(steps[place], ns, found.ns) for place in stay
              if place in steps]
    normal = [worlds.undisturbed(own, ns - LOOK_BACK_NS, ns)
              for own in steps.values()]
    return {"t": (found.ns - ns) / 1e9,
            "pause": max(filter(None, pauses), default=None),
            "step": max(filter(None, normal), default=None),
            "again": worlds.again(steps, found), "size": found.size}


class Race:
    def __init__(self, options, chance):
        self.options, self.chance = options, chance
        self.samples, self.load = [], load.Load()

    def add(self, contender, event, turn, **found):
        sample = {"name": contender.name, "config": contender.config,
                  "variant": contender.variant, "event": event, "round": turn,
                  **found}
        self.samples.append(sample)
        words = "not within %g s" % self.options.give_up
        if not sample["tried"]:
            words = "not tried, the job was lost on its way there"
        elif sample["recovered"]:
            words = "%.3f s" % sample["t"]
        say("round %d, %s, %s%s: %s: %s" % (
            turn + 1, contender.name, contender.config,
            contender.variant and ", " + contender.variant,
            event.replace("_", " "), words))
        return sample

    def start(self, job, contender, turn, ns):
        found = wait(job, self.options.give_up, lambda: worlds.since(
            job.steps(), ns, NP))
        return self.add(contender, START, turn, tried=True,
                        recovered=bool(found), foreign=self.load.foreign(), **(
                            {"t": (found.ns - ns) / 1e9} if found else
                            {"said": job.said()}))

    def ready(self, job, event):
        """The members that are disturbed now; None: it did not get there."""
        seconds = self.options.give_up
        members = prepare(job, event, seconds)
        if not members:
            return None
        self.load.wait_quiet(self.options.quiet)
        time.sleep(self.chance.uniform(0, 1))  # whose timers are where
        return settled(job, len(members), seconds)  # or others by now

    def one(self, job, contender, event, turn):
        members = self.ready(job, event)
        if not members:
            return self.add(contender, event, turn, tried=False,
                            recovered=False, said=job.said())
        self.load.mark()
        ns, gone = disturb(job, event, members, self.chance)
        found, full = outcome(job, event, ns, self.options.give_up)
        sample = {"tried": True, "recovered": bool(found),
                  "foreign": self.load.foreign()}
        if event in KILLS and job.replaces:
            sample["whole"] = (full.ns - ns) / 1e9 if full else None
        if found:
            stay = {place for place, _ in members.values()} - {gone}
            sample.update(figures(job.steps(ns - LOOK_BACK_NS), ns, found,
                                  stay))
        else:
            sample["said"] = job.said()
        return self.add(contender, event, turn, **sample)

    def job(self, contender, todo, turn):
        """One job; takes from todo what was tried, or was the first, and all
        if it does not start."""
        first = todo[0]
        self.load.wait_quiet(self.options.quiet)
        self.load.mark()
        ns = time.monotonic_ns()
        with contender.make(self.options) as job:
            if not self.start(job, contender, turn, ns)["recovered"]:
                todo.clear()
            for event in list(todo):
                sample = self.one(job, contender, event, turn)
                if sample["tried"] or event == first:
                    todo.remove(event)  # else once more, in a new job
                if not sample["recovered"]:
                    break

    def run(self, everybody):
        """An interrupt ends it early; what there is counts."""
        try:
            with self.load:
                for turn in range(self.options.rounds):
                    for contender in everybody:
                        todo = list(EVENTS)
                        while todo:
                            self.job(contender, todo, turn)
        except KeyboardInterrupt:
            say("interrupted")


def interrupt(*_):
    raise KeyboardInterrupt


def run(options, chance):
    """What was measured, for the tables and as JSON."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    there, missing = contenders.get(options, say)
    everybody = contenders.list_all(there)
    race = Race(options, chance)
    race.run(everybody)
    return {"peers": {contenders.PEERS[peer]: version
                      for peer, version in there.items()},
            "left_out": {contenders.PEERS[peer]: why
                         for peer, why in missing.items()},
            "settings": [one[:4] for one in everybody if one.words],
            "samples": race.samples}
