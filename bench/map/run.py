#!/usr/bin/env python3
"""The mapper beside other tools on the same problems, in one run: `make bench-map`.

Prints the table and writes it to bench/results/map.json and bench/results/map.md. With `--problems` only these
are run and their rows replace earlier ones. With `--seed` the problems are sixteen others, drawn from this number
(`drawn.rs`), on which no constant of the mapper was chosen; their rows are printed and not kept. Peers run if they are installed: Scotch (Debian's
`libscotch-dev`), Zoltan2 (`libtrilinos-zoltan2-dev` and its parts), TreeMatch (inside Debian's Open MPI 4; its
matrix is dense, so up to 4,096 ranks), KaHIP (Python package `kahip`), SharedMap (`chszlablib`), IntMap
(`intmap.sh`), Mt-KaHyPar (`mtkahypar`; on P1bg, it does not end on more than some hundred targets). The last five
support only trees or graphs of hosts: TreeMatch, KaHIP, SharedMap and IntMap get a binary tree over the hosts, halved
across their longest side, with the mean hops across every level. Seconds are processor time of the whole process and
from start to end, reading included; memory is its peak. The map of every tool is made to fit the slots first (surplus
ranks go to the next host with room). The time of every map's exchange is simulated too (`times.py`). On the metric of
SharedMap, IntMap and KaHIP, `hierarchy.py` compares them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import times
from page import into_page, measured

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCOTCH = Path("/usr/lib/x86_64-linux-gnu/scotch-int64")
TRILINOS = ["tpetra", "kokkoscore", "teuchoscomm", "teuchosparameterlist", "teuchoscore", "zoltan2"]
OPENMPI_MODULES = Path("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3")
LIMIT_SECONDS = 120
DENSE_RANKS = 4096  # a matrix of 8 bytes a pair
# Targets: worst link (us), hop-bytes (GB), seconds from start to end; then the effort: seconds of search or trials of
# all runs, and number of runs.
HOLD = {
    "P1bg": (25.6, None, 0.012), "P2": (68.3, 0.8602, 0.2), "P3": (470, 8.5, 3.0),
    "P4": (480, 50, 15.0), "P5f": (4.4, None, 3.0), "P5d": (4.6, None, 3.0),
    "SPt": (320e3, None, None), "SPf": (205e3, None, None), "SPd": (200e3, None, None),
}  # fmt: skip
HOLD_HOPS = {"P2": 0.8602, "P3": 6.6, "P4": 34.0}
EFFORT = {
    "P1bg": ("6k", 6), "P2": ("40k", 1), "P3": ("1.5", 1), "P4": ("5", 1), "P5f": ("2.5", 2),
    "P5d": ("2", 2), "SPt": ("3", 1), "SPf": ("100k", 1), "SPd": ("3", 1),
}  # fmt: skip
DRAWN, DRAWN_EFFORT = 16, ("2", 1)
# Machines whose hosts have coordinates, for Zoltan2.
TORI = {"P1bg": "2 2 8", "P2": "8 8 8", "P3": "16 12 24", "P4": "16 12 24"}


@dataclass
class Row:
    """Result of one mapper on one problem."""

    problem: str
    mapper: str
    objective: str
    worst_link_us: float
    hop_bytes_gb: float
    cpu_seconds: float
    wall_seconds: float
    rss_mb: float
    bound_us: float | None = None  # no map of the problem has a faster worst link
    bound_gb: float | None = None  # nor fewer hop-bytes
    with_hosts_us: float | None = None  # the worst link, host links counted
    fluid_us: float | None = None  # time of the exchange: flows, packets, SimGrid's default model
    packet_us: float | None = None
    simgrid_us: float | None = None
    packet_share: float | None = None


def built(name: str, *words: str) -> str:
    """A program of ours, built by cargo."""
    command = ["cargo", *words, "--message-format=json"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == name)


def build_bench() -> str:
    """The benchmark program."""
    return built("map", "bench", "-p", "hopbyte-job", "--bench", "map", "--no-run")


def build(command: list[str], source: Path, program: Path, name: str) -> bool:
    """Builds a peer unless it exists; prints the reason if it cannot."""
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return True
    command = [command[0], str(source), "-o", str(program), *command[1:]]
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


def of_package(python: str, module: str, file: str = "") -> Path | None:
    """A file beside a Python package, or the package's own, if it is installed."""
    code = f"import importlib.util as u; s = u.find_spec({module!r}); print(s.origin if s else '')"
    done = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    origin = done.stdout.strip()
    found = Path(origin).parent.parent / file if file else Path(origin)
    if done.returncode or not origin or not found.exists():
        print(f"without {module}: {python} has no such package", file=sys.stderr)
        return None
    return found


