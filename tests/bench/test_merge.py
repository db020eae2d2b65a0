"""test_merge - runs of bench/compare that measured tables of their own make one
result, and those that cannot stand in one document are refused."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "bench", "peers"))
import merge  # noqa: E402
import tap  # noqa: E402


def cell(np, transport, us):
    return {"np": np, "transport": transport, "us": [us]}


def result(np, transports, cells, **others):
    found = {name: name for name in merge.COMMON}
    found.update(np=np, transports=transports, cells=cells, looks=[],
                 failures=[], settings={transports[0]: "words"},
                 notes=["a note", "of %s" % transports[0]], peers=["OpenMPI"],
                 runs=[{"np": np, "transports": transports}])
    found.update(others)
    return found


def two():
    return [result([4], ["tcp"], [cell(4, "tcp", 3)]),
            result([2], ["host"], [cell(2, "host", 1), cell(2, "tcp", 2)])]


def refused(results):
    try:
        merge.merge(results)
    except merge.Differ as why:
        return str(why)
    return None


def tables_of_all_runs_and_no_others():
    found = merge.merge(two())
    assert found["np"] == [2, 4]
    assert found["transports"] == ["host", "tcp"]
    assert merge.measured(found) == {(2, "host"), (4, "tcp")}
    # Gloo of one host, which is TCP's: no table of that run
    assert found["cells"] == [cell(4, "tcp", 3), cell(2, "host", 1)]


def words_of_all_runs_once():
    one, other = two()
    other["peers"] = ["OpenMPI", "MPI's memory"]  # of one host only
    found = merge.merge([one, other])
    assert found["peers"] == ["OpenMPI", "MPI's memory"]
    assert found["notes"] == ["a note", "of tcp", "of host"]
    assert found["settings"] == {"tcp": "words", "host": "words"}
    assert [run["np"] for run in found["runs"]] == [[4], [2]]


def one_run_is_itself():
    one = two()[0]
    assert merge.merge([one]) == one


def merged_again_is_the_same():
    both = merge.merge(two())
    assert merge.merge([both]) == both


def another_machine_is_refused():
    one, other = two()
    other["machine"] = "another"
    assert refused([one, other]) == "machine: machine and another"


def a_table_twice_is_refused():
    one, other = two()
    other.update(runs=one["runs"])
    assert refused([one, other]) == "np 4, tcp was measured twice"


if __name__ == "__main__":
    sys.exit(tap.run([
        tables_of_all_runs_and_no_others,
        words_of_all_runs_once,
        one_run_is_itself,
        merged_again_is_the_same,
        another_machine_is_refused,
        a_table_twice_is_refused,
    ]))
