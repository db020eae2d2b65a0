"""gpu_page - docs/gpu.md, from what scripts/gpu-check has found.

The page is made of this alone: what is in it was measured in one run. Goals stand
beside the figures; one that is missed is told, and is no failure.
"""
OUT_MS = 150        # kill -9 -> survivors out of the dead collective, median
BESIDE_INIT_MS = 100
CALL_US = 5
USED_KB = 1024      # what counts as none

REHEARSAL = """\
> **A rehearsal.** The driver and the NCCL were those of `tests/gpu/fake`, which move
> memory of the host. The figures below mean nothing; only a page without this
> paragraph is about a GPU.

"""

HEAD = """\
# On a GPU

Written by `scripts/gpu-check` alone, from one run.

"""


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |"
              for row in rows]
    return "\n".join(lines) + "\n"


def verdict(met):
    return "met" if met else "**missed**"


def version(number):
    """22809: 2.28.9"""
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


def ms(summary, key="p50"):
    return "%.1f ms" % summary[key] if summary["n"] else "-"


# ---- parts ------------------------------------------------------------------

def machine(found):
    here = found["machine"]
    cuda, nccl, library = found["together"]["machine"]
    how = "each on a device of its own" if not found["shared"] else \
        "all on device 0, by sockets of loopback (`scripts/on-one-gpu`): slow, " \
        "and nothing of it speaks of bandwidth"
    return "## The machine\n\n" + table(("", ""), [
        ("device", "%d x %s" % (here["n_devices"], here["device"])),
        ("driver", "%s, CUDA %d.%d" % (here["driver"] or "-", int(cuda) // 1000,
                                        int(cuda) % 1000 // 10)),
        ("NCCL", "%s, `%s`" % (version(int(nccl)), library)),
        ("host", "%d processors, %d GB, Linux %s" % (
            here["processors"], here["memory_gb"], here["kernel"])),
        ("ranks", "%d, %s" % (found["np"], how)),
        ("source, day", "%s, %s" % (here["source"], here["date"]))])


def tests(found):
    return "## Tests\n\n" + table(("program", "passed", "failed"), [
        ("`%s`" % one["what"], one["passed"],
         ", ".join(one["failed"]) or "none") for one in found["tests"]])


def results(found):
    rows = []
    for which in ("alone", "together"):
        cases, elements, n_wrong, refused = map(int, found[which]["check"])
        rows.append((found["np"] if which == "together" else 1, cases,
                     "{:,}".format(elements), n_wrong, refused,
                     verdict(n_wrong == 0)))
    return "## Are results right?\n\nEvery kind, dtype and op, in place and not, " \
        "in blocks of 1, %d and %d elements, beside\na plain loop. Refused is " \
        "what NCCL does not have (`hvd/device.h`).\n\n" % (
            found["sizes"]["count"] // 1000 + 7, found["sizes"]["count"]) \
        + table(("ranks", "cases", "elements", "wrong (goal 0)", "refused",
                 "goal"), rows)


def generations(found):
    r = found["recovery"]
    rows = [("context of a process, driver's", "%s ms" % found["together"][
        "context"][0], "", 1)]
    rows += [(name, ms(r[key]), ms(r[key], "max"), r[key]["n"])
             for name, key in (("communicator joined", "join"),
                               ("... and warm after", "warm"),
                               ("revoked", "revoke"), ("aborted", "abort"))]
    return "## What a generation takes\n\n" + table(
        ("", "p50", "max", "n"), rows)


def kills(found):
    r = found["recovery"]
    return "## kill -9\n\nOne of %d ranks, while the others wait in an " \
        "allreduce of NCCL; each row is the last survivor's.\nThe next " \
        "communicator is made while NCCL still ends the threads of the last." \
        "\n\n" % r["np"] \
        + table(("", "p50", "max", "n", "goal"), [
            ("kill -> out of the dead collective", ms(r["out"]),
             ms(r["out"], "max"), r["out"]["n"],
             "p50 %d ms: %s" % (OUT_MS, verdict(r["out"]["p50"] <= OUT_MS))),
            ("kill -> the first in the new generation", ms(r["first"]),
             ms(r["first"], "max"), r["first"]["n"], ""),
            ("from the one to the other, beside init", ms(r["beside_init"]),
             ms(r["beside_init"], "max"), r["beside_init"]["n"],
             "p50 %d ms: %s" % (BESIDE_INIT_MS, verdict(
                 r["beside_init"]["p50"] <= BESIDE_INIT_MS)))])


def growth(found):
    g = found["recovery"]["growth"]
    rows = [("memory of the device", "%d KB" % g["device_kb"],
             verdict(g["device_kb"] <= 0)),
            ("memory of the host that is allocated", "%d KB" % g["used_kb"],
             "%s (up to %d KB)" % (verdict(g["used_kb"] <= USED_KB), USED_KB)),
            ("... with what the allocator keeps (RSS)", "%d KB" % g["rss_kb"], ""),
            ("threads", g["threads"], verdict(g["threads"] <= 0)),
            ("descriptors", g["descriptors"], verdict(g["descriptors"] <= 0))]
    return "## Growth over %d generations\n\nOf rank 0, which lives all the " \
        "time and makes NCCL's ids. Goal: none.\n\n" % g["generations"] \
        + table(("", "grown by", "goal"), rows)


def calls(found):
    rows = []
    for name, key in (("queued (HVD_STREAM_ORDERED)", "queued"),
                      ("... on the legacy default stream", "legacy"),
                      ("done", "done")):
        ours, ours_p99, bare, bare_p99 = map(float, found["together"][key])
        goal = "%d us: %s" % (CALL_US, verdict(ours - bare <= CALL_US)) \
            if key != "done" else ""
        rows.append((name, "%.1f us" % ours, "%.1f us" % ours_p99,
                     "%.1f us" % bare, "%.1f us" % bare_p99,
                     "%.1f us" % (ours - bare), goal))
    return "## What a call costs\n\nAn allreduce of 4 bytes on the thread that " \
        "issues it, until it is queued on the device or done,\nbeside NCCL's " \
        "own on a communicator like ours, by turns.\n\n" + table(
            ("until", "p50", "p99", "NCCL p50", "NCCL p99", "above", "goal"),
            rows) + "\nNCCL starts a thread for each call of such a " \
        "communicator, which can be told to give up at any time.\nOne that " \
        "blocks queues a call in %s us (p99 %s us).\n" % tuple(
            "%.1f" % float(us) for us in found["together"]["blocking"])


def commit(found):
    if "commit" not in found["alone"]:
        return ""
    nbytes, p50, longest, three = map(float, found["alone"]["commit"])
    rest = three - 3 * p50
    return "## A commit of %.0f MB on the device\n\n" % (nbytes / 1e6) + table(
        ("", "ms"), [
            ("hvd_state_commit returns after (p50)", "%.2f" % p50),
            ("... at the most", "%.2f" % longest),
            ("three in a row", "%.1f" % three),
            ("so bytes reach the host in the background within", "%.1f" % max(
                rest, 0))])


def questions(found):
    r = found["recovery"]
    g = r["growth"]
    left = "%d KB of the device, %d threads, %d descriptors in %d generations" % (
        g["device_kb"], g["threads"], g["descriptors"], g["generations"])
    turn_ms = float(found["together"]["done"][2]) / 1e3
    return "## What only a GPU can answer\n\n" + table(("question", "answer"), [
        ("What does ncclCommShrink return beside a dead rank?",
         "not asked: each generation makes a communicator of its own"),
        ("How long does an abort take?",
         "%s, at most %s" % (ms(r["abort"]), ms(r["abort"], "max"))),
        ("What does NCCL say of a communicator that is revoked?",
         "result %s (0: no error, 6: a remote one); all but 7, in progress, counts "
         "as revoked" % (", ".join(map(str, r["revoke_results"])) or "-")),
        ("How long does one take to be made?",
         "%s, its first allreduces %s" % (ms(r["join"]), ms(r["warm"]))),
        ("What does each leave behind?", left),
        ("Does NCCL_HOSTID make hosts of ranks on a GPU?",
         "yes" if found["shared"] else "not asked: each has one of its own"),
        ("How long is the turn of a process on a GPU?",
         "NCCL's allreduce of 4 bytes takes %.2f ms with %d ranks%s" % (
             turn_ms, found["np"],
             " by turns" if found["shared"] else ", each on a GPU"))])


def page(found):
    parts = (machine, results, kills, generations, growth, calls, commit, tests,
             questions)
    text = "\n".join(part for part in (part(found) for part in parts) if part)
    return HEAD + (REHEARSAL if found["rehearsed"] else "") + text


def wrong(found):
    """What is a failure, a line each."""
    lines = ["%s: %s" % (one["what"], line) for one in found["tests"]
             for line in one["failed"]]
    for which in ("alone", "together"):
        if int(found[which]["check"][2]):
            lines.append("bench/device: %s wrong elements" %
                         found[which]["check"][2])
    return lines
