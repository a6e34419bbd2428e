"""`hopbyte probe run` on a lab with a fault: exactly the faulty component is flagged."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Lab, reading
from program import PROGRAMS

MACHINE = "mesh:3x2:nodes=2"
# Selection of random faults: FIRST-LAST or a number of them.
PLACES = os.environ.get("HOPBYTE_TEST_PLACES", "2")
LINKS = [f"r{x}-{y} {way}" for x in range(3) for y in range(2) for way in ("X+", "X-", "Y+", "Y-")
         if 0 <= x + {"X+": 1, "X-": -1}.get(way, 0) < 3 and 0 <= y + {"Y+": 1, "Y-": -1}.get(way, 0) < 2]
ROUTERS = [f"r{x}-{y}" for x in range(3) for y in range(2)]
NODES = [f"n{x}-{y}-{slot}" for x in range(3) for y in range(2) for slot in range(2)]

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun.openmpi") or not (PROGRAMS / "ompi/topobw").exists(),
    reason="needs Open MPI and the probes: make -C probes deps all",
)


def places(which: str) -> list[tuple[str, str]]:
    """Random faults, every kind in turn: (kind, name)."""
    first, last = map(int, which.split("-") if "-" in which else ("1", which))
    random.seed(11)
    ways = {"link": LINKS, "router": ROUTERS, "cable": LINKS, "host": NODES}
    return [(kind, random.choice(ways[kind])) for kind in (list(ways) * last)[:last]][first - 1 :]


def probe(one: Lab, folder: Path, machine: str = MACHINE, nodes: list[str] = NODES) -> tuple[int, dict]:
    """Measures and analyses; exit code and answer."""
    network = "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
    words = (f"{one.binary} --quiet --json probe run --fabric {machine} --programs {PROGRAMS} --bytes 50kB --window 2 "
             f"--trials 9 --nap 100 --tolerance 0.3 --deadline 300 -o {folder}/topobw.jsonl -- mpirun.openmpi "
             f"--allow-run-as-root --mca plm_rsh_agent $HOPBYTE_LAB_AGENT --host {','.join(nodes)} --map-by node "
             f"--bind-to none {network} -np {len(nodes)}")
    command = [str(one.binary), "lab", "run", "--name", one.name, "--", "sh", "-c", words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_exactly_the_fault_is_flagged(lab, tmp_path):
    one = lab(MACHINE, "--rate", "50mbit")

    def holds(right: Callable[[int, dict], bool]) -> None:
        code, answer = reading(lambda: probe(one, tmp_path), lambda answer: right(*answer), 120)
        assert right(code, answer), answer

    holds(lambda code, answer: (code, answer["slow_paths"], answer["links_not_measured"]) == (0, 0, 0))
    for kind, name in places(PLACES):
        options = ["--name", one.name, *(["--one-way"] if kind == "link" else [])]
        # A slow router delays all traffic while each link's own state is clean (paper 002, V).
        one.call("degrade", name, "0.2", *options)
        # A cable may be named by either end.
        wanted = [[(kind, name)], [(kind, other_way(name))]] if kind == "cable" else [[(kind, name)]]

        def flagged(code: int, answer: dict, kind=kind, name=name, wanted=wanted) -> bool:
            found = [(c["kind"], c["name"]) for c in answer["components"]]
            print(kind, name, "->", found)
            return code == 1 and found in wanted and answer["unexplained"] == []

        holds(flagged)
        one.call("degrade", name, "1", *options)


@pytest.mark.parametrize(
    ("machine", "link"),
    [
        ("fattree:down=4x2,up=1x2,link=0.00625", "leaf0[5]"),
        ("dragonfly:4x2:nodes=2,global=1,link=0.00625 --routing updown", "g0-r0[2]"),
    ],
    ids=["fat tree", "dragonfly"],
)
def test_a_slow_link_of_a_tree_and_of_a_dragonfly(lab, tmp_path, machine, link):
    spec, *routing = machine.split()
    one = lab(spec, *routing, "--rate", "50mbit")
    listed = subprocess.run([one.binary, "-q", "fabric", "nodes", spec], capture_output=True, text=True, check=True)
    nodes = [line.split()[0] for line in listed.stdout.splitlines()[1:]]

    def found() -> tuple[int, list[str]]:
        code, answer = probe(one, tmp_path, machine, nodes)
        print(answer["components"])
        return code, [name for c in answer["components"] for name in [c["name"], *c.get("or", [])]]

    assert reading(found, lambda answer: answer == (0, []), 120) == (0, [])
    one.call("degrade", link, "0.2", "--name", one.name, "--one-way")
    code, names = reading(found, lambda answer: answer[0] == 1 and answer[1][:1] == [link], 120)
    assert code == 1 and names[:1] == [link], names


def other_way(name: str) -> str:
    """The name of a mesh link's reverse direction."""
    router, way = name.split()
    x, y = map(int, router[1:].split("-"))
    step = 1 if way[1] == "+" else -1
    x, y = (x + step, y) if way[0] == "X" else (x, y + step)
    return f"r{x}-{y} {way[0]}{'-' if way[1] == '+' else '+'}"


def test_calibration_of_four_nodes(lab, tmp_path):
    """One file of all probes, which `predict` reads with its date; two ranks of one node are added to it."""
    one = lab("torus:2x2", "--rate", "50mbit")
    file = tmp_path / "machine.jsonl"
    nodes = ["n0-0", "n0-1", "n1-0", "n1-1"]
    open_mpi = ("mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $HOPBYTE_LAB_AGENT --mca mpi_yield_when_idle 1 "
                "--mca btl tcp,self,vader --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --bind-to none")

    def calibrate(hosts: str, ranks: int, *more: str) -> None:
        words = (f"{one.binary} --quiet --json calibrate {' '.join(more)} --programs {PROGRAMS} --deadline 120 "
                 f"-o {file} -- {open_mpi} --host {hosts} -np {ranks}")
        command = [str(one.binary), "lab", "run", "--name", one.name, "--on", "n0-0", "--", "sh", "-c", words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        results = [json.loads(line) for line in done.stdout.splitlines()]
        several = ranks > 3
        expected = ["latency", *["latency"] * (ranks - 1), *["rate"] * (1 + several), *["bandwidth"] * (1 + several)]
        assert [r["probe"] for r in results] == [*expected, "allreduce", "eager", "progress"]
        assert all(r["ranks"] == ranks for r in results)
        # btl_tcp_eager_limit without a header; shared memory has its own.
        assert (65_000 < results[-2]["bytes"] < 65_536) == several, results[-2]

    def predicted() -> str:
        trace = Path(__file__).parents[2] / "data/trace-ring"
        words = ["predict", trace, "--fabric", "torus:2x2", "--nodes", "all"]
        words += ["--ranks-per-node", "2", "--network", file]
        done = subprocess.run([one.binary, "--quiet", "--json", *words], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["calibration"]

    calibrate(",".join(nodes), 4)
    said = predicted()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert said.startswith(f"hopbyte-probe, {today}: overhead "), said
    assert "half a round trip " in said and "a step of an allreduce by 4 nodes" in said, said
    # Both pairs have links of their own: two flows tell no more than one.
    assert "full with one flow" in said and "flows" not in said and ", eager up to 65" in said, said
    # Open MPI has no thread that sends the data of a rendezvous over TCP.
    assert ", progress in MPI calls only (" in said, said
    assert "between routes of " in said or " a link (routes of " in said, said
    assert "on a node" not in said
    calibrate("n1-1:2", 2, "--append")
    said = predicted()
    assert "on a node" in said and "a step of an allreduce by 4 nodes" in said, said
