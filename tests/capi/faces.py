"""libhopbyte and the command answer one question alike: the same placements and costs, with defaults and without.

usage: faces.py LIBRARY COMMAND
"""

from __future__ import annotations

import csv
import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY, COMMAND = ctypes.CDLL(sys.argv[1]), sys.argv[2]
OBJECTIVES = ["worst-link", "worst-network-link", "hop-bytes"]
MACHINES = ["torus:4x4x4", "gemini:4x4x4", "fattree:k=8,levels=2", "aries:2x3x16"]
METRICS = ["hops", "inverse-bandwidth", "used", "input-stall", "credit-stall", "bytes", "packets", "errors"]
AGGREGATES = ["max", "sum", "mean"]
OVERS = ["request", "response", "both"]
KEEPS = ["nothing", "hosts"]
TASKS, NODES, TRIALS = 24, 12, 3000


class Options(ctypes.Structure):
    """`hopbyte_map_options`."""

    _fields_ = [
        ("objective", ctypes.c_int),
        ("seconds", ctypes.c_double),
        ("trials", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("threads", ctypes.c_int),
        ("keep", ctypes.c_int),
    ]


class Worth(ctypes.Structure):
    """`hopbyte_map_worth`."""

    _fields_ = [(name, ctypes.c_double) for name in ("before", "after", "bound", "before_hop_bytes", "after_hop_bytes")]
    _fields_ += [("moved", ctypes.c_size_t), ("version", ctypes.c_uint64)]


for name in ("machine_open", "oracle_connect", "traffic_create", "mapping_create"):
    getattr(LIBRARY, f"hopbyte_{name}").restype = ctypes.c_void_p
LIBRARY.hopbyte_machine_node_name.restype = ctypes.c_char_p
LIBRARY.hopbyte_error_text.restype = ctypes.c_char_p


def words(values: list[int]) -> ctypes.Array[ctypes.c_uint32]:
    """An array of 32-bit numbers."""
    return (ctypes.c_uint32 * len(values))(*values)


def needed(value: object) -> object:
    """A handle, or the library's error."""
    assert value, LIBRARY.hopbyte_error_text().decode()
    return value


def ring() -> list[tuple[int, int, int]]:
    """Messages of a ring with a few long ways, one a pair."""
    near = [(i, (i * 7 + 7) % TASKS, 60_000) for i in range(TASKS)]
    far = [(i, (i * 5 + 3) % TASKS, 900 + i) for i in range(TASKS)]
    pairs = {(a, b): size for a, b, size in near + far if a != b}
    return [(a, b, size) for (a, b), size in pairs.items()]


def by_library(
    machine: ctypes.c_void_p, objective: int, keep: int, current: list[int] | None
) -> tuple[list[int], Worth]:
    """Node of every task, and the costs."""
    messages = ring()
    traffic = ctypes.c_void_p(needed(LIBRARY.hopbyte_traffic_create(TASKS)))
    columns = [words([m[i] for m in messages]) for i in (0, 1)]
    sizes = (ctypes.c_double * len(messages))(*(m[2] for m in messages))
    assert LIBRARY.hopbyte_traffic_add(traffic, len(messages), *columns, sizes) == 0
    options = Options(objective, 2.0, TRIALS, 1, 0, keep)
    mapping = ctypes.c_void_p(
        needed(
            LIBRARY.hopbyte_mapping_create(
                machine, None, traffic, NODES, words(list(range(NODES))), words([2] * NODES),
                words(current) if current else None, ctypes.byref(options),
            )
        )
    )  # fmt: skip
    nodes, worth = words([0] * TASKS), Worth()
    assert LIBRARY.hopbyte_mapping_places(mapping, nodes, None) == 0
    assert LIBRARY.hopbyte_mapping_worth(mapping, ctypes.byref(worth)) == 0
    LIBRARY.hopbyte_mapping_free(mapping)
    LIBRARY.hopbyte_traffic_free(traffic)
    return list(nodes), worth


def asked(*arguments: str) -> dict:
    """The command's answer."""
    done = subprocess.run([COMMAND, "--quiet", "--json", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout.splitlines()[0])


def compare_mapping(fabric: str, names: list[str], machine: ctypes.c_void_p, folder: Path) -> None:
    """Every objective, tasks kept together, with and without a current placement."""
    with (folder / "traffic.csv").open("w") as file:
        csv.writer(file).writerows([("src", "dst", "bytes", "messages"), *((*m, 1) for m in ring())])
    backward = [NODES - 1 - rank // 2 for rank in range(TASKS)]
    with (folder / "current.csv").open("w") as file:
        rows = [(rank, names[node], rank % 2) for rank, node in enumerate(backward)]
        csv.writer(file).writerows([("rank", "node", "slot"), *rows])
    for (i, objective), (k, keep), current in itertools.product(
        enumerate(OBJECTIVES), enumerate(KEEPS), (None, backward)
    ):
        places, worth = by_library(machine, i, k, current)
        options = ["--objective", objective, "--keep", keep, "--trials", str(TRIALS), "--ranks-per-node", "2"]
        options += ["--current", str(folder / "current.csv")] if current else []
        answer = asked("map", str(folder / "traffic.csv"), "--fabric", fabric, "--nodes", ",".join(names), *options)
        label = f"{fabric} {objective} {keep} {'current' if current else 'in order'}"
        assert [names[node] for node in places] == answer["placement"], label
        was = answer.get("current") or answer["baseline"]
        for key, before, after in [
            ("worst_link_seconds", worth.before, worth.after),
            ("hop_bytes", worth.before_hop_bytes, worth.after_hop_bytes),
        ]:
            assert (was[key], answer["result"][key]) == (before, after), f"{label} {key}"
        assert answer["bound"]["worst_link_seconds"] == worth.bound, label


def compare_costs(fabric: str, names: list[str], machine: ctypes.c_void_p) -> None:
    """Metrics that need no counters, every aggregate, every route."""
    oracle = ctypes.c_void_p(needed(LIBRARY.hopbyte_oracle_connect(machine, None)))
    for metric, (a, aggregate), (o, over) in itertools.product((0, 1), enumerate(AGGREGATES), enumerate(OVERS)):
        cost = ctypes.c_float()
        ends = words([1]), words([NODES - 2])
        assert LIBRARY.hopbyte_oracle_costs(oracle, metric, a, o, 1, *ends, ctypes.byref(cost)) == 0
        question = ["--metric", METRICS[metric], "--aggregate", aggregate, "--over", over]
        answer = asked("oracle", "query", "--fabric", fabric, names[1], names[NODES - 2], *question)
        assert ctypes.c_float(answer["cost"]).value == cost.value, (fabric, question, answer, cost.value)
    LIBRARY.hopbyte_oracle_close(oracle)


def main() -> None:
    """All machines."""
    for fabric in MACHINES:
        machine = ctypes.c_void_p(needed(LIBRARY.hopbyte_machine_open(fabric.encode(), None)))
        names = [LIBRARY.hopbyte_machine_node_name(machine, node).decode() for node in range(NODES)]
        with tempfile.TemporaryDirectory() as folder:
            compare_mapping(fabric, names, machine, Path(folder))
        compare_costs(fabric, names, machine)
        LIBRARY.hopbyte_machine_close(machine)
    mappings = len(OBJECTIVES) * len(KEEPS) * 2
    print(f"faces: {len(MACHINES)} machines, {mappings} mappings and {2 * 3 * 3} costs each, alike")


main()
