"""hopbyte's counters through MPI_T, read by tools that know nothing of it, and the MPI library's variables in the record."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from program import find_binary

from harness import ABI, ALL, BUILD, MPICH, MPICH4, OMPI, OMPI5, Mpi, Result, launch, run_command

HOPBYTE = find_binary()

each_mpi = pytest.mark.parametrize("mpi", [*ALL, MPICH4, OMPI5], ids=lambda m: m.name)
COUNTERS = ["messages", "bytes", "collectives", "collective_bytes", "one_sided", "one_sided_bytes", "mpi_calls"]


def run_tool(
    mpi: Mpi,
    folder: Path,
    prefix: str,
    *more: str | Path,
    tools: tuple[str, ...] = ("mpit", "record"),
    preload_first: str = "",
    **environment: str,
) -> Result:
    """The tool on two ranks."""
    return launch(
        mpi,
        2,
        [mpi.build("tool.c"), prefix, *more],
        folder,
        tools=tools,
        preload_first=preload_first,
        environment={"HOPBYTE_RECORD_DIR": str(folder / "record"), **environment},
    )


def values(result: Result) -> dict[str, float]:
    """Values that rank 0 read, by name."""
    return {n: float(v) for n, v in re.findall(r"^value (\S+) class \d+ = (\S+) #", result.out, re.MULTILINE)}


@each_mpi
def test_a_tool_reads_the_recorders_counts(mpi: Mpi, tmp_path: Path) -> None:
    """Ten sends of 1000 bytes and an allreduce between start and read; handles, sessions and numbers behave."""
    result = run_tool(mpi, tmp_path, "hopbyte_record").ok()
    found = values(result)
    assert {name: found[f"hopbyte_record_{name}"] for name in COUNTERS} == dict(
        zip(COUNTERS, [10, 10000, 1, 4, 0, 0, 11], strict=True)
    )
    assert 0 < found["hopbyte_record_mpi_seconds"] < 10
    # Not started, one piece of work; what another handle counts after a reading that resets; after a write; after a reset.
    assert re.search(r"^control 0 10 10 0 17 0$", result.out, re.MULTILINE)
    mistakes = re.findall(r"^mistake ([a-z ]+): ([01 ]+)$", result.out, re.MULTILINE)
    assert len(mistakes) == 11
    assert all(set(done.split()) == {"1"} for _, done in mistakes), mistakes
    assert "has number" not in result.out
    assert "answers before" not in result.out
    assert "below hopbyte: hopbyte_record" in result.out
    assert len(re.findall(r"^in hopbyte_record: ", result.out, re.MULTILINE)) == 8


@each_mpi
def test_the_librarys_own_variables_are_unchanged(mpi: Mpi, tmp_path: Path) -> None:
    """With and without hopbyte, a tool lists the same of the library, and hopbyte's come first."""
    bare = run_tool(mpi, tmp_path, "none", tools=()).ok().out
    with_it = run_tool(mpi, tmp_path, "none").ok().out
    counted = r"variables (\d+), before MPI_Init (\d+), hopbyte's (\d+), invalid (\d+)"
    theirs, both = re.search(counted, bare), re.search(counted, with_it)
    assert theirs
    assert both
    assert int(both[1]) == int(theirs[1]) + 8
    assert (theirs[3], both[3], both[4]) == ("0", "8", theirs[4])
    categories = [int(re.search(r"^categories (\d+)", out, re.MULTILINE)[1]) for out in (bare, with_it)]  # type: ignore[index]
    assert categories[1] == categories[0] + 2


def test_mpichs_own_tool_lists_them(tmp_path: Path) -> None:
    """mpivars, which comes with MPICH."""
    program = shutil.which("mpivars")
    assert program
    result = launch(
        MPICH4,
        1,
        [program],
        tmp_path,
        tools=("mpit", "record"),
        environment={"HOPBYTE_RECORD_DIR": str(tmp_path / "record")},
    ).ok()
    assert re.search(r"hopbyte_record_bytes\s+CLASS_AGGREGATE\s+No-object\s+MPI_UNSIGNED_LONG_LONG", result.out)
    assert "Category hopbyte_record has 0 control variables, 8 performance variables" in result.out


@pytest.mark.parametrize("mpi", [OMPI, MPICH, MPICH4], ids=lambda m: m.name)
def test_io_and_gm(mpi: Mpi, tmp_path: Path) -> None:
    """A written file's bytes, and links of the emulated network cards, of which more appear at MPI_Init."""
    card = tmp_path / "sys/class/net/eth7/statistics"
    card.mkdir(parents=True)
    (card.parent / "device").mkdir()
    for name in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"):
        (card / name).write_text("1000\n")
    result = run_tool(
        mpi,
        tmp_path,
        "hopbyte_",
        tmp_path / "data",
        tools=("mpit", "record", "io", "gm"),
        MPICH_MPIIO_TIMERS="1",
        HOPBYTE_GM_REGIONS="job",
        HOPBYTE_GM_SOURCE="linux",
        HOPBYTE_GM_ROOT=str(tmp_path / "sys"),
    ).ok()
    found = values(result)
    assert found["hopbyte_io_requested_bytes"] == found["hopbyte_io_delivered_bytes"] == 4096
    assert found["hopbyte_io_calls"] == 1
    parts = [v for n, v in found.items() if n.startswith("hopbyte_io") and n.endswith("_seconds")]
    total = found["hopbyte_io_total_seconds"]
    assert sum(parts) - total == pytest.approx(total, rel=1e-6)
    links = [n for n in found if n.startswith("hopbyte_gm_") and "eth7" in n]
    assert sorted(n.split("eth7_")[1] for n in links) == [
        "rx_bytes", "rx_dropped", "rx_pkts", "tx_bytes", "tx_dropped", "tx_pkts",
    ]  # fmt: skip
    assert all(found[n] == 0 for n in links)
    early, late = re.search(r"variables (\d+), before MPI_Init (\d+)", result.out).group(2, 1)  # type: ignore[union-attr]
    assert int(late) >= int(early) + 6
    assert {f"below hopbyte: hopbyte_{name}" for name in ("gm", "io", "record")} <= set(result.out.splitlines())


