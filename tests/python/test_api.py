"""The Python package against independent computations, real captures and bad input."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TORUS, shared
from numpy.typing import NDArray

import hopbyte


def test_machines_have_the_published_counts() -> None:
    cielo = hopbyte.load_fabric("gemini:16x12x24")
    assert (len(cielo.routers), len(cielo.nodes), cielo.shape) == (4608, 9216, [16, 12, 24])
    table = hopbyte.links(cielo)
    assert len(table) == cielo.link_count
    assert int(table.hop.sum()) == 6 * 4608
    # Paper 000 Table II: X 9.375, Y 9.375 and 4.6875, Z 15.0 and 9.375 GB/s.
    for letter, speeds in [(0, {9.375}), (1, {9.375, 4.6875}), (2, {15.0, 9.375})]:
        of_dimension = table.hop & (table.direction // 2 == letter)
        assert set(table.capacity_bytes_per_s[of_dimension] / 1e9) == speeds


@pytest.mark.parametrize(
    "column",
    ["capacity_bytes_per_s", "from_router", "direction", "hop", "used_ratio", "coverage"],
)
def test_columns_are_views_that_cannot_be_written(torus: hopbyte.Machine, column: str) -> None:
    table = hopbyte.links(torus)
    array: NDArray[np.generic] = getattr(table, column)
    again: NDArray[np.generic] = getattr(table, column)
    assert not array.flags.owndata
    assert id(array.base) == id(table)
    assert array.ctypes.data == again.ctypes.data, "each access made a copy"
    with pytest.raises(ValueError, match="read-only"):
        array[0] = array[1]
    # The view keeps its owner alive.
    copy = array.copy()
    del table, again
    assert np.array_equal(array, copy, equal_nan=array.dtype.kind == "f")


def test_matrices_are_views_too(torus: hopbyte.Machine) -> None:
    costs = hopbyte.route_costs(torus, torus.nodes[:10])
    assert costs.matrix.base is not None
    assert not costs.matrix.flags.owndata
    assert costs.matrix.ctypes.data == costs.matrix.ctypes.data


def test_hops_agree_with_the_routes(torus: hopbyte.Machine) -> None:
    nodes = torus.nodes[::13]
    costs = hopbyte.route_costs(torus, nodes)
    hop = hopbyte.links(torus).hop
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes):
            route = torus.route(a, b)
            assert costs.matrix[i, j] == sum(hop[link] for link in route)
    assert costs.names == nodes
    assert (costs.metric, costs.aggregate, costs.over) == ("hops", "sum", "request")


def test_hops_on_a_torus_are_the_distance() -> None:
    dims = (4, 3, 5)
    machine = hopbyte.load_fabric("torus:4x3x5")
    matrix = hopbyte.route_costs(machine).matrix
    coords = np.array([machine.coordinates(r) for r in range(len(machine.routers))])
    ahead = np.abs(coords[:, None, :] - coords[None, :, :])
    distance = np.minimum(ahead, np.array(dims) - ahead).sum(axis=2)
    assert np.array_equal(matrix, distance)


def test_real_counters_find_their_links() -> None:
    counters = shared("bgp-torus/bgpc_links.yaml.gz")
    machine = hopbyte.load_fabric("torus:8x8x8:link=0.425")
    table = hopbyte.links(machine, counters)
    known = ~np.isnan(table.packets)
    assert int(known.sum()) == 512 * 6
    assert np.array_equal(known, table.hop)
    assert np.isnan(table.used_ratio).all(), "a share without a window was made up"
    assert set(table.columns()) >= {"link", "packets", "coverage"}
    assert "used_ratio" not in table.columns()


def test_edison_is_read_whole() -> None:
    machine = hopbyte.load_fabric(
        shared("cray/edison.interconnect.txt.zst"),
        system_map=shared("cray/edison.system-map.txt.zst"),
    )
    assert (machine.family, len(machine.routers), len(machine.nodes)) == ("aries", 1440, 5760)
    table = hopbyte.links(machine, shared("aries-counters/edison.21.net_counters.csv.zst"))
    assert int((table.coverage > 0).sum()) == 3047
    assert float(np.nanmax(table.received_bytes)) > 1e10


def recount(
    machine: hopbyte.Machine, traffic: hopbyte.Traffic, placement: hopbyte.Placement
) -> tuple[NDArray[np.float64], float]:
    """Bytes on every link, as InfiniBand's packets and acknowledgements, and hop-bytes, by walking every route."""
    table = hopbyte.links(machine)
    names, loads, hop_bytes = machine.nodes, np.zeros(machine.link_count), 0.0
    entries = zip(traffic.from_rank, traffic.to_rank, traffic.bytes, traffic.messages, strict=True)
    for from_rank, to_rank, count, messages in entries:
        a, b = placement.node[from_rank], placement.node[to_rank]
        route = machine.route(names[a], names[b])
        if a != b:
            size = count / messages
            packets = max(1, np.ceil(size / 4096))
            loads[route] += messages * (4 * np.ceil(size / 4) + 24 * packets)
            loads[machine.route(names[b], names[a])] += messages * 28
        hop_bytes += count * sum(table.hop[link] for link in route)
    return loads, hop_bytes


