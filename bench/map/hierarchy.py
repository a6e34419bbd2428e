#!/usr/bin/env python3
"""The mapper on the metric of SharedMap, IntMap and KaHIP: a part of `make bench-map`.

The traffic of our problems on machines that are trees of equal parts; the cost of a byte is the distance of the level at
which its two ends meet (1:10:100 and others), none within a processing element. hopbyte minimises hop-bytes on a tree of
routers whose levels are so far apart. Prints a table and puts it into bench/results/map.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from page import into_page, measured
from run import HERE, ROOT, build_bench, fitted, of_package

# Traffic, sizes and distances of the levels, lowest first, and seconds of our search. With 1:10:100 the routes of 1,024
# elements would not fit the limit of stored routes.
PROBLEMS = [
    ("P2", "4:8:16", "1:10:100", "2"),
    ("P2", "8:8:8", "1:2:3", "2"),
    ("P5f", "4:8:16", "1:10:100", "2"),
    ("P5f", "4:16:16", "1:5:25", "2"),
    ("SPt", "4:16:16", "1:5:25", "2"),
    ("SPt", "4:8:8", "1:10:100", "2"),
    ("P3", "4:16:16", "1:5:25", "10"),
]
LIMIT_SECONDS = 40


class Peers:
    """The programs, and one problem's commands."""

    def __init__(self, python: str, intmap: Path) -> None:
        self.python, self.intmap = python, intmap
        self.kahip = of_package(python, "kahip", "bin/global_multisection")
        self.sharedmap = of_package(python, "chszlablib")

    def commands(self, graph: Path, sizes: str, far: str, out: Path) -> dict[str, list[str]]:
        """Every peer's command by its name; each writes an element a line into `out`."""
        tree = [f"--hierarchy_parameter_string={sizes}", f"--distance_parameter_string={far}"]
        more = [*tree, "--seed=1", "--imbalance=0", f"--output_filename={out}"]
        k = 1
        for size in sizes.split(":"):
            k *= int(size)
        found = {}
        if self.kahip:
            found["KaHIP"] = [str(self.kahip), str(graph), "--preconfiguration=eco", *more]
        for mode in ("eco", "strong") if self.sharedmap else ():
            found[f"SharedMap {mode}"] = [
                self.python, str(HERE / "sharedmap.py"), str(graph), sizes, far, mode, str(out),
            ]  # fmt: skip
        for mode in ("eco", "strong"):
            if (self.intmap / f"{mode}map").exists():
                found[f"IntMap {mode}"] = [str(self.intmap / f"{mode}map"), str(graph), f"--k={k}", *more]
        return found


def total(program: str, problem: str, sizes: str, far: str, file: Path) -> float:
    """The sum of a map."""
    done = subprocess.run([program, "sum", problem, sizes, far, str(file)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["sum_gb"]


def rows(program: str, peers: Peers, folder: Path) -> list[str]:
    """The table."""
    out = ["| traffic | levels | distances | mapper | sum GB | by ours | CPU s | s |", "|---|---|---|---|---:|---:|---:|---:|"]
    for problem, sizes, far, seconds in PROBLEMS:
        file, files = folder / "map", folder / problem
        if measured([program, "export", problem, str(files)]) is None:
            print(f"{problem} skipped: it is not here", file=sys.stderr)
            continue
        done = measured([program, "hierarchy", problem, sizes, far, seconds, "1", str(file)])
        if done is None:
            sys.exit(f"{problem} {sizes}: hopbyte made no map")
        ours = total(program, problem, sizes, far, file)
        elements = len(set(file.read_text().split()))
        tasks = len(file.read_text().split())
        found = [("hopbyte", ours, *done[1:3])]
        for name, command in peers.commands(files / "traffic.metis", sizes, far, file).items():
            file.unlink(missing_ok=True)
            used = measured(["timeout", str(LIMIT_SECONDS), *command])
            if used is None or not file.exists():
                print(f"{problem} {sizes}: no map of {name} within {LIMIT_SECONDS} s", file=sys.stderr)
                continue
            hosts = fitted([int(e) for e in file.read_text().split()], elements, -(-tasks // elements))
            file.write_text("".join(f"{h}\n" for h in hosts))
            found.append((name, total(program, problem, sizes, far, file), *used[1:3]))
        for name, value, cpu, wall in found:
            out.append(
                f"| {problem} | {sizes} | {far} | {name} | {value:,.4f} | {value / ours:.3f} | {cpu:.2f} | {wall:.2f} |"
            )
            print(out[-1], file=sys.stderr, flush=True)
    return out


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python that has chszlablib and kahip")
    parser.add_argument("--intmap", type=Path, default=ROOT / "build/peers/intmap", help="folder of intmap.sh")
    parser.add_argument("--program", help="the benchmark program, instead of building it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = rows(args.program or build_bench(), Peers(args.python, args.intmap), Path(folder))
    print(*table, sep="\n")
    into_page(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