def test_replaced_locks(tmp_path: Path) -> None:
    """Acquisitions of MPICH 4's global lock, which it takes in every call if threads may call it."""
    result = run_tool(
        MPICH4, tmp_path, "hopbyte_lock", tools=("mpit",), preload_first=str(BUILD / "libhopbyte_lock.so"),
        HOPBYTE_LOCK="auto", HOPBYTE_LOCK_REPORT="1", MPIR_CVAR_DEFAULT_THREAD_LEVEL="MPI_THREAD_MULTIPLE",
    ).ok()  # fmt: skip
    found = values(result)
    assert found["hopbyte_lock_acquired"] >= 20
    assert 0 <= found["hopbyte_lock_waited"] <= found["hopbyte_lock_acquired"]
    assert 0 <= found["hopbyte_lock_longest_wait_seconds"] < 100
    assert len(found) == 3


@pytest.mark.parametrize("mpi", [OMPI, OMPI5, MPICH], ids=lambda m: m.name)
def test_locks_that_are_left_alone_have_no_variables(mpi: Mpi, tmp_path: Path) -> None:
    result = run_tool(
        mpi, tmp_path, "hopbyte_lock", tools=("mpit",), preload_first=str(BUILD / "libhopbyte_lock.so"),
        HOPBYTE_LOCK="auto", HOPBYTE_LOCK_REPORT="1",
    ).ok()  # fmt: skip
    assert values(result) == {}
    assert "hopbyte's 0, invalid" in result.out


@pytest.mark.parametrize("mpi", [OMPI, OMPI5], ids=lambda m: m.name)
def test_variables_of_the_library_in_the_record(mpi: Mpi, tmp_path: Path) -> None:
    """A pattern takes all that match; what cannot be recorded is said, once and in the record."""
    result = run_tool(
        mpi, tmp_path, "none", tools=("record",), HOPBYTE_RECORD_PVARS="pml_ob1_*_length, nothing osc_rdma_put*"
    ).ok()
    for rank in range(2):
        lines = (tmp_path / f"record/rank.{rank}.hbr").read_text().splitlines()
        pvars = [line.split("\t")[1:] for line in lines if line.startswith("pvar\t")]
        assert sorted(p[0] for p in pvars) == ["pml_ob1_posted_recvq_length", "pml_ob1_unexpected_msgq_length"]
        assert all(p[1] == "size" and re.fullmatch(r"\d+(,\d+)*", p[2]) for p in pvars)
        absent = {line.split("\t")[1]: line.split("\t")[2] for line in lines if line.startswith("nopvar\t")}
        assert "found no variable of this name among the" in absent["nothing"]
        assert any("it belongs to single objects" in why for why in absent.values()) or "osc_rdma_put*" in absent
    said = "hopbyte record: HOPBYTE_RECORD_PVARS: nothing: found no variable of this name among the"
    assert result.err.count(said) == 1


@pytest.mark.parametrize("mpi", [MPICH, MPICH4, ABI], ids=lambda m: m.name)
def test_a_library_without_variables_says_so(mpi: Mpi, tmp_path: Path) -> None:
    result = run_tool(mpi, tmp_path, "none", tools=("record",), HOPBYTE_RECORD_PVARS="anything").ok()
    assert "anything: found no variable of this name among the 0 of this MPI library" in result.err
    assert "nopvar\tanything\t" in (tmp_path / "record/rank.1.hbr").read_text()


@pytest.mark.skipif(HOPBYTE is None, reason="no hopbyte binary: make build")
def test_the_record_command_shows_them(tmp_path: Path) -> None:
    """Also hopbyte's own, through its MPI_T: the answer has every rank's value, and what was not found."""
    command = [str(HOPBYTE), "record", "--libraries", str(BUILD), "--json", "--",
               *OMPI.command(2, {}, []), str(OMPI.build("tool.c")), "none"]  # fmt: skip
    environment = {"HOPBYTE_RECORD_PVARS": "hopbyte_record_m*,nothing", "LD_PRELOAD": str(OMPI.library("mpit"))}
    answer = json.loads(run_command(command, tmp_path, environment).ok().out.splitlines()[-1])
    messages = next(v for v in answer["variables"] if v["name"] == "hopbyte_record_messages")
    assert messages["class"] == "counter"
    assert messages["by_rank"] == [[50.0], [50.0]]
    assert (messages["least"], messages["most"], messages["sum"]) == (50, 50, 100)
    assert any("HOPBYTE_RECORD_PVARS: nothing: found no variable" in note for note in answer["notes"])


@pytest.mark.parametrize("mpi", [OMPI, MPICH, ABI], ids=lambda m: m.name)
def test_under_sanitizers(mpi: Mpi, tmp_path: Path) -> None:
    preload, environment = mpi.sanitized("mpit")
    record = mpi.sanitized("record")[0].split(":")[1]
    run_tool(mpi, tmp_path, "hopbyte", tools=(), preload_first=f"{preload}:{record}", **environment).ok()
