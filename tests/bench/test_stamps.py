"""test_stamps - what a worker written in Python stamps is what bench/recovery
reads, also when a ring has gone round."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "bench", "elastic"))
import stamps  # noqa: E402
import tap  # noqa: E402


def shared(n_rings):
    """The file is gone at once; who has it mapped keeps it."""
    directory = tempfile.TemporaryDirectory(prefix="test_stamps.")
    path = os.path.join(directory.name, "stamps")
    return directory, path, stamps.Stamps(path, n_rings)


def what_is_stamped_is_read():
    directory, path, file = shared(2)
    with directory:
        ring = stamps.Ring(path, "agent 1")
    assert ring.stop_step() == stamps.NEVER
    ring.set_rank(3)
    ring.stamp(stamps.ENTER, 4, 0, 0)
    ring.stamp(stamps.STEP, 4, 77, 12)
    assert file.owner(0) == stamps.Owner(os.getpid(), "agent 1", 3)
    assert file.n_rings() == 1 and file.count(0) == 2
    kinds = [(kind, size, world, step)
             for kind, size, world, step, _ in file.newest(os.getpid(), 9)]
    assert kinds == [(stamps.ENTER, 4, 0, 0), (stamps.STEP, 4, 77, 12)]
    file.set_stop(5)
    assert ring.stop_step() == 5


def rings_are_given_once():
    directory, path, file = shared(2)
    with directory:
        stamps.Ring(path, "a")
        stamps.Ring(path, "b")
        assert [file.owner(i).place for i in range(2)] == ["a", "b"]
        try:
            stamps.Ring(path, "c")
        except OSError as why:
            assert "no ring is left" in str(why)
        else:
            raise AssertionError("a third of two")


def a_follower_sees_each_step_once():
    directory, path, file = shared(1)
    with directory:
        ring = stamps.Ring(path, "a")
    follower = stamps.Follower(file)
    for i in range(3):
        ring.stamp(stamps.BEGIN, 2, 7, i)
        ring.stamp(stamps.STEP, 2, 7, i)
        follower.poll()
        follower.poll()
    steps = follower.steps[os.getpid()]
    assert [(step.world, step.size, step.number) for step in steps] == [
        (7, 2, 0), (7, 2, 1), (7, 2, 2)]
    assert [step.ns for step in steps] == sorted(step.ns for step in steps)


def a_ring_that_went_round_has_its_newest():
    directory, path, file = shared(1)
    with directory:
        ring = stamps.Ring(path, "a")
    for i in range(stamps.RECORDS + 2):
        ring.stamp(stamps.STEP, 1, 1, i)
    end = stamps.RECORDS + 2
    assert file.count(0) == end
    assert [stamp[3] for stamp in file.newest(os.getpid(), 2)] == [
        end - 2, end - 1]
    assert file.records(0, 0, end)[0][3] == 2
    newest = file.newest(os.getpid(), 1)[0][4]
    assert [s[3] for s in file.since(os.getpid(), newest)] == [end - 1]


if __name__ == "__main__":
    sys.exit(tap.run([
        what_is_stamped_is_read,
        rings_are_given_once,
        a_follower_sees_each_step_once,
        a_ring_that_went_round_has_its_newest,
    ]))
