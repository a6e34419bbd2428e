"""Rank reordering: the substituted world, Cray's variables, maps, and topologies that really reorder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import (
    ABI,
    ALL,
    MPICH,
    MPICH4,
    OMPI,
    OMPI5,
    WITH_FORTRAN,
    Mpi,
    Result,
    launch,
    point_matrix,
    read_records,
)

each_mpi = pytest.mark.parametrize("mpi", [*ALL, MPICH4], ids=lambda m: m.name)
three = pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)


def run_order(
    mpi: Mpi,
    ranks: int,
    folder: Path,
    arguments: list[str] | None = None,
    *,
    per_node: int = 0,
    tools: tuple[str, ...] = ("reorder",),
    **environment: str,
) -> Result:
    """The test program under the reordering library, nodes emulated by blocks of `per_node` ranks."""
    if per_node:
        environment["HOPBYTE_REORDER_RANKS_PER_NODE"] = str(per_node)
    # Windows of a few bytes are broken in MPICH 4.0.2; the program's are larger.
    return launch(
        mpi, ranks, [mpi.build("order.c"), *(arguments or [])], folder, tools=tools, environment=environment
    )


def launched_by_rank(result: Result) -> list[int]:
    """The launcher's number of every rank, in the order of the new ranks."""
    pairs = re.findall(r"rank (\d+) launched (\d+)", result.ok().out)
    return [launched for _, launched in sorted((int(r), int(n)) for r, n in pairs)]


def on_hosts(mpi: Mpi, folder: Path, host: str) -> Path:
    """A script that runs the program under its own host name, computed by the shell from the launch rank $r."""
    script = folder / f"on_hosts.{mpi.name}.sh"
    script.write_text(
        "#!/bin/sh\nr=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
        f'exec unshare --uts sh -c \'hostname "$0" && exec "$@"\' {host} {mpi.build("order.c")} "$@"\n'
    )
    script.chmod(0o755)
    return script


def test_without_a_request_nothing_changes(tmp_path: Path) -> None:
    result = run_order(OMPI, 6, tmp_path)
    assert launched_by_rank(result) == list(range(6))
    assert "hopbyte" not in result.err


@each_mpi
def test_a_file_order_and_everything_a_program_sees(mpi: Mpi, tmp_path: Path) -> None:
    """Reversed: ring, groups, splits, attributes, names, windows, error handlers all agree with the new numbers."""
    (tmp_path / "MPICH_RANK_ORDER").write_text("# reversed\n7,6,5\n4-0\n")
    result = run_order(mpi, 8, tmp_path, MPICH_RANK_REORDER_METHOD="3")
    assert launched_by_rank(result) == list(range(7, -1, -1))
    assert "understood method 3: the order in MPICH_RANK_ORDER" in result.err
    assert "delivered by substituting MPI_COMM_WORLD: 8 of 8 ranks" in result.err


@each_mpi
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # Nodes of 4, 4 and 2 slots: the new number of every launch rank, worked out by hand.
        ("0", [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]),
        ("1", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("2", [0, 4, 8, 9, 5, 1, 2, 6, 7, 3]),
    ],
    ids=["round-robin", "blocks", "folded"],
)
def test_methods_of_cray(mpi: Mpi, method: str, expected: list[int], tmp_path: Path) -> None:
    result = run_order(mpi, 10, tmp_path, per_node=4, MPICH_RANK_REORDER_METHOD=method)
    assert launched_by_rank(result) == expected


@three
def test_blocks_on_hosts_that_the_launcher_filled_in_turn(mpi: Mpi, tmp_path: Path) -> None:
    """Four real host names, launch ranks dealt round robin; method 1 puts ranks 0 and 1 on the first."""
    script = on_hosts(mpi, tmp_path, "h$((r % 4))")
    result = launch(
        mpi,
        8,
        [script],
        tmp_path,
        tools=("reorder",),
        environment={"MPICH_RANK_REORDER_METHOD": "1", "MPICH_RANK_REORDER_DISPLAY": "1"},
    )
    assert launched_by_rank(result) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert "rank 1 is on h0 (launched as 4)" in result.err


