"""Overhead of a recorded call over a bare one, on every MPI built here: python3 bench/overhead.py [ROUNDS].

Runs of bare, recorded and (Open MPI) monitored programs alternate; the smallest batch of each is compared,
because a shared machine only ever adds time. Prints a table and, with --json, one JSON object per line.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / "mpi"), str(TESTS)]

from harness import ALL, BUILD, OMPI, Mpi, run_command

TARGET_NS = 20.0
BATCHES = 2000
SOURCE = Path(__file__).resolve().parent / "overhead.c"


def compile_program(mpi: Mpi) -> Path:
    """Builds the benchmark for one MPI."""
    program = BUILD / "tests" / f"overhead.{mpi.name}"
    program.parent.mkdir(parents=True, exist_ok=True)
    run_command([mpi.compiler, "-O2", str(SOURCE), "-o", str(program)], Path("/")).ok()
    return program


def measure(mpi: Mpi, program: Path, variant: str, threads: bool) -> float:
    """Nanoseconds of the fastest batch of one run."""
    environment = {"LD_PRELOAD": str(mpi.library("record"))} if variant in {"recorded", "traced"} else {}
    if variant == "traced":
        environment["HOPBYTE_RECORD_TRACE"] = "1"
    options = ["--mca", "pml_monitoring_enable", "2"] if variant == "monitored" else []
    with tempfile.TemporaryDirectory() as folder:
        command = [*mpi.command(1, environment, options), str(program), str(BATCHES)]
        result = run_command(command + (["threads"] if threads else []), Path(folder)).ok()
    return float(result.out.split()[0])


def compare(mpi: Mpi, threads: bool, rounds: int) -> dict[str, object]:
    """All variants on one MPI; differences are of the smallest batches, with the spread of the rounds."""
    program = compile_program(mpi)
    variants = ["bare", "recorded", "traced", *(["monitored"] if mpi is OMPI else [])]
    runs: dict[str, list[float]] = {variant: [] for variant in variants}
    for _ in range(rounds):
        for variant in variants:
            runs[variant].append(measure(mpi, program, variant, threads))
    row: dict[str, object] = {"schema": "hopbyte-record-overhead 1", "mpi": mpi.name, "threads": threads}
    for variant in variants:
        row[f"{variant}_ns"] = round(min(runs[variant]), 1)
        if variant != "bare":
            row[f"{variant}_extra_ns"] = round(min(runs[variant]) - min(runs["bare"]), 1)
            extra = [a - b for a, b in zip(runs[variant], runs["bare"], strict=True)]
            row[f"{variant}_extra_median_ns"] = round(statistics.median(extra), 1)
    return row


def main() -> None:
    """Command line."""
    words = [word for word in sys.argv[1:] if word != "--json"]
    rounds = int(words[0]) if words else 7
    os.environ.setdefault("HOPBYTE_RECORD_DIR", "record")
    for mpi in ALL:
        for threads in (False, True):
            row = compare(mpi, threads, rounds)
            if "--json" in sys.argv:
                print(json.dumps(row))
                continue
            peers = "" if mpi is not OMPI else f", Open MPI monitoring +{row['monitored_extra_ns']} ns"
            print(
                f"{mpi.name}{' MPI_THREAD_MULTIPLE' if threads else ''}: bare {row['bare_ns']} ns a message, "
                f"recorded +{row['recorded_extra_ns']} ns (target {TARGET_NS:.0f}), "
                f"traced +{row['traced_extra_ns']} ns{peers}"
            )


if __name__ == "__main__":
    main()
