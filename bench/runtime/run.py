#!/usr/bin/env python3
"""Paper 004, Figs. 1 to 10, measured on this machine: `make bench-runtime`, or this script with figures' names.

Builds the probes for every MPI found, runs them, writes bench/results/runtime.json and draws the pictures of
docs/src/pictures/runtime. With names only these are measured, and they replace earlier ones; `--draw` only draws.
Series that are compared run in turns, round after round, so that other load meets all of them; a point is the median of
the rounds, with their range. Figures 1a, 7, 8 and 10 run on hosts of network namespaces and need root. What cannot run
here is named in the results with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from draw import picture
from figures import FIGURES

BUILD = ROOT / "build" / "bench-runtime"
RESULTS = ROOT / "bench" / "results" / "runtime.json"
PICTURES = ROOT / "docs" / "src" / "pictures" / "runtime"
HOSTS = ROOT / "tests" / "probes" / "hosts.sh"
MPICH5 = Path(os.environ.get("HOPBYTE_MPICH5", ROOT / "build/mpich5"))
OPENMPI5 = Path(os.environ.get("HOPBYTE_OPENMPI5", ROOT / "build/openmpi5"))
LIBRARIES = Path(os.environ.get("HOPBYTE_MPI_BUILD", ROOT / "build/mpi"))
SHMEM = Path(os.environ.get("HOPBYTE_SHMEM_BUILD", ROOT / "build/shmem"))
OPEN = ["--allow-run-as-root", "--oversubscribe"]
RATE, HOST_COUNT = "50mbit", 4
DEADLINE_SECONDS = 40
CORES = os.cpu_count() or 1

# Name: flavour of the probes' make, compiler, launcher.
MPIS = {
    "Open MPI 4": ("ompi", "mpicc.openmpi", ["mpirun.openmpi", *OPEN]),
    "Open MPI 5": ("ompi", str(OPENMPI5 / "bin/mpicc"), [str(OPENMPI5 / "bin/mpirun"), *OPEN, "--mca", "osc", "^ucx"]),
    "MPICH 4": ("mpich", "mpicc.mpich", ["mpirun.mpich"]),
    "MPICH 5": ("mpich", str(MPICH5 / "bin/mpicc"), [str(MPICH5 / "bin/mpiexec")]),
}
PROGRAMS = ["hopbyte-probe", "sweep", "patches", "minighost"]
Point = tuple[float, float]  # x, y
missing: list[str] = []


def installed() -> dict[str, tuple[str, str, list[str]]]:
    """The MPIs that can be compiled for and launched."""
    found = {n: m for n, m in MPIS.items() if shutil.which(m[1]) and shutil.which(m[2][0])}
    missing.extend(f"{name}: not installed" for name in MPIS if name not in found)
    return found


def folder(name: str) -> Path:
    """The programs built for an MPI."""
    return BUILD / name.replace(" ", "") / MPIS[name][0]


def make(*words: str) -> None:
    """Runs make quietly; its failure ends the benchmark."""
    subprocess.run(["make", "-s", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def build(mpis: dict[str, tuple[str, str, list[str]]]) -> bool:
    """Programs for every MPI, and the libraries; whether there is an OpenSHMEM."""
    for name, (flavour, compiler, _) in mpis.items():
        targets = [str(folder(name) / program) for program in PROGRAMS]
        flags = "CFLAGS=-O2 -g -Wno-stringop-overflow"  # MPICH 4 declares MPI_STATUSES_IGNORE as an array of size 0
        make("-C", "probes", f"OUT={folder(name).parent}", f"FLAVOURS={flavour}", f"{flavour}_cc={compiler}", flags, *targets)
    make("-C", "mpi", f"OUT={LIBRARIES}", "all")
    if not shutil.which("oshcc") or not shutil.which("oshrun"):
        missing.append("OpenSHMEM: not installed")
        return False
    make("-C", "shmem", f"OUT={SHMEM}", "all")
    library = SHMEM / "ompi"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", f"-I{SHMEM}/include", f"-L{library}", f"-Wl,-rpath,{library}"]
    words = ["oshcc", str(HERE / "shmem.c"), "-o", str(BUILD / "shmem"), *flags, "-lhopbyte_shmem", "-lm"]
    subprocess.run(words, check=True)
    return True


def shown(words: list[str]) -> str:
    """A command without its options of launchers and paths of this machine."""
    kept = [Path(w).name if "/" in w else w for w in " ".join(words).split() if not w.startswith("/tmp")]
    return " ".join(kept)


def run(words: list[str], environment: dict[str, str] | None = None) -> list[dict]:
    """JSON lines of a program; none after a failure, which is noted."""
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        out, err = child.communicate(timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        missing.append(f"{shown(words)}: no end after {DEADLINE_SECONDS} s")
        return []
    if child.returncode != 0:
        last = err.strip().splitlines()[-1:] or [""]
        missing.append(f"{shown(words)}: exit code {child.returncode}: {last[0][:200]}")
        return []
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def launch(name: str, ranks: int, program: str, *words: object, environment: dict[str, str] | None = None) -> list[dict]:
    """A probe on ranks of this host."""
    open_mpi = MPIS[name][0] == "ompi"
    passed = [w for k, v in (environment or {}).items() for w in (("-x", f"{k}={v}") if open_mpi else ("-genv", k, v))]
    command = [*MPIS[name][2], "-np" if open_mpi else "-n", str(ranks), *passed, str(folder(name) / program)]
    return run([*command, *(str(w) for w in words), "--json"])


def hosts(command: str) -> list[dict]:
    """A command on the first of the namespaces' hosts; {agent} and {hosts} are files for its launcher."""
    if os.geteuid() != 0 or not shutil.which("tc"):
        missing.append("hosts of network namespaces: need root and iproute2")
        return []
    with tempfile.TemporaryDirectory() as scratch:
        words = command.replace("{agent}", f"{scratch}/agent").replace("{hosts}", f"{scratch}/hosts")
        # Launchers' daemons would outlive a run that is stopped at its deadline, but for the namespace of processes.
        contained = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        return run([*contained, str(HOSTS), str(HOST_COUNT), RATE, scratch, words])


