import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# as in the background of a shell: tests of Ctrl-C need it to be heard
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
