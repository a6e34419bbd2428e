#!/usr/bin/env python3
"""Run times of `predict` beside SimGrid's own replay of the same traces, on the same platforms and placements.

Both choose the algorithms of collectives as Open MPI does, each by its own tables. Links are shared max-min fairly on
both sides; computing takes no time, so that the network decides. Traces: all-to-alls of unequal blocks written here,
and the 32-rank trace of SimGrid's own examples if it is beside the checkout (see crates/testdata).

    tests/simgrid/predict.py target/release/hopbyte
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from replay import PLAIN, platform, replayed

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared"))
PUBLISHED = SHARED / "data/traces/simgrid-ti-32ranks.tar.zst"
RANKS = 32
PLATFORMS = [
    "torus:4x4x2:link=0.5,host=1",
    "torus:8x4:link=0.2,host=1",
    "fattree:down=8x4,up=1x4,link=0.5",
]
AGREE = 0.02
SPEED = "100000Gf"
OPTIONS = PLAIN | {"smpi/coll-selector": "ompi"}


def written(folder: Path) -> list[Path]:
    """A trace of two all-to-alls with unequal blocks, and of reductions."""
    files = []
    for rank in range(RANKS):
        blocks = [100_000 + 1000 * ((rank * other) % 7) for other in range(RANKS)]
        arriving = [100_000 + 1000 * ((rank * other) % 7) for other in range(RANKS)]
        words = [*("alltoallv", sum(blocks)), *blocks, sum(arriving), *arriving]
        exchange = " ".join(str(word) for word in words)
        lines = ["init 1", exchange, "allreduce 20000 0", exchange, "barrier", "finalize"]
        file = folder / f"rank-{rank}.txt"
        file.write_text("".join(f"{rank} {line}\n" for line in lines))
        files.append(file)
    return files


def published(folder: Path) -> list[Path] | None:
    """The files of the published trace, by rank."""
    if not PUBLISHED.is_file():
        return None
    subprocess.run(["tar", "--use-compress-program=zstd", "-xf", str(PUBLISHED), "-C", str(folder)], check=True)
    number = re.compile(r"(\d+)\.txt$")
    files = [f for f in folder.rglob("*.txt") if number.search(f.name)]
    return sorted(files, key=lambda f: int(number.search(f.name).group(1)))  # type: ignore[union-attr]


def seconds() -> float:
    """Processor time of the programs that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(folder: Path, hopbyte: str, files: list[Path], fabric: str, hosts: list[str]) -> float:
    """Predicted seconds."""
    placement = folder / "placement.csv"
    placement.write_text("rank,node\n" + "".join(f"{rank},{host}\n" for rank, host in enumerate(hosts)))
    command = [hopbyte, "--json", "predict", str(files[0].parent), "--fabric", fabric]
    command += ["--placement", str(placement), "--operations-per-second", "1e14", "--collectives", "openmpi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return float(json.loads(done.stdout)["placements"][-1]["seconds"])


def main() -> None:
    hopbyte = str(Path(sys.argv[1]).resolve())
    worst = 0.0
    print(f"{'trace':<10} {'platform':<34} {'SimGrid s':>10} {'predict s':>10} {'apart':>8} {'CPU s':>7} {'CPU s':>7}")
    for name, make in (("written", written), ("published", published)):
        with tempfile.TemporaryDirectory() as scratch:
            folder, traces = Path(scratch) / "run", Path(scratch) / "trace"
            folder.mkdir(), traces.mkdir()
            files = make(traces)
            if files is None:
                print(f"{name:<10} skipped: {PUBLISHED.name} is not beside the checkout")
                continue
            for fabric in PLATFORMS:
                hosts = platform(folder, hopbyte, fabric, "speed", SPEED)[:RANKS]
                trace = folder / "list"
                trace.write_text("\n".join(str(f) for f in files) + "\n")
                begin = seconds()
                theirs = replayed(folder, hosts, trace, OPTIONS)
                between = seconds()
                mine = ours(folder, hopbyte, files, fabric, hosts)
                apart = mine / theirs - 1.0
                worst = max(worst, abs(apart))
                print(
                    f"{name:<10} {fabric:<34} {theirs:>10.5f} {mine:>10.5f} {apart:>+8.2%}"
                    f" {between - begin:>7.2f} {seconds() - between:>7.2f}"
                )
    if worst > AGREE:
        sys.exit(f"more than {AGREE:.0%} apart")


if __name__ == "__main__":
    main()
