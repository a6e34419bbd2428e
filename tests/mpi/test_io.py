"""MPI-IO timers: bytes of the file, sums of the phases, aggregators, waiting; ROMIO and OMPIO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness import (
    ABI,
    BUILD,
    HERE,
    MPICH,
    MPICH4,
    OMPI,
    OMPI5,
    Mpi,
    Result,
    launch,
    read_records,
    run_command,
)

ROMIO = ["--mca", "io", "romio321"]
# Every MPI with its MPI-IO layer: (MPI, launcher options, name).
LAYERS = [
    pytest.param(OMPI, [], id="ompi-ompio"),
    pytest.param(OMPI, ROMIO, id="ompi-romio"),
    pytest.param(OMPI5, [], id="ompi5-ompio"),
    pytest.param(MPICH, [], id="mpich5-romio"),
    pytest.param(MPICH4, [], id="mpich4-romio"),
    pytest.param(ABI, [], id="abi-romio"),
]
each_layer = pytest.mark.parametrize(("mpi", "options"), LAYERS)
AGGREGATE = ["romio_cb_write=enable", "romio_cb_read=enable"]
PHASES = ["wait_seconds", "collective_seconds", "exchange_seconds", "file_seconds", "other_seconds"]


def run_io(
    mpi: Mpi,
    folder: Path,
    way: str,
    *hints: str,
    ranks: int = 4,
    block: int = 4096,
    count: int = 64,
    options: list[str] | None = None,
    **environment: str,
) -> Result:
    """The test program under the timers, with JSON into io.json."""
    settings = {"HOPBYTE_IO_TIMERS": "1", "HOPBYTE_IO_JSON": "io.json", **environment}
    words: list[str | Path] = [mpi.build("io.c"), "data", str(block), str(count), way, *hints]
    return launch(mpi, ranks, words, folder, tools=("io",), environment=settings, options=options)


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """The JSON lines by kind."""
    lines = [json.loads(line) for line in (folder / "io.json").read_text().splitlines()]
    assert len({line["kind"] for line in lines}) == len(lines)
    return {line["kind"]: line for line in lines}


def sum_of(report: dict[str, Any], key: str) -> int:
    """The sum of a field over the ranks."""
    return sum(row[key] for row in report["rows"])


@pytest.mark.parametrize("way", ["all", "split", "at"])
@each_layer
def test_messages_of_the_library_are_not_recorded(mpi: Mpi, options: list[str], way: str, tmp_path: Path) -> None:
    """ROMIO calls MPI as programs do: only the barrier of the program is recorded."""
    launch(mpi, 4, [mpi.build("io.c"), "data", "1000", "50", way], tmp_path, options=options).ok()
    for record in read_records(tmp_path / "hopbyte-record", 4):
        assert not record.point
        assert {key[2]: c["messages"] for key, c in record.calls.items()} == {"barrier": 1}


@each_layer
@pytest.mark.parametrize("way", ["all", "many", "split", "at"])
def test_bytes_and_sums_are_exact(mpi: Mpi, options: list[str], way: str, tmp_path: Path) -> None:
    """Every byte of the file is written once and read once; the phases of every rank add up to its total."""
    count = 16 if way == "many" else 64
    run_io(mpi, tmp_path, way, *AGGREGATE, count=count, options=options).ok()
    size = (tmp_path / "data").stat().st_size
    assert size == 4 * 4096 * count
    found = reports(tmp_path)
    kinds = ["write", "read"] if way == "at" else ["write_all", "read_all"]
    assert sorted(found) == sorted(kinds)
    for kind, moved in zip(kinds, ["file_written_bytes", "file_read_bytes"], strict=True):
        report = found[kind]
        assert report["schema"] == "hopbyte.io/1" and report["file"] == "data" and report["ranks"] == 4
        assert sum_of(report, "requested_bytes") == sum_of(report, "delivered_bytes") == size
        if way == "at" and moved == "file_read_bytes":
            assert sum_of(report, moved) >= size  # data sieving may read the gaps between blocks
        elif way == "at":
            assert sum_of(report, moved) >= size
        else:
            assert sum_of(report, moved) == size
        assert [row["rank"] for row in report["rows"]] == [0, 1, 2, 3]
        assert report["aggregators"] == [row["rank"] for row in report["rows"] if row[moved]]
        for row in report["rows"]:
            assert row["calls"] == (count if way == "many" else 1) and row["failed"] == 0
            assert abs(sum(row[phase] for phase in PHASES) - row["total_seconds"]) < 1e-6
            assert all(row[phase] >= -1e-9 for phase in PHASES), row


@each_layer
def test_waiting_for_a_late_rank(mpi: Mpi, options: list[str], tmp_path: Path) -> None:
    """Rank 1 comes 0.3 s late: the others wait that long for the collective, and rank 1 does not."""
    run_io(mpi, tmp_path, "late", *AGGREGATE, options=options).ok()
    waits = [row["wait_seconds"] for row in reports(tmp_path)["write_all"]["rows"]]
    assert all(waits[rank] > 0.2 for rank in (0, 2, 3)) and waits[1] < 0.15, waits


@each_layer
def test_a_slow_file_system_is_told_from_exchange(mpi: Mpi, options: list[str], tmp_path: Path) -> None:
    """One aggregator, whose reads and writes take 400 ms longer: that is its file system time, and waiting for the others."""
    slow = BUILD / "tests" / "slow.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(slow), str(HERE / "slow.c"), "-ldl"]
    run_command(command, tmp_path).ok()
    words: list[str | Path] = [mpi.build("io.c"), "data", "4096", "64", "all", *AGGREGATE, "cb_nodes=1"]
    settings = {
        "LD_PRELOAD": f"{mpi.library('io')}:{slow}",
        "MPICH_MPIIO_TIMERS": "1",
        "HOPBYTE_IO_JSON": "io.json",
        "HOPBYTE_SLOW_MS": "400",
        # Asynchronous writes run in a thread of the C library, which the slow library does not reach.
        "OMPI_MCA_fcoll_vulcan_async_io": "0",
    }
    launch(mpi, 4, words, tmp_path, tools=(), environment=settings, options=options).ok()
    for kind, report in reports(tmp_path).items():
        (aggregator,) = report["aggregators"]
        ompio = mpi.flavour == "ompi" and not options
        assert report["waiting"] == ("inferred" if ompio else "measured")
        for row in report["rows"]:
            if row["rank"] == aggregator:
                assert row["file_seconds"] > 0.39 and row["collective_seconds"] < 0.3, row
            elif ompio and kind == "write_all" and row["total_seconds"] < 0.35:
                # OMPIO's other ranks return as soon as they have sent their bytes.
                assert row["file_seconds"] == 0 and row["collective_seconds"] < 0.05, row
            else:
                assert row["file_seconds"] == 0 and row["collective_seconds"] > 0.25, row


@pytest.mark.parametrize("mpi", [MPICH, MPICH4, ABI], ids=lambda m: m.name)
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_aggregators_are_those_of_the_hints(mpi: Mpi, nodes: int, tmp_path: Path) -> None:
    """ROMIO takes cb_nodes aggregators, if the host may have as many."""
    run_io(mpi, tmp_path, "all", *AGGREGATE, f"cb_nodes={nodes}", "cb_config_list=*:*").ok()
    report = reports(tmp_path)["write_all"]
    assert len(report["aggregators"]) == nodes and report["hints"]["cb_nodes"] == str(nodes)


def test_cray_text_and_picture(tmp_path: Path) -> None:
    """The text has Cray's rows; the picture has a bar of five parts for every rank."""
    result = run_io(
        MPICH,
        tmp_path,
        "all",
        *AGGREGATE,
        HOPBYTE_IO_TIMERS="",
        MPICH_MPIIO_TIMERS="1",
        HOPBYTE_IO_PICTURES=".",
    ).ok()
    assert "| MPIIO write by phases, all ranks, for data" in result.out
    for row in (
        "open/close/trunc",
        "wait for coll",
        "collective",
        "data send",
        "raw write BW (MiB/s)",
        "net read  BW",
    ):
        assert f"|   {row}" in result.out, result.out
    for kind in ("write_all", "read_all"):
        picture = ElementTree.parse(tmp_path / f"data.{kind}.svg").getroot()
        titles = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}title")]
        assert len(titles) == 4 * 5
        seconds = sum(float(t.split()[-2]) for t in titles)
        assert seconds == pytest.approx(sum_of(reports(tmp_path)[kind], "total_seconds"), abs=1e-4)


