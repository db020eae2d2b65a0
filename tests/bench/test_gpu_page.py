"""test_gpu_page - what scripts/gpu-check makes of figures."""
import copy
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "scripts"))
import gpu_page  # noqa: E402
import tap  # noqa: E402


def summary(p50):
    return {"n": 9, "p50": p50, "max": 2 * p50}


ALONE = {"machine": ["13000", "22809", "/usr/lib/libnccl.so.2"],
         "context": ["300.0"], "check": ["10", "1000", "0", "2"],
         "commit": ["1000000000", "0.5", "0.9", "41.5"]}
GOOD = {
    "np": 3, "shared": True, "rehearsed": False, "sizes": {"count": 1000},
    "machine": {"device": "A GPU", "n_devices": 1, "driver": "580.1",
                "kernel": "6.1", "processors": 16, "memory_gb": 128,
                "source": "abc", "date": "2026-01-01"},
    "tests": [{"what": "test_device", "passed": 5, "failed": []}],
    "alone": ALONE,
    "together": {**ALONE, "queued": ["12.0", "20.0", "9.0", "15.0"],
                 "legacy": ["13.0", "21.0", "9.0", "15.0"],
                 "done": ["9010.0", "9900.0", "9000.0", "9800.0"],
                 "blocking": ["8.0", "14.0"]},
    "recovery": {
        "np": 3, "out": summary(60), "first": summary(900),
        "beside_init": summary(40), "join": summary(700), "warm": summary(50),
        "revoke": summary(5), "abort": summary(300), "revoke_results": [0, 6],
        "growth": {"generations": 50, "device_kb": 0, "used_kb": 12,
                   "rss_kb": 5000, "threads": 0, "descriptors": 0}}}


def goals_that_are_met_are_told():
    text = gpu_page.page(GOOD)
    assert "missed" not in text and "rehearsal" not in text
    assert text.count("met |") == 2 + 2 + 3 + 2, text
    assert "NCCL | 2.28.9, `/usr/lib/libnccl.so.2`" in text
    assert "580.1, CUDA 13.0" in text
    assert "result 0, 6 " in text
    assert "three in a row | 41.5" in text
    assert gpu_page.wrong(GOOD) == []


def goals_that_are_missed_are_no_failure():
    found = copy.deepcopy(GOOD)
    found["recovery"]["out"] = summary(151)
    found["recovery"]["beside_init"] = summary(101)
    found["recovery"]["growth"]["threads"] = 1
    found["together"]["queued"][0] = "14.1"
    assert gpu_page.page(found).count("**missed**") == 4
    assert gpu_page.wrong(found) == []


def wrong_results_and_tests_are_failures():
    found = copy.deepcopy(GOOD)
    found["together"]["check"] = ["10", "1000", "3", "2"]
    found["tests"][0]["failed"] = ["not ok 2 - x"]
    assert gpu_page.wrong(found) == ["test_device: not ok 2 - x",
                                     "bench/device: 3 wrong elements"]
    assert gpu_page.page(found).count("**missed**") == 1


def rehearsal_says_that_it_is_one():
    text = gpu_page.page({**GOOD, "rehearsed": True})
    assert "A rehearsal" in text.splitlines()[4]
    assert "mean nothing" in text


if __name__ == "__main__":
    sys.exit(tap.run([
        goals_that_are_met_are_told,
        goals_that_are_missed_are_no_failure,
        wrong_results_and_tests_are_failures,
        rehearsal_says_that_it_is_one,
    ]))
