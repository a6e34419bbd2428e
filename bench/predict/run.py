#!/usr/bin/env python3
"""Predicted and measured run times of programs that others wrote: `make bench-predict`.

LAMMPS, GROMACS, CP2K, Meep, ABINIT and transforms by FFTW run with sixteen ranks on emulated machines (network namespaces; a
torus, a fat tree with two nodes for each up-link, a dragonfly), whose links are so slow that they decide. Each program is recorded once
per machine, with its ranks in order. From that trace the run times of several placements are predicted, without and beside
constant streams, and stored with the time; then the programs run under each placement, several times. SimGrid replays the same
traces; LogGOPSim and htsim too, if `--peers` names the folder of their programs. Needs root, and some tens of minutes: `--quick` is two programs on one machine.

Nothing is fitted to the runs. From the system: rates and buckets of the shaped links (`tc`), TCP's first window (ten segments) and
largest send buffer, Open MPI's eager limit; from `hopbyte-probe`, by the fit of `predict --network`: the overhead of a message
between two nodes, and the latency of a step in which all ranks take part (an allreduce of eight bytes), since sixteen ranks share two
processors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import peers
from commands import checked, run, used

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = Path(os.environ.get("HOPBYTE_BENCH_WORK", ROOT / "build/predict"))
RANKS = 16
MACHINES = {
    "torus": "torus:4x4:link={gb},host={gb}",
    "fat tree 2:1": "fattree:down=4x4,up=1x2,link={gb}",
    "dragonfly": "dragonfly:4x2:nodes=2,global=1,link={gb}",
}
# A lab's switches route by destination, as up/down does.
ROUTING = {"dragonfly": ["--routing", "updown"]}
# Rates at which the network takes most of a program's time: Mbit/s.
RATE = dict.fromkeys(MACHINES, 10.0)
PROGRAMS = {
    "LAMMPS": ["lmp", "-in", str(HERE / "in.melt"), "-log", "none", "-nocite"],
    "FFTW": [str(WORK / "transform"), "64", "64", "48", "10"],
    "GROMACS": [
        "env", "GMX_MAXBACKUP=-1", "gmx_mpi", "-quiet", "mdrun", "-s", str(WORK / "water.tpr"), "-ntomp", "1", "-npme", "4",
        "-nb", "cpu", "-dlb", "no", "-notunepme", "-pin", "off", "-o", "water.trr", "-e", "water.edr", "-g", "water.log", "-noconfout",
    ],
    "CP2K": ["env", "CP2K_DATA_DIR=/usr/share/cp2k", "cp2k.popt", "-i", str(HERE / "water.inp"), "-o", "water.out"],
    "Meep": ["meep", str(HERE / "wave.ctl")],
    "ABINIT": ["abinit", str(WORK / "si.abi")],
}  # fmt: skip
EAGER, FIRST_WINDOW = 65_536.0, 10 * 1448.0
STREAMS = 3
PEERS = {"simgrid": "SimGrid", "loggopsim": "LogGOPSim", "htsim": "htsim"}
# No further run after so many seconds of runs.
LONG = 8
# Ranks come before other work on this machine.
PRIORITY = ["nice", "-n", "-20"]
SHARE = 0.3


def prepare() -> None:
    """Programs and inputs."""
    WORK.mkdir(parents=True, exist_ok=True)
    checked("gcc", "-O2", "-shared", "-fPIC", "-o", WORK / "libnap.so", HERE / "nap.c")
    checked("mpicc.openmpi", "-O2", "-Wall", "-o", WORK / "transform", HERE / "transform.c", "-lfftw3_mpi", "-lfftw3", "-lm")
    # ABINIT writes beside its input.
    shutil.copy(HERE / "si.abi", WORK / "si.abi")
    if shutil.which("gmx") and not (WORK / "water.tpr").exists():
        shutil.copy(HERE / "water.top", WORK / "water.top")
        box = ["-box", "3.6", "3.6", "3.6"]
        checked("gmx", "-quiet", "solvate", "-cs", "spc216", *box, "-o", WORK / "water.gro", "-p", WORK / "water.top")
        checked("gmx", "-quiet", "grompp", "-f", HERE / "water.mdp", "-c", WORK / "water.gro", "-p", WORK / "water.top",
                "-o", WORK / "water.tpr", "-po", WORK / "out.mdp", "-maxwarn", "5")  # fmt: skip


def toml(table: dict, name: str = "") -> str:
    """A table as TOML, with its tables below it; absent values are left out."""
    plain = [f"{key} = {json.dumps(value)}\n" for key, value in table.items() if value is not None and not isinstance(value, dict)]
    below = [toml(value, f"{name}{key}.") for key, value in table.items() if isinstance(value, dict)]
    return (f"[{name[:-1]}]\n" if name and plain else "") + "".join(plain + below)


class Machine:
    """An emulated machine."""

    def __init__(self, hopbyte: str, kind: str, libraries: Path) -> None:
        self.hopbyte, self.kind, self.libraries = hopbyte, kind, libraries
        self.name = f"b{os.getpid() % 10_000_000}"
        self.folder = WORK / kind.replace(" ", "-").replace(":", "-")
        self.folder.mkdir(exist_ok=True)
        self.spec = MACHINES[kind].format(gb=f"{RATE[kind] / 8e3:.9f}")
        self.routing = ROUTING.get(kind, [])
        checked(hopbyte, "-q", "lab", "up", self.spec, *self.routing, "--name", self.name, "--rate", f"{RATE[kind]}mbit")
        listed = checked(hopbyte, "-q", "fabric", "nodes", self.spec).splitlines()[1:]
        self.nodes = [line.split()[0] for line in listed]

    def down(self) -> None:
        run(self.hopbyte, "lab", "down", self.name)

    def launch(self, nodes: list[str], program: list[str], folder: Path, *, trace: bool = False) -> dict:
        """Runs a program with rank r on nodes[r]; the record's summary, and what was printed."""
        shutil.rmtree(folder, ignore_errors=True)
        hosts = self.folder / "hosts"
        hosts.write_text("".join(f"{node}\n" for node in nodes))
        launcher = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", "$HOPBYTE_LAB_AGENT"]
        for name, value in [("btl", "tcp,self,vader"), ("btl_tcp_if_include", "eth0"), ("oob_tcp_if_include", "eth0"),
                            ("mpi_yield_when_idle", "1"), ("btl_tcp_eager_limit", f"{EAGER:.0f}")]:  # fmt: skip
            launcher += ["--mca", name, value]
        launcher += ["--map-by", "seq", "--bind-to", "none", "--hostfile", str(hosts), "-np", str(len(nodes))]
        record = [self.hopbyte, "--json", "record", "--libraries", str(self.libraries), "-o", str(folder)]
        record += ["--deadline", "300", *(["--trace"] if trace else []), "--", *launcher, "-x", "OMP_NUM_THREADS=1"]
        line = f"export OMP_NUM_THREADS=1 LD_PRELOAD={WORK}/libnap.so; cd {self.folder}; exec {' '.join([*record, *PRIORITY, *program])}"
        enter = [self.hopbyte, "lab", "run", "--name", self.name, "--on", nodes[0]]
        done = run(*enter, "--", "sh", "-c", line)
        found = [text for text in done.stdout.splitlines() if text.startswith('{"schema":"hopbyte.record')]
        if not found or done.returncode:
            raise RuntimeError(f"{' '.join(program)}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return json.loads(found[-1]) | {"printed": done.stdout}

    def network(self) -> tuple[Path, peers.Rates]:
        """Rates and delays beyond the links, from probes and the system."""
        probe = str(ROOT / "build/probes/ompi/hopbyte-probe")
        lines: list[dict] = []
        common = ["--bytes", "8", "--trials", "5", "--budget", "0", "--json"]
        for ranks, words in ((2, ["latency", "--iterations", "200"]), (2, ["rate", "--pattern", "single", "--iterations", "1"]),
                             (RANKS, ["allreduce", "--iterations", "200"])):  # fmt: skip
            printed = self.launch(self.nodes[:ranks], [probe, *words, *common], self.folder / "probe")["printed"]
            results = [json.loads(line) for line in printed.splitlines() if '"median_seconds"' in line]
            # The hosts of a lab share a name.
            run_line = {"schema": results[0]["schema"], "run": {"probe": words[0], "nodes": self.nodes[:ranks]}}
            lines += [run_line, *results]
        file = self.folder / "calibration.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        shaped = checked("ip", "netns", "exec", f"{self.name}-n0", "tc", "-j", "qdisc", "show", "dev", "eth0")
        bucket = json.loads(shaped)[0]["options"]["burst"]
        largest = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
        return self.settled(file, bucket, largest)

    def settled(self, measured: Path, bucket: int, largest: int) -> tuple[Path, peers.Rates]:
        """Parameters that `predict` fits to the probes' lines, with what the system says beside them."""
        example = [ROOT / "data/trace-ring", "--fabric", self.spec, *self.routing, "--nodes", "all", "--ranks-per-node", "1"]
        fitted = json.loads(checked(self.hopbyte, "-q", "--json", "predict", *example, "--network", measured))["parameters"]
        # The delay of emulated links is in the measured latency.
        fitted |= {"hop_latency_s": 0.0, "memory_bytes_per_s": 2e9, "memory_latency_s": 1e-5, "eager_bytes": EAGER}
        fitted["queues"] = {"first_window_bytes": FIRST_WINDOW, "window_bytes": float(largest), "burst_bytes": float(bucket)}
        fitted["calibration"] += "; bucket from tc, windows of Linux, eager limit as set"
        file = self.folder / "network.toml"
        file.write_text(toml(fitted))
        latency, overhead = fitted["latency_s"], fitted["overhead_s"]
        return file, peers.Rates(latency + 2 * overhead, latency, overhead, EAGER, RATE[self.kind] * 1e6)

    def placements(self, record: Path) -> dict[str, list[str]]:
        """In order, at random, and mapped."""
        found = {"in order": self.nodes[:RANKS]}
        for seed in (1, 2, 3):
            found[f"random {seed}"] = random.Random(seed).sample(self.nodes, RANKS)
        words = ["--nodes", "all", "--ranks-per-node", "1", "--trials", "20000"]
        mapped = json.loads(checked(self.hopbyte, "-q", "--json", "map", record, "--fabric", self.spec, *self.routing, *words))
        found["mapped"] = mapped["placement"]
        return found

    def predict(self, record: Path, placements: dict[str, list[str]], network: object, *more: object) -> tuple[dict[str, dict], float]:
        """Run times by placement, and processor seconds for each."""
        words: list[object] = ["--network", network]
        for name, nodes in placements.items():
            file = self.folder / f"{name.replace(' ', '-')}.csv"
            file.write_text("rank,node\n" + "".join(f"{rank},{node}\n" for rank, node in enumerate(nodes)))
            words += ["--placement", file]
        before = used()
        done = run(self.hopbyte, "-q", "--json", "predict", record, "--fabric", self.spec, *self.routing, *words, *more)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        rows = json.loads(done.stdout)["placements"]
        each = (used() - before) / len(rows)
        return dict(zip(placements, rows[-len(placements) :], strict=True)), each

    def streams(self, *, start: bool) -> Path | None:
        """Datagrams of other jobs between drawn nodes, and counters of the links under them."""
        if not start:
            run(self.hopbyte, "lab", "background", "stop", "--name", self.name)
            return None
        drawn = random.Random(7).sample(self.nodes, 2 * STREAMS)
        pairs = [f"{a}:{b}" for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
        checked(self.hopbyte, "-q", "lab", "background", "start", *pairs, "--share", SHARE, "--name", self.name)
        time.sleep(1)
        counters = self.folder / "counters.json"
        checked(self.hopbyte, "-q", "lab", "counters", "--name", self.name, "--interval", "3", "-o", counters)
        return counters


def simulated(machine: Machine, record: Path, placements: dict[str, list[str]], rates: peers.Rates, binaries: Path | None) -> dict:
    """Run times by placement and processor seconds for each of other people's simulators."""
    platform = machine.folder / "platform.xml"
    checked(machine.hopbyte, "-q", "fabric", "convert", machine.spec, *machine.routing, "--to", "simgrid", "--out", platform)
    found = {"simgrid": peers.simgrid(platform.read_text(), record, placements, rates, machine.folder / "simgrid")}
    if binaries:
        folder = machine.folder / "goal"
        found["loggopsim"] = peers.loggopsim(binaries, record, placements, rates, folder)
        if machine.kind.startswith("fat tree"):
            found["htsim"] = peers.htsim(binaries, record, placements, machine.nodes, rates, folder)
    return found


def bench(machine: Machine, programs: list[str], repeats: int, out: Path, binaries: Path | None, *, idle: bool) -> list[dict]:
    """All rows of one machine."""
    network, rates = machine.network()
    rows: list[dict] = []
    plans = []
    for program in programs:
        record = machine.folder / program
        try:
            machine.launch(machine.nodes[:RANKS], PROGRAMS[program], record, trace=True)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{machine.kind}: {program} did not run: {error}", file=sys.stderr)
            continue
        placements = machine.placements(record)
        found, cpu = machine.predict(record, placements, network)
        fluid, _ = machine.predict(record, placements, "plain")
        theirs = simulated(machine, record, placements, rates, binaries)
        for name, nodes in placements.items():
            rows.append({
                "machine": machine.kind, "program": program, "placement": name, "nodes": nodes, "streams": False,
                "predicted_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "predicted_seconds": found[name]["seconds"],
                "least_seconds": found[name]["least_seconds"], "most_seconds": found[name]["most_seconds"],
                "cpu_seconds": cpu, "flows_seconds": fluid[name]["seconds"],
                **{f"{peer}_seconds": times.get(name) for peer, (times, _) in theirs.items()},
                **{f"{peer}_cpu_seconds": seconds for peer, (_, seconds) in theirs.items()},
            })  # fmt: skip
        plans.append((program, record, placements))
    counters = None if idle else machine.streams(start=True)
    for program, record, placements in plans if counters else []:
        some = {name: placements[name] for name in ("in order", "random 1", "random 2", "mapped")}
        found, cpu = machine.predict(record, some, network, "--background", counters)
        for name, nodes in some.items():
            rows.append({
                "machine": machine.kind, "program": program, "placement": name, "nodes": nodes, "streams": True,
                "predicted_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "predicted_seconds": found[name]["seconds"],
                "least_seconds": found[name]["least_seconds"], "most_seconds": found[name]["most_seconds"], "cpu_seconds": cpu,
            })  # fmt: skip
    # Predictions are on disk before any of the runs that they are compared with.
    with out.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())
    # The streams are up: their runs first.
    for row in sorted(rows, key=lambda row: not row["streams"]):
        if not row["streams"] and counters:
            counters = machine.streams(start=False)
            time.sleep(1)
        times = []
        while len(times) < repeats and sum(times) < LONG:
            try:
                summary = machine.launch(row["nodes"], PROGRAMS[row["program"]], machine.folder / "run")
                times.append(summary["times"]["seconds"])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{row['program']} {row['placement']}: {error}", file=sys.stderr)
                break
        row["measured_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row["runs_seconds"] = times
        row["measured_seconds"] = statistics.median(times) if times else None
        if times:
            error = row["predicted_seconds"] / row["measured_seconds"] - 1
            print(f"{machine.kind:<13}{row['program']:<9}{row['placement']:<10}{'streams' if row['streams'] else '':<8}"
                  f"{row['predicted_seconds']:8.2f}{row['measured_seconds']:8.2f} {error:+7.1%}  "
                  f"{' '.join(f'{t:.2f}' for t in times)}", flush=True)  # fmt: skip
    return rows


def errors(rows: list[dict], key: str) -> list[float]:
    return [abs(row[key] / row["measured_seconds"] - 1) for row in rows if row.get(key) and row["measured_seconds"]]


def orders(rows: list[dict]) -> tuple[int, int]:
    """Pairs of placements that differ by more than 5 % when measured, and those whose order was predicted."""
    right = all_pairs = 0
    for row in rows:
        for other in rows:
            same = all(row[key] == other[key] for key in ("machine", "program", "streams"))
            both = row["measured_seconds"] and other["measured_seconds"]
            if same and both and other["measured_seconds"] > 1.05 * row["measured_seconds"]:
                all_pairs += 1
                right += other["predicted_seconds"] > row["predicted_seconds"]
    return all_pairs, right


def gains(rows: list[dict]) -> list[float]:
    """Differences of predicted and measured gains over ranks in order, in points."""
    first = {(r["machine"], r["program"], r["streams"]): r for r in rows if r["placement"] == "in order"}
    found = []
    for row in rows:
        was = first.get((row["machine"], row["program"], row["streams"]))
        if row["placement"] != "in order" and was and was["measured_seconds"] and row["measured_seconds"]:
            gain = lambda key, row=row, was=was: 1 - row[key] / was[key]
            found.append(100 * abs(gain("predicted_seconds") - gain("measured_seconds")))
    return found


def summary(rows: list[dict]) -> str:
    """The table, and what it amounts to."""
    rows = [row for row in rows if row["measured_seconds"]]
    lines = ["| machine | program | placement | streams | predicted s | measured s (runs) | error | flows | SimGrid | LogGOPSim | htsim |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        percent = lambda key, row=row: f"{100 * (row[key] / row['measured_seconds'] - 1):+.1f} %" if row.get(key) else ""
        runs = ", ".join(f"{t:.2f}" for t in row["runs_seconds"])
        lines.append(
            f"| {row['machine']} | {row['program']} | {row['placement']} | {'yes' if row['streams'] else ''} | "
            f"{row['predicted_seconds']:.2f} | {row['measured_seconds']:.2f} ({runs}) | {percent('predicted_seconds')} | "
            f"{percent('flows_seconds')} | {' | '.join(percent(f'{peer}_seconds') for peer in PEERS)} |"
        )
    def line(name: str, some: list[dict], key: str) -> None:
        found = sorted(errors(some, key))
        if found:
            most = found[min(len(found) - 1, int(0.9 * len(found)))]
            lines.append(f"- {name}: median error {statistics.median(found):.1%}, 90 % within {most:.1%}, {len(found)} cases")
    lines.append("")
    idle = [row for row in rows if not row["streams"]]
    line("`predict`, all", rows, "predicted_seconds")
    line("`predict`, idle", idle, "predicted_seconds")
    line("`predict`, beside streams", [row for row in rows if row["streams"]], "predicted_seconds")
    for program in sorted({row["program"] for row in rows}):
        line(program, [row for row in rows if row["program"] == program], "predicted_seconds")
    line("flows that share links fairly (`--network plain`), idle", idle, "flows_seconds")
    for peer, named in PEERS.items():
        theirs = [row for row in idle if row.get(f"{peer}_seconds")]
        line(f"{named}, idle", theirs, f"{peer}_seconds")
        line("`predict` on those", theirs, "predicted_seconds")
        if theirs:
            cpu = [statistics.median(row[key] for row in theirs) for key in ("cpu_seconds", f"{peer}_cpu_seconds")]
            lines.append(f"- processor seconds of a prediction on those, median: {cpu[0]:.3f}, {named} {cpu[1]:.3f}")
    pairs, right = orders(rows)
    lines.append(f"- order of two placements that differ by more than 5 %: {right} of {pairs} right")
    apart = gains(rows)
    if apart:
        lines.append(f"- gain over ranks in order: off by {statistics.median(apart):.1f} points in the median, {max(apart):.1f} at most; "
                     f"{sum(a <= 5 for a in apart)} of {len(apart)} within 5")  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopbyte", default=str(ROOT / "target/release/hopbyte"))
    parser.add_argument("--libraries", type=Path, default=ROOT / "build/mpi", help="preload libraries (make -C mpi)")
    parser.add_argument("--peers", type=Path, help="folder of LogGOPSim, txt2bin and htsim_uec (spcl/atlahs)")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--idle", action="store_true", help="without streams")
    parser.add_argument("--quick", action="store_true", help="FFTW and LAMMPS on the torus, one run each")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/predict.json")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the lab needs root")
    machines, programs, repeats = asked.machines.split(","), asked.programs.split(","), asked.repeats
    if asked.quick:
        machines, programs, repeats = ["torus"], ["FFTW", "LAMMPS"], 1
    prepare()
    stored = WORK / "predictions.jsonl"
    stored.unlink(missing_ok=True)
    rows: list[dict] = []
    hopbyte = str(Path(asked.hopbyte).resolve())
    for kind in machines:
        machine = Machine(hopbyte, kind, asked.libraries.resolve())
        try:
            rows += bench(machine, programs, repeats, stored, asked.peers, idle=asked.idle)
        finally:
            machine.down()
    text = summary(rows)
    print(text)
    if not asked.quick:
        asked.out.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1) + "\n")
        asked.out.with_suffix(".md").write_text("# Predicted and measured run times\n\n`make bench-predict`\n\n" + text)


if __name__ == "__main__":
    main()
