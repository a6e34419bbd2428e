#!/usr/bin/env python3
"""Cost of LDMS's aggregator and of our collector: one daemon a node, 200 values each, once a second.

Starts as many of LDMS's sampler daemons (built by bench/ldms.sh) as there are nodes and an aggregator that
pulls them, and reads its processor time and memory; then the same fleet reports to our collector.

    bench/collect/aggregator.py FOLDER [--nodes 1000] [--seconds 20] [--cargo cargo]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import ldms  # noqa: E402

VALUES = 200
SAMPLER = (
    "load name=test_sampler\n"
    "config name=test_sampler action=add_schema schema=s num_metrics={values} type=u64\n"
    "config name=test_sampler action=add_set instance=n{i}/s schema=s producer=n{i}\n"
    "start name=test_sampler interval=1000000 offset=0\n"
)


def resident_kb(pid: int) -> int:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def aggregate(prefix: Path, nodes: int, seconds: int, folder: Path) -> dict[str, object]:
    """LDMS's aggregator over as many daemons."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, port: int, conf: str, memory: str) -> subprocess.Popen[bytes]:
        command = ldms.daemon(prefix, folder, name, port, conf, "-m", memory)
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return started[-1]

    try:
        for i in range(nodes):
            start(f"s{i}", 20500 + i, SAMPLER.format(values=VALUES, i=i), "8M")
            if sys.stderr.isatty() and i % 50 == 0:
                print(f"{i} of {nodes} daemons", end="\r", file=sys.stderr)
        time.sleep(3 + nodes / 20)
        aggregator = start("aggregator", 20499, ldms.pull(range(20500, 20500 + nodes)), "2G")
        time.sleep(12 + nodes / 20)
        begin = ldms.cpu_ns(aggregator.pid)
        time.sleep(seconds)
        spent = ldms.cpu_ns(aggregator.pid) - begin
        kb = resident_kb(aggregator.pid)
        listed = subprocess.run(ldms.sets(prefix, 20499, "-v"), capture_output=True, text=True, check=True).stdout
        pulled = sum(f"n{i}/s" in listed for i in range(nodes))
    finally:
        for process in started:
            process.kill()
            process.wait()
    return {
        "collector": "ldmsd 4.5.3, sock, pulls",
        "nodes": nodes,
        "sets_held": pulled,
        "us_a_node_and_second": round(spent / 1e3 / seconds / nodes, 2),
        "kb_a_node": round(kb * 1.024 / nodes, 1),
    }


def main() -> int:
    """Runs LDMS, then ours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ldms", type=Path, metavar="FOLDER")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--cargo", default=os.environ.get("CARGO", "cargo"))
    args = parser.parse_args()
    if ldms.found(args.ldms):
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(aggregate(args.ldms, args.nodes, args.seconds, Path(folder))), flush=True)
    bench = [args.cargo, "bench", "-q", "-p", "hopbyte-collect", "--bench", "collect", "--"]
    for more in ([], ["--udp"]):
        subprocess.run(
            [*bench, "--nodes", str(args.nodes), "--seconds", str(args.seconds), *more], check=True, cwd=ROOT
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
