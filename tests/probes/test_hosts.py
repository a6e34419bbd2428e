"""On emulated hosts with links of 50 Mbit/s: the probes measure the links' rates, and find the slow direction.

Hosts are network namespaces made by hosts.sh; it needs root, and the tests are skipped, visibly, without it."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from launch import BOTH, MPICH, OMPI, Mpi, Result, finish, start

HOSTS = 4
RATE = "50mbit"
SMALLEST, LARGEST = 44e6 / 8, 50e6 / 8  # payload bytes per second; frames of 1514 bytes carry 1448
PLACES = int(os.environ.get("HOPBYTE_TEST_PLACES", "3"))
SCRIPT = Path(__file__).with_name("hosts.sh")

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("tc"), reason="needs root and iproute2")


def start_on_hosts(mpi: Mpi, folder: Path, program: str, *arguments: object, slow: str = "",
                   ranks: int = 1, rate: str = RATE) -> subprocess.Popen[str]:
    """Starts a probe with some ranks on each emulated host, one host after the other."""
    agent, hosts = folder / "agent", folder / "hosts"
    if mpi.is_ompi:
        network = "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
        launcher = (f"{shutil.which(mpi.launcher)} --allow-run-as-root --mca plm_rsh_agent {agent} --hostfile {hosts} "
                    f"--map-by ppr:{ranks}:node --oversubscribe --bind-to none {network} -np {HOSTS * ranks}")
    else:
        launcher = (f"UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 {mpi.launcher} -launcher ssh -launcher-exec {agent} "
                    f"-f {hosts} -ppn {ranks} -n {HOSTS * ranks}")
    # Naps leave the two cores of a small machine to busy ranks.
    words = " ".join([launcher, str(mpi.program(program)), *map(str, arguments), "--nap 100 --json"])
    return start([str(SCRIPT), str(HOSTS), rate, str(folder), words], {"HOPBYTE_SLOW": slow})


def on_hosts(mpi: Mpi, folder: Path, program: str, *arguments: object, slow: str = "") -> Result:
    """Runs a probe with one rank on each emulated host."""
    return finish(start_on_hosts(mpi, folder, program, *arguments, slow=slow))


def rates(records: list[dict[str, Any]]) -> dict[tuple[str, str], list[float]]:
    """Bytes per second of every trial by (from, to)."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        if "trial" in record:
            found[record["from"], record["to"]].append(record["bytes_per_second"])
    return found


def check_rates(found: Mapping[tuple[str, str], list[float]]) -> None:
    """Never above the link's rate, and in the best trial (others share the processor) at it."""
    for path, trials in found.items():
        assert max(trials) <= LARGEST, (path, trials)
        assert max(trials) >= SMALLEST, (path, trials)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_topobw_measures_the_links(mpi: Mpi, tmp_path: Path) -> None:
    result = on_hosts(mpi, tmp_path, "topobw", "--tournament", "--bytes", "250kB", "--window", 6, "--trials", 3)
    found = rates(result.ok().records())
    assert found.keys() == {(f"h{a}", f"h{b}") for a in range(HOSTS) for b in range(HOSTS) if a != b}
    check_rates(found)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_bandwidth_measures_the_link(mpi: Mpi, tmp_path: Path) -> None:
    first, record = on_hosts(mpi, tmp_path, "hopbyte-probe", "bandwidth", "--bytes", "100kB", "--window", 16,
                             "--iterations", 1, "--trials", 5, "--budget", 0).ok().records()
    assert first["run"]["nodes"] == [f"h{i}" for i in range(HOSTS)]
    best = 16 * 100e3 / record["least_seconds"]
    assert SMALLEST <= best <= LARGEST, record


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("way", ["out", "in", "both"])
def test_slow_direction_stands_out(way: str, place: int, tmp_path: Path) -> None:
    """One host at 10 Mbit/s: exactly its paths in that direction are below 20, half of the others' rate."""
    mpi = (OMPI, MPICH)[place % 2]
    victim = random.Random(f"{way} {place}").randrange(HOSTS)
    ways = ["out", "in"] if way == "both" else [way]
    slow = ";".join(f"h{victim} {w} 10mbit" for w in ways)
    found = rates(on_hosts(mpi, tmp_path, "topobw", "--tournament", "--bytes", "100kB", "--window", 5, "--trials", 3,
                           slow=slow).ok().records())
    medians = {path: statistics.median(trials) for path, trials in found.items()}
    flagged = {path for path, rate in medians.items() if rate < 20e6 / 8}
    name = f"h{victim}"
    expected = {(a, b) for a, b in found if ("out" in ways and a == name) or ("in" in ways and b == name)}
    assert flagged == expected, medians


def test_ring_of_hosts(tmp_path: Path) -> None:
    """Coordinates by host name: the slow host's two outgoing links are slow, in either direction of the ring."""
    coords = tmp_path / "coords"
    coords.write_text("dims 4\n" + "".join(f"node h{i} {i}\n" for i in range(4)))
    *lines, _ = on_hosts(OMPI, tmp_path, "topobw", "--coords", coords, "--bytes", "100kB", "--window", 5, "--trials", 3,
                         slow="h1 out 10mbit").ok().records()
    trials: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        trials[line["link"]].append(line["bytes_per_second"])
    assert len(trials) == 8
    assert {link for link, t in trials.items() if statistics.median(t) < 20e6 / 8} == {"r1 X+", "r1 X-"}


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_spmv_gains_from_a_map_while_running(mpi: Mpi, tmp_path: Path) -> None:
    """4x4 blocks, four on a host: rows of blocks send 8 faces over a host's link, squares send 4. After the blocks have
    moved, a product takes half the time, and all products together equal the serial ones."""
    remap = tmp_path / "remap"
    child = start_on_hosts(mpi, tmp_path, "spmv", "--grid", "4,4,1", "--iterations", 80, "--report-every", 10,
                           "--check-every", 5, "--verify", "full", "--remap", remap, ranks=4, rate="20mbit")
    # Slots in reverse order, so that some blocks move within their host and others through it.
    squares = [(2 * (host // 2) + slot // 2) * 4 + 2 * (host % 2) + slot % 2
               for host in range(4) for slot in reversed(range(4))]
    averages: dict[str, list[float]] = defaultdict(list)
    records: list[dict[str, Any]] = []
    assert child.stdout
    for line in child.stdout:
        records.append(json.loads(line))
        if records[-1].get("record") == "window" and records[-1]["iterations"] == 10:
            averages[records[-1]["map"]].append(records[-1]["average_seconds"])
        if len(averages["identity"]) == 3 and not remap.exists():
            temporary = tmp_path / "remap.tmp"
            temporary.write_text("".join(f"{rank} {block}\n" for rank, block in enumerate(squares)))
            temporary.rename(remap)
    finish(child).ok()
    assert records[-1]["verified"]
    [moved] = [r for r in records if r.get("record") == "migration"]
    others = [(rank, block) for rank, block in enumerate(squares) if rank != block]
    assert moved["moved_blocks"] == len(others)
    assert moved["handed_blocks"] == sum(rank // 4 == block // 4 for rank, block in others) > 0
    # The quickest ten products of each: other jobs on this machine only add time.
    before, after = min(averages["identity"]), min(averages[str(remap)])
    # 8 faces of 5x5x100 doubles and their frames at 20 Mbit/s take 67 ms.
    print(f"product {before * 1e3:.1f} ms in rows, {after * 1e3:.1f} ms in squares")
    assert before >= 8 * 20000 * 8 / 20e6
    assert 1.7 <= before / after <= 2.3
