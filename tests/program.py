"""The program under test, built by `make build`; shared by the folders of tests beside this file."""

from __future__ import annotations

import os
from pathlib import Path

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
