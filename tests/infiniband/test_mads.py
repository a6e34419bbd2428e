"""Counters of a whole fabric by the project's own management datagrams, compared with ibqueryerrors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PRELOAD, Sim
from networks import fat_tree
from program import hopbyte_binary
from test_counters import asked, subnet_manager

ROOT = Path(__file__).resolve().parents[2]
Ports = dict[tuple[str, str], dict[str, int]]


@pytest.fixture(scope="session")
def program() -> Path:
    """The program, built with warnings as errors."""
    subprocess.run(["make", "-s", "-C", ROOT / "probes", "mads"], check=True)
    return ROOT / "build" / "probes" / "hopbyte-mads"


def polled(sim: Sim, program: Path, *options: str, lines: str | None = None) -> str:
    env = dict(os.environ, LD_PRELOAD=str(PRELOAD), SIM_HOST=sim.host)
    words = [program, "--old-header", *options]
    done = subprocess.run(words, env=env, input=lines, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def ports(text: str) -> Ports:
    found: Ports = {}
    for guid, port, values in re.findall(r"GUID (0x[0-9a-f]+) port (\d+):(.*)", text):
        pairs = re.findall(r"\[(\w+) == (\d+)", values)
        found.setdefault((guid, port), {}).update({name: int(value) for name, value in pairs})
    return found


def test_it_reads_what_ibqueryerrors_reads(simulate: Callable[[str], Sim], program: Path) -> None:
    net = fat_tree(leaves=6, spines=3, hosts=4)
    sim = simulate(net.text())
    spine = next(guid for guid, name in net.names.items() if name == "spine0")
    with subnet_manager(sim):
        values = {"PortXmitWait": 123456, "SymbolErrorCounter": 65535, "PortRcvErrors": 77, "PortXmitDiscards": 5}
        for name, value in values.items():
            sim.console(f'PerformanceSet "{spine}"[2] PortCounters.{name}={value}')
        theirs = ports(asked(sim, "--data", "--counters") + asked(sim, "--threshold-file", "/dev/null"))
        ours = ports(polled(sim, program, "--ticks", "1"))
    # Two ports a cable. ibqueryerrors has ports without a cable too, and its list of errors leaves zeros out.
    assert len(ours) == 2 * 6 * (3 + 4)
    assert set(ours) <= set(theirs)
    port = ours[f"0x{spine[2:].lstrip('0')}", "2"]
    assert {name: port[name] for name in values} == values
    for key, own in ours.items():
        for name in ("SymbolErrorCounter", "PortRcvErrors", "PortXmitDiscards", "PortXmitWait"):
            assert own[name] == theirs[key].get(name, 0), (key, name)
        # Our own datagrams are traffic too.
        assert own["PortXmitData"] >= theirs[key]["PortXmitData"] > 0


def test_ports_vanish_and_come_back(simulate: Callable[[str], Sim], program: Path) -> None:
    net = fat_tree(leaves=4, spines=2, hosts=2)
    sim = simulate(net.text())
    leaf, spine = (next(guid for guid, name in net.names.items() if name == wanted) for wanted in ("leaf3", "spine0"))
    behind = {leaf, *(far for far, _ in net.ports[leaf].values() if far.startswith("H"))}
    with subnet_manager(sim):
        whole = ports(polled(sim, program, "--ticks", "1"))
        sim.console(f'Unlink "{leaf}"[1]')
        less = ports(polled(sim, program, "--ticks", "1"))
        sim.console(f'Relink "{leaf}"[1]')
    missing = set(whole) - set(less)
    leaf, spine = (f"0x{guid[2:].lstrip('0')}" for guid in (leaf, spine))
    # Until the subnet manager has new routes, more than the cable may be out of reach, but nothing beyond the leaf.
    assert {(leaf, "1"), (spine, "4")} <= missing
    reach = {f"0x{guid[2:].lstrip('0')}" for guid in behind}
    assert all(guid in reach or (guid, port) == (spine, "4") for guid, port in missing), missing


def test_a_port_that_goes_down_is_told(simulate: Callable[[str], Sim], program: Path) -> None:
    net = fat_tree(leaves=4, spines=2, hosts=2)
    sim = simulate(net.text())
    leaf, spine = (next(guid for guid, name in net.names.items() if name == wanted) for wanted in ("leaf3", "spine0"))
    ends = [(f"0x{leaf[2:].lstrip('0')}", "1"), (f"0x{spine[2:].lstrip('0')}", "4")]
    env = dict(os.environ, LD_PRELOAD=str(PRELOAD), SIM_HOST=sim.host)
    words = [program, "--old-header", "--switches", "--asked"]
    with (
        subnet_manager(sim),
        subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as poller,
    ):
        assert poller.stdin and poller.stdout

        def reading() -> Ports:
            poller.stdin.write("\n")
            poller.stdin.flush()
            lines = iter(poller.stdout.readline, "")
            text = ""
            for line in lines:
                text += line
                if "requests unanswered" in line:
                    break
            return ports(text)

        before = reading()
        # Four lanes, active.
        assert all((before[end]["PortState"], before[end]["LinkWidthActive"]) == (4, 2) for end in ends)
        sim.console(f'Unlink "{leaf}"[1]')
        states: list[int] = []
        for _ in range(30):
            now = reading()
            states = [now.get(end, {}).get("PortState", 0) for end in ends]
            if states == [1, 1]:
                break
            time.sleep(0.5)
        assert states == [1, 1], states
        sim.console(f'Relink "{leaf}"[1]')
        poller.stdin.close()


def test_switches_only_and_on_demand(simulate: Callable[[str], Sim], program: Path) -> None:
    net = fat_tree(leaves=4, spines=2, hosts=3)
    sim = simulate(net.text())
    with subnet_manager(sim):
        said = polled(sim, program, "--switches", "--asked", lines="\n\n\n")
        fabric = sim.folder / "fabric.ibnetdiscover"
        fabric.write_text(sim.tool("ibnetdiscover"))
    readings = said.split("requests unanswered\n")[:-1]
    assert len(readings) == 3
    # Ends at switches; the own adapter's port is read if it is no switch's.
    switches = {key for key in ports(readings[0]) if key[0].startswith("0x1")}
    assert len(switches) == 4 * (2 * 2 + 3)
    files = [sim.folder / f"reading{i}" for i in range(2)]
    for file, text in zip(files, readings, strict=False):
        file.write_text(text + "requests unanswered\n")
    words = [hopbyte_binary(), "links", *files, "--interval", "1", "--fabric", fabric, "--json", "--top", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if "link" in row]
    assert len(rows) == 2 * 4 * (2 + 3)
    assert all(row["received_bytes"] is not None and row["errors"] == 0 for row in rows), rows


def test_wrong_options_and_no_device(program: Path) -> None:
    for words, code, said in (
        (["--window", "0"], 2, "found 0, expected"),
        (["--ticks"], 2, "found nothing, expected a number"),
        (["--loud"], 2, "found --loud, expected"),
        (["--device", "no-such"], 3, "expected a user MAD device"),
    ):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == code and said in done.stderr, done
