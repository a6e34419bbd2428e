#!/usr/bin/env python3
"""Cost of an agent: 264 counters or more a second, read over netlink, sent to a collector.

Makes a network namespace with as many virtual interfaces as that takes (needs root), runs
`hopbyte collect` and `hopbyte agent` in it, and reads the agent's processor time
(/proc/PID/task/*/schedstat) and memory (smaps_rollup) over the seconds asked for.

With --ldms LDMS's daemon (built by bench/ldms.sh) samples in turns with it: the same interfaces by its
procnetdev2 (16 values each), and the values of its meminfo, vmstat, loadavg and procnetdev2 of one interface
(depending on the kernel, 280 here); an aggregator pulls them each second as our collector gets ours.

    bench/agent/run.py [--hopbyte target/release/hopbyte] [--seconds 30] [--counters 264] [--tls]
                       [--ldms FOLDER] [--rounds 1]
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ldms  # noqa: E402

SPACE = "hopbyte-bench-agent"


def ip(*words: str) -> None:
    """Runs ip(8)."""
    subprocess.run(["ip", *words], check=True)


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


def interfaces(pairs: int) -> None:
    """Pairs of virtual interfaces in the namespace."""
    for i in range(pairs):
        ip("-n", SPACE, "link", "add", f"a{i}", "type", "veth", "peer", "name", f"b{i}")
        for side in "ab":
            ip("-n", SPACE, "link", "set", f"{side}{i}", "up")
    ip("-n", SPACE, "link", "set", "lo", "up")


def watch(pid: int, seconds: int) -> dict[str, object]:
    """Processor time and memory of a process over some seconds."""
    begin, at = ldms.cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    spent, elapsed = ldms.cpu_ns(pid) - begin, time.monotonic() - at
    return {
        "cpu_percent": round(100 * spent / 1e9 / elapsed, 4),
        "cpu_us_per_tick": round(spent / 1e3 / elapsed, 1),
        "memory_kb": memory_kb(pid),
    }


def ours(hopbyte: str, seconds: int, tls: tuple[list[str], list[str]]) -> dict[str, object]:
    """Our agent and collector."""
    of_collector, of_agent = tls
    collect = [hopbyte, "--json", "collect", *of_collector]
    collector = inside(collect, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(1)
    agent = inside([hopbyte, "agent", "--name", "n1", *of_agent], stderr=subprocess.PIPE)
    try:
        assert agent.stderr and collector.stdout
        found = int(re.search(r"(\d+) counters", agent.stderr.readline())[1])
        # Past the eighth tick, when memory of the start-up has been freed.
        time.sleep(10)
        row = watch(agent.pid, seconds)
    finally:
        agent.terminate()
        collector.terminate()
    ticks = [json.loads(line) for line in collector.stdout]
    complete = sum(tick["reported"] == 1 for tick in ticks)
    return {"agent": "hopbyte", "counters": found, **row, "ticks_reported": complete, "ticks": len(ticks)}


def theirs(prefix: Path, folder: Path, seconds: int, samplers: dict[str, str]) -> dict[str, object]:
    """LDMS's daemon with these samplers and their options, and an aggregator."""
    conf = "".join(
        f"load name={name}\nconfig name={name} producer=n1 instance=n1/{name} {more}\n"
        f"start name={name} interval=1000000 offset=0\n"
        for name, more in samplers.items()
    )
    sampler = inside(ldms.daemon(prefix, folder, "sampler", 20411, conf))
    time.sleep(2)
    aggregator = inside(ldms.daemon(prefix, folder, "aggregator", 20412, ldms.pull([20411])))
    try:
        time.sleep(9)
        row = watch(sampler.pid, seconds)
        listed = inside(ldms.sets(prefix, 20412, "-l"), stdout=subprocess.PIPE).communicate()[0]
    finally:
        for process in (sampler, aggregator):
            process.terminate()
            # The next run uses the same ports.
            process.wait()
    # A line a number, or a row of them after a name.
    numbers = len(re.findall(r"^[MD] [usdf](?:32|64) ", listed, re.M))
    numbers += sum(len(line.split()) - 1 for line in re.findall(r'^ +".*', listed, re.M))
    return {"agent": f"ldmsd 4.5.3: {' '.join(samplers)}", "counters": numbers, **row}


def main() -> int:
    """Alternates the runs and prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopbyte", default="target/release/hopbyte")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--counters", type=int, default=264)
    parser.add_argument("--tls", action="store_true", help="reports in TLS")
    parser.add_argument("--ldms", type=Path, metavar="FOLDER", help="LDMS beside it, built by bench/ldms.sh FOLDER")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    beside = args.ldms if args.ldms and ldms.found(args.ldms) else None
    sets = {"meminfo": "", "vmstat": "", "loadavg": "", "procnetdev2": "ifaces=lo"}
    ip("netns", "add", SPACE)
    try:
        # Ten counters per interface: eight statistics and two capacities.
        interfaces(-(-args.counters // 20))
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as folder:
                tls = certificate(folder) if args.tls else ([], [])
                print(json.dumps(ours(args.hopbyte, args.seconds, tls)), flush=True)
                for samplers in ({"procnetdev2": ""}, sets) if beside else ():
                    row = theirs(beside, Path(folder), args.seconds, samplers)
                    print(json.dumps(row), flush=True)
    finally:
        ip("netns", "del", SPACE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
