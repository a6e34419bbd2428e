#!/usr/bin/env python3
"""What does an agent cost? 264 counters or more a second, read over netlink, sent to a collector.

Makes a network namespace with as many virtual interfaces as that takes (needs root), runs
`hopbyte collect` and `hopbyte agent` in it, and reads the agent's processor time
(/proc/PID/task/*/schedstat) and memory (smaps_rollup) over the seconds asked for.

    bench/agent/run.py [--hopbyte target/release/hopbyte] [--seconds 30] [--counters 264] [--tls]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPACE = "hopbyte-bench-agent"


def ip(*words: str) -> None:
    """Runs ip(8)."""
    subprocess.run(["ip", *words], check=True)


def cpu_ns(pid: int) -> int:
    """Processor time of all threads."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def memory_kb(pid: int) -> dict[str, int]:
    """Resident, proportional and private memory in kB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    private = found["Private_Clean"] + found["Private_Dirty"]
    return {
        "resident": found["Rss"],
        "proportional": found["Pss"],
        "private": private,
        "private_dirty": found["Private_Dirty"],
    }


def inside(command: list[str], **options: object) -> subprocess.Popen[str]:
    """Starts a command in the namespace."""
    return subprocess.Popen(["ip", "netns", "exec", SPACE, *command], text=True, **options)


def certificate(folder: str) -> tuple[list[str], list[str]]:
    """Options of a collector with a certificate of this machine's address, and of an agent that trusts it."""
    key, cert = f"{folder}/key.pem", f"{folder}/cert.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=c"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(["openssl", *words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return ["--tls-cert", cert, "--tls-key", key], ["--tls-ca", cert]


def measure(hopbyte: str, counters: int, seconds: int, tls: tuple[list[str], list[str]]) -> dict[str, object]:
    """One run in a namespace that exists."""
    of_collector, of_agent = tls
    # Ten counters an interface: eight statistics and two capacities.
    pairs = -(-counters // 20)
    for i in range(pairs):
        ip("-n", SPACE, "link", "add", f"a{i}", "type", "veth", "peer", "name", f"b{i}")
        for side in "ab":
            ip("-n", SPACE, "link", "set", f"{side}{i}", "up")
    ip("-n", SPACE, "link", "set", "lo", "up")
    collect = [hopbyte, "--json", "collect", *of_collector]
    collector = inside(collect, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(1)
    agent = inside([hopbyte, "agent", "--name", "n1", *of_agent], stderr=subprocess.PIPE)
    try:
        assert agent.stderr and collector.stdout
        said = agent.stderr.readline()
        found = int(re.search(r"(\d+) counters", said)[1])
        time.sleep(4)
        begin, at = cpu_ns(agent.pid), time.monotonic()
        time.sleep(seconds)
        spent, elapsed = cpu_ns(agent.pid) - begin, time.monotonic() - at
        memory = memory_kb(agent.pid)
    finally:
        agent.terminate()
        collector.terminate()
    ticks = [json.loads(line) for line in collector.stdout]
    complete = sum(tick["reported"] == 1 for tick in ticks)
    return {
        "counters": found,
        "cpu_percent": round(100 * spent / 1e9 / elapsed, 4),
        "cpu_us_per_tick": round(spent / 1e3 / elapsed, 1),
        "memory_kb": memory,
        "ticks_reported": complete,
        "ticks": len(ticks),
    }


def main() -> int:
    """Runs once and prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopbyte", default="target/release/hopbyte")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--counters", type=int, default=264)
    parser.add_argument("--tls", action="store_true", help="reports in TLS")
    args = parser.parse_args()
    ip("netns", "add", SPACE)
    try:
        with tempfile.TemporaryDirectory() as folder:
            tls = certificate(folder) if args.tls else ([], [])
            result = measure(args.hopbyte, args.counters, args.seconds, tls)
    finally:
        ip("netns", "del", SPACE)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
