"""The ``hopbyte`` command of a Python installation: the same code as the native program."""

import signal
import sys

from hopbyte._core import run


def main() -> int:
    """Runs the command line and returns its exit code."""
    # Python's own handler would delay an interrupt until the command returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["hopbyte", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
