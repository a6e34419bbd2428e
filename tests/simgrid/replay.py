#!/usr/bin/env python3
"""A time-independent trace in SimGrid's own replay and in `model run`, on one platform: the same time.

The platform is the output of `fabric convert`. SimGrid shares links max-min fairly (CM02); latencies and library
overheads are off in both, so that the program itself remains: dependencies between ranks, computing, message sizes,
and the messages of collectives. Messages wait for their receivers on both sides.

    tests/simgrid/replay.py target/release/hopbyte
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FABRIC = "torus:4x2x2:link=3.0,host=2.0"
SPEED = 1e9
GRID = (4, 2, 2)
RANKS = 16
AGREE = 1e-6
# Fair shares of links alone: no protocol, no loopback, messages wait for their receivers.
PLAIN = {
    "network/model": "CM02", "network/TCP-gamma": "0", "network/crosstraffic": "0", "network/loopback-bw": "1e15",
    "network/loopback-lat": "0", "smpi/async-small-thresh": "0", "smpi/send-is-detached-thresh": "0",
    "smpi/display-timing": "yes",
}  # fmt: skip
OPTIONS = PLAIN | {
    "smpi/allreduce": "rdb", "smpi/bcast": "binomial_tree", "smpi/barrier": "ompi_recursivedoubling",
    "smpi/host-speed": "1Gf",
}  # fmt: skip


def neighbours(rank: int) -> list[int]:
    """Ranks next to it on a periodic grid, each once."""
    x, y, z = rank // 4, rank // 2 % 2, rank % 2
    found = []
    for dim, size in enumerate(GRID):
        for step in (1, -1):
            at = [x, y, z]
            at[dim] = (at[dim] + step) % size
            other = at[0] * 4 + at[1] * 2 + at[2]
            if other not in found and other != rank:
                found.append(other)
    return found


def program(rank: int) -> list[str]:
    """Three rounds of a halo exchange with computing, a sum, and a broadcast at the end."""
    lines = ["init"]
    for step in range(3):
        around = neighbours(rank)
        for other in around:
            lines.append(f"irecv {other} {step} {size(other, rank)} 1")
        lines.append(f"compute {4e8 * (1 + (7 * rank + step) % 5)}")
        for other in around:
            lines.append(f"isend {other} {step} {size(rank, other)} 1")
        lines.append("waitall")
        lines.append("allreduce 8 0 1")
    lines += ["bcast 2048 0 1", "finalize"]
    return lines


def size(a: int, b: int) -> int:
    """Bytes of a message: different for any two pairs of neighbours."""
    return 80_000_000 + 4_000_000 * a + 548_000 * b


def write(folder: Path) -> None:
    """The trace, one file per rank, with SimGrid's file names."""
    names = []
    for rank in range(RANKS):
        name = folder / f"rank-{rank}.txt"
        name.write_text("".join(f"{rank} {line}\n" for line in program(rank)))
        names.append(str(name))
    (folder / "trace.txt").write_text("\n".join(names) + "\n")


def platform(folder: Path, hopbyte: str, fabric: str, attribute: str, value: str) -> list[str]:
    """Writes SimGrid's platform with one value of an attribute; its hosts."""
    path = folder / "platform.xml"
    path.unlink(missing_ok=True)
    convert = [hopbyte, "--quiet", "fabric", "convert", fabric, "--to", "simgrid", "--out", str(path)]
    subprocess.run(convert, check=True)
    text = re.sub(rf'{attribute}="[^"]*"', f'{attribute}="{value}"', path.read_text())
    path.write_text(text)
    return re.findall(r'<host id="([^"]+)"', text)


def replayed(folder: Path, hosts: list[str], trace: Path, options: dict[str, str]) -> float:
    """Simulated seconds of SimGrid's replay of the ranks on these hosts."""
    (folder / "hosts").write_text("\n".join(hosts) + "\n")
    command = ["smpirun", "-np", str(len(hosts)), "-platform", str(folder / "platform.xml")]
    command += ["-hostfile", str(folder / "hosts")]
    command += [f"--cfg={key}:{value}" for key, value in options.items()]
    command += ["-replay", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    found = re.search(r"Simulated time: ([\d.e+-]+) seconds", done.stdout + done.stderr)
    if done.returncode or not found:
        sys.exit(f"SimGrid failed: {done.stdout}{done.stderr}")
    return float(found.group(1))


def simgrid(folder: Path, hopbyte: str) -> float:
    """Simulated seconds of SimGrid."""
    # Links without latency: SimGrid gives flows with a longer way a smaller share otherwise.
    hosts = platform(folder, hopbyte, FABRIC, "latency", "0s")
    return replayed(folder, hosts[:RANKS], folder / "trace.txt", OPTIONS)


def ours(folder: Path, hopbyte: str) -> float:
    """Simulated seconds of the flow model."""
    scenario = folder / "scenario.toml"
    scenario.write_text(
        f'schema = "hopbyte.scenario/1"\nname = "replay"\nfabric = "{FABRIC}"\nnetwork = "plain"\npoint.latency = 0.0\n'
        "parameters.eager_bytes = 0.0\n"
        f'[job]\nworkload.trace = {{ file = "{folder}/rank-*.txt", operations_per_s = {SPEED} }}\n'
    )
    command = [hopbyte, "--json", "model", "run", str(scenario)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return float(json.loads(done.stdout)["time_seconds"])


def main() -> None:
    hopbyte = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        theirs, mine = simgrid(folder, hopbyte), ours(folder, hopbyte)
    apart = abs(theirs - mine) / theirs
    print(f"replay of {RANKS} ranks: SimGrid {theirs:.9g} s, hopbyte {mine:.9g} s, {apart:.1e} apart")
    if apart > AGREE:
        sys.exit(f"more than {AGREE} apart")


if __name__ == "__main__":
    main()