@three
def test_a_map_of_ranks_to_hosts(mpi: Mpi, tmp_path: Path) -> None:
    """`hopbyte apply csv`: every rank on its host and in the order of slots; domain names are ignored."""
    (tmp_path / "placement.csv").write_text(
        "rank,node,slot\n0,h1,1\n1,h0,0\n2,h1.cluster.example,0\n3,h0,1\n4,h2,0\n5,h2,1\n"
    )
    script = on_hosts(mpi, tmp_path, "h$((r / 2))")
    result = launch(
        mpi, 6, [script], tmp_path, tools=("reorder",), environment={"HOPBYTE_REORDER_MAP": "placement.csv"}
    )
    assert launched_by_rank(result) == [3, 0, 2, 1, 4, 5]
    hosts = dict(re.findall(r"rank (\d) launched \d host (\w+)", result.out))
    assert hosts == {"0": "h1", "1": "h0", "2": "h1", "3": "h0", "4": "h2", "5": "h2"}


@three
def test_method_4_puts_neighbours_together(mpi: Mpi, tmp_path: Path) -> None:
    """16 ranks on 4 nodes as a 4x4 grid: 24 directed links leave their nodes row by row, 16 in blocks of 2x2."""
    result = run_order(
        mpi,
        16,
        tmp_path,
        per_node=4,
        MPICH_RANK_REORDER_METHOD="4",
        MPICH_RANK_REORDER_OPTS="--ndims=2 --dims=4,4 --nearest",
    )
    order = launched_by_rank(result)
    node = [launched // 4 for launched in order]
    off = sum(
        node[v] != node[u]
        for v in range(16)
        for u in range(16)
        if abs(v // 4 - u // 4) + abs(v % 4 - u % 4) == 1
    )
    assert off == 16
    assert "understood method 4: a grid of 4x4" in result.err and "24 -> 16" in result.err


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ("--ndims=3 --dims=2,2,4 --nearest", "2x2x4"),
        ("--ndims 3 --dims 2,2,4 --nearest", "2x2x4"),
        ("--dims=4,4 --periodic=1,0 --nearest", "4px4"),
        ("-nearest -dims=16", "16"),
        ("--dims=2x8 --column-major", "2x8, first dimension fastest, nearest neighbours (--nearest assumed)"),
    ],
)
def test_option_strings(options: str, shape: str, tmp_path: Path) -> None:
    result = run_order(
        OMPI, 16, tmp_path, per_node=4, MPICH_RANK_REORDER_METHOD="4", MPICH_RANK_REORDER_OPTS=options
    )
    assert f"understood method 4: a grid of {shape}" in result.err
    assert sorted(launched_by_rank(result)) == list(range(16))


