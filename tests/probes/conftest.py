"""Tests of the probes; `make -C probes test` builds their programs and runs them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from launch import ALL  # noqa: E402


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fails loudly when an MPI or a program is missing: these tests are never skipped for that."""
    missing = [str(mpi.program("topobw")) for mpi in ALL if not mpi.program("topobw").exists()]
    missing += [mpi.launcher for mpi in ALL if not shutil.which(mpi.launcher)]
    if missing:
        pytest.exit("missing: " + ", ".join(missing) + " (run: make -C probes test)", returncode=3)
