"""Machines for the faults: links and routes of their own, and their counters written as the files of real tools."""

from __future__ import annotations

import json
import random
import subprocess
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

WINDOW = 4000
TYPE = ":MQM8700/U1"


@dataclass
class Machine:
    """Routers, links and nodes as ``hopbyte fabric convert --to json`` gives them, and routes computed here."""

    name: str
    files: str  # rows: hopbyte links --json; ldms: store_csv; mads: hopbyte-mads
    words: list[str] = field(default_factory=list)
    text: str = ""
    tables: str = ""

    def read(self, hopbyte: Path) -> None:
        """Reads the machine's links."""
        done = subprocess.run(
            [hopbyte, "--quiet", "fabric", "convert", *self.words, "--to", "json"], check=True, capture_output=True
        )
        data = json.loads(done.stdout)
        self.routers = [r["name"] for r in data["routers"]]
        self.coords = [tuple(r.get("coord", ())) for r in data["routers"]]
        self.dims = (data.get("shape") or {}).get("dims", [])
        self.family = data["family"]
        self.nodes = data["nodes"]
        self.links = data["links"]
        self.out: list[list[int]] = [[] for _ in self.routers]
        self.reverse: dict[int, int] = {}
        self.ends: dict[tuple[int, int], list[int]] = {}
        for i, link in enumerate(self.links):
            link["a"], link["b"] = link["from"].get("router", -1), link["to"].get("router", -1)
            link["hop"] = link["a"] >= 0 and link["b"] >= 0
            if link["hop"]:
                self.out[link["a"]].append(i)
                self.ends.setdefault((link["a"], link["b"]), []).append(i)
        for (a, b), ids in self.ends.items():
            # In a ring of two, X+ comes back as X-.
            def key(i: int, mine: bool) -> tuple:
                ports = self.links[i].get("ports", [])
                turned = self.links[i].get("direction", "").translate(str.maketrans("+-", "-+"))
                return (
                    [[p, q] if mine else [q, p] for p, q in ports],
                    turned if mine else self.links[i].get("direction", ""),
                )

            for i in ids:
                self.reverse[i] = next(j for j in self.ends[b, a] if key(j, False) == key(i, True))
        for n, node in enumerate(self.nodes):
            self.reverse[node["inject"]], self.reverse[node["eject"]] = node["eject"], node["inject"]
            node["id"] = n
        self.fastest = max(link["capacity_bytes_per_s"] for link in self.links)
        self.names = [self.link_name(i) for i in range(len(self.links))]
        self.by_lid: dict[int, dict[str, int]] = {}
        switch = ""
        for line in self.tables.splitlines():
            if line.startswith("Unicast lids"):
                switch = line.split("('")[1].split("')")[0]
            elif line.startswith("0x"):
                lid, port = line.split()[:2]
                self.by_lid.setdefault(int(lid, 16), {})[switch] = int(port)

    def end_name(self, end: dict[str, int]) -> str:
        if "node" in end:
            return str(self.nodes[end["node"]]["name"])
        return self.routers[end["router"]] if "router" in end else f"{self.routers[end['hosts']]} hosts"

    def link_name(self, i: int) -> str:
        """The name in reports."""
        link = self.links[i]
        if "direction" in link:
            return f"{self.routers[link['a']]} {link['direction']}"
        if "ports" in link:
            return f"{self.end_name(link['from'])}[{link['ports'][0][0]}]"
        return f"{self.end_name(link['from'])}->{self.end_name(link['to'])} host"

    def route(self, a: int, b: int) -> list[int]:
        """Links from a node to another."""
        source, target = self.nodes[a], self.nodes[b]
        way, at, end = [source["inject"]], source["router"], target["router"]
        if self.family in ("torus", "gemini"):
            for d, size in enumerate(self.dims):
                far = (self.coords[end][d] - self.coords[at][d]) % size
                sign, steps = ("+", far) if far <= size - far else ("-", size - far)
                for _ in range(steps):
                    name = f"{'XYZABC'[d]}{sign}"
                    link = next(i for i in self.out[at] if self.links[i]["direction"] == name)
                    way.append(link)
                    at = self.links[link]["b"]
        elif self.by_lid:
            lid = self.lids[b]
            while at != end:
                port = self.by_lid[lid][self.plain[at]]
                link = next(i for i in self.out[at] if self.links[i]["ports"][0][0] == port)
                way.append(link)
                at = self.links[link]["b"]
        elif self.family == "dragonfly":
            way += self.between_groups(at, end)
        else:
            way += self.shortest(at, end, None)
        return [*way, target["eject"]]

    def between_groups(self, start: int, end: int) -> list[int]:
        """Over a cable between the two groups: a shorter way may cross a third group."""

        def group(r: int) -> str:
            return self.routers[r].split("-")[0]

        if start == end:
            return []
        if group(start) == group(end):
            return [min(self.ends[start, end])]
        crossing = [i for i, link in enumerate(self.links) if link["hop"] and group(link["a"]) == group(start)]
        crossing = [i for i in crossing if group(self.links[i]["b"]) == group(end)]
        ways = []
        for i in crossing:
            near, far = self.links[i]["a"], self.links[i]["b"]
            ways.append([*self.between_groups(start, near), i, *self.between_groups(far, end)])
        return min(ways, key=lambda w: (len(w), w))

    def shortest(self, start: int, end: int, draw: random.Random | None) -> list[int]:
        """A shortest way between routers: over the lowest links, or drawn."""
        far = {end: 0}
        queue = deque([end])
        while queue and start not in far:
            r = queue.popleft()
            for i in self.out[r]:
                if self.links[i]["b"] not in far:
                    far[self.links[i]["b"]] = far[r] + 1
                    queue.append(self.links[i]["b"])
        way, at = [], start
        while at != end:
            nearer = [i for i in self.out[at] if far.get(self.links[i]["b"], 1 << 30) < far[at]]
            link = draw.choice(nearer) if draw else min(nearer)
            way.append(link)
            at = self.links[link]["b"]
        return way


