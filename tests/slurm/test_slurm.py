"""A real Slurm runs the files that hopbyte writes for it, and its topology is read."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from conftest import HOSTS, SWITCHES
from program import PROGRAMS, hopbyte_binary

HOPBYTE = hopbyte_binary()
RANKS = 8


def save(folder: Path, nodes: list[str]) -> Path:
    """A mapping of a stencil, its rank r moved to nodes[r]."""
    command = [
        "map", "stencil:4x2:5", "--fabric", "torus:2x2", "--nodes", ",".join(HOSTS), "--ranks-per-node", "2",
        "--trials", "100", "--json", "-q",
    ]  # fmt: skip
    done = subprocess.run([str(HOPBYTE), *command], check=True, capture_output=True, text=True)
    mapping = json.loads(done.stdout)
    slots = [nodes[:rank].count(node) for rank, node in enumerate(nodes)]
    path = folder / "mapping.json"
    path.write_text(json.dumps({**mapping, "placement": nodes, "slots": slots}))
    return path


def shuffled(seed: int) -> list[str]:
    nodes = [host for host in HOSTS for _ in range(RANKS // len(HOSTS))]
    random.Random(seed).shuffle(nodes)
    return nodes


@pytest.mark.parametrize("seed", range(3))
def test_an_arbitrary_host_file_is_obeyed(slurm, tmp_path, seed):
    nodes = shuffled(seed)
    hosts = tmp_path / "hosts"
    slurm.run(HOPBYTE, "apply", save(tmp_path, nodes), "--emit", "slurm-hostfile", "--to", hosts)
    ran = slurm.ranks("-n", str(RANKS), "--distribution=arbitrary", SLURM_HOSTFILE=str(hosts))
    assert ran == nodes


@pytest.mark.parametrize("size", [1, 2])
def test_a_plane_is_obeyed(slurm, tmp_path, size):
    nodes = [HOSTS[rank // size % len(HOSTS)] for rank in range(RANKS)]
    told = slurm.run(HOPBYTE, "apply", save(tmp_path, nodes), "--emit", "slurm-plane")
    assert told.stdout == f"plane={size}\n"
    command = told.stderr.split("launch with: ")[1].split("./app")[0]
    options = command.replace("$(cat slurm.plane)", told.stdout.strip()).split()[1:]
    assert slurm.ranks(*options) == nodes


def test_a_plane_needs_slurms_own_order_of_nodes(slurm, tmp_path):
    """Slurm deals ranks to nodes in its own order, regardless of the requested order."""
    ran = slurm.ranks("-n", "4", "-w", ",".join(reversed(HOSTS)), "--ntasks-per-node=1", "--distribution=plane=1")
    assert ran == HOSTS


def test_the_topology_that_slurm_prints_is_read(slurm):
    """From topology.conf, and from the output of `scontrol show topology`."""
    printed = slurm.folder / "printed"
    printed.write_text(slurm.run("scontrol", "show", "topology").stdout)
    for path in (slurm.folder / "topology.conf", printed):
        told = json.loads(slurm.run(HOPBYTE, "fabric", "show", path, "--json", "-q").stdout)
        # Two leaves and one above; each node and cable in both directions.
        assert (told["routers"], told["nodes"], told["links"]) == (3, 4, 2 * (4 + 2)), path
        near, far = SWITCHES["s0"][1], SWITCHES["s1"][0]
        for other, hops in ((near, 2), (far, 4)):
            route = json.loads(slurm.run(HOPBYTE, "fabric", "route", path, HOSTS[0], other, "--json", "-q").stdout)
            assert len(route["request"]) == hops, (path, route)


def test_the_check_says_whether_slurm_obeyed(slurm, tmp_path):
    """Hosts only: srun reports no MPI, so shared memory stays unknown, which the message states."""
    nodes = shuffled(7)
    mapping, hosts = save(tmp_path, nodes), tmp_path / "hosts"
    command = [HOPBYTE, "--json", "apply", mapping, "--emit", "slurm-hostfile", "--to", hosts, "--check", "--"]
    obeyed = slurm.run(*command, "srun", "-n", RANKS, "--distribution=arbitrary", SLURM_HOSTFILE=str(hosts))
    answer = json.loads(obeyed.stdout)
    assert (answer["as_placed"], answer["memory_known"], answer["ranks"]) == (True, False, RANKS)
    assert "shared memory is not" in obeyed.stderr
    own = slurm.run(*command, "srun", "-n", RANKS, "-N", len(HOSTS), "--ntasks-per-node=2", ok=False)
    blocks = [host for host in HOSTS for _ in range(2)]
    expected = [{"rank": r, "expected": nodes[r], "found": blocks[r]} for r in range(RANKS) if nodes[r] != blocks[r]]
    assert own.returncode == 1 and json.loads(own.stdout)["elsewhere"] == expected
    fewer = slurm.run(*command, "srun", "-n", 2, "--distribution=arbitrary", ok=False, SLURM_HOSTFILE=str(hosts))
    missing = [d["rank"] for d in json.loads(fewer.stdout)["elsewhere"] if d["found"] is None]
    assert fewer.returncode == 1 and missing == list(range(2, RANKS))
    refused = slurm.run(*command, "srun", "-n", RANKS, "-w", "nowhere", ok=False)
    assert refused.returncode == 1 and "did not start" in refused.stderr


@pytest.mark.skipif(not (PROGRAMS / "mpich/where").exists(), reason="needs MPICH and the probes: make mpi")
def test_what_slurm_costs_mpich_is_refused_and_seen(slurm, tmp_path):
    """With MPICH, its arbitrary distribution makes every rank a separate node, neighbours or not; a plane does not."""
    blocks = [host for host in reversed(HOSTS) for _ in range(2)]
    mapping, hosts = save(tmp_path, blocks), tmp_path / "hosts"
    emit = ["--emit", "slurm-hostfile", "--to", hosts, "--flavour", "mpich"]
    refused = slurm.run(HOPBYTE, "apply", mapping, *emit, ok=False)
    assert (refused.returncode, hosts.exists()) == (1, False) and "shared memory is lost" in refused.stderr
    check = ["--check", "--programs", PROGRAMS, "--", "srun", "--mpi=pmi2", "-n", RANKS]
    forced = slurm.run(HOPBYTE, "--json", "apply", mapping, *emit, "--force", *check, "--distribution=arbitrary",
                       ok=False, SLURM_HOSTFILE=str(hosts))  # fmt: skip
    answer = json.loads(forced.stdout)
    assert (forced.returncode, answer["elsewhere"]) == (1, []), forced.stderr
    assert {(s["host"], s["ranks"], s["most_shared"]) for s in answer["split"]} == {(h, 2, 1) for h in HOSTS}
    dealt = save(tmp_path, [HOSTS[rank % len(HOSTS)] for rank in range(RANKS)])
    kept = slurm.run(HOPBYTE, "--json", "apply", dealt, "--emit", "slurm-plane", "--to", hosts, "--flavour", "mpich",
                     *check, "-N", len(HOSTS), "--ntasks-per-node=2", "--distribution=plane=1")  # fmt: skip
    answer = json.loads(kept.stdout)
    assert (answer["as_placed"], answer["memory_known"]) == (True, True), kept.stderr


def test_a_search_spreads_over_an_array(slurm, tmp_path):
    """Parts of the seeds as tasks of an array job; gathered, they equal the result of one machine."""
    search = ["map", "stencil:4x4x4:27", "--fabric", "torus:4x4x4", "--nodes", "n0-0-[0-3],n1-2-[0-3]",
              "--trials", "2000", "--threads", "1", "--seeds", "6"]  # fmt: skip
    job = " ".join([str(HOPBYTE), *search, "--out", str(tmp_path / "all"), "--part", "$SLURM_ARRAY_TASK_ID/3"])
    slurm.run("sbatch", "--wait", "--array=1-3", "-n", "1", "-o", tmp_path / "said.%a", "--wrap", job)
    parts = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert parts == [f"part-{i}of3.json" for i in (1, 2, 3)]
    gathered = slurm.run(HOPBYTE, "--json", *search, "--out", tmp_path / "all")
    assert "6 of 6 seeds were done before" in gathered.stderr
    found, alone = (json.loads(r.stdout) for r in (gathered, slurm.run(HOPBYTE, "--json", *search)))
    for key in ("placement", "slots", "seed", "seeds", "trials", "result", "bound", "verdict"):
        assert found[key] == alone[key], key
