"""contenders - who takes part in bench/recovery --peers, and by which settings.

Everybody as shipped, and *tuned*: as one has it who knows it well, the shortest
times that still work, where it is of use those for which there is no option but
a constant in its source too. Where several settings are tried, each event is
told by the one that does best.
"""
import collections

import frameworks
import ours
import rivals

# make(options): its job. words: what is different from how it is shipped.
Contender = collections.namedtuple(
    "Contender", "name config variant words make")

DEFAULT, TUNED = "default", "tuned"
OURS = "hvd-elastic"
PEERS = {"horovod": "Horovod", "torchrun": "torchrun",
         "newest": "torchrun, newest"}
NEEDS = {"horovod": "horovod", "torchrun": "torch", "newest": "newest"}
# Seconds that Horovod's survivors wait for a dead one: Gloo's time-out.
TIMEOUTS = (5, 2, 1)
DISCOVERY_S = "0.1"

# As it is shipped, workers of new versions meet in the store of their agents,
# find there the addresses of those they replace, and a kill is never recovered
# from.
NOT_SHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def _ours():
    settings = ["--discovery-interval", DISCOVERY_S]
    return [
        Contender(OURS, DEFAULT, "", "", lambda options: ours.Ours(
            options, [])),
        Contender(OURS, TUNED, "", " ".join(settings), lambda options:
                  ours.Ours(options, settings))]


def _horovod(name):
    def tuned(seconds):
        settings = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(seconds),
                    "RECOVERY_DISCOVERY_S": DISCOVERY_S}
        words = "Gloo's time-out %d s, discovery each %s s" % (seconds,
                                                               DISCOVERY_S)
        return Contender(name, TUNED, "time-out %d s" % seconds, words,
                         lambda options: rivals.Horovod(options, settings))
    return [Contender(name, DEFAULT, "", "", lambda options: rivals.Horovod(
        options, {})), *map(tuned, TIMEOUTS)]


def _torchrun(name, which):
    def make(settings):
        return lambda options: rivals.Torchrun(
            options, settings, frameworks.interpreter(options.build, which))

    words = "workers do not share the agents' store" \
        if which == "newest" else ""
    tuned = "monitor interval and polls 0.1 s, last call 1 s, keep-alive " \
        "3 x 1 s"
    return [Contender(name, DEFAULT, "", words, make(NOT_SHARED)),
            Contender(name, TUNED, "", ", ".join(filter(None, (tuned, words))),
                      make(dict(NOT_SHARED, RECOVERY_TUNED="1")))]


def version(build, peer):
    if peer == "horovod":
        return "%s, PyTorch %s" % (
            frameworks.horovod_version(build),
            frameworks.torch_version(frameworks.interpreter(build, peer)))
    return "PyTorch %s" % frameworks.torch_version(
        frameworks.interpreter(build, NEEDS[peer]))


def list_all(peers):
    found = _ours()
    for peer in peers:
        found += _horovod(PEERS[peer]) if peer == "horovod" \
            else _torchrun(PEERS[peer], NEEDS[peer])
    return found


def get(options, say):
    """({peer: version}, {peer: why it is left out})"""
    there, missing = {}, {}
    for peer in options.peers:
        reason = frameworks.get(options.build, NEEDS[peer],
                                not options.no_install, say)
        if reason:
            say("%s is left out: %s" % (PEERS[peer], reason))
            missing[peer] = reason
        else:
            there[peer] = version(options.build, peer)
    return there, missing