def test_off_unless_asked_for(tmp_path: Path) -> None:
    result = run_io(OMPI, tmp_path, "all", HOPBYTE_IO_TIMERS="0").ok()
    assert "MPIIO" not in result.out and not (tmp_path / "io.json").exists()


def test_a_bad_value_is_told(tmp_path: Path) -> None:
    result = run_io(OMPI, tmp_path, "all", HOPBYTE_IO_TIMERS="yes", ranks=1).ok()
    assert 'HOPBYTE_IO_TIMERS="yes": found neither 0 nor 1; timers are off' in result.err
    assert "MPIIO" not in result.out


@each_layer
def test_failed_calls_are_counted(mpi: Mpi, options: list[str], tmp_path: Path) -> None:
    """A collective write to a file opened for reading returns an error, and moves no bytes."""
    (tmp_path / "data").write_bytes(b"x" * 100)
    result = run_io(mpi, tmp_path, "fail", options=options).ok()
    report = reports(tmp_path)["write_all"]
    if mpi.flavour == "ompi" and not options:  # OMPIO returns success although its writes failed
        assert sum_of(report, "file_errors") > 0 and "though every call returned success" in result.out
    else:
        assert "write returned an error" in result.out
        assert sum_of(report, "failed") == 4 and sum_of(report, "delivered_bytes") == 0
    assert sum_of(report, "file_written_bytes") == 0 and (tmp_path / "data").stat().st_size == 100


