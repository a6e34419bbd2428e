#!/usr/bin/env python3
"""Recomputes the cost of a placement on an InfiniBand fabric from the raw dumps.

Shares no code with hopbyte and uses the standard library only: it reads `ibnetdiscover` (both forms),
the forwarding tables of `ibroute` or OpenSM, a dense traffic matrix and a placement, walks every message
through the tables and adds up.

usage: recount.py --subnet FILE --routes FILE_OR_FOLDER --traffic FILE --placement FILE
                  [--certificate FILE [--field result]] [--wire infiniband]

A placement is netloc's resources.txt, an Open MPI rankfile, a file with a host for each rank, or CSV
`rank,node[,slot]`. Prints one JSON object. With a certificate (output of `hopbyte map --json`) it
compares and exits with 1 where a value differs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

# Data rate of four lanes in bytes per second: 32 Gbit/s for QDR after 8b/10b, and so on.
FOUR_LANES = {
    "SDR": 1e9, "DDR": 2e9, "QDR": 4e9, "FDR10": 5e9, "FDR": 54.54e9 / 8,
    "EDR": 12.5e9, "HDR": 25e9, "NDR": 50e9, "XDR": 100e9,
}  # fmt: skip
PORT_LINE = re.compile(
    r"(CA|SW)\s+(\d+)\s+(\d+)\s+0x[0-9a-f]+\s+(\d+)x\s+(\w+)"
    r"\s+-\s+(CA|SW)\s+(\d+)\s+(\d+)\s+0x[0-9a-f]+\s+\(\s*'(.*)' - '(.*)'\s*\)"
)
NODE_LINE = re.compile(r'(Switch|Ca)\s+\d+ "[SH]-\w+"\s+# "(.*?)"(?:.*? lid (\d+))?')
CABLE_LINE = re.compile(
    r'\[(\d+)\]\S*\s+"([SH])-\w+"\[(\d+)\].*?# (?:lid (\d+) .*)?".*?" lid (\d+) (\d+)x(\w+)'
)
ENTRY = re.compile(r"0x([0-9a-fA-F]+)\s+(\d+)\s*[:#]")
# Packet overhead that a mapper for InfiniBand adds to a matrix without message counts, taken as messages of 1 MiB
# each: 24 bytes of headers for every 4,096 bytes, and 28 bytes of acknowledgement on the way back for each message.
LARGE = 1 << 20
THERE = {"payload": 1.0, "infiniband": (LARGE + 24 * LARGE // 4096) / LARGE}
BACK = {"payload": 0.0, "infiniband": 28 / LARGE}
COMPARED = ("worst_link_seconds", "hop_bytes", "average_dilation")


@dataclass
class Subnet:
    """Contents of the dumps."""

    peer: dict[tuple[int, int], tuple[str, int, int]] = field(default_factory=dict)
    rate: dict[tuple[int, int], float] = field(default_factory=dict)
    ports: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    tables: dict[int, dict[int, int]] = field(default_factory=dict)


def text_of(path: Path) -> str:
    """A file's text; .zst through the zstd program."""
    if path.suffix == ".zst":
        done = subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True)
        return done.stdout.decode(errors="replace")
    return path.read_text(errors="replace")


def read_subnet(path: Path, subnet: Subnet) -> None:
    """Cables and their rates: port lines (`-p`), or a block for each node."""
    name, lid = "", 0
    for line in text_of(path).splitlines():
        if node := NODE_LINE.match(line):
            name, lid = node[2], int(node[3] or 0)
        elif cable := CABLE_LINE.match(line):
            own = int(cable[4] or lid)
            end = (own, int(cable[1]))
            subnet.peer[end] = ("SW" if cable[2] == "S" else "CA", int(cable[5]), int(cable[3]))
            subnet.rate[end] = FOUR_LANES[cable[7]] * int(cable[6]) / 4
            if cable[4]:
                subnet.ports[name.split()[0]].append(end)
        if not (found := PORT_LINE.match(line)):
            continue
        kind, lid, port, width, speed, far_kind, far_lid, far_port, name, _ = found.groups()
        end = (int(lid), int(port))
        subnet.peer[end] = (far_kind, int(far_lid), int(far_port))
        subnet.rate[end] = FOUR_LANES[speed] * int(width) / 4
        if kind == "CA":
            subnet.ports[name.split()[0]].append(end)


