"""Part of mpi4py's own test suite under a reordered world: every test passes."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from harness import BUILD, MPICH, MPICH5, OMPI, Mpi, Result, launch

# Python loads the MPI library with dlopen here, which the preloads must support too.
PYTHON = BUILD.parent / "mpi4py" / "bin" / "python"
SUITE = BUILD.parent / "mpi4py" / "test"
RANKS = 3

MODULES = [
    "attributes",
    "comm",
    "comm_inter",
    "comm_topo",
    "errhandler",
    "group",
    "p2p_obj_matched",
    "request",
    "session",
    "win",
]
# Minutes on two cores: `make test-mpi4py` runs these too, and every module without the preloads for comparison.
LONG = ["cco_buf", "cco_buf_inter", "cco_ngh_buf", "cco_vec", "p2p_buf"]
THOROUGH = os.environ.get("HOPBYTE_TEST_MPI4PY") == "all"


def run_module(mpi: Mpi, module: str, folder: Path, tools: tuple[str, ...], **environment: str) -> Result:
    """One module of the suite on every rank; with a deadline that a loaded machine meets."""
    if mpi is MPICH:
        environment["LD_LIBRARY_PATH"] = str(MPICH5 / "lib")
    # Fetching operations of osc/rdma crash in Open MPI 4.1.4 with nothing preloaded.
    options = ["--mca", "osc", "pt2pt"] if mpi is OMPI else []
    command = [PYTHON, SUITE / f"test_{module}.py", "-v"]
    return launch(
        mpi, RANKS, command, folder, tools=tools, environment=environment, options=options, seconds=400
    )


def summary(result: Result) -> Counter[str]:
    """Tests of every rank and their results, without times. Ranks' lines may run into one another."""
    text = result.out + result.err
    return Counter(re.findall(r"Ran \d+ tests|OK|FAILED \([^)]*\)", text))


@pytest.mark.parametrize("module", MODULES + LONG * THOROUGH)
@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_every_test_passes_in_a_reordered_world(mpi: Mpi, module: str, tmp_path: Path) -> None:
    (tmp_path / "order").write_text(",".join(str(r) for r in reversed(range(RANKS))))
    reordered = run_module(
        mpi, module, tmp_path, ("record", "reorder"), HOPBYTE_REORDER_MAP="order", HOPBYTE_REORDER_QUIET="1"
    )
    assert reordered.code is not None, "deadline"
    assert (reordered.code, summary(reordered)["OK"]) == (0, RANKS), reordered.err[-3000:]
    assert len(list((tmp_path / "hopbyte-record").glob("rank.*.hbr"))) == RANKS
    if THOROUGH:
        plain = run_module(mpi, module, tmp_path, ())
        assert (plain.code, summary(plain)) == (0, summary(reordered))