def test_nonblocking_calls_are_told(tmp_path: Path) -> None:
    result = run_io(MPICH, tmp_path, "nonblocking").ok()
    assert "nonblocking calls, timed only while they start = 4" in result.out


def test_a_file_that_is_never_closed_is_told(tmp_path: Path) -> None:
    result = run_io(MPICH, tmp_path, "unclosed")
    assert "data was not closed: no times for it" in result.err


def test_a_file_without_reads_or_writes_has_no_report(tmp_path: Path) -> None:
    result = run_io(OMPI, tmp_path, "none").ok()
    assert "MPIIO" not in result.out


def test_an_output_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    result = run_io(
        MPICH, tmp_path, "all", HOPBYTE_IO_OUTPUT="no/such/folder", HOPBYTE_IO_PICTURES="no/such"
    ).ok()
    assert (
        "cannot write no/such/folder" in result.err
        and "cannot write no/such/data.write_all.svg" in result.err
    )


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
@pytest.mark.parametrize("way", ["all", "many", "fail"])
def test_sanitizers(mpi: Mpi, way: str, tmp_path: Path) -> None:
    """The sanitizer builds find nothing."""
    if way == "fail":
        (tmp_path / "data").write_bytes(b"")
    preload, environment = mpi.sanitized("io")
    settings = {"LD_PRELOAD": preload, "HOPBYTE_IO_TIMERS": "1", "HOPBYTE_IO_PICTURES": ".", **environment}
    words: list[str | Path] = [mpi.build("io.c"), "data", "512", "8", way]
    result = launch(mpi, 3, words, tmp_path, tools=(), environment=settings).ok()
    assert "Sanitizer" not in result.err and "runtime error" not in result.err
