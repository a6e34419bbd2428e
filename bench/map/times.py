"""Time of a map's exchange: flows, packets and SimGrid, each bounded by a time limit. Used by run.py."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 30
# Packets times links crossed: some ten seconds. Larger exchanges are simulated with a share of their bytes.
PACKET_HOPS = 1e7


@dataclass
class Times:
    """Microseconds from the start of all messages to the end of the last one; None if there is no such run."""

    fluid_us: float | None = None
    packet_us: float | None = None
    simgrid_us: float | None = None
    packet_share: float | None = None  # of the bytes that were simulated packet by packet


def simgrid(folder: Path) -> Path | None:
    """The program with SimGrid, built; None without SimGrid or a compiler."""
    source, program = HERE / "simgrid.cpp", folder / "simgrid_map"
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    command = ["g++", "-O2", "-std=c++17", str(source), "-o", str(program), "-lsimgrid"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    if done.returncode:
        print("without SimGrid: apt-get install libsimgrid-dev", file=sys.stderr)
        return None
    return program


def answer(*command: object) -> dict[str, float]:
    """The JSON line that a program prints within the limit; empty if it has none."""
    words = ["timeout", str(LIMIT_SECONDS), *map(str, command)]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else {}


def of(ours: str, program: Path | None, problem: str, hosts: Path) -> Times:
    """All times of a map of a problem: a host a line."""
    packets = answer(ours, "packets", problem, hosts, PACKET_HOPS)
    times = Times(answer(ours, "fluid", problem, hosts).get("us"), packets.get("us"), None, packets.get("share"))
    routes = hosts.with_suffix(".routes")
    if program and subprocess.run([ours, "routes", problem, str(hosts), str(routes)], check=False).returncode == 0:
        times.simgrid_us = answer(program, routes, "--log=root.thres:critical").get("us")
        routes.unlink()
    return times
