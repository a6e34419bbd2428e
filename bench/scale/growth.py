#!/usr/bin/env python3
"""Time and memory as machines of every family double, and of whole machines: the second half of `make bench-scale`.

    python3 bench/scale/growth.py [HOPBYTE] [--families NAME…] [--no-whole]

For every family and size: `fabric check` (all routes walked, credit loops searched) and `map` of a seven-point stencil,
one rank a node, by a number of trials, with the default objective. A graph is random, 16 cables a router, written as
hopbyte's JSON. Each run has at most LIMIT_SECONDS; a refusal is shown with the time until it. Then commands on whole
machines, each with an aim. Tables go to bench/results/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/map"))
from page import RESULTS, into_page  # noqa: E402

LIMIT_SECONDS = 120
TRIALS = "100000"
FAMILIES = {
    "torus": [
        f"torus:{s}" for s in ("16x16x8", "16x16x16", "32x16x16", "32x32x16", "32x32x32", "64x32x32", "64x64x32")
    ],
    "Gemini": [
        f"gemini:{s}" for s in ("8x8x16", "16x8x16", "16x16x16", "16x16x32", "32x16x32", "32x32x32", "32x32x64")
    ],
    "fat tree": [
        f"fattree:down={a}x{a}x{b},up=1x{a}x{a}" for a, b in ((16, 8), (16, 16), (16, 32), (32, 16), (32, 32), (32, 64))
    ],
    "Aries": [f"aries:{g}x6x16" for g in (5, 10, 20, 40)],
    "dragonfly": [f"dragonfly:{g}x{a}:nodes=4" for g, a in ((32, 16), (64, 16), (64, 32), (128, 32), (256, 32))],
    "Slingshot": [f"slingshot:{g}x{a}" for g, a in ((8, 16), (16, 16), (32, 16), (32, 32), (64, 32), (128, 32))],
    "HyperX": [f"hyperx:{s}:nodes=4" for s in ("8x8x8", "16x8x8", "16x16x8", "16x16x16", "32x16x16")],
    "graph": ["256", "512", "1024", "2048", "4096"],
    "graph, up/down": ["256", "512", "1024", "2048", "4096"],
}
TREE = "fattree:k=48,levels=3"
# Command, aims in processor or wall seconds (the smaller counts: the machine may be busy) and MB.
WHOLE = [
    ("map stencil:48x42x37:7 --fabric frontier-like --nodes all --ranks-per-node 2", 20, 1000),
    (f"map stencil:64x54x48:7 --fabric {TREE} --nodes all --ranks-per-node 6", 20, 1000),
    (f"map stencil:96x96x48:7 --fabric {TREE} --nodes all --ranks-per-node 16", None, 1000),
    ("map stencil:128x128x64:7 --fabric torus:64x32x32 --nodes all --ranks-per-node 16 --trials 2000000", 25, None),
    ("map stencil:128x128x64:7 --fabric gemini:32x32x32 --nodes all --ranks-per-node 16 --trials 2000000", 25, None),
    ("map stencil:48x48x24:7 --fabric theta --nodes all --ranks-per-node 16", None, None),
    ("map stencil:48x48x40:7 --fabric edison --nodes all --ranks-per-node 24", None, None),
    ("fabric check fattree:k=74,levels=3", 10, 1500),
    ("fabric pairs fattree:k=74,levels=3", 10, 1500),
    ("oracle query --all --fabric fattree:k=74,levels=3", 10, 1500),
    ("fabric check gemini:40x40x32", None, None),
    ("fabric pairs gemini:40x40x32", None, None),
    ("oracle query --all --fabric bluewaters", None, None),
    ("fabric check frontier-like --routing updown", 10, None),
    ("fabric check torus:24x24x24 --routing updown", 10, None),
]  # fmt: skip


class Used:
    """What a command used: processor seconds, time, MB, and how it ended."""

    def __init__(self, words: list[str]) -> None:
        begin = time.monotonic()
        with tempfile.TemporaryFile("w+") as err:
            child = subprocess.Popen(["timeout", str(LIMIT_SECONDS), *words], stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            err.seek(0)
            text = err.read()
        self.wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        self.cpu, self.mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
        self.status = child.returncode
        found = (line for line in text.splitlines() if line.strip() and not line.startswith("warning"))
        known = {0: "", 1: "", 124: f"over {LIMIT_SECONDS} s"}
        self.why = known.get(self.status, next(found, f"ends with {self.status}"))

    def cells(self) -> list[str]:
        """Processor seconds, time and MB; the reason if there is no answer."""
        note = f" ({self.why[:90]})" if self.why else ""
        return [f"{self.cpu:.2f}", f"{self.wall:.2f}", f"{self.mb:,.0f}{note}"]


def graph(routers: int, file: Path) -> None:
    """A random graph with some 16 cables and 8 nodes a router, from seed 1. Written line by line: a command that this
    program starts is charged with its peak of memory too.
    """
    rng = random.Random(1)
    pairs: set[tuple[int, int]] = {(i, (i + 1) % routers) for i in range(routers)}
    while len(pairs) < 8 * routers:
        a, b = rng.randrange(routers), rng.randrange(routers)
        if a != b and (b, a) not in pairs:
            pairs.add((a, b))
    rate = {"capacity_bytes_per_s": 12.5e9, "latency_seconds": 1e-7, "lanes": 1, "lanes_in_service": 1}
    head = {
        "schema": "hopbyte.machine/1", "family": "generic", "source": f"random graph of {routers} routers",
        "kinds": [{"name": "cable"}, {"name": "host", "onboard": True}], "routing": {"named": "shortest"},
    }  # fmt: skip

    def node(n: int) -> dict:
        links = 2 * len(pairs) + 2 * n
        return {"name": f"n{n}", "host": f"n{n}", "nid": n, "router": n // 8, "inject": links, "eject": links + 1}

    def links() -> Iterator[dict]:
        for a, b in sorted(pairs):
            for x, y in ((a, b), (b, a)):
                yield {"from": {"router": x}, "to": {"router": y}, "kind": 0, **rate}
        for n in range(8 * routers):
            for x, y in (({"node": n}, {"router": n // 8}), ({"router": n // 8}, {"node": n})):
                yield {"from": x, "to": y, "kind": 1, **rate}

    lists = {
        "routers": ({"name": f"r{r}"} for r in range(routers)),
        "nodes": (node(n) for n in range(8 * routers)),
        "links": links(),
    }
    with file.open("w") as out:
        out.write(json.dumps(head)[:-1])
        for name, entries in lists.items():
            out.write(f',\n"{name}": [')
            for i, entry in enumerate(entries):
                out.write((",\n" if i else "\n") + json.dumps(entry))
            out.write("]")
        out.write("}\n")


def nodes_of(hopbyte: str, machine: str) -> int:
    """Its number of nodes."""
    words = [hopbyte, "-q", "--json", "fabric", "show", machine]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)["nodes"]
    return found if isinstance(found, int) else len(found)


def grown(hopbyte: str, families: list[str], folder: Path) -> Iterator[list[str]]:
    """A row for every size."""
    for family in families:
        for size in FAMILIES[family]:
            machine, shown, more = size, size, []
            if family.startswith("graph"):
                machine, shown = str(folder / f"{size}.json"), f"{size} routers"
                graph(int(size), Path(machine))
                more = ["--routing", "updown"] if "updown" in family.replace("/", "") else []
            nodes = nodes_of(hopbyte, machine)
            a = nodes // 64
            traffic = f"stencil:{a}x8x8:7"
            check = Used([hopbyte, "-q", "fabric", "check", machine, *more])
            words = ["map", traffic, "--fabric", machine, "--nodes", "all", *more]
            mapped = Used([hopbyte, "-q", *words, "--trials", TRIALS])
            yield [family, shown, f"{nodes:,}", *check.cells(), *mapped.cells()]


def whole(hopbyte: str) -> Iterator[tuple[list[str], bool]]:
    """A row for every command, and whether it misses its aim."""
    for text, seconds, memory in WHOLE:
        used = Used([hopbyte, "-q", *text.split()])
        late = seconds is not None and min(used.cpu, used.wall) > seconds
        late |= (memory is not None and used.mb > memory) or used.status not in (0, 1)
        aims = [f"≤ {seconds} s" if seconds else "", f"≤ {memory:,} MB" if memory else ""]
        load = f"{os.getloadavg()[0]:.1f}"
        yield [f"`{text}`", *used.cells(), ", ".join(a for a in aims if a), load], late


def table(heads: list[str], rows: Iterator[list[str]]) -> list[str]:
    """Markdown, printed row by row."""
    out = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    print(*out, sep="\n", flush=True)
    for row in rows:
        out.append(f"| {' | '.join(row)} |")
        print(out[-1], flush=True)
    return out


def main() -> int:
    """Measures, prints, writes; 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hopbyte", nargs="?", default="target/release/hopbyte")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--no-whole", action="store_true")
    args = parser.parse_args()
    page, late = RESULTS / "scale.md", []
    if not args.no_whole:
        heads = ["command", "CPU s", "s", "MB", "aim", "load"]
        rows = list(whole(args.hopbyte))
        late = [row[0] for row, missed in rows if missed]
        into_page(table(heads, (row for row, _ in rows)), page)
    if args.families:
        heads = ["family", "machine", "nodes", "check: CPU s", "s", "MB", "map: CPU s", "s", "MB"]
        with tempfile.TemporaryDirectory() as folder:
            into_page(table(heads, grown(args.hopbyte, args.families, Path(folder))), page)
    print(*(f"misses its aim: {text}" for text in late), sep="\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
