"""sweep - which settings and ways of the peers are measured in the rounds.

A peer has a hundred combinations of settings and algorithms, and a round of all
of them would take hours. So all are measured once, with few calls, those that
came near in it once more, and the rounds are left to those that are a peer's
best or may be: two looks at few calls are not exact, hence a margin. Pure.
"""
AGAIN = 2       # times a peer's best in the first look: looked at again
NEAR = 1.25     # times its best in both: measured in the rounds,
KEPT_MAX = 3    # but not more than that, and fewer if time is short
FAR = 2         # a peer that takes so many times the best peer's time: only its
                # best in the first round, and nothing later if it is so again
SIZE_MAX = 64 << 20  # what is larger goes by the greatest up to here


def sizes(asked):
    """Those to look at."""
    return [size for size in asked if size <= SIZE_MAX] or asked[:1]


def stand_in(size, looked_at):
    """Which of the sizes that were looked at says what this one needs."""
    return max([other for other in looked_at if other <= size] or
               looked_at[:1])


def near(times, factor, most=None):
    """times: {anything: microseconds}; those within factor of the least, the
    best first."""
    if not times:
        return []
    least = min(times.values())
    kept = sorted(one for one, us in times.items() if us <= factor * least)
    return sorted(kept, key=times.get)[:most]


def far(times_of, rivals):
    """times_of: {peer: {anything: microseconds}} of one size; the peers that
    are nowhere near the best. rivals: lists of peers; each has its own best."""
    found = set()
    for group in rivals:
        best = {name: min(times_of[name].values()) for name in group
                if times_of.get(name)}
        found |= {name for name, us in best.items()
                  if us > FAR * min(best.values())}
    return found


def seconds(nbytes, us, calls, np):
    """About how long it takes to measure a size: so many calls, and the time
    to fill the buffers of all ranks and to check them."""
    return calls * us / 1e6 + nbytes * np / 1e9
