"""test_worlds - what bench/recovery --peers takes for a recovery, a pause, and
a step done again: of steps that are written down here."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "bench", "elastic"))
import load  # noqa: E402
import tap  # noqa: E402
import worlds  # noqa: E402
from stamps import Step  # noqa: E402

S = 10**9


def steps(**places):
    """place=[(seconds, world, size, number)]"""
    return {place: [Step(round(s * S), *rest) for s, *rest in own]
            for place, own in places.items()}


def killed():
    """c dies at 2.05; a and b go on in world 8, later three in world 9."""
    return steps(
        a=[(1, 7, 3, 10), (2, 7, 3, 11), (4, 8, 2, 10), (5, 8, 2, 11),
           (7, 9, 3, 12)],
        b=[(1, 7, 3, 10), (2.02, 7, 3, 11), (4.5, 8, 2, 10), (5, 8, 2, 11),
           (7, 9, 3, 12)],
        c=[(1, 7, 3, 10), (2.01, 7, 3, 11), (7.25, 9, 3, 12)])


def recovered_when_the_last_survivor_has_stepped():
    found = worlds.since(killed(), 2.05 * S)
    assert found == worlds.World(8, 2, 4.5 * S)
    assert worlds.since(killed(), 2.05 * S, 3) == worlds.World(9, 3, 7.25 * S)
    assert worlds.since(killed(), 8 * S) is None
    assert worlds.newest(killed()).number == 9


def a_world_that_lacks_a_member_does_not_count():
    some = killed()
    some["b"] = some["b"][:2]  # never stepped again
    assert worlds.since(some, 2.05 * S) is None
    assert worlds.newest({}) is None


def the_old_world_is_no_recovery():
    some = killed()
    some["a"].insert(2, Step(3 * S, 7, 3, 12))  # ends what had begun
    assert worlds.since(some, 2.05 * S).number == 8


def a_pause_is_the_longest_gap_that_touches_the_change():
    own = steps(a=[(0, 1, 1, 0), (5, 1, 1, 1), (6, 1, 1, 2), (8, 2, 1, 3),
                   (8.5, 2, 1, 4), (19, 2, 1, 5)])["a"]
    assert worlds.pause(own, 5.5 * S, 8.2 * S) == 2
    assert worlds.pause(own, 5.5 * S, 9 * S) == 10.5
    assert worlds.pause(own[:1], 0, S) is None


def undisturbed_is_a_median():
    own = steps(a=[(0, 1, 1, 0), (1, 1, 1, 1), (2, 1, 1, 2), (9, 1, 1, 3)])
    assert worlds.undisturbed(own["a"], 0, 9 * S) == 1
    assert worlds.undisturbed(own["a"], 8 * S, 9 * S) is None


def steps_done_again_are_counted():
    some = killed()
    found = worlds.since(some, 2.05 * S)
    assert worlds.again(some, found) == 2  # 10 and 11
    assert worlds.again(some, worlds.since(some, 2.05 * S, 3)) == 0


def members_and_what_each_has_done():
    assert worlds.least(killed(), 8) == 2
    assert worlds.least(killed(), 5) == 0


def load_reads_what_the_system_shows():
    tick = os.sysconf("SC_CLK_TCK")
    line = "cpu  %d 0 %d 900 900 %d 0 %d 0 0" % (tick, tick, tick, tick)
    assert load.busy_s(line) == 4  # idle and iowait are not
    assert load.used_s("2000000000\n", 1e9) == 2
    assert load.used_s("usage_usec 3000000\nuser_usec 1\n", 1e6) == 3
    groups = "2:cpu,cpuacct:/one/two\n1:cpuset:/\n0::/three\n"
    assert load.own_group(groups, "cpuacct") == "one/two"
    assert load.own_group(groups, "") == "three"
    assert load.own_group("0::/\n", "cpuacct") is None


if __name__ == "__main__":
    sys.exit(tap.run([
        recovered_when_the_last_survivor_has_stepped,
        a_world_that_lacks_a_member_does_not_count,
        the_old_world_is_no_recovery,
        a_pause_is_the_longest_gap_that_touches_the_change,
        undisturbed_is_a_median,
        steps_done_again_are_counted,
        members_and_what_each_has_done,
        load_reads_what_the_system_shows,
    ]))
