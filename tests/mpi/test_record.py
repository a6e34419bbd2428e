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
    expand,
    launch,
    pair_matrix,
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
    """Runs the traffic program under the recorder and reads its files."""
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
    """Open MPI 4.1.4's monitoring does not see these, so they are checked against the program's source."""
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


# Collectives with a selectable algorithm in Open MPI: (kind, its settings, the same for hopbyte). Without a rule
# the call itself gives every message.
TUNED = [
    ("barrier", "barrier_algorithm 4", "barrier=dissemination"),
    ("bcast", "bcast_algorithm 7,bcast_algorithm_knomial_radix 2", "broadcast=binomial"),
    ("reduce", "reduce_algorithm 5", "reduce=binomial"),
    ("allreduce", "allreduce_algorithm 3", "allreduce=recursive-doubling"),
    ("scan", "scan_algorithm 1", "scan=linear"),
    ("exscan", "exscan_algorithm 1", "scan=linear"),
    ("gather", "gather_algorithm 2", "gather=binomial"),
    ("gatherv", "", ""),
    ("scatter", "scatter_algorithm 2", "scatter=binomial"),
    ("scatterv", "", ""),
    ("allgather", "allgather_algorithm 4", "allgather=ring"),
    ("allgatherv", "allgatherv_algorithm 3", "allgather=ring"),
    ("alltoall", "alltoall_algorithm 2", "alltoall=pairwise"),
    ("alltoallv", "alltoallv_algorithm 2", ""),
    ("alltoallw", "", ""),
    ("reduce_scatter", "reduce_scatter_algorithm 3", "reduce-scatter=ring"),
    ("grid", "", ""),
]
# The same collectives by other algorithms, in Open MPI and in the fabric's expander.
OTHERS = [
    ("bcast", "bcast_algorithm 1", "broadcast=linear"),
    ("reduce", "reduce_algorithm 1", "reduce=linear"),
    ("allreduce", "allreduce_algorithm 4", "allreduce=ring"),
    ("gather", "gather_algorithm 1", "gather=linear"),
    ("scatter", "scatter_algorithm 1", "scatter=linear"),
    ("allgather", "allgather_algorithm 2", "allgather=bruck"),
    ("allgatherv", "allgatherv_algorithm 2", "allgather=bruck"),
    ("alltoall", "alltoall_algorithm 3", "alltoall=bruck"),
    ("reduce_scatter", "reduce_scatter_algorithm 2", "reduce-scatter=recursive-halving"),
]


def tuned_options(settings: str) -> list[str]:
    """MCA options that force one algorithm, unsegmented."""
    options = ["--mca", "coll", "^sm,han,adapt", "--mca", "coll_tuned_use_dynamic_rules", "1"]
    for setting in filter(None, settings.split(",")):
        name, value = setting.split()
        options += ["--mca", f"coll_tuned_{name}", value]
    return options


def difference(more: Matrix, less: Matrix) -> Matrix:
    """Messages of the further repetitions, without start-up and shut-down."""
    pairs = {
        pair: (more[pair][0] - less.get(pair, (0, 0))[0], more[pair][1] - less.get(pair, (0, 0))[1])
        for pair in more
    }
    return {pair: counts for pair, counts in pairs.items() if counts != (0, 0)}


# Trees and hypercubes differ on a power of two.
POWERS = [(*which, 8) for which in TUNED[:4] + TUNED[6:9:2]] + [(*which, 8) for which in OTHERS[5:]]
POWERS.append(("barrier", "barrier_algorithm 3", "barrier=recursive-doubling", 8))
EXPANDED = [(*which, RANKS) for which in TUNED + OTHERS] + POWERS


@pytest.mark.parametrize(
    ("kind", "settings", "rule", "ranks"),
    EXPANDED,
    ids=[f"{kind}-{rule.partition('=')[2] or 'direct'}-{ranks}" for kind, _, rule, ranks in EXPANDED],
)
def test_the_expander_gives_what_the_library_sends(
    kind: str, settings: str, rule: str, ranks: int, tmp_path: Path
) -> None:
    """With an algorithm selected, the library sends exactly the bytes and messages of hopbyte's expansion."""
    ours, theirs = [], []
    for repetitions in (1, 4):
        folder = tmp_path / str(repetitions)
        folder.mkdir()
        records = record(OMPI, folder, kind, repetitions, ranks, [*MONITORING, *tuned_options(settings)])
        if rule:
            ours.append(expand(f"{folder}/hopbyte-record:collectives={rule}")["main collectives"])
        else:
            ours.append(pair_matrix(records))
        # Open MPI's monitoring counts the messages of its linear alltoallw as the application's own.
        theirs.append(read_monitoring(folder, ranks, "E" if kind == "alltoallw" else "I"))
    expected = difference(theirs[1], theirs[0])
    if kind == "alltoallv":  # Open MPI's pairwise exchange sends empty blocks as messages, hopbyte's does not
        expected = {pair: counts for pair, counts in expected.items() if counts[0]}
    assert expected and difference(ours[1], ours[0]) == expected