class Bench:
    """The problems in files, the programs, and the rows so far."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder = folder
        self.effort: float = args.effort
        program, python, intmap = args.program, args.python, args.intmap
        self.python = python
        self.intmap = intmap
        self.begin = time.perf_counter()
        self.say("building")
        self.ours = program or build_bench()
        self.rows: list[Row] = []
        self.rooms: dict[str, tuple[int, int]] = {}
        self.programs = ROOT / "build" / "peers"
        self.programs.mkdir(parents=True, exist_ok=True)
        libraries = [f"-L{SCOTCH}", "-l:libscotch.a", "-l:libscotcherr.a", "-lm", "-lpthread", "-lz"]
        command = ["gcc", "-std=c11", "-O2", "-I/usr/include/scotch-int64", *libraries]
        self.scotch = build(command, HERE / "scotch_map.c", self.programs / "scotch_map", "Scotch")
        mpi = ["-I/usr/include/trilinos", *(f"-ltrilinos_{name}" for name in TRILINOS)]
        command = ["mpicxx", "-O1", "-w", "-std=c++14", *mpi]
        self.zoltan2 = build(command, HERE / "zoltan2.cpp", self.programs / "zoltan2", "Zoltan2")
        module = [f"-L{OPENMPI_MODULES}", "-l:mca_topo_treematch.so", f"-Wl,-rpath,{OPENMPI_MODULES}"]
        command = ["mpicc", "-std=gnu11", "-O2", *module, "-lopen-rte", "-lopen-pal"]
        self.treematch = build(command, HERE / "treematch.c", self.programs / "treematch", "TreeMatch")
        self.kahip = of_package(python, "kahip", "bin/global_multisection")
        self.mtkahypar = of_package(python, "mtkahypar")
        self.sharedmap = of_package(python, "chszlablib")
        self.simgrid = times.simgrid(self.programs)

    def say(self, what: str) -> None:
        """Prints progress."""
        print(f"[{time.perf_counter() - self.begin:5.0f} s] {what}", file=sys.stderr, flush=True)

    def export(self, problem: str) -> Path:
        """The problem in the peers' files."""
        folder = self.folder / problem
        subprocess.run([self.ours, "export", problem, str(folder)], check=True)
        return folder

    def add(self, which: tuple[str, str, str], text: str, hosts: Path, *used: float) -> None:
        cost = json.loads(text)
        self.say(f"{which[0]}: times of {which[1]}'s map")
        timed = asdict(times.of(self.ours, self.simgrid, which[0], hosts))
        bounds = (cost.get("bound_us"), cost.get("bound_gb"), cost["with_host_links_us"])
        row = Row(*which, cost["worst_link_us"], cost["hop_bytes_gb"], *used, *bounds, **timed)
        self.rows.append(row)
        print(line(row), flush=True)

    def in_order(self, problem: str) -> bool:
        """The ranks in order; whether the problem is here."""
        hosts = self.folder / f"{problem}.hosts"
        done = measured([self.ours, "in-order", problem, str(hosts)])
        if done is None:
            return False
        self.add((problem, "in-order", "none"), done[0], hosts, *done[1:])
        used = Counter(hosts.read_text().split())
        self.rooms[problem] = (len(used), max(used.values()))
        return True

    def run_ours(self, problem: str, objective: str, name: str) -> None:
        effort, runs = EFFORT.get(problem, DRAWN_EFFORT)
        if not effort.endswith("k"):
            effort = f"{self.effort * float(effort):g}"
        self.say(f"{problem}: hopbyte, {name}")
        hosts = self.folder / f"{problem}.hosts"
        done = measured([self.ours, "solve", problem, objective, effort, "1", str(runs), str(hosts)])
        if done is None:
            sys.exit(f"{problem}: hopbyte made no map")
        self.add((problem, "hopbyte", name), done[0], hosts, *done[1:])

    def peer(self, problem: str, mapper: str, command: list[str], result: Path, order: list[int] | None = None) -> None:
        """Runs a peer and evaluates its map by our metrics; `order` converts its numbers to hosts."""
        self.say(f"{problem}: {mapper}, {LIMIT_SECONDS} s at most")
        done = measured(["timeout", str(LIMIT_SECONDS), *command])
        if not done or not result.exists():
            print(f"{problem:<5} {mapper:<10} no map within {LIMIT_SECONDS} s", flush=True)
            return
        words = [text.split() for text in result.read_text().splitlines()]
        hosts = [int(w[-1]) for w in words[1:] if len(w) == 2] if len(words[-1]) == 2 else [int(w[0]) for w in words]
        hosts = [order[h] for h in hosts] if order else hosts
        rooms, capacity = self.rooms[problem]
        checked = result.with_suffix(".hosts")
        checked.write_text("".join(f"{h}\n" for h in fitted(hosts, rooms, capacity)))
        text = subprocess.run([self.ours, "eval", problem, str(checked)], check=True, stdout=subprocess.PIPE, text=True)
        self.add((problem, mapper, "hop-bytes"), text.stdout, checked, *done[1:])

    def peers(self, problem: str, folder: Path) -> None:
        """Every peer that can read the problem."""
        out, graph = folder / "out.map", str(folder / "traffic.grf")
        if self.scotch:
            target = [str(folder / "target.tgt")]
            if not (folder / "target.tgt").exists():
                target = [str(folder / "machine.grf"), str(folder / "terminals.txt")]
            self.peer(problem, "scotch", [str(self.programs / "scotch_map"), graph, str(out), *target], out)
        tasks, torus = folder / "tasks.txt", TORI.get(problem)
        if self.zoltan2 and torus and (folder / "hosts.txt").exists() and tasks.stat().st_size:
            files = [graph, str(tasks), str(folder / "hosts.txt"), str(folder / "z2.map"), *torus.split()]
            self.peer(problem, "zoltan2", [str(self.programs / "zoltan2"), *files], folder / "z2.map")
        if self.mtkahypar and (folder / "hops.txt").exists():
            files = [graph, str(folder / "hops.txt"), str(folder / "mtk.map")]
            self.peer(problem, "mtkahypar", [self.python, str(HERE / "mtkahypar_map.py"), *files], folder / "mtk.map")
        if (folder / "order.txt").exists():
            self.on_trees(problem, folder)

    def on_trees(self, problem: str, folder: Path) -> None:
        """Peers that model a machine as a tree."""
        graph, levels, hosts = (str(folder / name) for name in ("traffic.metis", "levels.txt", "order.txt"))
        rooms, capacity = self.rooms[problem]
        if self.treematch and rooms * capacity <= DENSE_RANKS:
            command = [str(self.programs / "treematch"), graph, levels, hosts, str(folder / "tm.map")]
            self.peer(problem, "treematch", command, folder / "tm.map")
        distances = Path(levels).read_text().split()
        sizes, far = ":".join("2" for _ in distances), ":".join(distances)
        tree = [f"--hierarchy_parameter_string={sizes}", f"--distance_parameter_string={far}"]
        # "eco" takes minutes on P3, and more than one where every host has one rank.
        effort = "eco" if capacity > 1 and rooms * capacity <= DENSE_RANKS else "fast"
        order = [int(h) for h in Path(hosts).read_text().split()]
        if self.kahip:
            options = [f"--preconfiguration={effort}", "--seed=1", "--imbalance=0", f"--output_filename={folder / 'k.map'}"]
            self.peer(problem, "kahip", [str(self.kahip), graph, *tree, *options], folder / "k.map", order)
        if self.sharedmap:
            words = [graph, sizes, far, effort, str(folder / "sm.map")]
            command = [self.python, str(HERE / "sharedmap.py"), *words]
            self.peer(problem, "sharedmap", command, folder / "sm.map", order)
        program = self.intmap / f"{effort}map"
        if program.exists():
            options = [f"--k={rooms}", "--seed=1", "--imbalance=0", f"--output_filename={folder / 'i.map'}"]
            self.peer(problem, "intmap", [str(program), graph, *tree, *options], folder / "i.map", order)


