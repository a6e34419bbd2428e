"""Tests of the in-job libraries; `make -C mpi test` builds their programs and runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from harness import ALL, MPICH4, OMPI5, run_command


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fails loudly when an MPI or a library is missing: these tests are never skipped."""
    missing = [str(m.library("record")) for m in ALL if not m.library("record").exists()]
    for mpi in [*ALL, MPICH4, OMPI5]:
        try:
            run_command([mpi.launcher, "--version"], Path("/"), seconds=30).ok()
        except FileNotFoundError:
            missing.append(mpi.launcher)
    if missing:
        pytest.exit("missing: " + ", ".join(missing) + " (run: make -C mpi deps all)", returncode=3)
