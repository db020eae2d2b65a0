"""torchrun - PyTorch's command, with RECOVERY_TUNED=1 as its expert may have
it; PyTorch 1.13's also under Python 3.11, which takes away what its options are
read with.

Options: how often an agent looks after its worker, how long a rendezvous that
could start waits for more, in whole seconds. Without an option, at least in old
versions: how soon a silent agent is dead, and how often others look whether a
rendezvous has got on.
"""
import os
import sys
from datetime import timedelta

from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as dynamic
from torch.distributed.run import main

POLL_S = 0.1
KEEP_ALIVE = {"keep_alive_interval": timedelta(seconds=1),
              "keep_alive_max_attempt": 3}


def mend():
    """An enumeration that is iterated has no zero any more."""
    if Std.from_str("0") is None:
        Std.from_str = classmethod(lambda cls, text: cls(int(text)))


def tune():
    settings, delay = dynamic.RendezvousSettings, dynamic._delay
    dynamic.RendezvousSettings = lambda *words, **named: settings(
        *words, **dict(named, **KEEP_ALIVE))
    dynamic._delay = lambda seconds: delay(
        POLL_S if seconds == 1 else seconds)
    place = next(i for i, word in enumerate(sys.argv)
                 if word.startswith("--rdzv_conf="))
    sys.argv[place] += ",last_call_timeout=1"
    sys.argv.insert(1, "--monitor_interval=%g" % POLL_S)


if __name__ == "__main__":
    mend()
    if os.environ.get("RECOVERY_TUNED") == "1":
        tune()
    main()
