"""Commands of the bench."""

from __future__ import annotations

import resource
import subprocess
import sys


def run(*words: object, seconds: float = 600, **more: object) -> subprocess.CompletedProcess[str]:
    command = [str(w) for w in words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, **more)  # type: ignore[call-overload]


def checked(*words: object) -> str:
    done = run(*words)
    if done.returncode:
        sys.exit(f"{' '.join(str(w) for w in words)}: {done.stderr}")
    return done.stdout


def used() -> float:
    """Processor time of the programs that ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
