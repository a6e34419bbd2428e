"""Tests of the OpenSHMEM library; `make -C shmem test` builds it and runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import ALL, BUILD, Shmem


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fails loudly when an OpenSHMEM or the library is missing."""
    missing = [one.name for one in ALL if not one.compiler or not one.launcher]
    missing += [str(p) for one in ALL if not (p := BUILD / one.name / "libhopbyte_shmem.so").exists()]
    if missing:
        pytest.exit("missing: " + ", ".join(missing) + " (run: make -C shmem deps all)", returncode=3)


@pytest.fixture(params=ALL, ids=lambda one: one.name)
def shmem(request: pytest.FixtureRequest) -> Shmem:
    """Every OpenSHMEM installed here."""
    return request.param
