#!/usr/bin/env python3
"""Mt-KaHyPar's map_onto_graph (package mtkahypar): mtkahypar_map.py TRAFFIC.grf HOPS OUT

The target is the complete graph of the hosts, weight 1 + 2 x hops. OUT: a host index a task.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mtkahypar


def main() -> None:
    """Reads, maps, writes."""
    traffic, hops, out = sys.argv[1], sys.argv[2], sys.argv[3]
    rows = [[int(w) for w in line.split()] for line in Path(traffic).read_text().splitlines()[3:]]
    edges, weights = [], []
    for task, row in enumerate(rows):
        for weight, to in zip(row[1::2], row[2::2], strict=True):
            if to > task:
                edges.append((task, to))
                weights.append(weight)
    far = [[int(w) for w in line.split()] for line in Path(hops).read_text().splitlines()]
    pairs = [(a, b) for a in range(len(far)) for b in range(a + 1, len(far))]
    start = mtkahypar.initialize(1)
    mtkahypar.set_seed(1)
    context = start.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    context.set_mapping_parameters(len(far), 0.03)
    graph = start.create_graph(context, len(rows), len(edges), edges, [1] * len(rows), weights)
    costs = [1 + 2 * far[a][b] for a, b in pairs]
    target = start.create_target_graph(context, len(far), len(pairs), pairs, costs)
    parts = graph.map_onto_graph(target, context)
    Path(out).write_text("".join(f"{parts.block_id(v)}\n" for v in range(len(rows))))


if __name__ == "__main__":
    main()