COUNTS = (1, 100, 3000, 131_072)
SIZED = ["barrier", "bcast", "reduce", "allreduce", "scan", "gather", "scatter", "allgather", "alltoall"]
SIZED.append("reduce_scatter")


@pytest.mark.parametrize("ranks", [4, 5])
@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)
def test_a_record_and_a_spec_give_the_same(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    """Every collective at several sizes: the record and `collective:` are expanded alike, pair by pair."""
    calls = [(kind, count) for kind in SIZED for count in COUNTS]
    record(mpi, tmp_path, "+".join(f"{kind}@{count}" for kind, count in calls), 1, ranks)
    library = "openmpi" if mpi is OMPI else "mpich"
    # Without a rule the library that wrote the record decides.
    default, ring = expand(f"{tmp_path}/hopbyte-record"), "openmpi,allreduce=ring,bcast=binomial"
    chosen = expand(f"{tmp_path}/hopbyte-record:collectives={ring}")
    for at, (kind, count) in enumerate(calls):
        size = 0 if kind == "barrier" else 8 * count
        root = ":root=2" if kind in ("bcast", "reduce", "gather", "scatter") else ""
        phase = f"pcontrol-{100 + at} collectives"
        for recorded, rules in ((default, library), (chosen, ring)):
            spec = ":".join(rules.split(",")[:1])
            spec = {"allreduce": "ring", "bcast": "binomial"}.get(kind, spec) if rules == ring else spec
            (expected,) = expand(f"collective:{kind}:{ranks}:{size}:{spec}{root}").values()
            assert recorded[phase] == expected, (kind, count, rules)


def test_sizes_without_end_are_rounded_and_counted(tmp_path: Path) -> None:
    """More sizes than the table has entries: bytes and calls stay exact, sizes become powers of two, with a count."""
    sizes = range(1, 600)
    records = record(
        OMPI,
        tmp_path,
        "+".join(f"bcast@{n}" for n in (1, 2)) + "+sizes",
        1,
        environment={"HOPBYTE_RECORD_TABLE": "256"},
    )
    for r in records:
        total = sum(c["bytes"] for k, c in r.calls.items() if k[2] == "allreduce")
        calls = sum(c["messages"] for k, c in r.calls.items() if k[2] == "allreduce")
        found = set().union(*(s for k, s in r.sizes.items() if k[2] == "allreduce"))
        assert (total, calls) == (sum(sizes), len(sizes))
        rounded = {s for s in found if s.startswith("~")}
        assert "~512" in rounded and rounded <= {f"~{1 << bit}" for bit in range(10)}
        assert len(found - rounded) == 254 and int(r.header["rounded"]) == len(sizes) - 254
    # Recursive doubling of five ranks: the first sends its vector to the second.
    expanded = expand(f"{tmp_path}/hopbyte-record:collectives=allreduce=recursive-doubling")
    assert expanded["pcontrol-101 collectives"][0, 1] == (sum(sizes), len(sizes))


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
    kinds = [kind for kind, _, _ in TUNED] + ["graph", "in_place", "ibcast", "reduce_scatter_block"]
    pairs, facts = [], []
    for which in (mpi, OMPI):
        folder = tmp_path / which.name
        folder.mkdir()
        records = record(which, folder, "+".join(kinds))
        found = {k[2] for r in records for k in r.calls}
        assert len(found) == 20
        pairs.append({kind: pair_matrix(records, kind) for kind in found})
        facts.append(
            [
                sorted((k[1:], tuple(c.values()), sorted(r.sizes[k])) for k, c in r.calls.items())
                for r in records
            ]
        )
    assert pairs[0] == pairs[1]
    assert facts[0] == facts[1]


@each_mpi
def test_graph_neighbours(mpi: Mpi, tmp_path: Path) -> None:
    expected: Matrix = {}
    for rank in range(RANKS):
        expected[rank, (rank + 1) % RANKS] = (16, 1)
        expected[rank, (rank + 2) % RANKS] = (32, 1)
    assert pair_matrix(record(mpi, tmp_path, "graph"), "neighbor_alltoallv") == expected


@each_mpi
def test_between_two_groups(mpi: Mpi, tmp_path: Path) -> None:
    records = record(mpi, tmp_path, "between", 1, 5)
    point = {pair: counts for pair, counts in point_matrix(records).items() if counts[0] >= 8}
    assert point == {(0, 2): (8, 1), (1, 3): (9, 1), (2, 0): (10, 1), (3, 1): (11, 1)}
    assert pair_matrix(records, "bcast") == {(0, 2): (10, 1), (0, 3): (10, 1), (0, 4): (10, 1)}


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