def on_hosts(name: str, per_host: int, words: str, environment: dict[str, str] | None = None) -> list[dict]:
    """A probe with some ranks on each host, in blocks."""
    flavour, _, launcher = MPIS[name]
    ranks = HOST_COUNT * per_host
    if flavour == "ompi":
        given = " ".join(f"-x {shlex.quote(f'{k}={v}')}" for k, v in (environment or {}).items())
        agent = "--prtemca plm_ssh_agent {agent} --prtemca prte_if_include eth0 --pmixmca ptl_tcp_if_include eth0"
        if name == "Open MPI 4":
            agent = "--mca plm_rsh_agent {agent} --mca oob_tcp_if_include eth0"
        network = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 --bind-to none"
        start = f"{shutil.which(launcher[0])} {' '.join(OPEN)} {agent} --hostfile {{hosts}} --map-by ppr:{per_host}:node"
        return hosts(f"{start} {network} {given} -np {ranks} {folder(name)}/{words} --json")
    given = " ".join(f"-genv {k} {shlex.quote(v)}" for k, v in (environment or {}).items())
    start = f"UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 {shutil.which(launcher[0])} -launcher ssh -launcher-exec {{agent}}"
    return hosts(f"{start} -f {{hosts}} -ppn {per_host} -n {ranks} {given} {folder(name)}/{words} --json")


def shmem(pes: int, words: str, environment: dict[str, str] | None = None) -> list[dict]:
    """OpenSHMEM's program on PEs of this host; Debian's Open MPI ends with signal 11 without the option."""
    passed = [w for k, v in (environment or {}).items() for w in ("-x", f"{k}={v}")]
    return run(["oshrun", *OPEN, "--mca", "memory", "^patcher", "-np", str(pes), *passed, str(BUILD / "shmem"), *words.split()])


def shmem_on_hosts(per_host: int, words: str, environment: dict[str, str]) -> list[dict]:
    """The same on the namespaces' hosts."""
    passed = " ".join(f"-x {k}={v}" for k, v in {**environment, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}.items())
    options = "--mca memory ^patcher --mca plm_rsh_agent {agent} --mca oob_tcp_if_include eth0 --bind-to none"
    start = f"{shutil.which('oshrun')} {' '.join(OPEN)} {options} --hostfile {{hosts}} --map-by ppr:{per_host}:node"
    return hosts(f"{start} {passed} -np {HOST_COUNT * per_host} {BUILD}/shmem {words}")


Rows = Iterator[tuple[str, float, float]]  # series, x, y


def values(records: list[dict], series: str, y: Callable[[dict], float]) -> Rows:
    """Points of the records that have a median."""
    for record in records:
        if "median_seconds" in record:
            yield series, record["bytes"], y(record)


QUICK = ["--trials", 5, "--budget", 0, "--precision", 1]


def microseconds(record: dict) -> float:
    """Median time."""
    return record["median_seconds"] * 1e6


def gigabytes(record: dict) -> float:
    """Median rate, GB/s."""
    return record["bytes_per_second"] / 1e9


def over_mpis(ranks: int, *words: object, y: Callable[[dict], float] = microseconds) -> Rows:
    """A probe under every MPI."""
    for name in installed_now:
        yield from values(launch(name, ranks, "hopbyte-probe", *words, *QUICK), name, y)


