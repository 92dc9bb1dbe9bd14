import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# as in the background of a shell: tests of Ctrl-C need it to be heard
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def scaled():
    """A function: True once a Dask cluster has so many workers. It asks again and again, since Dask gives up
    those that are slow to come back."""
    from itergp.linalg.engines import cluster

    def there(client, workers, seconds=60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            client.cluster.scale(workers)
            if len(cluster.workers(client)) == workers:
                return True
            time.sleep(0.05)
        return False

    return there