def line(row: Row) -> str:
    return (
        f"{row.problem:<5} {row.mapper:<10} {row.objective:<18} {row.worst_link_us:>12.2f} us "
        f"{row.hop_bytes_gb:>12.5f} GB {row.cpu_seconds:>8.3f} s CPU {row.wall_seconds:>8.3f} s {row.rss_mb:>7.1f} MB"
    )


def verdict(rows: list[Row]) -> None:
    """Our result beside its target and the best peer."""
    for problem, (worst, hops, seconds) in HOLD.items():
        here = [r for r in rows if r.problem == problem]
        ours = next((r for r in here if (r.mapper, r.objective) == ("hopbyte", "worst-network-link")), None)
        if ours is None:
            continue
        others = [r.worst_link_us for r in here if r.mapper not in ("hopbyte", "in-order")]
        holds = ours.worst_link_us <= worst * 1.001 and (hops is None or ours.hop_bytes_gb <= hops)
        holds = holds and (seconds is None or ours.wall_seconds <= seconds)
        best = f"{min(others):.1f}" if others else "-"
        print(f"{problem:<5} {'holds' if holds else 'MISSES':<7} {ours.worst_link_us:.2f} us of {worst:g}, best peer {best}")


def beside(rows: list[Row]) -> None:
    """For each drawn problem our worst link with host links over that of the best peer and of the order."""
    for problem in dict.fromkeys(r.problem for r in rows):
        here = [r for r in rows if r.problem == problem]
        at = {r.objective: r.with_hosts_us or r.worst_link_us for r in here if r.mapper == "hopbyte"}
        first = next(r for r in here if r.mapper == "in-order")
        others = [r.with_hosts_us or r.worst_link_us for r in here if r.mapper not in ("hopbyte", "in-order")]
        ours, order = at["worst-link"], first.with_hosts_us or first.worst_link_us
        best = f", {ours / min(others):.3f} of the best peer" if others else ""
        print(f"{problem:<7} {ours:,.2f} us: {ours / order:.3f} of in order{best}")