def test_a_mapping_is_worth_what_it_says(
    torus: hopbyte.Machine, lammps: hopbyte.Traffic, mapping: hopbyte.Mapping
) -> None:
    # The host links are the bottleneck for any placement; ties are broken by hop-bytes.
    assert mapping.improved
    assert mapping.result.worst_link_seconds <= mapping.baseline.worst_link_seconds
    assert mapping.result.hop_bytes < mapping.baseline.hop_bytes
    capacity = hopbyte.links(torus).capacity_bytes_per_s
    for placement, cost in [
        (mapping.before, mapping.baseline),
        (mapping.placement, mapping.result),
    ]:
        loads, hop_bytes = recount(torus, lammps, placement)
        np.testing.assert_allclose(cost.link_bytes, loads, rtol=1e-6)
        np.testing.assert_allclose(cost.link_seconds, loads / capacity, rtol=1e-6)
        assert cost.worst_link_seconds == pytest.approx((loads / capacity).max(), rel=1e-6)
        assert cost.hop_bytes == pytest.approx(hop_bytes, rel=1e-6)
    assert len(mapping.placement) == 64
    assert np.unique(mapping.placement.node, return_counts=True)[1].tolist() == [8] * 8
    certificate = json.loads(mapping.certificate_json())
    assert json.loads(mapping.document())["wire"]["network"] == "infiniband"
    assert certificate["result"]["hop_bytes"] == mapping.result.hop_bytes
    assert certificate["bound"]["worst_link_seconds"] <= mapping.result.worst_link_seconds


METRICS = ["hops", "inverse-bandwidth", "used", "input-stall", "credit-stall", "bytes", "packets", "errors"]
AGGREGATES = ["max", "sum", "mean"]
# Every objective; route-cost with every metric and aggregate, and without; networks and effort.
QUESTIONS: list[dict[str, object]] = [
    {"objective": objective} for objective in ["worst-link", "worst-network-link", "hop-bytes", "route-cost"]
]
QUESTIONS += [
    {"objective": "route-cost", "metric": metric, "aggregate": aggregate}
    for metric in METRICS
    for aggregate in [None, *AGGREGATES]
]
QUESTIONS += [{"wire": network} for network in ["payload", "gemini", "infiniband"]]
QUESTIONS += [{"response_fraction": 0.25}, {"seed": 7}, {"ranks_per_node": 4}]


