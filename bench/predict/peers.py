"""The same traces in other people's simulators: SimGrid's replay, LogGOPSim, and htsim (both from spcl/atlahs).

SimGrid's `smpirun` has to be in the path; `LogGOPSim`, `txt2bin` and `htsim_uec` in the folder of `--peers` (built by their
own make). What is absent is said and left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import trace as traces
from dataclasses import dataclass
from pathlib import Path

import goal
from commands import checked, run, used

PAYLOAD, FRAME = 1448, 1514
LIMIT_SECONDS = 60
ENDED = r"Maximum finishing time at host \d+: (\d+)"
# htsim's links have whole Gbit/s: times are this much shorter there than on links of 10 Mbit/s.
FASTER = 100
# One tier of four switches with four hosts and two up-links each, as in `fattree:down=4x4,up=1x2`.
FAT_TREE = """Nodes 16
Tiers 2
Podsize 16
Tier 0
Downlink_speed_Gbps 1
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns {latency}
Switch_Latency_ns 0
Oversubscribed 2
Tier 1
Downlink_speed_Gbps 1
Radix_Down 4
Downlink_Latency_ns {latency}
Switch_Latency_ns 0
"""
Found = tuple[dict[str, float], float]


@dataclass
class Rates:
    """Seconds: of a small message, of it without overheads, of an overhead; bytes sent without waiting; bits per second."""

    message: float
    latency: float
    overhead: float
    eager: float
    bits_per_second: float


def replay(command: list[str], ended: str, folder: Path, what: str, events: int | None = None) -> float | None:
    """The number that a simulator prints at its end; none if it did not handle so many events."""
    try:
        done = run(*command, seconds=LIMIT_SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        print(f"{what}: no end in {LIMIT_SECONDS} s", file=sys.stderr)
        return None
    said = done.stdout + done.stderr
    found = re.findall(ended, said)
    handled = re.search(r"Events: (\d+)", said)
    if done.returncode or not found or (events and (not handled or int(handled[1]) != events)):
        print(f"{what}: {handled[0] if handled else said[-300:]}, expected {events or 'an end'}", file=sys.stderr)
        return None
    return max(float(number) for number in found)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def simgrid(platform: str, record: Path, placements: dict[str, list[str]], rates: Rates, folder: Path) -> Found:
    """Times by SMPI's model with Open MPI's algorithms, the eager limit, the measured latency divided among a route's links, and
    the frames' share of the links; and processor seconds for each. SimGrid 3.32 ends some replays of collective calls with an
    invalid pointer: these are repeated with messages in their place."""
    fresh(folder)
    text = re.sub(r'speed="[^"]*"', f'speed="{traces.SPEED:.0f}f"', platform)
    text = re.sub(r'latency="[^"]*"', f'latency="{rates.message / 4}s"', text)
    text = re.sub(r'bandwidth="([\d.eE+]+)(\w*)"', lambda m: f'bandwidth="{float(m[1]) * PAYLOAD / FRAME}{m[2]}"', text)
    (folder / "platform.xml").write_text(text)
    options = {
        "smpi/async-small-thresh": f"{rates.eager:.0f}", "smpi/send-is-detached-thresh": f"{rates.eager:.0f}",
        "smpi/host-speed": "1Gf", "smpi/coll-selector": "ompi", "smpi/display-timing": "yes", "network/TCP-gamma": "4194304",
        "smpi/bw-factor": "0:1", "smpi/lat-factor": "0:1",
    }  # fmt: skip
    for small in (traces.SMALL, traces.ALL):
        (folder / "trace").mkdir(exist_ok=True)
        files = traces.write(record, folder / "trace", small)
        (folder / "list").write_text("".join(f"{file}\n" for file in files))
        before = used()
        found = replays(record, placements, options, folder)
        if found:
            return found, (used() - before) / len(found)
    return {}, 0.0


def replays(record: Path, placements: dict[str, list[str]], options: dict[str, str], folder: Path) -> dict[str, float]:
    """Times of SimGrid's replays of what is in the folder."""
    found: dict[str, float] = {}
    for name, nodes in placements.items():
        (folder / "hosts").write_text("".join(f"{node}\n" for node in nodes))
        command = ["smpirun", "-np", str(len(nodes)), "-platform", "platform.xml", "-hostfile", "hosts"]
        command += [*(f"--cfg={key}:{value}" for key, value in options.items()), "-replay", "list"]
        ended = replay(command, r"Simulated time: ([\d.e+-]+) seconds", folder, f"SimGrid, {record.name}")
        if ended is None:
            break
        found[name] = ended
    return found


