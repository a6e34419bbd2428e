#!/usr/bin/env python3
"""The fluid solver beside SimGrid on the same transfers, in one run.

Halo phases of 64, 1,024 and 8,192 nodes (16 ranks each) on Gemini tori, then 10^3 to 10^6 transfers
between random nodes; see fluid.rs for the cases.
SimGrid (libsimgrid-dev) runs where it ends within minutes; the ends of all transfers must agree to
1e-6. `--quick` runs the small cases only and fails when times differ (CI runs this). BOOKSIM=PROGRAM runs BookSim 2 beside the packets too.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHAPES = {"64": "4,4,2", "1024": "8,8,8", "8192": "16,12,24"}
QUICK = ["64-linear-6", "64-remap-6", "64-random-6", "1024-linear-6", "1024-remap-6"]
FULL = [*QUICK, "8192-remap-6", "8192-linear-6"]
ALONE = ["1024-random-6", "8192-random-6", "1024-linear-26", "8192-remap-26", "8192-linear-26"]
GROWTH = [f"8192-uniform-{10**n}" for n in (3, 4, 5, 6)]
AGREE = 1e-6
RUNS = 5


def build_ours(bench: str = "fluid", *, quick: bool = False) -> Path:
    """A benchmark program, built by cargo; a quick one shares the tests' build."""
    what = ["--workspace"] if quick else ["--release", "-p", "hopbyte-model"]
    out = subprocess.run(
        ["cargo", "build", "--locked", *what, "--bench", bench, "--message-format=json"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return Path(next(m["executable"] for m in messages
                     if m.get("executable") and m["target"]["name"] == bench))


def build_simgrid(folder: Path) -> Path | None:
    """The SimGrid program, or None without SimGrid or a compiler."""
    if not shutil.which("g++"):
        return None
    program = folder / "simgrid_torus"
    built = subprocess.run(
        ["g++", "-O2", "-std=c++17", str(HERE / "simgrid_torus.cpp"), "-o", str(program), "-lsimgrid"],
        capture_output=True, text=True,
    )
    if built.returncode:
        print(built.stderr.splitlines()[0] if built.stderr else "no SimGrid", file=sys.stderr)
        return None
    return program


def run(command: list[str]) -> dict[str, float]:
    """The JSON line that a program prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def doubles(path: Path) -> array.array[float]:
    values = array.array("d")
    values.frombytes(path.read_bytes())
    return values


def ours_median(program: Path, case: str, flows: Path, times: Path, *more: str) -> dict[str, float]:
    """The run with the median CPU time."""
    runs = [run([str(program), "solve", case, str(flows), str(times), *more]) for _ in range(RUNS)]
    return sorted(runs, key=lambda r: r["run_cpu_seconds"])[RUNS // 2]


def worst_difference(a: array.array[float], b: array.array[float]) -> float:
    if len(a) != len(b):
        return float("inf")
    return max(abs(x - y) / max(y, 1e-300) for x, y in zip(a, b))


def compare(program: Path, simgrid: Path, cases: list[str], folder: Path) -> bool:
    print(f"{'case':<15} {'flows':>7} {'ours CPU s':>11} {'SimGrid CPU s':>14} {'ratio':>8} {'total ratio':>12} {'worst difference':>17}")
    agree = True
    for case in cases:
        flows, mine, theirs = folder / "flows", folder / "ours", folder / "simgrid"
        subprocess.run([str(program), "generate", case, str(flows)], check=True)
        ours = ours_median(program, case, flows, mine)
        other = run([str(simgrid), SHAPES[case.split("-")[0]], str(flows), str(theirs), "--log=root.thres:critical"])
        difference = worst_difference(doubles(mine), doubles(theirs))
        agree &= difference <= AGREE
        print(f"{case:<15} {ours['flows']:>7.0f} {ours['run_cpu_seconds']:>11.4f} {other['run_cpu_seconds']:>14.3f} "
              f"{other['run_cpu_seconds'] / ours['run_cpu_seconds']:>8.0f} "
              f"{other['total_cpu_seconds'] / ours['total_cpu_seconds']:>12.0f} {difference:>17.1e}", flush=True)
    return agree


def alone(program: Path, folder: Path) -> None:
    print(f"\n{'case':<20} {'flows':>8} {'tolerance':>9} {'run CPU s':>10} {'steps':>7} {'peak MB':>8} {'simulated s':>12} {'error':>9} {'mean error':>10}")
    for case in [*ALONE, *GROWTH]:
        flows, exact, times = folder / "flows", folder / "exact", folder / "times"
        subprocess.run([str(program), "generate", case, str(flows)], check=True)
        for tolerance in ("0",) if case in GROWTH else ("0", "0.001", "0.01"):
            out = exact if tolerance == "0" else times
            result = run([str(program), "solve", case, str(flows), str(out), tolerance])
            a, b = doubles(exact), doubles(out)
            mean = sum(abs(x - y) / x for x, y in zip(a, b)) / len(a)
            error = abs(max(b) / max(a) - 1)
            print(f"{case:<20} {result['flows']:>8.0f} {tolerance:>9} {result['run_cpu_seconds']:>10.3f} {result['steps']:>7.0f} "
                  f"{result['peak_bytes'] / 1e6:>8.0f} {result['simulated_seconds']:>12.6f} {error:>9.1e} {mean:>10.1e}", flush=True)
    print(f"\n{'arrivals':>9} {'at once':>8} {'CPU s':>8} {'flows / CPU s':>14} {'peak MB':>8}")
    for count in ("1000", "10000", "100000", "1000000"):
        result = run([str(program), "arrivals", count])
        print(f"{result['flows']:>9.0f} {result['most_at_once']:>8.0f} {result['cpu_seconds']:>8.2f} "
              f"{result['flows_per_cpu_second']:>14.0f} {result['peak_bytes'] / 1e6:>8.0f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--alone", action="store_true", help="without SimGrid")
    arguments = parser.parse_args()
    program = build_ours(quick=arguments.quick)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        simgrid = None if arguments.alone else build_simgrid(folder)
        agree = True
        if simgrid:
            agree = compare(program, simgrid, QUICK if arguments.quick else FULL, folder)
        elif not arguments.alone:
            print("skipped: SimGrid is not here (apt-get install libsimgrid-dev g++)")
        if not arguments.quick:
            alone(program, folder)
            print("\nevery packet: 8x8x8 torus, uniform traffic, beside BookSim 2's measured curve", flush=True)
            packet = str(build_ours("packet"))
            for more in ([], ["flits=1"], ["flits=8"], ["whole"]):
                subprocess.run([packet, *more], check=True)
    if not agree:
        print("times differ from SimGrid's", file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
