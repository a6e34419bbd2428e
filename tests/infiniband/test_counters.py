"""Counters of a whole fabric through the real MAD tools: links reports the values set in ibsim."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import PRELOAD, Sim
from networks import fat_tree
from program import hopbyte_binary

Row = dict[str, object]


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def subnet_manager(sim: Sim) -> Iterator[None]:
    """A persistent OpenSM: ibqueryerrors queries it for paths."""
    env = dict(os.environ, LD_PRELOAD=str(PRELOAD), SIM_HOST=sim.host)
    env |= {"OSM_TMP_DIR": str(sim.folder), "OSM_CACHE_DIR": str(sim.folder)}
    # Log lines are flushed at once.
    command = ["opensm", "-e", "-d", "2", "-f", str(sim.folder / "opensm.log")]
    process = subprocess.Popen(
        command, env=env, cwd=sim.folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        log = sim.folder / "opensm.log"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (log.exists() and "SUBNET UP" in log.read_text()):
            time.sleep(0.2)
        assert "SUBNET UP" in log.read_text()
        yield
    finally:
        process.kill()
        process.wait()


def simulated_tools(sim: Sim) -> Path:
    """A folder with an `ibqueryerrors` that queries the simulator."""
    folder = sim.folder / "bin"
    folder.mkdir()
    program = folder / "ibqueryerrors"
    real = subprocess.run(["which", "ibqueryerrors"], check=True, capture_output=True, text=True)
    program.write_text(
        f"#!/bin/sh\nLD_PRELOAD={PRELOAD} SIM_HOST='{sim.host}' exec {real.stdout.strip()} \"$@\"\n"
    )
    program.chmod(0o755)
    return folder


def asked(sim: Sim, *arguments: str) -> str:
    """Output of ibqueryerrors; its exit code for errors found is no failure here."""
    env = dict(os.environ, LD_PRELOAD=str(PRELOAD), SIM_HOST=sim.host)
    done = subprocess.run(
        ["ibqueryerrors", *arguments],
        env=env,
        cwd=sim.folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "## Summary" in done.stdout, done.stderr
    return done.stdout


def links(sim: Sim, *arguments: str | Path, tools: Path | None = None) -> list[Row]:
    """Rows of `hopbyte links --json`, without the last."""
    path = os.environ["PATH"] if tools is None else f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(
        [hopbyte_binary(), "links", *arguments, "--json"],
        env=dict(os.environ, PATH=path),
        cwd=sim.folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if "link" in row]


def test_every_port_of_the_fabric_is_read(simulate: Callable[[str], Sim]) -> None:
    net = fat_tree(leaves=2, spines=1, hosts=2)
    sim = simulate(net.text())
    spine = next(guid for guid, name in net.names.items() if name == "spine0")
    with subnet_manager(sim):
        fabric = sim.folder / "fabric.ibnetdiscover"
        fabric.write_text(sim.tool("ibnetdiscover"))
        files = []
        for name, waited in (("first", 1000), ("second", 4000)):
            sim.console(f'PerformanceSet "{spine}"[1] PortCounters.PortXmitWait={waited}')
            data = asked(sim, "--data", "--counters")
            errors = asked(sim, "--threshold-file", "/dev/null")
            files.append(sim.folder / name)
            files[-1].write_text(data + errors)
        rows = {str(r["link"]): r for r in links(sim, *files, "--fabric", fabric, "--interval", "2")}
        # Six cables with both directions each: four hosts, two leaves.
        assert len(rows) == 12
        assert all(r["received_bytes"] is not None for r in rows.values())
        waited = {name: row.get("credit_stall_count") for name, row in rows.items()}
        assert waited["spine0[1]"] == 3000, waited

        live = links(
            sim, "fabric-wide", "--fabric", fabric, "--interval", "1", tools=simulated_tools(sim)
        )
        assert len(live) == 12
        # The tool's own packets are traffic too: they arrived at the querying host.
        assert any(r["received_bytes"] for r in live), live
        # Zero waiting in the interval, which is measured, not missing.
        assert all(r["credit_stall_count"] == 0 for r in live), live


@contextmanager
def running(sim: Sim, tools: Path, *words: object) -> Iterator[None]:
    """A program of hopbyte that ends with the block."""
    env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
    with (sim.folder / "log").open("a") as log:
        command = [str(word) for word in (hopbyte_binary(), *words)]
        process = subprocess.Popen(command, env=env, cwd=sim.folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_collector_watches_all_switches(simulate: Callable[[str], Sim]) -> None:
    """One agent queries the switches: every directed link is covered, from the ends at switches alone."""
    net = fat_tree(leaves=12, spines=6, hosts=4)
    sim = simulate(net.text())
    port = free_port()
    with subnet_manager(sim):
        fabric = sim.folder / "fabric.ibnetdiscover"
        fabric.write_text(sim.tool("ibnetdiscover"))
        cables = 12 * (6 + 4)
        tools, address, store = simulated_tools(sim), f"127.0.0.1:{port}", sim.folder / "store"
        agent = ["agent", "--to", address, "--name", "poller", "--root", "/nonexistent", "--fabric-wide"]
        with (
            running(sim, tools, "collect", "--listen", address, "--store", store, "--print", "none"),
            running(sim, tools, *agent),
        ):
            rows: list[Row] = []
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and sum(r["received_bytes"] is not None for r in rows) < 2 * cables:
                time.sleep(1)
                done = subprocess.run(
                    [hopbyte_binary(), "links", store, "--fabric", fabric, "--json"], capture_output=True, text=True
                )
                found = [json.loads(line) for line in done.stdout.splitlines()]
                rows = [row for row in found if "link" in row]
    known = [row for row in rows if row["received_bytes"] is not None]
    assert len(known) == 2 * cables, (len(known), done.stderr, (sim.folder / "log").read_text()[-2000:])
    # The queries themselves are traffic between the switches.
    assert any(row["received_bytes"] for row in known)
    # The poller has both ends of links between switches, whose lanes do not add up.
    assert {row["lanes"] for row in known} <= {None, 4}, {row["link"]: row["lanes"] for row in known}


def test_perfquery_names_the_device_by_its_lid(simulate: Callable[[str], Sim]) -> None:
    net = fat_tree(leaves=2, spines=1, hosts=1)
    sim = simulate(net.text())
    guid = next(guid for guid, name in net.names.items() if name == "leaf1")[2:]
    with subnet_manager(sim):
        fabric = sim.folder / "fabric.ibnetdiscover"
        fabric.write_text(sim.tool("ibnetdiscover"))
        port = sim.tool("perfquery", "-x", "-G", f"0x{guid}", "1")
        (sim.folder / "port").write_text(port)
        rows = links(sim, sim.folder / "port", "--fabric", fabric)
    names = {str(r["link"]) for r in rows}
    assert names == {"leaf1[1]", "spine0[2]"}, names