def load(hopbyte: Path, name: str, files: str, folder: Path) -> Machine:
    """A machine of a spec; InfiniBand as the output of ibnetdiscover with forwarding tables."""
    machine = Machine(name, files, [name])
    if files == "mads":
        convert = [hopbyte, "--quiet", "fabric", "convert", name, "--to"]
        text = subprocess.run([*convert, "ibnetdiscover"], check=True, capture_output=True, text=True).stdout
        machine.tables = subprocess.run([*convert, "lfts"], check=True, capture_output=True, text=True).stdout
        switches = [line.split('"')[3] for line in text.splitlines() if line.startswith("Switch")]
        parts = text.split('"')
        known = set(switches)
        # Descriptions as of managed switches, which name the type: the tick of PortXmitWait follows from it.
        parts = [f"MF0;{p}{TYPE}" if p in known else p for p in parts]
        machine.text = '"'.join(parts)
        stem = folder / name.replace(":", "_").replace(",", "_").replace("=", "_")
        stem.with_suffix(".txt").write_text(machine.text)
        stem.with_suffix(".lfts").write_text(machine.tables)
        machine.words = [str(stem.with_suffix(".txt")), "--routes", str(stem.with_suffix(".lfts"))]
    finish(hopbyte, machine)
    return machine


def finish(hopbyte: Path, machine: Machine) -> None:
    machine.read(hopbyte)
    machine.plain = [r.removeprefix("MF0;").removesuffix(TYPE) for r in machine.routers]
    machine.lids, machine.guids = [], {}
    lids: dict[str, int] = {}
    for section in machine.text.split("\n\n"):
        lines = section.splitlines()
        head = next((line for line in lines if line.startswith(("Switch", "Ca"))), None)
        if head is None:
            continue
        kind, guid, name = head.split('"')[0][:2], head.split('"')[1].split("-")[1], head.split('"')[3]
        machine.guids[name] = guid
        if kind == "Ca":
            port = next(line for line in lines if line.startswith("[1]"))
            lids[name] = int(port.split("# lid ")[1].split()[0])
    machine.lids = [lids.get(node["name"], 0) for node in machine.nodes]


def swapped(machine: Machine, a: int, b: int) -> str:
    """The text with the far ends of two cables exchanged."""
    lines, section, at = machine.text.splitlines(), "", {}
    for n, line in enumerate(lines):
        if line.startswith(("Switch", "Ca")):
            section = line.split('"')[3]
        if line.startswith("["):
            at[section, int(line[1 : line.index("]")])] = n

    def place(i: int) -> int:
        link = machine.links[i]
        return at[machine.routers[link["a"]], link["ports"][0][0]]

    for x, y in ((a, b), (machine.reverse[a], machine.reverse[b])):
        x, y = place(x), place(y)
        (own_x, peer_x), (own_y, peer_y) = lines[x].split("]", 1), lines[y].split("]", 1)
        lines[x], lines[y] = f"{own_x}]{peer_y}", f"{own_y}]{peer_x}"
    return "\n".join(lines) + "\n"


