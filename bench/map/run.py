#!/usr/bin/env python3
"""The mapper beside other tools on the same problems, in one run: `make bench-map`.

Prints the table and writes bench/results/map.json. Peers run where they are installed: Scotch (Debian's
`scotch`, `libscotch-dev`), Zoltan2 (`libtrilinos-zoltan2-dev`, `trilinos-dev`), Mt-KaHyPar (Python package
`mtkahypar`; on P1bg, it does not end on more than some hundred targets). Seconds are processor time of the
whole process, reading included; memory is its peak. Whatever a tool returns is made to fit the slots first
(surplus ranks go to the next host with room).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCOTCH = Path("/usr/lib/x86_64-linux-gnu/scotch-int64")
TRILINOS = ["tpetra", "kokkoscore", "teuchoscomm", "teuchosparameterlist", "teuchoscore", "zoltan2"]
LIMIT_SECONDS = 120
# What we are held to: worst link (us), hop-bytes (GB), CPU seconds; then the effort of a run.
HOLD = {
    "P1bg": (25.6, None, 0.012), "P2": (68.3, 0.8602, 0.2), "P3": (470, 8.5, 3.0),
    "P4": (480, 50, 30.0), "P5f": (4.4, None, 3.0), "P5d": (4.6, None, 3.0),
    "SPt": (320e3, None, None), "SPf": (205e3, None, None), "SPd": (200e3, None, None),
}  # fmt: skip
HOLD_HOPS = {"P2": 0.8602, "P3": 6.6, "P4": 34.0}
EFFORT = {
    "P1bg": "20k", "P2": "40k", "P3": "800k", "P4": "4000k", "P5f": "800k", "P5d": "700k",
    "SPt": "1000k", "SPf": "100k", "SPd": "1500k",
}  # fmt: skip


@dataclass
class Row:
    """What one mapper made of one problem."""

    problem: str
    mapper: str
    objective: str
    worst_link_us: float
    hop_bytes_gb: float
    cpu_seconds: float
    rss_mb: float
    bound_us: float | None = None  # no map of the problem has a faster worst link
    bound_gb: float | None = None  # nor fewer hop-bytes


def measured(command: list[str], **more: object) -> tuple[str, float, float] | None:
    """Runs a command: what it prints, its processor seconds and its peak memory in MB."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, **more)  # type: ignore[call-overload]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode:
            return None
        return out.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def build_ours() -> str:
    """The benchmark program, built by cargo."""
    command = ["cargo", "bench", "-p", "hopbyte-map", "--bench", "map", "--no-run", "--message-format=json"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "map")


