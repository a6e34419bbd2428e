#!/usr/bin/env python3
"""Generates p5.graph and p5.coords: an irregular mesh cut into 1,024 parts, and the bytes that parts exchange.

usage: mesh.py OUTDIR      (needs numpy, scipy and METIS' gpmetis; `make build/mesh/p5.graph` provides them)

120,000 points, 60 % of them in 24 clusters, are joined by a Delaunay triangulation and cut by METIS
recursive bisection. A part sends each neighbour 8 bytes x 40 variables for every boundary vertex.
p5.graph has one line `part part bytes` per pair (the same each way), p5.coords one line per part, its centre.

Seeds are fixed. The SHA-256 sums of the problem that bench/results/ was measured on are below; exits with 1
if another version of Qhull or METIS cuts another mesh.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.spatial import Delaunay

PARTS = 1024
POINTS = 120_000
BYTES = 8 * 40
SHA256 = {
    "p5.graph": "d4c64af2bbde331ade30bbf42dc434e176bddf670d57e8c2af01ca0e05ed79d5",
    "p5.coords": "9afd7c5e2afad0088a95ef327ef75e74f760c911546886d22d0cd81cc0bd22a9",
}


def points() -> np.ndarray:
    """Clustered and uniform points, always the same."""
    random = np.random.RandomState(7)
    centres = random.rand(24, 3)
    spread = 0.02 + 0.1 * random.rand(24)
    cluster = random.randint(0, 24, POINTS)
    found = centres[cluster] + random.randn(POINTS, 3) * spread[cluster][:, None]
    uniform = random.rand(POINTS) < 0.4
    found[uniform] = random.rand(uniform.sum(), 3)
    return found


def directed_edges(where: np.ndarray) -> np.ndarray:
    """Every edge of the triangulation in both directions, sorted."""
    cells = Delaunay(where).simplices
    corners = [(a, b) for a in range(4) for b in range(4) if a != b]
    return np.unique(np.concatenate([cells[:, [a, b]] for a, b in corners]), axis=0)


def partition(edges: np.ndarray) -> np.ndarray:
    """Part of every vertex, from gpmetis."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mesh"
        starts = np.searchsorted(edges[:, 0], np.arange(POINTS + 1))
        with file.open("w") as out:
            out.write(f"{POINTS} {len(edges) // 2} 1\n")
            targets = (edges[:, 1] + 1).tolist()
            for vertex in range(POINTS):
                row = targets[starts[vertex] : starts[vertex + 1]]
                out.write(" ".join(f"{t} 1" for t in row) + "\n")
        command = ["gpmetis", "-ptype=rb", "-seed=1", str(file), str(PARTS)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return np.loadtxt(f"{file}.part.{PARTS}", dtype=np.int64)


def main() -> int:
    """Writes both files and compares them with the measured problem."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    where = points()
    edges = directed_edges(where)
    part = partition(edges)
    cut = edges[part[edges[:, 0]] != part[edges[:, 1]]]
    boundary = np.unique(np.stack([cut[:, 0], part[cut[:, 1]]], axis=1), axis=0)
    sent = np.zeros((PARTS, PARTS), np.int64)
    np.add.at(sent, (part[boundary[:, 0]], boundary[:, 1]), BYTES)
    both = (sent + sent.T) // 2
    size = np.maximum(np.bincount(part, minlength=PARTS), 1)
    centre = np.stack([np.bincount(part, where[:, d], PARTS) / size for d in range(3)], axis=1)
    np.savetxt(out / "p5.coords", centre, fmt="%.6g")
    # The graph is the target of the Makefile, so it comes last and whole.
    partial = out / "p5.graph.partial"
    with partial.open("w") as file:
        for a, b in zip(*np.nonzero(np.triu(both)), strict=True):
            file.write(f"{a} {b} {both[a, b]}\n")
    partial.rename(out / "p5.graph")
    other = [name for name, digest in SHA256.items() if hashlib.sha256((out / name).read_bytes()).hexdigest() != digest]
    for name in other:
        print(f"{out / name}: not the mesh of bench/results/: P5f and P5d cannot be compared with it", file=sys.stderr)
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
