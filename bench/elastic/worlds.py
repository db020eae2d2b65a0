"""worlds - what the steps of all say about an event: pure, for everybody alike.

A *world* is a group that steps together; its number is new with each change,
its size what its members say. A *place* is a host, whoever runs there: of some,
the process that goes on is another one. Steps are {place: [Step]}, each list by
time; times are ns, durations seconds.
"""
import collections

# world; its size; when the last member completed its first step in it.
World = collections.namedtuple("World", "number size ns")


def _first_steps(steps):
    """{world: {place: its first step there}}"""
    found = {}
    for place, own in steps.items():
        for step in own:
            found.setdefault(step.world, {}).setdefault(place, step)
    return found


def whole(steps):
    """Worlds in which each member has completed a step, in the order in which
    they were complete."""
    found = []
    for number, firsts in _first_steps(steps).items():
        size = next(iter(firsts.values())).size
        if len(firsts) == size:
            found.append(World(number, size,
                               max(step.ns for step in firsts.values())))
    return sorted(found, key=lambda world: world.ns)


def since(steps, ns, size=None):
    """The first whole world that nobody had stepped in by then, or None. size:
    of one so large."""
    old = {step.world for own in steps.values() for step in own
           if step.ns <= ns}
    for world in whole(steps):
        if world.number not in old and size in (None, world.size):
            return world
    return None


def newest(steps):
    """The last whole world, or None."""
    found = whole(steps)
    return found[-1] if found else None


def least(steps, number):
    """How many steps the member has done in this world that did the fewest."""
    counts = [n for n in (sum(step.world == number for step in own)
                          for own in steps.values()) if n]
    return min(counts, default=0)


def members(steps, number):
    return sorted(place for place, own in steps.items()
                  if any(step.world == number for step in own))


def pause(own, start, end):
    """The longest time between two successive steps of a place, of those gaps
    that are not over before start nor begin after end; None: no gap."""
    gaps = [later.ns - earlier.ns for earlier, later in zip(own, own[1:])
            if later.ns >= start and earlier.ns <= end]
    return max(gaps) / 1e9 if gaps else None


def undisturbed(own, start, end):
    """The median time between two steps, or None."""
    gaps = sorted(later.ns - earlier.ns for earlier, later in zip(own, own[1:])
                  if earlier.ns >= start and later.ns <= end)
    return gaps[len(gaps) // 2] / 1e9 if gaps else None


def again(steps, world):
    """Steps that others had completed before, and that this world did again."""
    old = [step.number for own in steps.values() for step in own
           if step.world != world.number and step.ns < world.ns]
    new = [step.number for own in steps.values() for step in own
           if step.world == world.number]
    return max(0, max(old) + 1 - min(new)) if old and new else 0
