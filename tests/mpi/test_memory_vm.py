"""Kinds of memory on three NUMA nodes, in a virtual machine: node 2 is HBM of 256 MB, without CPUs. Two boots, half a
minute on two idle cores; skipped with a note where QEMU or Debian's cloud kernel cannot be had."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from numa_vm import in_vm, run_in_vm

from harness import BUILD, MPICH, MPICH5, OMPI, Mpi

HBM = "MPICH_ALLOC_MEM_AFFINITY=HBM"
MANDATORY = f"{HBM} MPICH_ALLOC_MEM_POLICY=M"
MB = 1 << 20
NODE = "/sys/devices/system/node"


def files_of(mpi: Mpi, program: Path) -> list[Path]:
    """What a job of this MPI needs in the virtual machine."""
    common = [BUILD / "hopbyte-memory", mpi.library("memory"), program]
    if mpi is MPICH:
        tools = [MPICH5 / "bin/mpiexec.hydra", MPICH5 / "bin/hydra_pmi_proxy"]
        return [*common, *tools, *(MPICH5 / "lib/mpich").glob("**/*.so*")]
    return [*common, *openmpi_files()]


def openmpi_files() -> list[Path]:
    """Debian's Open MPI: launcher, plugins, texts."""
    lib = Path("/usr/lib/x86_64-linux-gnu")
    found = [Path("/usr/bin/mpirun.openmpi"), Path("/usr/bin/orted")]
    for folder in (lib / "openmpi/lib", lib / "pmix2", lib / "ucx", Path("/usr/share/openmpi"), Path("/etc/openmpi")):
        found += [f for f in folder.glob("**/*") if f.is_file()]
    return found


def launcher(mpi: Mpi, ranks: int, settings: str) -> str:
    """The shell's words before the program."""
    words = f"LD_PRELOAD={mpi.library('memory')} HOPBYTE_MEMORY_REPORT=1 {settings}".split()
    if mpi is MPICH:
        return f"{MPICH5}/bin/mpiexec.hydra -n {ranks} " + " ".join(f"-genv {w.replace('=', ' ', 1)}" for w in words)
    options = "--allow-run-as-root --oversubscribe --mca btl self,vader --mca pml ob1 --mca plm isolated"
    return f"mpirun.openmpi {options} -np {ranks} " + " ".join(f"-x {w}" for w in words)


