"""Bytes and waiting times, against figures by hand and the program's own clock, under every MPI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import hopbyte_binary, scaled

from harness import ALL, BUILD, MPICH4, OMPI5, Mpi, read_records, run_command

RANKS = 4
each_mpi = pytest.mark.parametrize("mpi", [*ALL, MPICH4, OMPI5], ids=lambda m: m.name)


def recorded(mpi: Mpi, word: str, folder: Path, *options: str, code: int = 0) -> tuple[str, dict]:
    """The output of `hopbyte record`, and its answer."""
    command = [str(hopbyte_binary()), "record", "--json", *options, "--libraries", str(BUILD), "--"]
    words = [*mpi.command(RANKS, {}, []), str(mpi.build("waits.c")), word]
    said = run_command([*command, *words], folder).ended(code).out
    return said, json.loads(said.splitlines()[-1])


@each_mpi
def test_reductions_between_two_groups_have_their_bytes(mpi: Mpi, tmp_path: Path) -> None:
    """MPICH's MPI_PROC_NULL is -1, which also stands for a call without a root."""
    recorded(mpi, "groups", tmp_path)
    for rank, record in enumerate(read_records(tmp_path / "hopbyte-record", RANKS)):
        sent: dict[str, int] = {}
        for (_, _, kind, _), counts in record.pairs.items():
            sent[kind.removeprefix("inter_")] = sent.get(kind.removeprefix("inter_"), 0) + counts["bytes"]
        # Of six and two doubles to both ranks of the other group; of five to the root, from the upper half.
        assert sent.get("allreduce") == 2 * 6 * 8, (rank, sent)
        assert sent.get("reduce_scatter_block") == 2 * 2 * 8, (rank, sent)
        assert sent.get("reduce", 0) == (5 * 8 if rank >= RANKS // 2 else 0), (rank, sent)


@each_mpi
def test_waiting_at_a_fence_is_time_in_mpi(mpi: Mpi, tmp_path: Path) -> None:
    """The program's own clock agrees; one-sided operations are not in the trace, hence code 1."""
    said, answer = recorded(mpi, "window", tmp_path, "--trace", code=1)
    waited = [float(line.split()[2]) for line in said.splitlines() if line.startswith("waited")]
    mean = sum(waited) / RANKS
    assert len(waited) == RANKS and mean > 0.6, said
    assert answer["times"]["mpi_seconds"] == pytest.approx(mean, abs=0.2), answer["times"]
    assert any(call["name"] == "MPI_Win_fence" for call in answer["times"]["calls"]), answer["times"]


@each_mpi
@pytest.mark.parametrize("word", ["naps", "work"])
def test_a_loop_of_tests_waits_unless_it_computes(mpi: Mpi, word: str, tmp_path: Path) -> None:
    """The record and the trace of the rank that tests agree: time with the processor is computation, other time is not."""
    recorded(mpi, word, tmp_path, "--trace")
    folder = tmp_path / "hopbyte-record"
    trace = (folder / f"rank.{RANKS - 1}.hbt").read_text().splitlines()
    wait = next(line.split("\t")[1] for line in trace if line.startswith("event") and "\twait\t" in line)
    gap, inside = next(map(float, line.split("\t")[1:3]) for line in trace if line.split("\t")[0] == wait)
    seconds = {
        line.split("\t")[1]: float(line.split("\t")[3])
        for line in (folder / f"rank.{RANKS - 1}.hbr").read_text().splitlines()
        if line.startswith("mpi\t")
    }
    if word == "naps":
        assert inside > 0.2e9 > 10 * gap, (gap, inside)
    else:
        assert gap > 0.05e9 / scaled(1), (gap, inside)
    assert seconds["MPI_Test"] == pytest.approx(4e-9 * inside, rel=0.05, abs=0.01), (seconds, inside)
