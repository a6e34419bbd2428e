"""hopbyte's counters as software-defined events of PAPI, read by a program that knows nothing of hopbyte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import ALL, BUILD, MPICH4, OMPI, OMPI5, Mpi, Result, launch

LIBRARY = BUILD / "libhopbyte_papi.so"
with_papi = pytest.mark.skipif(not Path("/usr/include/papi.h").exists(), reason="no PAPI: apt-get install libpapi-dev")


def run_papi(mpi: Mpi, folder: Path, *events: str, tools: tuple[str, ...] = ("record",), **environment: str) -> Result:
    program = mpi.build("papi.c", "-lpapi")
    return launch(
        mpi, 2, [program, *(f"sde:::hopbyte::{e}" for e in events)], folder, tools=tools, preload_first=str(LIBRARY),
        environment={"HOPBYTE_RECORD_DIR": str(folder / "record"), **environment},
    )  # fmt: skip


@with_papi
@pytest.mark.parametrize("mpi", [*ALL, MPICH4, OMPI5], ids=lambda m: m.name)
def test_a_program_reads_the_recorders_counts(mpi: Mpi, tmp_path: Path) -> None:
    names = ["messages", "bytes", "collectives", "mpi_calls", "mpi_nanoseconds"]
    result = run_papi(mpi, tmp_path, *(f"hopbyte_record_{n}" for n in names)).ok()
    found = {n: int(v) for n, v in re.findall(r"^value sde:::hopbyte::hopbyte_record_(\S+) (\d+)$", result.out, re.MULTILINE)}
    assert 0 < found.pop("mpi_nanoseconds") < 10**10
    assert found == dict(zip(names[:-1], [10, 10000, 1, 11], strict=True)), result.out + result.err


@with_papi
def test_links_that_appear_later_are_listed(tmp_path: Path) -> None:
    card = tmp_path / "sys/class/net/eth7/statistics"
    card.mkdir(parents=True)
    (card.parent / "device").mkdir()
    for name in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"):
        (card / name).write_text("1000\n")
    settings = {"HOPBYTE_GM_REGIONS": "job", "HOPBYTE_GM_SOURCE": "linux", "HOPBYTE_GM_ROOT": str(tmp_path / "sys")}
    out = run_papi(OMPI, tmp_path, tools=("record", "gm"), **settings).ok().out
    events = re.findall(r"^event (\S*hopbyte_\S+) # (.*)$", out, re.MULTILINE)
    assert sum("eth7_rx_bytes" in name for name, _ in events) == 1
    assert sum("hopbyte_record_" in name for name, _ in events) == 8


def test_without_papi_it_says_so_and_changes_nothing(tmp_path: Path) -> None:
    """An empty file hides PAPI's library."""
    for name in ("libsde.so.1.0", "libsde.so.1", "libsde.so"):
        (tmp_path / name).write_text("")
    result = launch(
        OMPI, 2, [OMPI.build("latency.c", "-pthread"), "1", "1"], tmp_path, tools=(),
        environment={"LD_PRELOAD": str(LIBRARY), "LD_LIBRARY_PATH": str(tmp_path)},
    ).ok()  # fmt: skip
    assert result.err.count("PAPI's libsde is not here") == 2