@in_vm
@pytest.mark.parametrize("mpi", [MPICH, OMPI], ids=lambda mpi: mpi.name)
def test_three_nodes(mpi: Mpi, tmp_path: Path) -> None:
    program = mpi.build("memory.c")

    def run(settings: str, *words: object, ranks: int = 2) -> str:
        return f"{launcher(mpi, ranks, settings)} {program} {' '.join(str(w) for w in words)}"

    set_pages = "echo {} > " + f"{NODE}/node{{}}/hugepages/hugepages-2048kB/nr_hugepages; "
    cases = {
        "doctor": str(BUILD / "hopbyte-memory"),
        "mandatory": run(MANDATORY, "alloc", 8 * MB),
        "window": run(MANDATORY, "win", 8 * MB),
        "shared": run(MANDATORY, "shared", 8 * MB),
        "interleave": run("HOPBYTE_ALLOC_MEM_AFFINITY=node0-2 HOPBYTE_ALLOC_MEM_POLICY=I", "alloc", 12 * MB),
        "too much": run(MANDATORY, "alloc", 400 * MB, ranks=1),
        "too much window": run(MANDATORY, "win", 400 * MB),
        "too much together": run(MANDATORY, "alloc", 150 * MB),
        "overflow": run(HBM, "alloc", 300 * MB, ranks=1),
        "huge": set_pages.format(24, 2) + run(f"{MANDATORY} MPICH_ALLOC_MEM_PG_SZ=2M HOPBYTE_ALLOC_MEM_POLICY=M", "alloc", 6 * MB, ranks=1),
        "huge window": run(f"{MANDATORY} MPICH_ALLOC_MEM_PG_SZ=2M HOPBYTE_ALLOC_MEM_POLICY=M", "win", 6 * MB),
        "huge elsewhere": run("HOPBYTE_ALLOC_MEM_AFFINITY=DDR HOPBYTE_ALLOC_MEM_POLICY=M HOPBYTE_ALLOC_MEM_PG_SZ=2M", "alloc", 6 * MB),
        "huge preferred": run("HOPBYTE_ALLOC_MEM_AFFINITY=DDR HOPBYTE_ALLOC_MEM_PG_SZ=2M", "alloc", 6 * MB),
        "internal": set_pages.format(0, 2) + run("MPICH_INTERNAL_MEM_AFFINITY=HBM", "alloc", 4096),
        "group": "mkdir -p /cg; mount -t cgroup2 c /cg; mkdir -p /sys/fs/cgroup; mount -t cgroup2 c /sys/fs/cgroup; "
        "echo '+memory +cpuset' > /cg/cgroup.subtree_control; mkdir /cg/job; echo 96M > /cg/job/memory.max; "
        "echo 0-1 > /cg/job/cpuset.mems; sh -c 'echo $$ > /cg/job/cgroup.procs; "
        + run("HOPBYTE_ALLOC_MEM_AFFINITY=DDR", "alloc", 200 * MB, ranks=1)
        + "; "
        + run(MANDATORY, "alloc", 4096, ranks=1)
        + "'",
    }
    found = run_in_vm(tmp_path, files_of(mpi, program), cases)
    assert all(code == 0 for code, _ in found.values()), found
    out = {name: text for name, (_, text) in found.items()}
    nodes = [json.loads(line) for line in out["doctor"].splitlines() if '"row":"node"' in line]
    assert [node["kind"] for node in nodes] == ["DDR", "DDR", "HBM"]
    assert "Killed" not in str(out) and "Bus error" not in str(out) and "BAD" not in str(out)

    for name in ("mandatory", "window", "shared"):
        assert out[name].count("SUCCESS") == 2 and len(re.findall(r"policy=bind:2 N2=204[89] ", out[name])) == 2, out[name]
        assert out[name].count("delivered node 2 (HBM) 8.0 MiB") == 2
    for pages in re.findall(r"policy=interleave:0-2 N0=(\d+) N1=(\d+) N2=(\d+)", out["interleave"]):
        assert all(512 <= int(count) <= 1536 for count in pages)  # transparent huge pages are 512 at once
    assert out["interleave"].count("policy=interleave:0-2 ") == 2

    assert "NO_MEM" in out["too much"] and "400.0 MiB asked for" in out["too much"]
    assert "free on node 2 (HBM)" in out["too much"]
    assert out["too much window"].count("NO_MEM") == 2
    assert "NO_MEM" in out["too much together"] and out["too much together"].count("rank") >= 2
    split = re.search(r"policy=prefer\S* (N\S+ )+", out["overflow"])
    assert split and "N2=" in split[0] and ("N0=" in split[0] or "N1=" in split[0]), out["overflow"]
    assert re.search(r"NOT AS ASKED: [\d.]+ MiB not on node 2", out["overflow"])

    assert "policy=bind:2 N2=3 kernelpagesize_kB=2048" in out["huge"], out["huge"]
    assert out["huge window"].count("policy=bind:2 N2=3 kernelpagesize_kB=2048") == 2, out["huge window"]
    assert out["huge elsewhere"].count("NO_MEM") == 2 and "0 free on node 0-1" in out["huge elsewhere"]
    assert out["huge preferred"].count("SUCCESS") == 2 and "NOT AS ASKED" in out["huge preferred"]

    inside = re.findall(r"internal memory \(HBM, Preferred\): delivered .*?node 2 \(HBM\) ([\d.]+) MiB", out["internal"])
    assert len(inside) == 2 and all(float(size) > 1 for size in inside), out["internal"]
    assert "left to this process by the machine and its control groups" in out["group"]
    assert "HBM is on nodes that this process may not use (cpuset)" in out["group"]
    assert out["group"].count("NO_MEM") == 2