def schedule(binaries: Path, record: Path, folder: Path, **more: object) -> Path:
    (folder / "goal").unlink(missing_ok=True)
    goal.write(record, folder / "text", **more)  # type: ignore[arg-type]
    checked(binaries / "txt2bin", "-i", folder / "text", "-o", folder / "goal")
    return folder / "goal"


def loggopsim(binaries: Path, record: Path, placements: dict[str, list[str]], rates: Rates, folder: Path) -> Found:
    """The time of a network without links, which is the same for every placement."""
    file = schedule(binaries, record, fresh(folder))
    per_byte = 8e9 / rates.bits_per_second * FRAME / PAYLOAD
    command = [str(binaries / "LogGOPSim"), "-f", str(file), "-L", f"{rates.latency * 1e9:.0f}", "-o", f"{rates.overhead * 1e9:.0f}"]
    command += ["-g", "0", "-G", f"{per_byte:.3f}", "-S", f"{rates.eager:.0f}", "-b"]
    before = used()
    ended = replay(command, ENDED, folder, f"LogGOPSim, {record.name}")
    return (dict.fromkeys(placements, ended * 1e-9) if ended else {}), used() - before


def htsim(
    binaries: Path, record: Path, placements: dict[str, list[str]], all_nodes: list[str], rates: Rates, folder: Path
) -> Found:
    """Times on a fat tree by UEC's transport with its defaults, where all is FASTER than on the machine; a packet is always a
    whole frame. The delay of a link is the measured latency without the time of two frames. A run counts if it handles as many
    events as LogGOPSim."""
    topology = fresh(folder) / "topology"
    link = max(0.0, (rates.message - 4 * 8 * 80 / rates.bits_per_second) / 4 / FASTER)
    topology.write_text(FAT_TREE.format(latency=f"{link * 1e9:.0f}"))
    found: dict[str, float] = {}
    seconds = 0.0
    for name, nodes in placements.items():
        hosts = [all_nodes.index(node) for node in nodes]
        file = schedule(binaries, record, folder, hosts=hosts, faster=FASTER, wire=FRAME / PAYLOAD)
        counted = re.search(r"Events: (\d+)", checked(binaries / "LogGOPSim", "-f", file))
        command = [str(binaries / "htsim_uec"), "-topo", "topology", "-nodes", "16", "-goal", str(file), "-linkspeed", "1000"]
        command += ["-mtu", str(FRAME), "-q", str(100 * FRAME), "-strat", "ecmp_host", "-paths", "128", "-algorithm", "mprdma"]
        command += ["-kmin", "20", "-kmax", "80", "-queue_type", "composite", "-hop_latency", f"{link * 1e9:.0f}"]
        command += ["-switch_latency", "0", "-seed", "1", "-lgs_o", f"{rates.overhead / FASTER * 1e9:.0f}", "-lgs_O", "0", "-lgs_g", "0"]
        before = used()
        ended = replay(command, ENDED, folder, f"htsim, {record.name}", int(counted[1]) if counted else None)
        if ended is None:
            break
        seconds += used() - before
        found[name] = ended * FASTER * 1e-9
    return found, seconds / max(1, len(found))
