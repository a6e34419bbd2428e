"""Traffic from OTF2 traces: a synthetic one and a real one."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from conftest import shared

import hopbyte
from hopbyte import from_otf2

otf2: Any = pytest.importorskip("otf2")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four ranks: two sends in the world, one in a communicator of ranks 3 and 1, a barrier."""
    from otf2.enums import CollectiveOp, GroupType, LocationGroupType, Paradigm

    with otf2.writer.open(str(tmp_path / "trace"), timer_resolution=10**9) as archive:
        define = archive.definitions
        root = define.system_tree_node("node")
        locations, writers = [], []
        for rank in range(4):
            process = define.location_group(
                f"MPI Rank {rank}", system_tree_parent=root, location_group_type=LocationGroupType.PROCESS
            )
            locations.append(define.location(f"thread of {rank}", group=process))
            writers.append(archive.event_writer_from_location(locations[-1]))
        define.group("all", group_type=GroupType.COMM_LOCATIONS, paradigm=Paradigm.MPI, members=locations)

        def comm(name: str, members: list[Any]) -> Any:
            group = define.group(name, group_type=GroupType.COMM_GROUP, paradigm=Paradigm.MPI, members=members)
            return define.comm(name, group=group)

        world = comm("MPI_COMM_WORLD", locations)
        odd = comm("odd", [locations[3], locations[1]])
        writers[0].mpi_send(10, receiver=1, communicator=world, msg_tag=0, msg_length=100)
        writers[0].mpi_isend(20, receiver=1, communicator=world, msg_tag=0, msg_length=50, request_id=1)
        writers[1].mpi_send(30, receiver=0, communicator=odd, msg_tag=0, msg_length=7)
        for writer in writers:
            writer.mpi_collective_begin(40)
            writer.mpi_collective_end(
                50,
                collective_op=CollectiveOp.BARRIER,
                communicator=world,
                root=2**32 - 1,
                size_sent=0,
                size_received=0,
            )
    return tmp_path / "trace" / "traces.otf2"


def test_sends_become_pairs_of_the_world(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "traffic.csv"
    assert from_otf2.main([str(trace), str(out)]) == 0
    said = capsys.readouterr().err
    assert "4 ranks, 2 pairs" in said and "4 collective calls are not in it" in said
    traffic = hopbyte.load_traffic(str(out))
    pairs = zip(traffic.from_rank.tolist(), traffic.to_rank.tolist(), traffic.bytes.tolist(), strict=True)
    assert list(pairs) == [(0, 1, 150.0), (1, 3, 7.0)]
    assert traffic.messages.tolist() == [2, 1]
    assert traffic.tasks == 4
    assert not list(tmp_path.glob(".*")), "a half-written file was left"


def test_a_real_trace(tmp_path: Path) -> None:
    archive = shared("traces/sstmacro-otf2-10ranks.tar.zst")
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    content = subprocess.run(["zstd", "-dc", archive], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(tmp_path, filter="data")
    ranks, pairs, collectives = from_otf2.convert(next(tmp_path.rglob("traces.otf2")), tmp_path / "t.csv")
    assert (ranks, pairs, collectives) == (10, 58, 1200)


def test_what_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.csv")
    assert from_otf2.main([str(tmp_path / "none.otf2"), out]) == 2
    assert "no such file" in capsys.readouterr().err
    bad = tmp_path / "bad.otf2"
    bad.write_text("no trace\n")
    assert from_otf2.main([str(bad), out]) == 2
    assert not Path(out).exists()
