#!/usr/bin/env python3
"""Rank orders of AI jobs on hosts with GPUs: `make bench-hosts`.

For every machine, allocation and training plan the time of the worst link, inner links included, in the orders that
users have (hosts in natural order, in string order as torchrun sorts them, shuffled, and by the sorters of `peers.py`),
of graph mappers, and of hopbyte's map, of whole hosts (`--keep hosts`) and of single ranks, with a number of trials or a time; and
their proven bounds. Prints the table and writes it to bench/results/hosts.json and bench/results/hosts.md. Ends with an
error if an order of hosts is better than the map of whole hosts, anything better than the map, or if a tensor-parallel
group that fits into a unit of hosts (a host, an NVLink domain) is not in one.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from problems import LARGE, PLANS, Problem, plan, problems

ROOT = Path(__file__).resolve().parent.parent.parent
COLUMNS = [
    "natural", "string", "shuffled", "DLRover", "sort_nodes", "Kueue", "SharedMap", "Mt-KaHyPar", "Scotch", "kept",
    "kept bound", "map", "bound",
]  # fmt: skip
ORDERS = ["natural", "string", "shuffled", "DLRover", "sort_nodes", "Kueue"]


class Hopbyte:
    """The command, with the effort of a search."""

    def __init__(self, path: str, effort: list[str], folder: Path) -> None:
        self.path, self.effort, self.folder = path, effort, folder

    def run(self, problem: Problem, text: str, hosts: list[str], *more: str) -> dict:
        """The certificate of a map."""
        command = [self.path, "--quiet", "--json", "map", text, "--fabric", *problem.fabric]
        command += ["--nodes", ",".join(hosts), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def order(self, problem: Problem, text: str, hosts: list[str]) -> tuple[float, float]:
        """Cost of the ranks on hosts in turn."""
        found = self.run(problem, text, hosts, "--keep", "hosts", "--seconds", "0.001")
        return score(found["baseline"])

    def placed(self, problem: Problem, text: str, host: list[int]) -> tuple[float, float]:
        """Cost of the ranks on given hosts, on their GPUs in turn."""
        next_slot = [0] * len(problem.hosts)
        lines = ["rank,node,slot"]
        for rank, at in enumerate(host):
            lines.append(f"{rank},{problem.hosts[at]},{next_slot[at]}")
            next_slot[at] += 1
        path = self.folder / "placement.csv"
        path.write_text("\n".join(lines) + "\n")
        found = self.run(problem, text, problem.hosts, "--current", str(path), "--seconds", "0.001")
        return score(found["current"])


def score(cost: dict) -> tuple[float, float]:
    return cost["worst_link_seconds"] * 1e3, cost["hop_bytes"]


def worse(ours: tuple[float, float], theirs: tuple[float, float]) -> bool:
    """By the worst link, then by hop-bytes; a share of a percent of these is not worth a change."""
    less = lambda x, y, share: x < y - share * abs(y)
    if less(theirs[0], ours[0], 1e-6) or less(ours[0], theirs[0], 1e-6):
        return theirs[0] < ours[0]
    return less(theirs[1], ours[1], 0.0101)


def grouped(problem: Problem, size: int, placement: list[str]) -> bool | None:
    """Whether every tensor-parallel group is in a unit; None if not all of them fit."""
    unit = {h: problem.domain.get(h, h) for h in problem.hosts}
    rooms: dict[str, int] = {}
    for host in problem.hosts:
        rooms[unit[host]] = rooms.get(unit[host], 0) + problem.gpus
    if sum(room // size for room in rooms.values()) * size < len(placement):
        return None
    of = [unit[host_of(name, unit)] for name in placement]
    return all(len(set(of[i : i + size])) == 1 for i in range(0, len(of), size))


def host_of(name: str, hosts: dict[str, str]) -> str:
    """The host of a place: `h3-r2`, `h3 gpu2`, `h3 mlx5_0`."""
    if name in hosts:
        return name
    return re.split(r" |-r\d+$", name)[0]


def pairs_of(text: str) -> peers.Pairs | None:
    """Bytes between ranks, by the Python package."""
    try:
        import hopbyte
    except ImportError:
        return None
    try:
        traffic = hopbyte.load_traffic(text)
    except hopbyte.HopbyteError:
        # A package of an earlier version.
        return None
    return list(zip(traffic.from_rank.tolist(), traffic.to_rank.tolist(), traffic.bytes.tolist()))


def row(tool: Hopbyte, problem: Problem, sizes: dict[str, int], folder: Path) -> dict | None:
    """One line of the table: times in milliseconds, hop-bytes, and what is wrong with it."""
    text = plan(sizes, problem.ranks())
    if text is None:
        return None
    shuffled = problem.hosts[:]
    random.Random(7).shuffle(shuffled)
    orders = {
        "natural": problem.hosts, "string": sorted(problem.hosts), "shuffled": shuffled,
        "DLRover": peers.dlrover(folder, problem), "sort_nodes": peers.toolkit(folder, problem),
        "Kueue": peers.kueue(problem),
    }  # fmt: skip
    known: dict[tuple, tuple[float, float]] = {}
    scores = {}
    for name, order in orders.items():
        if order:
            # Most sorters agree on most machines.
            key = tuple(order)
            known[key] = known.get(key) or tool.order(problem, text, order)
            scores[name] = known[key]
    pairs = pairs_of(text)
    divides = []
    mappers = {"SharedMap": peers.sharedmap, "Mt-KaHyPar": peers.kahypar, "Scotch": peers.scotch}
    for name, peer in mappers.items():
        host = peer(problem, pairs) if pairs else None
        if host:
            key = tuple(host)
            known[key] = known.get(key) or tool.placed(problem, text, host)
            scores[name] = known[key]
            if grouped(problem, sizes["tp"], [problem.hosts[at] for at in host]) is False:
                divides.append(name)
    wrong = []
    seconds = {}
    for name, more in [("kept", ["--keep", "hosts"]), ("map", [])]:
        found = tool.run(problem, text, problem.hosts, *tool.effort, *more)
        mine = score(found["result"])
        rivals = ORDERS if name == "kept" else [c for c in COLUMNS if "bound" not in c]
        # A mapper that divides tensor-parallel groups which fit answers another question.
        better = [r for r in rivals if r in scores and r not in divides and worse(mine, scores[r])]
        if better:
            wrong.append(f"{name} is worse than {', '.join(better)}")
        if grouped(problem, sizes["tp"], found["placement"]) is False:
            wrong.append(f"{name}: a tensor-parallel group leaves its unit")
        scores[name] = mine
        bound = "kept bound" if name == "kept" else "bound"
        scores[bound] = (found["bound"]["worst_link_seconds"] * 1e3, 0.0)
        seconds[name] = found["wall_seconds"]
    return {
        "machine": problem.name, "plan": text, "ranks": problem.ranks(),
        "ms": {k: v[0] for k, v in scores.items()}, "hop_bytes": {k: v[1] for k, v in scores.items()},
        "seconds": seconds, "wrong": wrong, "divides": divides, "effort": " ".join(tool.effort),
    }  # fmt: skip


def line(found: dict) -> str:
    cells = [f"{found['ms'][c]:.2f}" if c in found["ms"] else "–" for c in COLUMNS]
    return f"| {found['machine']} | {found['plan']} | {' | '.join(cells)} |"


def summary(rows: list[dict]) -> list[str]:
    """Lines below the table."""
    efforts = sorted({r.get("effort", "--trials 20000") for r in rows})
    lines = ["", *(f"{sum(r.get('effort', '--trials 20000') == e for r in rows)} rows with {e}." for e in efforts)]
    for name, bound in [("kept", "kept bound"), ("map", "bound")]:
        near = sum(r["ms"][name] <= 1.05 * r["ms"][bound] for r in rows)
        lines.append(f"{name}: {near} of {len(rows)} are at most 5 % above the proven bound.")
    for name in COLUMNS[:9]:
        ratios = [r["ms"][name] / r["ms"]["map"] for r in rows if name in r["ms"]]
        if ratios:
            best = f"{statistics.geometric_mean(ratios):.2f}, at most {max(ratios):.2f}"
            lines.append(f"{name}: {len(ratios)} rows, time by that of map: mean {best}.")
    lines += [f"{r['machine']} {r['plan']}: {w}" for r in rows for w in r["wrong"]]
    return lines


def large(path: str) -> list[str]:
    """Time and memory on 16,384 GPUs, with the defaults of the command."""
    lines = ["", "| 16,384 GPUs | s | MB |", "|---|---|---|"]
    for text in ["plan:dp=256,tp=8,pp=8", "plan:dp=128,tp=8,pp=16,ep=8"]:
        for more in [[], ["--keep", "hosts"]]:
            command = [path, "--quiet", "--json", "map", text, "--fabric", LARGE, "--nodes", "all", *more]
            begin = time.monotonic()
            done = subprocess.run(
                ["/usr/bin/time", "-f", "%M", *command], capture_output=True, text=True, check=True
            )
            took = time.monotonic() - begin
            memory = int(done.stderr.split()[-1]) / 1e3
            words = " ".join([text, *more])
            lines.append(f"| {words} | {took:.2f} | {memory:.0f} |")
    return lines


def main() -> None:
    """Runs all problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hopbyte", default=str(ROOT / "target/release/hopbyte"))
    parser.add_argument("--trials", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, help="of each search, instead of trials")
    parser.add_argument("--plans", type=int, default=len(PLANS))
    parser.add_argument("--only", default="", help="machines with this in their names")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="see peers.py")
    parser.add_argument("--rows", type=Path, help="file of finished rows, which are not run again; new ones are added")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no row begins")
    options = parser.parse_args()
    begin = time.monotonic()
    header = ["machine", "plan", *(f"{c} ms" for c in COLUMNS)]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    rows = []
    if options.rows and options.rows.exists():
        rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    done = {(r["machine"], r["plan"]) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        effort = ["--seconds", str(options.seconds)] if options.seconds else ["--trials", str(options.trials)]
        tool = Hopbyte(options.hopbyte, effort, Path(folder))
        options.peers.mkdir(parents=True, exist_ok=True)
        left_out = 0
        # Plan by plan, so that a run out of time has all machines.
        wanted = [p for p in problems(options.peers, options.hopbyte, sys.executable) if options.only in p.name]
        for sizes in PLANS[: options.plans]:
            for problem in wanted:
                if (problem.name, plan(sizes, problem.ranks())) in done:
                    continue
                if time.monotonic() - begin > options.budget:
                    left_out += plan(sizes, problem.ranks()) is not None
                    continue
                found = row(tool, problem, sizes, options.peers)
                if found:
                    rows.append(found)
                    if options.rows:
                        with options.rows.open("a") as file:
                            file.write(json.dumps(found) + "\n")
                    print(line(found), *found["wrong"], flush=True)
    rows.sort(key=lambda r: r["machine"])
    lines += [*map(line, rows), "", f"{len(rows)} rows; left out for lack of time: {left_out}."]
    lines += summary(rows)
    if not options.only:
        lines += large(options.hopbyte)
        results = ROOT / "bench/results"
        (results / "hosts.md").write_text("\n".join(lines) + "\n")
        (results / "hosts.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(lines[len(rows) + 2 :]))
    sys.exit(1 if any(r["wrong"] for r in rows) else 0)


if __name__ == "__main__":
    main()
