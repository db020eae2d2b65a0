"""merge - one result of several runs, each of which measured tables of its own.

A whole race takes hours, and a machine is not idle for so long. What is compared
stands in one table, and a table is of one run: so runs that share no table can
make one document.
"""
import contestants as who

# What all runs must have in common to stand in one document.
COMMON = ("machine", "congestion", "sizes", "collectives", "time_ms", "quick")


class Differ(Exception):
    """The message says in what."""


def measured(result):
    """Pairs of np and transport: a table is of one of them."""
    return {(np, transport) for run in result["runs"] for np in run["np"]
            for transport in run["transports"]}


def _check(results):
    seen = set()
    for result in results:
        for name in COMMON:
            if result[name] != results[0][name]:
                raise Differ("%s: %s and %s" % (name, results[0][name],
                                                result[name]))
        both = seen & measured(result)
        if both:
            raise Differ("np %d, %s was measured twice" % min(both))
        seen |= measured(result)


def _joined(lists):
    """Each item once, in order."""
    return list(dict.fromkeys(item for items in lists for item in items))


def _own(result, name):
    """Rows of its own tables: Gloo's, which are TCP's, stand in those of one
    host too."""
    own = measured(result)
    return [row for row in result[name]
            if (row["np"], row["transport"]) in own]


def merge(results):
    """As if it had been one run; of Differ, why it cannot be."""
    _check(results)
    found = {name: results[0][name] for name in COMMON}
    found["runs"] = [run for result in results for run in result["runs"]]
    for name in ("cells", "looks", "failures"):
        found[name] = [row for result in results for row in _own(result, name)]
    found["settings"] = {key: words for result in results
                         for key, words in result["settings"].items()}
    for name in ("notes", "peers"):
        found[name] = _joined(result[name] for result in results)
    found["np"] = sorted({np for np, _ in measured(found)})
    transports = {transport for _, transport in measured(found)}
    found["transports"] = [transport for transport in who.TRANSPORTS
                           if transport in transports]
    return found
