"""The ``hopbyte`` command of a Python installation: the same code as the native program."""

import signal
import sys
import sysconfig
from pathlib import Path

from hopbyte._core import run


def main() -> int:
    """Runs the command line and returns its exit code."""
    # Python's own handler would delay an interrupt until the command returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run([command(), *sys.argv[1:]])


def command() -> str:
    """The installed command: this script, or the one of this interpreter for ``python -m hopbyte``."""
    called = Path(sys.argv[0])
    script = called if called.name == "hopbyte" else Path(sysconfig.get_path("scripts")) / "hopbyte"
    return str(script.resolve()) if script.is_file() else "hopbyte"


if __name__ == "__main__":
    sys.exit(main())