def test_the_questions_have_every_metric_and_aggregate() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "hopbyte", "map", "--help"], check=True, capture_output=True, text=True
    ).stdout
    for option, names in [("metric", METRICS), ("aggregate", AGGREGATES)]:
        listed = help_text.split(f"--{option} <")[1].split("\n      --")[0]
        assert re.findall(r"^ +- ([\w-]+):", listed, re.M) == names


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: " ".join(map(str, q.values())))
def test_python_and_the_command_have_the_same_defaults(question: dict[str, object], tmp_path: Path) -> None:
    """One question asked in both ways has one answer, down to the mapping document."""
    counters = tmp_path / "links.jsonl"
    values: dict[str, object] = {"used_ratio": 0.6, "input_stall_ratio": 0.3, "credit_stall_ratio": 0.2}
    values |= {"received_bytes": 5e9, "packets": 1e6, "errors": 3.0}
    lines: list[dict[str, object]] = [{"link": name, **values} for name in ["r0-0-0 X+", "r1-2-0 Z-"]]
    lines.append({"summary": {}})
    text = "".join(json.dumps({"schema": "hopbyte.link/1", **line}) + "\n" for line in lines)
    counters.write_text(text)
    nodes = "n[0-1]-[0-3]-[0-3]"
    words = ["map", "stencil:4x4x4:7", "--fabric", "torus:4x4x4", "--nodes", nodes, "--background", str(counters)]
    for name, value in question.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words += ["--trials", "2000", "--json", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "hopbyte", *words], check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    machine = hopbyte.load_fabric("torus:4x4x4")
    traffic = hopbyte.load_traffic("stencil:4x4x4:7")
    background = hopbyte.links(machine, counters)
    mapping = hopbyte.map(traffic, machine, nodes, background=background, trials=2000, **question)  # type: ignore[arg-type]
    document = json.loads(mapping.document())
    for times in ["wall_seconds", "cpu_seconds"]:
        del told[times], document[times]
    assert document == told