def figure_1a() -> Rows:
    for name in installed_now:
        if name != "MPICH 4":  # ends its runs over TCP by hanging in MPI_Finalize
            found = on_hosts(name, 1, "hopbyte-probe latency --bytes 8,64,512,1024 --trials 5 --budget 0")
            yield from values(found, name, microseconds)


def figure_1b() -> Rows:
    return over_mpis(2, "bandwidth", "--bytes", "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB", "--window", 16, y=gigabytes)


def figure_2a() -> Rows:
    return over_mpis(8, "multi-latency", "--pairs", 4, "--bytes", "8,64,512,2048")


def figure_2b() -> Rows:
    words = ["rate", "--pattern", "pairs", "--peers", 6, "--bytes", "8,64,512,2048", "--window", 32]
    return over_mpis(8, *words, y=lambda r: r["messages_per_second"] * r["bytes"] / 1e6)


def figure_3() -> Rows:
    return over_mpis(8, "bcast", "--bytes", "8,64,512,4096")


def threads_latency(sizes: str) -> Rows:
    words = ["threads", "--threads", 16, "--trials", 3, "--budget", 0, "--iterations", 10]
    fair = {"LD_PRELOAD": str(LIBRARIES / "libhopbyte_lock.so"), "HOPBYTE_LOCK": "fair"}
    for label, name, environment in (
        ("MPICH 4, pthread mutex", "MPICH 4", {}),
        ("MPICH 4, hopbyte's lock", "MPICH 4", fair),
        ("MPICH 5", "MPICH 5", {}),
        ("Open MPI 4", "Open MPI 4", {}),
    ):
        # A size that does not end takes no others with it.
        for size in sizes.split(",") if name in installed_now else ():
            found = launch(name, 2, "hopbyte-probe", *words, "--bytes", size, environment=environment)
            yield from values(found, label, microseconds)


def figure_4a() -> Rows:
    return threads_latency("8,64,1024")


def figure_4b() -> Rows:
    return threads_latency("16KiB,64KiB,256KiB")


def puts(sizes: str) -> Rows:
    for name in ("MPICH 5", "Open MPI 4"):
        for threads in (1, CORES, 8 * CORES):
            if name in installed_now:
                words = ["rma", "--operation", "put", "--threads", threads, "--bytes", sizes, "--window", 16, *QUICK]
                yield from values(launch(name, 2, "hopbyte-probe", *words), f"{name}, {threads} threads", gigabytes)


def figure_5a() -> Rows:
    return puts("8,64,512,2048")


def figure_5b() -> Rows:
    return puts("16KiB,64KiB,256KiB")


def figure_6() -> Rows:
    if has_shmem:
        for r in shmem(2, "put 8 64 512 4096 32768 262144"):
            label = "quiet per window" if r["series"] == "stream" else "quiet per put"
            yield label, r["bytes"], 2 * 64 * r["bytes"] / r["median_seconds"] / 1e9


def reductions(kind: str, sizes: str, cases: dict[str, dict[str, str]]) -> Rows:
    for label, environment in cases.items() if has_shmem else ():
        for r in shmem_on_hosts(2, f"{kind} {sizes}", environment):
            yield label, r["bytes"], r["median_seconds"] * 1e3


def figure_7() -> Rows:
    # The library's own reduction does not end there from 16 KiB on.
    cases = {f"SHMEM_USE_LARGE_OPT_REDUCE={on}": {"SHMEM_USE_LARGE_OPT_REDUCE": str(on)} for on in (0, 1)}
    return reductions("reduce-set", "16384 65536 262144", cases)


SMP = {"SMP off": {"SHMEM_TEAM_SMP_REDUCE": "0"}, "SMP on": {"SHMEM_TEAM_SMP_REDUCE": "1"}}


def figure_8a() -> Rows:
    return reductions("reduce-team", "8 64 512 2048", SMP)


def figure_8b() -> Rows:
    return reductions("reduce-team", "16384 65536 262144", SMP)


def ratios(proxy: str, shapes: dict[int, str], counts: list[tuple[int, int]], fixed: list[object]) -> Rows:
    """Time of notified puts over that of messages; x is the place of (ranks, threads) in `counts`."""
    for name in ("MPICH 5", "Open MPI 4"):
        for place, (ranks, threads) in enumerate(counts if name in installed_now else ()):
            seconds, sums = {}, set()
            for transport in ("messages", "notified"):
                words = [*fixed, *shapes[ranks].split(), "--threads", threads, "--transport", transport]
                for record in launch(name, ranks, proxy, *words):
                    if "checksum" in record and record["verified"]:
                        seconds[transport] = record["seconds"]
                        sums.add(record["checksum"])
            if len(seconds) == 2 and len(sums) != 1:
                sys.exit(f"{proxy} on {ranks} ranks, {threads} threads: checksums {sums} differ between transports")
            if len(seconds) == 2:
                yield name, place, seconds["notified"] / seconds["messages"]
                details[proxy].append({"mpi": name, "ranks": ranks, "threads": threads, **seconds, "checksum": min(sums)})


