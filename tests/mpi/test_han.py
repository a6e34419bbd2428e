"""Collectives of Open MPI 5 with several ranks on each of several hosts (`coll/han`): bytes by pair, against its own
monitoring. Hosts are daemons under other names, each in a UTS namespace, on this machine; needs root."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness import MONITORING, OMPI5, expand, launch, read_monitoring

KINDS = ["bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "allgatherv", "alltoall"]
# Doubles: 8 B, 8 kB, and two whole segments and a part.
SIZES = [1, 1000, 20_000]
# Hosts, and ranks of each. The root of `traffic.c` is on the first host or on the second.
SHAPES = [(2, 3), (3, 3), (4, 4), (5, 2)]
# Small ones of allgatherv are gathered and broadcast by another way, and said to be assumed.
CASES: list[tuple[str, int, tuple[int, ...]]] = [
    (k, size, shape) for k in KINDS for size in SIZES for shape in SHAPES if (k, size) != ("allgatherv", 1)
]
# Hosts by rank, where those of a host do not follow each other.
ORDERS = [(0, 1, 2, 0, 1, 2), (0, 1, 1, 0, 2, 2), (2, 1, 0, 0, 1, 2, 2, 1, 0)]
CASES += [(k, size, order) for k in KINDS[:6] for size in SIZES[1:] for order in ORDERS]
# Hosts with different numbers of ranks: all but allreduce go elsewhere, after some messages of 8 to 12 bytes in every call.
UNEVEN = [(0, 0, 0, 1, 1), (1, 0, 0, 1, 1), (0, 0, 0, 0, 1, 1, 1, 1, 2), (0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 4)]
CASES += [(k, size, order) for k in KINDS[:6] for size in SIZES[1:] for order in UNEVEN]
TOLERANCE = 0.02
AGENT = """#!/bin/sh
host=$1; shift
mkdir -p "$0.$host"
export TMPDIR="$0.$host"
exec unshare --uts sh -c "hostname $host; $*"
"""


def bytes_and_messages(case: tuple[str, int, tuple[int, ...]], calls: int, folder: Path) -> tuple[Counter, Counter]:
    """By pair and 0 (bytes) or 1 (messages): the library's, and the record's."""
    kind, size, shape = case
    order = list(shape) if len(shape) > 2 else [host for host in range(shape[0]) for _ in range(shape[1])]
    hosts, ranks = max(order) + 1, len(order)
    folder.mkdir()
    file = folder / "ranks"
    places = [order[:rank].count(host) for rank, host in enumerate(order)]
    file.write_text("".join(f"rank {r}=host{h} slot={p}\n" for r, (h, p) in enumerate(zip(order, places, strict=True))))
    agent = folder / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    names = ",".join(f"host{i}:{order.count(i)}" for i in range(hosts))
    options = [*MONITORING[:-1], str(folder / "m"), "--host", names, "--bind-to", "none"]
    options += ["--map-by", f"rankfile:file={file}"]
    options += ["--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    # Segments of shared memory are named after the machine.
    options += ["--mca", "btl", "tcp,self"]
    program = [OMPI5.build("traffic.c"), f"{kind}@{size}", str(calls)]
    launch(OMPI5, ranks, program, folder, options=options).ok()
    theirs: Counter = Counter()
    for letter in ("I", "E"):
        for pair, counts in read_monitoring(folder, ranks, letter).items():
            for which in (0, 1):
                theirs[pair, which] += counts[which]
    ours: Counter = Counter()
    for phase, matrix in expand(f"{folder}/hopbyte-record").items():
        if phase.endswith(" collectives"):
            for pair, counts in matrix.items():
                for which in (0, 1):
                    ours[pair, which] += counts[which]
    return theirs, ours


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{'x'.join(map(str, c[2]))}")
def test_bytes_by_pair(case: tuple[str, int, tuple[int, ...]], tmp_path: Path) -> None:
    # The first call makes groups of the hosts' ranks.
    first, more = (bytes_and_messages(case, calls, tmp_path / f"{calls}") for calls in (1, 3))
    wrong, total = [0, 0], [1, 1]
    for key in {*more[0], *more[1]}:
        theirs, ours = (more[i][key] - first[i][key] for i in (0, 1))
        wrong[key[1]] += abs(theirs - ours)
        total[key[1]] += theirs
    print(f"{case}: {wrong} of {total} bytes and messages")
    assert total[0] > 2
    assert wrong[0] <= TOLERANCE * total[0]
    if case[2] not in UNEVEN or case[0] == "allreduce":
        assert wrong[1] <= TOLERANCE * total[1]
