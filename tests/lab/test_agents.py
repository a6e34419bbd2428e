"""The lab as a monitored cluster: agents on every router and node, a collector, an oracle that follows it, and an
application that queries the oracle, moves at run time, and continues."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Lab, reading, totals
from program import PROGRAMS, ROOT, hopbyte_binary

MACHINE = "torus:2x2x2"
LIBRARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / hopbyte_binary().parent.name / "libhopbyte.so"


@pytest.fixture
def started():
    """Starts background programs and ends them."""
    children: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        command = [str(w) for w in words]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str], stream: str, pattern: str) -> str:
    """A program's own status, within a minute."""
    lines = getattr(child, stream)
    while select.select([lines], [], [], 60)[0] and (line := lines.readline()):
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"{child.args} did not say {pattern}")


def ask(address: Path, question: dict) -> dict:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(address))
        s.sendall(json.dumps(question).encode() + b"\n")
        return json.loads(s.makefile().readline())


def used(address: Path, route: tuple[str, str]) -> float | None:
    """The oracle's used bandwidth of the worst link of a route."""
    question = {"from": route[0], "to": route[1], "metric": "used", "aggregate": "max"}
    return ask(address, question).get("cost")


@pytest.mark.skipif(
    not shutil.which("mpirun.openmpi") or not (PROGRAMS / "ompi/spmv").exists() or not LIBRARY.exists(),
    reason="needs Open MPI, the probes and libhopbyte: make mpi programs",
)
def test_agents_collector_oracle_map_and_a_move_while_running(lab, within, started, tmp_path):
    one = lab(MACHINE, "--rate", "20mbit")
    named = ["--name", one.name]
    collector = started(one.binary, "collect", "--listen", "127.0.0.1:0", "--period", "0.5", "--json")
    at = said(collector, "stderr", r"listening on (\S+)")
    agents = started(one.binary, "lab", "agents", *named, "--to", at, "--period", "0.5")
    # Every router and every node.
    assert said(agents, "stderr", r"(\d+) agents report") == "16"
    asked = tmp_path / "oracle"
    oracle = started(one.binary, "oracle", "serve", at, "--fabric", MACHINE, "--socket", asked)
    said(oracle, "stdout", r"(http)")
    busy, idle = ("n0-0-0", "n0-0-1"), ("n1-0-0", "n1-0-1")
    reading(lambda: used(asked, idle), lambda cost: cost is not None)
    assert used(asked, idle) == used(asked, busy) == 0, "reports go another way than the traffic"
    assert set(totals(one).values()) == {0}
    one.call("background", "start", ":".join(busy), "--share", "0.75", *named)

    def used_after_two_ticks() -> dict[str, float]:
        time.sleep(1)
        return {"busy": used(asked, busy) or 0, "idle": used(asked, idle) or 0}

    within(used_after_two_ticks, {"busy": (0.65, 0.85), "idle": (0, 0)})

    # Blocks that exchange over the busy link move away from its ends; products stay right.
    hosts = ["n0-0-0", "n0-0-1", "n1-0-0", "n1-0-1", "n1-1-0", "n1-1-1"]
    network = "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
    words = (f"mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $HOPBYTE_LAB_AGENT --host {','.join(hosts)} "
             f"--map-by node --bind-to none {network} -np 6 {PROGRAMS}/ompi/spmv --grid 1,1,6 --cells 1,1,1 "
             f"--unknowns 500 --nap 500 --verify full --json --iterations 300 --ask-at 100 --library {LIBRARY} "
             f"--ask {MACHINE} --nodes {','.join(hosts)} --oracle {asked}")
    done = subprocess.run([str(one.binary), "lab", "run", *named, "--", "sh", "-c", words], check=False,
                          capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    [moved] = [r for r in records if r.get("record") == "migration"]
    assert moved["version"] > 0 and moved["moved_blocks"] > 0
    assert moved["worst_link_seconds"] < moved["before_worst_link_seconds"]
    assert records[-1]["verified"] is True and records[-1]["wrong_values"] == 0
    one.call("down", one.name)
    assert agents.wait(timeout=120) == 0, "agents end with their lab"


def causes_of(one: Lab, store: Path, seconds: str) -> set[tuple[str, str]]:
    """Fault and component of all causes in the last seconds of a store; the error of a refusal."""
    words = ["--quiet", "--json", "blame", str(store), "--fabric", MACHINE, "--interval", seconds]
    done = subprocess.run([one.binary, *words], check=False, capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        return {(done.stderr, "")}
    return {(cause["fault"], cause["name"]) for cause in json.loads(done.stdout)["causes"]}


def test_a_cut_and_a_slow_cable_are_seen_behind_the_collector(lab, started, tmp_path):
    one = lab(MACHINE, "--rate", "20mbit")
    store = tmp_path / "store"
    collector = started(one.binary, "collect", "--listen", "127.0.0.1:0", "--period", "0.5", "--json", "--store", store)
    at = said(collector, "stderr", r"listening on (\S+)")
    started(one.binary, "lab", "agents", "--name", one.name, "--to", at, "--period", "0.5")

    def blamed() -> set[tuple[str, str]]:
        return causes_of(one, store, "1")

    def becomes(expected: set[tuple[str, str]]) -> None:
        assert reading(blamed, lambda causes: causes == expected) == expected

    becomes(set())
    one.call("degrade", "r0-1-0 X+", "0.25", "--one-way", "--name", one.name)
    one.call("cut", "r0-0-0 Y+", "--name", one.name)
    # A cut cable is one cause, by the first of its two links.
    becomes({("slow", "r0-1-0 X+"), ("down", "r0-0-0 Y+")})
    one.call("degrade", "r0-1-0 X+", "1", "--one-way", "--name", one.name)
    becomes({("down", "r0-0-0 Y+")})
    watched = [one.binary, "--json", "watch", at, "--fabric", MACHINE, "--ticks", "3"]
    done = subprocess.run(watched, check=False, capture_output=True, text=True, timeout=120)
    faults = [json.loads(line) for line in done.stdout.splitlines() if "hopbyte.fault/1" in line]
    assert {(f["fault"], f["link"]) for f in faults} == {("down", "r0-0-0 Y+"), ("down", "r0-1-0 Y-")}, done.stdout


def test_lost_packets_are_seen_behind_the_collector(lab, started, tmp_path):
    """No counter of a link tells of them; TCP's do. Eight ranks send each other 4 kB every 100 ms."""
    one = lab(MACHINE, "--rate", "20mbit")
    shown = subprocess.run(
        [one.binary, "--quiet", "fabric", "convert", MACHINE, "--to", "json"], check=True, capture_output=True
    )
    links = json.loads(shown.stdout)["links"]
    jobs = tmp_path / "jobs"
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-o", jobs, ROOT / "bench/blame/jobs.c"], check=True)
    lines = ["8 1"]
    for n in range(8):
        partners = [f"{to}:4000" for to in range(8) if to != n]
        lines.append(f"{one.name}-n{n} 10.77.0.{n + 1} 0 {len(partners)} " + " ".join(partners))
    ranks = subprocess.Popen(
        [jobs], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert ranks.stdin
    try:
        ranks.stdin.write("\n".join([*lines, "100", "?"]) + "\n")
        ranks.stdin.flush()
        store = tmp_path / "store"
        collector = started(one.binary, "collect", "--listen", "127.0.0.1:0", "--period", "0.5", "--store", store)
        at = said(collector, "stderr", r"listening on (\S+)")
        started(one.binary, "lab", "agents", "--name", one.name, "--to", at, "--period", "0.5")

        def blamed() -> set[tuple[str, str]]:
            return causes_of(one, store, "15")

        assert reading(blamed, lambda causes: causes == set()) == set()
        # Frames of r0-0-0 to r0-0-1, at the end where they arrive.
        ends = ({"router": 1}, {"router": 0}, "Z-")
        back = next(i for i, link in enumerate(links) if (link["from"], link["to"], link.get("direction")) == ends)
        place = ["ip", "netns", "exec", f"{one.name}-r1", "iptables", "-t", "raw"]
        rule = ["-A", "PREROUTING", "-i", f"l{back}", "-m", "statistic", "--mode", "random", "--probability", "0.05"]
        subprocess.run([*place, *rule, "-j", "DROP"], check=True)
        named = {("loses", "r0-0-0 Z+")}
        assert reading(blamed, lambda causes: causes == named) == named
        subprocess.run([*place, "-F"], check=True)
    finally:
        os.killpg(ranks.pid, 9)
        ranks.wait()