REFUSED = {
    "no such method": ({"MPICH_RANK_REORDER_METHOD": "7"}, 'MPICH_RANK_REORDER_METHOD="7": expected 0 to 4'),
    "no file": ({"MPICH_RANK_REORDER_METHOD": "3"}, "cannot open the rank order MPICH_RANK_ORDER"),
    "too few": (
        {"HOPBYTE_REORDER_MAP": "0,1,2"},
        "names 3 ranks, the job has 4; is the map from another job?",
    ),
    "too many": (
        {"HOPBYTE_REORDER_MAP": "0-7"},
        "rank 4, but the job has ranks 0 to 3; is the map from another job?",
    ),
    "twice": ({"HOPBYTE_REORDER_MAP": "0,1,1,2"}, "map:1: rank 1 is listed twice"),
    "not a rank": ({"HOPBYTE_REORDER_MAP": "0,1\nx"}, 'map:2: found "x", expected a rank'),
    "bad range": ({"HOPBYTE_REORDER_MAP": "0-"}, 'map:1: found "0-", expected a range'),
    "huge": ({"HOPBYTE_REORDER_MAP": "0,99999999999999999999"}, "map:1: rank"),
    "other host": (
        {"HOPBYTE_REORDER_MAP": "rank,node,slot\n0,mars,0\n1,mars,1\n2,mars,2\n3,mars,3\n"},
        "map:2: no rank of this job runs on node mars",
    ),
    "wrong counts": (
        {"HOPBYTE_REORDER_MAP": "rank,node,slot\n0,node0,0\n1,node0,1\n2,node0,2\n3,node1,0\n"},
        "puts 3 ranks on node node0, but 2 processes run there",
    ),
    "bad line": (
        {"HOPBYTE_REORDER_MAP": "rank,node,slot\n0;node0\n"},
        'map:2: found "0;node0", expected RANK,NODE',
    ),
    "bad slot": (
        {"HOPBYTE_REORDER_MAP": "rank,node,slot\n0,node0,first\n"},
        'map:2: found "first", expected a slot',
    ),
    "no dims": ({"MPICH_RANK_REORDER_METHOD": "4"}, "needs MPICH_RANK_REORDER_OPTS"),
    "wrong dims": (
        {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=16,16,16 --nearest"},
        "--dims has 4096 cells, the job has 4 ranks",
    ),
    "ndims": (
        {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--ndims=3 --dims=2,2"},
        "--ndims=3, but --dims has 2",
    ),
    "overflow": (
        {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=65536,65536,65536,65536"},
        "cells, the job has 4 ranks",
    ),
    "unknown option": (
        {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=2,2 --fastest"},
        '"--fastest" is not understood',
    ),
    "bad dims": (
        {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=2,0"},
        "is not understood",
    ),
}


# Messages do not depend on the MPI, job termination does: the message appears for all ranks or for some.
REFUSALS = [(case, MPICH) for case in REFUSED] + [
    (case, OMPI) for case in ("no file", "too few", "other host")
]


@pytest.mark.parametrize(("case", "mpi"), REFUSALS, ids=[f"{case}-{mpi.name}" for case, mpi in REFUSALS])
def test_what_cannot_be_done_is_refused_before_the_program_runs(case: str, mpi: Mpi, tmp_path: Path) -> None:
    settings, message = REFUSED[case]
    settings = dict(settings)
    if "HOPBYTE_REORDER_MAP" in settings:
        (tmp_path / "map").write_text(settings["HOPBYTE_REORDER_MAP"])
        settings["HOPBYTE_REORDER_MAP"] = "map"
    result = run_order(mpi, 4, tmp_path, per_node=2, **settings)
    assert result.code not in (0, None), "it hung or went on"
    if not result.err + result.out:
        # On a busy machine Hydra still loses output of an aborting job.
        result = run_order(mpi, 4, tmp_path, per_node=2, **settings)
    assert message in result.err + result.out
    assert "launched" not in result.out, "the program ran"


CARTS = {
    "4x4": (["4", "4"], 16, 4, 24, 16),
    "2x2x4": (["2", "2", "4"], 16, 4, 32, 24),
    "ring": (["12p"], 12, 3, 8, 8),
    "8x2": (["8", "2"], 16, 4, 12, 12),
}


# The ABI flavour runs on the library of the MPICH flavour.
CART_RUNS = [(case, mpi) for case in CARTS for mpi in (OMPI, MPICH)] + [("4x4", ABI)]


@pytest.mark.parametrize(("case", "mpi"), CART_RUNS, ids=[f"{case}-{mpi.name}" for case, mpi in CART_RUNS])
def test_cart_create_reorders_to_the_optimum(case: str, mpi: Mpi, tmp_path: Path) -> None:
    """Directed neighbour links between nodes, before and after; without a possible gain no rank moves."""
    dims, ranks, per_node, before, after = CARTS[case]
    out = run_order(mpi, ranks, tmp_path, ["cart", *dims], per_node=per_node).ok().out
    plain = re.search(r"cart plain off-node (\d+) moved (\d+)", out)
    reordered = re.search(r"cart reorder off-node (\d+) moved (\d+)", out)
    assert plain and reordered
    assert plain.groups() == (str(before), "0")
    assert int(reordered[1]) == after
    assert (int(reordered[2]) > 0) == (after < before)


@three
def test_cart_create_on_hosts_in_turn_and_inside_a_reordered_world(mpi: Mpi, tmp_path: Path) -> None:
    script = on_hosts(mpi, tmp_path, "h$((r % 4))")
    for method in ("", "2"):
        environment = {"MPICH_RANK_REORDER_METHOD": method}
        result = launch(
            mpi, 16, [script, "cart", "4", "4"], tmp_path, tools=("reorder",), environment=environment
        )
        assert "cart reorder off-node 16" in result.ok().out


@three
def test_cart_create_smaller_than_the_world(mpi: Mpi, tmp_path: Path) -> None:
    run_order(mpi, 14, tmp_path, ["cart", "4", "3"], per_node=4).ok()


@three
@pytest.mark.parametrize("kind", ["graph", "graphw"])
def test_dist_graph_reorders_to_the_optimum(kind: str, mpi: Mpi, tmp_path: Path) -> None:
    """Rows of 4 on nodes of 4; every rank then has the neighbours of its new vertex, including weights."""
    out = run_order(mpi, 16, tmp_path, [kind, "4", "4"], per_node=4).ok().out
    assert "graph plain off-node 24 moved 0" in out
    assert re.search(r"graph reorder off-node 16 moved [1-9]", out)


def test_topologies_can_be_left_alone(tmp_path: Path) -> None:
    result = run_order(OMPI, 16, tmp_path, ["cart", "4", "4"], per_node=4, HOPBYTE_REORDER_TOPOLOGIES="0")
    assert "cart reorder off-node 24 moved 0" in result.ok().out


def test_quiet(tmp_path: Path) -> None:
    result = run_order(
        OMPI,
        16,
        tmp_path,
        ["cart", "4", "4"],
        per_node=4,
        HOPBYTE_REORDER_QUIET="1",
        MPICH_RANK_REORDER_METHOD="0",
    ).ok()
    assert "hopbyte" not in result.err


@three
def test_the_recorder_sees_the_programs_own_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """Recorder first, reordering behind it: the record is the same as without reordering."""
    (tmp_path / "order").write_text("3,1,0,2")
    matrices = []
    for tools, settings in (("record",), {}), (("record", "reorder"), {"HOPBYTE_REORDER_MAP": "order"}):
        environment = {"HOPBYTE_RECORD_DIR": f"r{len(tools)}", **settings}
        launch(
            mpi,
            4,
            [mpi.build("traffic.c"), "point+communicators"],
            tmp_path,
            tools=tools,
            environment=environment,
        ).ok()
        matrices.append(point_matrix(read_records(tmp_path / f"r{len(tools)}", 4)))
    assert matrices[0] and matrices[0] == matrices[1]


@pytest.mark.parametrize("source", ["fring.f90", "f08ring.f90"])
@pytest.mark.parametrize("mpi", WITH_FORTRAN, ids=lambda m: m.name)
def test_fortran_is_reordered_too(mpi: Mpi, source: str, tmp_path: Path) -> None:
    """The recorder behind the reordering sees launch ranks: a ring of reversed ranks runs backwards there."""
    (tmp_path / "order").write_text("3,2,1,0")
    launch(
        mpi,
        4,
        [mpi.build(source)],
        tmp_path,
        tools=("reorder", "record"),
        environment={"HOPBYTE_REORDER_MAP": "order"},
    ).ok()
    matrix = point_matrix(read_records(tmp_path / "hopbyte-record", 4))
    assert {(a, b) for (a, b), (size, _) in matrix.items() if size >= 80} == {
        (r, (r - 1) % 4) for r in range(4)
    }


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_spawned_processes_keep_their_order(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "order").write_text("1,0")
    launch(
        mpi,
        2,
        [mpi.build("spawn.c")],
        tmp_path,
        tools=("reorder",),
        # Over shared memory, UCX's children sometimes fail to attach to a parent's segment (5 of 160
        # runs without our library); over TCP they do not (0 of 60).
        environment={"HOPBYTE_REORDER_MAP": "order", "UCX_TLS": "tcp,self"},
    ).ok()


@three
def test_an_optional_request_that_does_not_fit_keeps_the_launchers_order(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "order").write_text("1,0,2")
    result = launch(
        mpi,
        2,
        [mpi.build("traffic.c"), "point"],
        tmp_path,
        tools=("reorder",),
        environment={"HOPBYTE_REORDER_MAP": "order", "HOPBYTE_REORDER_OPTIONAL": "1"},
    )
    assert result.code == 0 and "the launcher's order is kept" in result.out + result.err, result


@pytest.mark.parametrize(
    ("mpi", "other"), [(OMPI, MPICH), (MPICH, OMPI), (ABI, MPICH)], ids=["ompi", "mpich", "abi"]
)
@pytest.mark.parametrize("tool", ["reorder", "gm"])
def test_the_wrong_flavour_is_refused(mpi: Mpi, other: Mpi, tool: str, tmp_path: Path) -> None:
    result = launch(
        mpi,
        2,
        [mpi.build("traffic.c"), "point"],
        tmp_path,
        tools=(),
        preload_first=str(other.library(tool)),
        seconds=60,
    )
    assert result.code not in (0, None, 139)
    assert f"preload libhopbyte_{tool}_{mpi.flavour}.so instead" in result.out + result.err


@three
def test_sanitizers_find_nothing(mpi: Mpi, tmp_path: Path) -> None:
    preload, settings = mpi.sanitized("reorder")
    (tmp_path / "placement.csv").write_text(
        "rank,node,slot\n" + "".join(f"{r},node{r % 4},{r}\n" for r in range(12))
    )
    cases: list[tuple[dict[str, str], list[str]]] = [
        (
            {"HOPBYTE_REORDER_MAP": "placement.csv", "HOPBYTE_REORDER_RANKS_PER_NODE": "3"},
            ["cart", "3", "2", "2p"],
        ),
        (
            {
                "MPICH_RANK_REORDER_METHOD": "4",
                "MPICH_RANK_REORDER_OPTS": "--dims=4,3 --nearest",
                "HOPBYTE_REORDER_RANKS_PER_NODE": "5",
            },
            ["graphw", "4", "3"],
        ),
        ({"MPICH_RANK_REORDER_METHOD": "2", "HOPBYTE_REORDER_RANKS_PER_NODE": "5"}, ["cart", "2", "5"]),
    ]
    for environment, arguments in cases:
        result = launch(
            mpi,
            12,
            [mpi.build("order.c"), *arguments],
            tmp_path,
            tools=(),
            preload_first=preload,
            environment=environment | settings,
        ).ok()
        assert "Sanitizer" not in result.err and "runtime error" not in result.err


# A machine of 8 x 1 nodes in a ring, named by the emulation, in an order that the launcher does not follow.
RING = "dims 8\n" + "".join(f"node node{k} {at}\n" for k, at in enumerate([0, 4, 2, 6, 1, 5, 3, 7]))


def link_loads(ranks: int, dims: tuple[int, int], role_at: list[int], place: dict[int, int], ring: int) -> tuple[int, int]:
    """Messages times links, and the most at a directed link, of a grid's neighbour messages: a model of its own."""
    loads: dict[tuple[int, int], int] = {}
    where = {role: place[launched] for launched, role in enumerate(role_at)}
    for r in range(ranks):
        x, y = divmod(r, dims[1])
        for u, v in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            if not (0 <= u < dims[0] and 0 <= v < dims[1]):
                continue
            at, to = where[r], where[u * dims[1] + v]
            up = (to - at) % ring
            step = 1 if up <= ring - up else -1
            while at != to:
                loads[at, step] = loads.get((at, step), 0) + 1
                at = (at + step) % ring
    return sum(loads.values()), max(loads.values(), default=0)


@pytest.mark.parametrize("mpi", [*ALL, MPICH4, OMPI5], ids=lambda m: m.name)
def test_method_4_places_blocks_in_the_network(mpi: Mpi, tmp_path: Path) -> None:
    """With the nodes' coordinates, blocks of the grid that talk are neighbours in the network."""
    (tmp_path / "coords").write_text(RING)
    options = {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--ndims=2 --dims=8,2 --nearest"}
    result = run_order(mpi, 16, tmp_path, per_node=2, HOPBYTE_COORDS_FILE="coords", **options)
    said = re.search(r"in the network of coords: messages times links (\d+) -> (\d+), at the busiest link (\d+) -> (\d+)", result.err)
    assert said, result.err
    launched = launched_by_rank(result)
    role = [launched.index(r) for r in range(16)]
    place = {r: int(RING.splitlines()[1 + r // 2].split()[2]) for r in range(16)}
    before = link_loads(16, (8, 2), list(range(16)), place, 8)
    after = link_loads(16, (8, 2), role, place, 8)
    assert (int(said[1]), int(said[3])) == before
    assert (int(said[2]), int(said[4])) == after
    # A chain of eight blocks on a ring of eight: 2 messages each way between neighbours.
    assert after == (28, 2)
    assert before[0] > 2 * after[0]


def test_method_4_keeps_an_order_that_is_best(tmp_path: Path) -> None:
    """Nodes in the order of the ring: the network gives no reason to move a rank."""
    (tmp_path / "coords").write_text("dims 4\n" + "".join(f"node node{k} {k}\n" for k in range(4)))
    options = {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=8 --nearest"}
    result = run_order(OMPI, 8, tmp_path, per_node=2, HOPBYTE_COORDS_FILE="coords", **options)
    assert launched_by_rank(result) == list(range(8))
    assert "messages times links 6 -> 6, at the busiest link 1 -> 1" in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dims 4\nnode node0 0\n", "method 4: coords has no line for node node1 of this job; expected `node HOST X Y Z`"),
        ("dims 4\nnode node0 4\n", "method 4: coords:2: found '4', expected a whole number in 0..3"),
        (None, "method 4: cannot open coords: No such file or directory"),
    ],
)
def test_coordinates_that_cannot_be_used_are_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "coords").write_text(text)
    options = {"MPICH_RANK_REORDER_METHOD": "4", "MPICH_RANK_REORDER_OPTS": "--dims=8", "HOPBYTE_COORDS_FILE": "coords"}
    result = run_order(OMPI, 8, tmp_path, per_node=2, **options)
    assert result.code == 2
    assert message in result.err
    kept = run_order(OMPI, 8, tmp_path, per_node=2, HOPBYTE_REORDER_OPTIONAL="1", **options)
    assert launched_by_rank(kept) == list(range(8))
