"""spans - of a timeline's lanes: what is in one, and when it ends."""
from harness import equal


def lane(events, pid, name):
    """The spans of a lane, the longer ones first where they begin together."""
    tids = [e["tid"] for e in events if e["name"] == "thread_name" and
            e["pid"] == pid and e["args"]["name"] == name]
    equal(len(set(tids)), 1, "lanes called %s" % name)
    return sorted((e for e in events if e["ph"] == "X" and
                   (e["pid"], e["tid"]) == (pid, tids[0])),
                  key=lambda e: (e["ts"], -e["dur"]))


def begin_of(span):
    """Nanoseconds: clocks have three decimals."""
    return round(span["ts"] * 1000)


def end_of(span):
    return begin_of(span) + round(span["dur"] * 1000)