def test_the_same_seed_gives_the_same_placement(
    torus: hopbyte.Machine, lammps: hopbyte.Traffic, mapping: hopbyte.Mapping
) -> None:
    nodes = torus.nodes[:: len(torus.nodes) // 8][:8]
    again = hopbyte.map(lammps, torus, nodes, ranks_per_node=8, trials=20_000, threads=1)
    assert again.placement == mapping.placement
    assert again.placement != mapping.before


def test_the_real_job_of_plafrim_is_improved() -> None:
    folder = shared("infiniband/plafrim2")
    machine = hopbyte.load_fabric(folder / "ib-subnet-fe80_0000_0000_0000.txt")
    traffic = hopbyte.load_traffic(str(folder / "app.mat"))
    ran = hopbyte.load_placement(folder / "resources.txt", machine)
    assert len(ran) == traffic.tasks == 64
    found = hopbyte.map(traffic, machine, "miriel[063-064]:24,miriel065:16", current=ran, trials=50_000)
    assert found.before == ran
    assert found.result.worst_link_seconds < found.baseline.worst_link_seconds
    assert found.result.hop_bytes < found.baseline.hop_bytes


def test_route_costs_can_be_the_objective(torus: hopbyte.Machine, lammps: hopbyte.Traffic) -> None:
    nodes = torus.nodes[::15]
    found = hopbyte.map(lammps, torus, nodes, ranks_per_node=8, objective="route-cost", metric="hops", trials=5_000)
    assert found.result.hop_bytes <= found.baseline.hop_bytes


def test_placements_speak_to_launchers(mapping: hopbyte.Mapping, tmp_path: Path) -> None:
    placement = mapping.placement
    assert placement[0] == (placement.node_names[0], int(placement.slot[0]))
    assert placement[-1][0] == placement.node_names[63]
    with pytest.raises(IndexError):
        placement[64]
    rankfile = tmp_path / "rankfile"
    placement.write("openmpi-rankfile", rankfile)
    lines = rankfile.read_text().splitlines()
    assert sum(line.startswith("rank ") for line in lines) == 64
    assert placement.render("csv").splitlines()[0] == "rank,node,slot"
    assert placement.moved(mapping.before) == sum(
        a != b for a, b in zip(placement.node_names, mapping.before.node_names, strict=True)
    )


def test_arguments_without_use_are_refused(torus: hopbyte.Machine) -> None:
    nodes = torus.nodes[:2]
    for words in ({"tasks": 5}, {"ranks_per_node": 3}):
        with pytest.raises(hopbyte.HopbyteError, match=f"found {next(iter(words))}="):
            hopbyte.place(torus, nodes, **words)  # type: ignore[arg-type]
    small = hopbyte.load_fabric("torus:4x4")
    for name, value in (("token", "missing"), ("tls_ca", "missing"), ("at", 5.0)):
        with pytest.raises((hopbyte.HopbyteError, FileNotFoundError)):
            hopbyte.links(small, Path(__file__).parents[2] / "data/links.jsonl", **{name: value})  # type: ignore[arg-type]


def test_placements_by_hand(torus: hopbyte.Machine, lammps: hopbyte.Traffic) -> None:
    nodes = torus.nodes[:16]
    in_order = hopbyte.place(torus, nodes, tasks=64, ranks_per_node=4, how="in-order")
    cyclic = hopbyte.place(torus, nodes, tasks=64, ranks_per_node=4, how="round-robin")
    by_hand = hopbyte.place(torus, [nodes[r // 4] for r in range(64)])
    assert in_order.node.tolist() == by_hand.node.tolist()
    assert cyclic.node_names[:16] == nodes
    cost = hopbyte.evaluate(lammps, cyclic, torus)
    loads, _ = recount(torus, lammps, cyclic)
    np.testing.assert_allclose(cost.link_bytes, loads, rtol=1e-6)


def test_traffic_from_arrays() -> None:
    matrix = np.array([[5.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    traffic = hopbyte.Traffic.of_matrix(matrix)
    assert (traffic.tasks, len(traffic), traffic.total_bytes) == (3, 2, 3.0)
    ends = np.array([0, 1, 0]), np.array([1, 2, 1])
    pairs = hopbyte.Traffic.of_pairs(*ends, np.array([0.5, 2.0, 0.5]))
    assert pairs.bytes.tolist() == [1.0, 2.0]
    assert not pairs.bytes.flags.owndata


def test_traffic_from_lists_and_other_numbers() -> None:
    rows = [[0, 1], [3, 0]]
    expected = hopbyte.Traffic.of_matrix(np.array(rows, dtype=np.float64)).bytes.tolist()
    for matrix in (rows, np.array(rows), np.array(rows, dtype=np.float32)):
        assert hopbyte.Traffic.of_matrix(matrix).bytes.tolist() == expected
    pairs = hopbyte.Traffic.of_pairs([0, 1], np.array([1, 0], dtype=np.uint8), [1, 3])
    assert pairs.bytes.tolist() == expected
    with pytest.raises(ValueError, match=r"no rank can be 0\.5"):
        hopbyte.Traffic.of_pairs([0.5], [1], [1.0])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hopbyte.load_fabric("gemini:1x2"), "expected"),
        (lambda: hopbyte.load_traffic("stencil:0"), "expected"),
        (lambda: hopbyte.Traffic.of_matrix(np.zeros((2, 3))), "square"),
        (lambda: hopbyte.Traffic.of_matrix([[0, 1], [2]]), "expected rows of equal length"),
        (lambda: hopbyte.Traffic.of_matrix([0, 1]), "found <class 'list'>"),
        (lambda: hopbyte.Traffic.of_matrix(np.array([[0.0, -1.0], [0.0, 0.0]])), "-1"),
        (lambda: hopbyte.Traffic.of_pairs(np.array([-1]), np.array([0]), np.array([1.0])), "-1"),
        (lambda: hopbyte.route_costs(hopbyte.load_fabric("torus:4"), ["nobody"]), "nobody"),
        (lambda: hopbyte.route_costs(hopbyte.load_fabric("torus:4"), metric="used"), "counters"),
    ],
)
def test_bad_input_says_what_is_wrong(call: object, text: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=text):
        call()


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing that anybody knows\n")
    with pytest.raises(hopbyte.HopbyteError) as caught:
        hopbyte.load_fabric(bad)
    assert caught.value.file == str(bad)
    assert caught.value.expected
    with pytest.raises(FileNotFoundError):
        hopbyte.load_fabric(tmp_path / "missing.txt")
    with pytest.raises(FileNotFoundError):
        hopbyte.load_traffic(str(tmp_path / "missing.mat"))


def test_parts_of_different_machines_do_not_mix(torus: hopbyte.Machine, lammps: hopbyte.Traffic) -> None:
    other = hopbyte.load_fabric(TORUS)
    placement = hopbyte.place(other, other.nodes[:64])
    with pytest.raises(hopbyte.HopbyteError, match="machine"):
        hopbyte.evaluate(lammps, placement, torus)


def test_reports_and_pictures(mapping: hopbyte.Mapping, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    page = mapping.report(path)
    assert path.read_text() == page
    assert "Moving" in page
    svg = mapping.machine.svg(mapping.result.link_seconds, name="link time", unit="s")
    assert svg.startswith("<svg")
    assert mapping.result.worst_link is not None
    assert mapping.result.worst_link in svg
    with pytest.raises(ValueError, match="one per link"):
        mapping.machine.svg(np.zeros(3))


@pytest.mark.parametrize("seconds", [0.05, 0.4, 1.5])
def test_an_interrupt_ends_a_search(seconds: float) -> None:
    machine = hopbyte.load_fabric("torus:16x16x16")
    traffic = hopbyte.load_traffic("stencil:16x16x16:27")
    # Background shells, as in CI, make their children ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hopbyte.map(traffic, machine, seconds=100.0)
    assert time.monotonic() - begin < seconds + 10.0
    timer.join()
    signal.signal(signal.SIGINT, before)
    # The next search is not interrupted.
    small = hopbyte.load_traffic("stencil:4x4x4:7")
    document = json.loads(hopbyte.map(small, machine, trials=100).document())
    assert not document["interrupted"]


@pytest.mark.parametrize("argument", ["trials", "seed", "threads", "ranks_per_node"])
@pytest.mark.parametrize("number", [-1, 2**70])
def test_a_number_that_does_not_fit_names_its_argument(argument: str, number: int) -> None:
    machine = hopbyte.load_fabric("torus:2x2")
    traffic = hopbyte.load_traffic("stencil:2x2:5")
    with pytest.raises(hopbyte.HopbyteError, match=f"^{argument}: found {number}, expected a whole number") as caught:
        hopbyte.map(traffic, machine, "all", **{argument: number})  # type: ignore[arg-type]
    assert caught.value.id == "HB0002" and caught.value.file == argument


def test_traffic_of_too_many_ranks_is_refused() -> None:
    cases: list[tuple[Any, ...]] = [([0], [4e9], [1]), ([], [], [], 2**60)]
    for pairs in cases:
        with pytest.raises(hopbyte.HopbyteError, match="at most 16777216"):
            hopbyte.Traffic.of_pairs(*pairs)


def test_placements_are_sequences() -> None:
    machine = hopbyte.load_fabric("torus:2x2")
    placement = hopbyte.place(machine, machine.nodes)
    assert list(placement) == [placement[rank] for rank in range(4)]
    with pytest.raises(hopbyte.HopbyteError, match="3 ranks, expected 4"):
        placement.moved(hopbyte.place(machine, machine.nodes[:3]))


def test_what_is_pickled_is_the_same_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = hopbyte.load_fabric("torus:4x4")
    pairs = hopbyte.Traffic.of_pairs([0, 1], [1, 2], [10.0, 20.0], tasks=16)
    (tmp_path / "ring.csv").write_text("src,dst,bytes\n0,1,5\n1,0,5\n")
    monkeypatch.chdir(tmp_path)
    placement = hopbyte.place(machine, "all", tasks=16, how="round-robin")
    values = (machine, placement, pairs, hopbyte.load_traffic("ring.csv"), hopbyte.links(machine))
    data = pickle.dumps(values)
    monkeypatch.chdir("/")
    again, placed, same, ring, links = pickle.loads(data)
    assert (again.source, again.link_count, len(links)) == (machine.source, machine.link_count, machine.link_count)
    assert placed.node_names == placement.node_names and list(placed.slot) == list(placement.slot)
    assert (same.source, same.tasks, list(same.bytes)) == ("pairs", 16, [10.0, 20.0])
    assert ring.total_bytes == 10
    # What belonged to one machine still does, in this process and in another one.
    expected = hopbyte.evaluate(pairs, placement, machine).hop_bytes
    assert hopbyte.evaluate(same, placed, again).hop_bytes == expected
    script = (
        "import hopbyte, pickle, sys; machine, placement, pairs, *_ = pickle.load(sys.stdin.buffer)\n"
        "print(hopbyte.evaluate(pairs, placement, machine).hop_bytes)"
    )
    other = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
    assert float(other.stdout) == expected


def test_options_inside_messages_are_arguments(tmp_path: Path) -> None:
    file = tmp_path / "metrics"
    file.write_text("timestamp 1\n")
    with pytest.raises(hopbyte.HopbyteError) as refused:
        hopbyte.links(hopbyte.load_fabric("gemini:2x2x2"), file)
    assert "its metrics: node=nid00064" in str(refused.value)
    assert refused.value.hint is not None and refused.value.hint.endswith("node=nid00064")
