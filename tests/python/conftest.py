"""Paths of the captures, and the machines and jobs shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl
import pytest

import hopbyte

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[2]
TORUS = ROOT / "data/infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst"
LAMMPS = ROOT / "data/comm/lammps-lj-64.prof.tar.zst"


def shared(relative: str) -> Path:
    """A capture of a real machine beside the checkout, or a skip with a reason."""
    root = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared"))
    path = root / "data" / relative
    if not path.exists():
        assert "HOPBYTE_REQUIRE_SHARED" not in os.environ, f"{path} is required and absent"
        pytest.skip(f"{path} is not on this machine")
    return path


@pytest.fixture(scope="session")
def torus() -> hopbyte.Machine:
    """A 5x4x3 torus of InfiniBand switches with OpenSM's forwarding tables."""
    return hopbyte.load_fabric(TORUS)


@pytest.fixture(scope="session")
def lammps() -> hopbyte.Traffic:
    """Traffic of 64 ranks of LAMMPS."""
    return hopbyte.load_traffic(str(LAMMPS))


@pytest.fixture(scope="session")
def mapping(torus: hopbyte.Machine, lammps: hopbyte.Traffic) -> hopbyte.Mapping:
    """That job on eight hosts scattered over that torus."""
    nodes = torus.nodes[:: len(torus.nodes) // 8][:8]
    return hopbyte.map(lammps, torus, nodes, ranks_per_node=8, trials=20_000)
