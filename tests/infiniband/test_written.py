"""A machine written by `fabric convert` runs on ibsim, and OpenSM installs the written routes."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("machine", ["fattree:k=4,levels=3", "torus:4x3"])
def test_a_written_machine_runs_under_opensm(machine, simulate, hopbyte, tmp_path):
    net, tables = tmp_path / "m.ibnetdiscover", tmp_path / "m.lfts"
    for file in (net, tables):
        assert hopbyte("-q", "fabric", "convert", machine, "--out", file)[0] == 0
    sim = simulate(net.read_text())
    sim.route("minhop")
    dump, found = sim.dump("minhop")
    _code, text = hopbyte("fabric", "show", machine, "--json")
    ours = json.loads(text)
    _code, text = hopbyte("fabric", "show", dump, "--routes", found, "--json")
    theirs = json.loads(text)
    assert (theirs["routers"], theirs["nodes"]) == (ours["routers"], ours["nodes"])
    assert theirs["links"] == ours["links"] + ours["host_links"]
    _code, text = hopbyte("-q", "fabric", "pairs", dump, "--routes", found, "--json")
    pairs = json.loads(text)
    assert pairs["pairs"] == pairs["routable"] == ours["nodes"] * (ours["nodes"] - 1)


@pytest.mark.parametrize("machine", ["fattree:k=4,levels=3", "torus:4x3"])
def test_opensm_installs_the_written_tables(machine, simulate, hopbyte, tmp_path):
    net, tables = tmp_path / "m.ibnetdiscover", tmp_path / "m.lfts"
    for file in (net, tables):
        assert hopbyte("-q", "fabric", "convert", machine, "--out", file)[0] == 0
    sim = simulate(net.read_text())
    sim.route("file", "-U", str(tables))
    assert "file tables configured on all switches" in (tmp_path / "opensm.log").read_text()
    dump, found = sim.dump("file")
    nodes = [n["name"] for n in json.loads(net_names(hopbyte, machine, tmp_path))["nodes"]]
    for i, source in enumerate(nodes):
        target = nodes[(7 * i + 5) % len(nodes)]
        if source == target:
            continue
        ends = []
        for words in ([machine], [dump, "--routes", found]):
            _code, text = hopbyte("-q", "fabric", "route", words[0], source, target, *words[1:], "--json")
            ends.append([hop["to"] for hop in json.loads(text)["request"]])
        assert ends[0] == ends[1], (source, target)


def net_names(hopbyte, machine, tmp_path):
    """The machine as JSON."""
    file = tmp_path / "m.json"
    hopbyte("-q", "fabric", "convert", machine, "--out", file)
    return file.read_text()
