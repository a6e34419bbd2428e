"""The recorder against Open MPI's own monitoring, and against known traffic on every MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import (
    ALL,
    MONITORING,
    MPICH4,
    OMPI,
    WITH_FORTRAN,
    Matrix,
    Mpi,
    collective_matrix,
    launch,
    point_matrix,
    read_monitoring,
    read_records,
)

RANKS = 5  # odd, so that nothing is symmetric by accident

each_mpi = pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)


def record(
    mpi: Mpi,
    folder: Path,
    kind: str,
    repetitions: int = 1,
    ranks: int = RANKS,
    options: list[str] | None = None,
    environment: dict[str, str] | None = None,
):
    """Runs the traffic program under the recorder and reads what it wrote."""
    program = mpi.build("traffic.c")
    launch(
        mpi, ranks, [program, kind, str(repetitions)], folder, options=options, environment=environment
    ).ok()
    return read_records(folder / "hopbyte-record", ranks)


@pytest.mark.parametrize("kind", ["point", "types", "communicators"])
def test_point_to_point_equals_monitoring(kind: str, tmp_path: Path) -> None:
    records = record(OMPI, tmp_path, kind, 2, options=MONITORING)
    theirs = read_monitoring(tmp_path, RANKS, "E")
    assert theirs and point_matrix(records) == theirs


@pytest.mark.parametrize("source", ["fring.f90", "f08ring.f90"])
def test_fortran_equals_monitoring(source: str, tmp_path: Path) -> None:
    launch(OMPI, RANKS, [OMPI.build(source)], tmp_path, options=MONITORING).ok()
    records = read_records(tmp_path / "hopbyte-record", RANKS)
    theirs = read_monitoring(tmp_path, RANKS, "E")
    assert len(theirs) == 2 * RANKS and point_matrix(records) == theirs


@pytest.mark.parametrize("source", ["fring.f90", "f08ring.f90"])
@pytest.mark.parametrize("mpi", WITH_FORTRAN, ids=lambda m: m.name)
def test_fortran_is_seen_once(mpi: Mpi, source: str, tmp_path: Path) -> None:
    launch(mpi, RANKS, [mpi.build(source)], tmp_path).ok()
    records = read_records(tmp_path / "hopbyte-record", RANKS)
    expected: Matrix = {}
    for rank in range(RANKS):
        expected[rank, (rank + 1) % RANKS] = (8 * (10 + rank), 1)
        expected[rank, (rank - 1) % RANKS] = (4 * 7, 1)
    assert point_matrix(records) == expected
    for r in records:
        ((key, counter),) = r.calls.items()
        assert key[2] == "allreduce" and counter == {"bytes": 800, "messages": 1}


@pytest.mark.parametrize("mpi", [*ALL, MPICH4], ids=lambda m: m.name)
def test_persistent_sends_count_at_every_start(mpi: Mpi, tmp_path: Path) -> None:
    """Open MPI 4.1.4's monitoring does not see these, so they are checked against what the program does."""
    expected: Matrix = {}
    for rank in range(RANKS):
        expected[rank, (rank + 1) % RANKS] = (2 * 4 * 40, 2 * 4)
        expected[rank, (rank - 1) % RANKS] = (2 * 3 * 9, 2 * 3)
    assert point_matrix(record(mpi, tmp_path, "persistent", 2)) == expected


