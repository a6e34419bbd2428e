"""`hopbyte apply --check`: real launchers on the lab's hosts, matching and not, and Hydra's effect on shared memory.

Open MPI 4 and MPICH always run; the launchers of Open MPI 5 and Intel MPI if their wheels could be installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Lab, totals
from program import INTEL, MPICH5, OPENMPI5, PROGRAMS

HOSTS = ["n0-0", "n0-1", "n1-0", "n1-1"]
# Two ranks per host: neighbours in MIXED are seldom on one host, in TURNED always.
MIXED = ["n0-1", "n0-0", "n0-0", "n0-1", "n1-1", "n1-0", "n1-0", "n1-1"]
TURNED = ["n1-0", "n1-0", "n0-0", "n0-0", "n1-1", "n1-1", "n0-1", "n0-1"]

OPENMPI = ("mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $HOPBYTE_LAB_AGENT --mca btl tcp,self,vader "
           "--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 -np 8")
# Ranks load the launcher's own library before the one of the build: their ABIs are the same.
OPENMPI_5 = (f"{OPENMPI5}/bin/mpirun --allow-run-as-root --prtemca plm_ssh_agent $HOPBYTE_LAB_AGENT "
             "--prtemca prte_if_include eth0 --mca pml ob1 --mca btl tcp,self,sm "
             "--mca btl_tcp_if_include eth0 -n 8")
HYDRA = f"{MPICH5}/bin/mpiexec -launcher ssh -launcher-exec $HOPBYTE_LAB_AGENT -iface eth0 -n 8"
INTEL_HYDRA = (f"{INTEL}/bin/mpiexec.hydra -bootstrap ssh -bootstrap-exec $HOPBYTE_LAB_AGENT -iface eth0 -n 8")
LIBRARIES = {
    OPENMPI_5: f"LD_LIBRARY_PATH={OPENMPI5}/lib",
    INTEL_HYDRA: f"LD_LIBRARY_PATH={INTEL}/lib I_MPI_ROOT={INTEL} FI_PROVIDER=tcp",
}

needs_openmpi = pytest.mark.skipif(
    not shutil.which("mpirun.openmpi") or not (PROGRAMS / "ompi/where").exists(),
    reason="needs Open MPI and the probes: make -C probes deps && make -C probes",
)
needs_mpich = pytest.mark.skipif(
    not (PROGRAMS / "mpich/where").exists(), reason="needs MPICH and the probes: make -C probes deps && make -C probes"
)


def save(one: Lab, folder: Path, nodes: list[str]) -> Path:
    """A mapping with rank r on nodes[r]."""
    command = [str(one.binary), "map", "stencil:4x2:5", "--fabric", "torus:2x2", "--nodes", ",".join(HOSTS),
               "--ranks-per-node", "2", "--trials", "100", "--json", "-q"]  # fmt: skip
    mapping = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    slots = [nodes[:rank].count(node) for rank, node in enumerate(nodes)]
    path = folder / "mapping.json"
    path.write_text(json.dumps({**mapping, "placement": nodes, "slots": slots}))
    return path


def check(one: Lab, mapping: Path, launcher: str, options: str = "") -> tuple[int, dict, str]:
    """Runs the check on the first host; exit code, answer, messages."""
    libraries = next((setting for start, setting in LIBRARIES.items() if launcher.startswith(start)), "")
    words = f"{libraries} {one.binary} --json apply {mapping} {options} --check --programs {PROGRAMS} -- {launcher}"
    command = [str(one.binary), "lab", "run", "--name", one.name, "--", "sh", "-c", f"{words}; echo exit $?"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    lines = done.stdout.splitlines()
    assert lines and lines[-1].startswith("exit "), done.stdout + done.stderr
    answer = json.loads(lines[-2]) if len(lines) > 1 else {}
    return int(lines[-1].split()[1]), answer, done.stderr


@needs_openmpi
def test_open_mpi_obeys_a_rankfile_and_the_check_sees_when_it_is_forgotten(lab, tmp_path):
    one = lab("torus:2x2", "--rate", "100mbit")
    mapping, rankfile = save(one, tmp_path, MIXED), tmp_path / "rankfile"
    hosts = ",".join(f"{host}:2" for host in HOSTS)
    emit = f"--emit openmpi-rankfile --to {rankfile}"
    code, answer, said = check(one, mapping, f"{OPENMPI} --host {hosts} --rankfile {rankfile}", emit)
    assert (code, answer["as_placed"], answer["memory_known"]) == (0, True, True), (answer, said)
    assert answer["cores_known"] and not answer["notes"], answer
    # Right hosts, wrong cores: those of a host swapped without the check's knowledge.
    other = tmp_path / "exchanged"
    exchange = f"sed 's/slot=0/slot=x/; s/slot=1/slot=0/; s/slot=x/slot=1/' {rankfile} >{other}"
    subprocess.run(exchange, shell=True, check=True)
    code, answer, said = check(one, mapping, f"{OPENMPI} --host {hosts} --rankfile {other}", emit)
    off = [(c["rank"], c["expected"], c["found"]) for c in answer["off_core"]]
    slots = [MIXED[:rank].count(node) for rank, node in enumerate(MIXED)]
    assert (code, answer["elsewhere"], off) == (1, [], [(r, slots[r], str(1 - slots[r])) for r in range(8)]), said
    hostfile = tmp_path / "hostfile"
    code, answer, said = check(one, mapping, f"{OPENMPI} --map-by seq --hostfile {hostfile}",
                               f"--emit openmpi-hostfile --to {hostfile}")
    assert (code, answer["elsewhere"], answer["split"]) == (0, [], []), (answer, said)
    code, answer, said = check(one, mapping, f"{OPENMPI} --host {hosts} --map-by slot")
    wrong = [(d["rank"], d["expected"], d["found"]) for d in answer["elsewhere"]]
    by_slot = [HOSTS[rank // 2] for rank in range(8)]
    assert (code, wrong) == (1, [(r, MIXED[r], by_slot[r]) for r in range(8) if MIXED[r] != by_slot[r]]), said
    # A launcher that starts nothing is reported, without a hang.
    code, _, said = check(one, mapping, f"{OPENMPI} --host n0-0:1")
    assert code == 1 and "did not start" in said, said
    if not (OPENMPI5 / "installed").exists():
        return
    code, answer, said = check(one, mapping, f"{OPENMPI_5} --host {hosts} --map-by rankfile:file={rankfile}", emit)
    assert (code, answer["as_placed"], answer["memory_known"]) == (0, True, True), (answer, said)
    assert answer["cores_known"] and not answer["notes"], answer
    code, answer, said = check(one, mapping, f"{OPENMPI_5} --hostfile {hostfile} --map-by seq:file={hostfile}")
    assert (code, answer["elsewhere"], answer["split"]) == (0, [], []), (answer, said)


@needs_mpich
def test_hydra_keeps_shared_memory_only_where_ranks_are_neighbours(lab, tmp_path):
    one = lab("torus:2x2", "--rate", "100mbit")
    hosts = tmp_path / "hydra.hosts"
    options = f"--emit hydra-hostfile --to {hosts}"
    mixed = save(one, tmp_path, MIXED)
    code, answer, said = check(one, mixed, f"{HYDRA} -f {hosts}", options)
    assert (code, answer, hosts.exists()) == (1, {}, False) and "refused" in said, said
    # Every rank is on its host, but the run differs from the mapping in shared memory.
    code, answer, said = check(one, mixed, f"{HYDRA} -f {hosts}", f"{options} --force")
    assert "shared memory between them is lost" in said
    assert (code, answer["elsewhere"]) == (1, []), (answer, said)
    assert [(s["host"], s["ranks"], s["most_shared"]) for s in answer["split"]] == [("n0-1", 2, 1), ("n1-1", 2, 1)]
    if (INTEL / "installed").exists():
        # Intel's Hydra groups ranks by host name.
        machines = tmp_path / "intel.machines"
        code, answer, said = check(one, mixed, f"{INTEL_HYDRA} -machinefile {machines}",
                                   f"--emit intel-machinefile --to {machines}")
        assert (code, answer["as_placed"], answer["memory_known"]) == (0, True, True), (answer, said)
    code, answer, said = check(one, save(one, tmp_path, TURNED), f"{HYDRA} -f {hosts}", options)
    assert (code, answer["as_placed"], answer["memory_known"]) == (0, True, True), (answer, said)


@needs_mpich
def test_mpich_multiplies_across_hosts_and_the_links_carry_its_faces(lab, tmp_path):
    """2x2 blocks, one per host, 51 products of two faces each (one checks): every host sends that and little else."""
    one = lab("torus:2x2", "--rate", "50mbit")
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{host}:1\n" for host in HOSTS))
    words = (f"UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 {HYDRA.replace('-n 8', '-n 4')} -f {hosts} {PROGRAMS}/mpich/spmv "
             "--grid 2,2,1 --cells 1,1,1 --unknowns 2500 --iterations 50 --nap 200 --deadline 200 --json")  # fmt: skip
    command = [str(one.binary), "lab", "run", "--name", one.name, "--", "sh", "-c", words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["verified"]
    faces = 51 * 2 * 2500 * 8 * 1514 / 1448
    sent = {name: count for name, count in totals(one).items() if name.endswith("eth0")}
    assert len(sent) == 4 and all(faces <= count for count in sent.values()), (faces, sent)
    # The first host gathers the vector twice and talks to the launchers; the others send their parts.
    assert sum(sent.values()) < 1.25 * 4 * faces, (faces, sent)