def table(rows: list[Row]) -> list[str]:
    """The rows as Markdown."""
    out = [
        "| problem | mapper | objective | worst link µs | bound | with hosts µs | hop-bytes GB | bound | flows µs | packets µs "
        + "| SimGrid µs | CPU s | s | MB |",
        "|---|---|---|" + "---:|" * 11,
    ]
    for r in rows:
        bounds = ["" if b is None else text.format(b) for b, text in ((r.bound_us, "{:,.2f}"), (r.bound_gb, "{:,.4f}"))]
        timed = ["–" if t is None else f"{t:,.2f}" for t in (r.fluid_us, r.packet_us, r.simgrid_us)]
        hosts = "" if r.with_hosts_us is None else f"{r.with_hosts_us:,.2f}"
        out.append(
            f"| {r.problem} | {r.mapper} | {r.objective} | {r.worst_link_us:,.2f} | {bounds[0]} | {hosts} "
            f"| {r.hop_bytes_gb:,.4f} | {bounds[1]} | {' | '.join(timed)} "
            f"| {r.cpu_seconds:.3f} | {r.wall_seconds:.3f} | {r.rss_mb:.0f} |"
        )
    return out


def write(rows: list[Row]) -> None:
    """The results as JSON and as a table of map.md."""
    out = ROOT / "bench" / "results" / "map.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    into_page(table(rows))


def earlier(problems: list[str], peers: bool) -> list[Row]:
    """Rows of an earlier run for the problems, or the peers, that are not run this time."""
    file = ROOT / "bench" / "results" / "map.json"
    if not file.exists() or (peers and set(HOLD) <= set(problems)):
        return []
    rows = [Row(**r) for r in json.loads(file.read_text()) if "wall_seconds" in r]
    ours = ("hopbyte", "in-order")
    return [r for r in rows if r.problem not in problems or (not peers and r.mapper not in ours)]


def kept(rows: list[Row], problems: list[str], *, peers: bool) -> list[Row]:
    """Writes the rows so far with the earlier ones of other problems, in the order of the table."""
    order = list(HOLD)
    rows = sorted(rows + earlier(problems, peers), key=lambda r: order.index(r.problem))
    write(rows)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(HOLD), choices=list(HOLD))
    parser.add_argument("--seed", type=int, help="problems drawn from this number instead")
    parser.add_argument("--no-peers", action="store_true", help="measure only our rows; those of peers stay")
    parser.add_argument("--python", default=sys.executable, help="the Python that has mtkahypar and chszlablib")
    parser.add_argument("--intmap", type=Path, default=ROOT / "build/peers/intmap", help="folder of intmap.sh")
    parser.add_argument("--effort", type=float, default=1.0, help="times the seconds of our searches: on a busy machine")
    parser.add_argument("--program", help="the benchmark program, instead of building it")
    args = parser.parse_args()
    drawn = args.seed is not None
    if drawn:
        args.problems = [f"S{args.seed}-{number}" for number in range(DRAWN)]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(temporary), args)
        for number, problem in enumerate(args.problems, start=1):
            bench.say(f"problem {number} of {len(args.problems)}: {problem}")
            if not bench.in_order(problem):
                lacks = "run make build/mesh/p5.graph" if problem.startswith("P5") else "its capture is not here"
                print(f"{problem:<5} skipped: {lacks}", flush=True)
                continue
            bench.run_ours(problem, "load", "worst-network-link")
            bench.run_ours(problem, "link", "worst-link")
            if problem in HOLD_HOPS:
                bench.run_ours(problem, "hops", "hop-bytes")
            if not args.no_peers:
                bench.peers(problem, bench.export(problem))
            # After every problem: a run takes the better part of an hour.
            if not drawn:
                rows = kept(bench.rows, args.problems[:number], peers=not args.no_peers)
        print(*table(bench.rows if drawn else rows), sep="\n")
        (beside if drawn else verdict)(bench.rows if drawn else rows)
        bench.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
