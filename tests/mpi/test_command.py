"""`hopbyte record -- mpirun …`: choice of the library, one file for the mapper, and refusals."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from program import find_binary, scaled

from harness import ABI, ALL, BUILD, MPICH, OMPI, Mpi, Result, run_command

HOPBYTE = find_binary()

pytestmark = pytest.mark.skipif(HOPBYTE is None, reason="no hopbyte binary: make build")


def record(mpi: Mpi, folder: Path, program: list[str | Path], *options: str, ranks: int = 4) -> Result:
    """A job under `hopbyte record` on the command line."""
    command = [str(HOPBYTE), "record", "--libraries", str(BUILD), *options, "--"]
    return run_command([*command, *mpi.command(ranks, {}, []), *map(str, program)], folder)


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)
def test_one_file_that_map_reads(mpi: Mpi, tmp_path: Path) -> None:
    """Of a ring with regions: bytes by pair and phase, the hosts of the ranks, and a mapping of it."""
    result = record(mpi, tmp_path, [mpi.build("traffic.c"), "regions"], "--json").ok()
    answer = json.loads(result.out.splitlines()[-1])
    assert (answer["flavour"], answer["ranks"], answer["hosts"]) == (mpi.flavour, 4, 1)
    totals = {phase["name"]: phase["bytes"] for phase in answer["phases"] if phase["bytes"]}
    # Each of the four ranks sends this many bytes to the next: see test_record.py.
    assert totals == {
        "main": 4 * 145,
        "solve": 4 * 10,
        "solve/halo": 16,
        "pcontrol-2": 128,
        "pcontrol-3": 256,
    }
    lines = (tmp_path / "hopbyte-record/traffic.csv").read_text().splitlines()
    assert lines[0] == "src,dst,bytes,messages,phase"
    assert (tmp_path / "hopbyte-record/placement.csv").read_text().count("\n") == 5
    command = [
        str(HOPBYTE),
        "map",
        "hopbyte-record/traffic.csv",
        "--fabric",
        "torus:4",
        "--nodes",
        "all",
        "--trials",
        "1000",
        "--json",
    ]
    mapped = json.loads(run_command(command, tmp_path).ok().out)
    assert mapped["result"]["worst_link_seconds"] > 0 and len(mapped["placement"]) == 4


@pytest.mark.parametrize(("mpi", "other"), [(OMPI, MPICH), (OMPI, ABI), (MPICH, OMPI)], ids=lambda m: m.name)
def test_another_mpis_launcher_is_refused_before_anything_runs(mpi: Mpi, other: Mpi, tmp_path: Path) -> None:
    result = record(mpi, tmp_path, [other.build("traffic.c"), "point"])
    assert result.code == 2 and "every rank would be alone" in result.err
    assert not (tmp_path / "hopbyte-record").exists()


def test_what_is_refused(tmp_path: Path) -> None:
    program = [OMPI.build("traffic.c"), "point"]
    record(OMPI, tmp_path, program).ok()
    again = record(OMPI, tmp_path, program)
    assert again.code == 2 and "has the record of another job" in again.err
    result = record(OMPI, tmp_path, program, "--flavour", "mpich", "--out", "b")
    assert result.code == 2 and "would not see its calls" in result.err
    command = [str(HOPBYTE), "record", "--libraries", "/", "--", "mpirun.openmpi", *map(str, program)]
    result = run_command(command, tmp_path)
    assert result.code == 3 and "make -C mpi" in result.err
    result = run_command([str(HOPBYTE), "record", "--", "true"], tmp_path)
    assert result.code == 2 and "--flavour" in result.err


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_a_job_that_does_not_end_is_ended(mpi: Mpi, tmp_path: Path) -> None:
    program, seconds = mpi.build("traffic.c"), f"{scaled(3):.0f}"
    begun = time.monotonic()
    result = record(mpi, tmp_path, [program, "point", "100000000"], "--deadline", seconds, ranks=2)
    assert result.code == 1 and f"deadline of {seconds} s" in result.err
    assert time.monotonic() - begun < scaled(60)
    assert "# incomplete: 2 of 2 ranks" in (tmp_path / "hopbyte-record/traffic.csv").read_text()


def test_a_rank_without_a_record_is_told(tmp_path: Path) -> None:
    """One rank is killed before MPI_Init: there is no traffic without it."""
    script = tmp_path / "one.sh"
    script.write_text(
        "#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 1 ] && { sleep 1; kill -9 $$; }\n"
        f"exec {OMPI.build('traffic.c')} point 100000000\n"
    )
    script.chmod(0o755)
    result = record(OMPI, tmp_path, [script], "--deadline", f"{scaled(60):.0f}", ranks=2)
    assert result.code == 1 and ("left no record" in result.err or "no rank left" in result.err), result.err
    assert not (tmp_path / "hopbyte-record/traffic.csv").exists()


def test_calls_that_the_recorder_does_not_know_are_told(tmp_path: Path) -> None:
    program = OMPI.build("unseen.c", "-ldl")
    linked = run_command(["ldd", str(program)], tmp_path).ok().out
    path = next(line.split()[2] for line in linked.splitlines() if line.split()[0].startswith("libmpi"))
    result = record(OMPI, tmp_path, [program, path], "--json", ranks=2)
    answer = json.loads(result.out.splitlines()[-1])
    told = "calls without messages in the record (MPI_Start on 2 ranks: "
    assert result.code == 1 and not answer["complete"]
    assert any(told in note for note in answer["notes"])
    assert told in (tmp_path / "hopbyte-record/traffic.csv").read_text().splitlines()[0]


def test_it_stays_with_the_job(tmp_path: Path) -> None:
    """The job's input and output pass through, and a killed hopbyte leaves no ranks behind."""
    command = [
        str(HOPBYTE),
        "record",
        "--libraries",
        str(BUILD),
        "--flavour",
        "ompi",
        "--out",
        "c",
        "--",
        "cat",
    ]
    done = subprocess.run(
        command, input="through\n", capture_output=True, text=True, check=False, timeout=scaled(60), cwd=tmp_path
    )
    assert done.stdout == "through\n"
    assert done.returncode == 1 and "no rank left a record" in done.stderr