COUNTS = [(2, 1), (2, 2), (2, 4), (2, 8), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2)]


def figure_9a() -> Rows:
    shapes = {2: "--patches 2,4,4 --grid 2,1,1", 4: "--patches 2,2,4 --grid 2,2,1", 8: "--patches 2,2,2 --grid 2,2,2"}
    return ratios("patches", shapes, COUNTS, ["--cells", "8,8,8", "--steps", 10])


def figure_9b() -> Rows:
    shapes = {2: "--cells 8,16,24 --grid 2,1,1", 4: "--cells 8,8,24 --grid 2,2,1", 8: "--cells 8,4,24 --grid 2,4,1"}
    return ratios("sweep", shapes, COUNTS, ["--angles", 48, "--groups", 8, "--chunk", 8, "--iterations", 1])


def figure_10() -> Rows:
    reordered = {
        "LD_PRELOAD": str(LIBRARIES / "libhopbyte_reorder_mpich.so"),
        "MPICH_RANK_REORDER_METHOD": "4",
        "MPICH_RANK_REORDER_OPTS": "--ndims=2 --dims=4,4 --nearest",
    }
    orders: dict[str, dict[str, str]] = {"default order": {}, "method 4": reordered}
    for label, environment in orders.items():
        for depth in (128, 512, 2048):  # large faces of small blocks: the links limit, not the processors
            words = f"minighost --grid 4,4,1 --cells 4,4,{depth} --variables 5 --steps 3 --nap 100"
            for r in on_hosts("MPICH 5", 4, words, environment) if "MPICH 5" in installed_now else []:
                if r.get("record") == "total":
                    yield label, 4 * depth * 5 * 8, r["average_seconds"] * 1e3


def measure(name: str, rounds: int) -> dict:
    """The points of a figure: median, least and most over the rounds."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    before = os.getloadavg()[0]
    for _ in range(rounds):
        for series, x, y in globals()[f"figure_{name}"]():
            found[series][x].append(y)
    series = {s: [[x, statistics.median(y), min(y), max(y)] for x, y in sorted(p.items())] for s, p in found.items()}
    words = [f"{r}x{t}" for r, t in COUNTS] if name in ("9a", "9b") else []
    when = time.strftime("%Y-%m-%d", time.gmtime())
    claim = FIGURES[name]
    return {
        "title": claim.title,
        "published": claim.published,
        "shown": claim.shown.format(cores=CORES),
        "x": claim.x,
        "y": claim.y,
        "words": words,
        "rounds": rounds,
        "date": when,
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "series": series,
    }


def draw(results: dict) -> None:
    """One picture for each figure of the paper, with its panels."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in FIGURES:
        if results["figures"].get(name, {}).get("series"):
            groups[name.rstrip("ab")].append(name)
    for number, names in groups.items():
        (PICTURES / f"fig{number}.svg").write_text(picture(names, results["figures"], results["cores"]))


def main() -> None:
    """Measures, stores and draws."""
    global has_shmem
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", help=f"of {' '.join(FIGURES)} (all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of every series (3)")
    parser.add_argument("--draw", action="store_true", help="draw the stored results only")
    options = parser.parse_args()
    if unknown := [name for name in options.figures if name not in FIGURES]:
        parser.error(f"found figure {unknown[0]}, expected one of {' '.join(FIGURES)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"figures": {}, "missing": {}, "details": {}}
    if not options.draw:
        results["schema"], results["cores"] = "hopbyte-bench-runtime-1", CORES
        installed_now.update(installed())
        has_shmem = build(installed_now)
        general, missing[:] = list(missing), []
        for name in options.figures or FIGURES:
            begun = time.monotonic()
            measured = measure(name, options.rounds)
            kept = not measured["series"] and bool(results["figures"].get(name, {}).get("series"))
            if not kept:
                results["figures"][name] = measured
            results["missing"] = {**results["missing"], "all": general, name: sorted(set(missing))}
            missing.clear()
            results["details"].update(details)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            lines = measured["series"]
            print(f"Fig. {name}: {sum(map(len, lines.values()))} points in {time.monotonic() - begun:.0f} s", flush=True)
            if kept:
                print(f"  the measurement of {results['figures'][name]['date']} is kept")
            for note in results["missing"][name]:
                print(f"  not measured: {note}")
    draw(results)


installed_now: dict[str, tuple[str, str, list[str]]] = {}
details: dict[str, list[dict]] = defaultdict(list)
has_shmem = False

if __name__ == "__main__":
    main()