def build(command: list[str], name: str) -> bool:
    """Builds a peer; says why not where it cannot."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"without {name}: {(done.stderr.splitlines() or ['no compiler'])[0]}", file=sys.stderr)
    return done.returncode == 0


def fitted(hosts: list[int], rooms: int, capacity: int) -> list[int]:
    """The map with surplus ranks moved to the next host with room."""
    count = [0] * rooms
    for host in hosts:
        count[host] += 1
    for task, host in enumerate(hosts):
        if count[host] > capacity:
            near = (h for d in range(1, rooms) for h in (host + d, host - d) if 0 <= h < rooms)
            other = next(h for h in near if count[h] < capacity)
            count[host] -= 1
            count[other] += 1
            hosts[task] = other
    return hosts


class Bench:
    """The problems in files, the programs, and the rows so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours = build_ours()
        self.rows: list[Row] = []
        self.rooms: dict[str, tuple[int, int]] = {}
        flags = ["-O2", "-I/usr/include/scotch-int64"]
        libraries = [f"-L{SCOTCH}", "-l:libscotch.a", "-l:libscotcherr.a", "-lm", "-lpthread", "-lz"]
        program = [str(HERE / "scotch_map.c"), "-o", str(folder / "scotch_map")]
        self.scotch = build(["gcc", "-std=c11", *flags, *program, *libraries], "Scotch")
        source = [str(HERE / "zoltan2.cpp"), "-o", str(folder / "zoltan2")]
        mpi = ["-I/usr/include/trilinos", *(f"-ltrilinos_{name}" for name in TRILINOS)]
        self.zoltan2 = build(["mpicxx", "-O1", "-w", "-std=c++14", *source, *mpi], "Zoltan2")

    def export(self, problem: str) -> Path:
        """The problem in the peers' files."""
        folder = self.folder / problem
        subprocess.run([self.ours, "export", problem, str(folder)], check=True)
        tasks = int((folder / "traffic.grf").read_text().split(maxsplit=2)[1])
        hosts = {"P1bg": 16, "P2": 512, "P4": 8192}.get(problem, 1024)
        self.rooms[problem] = (hosts, tasks // hosts)
        return folder

    def add(self, problem: str, mapper: str, objective: str, text: str, cpu: float, rss: float) -> None:
        cost = json.loads(text)
        bounds = (cost.get("bound_us"), cost.get("bound_gb"))
        row = Row(problem, mapper, objective, cost["worst_link_us"], cost["hop_bytes_gb"], cpu, rss, *bounds)
        self.rows.append(row)
        print(line(row), flush=True)

    def run_ours(self, problem: str, objective: str, name: str, effort: str) -> None:
        done = measured([self.ours, "solve", problem, objective, effort, "1"])
        if done:
            self.add(problem, "hopbyte", name, *done)

    def peer(self, problem: str, mapper: str, command: list[str], result: Path) -> None:
        """Runs a peer and evaluates its map by our count."""
        done = measured(["timeout", str(LIMIT_SECONDS), *command])
        if not done or not result.exists():
            print(f"{problem:<5} {mapper:<12} no map within {LIMIT_SECONDS} s", flush=True)
            return
        words = [text.split() for text in result.read_text().splitlines()]
        hosts = [int(w[-1]) for w in words[1:] if len(w) == 2] if len(words[-1]) == 2 else [int(w[0]) for w in words]
        rooms, capacity = self.rooms[problem]
        checked = result.with_suffix(".hosts")
        checked.write_text("".join(f"{h}\n" for h in fitted(hosts, rooms, capacity)))
        text = subprocess.run([self.ours, "eval", problem, str(checked)], check=True, stdout=subprocess.PIPE, text=True)
        self.add(problem, mapper, "hop-bytes", text.stdout, done[1], done[2])

    def peers(self, problem: str, folder: Path) -> None:
        """Every peer that can read the problem."""
        out, graph = folder / "out.map", str(folder / "traffic.grf")
        if self.scotch:
            target = [str(folder / "target.tgt")]
            if not (folder / "target.tgt").exists():
                target = [str(folder / "machine.grf"), str(folder / "terminals.txt")]
            self.peer(problem, "scotch", [str(self.folder / "scotch_map"), graph, str(out), *target], out)
        tasks = folder / "tasks.txt"
        torus = {"P1bg": "2 2 8", "P2": "8 8 8"}.get(problem, "16 12 24").split()
        if self.zoltan2 and (folder / "hosts.txt").exists() and tasks.stat().st_size:
            files = [graph, str(tasks), str(folder / "hosts.txt"), str(folder / "z2.map"), *torus]
            self.peer(problem, "zoltan2", [str(self.folder / "zoltan2"), *files], folder / "z2.map")
        if (folder / "hops.txt").exists():
            files = [graph, str(folder / "hops.txt"), str(folder / "mtk.map")]
            command = [sys.executable, str(HERE / "mtkahypar_map.py"), *files]
            probe = [sys.executable, "-c", "import mtkahypar"]
            if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
                self.peer(problem, "mtkahypar", command, folder / "mtk.map")


def line(row: Row) -> str:
    return (
        f"{row.problem:<5} {row.mapper:<10} {row.objective:<10} {row.worst_link_us:>12.2f} us "
        f"{row.hop_bytes_gb:>12.5f} GB {row.cpu_seconds:>8.3f} s {row.rss_mb:>7.1f} MB"
    )


def verdict(rows: list[Row]) -> None:
    """Ours beside what it is held to and the best peer."""
    for problem, (worst, hops, seconds) in HOLD.items():
        here = [r for r in rows if r.problem == problem]
        ours = next((r for r in here if (r.mapper, r.objective) == ("hopbyte", "worst-link")), None)
        if ours is None:
            continue
        others = [r.worst_link_us for r in here if r.mapper not in ("hopbyte", "in-order")]
        holds = ours.worst_link_us <= worst * 1.001 and (hops is None or ours.hop_bytes_gb <= hops)
        holds = holds and (seconds is None or ours.cpu_seconds <= seconds)
        best = f"{min(others):.1f}" if others else "-"
        print(f"{problem:<5} {'holds' if holds else 'MISSES':<7} {ours.worst_link_us:.2f} us of {worst:g}, best peer {best}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(HOLD))
    parser.add_argument("--no-peers", action="store_true", help="our rows only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(temporary))
        for problem in args.problems:
            done = measured([bench.ours, "in-order", problem])
            if done is None:
                print(f"{problem:<5} skipped: its file is not here")
                continue
            bench.add(problem, "in-order", "none", *done)
            bench.run_ours(problem, "load", "worst-link", EFFORT[problem])
            if problem in HOLD_HOPS:
                bench.run_ours(problem, "hops", "hop-bytes", EFFORT[problem])
            if not args.no_peers:
                bench.peers(problem, bench.export(problem))
        out = ROOT / "bench" / "results" / "map.json"
        out.parent.mkdir(exist_ok=True)
        out.write_text(json.dumps([asdict(r) for r in bench.rows], indent=1) + "\n")
        verdict(bench.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
