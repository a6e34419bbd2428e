"""Orders of hosts and placements by other programs, run and not imitated, except Kueue's.

Their sources are no part of this repository: `--peers FOLDER` has `dlrover/python/…` (`net_topology.py` and what it imports) and
the cluster toolkit's `sort_nodes.py` (copies of the public files), SharedMap and Mt-KaHyPar come from
`pip install chszlablib mtkahypar`, Scotch from `apt-get install scotch`.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from problems import Problem

Pairs = list[tuple[int, int, float]]


def loaded(path: Path) -> ModuleType | None:
    """A module by its file; none if it is not there."""
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def dlrover(folder: Path, problem: Problem) -> list[str] | None:
    """The order of DLRover's sorter by access switches, of hosts that join in order of their names."""
    path = folder / "dlrover/python/master/elastic_training/net_topology.py"
    if str(folder) not in sys.path:
        # For the modules that it imports.
        sys.path.append(str(folder))
    net = loaded(path)
    if net is None or not problem.tree:
        return None
    nodes = {
        rank: net.NodeTopologyMeta(
            node_rank=rank, process_num=problem.gpus, node_ip=host, asw=problem.tree[host][-1],
        )
        for rank, host in enumerate(sorted(problem.hosts))
    }  # fmt: skip
    return [meta.node_ip for meta in net.DpTopologySorter().sort(nodes).values()]


def toolkit(folder: Path, problem: Problem) -> list[str] | None:
    """The order of the cluster toolkit's sort_nodes.py, of switches and domains in place of physical hosts."""
    sort = loaded(folder / "sort_nodes.py")
    if sort is None or not problem.tree:
        return None
    paths = []
    for host in sorted(problem.hosts):
        line = [*problem.tree[host], *([problem.domain[host]] if problem.domain else [])]
        place = "/" + "/".join(line + ["rack"] * (4 - len(line)))
        paths.append(sort.make_path(host, sort.Instance(host, "zone", place)))
    return sort.order(paths)


def kueue(problem: Problem) -> list[str] | None:
    """Imitated: the order in which Kueue assigns pod indices to hosts that all take part. It sorts the chosen hosts by the values
    of the topology's levels, then their names, as text (`buildAssignment` of its `tas_flavor_snapshot.go`)."""
    if not problem.tree:
        return None
    levels = lambda host: [*problem.tree[host], problem.domain.get(host, "")]
    return sorted(problem.hosts, key=lambda host: (levels(host), host))


def whole_bytes(pairs: Pairs) -> dict[tuple[int, int], int]:
    """Both directions of every pair together, in whole megabytes and at least one."""
    both: dict[tuple[int, int], float] = {}
    for a, b, size in pairs:
        key = (min(a, b), max(a, b))
        both[key] = both.get(key, 0.0) + size
    return {k: max(1, round(v / 1e6)) for k, v in both.items() if k[0] != k[1]}


def sharedmap(problem: Problem, pairs: Pairs) -> list[int] | None:
    """The host of every rank by SharedMap, with distance 1 on a host and 10 beyond."""
    shared = loaded(Path(__file__).parent.parent / "map" / "sharedmap.py")
    sizes = [problem.gpus, len(problem.hosts)]
    try:
        found = shared.mapped(problem.ranks(), whole_bytes(pairs), sizes, [1, 10], "strong")
    except ImportError:
        return None
    return seated([element // problem.gpus for element in found], problem)


def kahypar(problem: Problem, pairs: Pairs) -> list[int] | None:
    """The host of every rank by Mt-KaHyPar, with the least bytes between hosts."""
    try:
        import mtkahypar
    except ImportError:
        return None
    partitioner = mtkahypar.initialize(1)
    context = partitioner.context_from_preset(mtkahypar.PresetType.QUALITY)
    context.set_partitioning_parameters(len(problem.hosts), 0.0, mtkahypar.Objective.CUT)
    context.logging = False
    mtkahypar.set_seed(1)
    edges = whole_bytes(pairs)
    ranks = problem.ranks()
    graph = partitioner.create_graph(
        context, ranks, len(edges), list(edges), [1] * ranks, list(edges.values())
    )
    found = graph.partition(context)
    return seated([found.block_id(rank) for rank in range(ranks)], problem)


def scotch(problem: Problem, pairs: Pairs) -> list[int] | None:
    """The host of every rank by Scotch's gmap, onto a tree with distance 1 on a host and 10 beyond."""
    program = shutil.which("gmap") or shutil.which("scotch_gmap")
    if program is None:
        return None
    ranks = problem.ranks()
    edges = whole_bytes(pairs)
    near: list[list[str]] = [[] for _ in range(ranks)]
    for (a, b), weight in edges.items():
        near[a].append(f"{weight} {b}")
        near[b].append(f"{weight} {a}")
    rows = [f"{len(row)} {' '.join(row)}" for row in near]
    graph = "\n".join(["0", f"{ranks} {2 * len(edges)}", "0 010", *rows]) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("graph", "target", "map")]
        files[0].write_text(graph)
        files[1].write_text(f"tleaf 2 {len(problem.hosts)} 10 {problem.gpus} 1\n")
        done = subprocess.run([program, "-b0", *map(str, files)], capture_output=True, check=False)
        if done.returncode != 0:
            return None
        lines = files[2].read_text().split("\n")[1 : ranks + 1]
    host = [0] * ranks
    for line in lines:
        rank, leaf = map(int, line.split())
        host[rank] = leaf // problem.gpus
    return seated(host, problem)


def seated(host: list[int], problem: Problem) -> list[int] | None:
    """The same; none if a host has more ranks than GPUs."""
    counts = [host.count(h) for h in range(len(problem.hosts))]
    return host if max(counts) <= problem.gpus else None
