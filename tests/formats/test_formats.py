"""Output of `fabric convert`, read by the programs that own the formats."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import networkx
import pytest
from program import ROOT, hopbyte_binary

MACHINES = [
    "gemini:2x3x4",
    "torus:4x4:nodes=2",
    "fattree:k=4,levels=3",
    "aries:2x2x3",
    "slingshot:3x4:nodes=2",
    "hyperx:3x3",
    "data/node-topology/hwloc-2.xml",
    "data/infiniband/opensm-x5-minhop/opensm-subnet.lst.zst",
]
# Machines with one path per pair, whose platforms list routes link by link.
SINGLE_PATH = MACHINES[:3] + MACHINES[-1:]


def hopbyte(*words: str) -> str:
    command = [str(hopbyte_binary()), "-q", "fabric", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def show(machine: str) -> dict[str, int]:
    return json.loads(hopbyte("show", machine, "--json"))


@pytest.fixture(scope="session")
def simgrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("simgrid") / "routes"
    source = Path(__file__).with_name("routes.cpp")
    subprocess.run(["g++", "-O1", "-o", str(program), str(source), "-lsimgrid"], check=True)
    return program


@pytest.mark.parametrize("machine", MACHINES)
def test_graphviz_reads_dot(machine: str, tmp_path: Path) -> None:
    """`dot` parses it; its own canonical form has every vertex and every cable."""
    file = tmp_path / "m.dot"
    hopbyte("convert", machine, "-o", str(file))
    text = subprocess.run(["nop", str(file)], check=True, capture_output=True, text=True).stdout
    facts = show(machine)
    assert text.count("label=") == facts["routers"] + facts["nodes"]
    assert text.count("capacity_bytes_per_s") >= facts["links"] // 2


@pytest.mark.parametrize("machine", MACHINES)
def test_networkx_reads_graphml(machine: str, tmp_path: Path) -> None:
    """Vertices, edges and distances are those of the machine."""
    file = tmp_path / "m.graphml"
    hopbyte("convert", machine, "-o", str(file))
    graph = networkx.read_graphml(file, force_multigraph=True)
    facts = show(machine)
    kinds = [data["type"] for _, data in graph.nodes(data=True)]
    assert kinds.count("router") == facts["routers"]
    assert kinds.count("node") == facts["nodes"]
    between = [(a, b) for a, b in graph.edges() if graph.nodes[a]["type"] == graph.nodes[b]["type"]]
    hosts = 2 * facts["nodes"]
    assert graph.number_of_edges() == len(between) + hosts
    assert networkx.is_strongly_connected(graph)
    assert all(float(d["capacity_bytes_per_s"]) > 0 for *_, d in graph.edges(data=True))


@pytest.mark.parametrize("machine", SINGLE_PATH)
def test_simgrid_routes_as_the_machine(machine: str, tmp_path: Path, simgrid: Path) -> None:
    """Every pair's links, in order, are those of `fabric route`."""
    file = tmp_path / "m.xml"
    hopbyte("convert", machine, "-o", str(file))
    command = [str(simgrid), str(file)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    nodes = show(machine)["nodes"]
    assert len(lines) == nodes * (nodes - 1)
    for line in lines[:: max(1, len(lines) // 40)]:
        source, target, *links = line.split("\t")
        route = json.loads(hopbyte("route", machine, source, target, "--json"))
        assert links == [hop["link"] for hop in route["request"]], line


@pytest.mark.parametrize("machine", ["aries:2x2x3", "torus:24x24"])
def test_simgrid_finds_paths_as_short(machine: str, tmp_path: Path, simgrid: Path) -> None:
    """If SimGrid computes the routes itself, its paths are as long as the shortest."""
    file = tmp_path / "m.xml"
    hopbyte("convert", machine, "-o", str(file))
    assert 'routing="Dijkstra"' in file.read_text()
    command = [str(simgrid), str(file), "2"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines[:: max(1, len(lines) // 20)]:
        source, target, *links = line.split("\t")
        shortest = hopbyte("route", machine, source, target, "--routing", "shortest", "--json")
        assert len(links) == len(json.loads(shortest)["request"]), line


def test_a_format_that_cannot_says_so(tmp_path: Path) -> None:
    """Refused with exit code 2, and no file is left."""
    file = tmp_path / "topology.conf"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        hopbyte("convert", "torus:4x4", "-o", str(file))
    assert refused.value.returncode == 2
    assert "not a tree" in refused.value.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_written_as_pdf(tmp_path: Path) -> None:
    file = tmp_path / "torus.pdf"
    hopbyte("draw", "torus:4x4", "--out", str(file))
    assert file.read_bytes().startswith(b"%PDF-")
    words = [str(hopbyte_binary()), "fabric", "draw", "torus:4x4", "--out", str(tmp_path / "none.pdf")]
    done = subprocess.run(words, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "install librsvg" in done.stderr and not (tmp_path / "none.pdf").exists()