class Writer:
    """Counters of a window as files."""

    def __init__(self, machine: Machine, counts: list[list[int]], lanes: dict[int, int], draw: random.Random) -> None:
        self.machine, self.counts, self.lanes, self.draw = machine, counts, lanes, draw
        # 32 bits of PortXmitWait are full after 1.4 s.
        self.seconds = 1.0 if machine.files == "mads" else 10.0
        self.bytes = machine.fastest * self.seconds / WINDOW

    def errors(self, i: int) -> int:
        """With those that a healthy link has now and then."""
        return self.counts[i][4] + (self.draw.randrange(50) == 0) * self.draw.randint(1, 2)

    def write(self, folder: Path) -> list[str]:
        return {"rows": self.rows, "ldms": self.ldms, "mads": self.mads}[self.machine.files](folder)

    def rows(self, folder: Path) -> list[str]:
        rows = []
        for i, (packets, input_stall, credit_stall, *_rest) in enumerate(self.counts):
            link, skew = self.machine.links[i], self.draw.gauss(1, 0.003)
            name = self.machine.names[i]
            rows.append(
                {
                    "schema": "hopbyte.link/1",
                    "link": name,
                    "received_bytes": packets * self.bytes * skew,
                    "packets": round(packets * skew),
                    "input_stall_ratio": min(1, input_stall / WINDOW * self.draw.gauss(1, 0.02)),
                    "credit_stall_ratio": min(1, credit_stall / WINDOW * self.draw.gauss(1, 0.02)),
                    "errors": self.errors(i),
                    "lanes": self.lanes.get(i, link["lanes"]),
                }
            )
        rows.append({"schema": "hopbyte.link/1", "summary": {"window_seconds": self.seconds}})
        file = folder / "links.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)) + "\n")
        return [str(file)]

    def ldms(self, folder: Path) -> list[str]:
        directions = ["X+", "X-", "Y+", "Y-", "Z+", "Z-"]
        metrics = [
            "traffic (B)",
            "packets (1)",
            "inq_stall (ns)",
            "credit_stall (ns)",
            "sendlinkstatus (1)",
            "recvlinkstatus (1)",
        ]
        head = "#Time,Time_usec,ProducerName,component_id," + ",".join(f"{d}_{m}" for d in directions for m in metrics)
        machine, first, second = self.machine, [], []
        hosts: dict[int, dict[str, object]] = {}
        for node in machine.nodes:
            hosts.setdefault(node["router"], node)
        for r in range(len(machine.routers)):
            begin, length = 1000 + 0.01 * self.draw.random(), self.seconds + self.draw.gauss(0, 0.01)
            by_direction = {machine.links[i]["direction"]: i for i in machine.out[r]}
            early, late = [], []
            for d in directions:
                values = [0.0] * 6
                if d in by_direction:
                    out = by_direction[d]
                    into = machine.reverse[out]
                    tiles = len(machine.links[out].get("ports", [0]))
                    ns = self.seconds * 1e9 * tiles / WINDOW
                    up = [self.lanes.get(i, machine.links[i]["lanes"]) for i in (out, into)]
                    c = self.counts
                    values = [c[into][0] * self.bytes, c[into][0], c[into][1] * ns, c[out][2] * ns, *up]
                for m, value in enumerate(values):
                    base = self.draw.randrange(10**15) if m < 4 else int(value)
                    early.append(base)
                    late.append(base + int(value * length / self.seconds) if m < 4 else base)
            for rows, time, numbers in ((first, begin, early), (second, begin + length, late)):
                rows.append(
                    f"{time:.6f},{int(time * 1e6) % 1000000},{hosts[r]['host']},{r}," + ",".join(map(str, numbers))
                )
        file = folder / "links.csv"
        file.write_text("\n".join([head, *first, *second]) + "\n")
        return [str(file)]

    def mads(self, folder: Path) -> list[str]:
        machine = self.machine
        ports: dict[tuple[str, int], list[int]] = {}
        for i, link in enumerate(machine.links):
            packets, _, _, wait, *_rest = self.counts[i]
            near, far = link["ports"][0]
            words = int(packets * self.bytes / 4)
            ticks = int(wait / WINDOW * self.seconds * link["capacity_bytes_per_s"] / 8)
            sender = ports.setdefault((machine.end_name(link["from"]), near), [0] * 6)
            sender[0], sender[2], sender[4] = words, packets, ticks
            receiver = ports.setdefault((machine.end_name(link["to"]), far), [0] * 6)
            receiver[1], receiver[3], receiver[5] = words, packets, self.errors(i)
        names = ["PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortXmitWait", "SymbolErrorCounter"]
        zeros = ["PortRcvErrors", "PortXmitDiscards", "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors"]
        zeros += ["PortXmitConstraintErrors", "PortRcvConstraintErrors", "PortUnicastXmitPkts"]
        rest = " ".join(f"[{n} == 0]" for n in zeros)
        texts: tuple[list[str], list[str]] = ([], [])
        for text, later in zip(texts, (0, 1), strict=True):
            draw, device = random.Random(7), ""
            for (name, port), values in sorted(ports.items()):
                base = [draw.randrange(1 << 40) for _ in range(4)] + [draw.randrange(1 << 20), draw.randrange(9)]
                skew = draw.gauss(1, 0.003)
                now = [b + later * int(v * skew) for b, v in zip(base, values, strict=True)]
                guid = machine.guids[name]
                if name != device:
                    text.append(f'Data Counters for 0x{guid} "{name}"')
                    device = name
                shown = " ".join(f"[{n} == {v}]" for n, v in zip(names, now, strict=True))
                text.append(f"   GUID 0x{guid} port {port}: {shown} {rest}")
            text += [
                "",
                "## Summary: 1 nodes checked, 0 bad nodes found",
                "##          1 ports checked, 0 requests unanswered",
            ]
        files = [folder / "reading1", folder / "reading2"]
        for file, text in zip(files, texts, strict=True):
            file.write_text("\n".join(text) + "\n")
        return [*map(str, files), "--interval", str(self.seconds)]
