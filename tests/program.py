"""The program under test, built by `make build`, and runs of commands with a deadline; shared by the folders of tests
beside this file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Output of `make -C probes` and `make -C mpi`: a folder or a library for every MPI.
PROGRAMS = Path(os.environ.get("HOPBYTE_PROBES_BUILD", ROOT / "build/probes"))
LIBRARIES = Path(os.environ.get("HOPBYTE_MPI_BUILD", ROOT / "build/mpi"))
MPICH5 = Path(os.environ.get("HOPBYTE_MPICH5", ROOT / "build/mpich5"))
# Launchers only: the wheels of Open MPI 5 and Intel MPI, which `make -C probes deps` installs where possible.
OPENMPI5 = Path(os.environ.get("HOPBYTE_OPENMPI5", ROOT / "build/openmpi5"))
INTEL = Path(os.environ.get("HOPBYTE_INTEL", ROOT / "build/intel"))


def find_binary() -> Path | None:
    """The newer of the release and the debug program."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    builds = [target / build / "hopbyte" for build in ("release", "debug")]
    return max(filter(Path.exists, builds), key=lambda build: build.stat().st_mtime, default=None)


def hopbyte_binary() -> Path:
    """The program; a test without it fails."""
    return find_binary() or pytest.fail("no hopbyte program: run `make build`")


@dataclass
class Result:
    """Output and exit code of a run; `code` is None after a timeout."""

    code: int | None
    out: str
    err: str

    def ok(self) -> Self:
        """Returns itself after checking that the run succeeded."""
        return self.ended(0)

    def ended(self, code: int) -> Self:
        """Returns itself after checking the exit code."""
        assert self.code == code, f"exit code {self.code}, expected {code}\n{self.out}\n{self.err}"
        return self


def start(
    command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.Popen[str]:
    """Starts a command in a process group of its own."""
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )


def scaled(seconds: float) -> float:
    """A deadline on this machine under its present load: processes beyond its cores share these."""
    return seconds * min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 10.0)


def finish(child: subprocess.Popen[str], seconds: float) -> Result:
    """Waits for a command and kills its whole process group at the deadline, which a loaded machine postpones."""
    begun = time.monotonic()
    while True:
        left = scaled(seconds) - (time.monotonic() - begun)
        if left <= 0:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            return Result(None, out, err)
        try:
            out, err = child.communicate(timeout=left)
            return Result(child.returncode, out, err)
        except subprocess.TimeoutExpired:
            continue