def read_tables(path: Path, subnet: Subnet) -> None:
    """Forwarding tables, one or many to a file."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        table: dict[int, int] = {}
        for line in text_of(file).splitlines():
            if "of switch" in line:
                lid = re.search(r"Lid (\d+)", line)
                table = subnet.tables.setdefault(int(lid[1]), {}) if lid else {}
            elif entry := ENTRY.match(line):
                table[int(entry[1], 16)] = int(entry[2])


def walk(subnet: Subnet, start: tuple[int, int], target: int) -> list[tuple[int, int]]:
    """Sending ends of the cables from one channel adapter to the port with a LID."""
    cables = [start]
    kind, lid, _ = subnet.peer[start]
    while kind == "SW":
        end = (lid, subnet.tables[lid][target])
        cables.append(end)
        kind, lid, _ = subnet.peer[end]
        if len(cables) > 64:
            raise SystemExit(f"loop on the way to LID {target}")
    if lid != target:
        raise SystemExit(f"the tables lead to LID {lid} instead of {target}")
    return cables


def read_matrix(path: Path) -> list[list[float]]:
    """A dense matrix, whitespace or commas between numbers."""
    rows = [line.replace(",", " ").split() for line in text_of(path).splitlines()]
    return [[float(word) for word in row] for row in rows if row]


def read_placement(path: Path) -> list[str]:
    """Host of every rank."""
    text = text_of(path)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[0].split(" ")[0].isdigit():
        words = lines[0].split()
        hosts, at = words[1 : 1 + int(words[0])], 1 + int(words[0])
        slots = [int(word) for word in words[at : at + len(hosts)]]
        ranks = [int(word) for word in words[at + len(hosts) + 1 :: 2]]
        owners = [host for host, count in zip(hosts, slots, strict=True) for _ in range(count)]
        return [host for _, host in sorted(zip(ranks, owners, strict=True))]
    if lines[0].startswith("rank "):
        found = [re.match(r"rank (\d+)=(\S+) slot=", line) for line in lines]
        return [m[2] for m in sorted((m for m in found if m), key=lambda m: int(m[1]))]
    if lines[0].startswith("rank,node"):
        rows = sorted((line.split(",") for line in lines[1:]), key=lambda row: int(row[0]))
        return [row[1].split()[0] for row in rows]
    return lines


def recount(subnet: Subnet, matrix: list[list[float]], hosts: list[str], wire: str) -> dict[str, float]:
    """Worst link of the bytes on the wire; hop-bytes, average dilation and bytes off node of the payload."""
    load: dict[tuple[int, int], float] = defaultdict(float)
    hop_bytes = total = off_node = 0.0
    for source, row in enumerate(matrix):
        for target, size in enumerate(row):
            if source == target or size == 0:
                continue
            total += size
            if hosts[source] == hosts[target]:
                continue
            ends = [subnet.ports[hosts[rank]] for rank in (source, target)]
            if any(len(end) != 1 for end in ends):
                raise SystemExit(f"{hosts[source]} or {hosts[target]} is not one port")
            cables = walk(subnet, ends[0][0], ends[1][0][0])
            hop_bytes += size * len(cables)
            off_node += size
            for cable in cables:
                load[cable] += size * THERE[wire]
            if BACK[wire]:
                for cable in walk(subnet, ends[1][0], ends[0][0][0]):
                    load[cable] += size * BACK[wire]
    return {
        "worst_link_seconds": max((size / subnet.rate[c] for c, size in load.items()), default=0.0),
        "hop_bytes": hop_bytes,
        "average_dilation": hop_bytes / total if total else 0.0,
        "off_node_bytes": off_node,
    }


def main() -> int:
    """Recomputes, prints and compares."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("subnet", "routes", "traffic", "placement"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--field", default="result")
    parser.add_argument("--wire", choices=THERE, help="bytes on the wire (default: as in the certificate)")
    given = parser.parse_args()
    subnet = Subnet()
    read_subnet(given.subnet, subnet)
    read_tables(given.routes, subnet)
    certificate = json.loads(given.certificate.read_text()) if given.certificate else {}
    wire = given.wire or certificate.get("wire", {}).get("network", "payload")
    counted = recount(subnet, read_matrix(given.traffic), read_placement(given.placement), wire)
    print(json.dumps(counted))
    if not given.certificate:
        return 0
    claimed = certificate[given.field]
    wrong = [n for n in COMPARED if abs(counted[n] - claimed[n]) > 1e-9 * abs(claimed[n])]
    for name in wrong:
        print(f"{name}: certificate {claimed[name]}, counted {counted[name]}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
