"""`scripts/need.sh` waits for the package manager's lock."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

NEED = str(Path(__file__).resolve().parents[2] / "scripts" / "need.sh")
LOCK = Path("/var/lib/dpkg/lock-frontend")
ROOT_AND_APT = os.geteuid() == 0 and shutil.which("apt-get") is not None and LOCK.exists()
# A package that every Debian has, for a program that never exists: apt-get takes the lock and has nothing to do.
ASK = [NEED, "--no-upgrade", "no-such-program-of-hopbyte=base-files"]


def test_programs_that_are_there_ask_nothing() -> None:
    done = subprocess.run([NEED, "sh=no-such-package"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not ROOT_AND_APT, reason="needs root and apt-get")
def test_waits_while_another_process_holds_the_lock() -> None:
    with LOCK.open("w") as lock:
        # apt locks with fcntl, so flock(1) would not do.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        begin = time.monotonic()
        with subprocess.Popen(ASK, stderr=subprocess.PIPE, text=True) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=3)
            fcntl.lockf(lock, fcntl.LOCK_UN)
            _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert "waiting for the package manager's lock" in stderr
    assert time.monotonic() - begin >= 3


@pytest.mark.skipif(not ROOT_AND_APT, reason="needs root and apt-get")
def test_gives_up_after_the_stated_time() -> None:
    with LOCK.open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        environment = dict(os.environ, NEED_WAIT_SECONDS="1")
        done = subprocess.run(ASK, check=False, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 3
    assert "lock" in done.stderr
    assert "please install (Debian package names): base-files" in done.stderr