@pytest.mark.parametrize("kind", ["point", "types", "communicators"])
@pytest.mark.parametrize("mpi", [*ALL[1:], MPICH4], ids=lambda m: m.name)
def test_every_mpi_gives_the_same_matrix(mpi: Mpi, kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = point_matrix(record(mpi, tmp_path / "a", kind))
    assert ours and ours == point_matrix(record(OMPI, tmp_path / "b", kind))


# Collectives whose algorithm Open MPI can be told to use: (kind, settings).
TUNED = [
    ("barrier", "barrier_algorithm 4"),
    ("bcast", "bcast_algorithm 7,bcast_algorithm_knomial_radix 2"),
    ("reduce", "reduce_algorithm 5"),
    ("allreduce", "allreduce_algorithm 3"),
    ("scan", "scan_algorithm 1"),
    ("exscan", "exscan_algorithm 1"),
    ("gather", "gather_algorithm 2"),
    ("gatherv", ""),
    ("scatter", "scatter_algorithm 2"),
    ("scatterv", ""),
    ("allgather", "allgather_algorithm 4"),
    ("allgatherv", "allgatherv_algorithm 3"),
    ("alltoall", "alltoall_algorithm 2"),
    ("alltoallv", "alltoallv_algorithm 2"),
    ("alltoallw", ""),
    ("reduce_scatter", "reduce_scatter_algorithm 3"),
    ("grid", ""),
]


def tuned_options(settings: str) -> list[str]:
    """MCA options that force one algorithm, unsegmented."""
    options = ["--mca", "coll", "^sm,han,adapt", "--mca", "coll_tuned_use_dynamic_rules", "1"]
    for setting in filter(None, settings.split(",")):
        name, value = setting.split()
        options += ["--mca", f"coll_tuned_{name}", value]
    return options


def difference(more: Matrix, less: Matrix) -> Matrix:
    """What further repetitions added, leaving out start-up and shut-down."""
    pairs = {
        pair: (more[pair][0] - less.get(pair, (0, 0))[0], more[pair][1] - less.get(pair, (0, 0))[1])
        for pair in more
    }
    return {pair: counts for pair, counts in pairs.items() if counts != (0, 0)}


# Trees and hypercubes are other ones on a power of two.
POWERS = [(kind, settings, 8) for kind, settings in TUNED[:4] + TUNED[6:9:2]]
DECOMPOSED = [(kind, settings, RANKS) for kind, settings in TUNED] + POWERS


@pytest.mark.parametrize(
    ("kind", "settings", "ranks"), DECOMPOSED, ids=[f"{kind}-{ranks}" for kind, _, ranks in DECOMPOSED]
)
def test_decomposition_is_what_the_library_sends(
    kind: str, settings: str, ranks: int, tmp_path: Path
) -> None:
    """The library, told to use the algorithm FORMAT.md names, sends exactly the bytes and messages we write."""
    ours, theirs = [], []
    for repetitions in (1, 4):
        folder = tmp_path / str(repetitions)
        folder.mkdir()
        records = record(OMPI, folder, kind, repetitions, ranks, [*MONITORING, *tuned_options(settings)])
        ours.append(collective_matrix(records))
        # Open MPI takes the messages of its linear alltoallw for the application's own.
        theirs.append(read_monitoring(folder, ranks, "E" if kind == "alltoallw" else "I"))
    expected = difference(theirs[1], theirs[0])
    if kind == "alltoallv":  # empty blocks are messages to Open MPI's pairwise exchange, not to us
        expected = {pair: counts for pair, counts in expected.items() if counts[0]}
    assert expected and difference(ours[1], ours[0]) == expected


def test_flat_decomposition_equals_monitoring(tmp_path: Path) -> None:
    """The K lines hold the facts: another decomposition of them, root to each, is Open MPI's own `C` lines."""
    for kind in ("bcast", "scatter", "allreduce", "allgather", "alltoall"):
        folder = tmp_path / kind
        folder.mkdir()
        records = record(OMPI, folder, kind, 3, options=[*MONITORING, *tuned_options("")])
        ours: Matrix = {}
        for source, r in enumerate(records):
            for (_, group, _, root), counter in r.calls.items():
                for target in range(RANKS):
                    if target != source and root in (-1, source) and r.groups[group][0] == RANKS:
                        ours[source, target] = (counter["bytes"], counter["messages"])
        assert ours and ours == read_monitoring(folder, RANKS, "C"), kind


def test_one_sided_equals_monitoring(tmp_path: Path) -> None:
    # osc/rdma of Open MPI 4.1.4 crashes in this program with nothing preloaded.
    records = record(OMPI, tmp_path, "rma", 2, options=[*MONITORING, "--mca", "osc", "monitoring,sm"])
    for direction, letter in (("out", "S"), ("in", "R")):
        ours: dict[tuple[int, int], list[int]] = {}
        for source, r in enumerate(records):
            for (_, name, way, target), counter in r.rma.items():
                if way == direction:
                    entry = ours.setdefault((source, target), [0, 0])
                    entry[0] += counter["bytes"]
                    # Monitoring counts a compare-and-swap as two messages out, of one element together.
                    entry[1] += counter["messages"] * (2 if (name, way) == ("compare_and_swap", "out") else 1)
        theirs = read_monitoring(tmp_path, RANKS, letter)
        assert theirs and {pair: tuple(counts) for pair, counts in ours.items()} == theirs


@each_mpi
def test_one_sided_on_every_mpi(mpi: Mpi, tmp_path: Path) -> None:
    options = ["--mca", "osc", "sm"] if mpi is OMPI else []
    records = record(mpi, tmp_path, "rma", 1, options=options)
    for rank, r in enumerate(records):
        left, right = (rank + 1) % RANKS, (rank - 1) % RANKS  # the window's ranks are reversed
        expected = {
            ("put", "out", right): (4 * (10 + rank) + 9, 2),
            ("get", "in", left): (20 + rank, 1),
            ("accumulate", "out", left): (24, 1),
            ("get_accumulate", "out", right): (32, 1),
            ("get_accumulate", "in", right): (32, 1),
            ("fetch_and_op", "out", left): (8, 1),
            ("fetch_and_op", "in", left): (8, 1),
            ("compare_and_swap", "out", left): (8, 1),
            ("compare_and_swap", "in", left): (8, 1),
        }
        assert {k[1:]: (c["bytes"], c["messages"]) for k, c in r.rma.items()} == expected


@pytest.mark.parametrize("mpi", ALL[1:], ids=lambda m: m.name)
def test_collectives_are_the_same_on_every_mpi(mpi: Mpi, tmp_path: Path) -> None:
    kinds = [kind for kind, _ in TUNED] + ["graph", "in_place", "ibcast", "reduce_scatter_block"]
    matrices, facts = [], []
    for which in (mpi, OMPI):
        folder = tmp_path / which.name
        folder.mkdir()
        records = record(which, folder, "+".join(kinds))
        matrices.append(
            {kind: collective_matrix(records, kind) for kind in {k[2] for r in records for k in r.calls}}
        )
        facts.append([sorted((k[1:], tuple(c.values())) for k, c in r.calls.items()) for r in records])
    assert len(matrices[0]) == 20 and matrices[0] == matrices[1]
    assert facts[0] == facts[1]


@each_mpi
def test_graph_neighbours(mpi: Mpi, tmp_path: Path) -> None:
    expected: Matrix = {}
    for rank in range(RANKS):
        expected[rank, (rank + 1) % RANKS] = (16, 1)
        expected[rank, (rank + 2) % RANKS] = (32, 1)
    assert collective_matrix(record(mpi, tmp_path, "graph"), "neighbor_alltoallv") == expected


@each_mpi
def test_between_two_groups(mpi: Mpi, tmp_path: Path) -> None:
    records = record(mpi, tmp_path, "between", 1, 5)
    point = {pair: counts for pair, counts in point_matrix(records).items() if counts[0] >= 8}
    assert point == {(0, 2): (8, 1), (1, 3): (9, 1), (2, 0): (10, 1), (3, 1): (11, 1)}
    assert collective_matrix(records, "bcast") == {(0, 2): (10, 1), (0, 3): (10, 1), (0, 4): (10, 1)}


@each_mpi
def test_regions_and_phases(mpi: Mpi, tmp_path: Path) -> None:
    records = record(mpi, tmp_path, "regions")
    phases = {"main": 1 + 16 + 128, "solve": 2 + 8, "solve/halo": 4, "pcontrol-2": 32, "pcontrol-3": 64}
    for r in records:
        assert set(r.phases.values()) == set(phases)
    for phase, total in phases.items():
        assert {c[0] for c in point_matrix(records, phase).values()} == {total}, phase
    assert sum(c[0] for c in point_matrix(records).values()) == RANKS * 255


@each_mpi
def test_a_full_table_is_written_out_and_nothing_is_lost(mpi: Mpi, tmp_path: Path) -> None:
    records = record(mpi, tmp_path, "many", environment={"HOPBYTE_RECORD_TABLE": "256"})
    per_pair = sum(range(2, 300))
    assert set(point_matrix(records).values()) == {(per_pair, 298)}
    assert sum(c["bytes"] for k, c in records[0].calls.items() if k[2] == "allreduce") == per_pair
    assert len(records[0].phases) == 299
    lines = (tmp_path / "hopbyte-record" / "rank.0.hbr").read_text().splitlines()
    first_data = next(i for i, line in enumerate(lines) if line.startswith("P\t"))
    assert any(line.startswith("phase\t") for line in lines[first_data:]), "the table never spilled"
