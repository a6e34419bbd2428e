#!/usr/bin/env python3
"""SharedMap (package chszlablib): sharedmap.py TRAFFIC.metis SIZES DISTANCES MODE OUT

SIZES and DISTANCES of the levels, lowest first, such as 4:8:16 and 1:10:100. OUT: a processing element a task.
"""

from __future__ import annotations

import sys
from pathlib import Path

Edges = dict[tuple[int, int], int]


def mapped(tasks: int, edges: Edges, sizes: list[int], distances: list[int], mode: str) -> list[int]:
    """The processing element of every task; `edges` by their lower end."""
    from chszlablib import Decomposition, Graph

    graph = Graph(tasks)
    for (a, b), weight in edges.items():
        graph.add_edge(a, b, weight=weight)
    graph.finalize()
    found = Decomposition.process_map(graph, sizes, distances, mode=mode, imbalance=0.0, seed=1)
    return [int(element) for element in found.assignment]


def read(path: Path) -> tuple[int, Edges]:
    """Number of tasks and edges of a METIS graph."""
    lines = path.read_text().splitlines()
    edges = {}
    for task, line in enumerate(lines[1:]):
        words = [int(w) for w in line.split()]
        edges |= {(task, to - 1): weight for to, weight in zip(words[::2], words[1::2], strict=True) if to - 1 > task}
    return int(lines[0].split()[0]), edges


def main() -> None:
    """Reads, maps, writes."""
    traffic, sizes, distances, mode, out = sys.argv[1:]
    levels = [[int(w) for w in text.split(":")] for text in (sizes, distances)]
    Path(out).write_text("".join(f"{e}\n" for e in mapped(*read(Path(traffic)), *levels, mode)))


if __name__ == "__main__":
    main()
