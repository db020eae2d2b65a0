"""horovodrun - Horovod's command, and with RECOVERY_DISCOVERY_S another period
of discovery than its second, for which it has no option."""
import os

from horovod.runner.elastic import driver
from horovod.runner.launch import run_commandline

if "RECOVERY_DISCOVERY_S" in os.environ:
    driver.DISCOVER_HOSTS_FREQUENCY_SECS = float(
        os.environ["RECOVERY_DISCOVERY_S"])
if __name__ == "__main__":  # its children import this file again
    run_commandline()
