"""`hopbyte run` on the lab's hosts: recorded, then reordered, then verified; any failure launches the job unchanged."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Lab, totals
from program import LIBRARIES, PROGRAMS
from test_apply import HOSTS, HYDRA, OPENMPI, needs_mpich, needs_openmpi

SPMV = "--grid 4,2,1 --cells 1,1,1 --unknowns 2500 --iterations 20 --nap 200 --deadline 200 --json"
OPEN = f"{OPENMPI} --host {','.join(f'{host}:2' for host in HOSTS)} --map-by node {PROGRAMS}/ompi/spmv {SPMV}"


def launch(one: Lab, folder: Path, command: str, *options: str, settings: str = "") -> tuple[int, str, str, int]:
    """Runs the command under `hopbyte run`; exit code, output, remarks, bytes that left the hosts."""
    common = f"fabric = 'torus:2x2'\nstate = 'state'\nlibraries = '{LIBRARIES}'\n"
    (folder / "hopbyte.toml").write_text(common + settings)
    (folder / "state").mkdir(exist_ok=True)
    before = sum(count for name, count in totals(one).items() if name.endswith("eth0"))
    words = f"cd {folder} && {one.binary} run {' '.join(options)} -- {command}; echo exit $?"
    done = subprocess.run(
        [str(one.binary), "lab", "run", "--name", one.name, "--", "sh", "-c", words],
        check=False, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    after = sum(count for name, count in totals(one).items() if name.endswith("eth0"))
    out, _, code = done.stdout.rpartition("exit ")
    return int(code or -1), out, done.stderr, after - before


def three_runs(one: Lab, folder: Path, command: str) -> None:
    code, out, said, first = launch(one, folder, command)
    assert (code, '"verified":true' in out.replace(" ", "")) == (0, True), said
    assert "recording the traffic of this command" in said
    code, out, said, second = launch(one, folder, command)
    assert code == 0 and re.search(r"order of 8 ranks is changed: \d+ % less time", said), said
    assert second < 0.8 * first, (first, second)
    code, out, said, third = launch(one, folder, command)
    assert code == 0 and "the last run was placed as requested" in said and "is changed" in said, said
    assert third < 0.8 * first, (first, third)
    # Now known to work, it is recorded no more, and leaves nothing but the record.
    code, out, _, _ = launch(one, folder, command, "--dry-run")
    assert code == 0 and "libhopbyte_reorder" in out and "libhopbyte_record" not in out, out
    left = sorted(path.name for path in (folder / "state").glob("*/*"))
    assert left[:4] == ["command", "decision", "placement.csv", "record"], left
    # What the last run asked for, until the next launch settles it.
    assert len({name.partition(".")[0] for name in left[4:]}) == 1, left


@needs_openmpi
def test_open_mpi_is_recorded_then_reordered_and_verified(lab, tmp_path):
    one = lab("torus:2x2", "--rate", "100mbit")
    three_runs(one, tmp_path, OPEN)
    # A rank on each node of the ring: the launcher's own order is the best.
    ring = OPEN.replace("-np 8", "-np 4").replace("--grid 4,2,1", "--grid 2,2,1")
    launch(one, tmp_path, ring)
    code, _, said, _ = launch(one, tmp_path, ring)
    assert code == 0 and "command unchanged: the launcher's own order is as good" in said, said


@needs_mpich
def test_mpich_is_recorded_then_reordered_and_verified(lab, tmp_path):
    one = lab("torus:2x2", "--rate", "100mbit")
    hosts = tmp_path / "hosts"
    # Hydra starts the first of each host, then the second of each: neighbours are apart.
    hosts.write_text("".join(f"{host}:1\n" for host in HOSTS))
    network = "-genv UCX_TLS tcp,self -genv UCX_NET_DEVICES eth0"
    three_runs(one, tmp_path, f"{HYDRA} {network} -f {hosts} {PROGRAMS}/mpich/spmv {SPMV}")


@needs_openmpi
@pytest.mark.parametrize(
    ("options", "settings", "why"),
    [
        ([], "fabrik = 'x'\n", "found fabrik"),
        (["--fabric", "nowhere.txt"], "", None),
        (["--fabric", "torus:3x3x3"], "", None),
    ],
)
def test_a_failure_launches_the_command_unchanged(lab, tmp_path, options, settings, why):
    one = lab("torus:2x2", "--rate", "100mbit")
    short = f"{OPENMPI.replace('-np 8', '-np 4')} --host {','.join(HOSTS)} sh -c"
    for _ in range(2):
        code, out, said, _ = launch(one, tmp_path, f"{short} 'echo here; exit 7'", *options, settings=settings)
        assert code == 7 and out.count("here") == 4, (out, said)
    if why:
        assert "command unchanged: " in said and why in said, said


def test_a_launcher_that_does_not_answer_costs_the_deadline_and_no_more(lab, tmp_path):
    one = lab("torus:2x2", "--rate", "100mbit")
    slow = tmp_path / "mpirun"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] && exec sleep 30\necho launched "$@"\n')
    slow.chmod(0o755)
    start = time.monotonic()
    code, out, said, _ = launch(one, tmp_path, f"{slow} --host a,b -n 2 ./app", "--deadline", "0.5")
    assert (code, out) == (0, "launched --host a,b -n 2 ./app\n"), said
    assert "command unchanged: no placement within 0.5 s" in said, said
    assert time.monotonic() - start < 10
