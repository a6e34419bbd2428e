"""Routes and differences against a real OpenSM: three fabrics, three routing engines."""

from __future__ import annotations

import json
import random
import re

import networks
import pytest

FABRICS = {
    "fat tree": networks.fat_tree(6, 3, 3),
    "torus": networks.torus(4, 3, 3),
    "irregular": networks.irregular(12, 14, 7),
}
ENGINES = {
    "fat tree": ["minhop", "updn", "ftree"],
    "torus": ["minhop", "updn", "dor"],
    "irregular": ["minhop", "updn", "lash"],
}
SAMPLE = 12


def adapters(sim_dump: str) -> dict[str, int]:
    """LID of each adapter by port GUID, from the raw dump."""
    found = {}
    for line in re.findall(r"^\[1\]\(([0-9a-f]+)\).*# lid (\d+) ", sim_dump, re.MULTILINE):
        found[line[0]] = int(line[1])
    return found


def traced(text: str) -> list[tuple[str, int]]:
    """Output ports from ibtracert: (guid of the node, port), from the source on."""
    steps, guid = [], None
    for line in text.splitlines():
        start = re.match(r"From \S+ \{0x([0-9a-f]+)\}", line)
        if start:
            guid = start.group(1)
        hop = re.match(r"\[(\d+)\] -> \S+(?: \S+)? port \{0x([0-9a-f]+)\}\[(\d+)\]", line)
        if hop and guid:
            steps.append((guid, int(hop.group(1))))
            guid = hop.group(2)
    return steps


@pytest.mark.parametrize("fabric", FABRICS)
def test_routes_are_those_that_ibtracert_finds(fabric, simulate, hopbyte):
    sim = simulate(FABRICS[fabric].text())
    pick = random.Random(fabric)
    for engine in ENGINES[fabric]:
        sim.route(engine)
        dump, tables = sim.dump(engine)
        lids = adapters(dump.read_text())
        assert len(lids) == sum(g.startswith("H") for g in FABRICS[fabric].ports)
        _code, text = hopbyte("fabric", "pairs", dump, "--routes", tables, "--json")
        pairs = json.loads(text)
        assert pairs["pairs"] == pairs["routable"] == len(lids) * (len(lids) - 1)
        for _ in range(SAMPLE):
            a, b = pick.sample(sorted(lids), 2)
            theirs = traced(sim.tool("ibtracert", str(lids[a]), str(lids[b])))
            _code, text = hopbyte(
                "fabric",
                "route",
                dump,
                f"0x{int(a, 16):016x}",
                f"0x{int(b, 16):016x}",
                "--routes",
                tables,
                "--json",
            )
            ours = json.loads(text)["request"]
            assert [int(re.search(r"\[(\d+)\]$", s["link"]).group(1)) for s in ours] == [
                port for _, port in theirs
            ], (fabric, engine, a, b)


def test_a_pulled_cable_and_the_new_routes_are_named(simulate, hopbyte):
    net = FABRICS["fat tree"]
    sim = simulate(net.text())
    sim.route("minhop")
    before = sim.dump("before")
    leaf = next(g for g, name in net.names.items() if name == "leaf2")
    spine, far_port = net.ports[leaf][1]
    sim.console(f'Unlink "{leaf}"[1]')
    sim.route("minhop")
    after = sim.dump("after")
    code, text = hopbyte(
        "fabric",
        "diff",
        before[0],
        after[0],
        "--routes",
        before[1],
        "--after-routes",
        after[1],
        "--json",
    )
    diff = json.loads(text)
    assert code == 1 and not diff["same"]
    expected = {"leaf2[1]", f"{net.names[spine]}[{far_port}]"}
    assert set(diff["links_removed"]) == expected and not diff["links_added"]
    assert diff["routes_changed"] > 0 and "leaf2" in diff["entries_changed"]
    # A comparison of the dumps with themselves has no differences.
    code, _ = hopbyte(
        "fabric", "diff", before[0], before[0], "--routes", before[1], "--after-routes", before[1]
    )
    assert code == 0


def test_credit_loops_are_found_where_the_engine_makes_them(simulate, hopbyte):
    net = networks.torus(5, 5, 1)
    sim = simulate(net.text())
    # Without a root that it can find, updn silently falls back to minimal hops.
    root = next(g for g, name in net.names.items() if name == "sw-0-0-0")
    roots = sim.folder / "roots"
    roots.write_text(f"0x{root[2:]}\n")
    verdict = {}
    for engine, *options in (["minhop"], ["updn", "-a", str(roots)]):
        sim.route(engine, *options)
        dump, tables = sim.dump(engine)
        _, text = hopbyte("fabric", "check", dump, "--routes", tables, "--json")
        verdict[engine] = json.loads(text)["deadlock_free"]
    # Minimal hops on rings of five have a credit loop; up/down cannot.
    assert verdict == {"minhop": False, "updn": True}
