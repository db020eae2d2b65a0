"""test_sweep - which settings of the peers bench/compare goes on with: none that
was the best somewhere is left out by one noisy look."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "bench", "peers"))
import sweep  # noqa: E402
import tap  # noqa: E402

M = 1 << 20


def near_keeps_what_may_be_the_best():
    times = {"a": 100, "b": 120, "c": 126, "d": 90, "e": 400}
    assert sweep.near(times, sweep.NEAR) == ["d", "a"]
    assert sweep.near(times, 1.5) == ["d", "a", "b", "c"]
    assert sweep.near(times, 1.5, most=3) == ["d", "a", "b"]
    assert sweep.near({}, 2) == []


def far_goes_by_a_peers_best_and_by_its_rivals():
    times = {"x": {1: 10, 2: 50}, "y": {1: 19}, "z": {1: 21, 2: 90}}
    assert sweep.far(times, [["x", "y", "z"]]) == {"z"}
    assert sweep.far(times, [["x", "y"], ["z"]]) == set()
    assert sweep.far({"x": {}, "y": {1: 5}}, [["x", "y"]]) == set()


def large_sizes_go_by_the_greatest_that_was_looked_at():
    asked = [4, M, 64 * M, 256 * M]
    assert sweep.sizes(asked) == [4, M, 64 * M]
    assert sweep.sizes([256 * M]) == [256 * M]
    assert sweep.stand_in(256 * M, [4, M, 64 * M]) == 64 * M
    assert sweep.stand_in(M, [4, M]) == M
    assert sweep.stand_in(1, [4, M]) == 4


if __name__ == "__main__":
    sys.exit(tap.run([
        near_keeps_what_may_be_the_best,
        far_goes_by_a_peers_best_and_by_its_rivals,
        large_sizes_go_by_the_greatest_that_was_looked_at,
    ]))
