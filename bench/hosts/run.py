#!/usr/bin/env python3
"""Rank orders of AI jobs on hosts with GPUs: `make bench-hosts`.

For every machine and training plan the time of the worst link, inner links included, in the orders that users have
(hosts in natural order, in string order as torchrun sorts them, shuffled), of hopbyte's
map with a number of trials, and its proven bound. Prints the table and writes it to bench/results/hosts.json and
bench/results/hosts.md. Ends with an error if an order is better than the map, or if a tensor-parallel group that
fits into a unit of hosts (a host, an NVLink domain) is not in one.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GPUS = 128
NVL72 = "fattree:down=72x8,up=1x72,rails=4,link=50,hosts=gb200-nvl72"
XGMI = "fattree:down=32x8,up=1x32,rails=8,link=50,hosts=mi300x"
PLANS = [
    "dp=16,tp=8,pp=1", "dp=8,tp=8,pp=2", "dp=4,tp=8,pp=4", "dp=2,tp=8,pp=8", "dp=1,tp=8,pp=16",
    "dp=32,tp=4,pp=1", "dp=16,tp=4,pp=2", "dp=8,tp=4,pp=4", "dp=4,tp=4,pp=8", "dp=64,tp=2,pp=1",
    "dp=16,tp=2,pp=4", "dp=128,tp=1,pp=1", "dp=8,tp=1,pp=16", "dp=16,tp=8,pp=1,ep=8",
    "dp=32,tp=4,pp=1,ep=16", "dp=64,tp=1,pp=2,ep=8", "dp=128,tp=1,pp=1,ep=64",
    "dp=16,tp=2,pp=4,ep=16", "dp=32,tp=1,pp=4,ep=32", "dp=64,tp=2,pp=1,ep=64",
]  # fmt: skip


@dataclass
class Machine:
    """A machine, and the hosts of an allocation in natural order."""

    name: str
    fabric: str
    hosts: list[str]
    """Hosts of a unit, and GPUs of a host."""
    unit: int
    gpus: int


@dataclass
class Row:
    """Times in milliseconds."""

    machine: str
    plan: str
    natural_ms: float
    string_ms: float
    shuffled_ms: float
    map_ms: float
    bound_ms: float
    map_seconds: float
    groups_in_units: bool | None


def machines() -> list[Machine]:
    """Whole rows of hosts, and fragments of them."""
    some = random.Random(1)
    rails = [f"h{i}" for i in range(128)]
    scattered = sorted(some.sample(range(128), 16))
    racks = [i for i in range(144) if some.random() < 0.5][:32]
    return [
        Machine("gpu-rails", "gpu-rails", rails[:16], 1, 8),
        Machine("gpu-rails, scattered", "gpu-rails", [rails[i] for i in scattered], 1, 8),
        Machine("MI300X", XGMI, [f"h{i}" for i in range(16)], 1, 8),
        Machine("NVL72, fragments", NVL72, [f"h{i}" for i in racks], 18, 4),
    ]


def run(hopbyte: str, machine: Machine, plan: str, hosts: list[str], trials: int) -> dict:
    """The certificate of a map."""
    command = [hopbyte, "--quiet", "--json", "map", f"plan:{plan}", "--fabric", machine.fabric]
    command += ["--nodes", ",".join(hosts), "--trials", str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def grouped(machine: Machine, plan: str, placement: list[str]) -> bool | None:
    """Whether every tensor-parallel group is in a unit; None if not all of them fit."""
    size = int(re.search(r"tp=(\d+)", plan)[1])
    unit = {h: int(h[1:]) // machine.unit for h in machine.hosts}
    rooms: dict[int, int] = {}
    for host in machine.hosts:
        rooms[unit[host]] = rooms.get(unit[host], 0) + machine.gpus
    if sum(room // size for room in rooms.values()) * size < len(placement):
        return None
    of = [unit[re.match(r"h\d+", name)[0]] for name in placement]
    return all(len(set(of[i : i + size])) == 1 for i in range(0, len(of), size))


def row(hopbyte: str, machine: Machine, plan: str, trials: int) -> Row:
    """One line of the table."""
    ms = lambda cost: cost["worst_link_seconds"] * 1e3  # noqa: E731
    shuffled = machine.hosts[:]
    random.Random(7).shuffle(shuffled)
    found = run(hopbyte, machine, plan, machine.hosts, trials)
    in_order = lambda hosts: ms(run(hopbyte, machine, plan, hosts, 0)["baseline"])  # noqa: E731
    return Row(
        machine.name, plan, ms(found["baseline"]), in_order(sorted(machine.hosts)),
        in_order(shuffled), ms(found["result"]), ms(found["bound"]),
        found["wall_seconds"], grouped(machine, plan, found["placement"]),
    )  # fmt: skip


def main() -> None:
    """Runs all problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hopbyte", default=str(ROOT / "target/release/hopbyte"))
    parser.add_argument("--trials", type=int, default=60_000)
    parser.add_argument("--plans", type=int, default=len(PLANS))
    options = parser.parse_args()
    rows, wrong = [], []
    lines = [
        "| machine | plan | natural ms | string sort ms | shuffled ms | map ms | bound ms | map / bound |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for machine in machines():
        for plan in PLANS[: options.plans]:
            r = row(options.hopbyte, machine, plan, options.trials)
            rows.append(r)
            if r.map_ms > min(r.natural_ms, r.string_ms, r.shuffled_ms) * (1 + 1e-9):
                wrong.append(f"{r.machine} {r.plan}: an order is better than the map")
            if r.groups_in_units is False:
                wrong.append(f"{r.machine} {r.plan}: a tensor-parallel group leaves its unit")
            ratio = f"{r.map_ms / r.bound_ms:.2f}" if r.bound_ms > 0 else "–"
            times = [r.natural_ms, r.string_ms, r.shuffled_ms, r.map_ms, r.bound_ms]
            cells = " | ".join(f"{t:.2f}" for t in times)
            lines.append(f"| {r.machine} | {r.plan} | {cells} | {ratio} |")
            print(lines[-1], flush=True)
    near = sum(r.map_ms <= 1.05 * r.bound_ms for r in rows)
    lines += ["", f"{near} of {len(rows)} maps are at most 5 % above the bound.", *wrong]
    results = ROOT / "bench/results"
    (results / "hosts.md").write_text("\n".join(lines) + "\n")
    (results / "hosts.json").write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    print("\n".join(lines[-1 - len(wrong) :]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
