"""pytorch issue 191190 on a railed lab: torchrun numbers hosts by their names as strings, h10 before h2, and the ring
of an all-reduce follows.

A real torchrun with gloo (Debian's python3-torch), with a dynamic rendezvous and with hopbyte's table.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Lab
from test_hosts import FULL, Case, predicted

# Twelve hosts with two adapters; the first adapters of four hosts share a leaf, and leaves have one up-link.
FABRIC = "fattree:down=4x6,up=1x1,rails=2,link=0.00125,hosts=plain/rail"
HOSTS = [f"h{i}" for i in range(12)]
BYTES, REPEATS = 480_000, 5
TRAIN = Path(__file__).parent / "train.py"
# torch 1.13 fails under Python 3.11 on its default of both, 0: an enum of bits is iterated without 0 there.
PYTHON311 = "--redirects=1 --tee=1"
# Debian's program and its own Python; a virtual environment's is not meant.
TORCHRUN = shutil.which("torchrun", path="/usr/bin:/usr/local/bin")

needs_torch = pytest.mark.skipif(
    TORCHRUN is None or not FULL, reason="three minutes: make test-lab-full, which needs python3-torch"
)


def launched(one: Lab, line: str, folder: Path) -> tuple[list[str], float]:
    """Runs the same line on all hosts; hosts in rank order and the median time of an all-reduce."""
    line = line.replace("app.py", f"{PYTHON311} {TRAIN} {BYTES} {REPEATS}")
    environment = ["env", "OMP_NUM_THREADS=1", f"TMPDIR={folder}", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]
    jobs = [
        subprocess.Popen(
            [str(one.binary), "lab", "run", "--name", one.name, "--on", host, "--", *environment, "sh", "-c", line],
            cwd=folder, stdout=subprocess.PIPE, stderr=(folder / f"{host}.log").open("w"), text=True,
        )
        for host in HOSTS
    ]  # fmt: skip
    deadline = time.monotonic() + 400
    said = [job.communicate(timeout=max(1.0, deadline - time.monotonic()))[0] for job in jobs]
    logs = "\n".join((folder / f"{host}.log").read_text()[-800:] for host in HOSTS)
    assert all(job.returncode == 0 for job in jobs), logs
    [found] = [json.loads(text) for text in re.findall(r"\{.*\}", "".join(said))]
    return found["hosts"], statistics.median(found["seconds"])


def ring(order: list[str], folder: Path) -> float:
    """Predicted seconds of the all-reduce of one rail: the others are alike and share no link with it."""
    return predicted(FABRIC, Case("", "ring", BYTES, [f"{host}-r0" for host in order]), folder)


@needs_torch
def test_hosts_sorted_as_strings_cost_time_and_the_table_of_hopbyte_does_not(lab, tmp_path):
    one = lab(FABRIC, "--rate", "10mbit")
    strings = sorted(HOSTS)
    plan = ["plan:dp=12,tp=2", "--fabric", FABRIC, "--nodes", ",".join(strings), "--trials", "2000"]
    command = [str(one.binary), "--quiet", "map", *plan, "--emit", "torchrun", "--out", str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    table = (tmp_path / "torchrun.hosts").read_text().splitlines()[1:]
    order = [row.split()[0] for row in table]
    launchers = [str(one.binary), "--json", "apply", str(tmp_path / "mapping.json")]
    rows = subprocess.run(launchers, check=True, capture_output=True, text=True).stdout.splitlines()
    [line] = [
        row["command"].replace("FILE", "torchrun.hosts")
        for row in map(json.loads, rows)
        if row.get("launcher") == "torchrun"
    ]
    forecast = {"strings": ring(strings, tmp_path), "table": ring(order, tmp_path)}
    (tmp_path / "predicted.json").write_text(json.dumps(forecast))
    dynamic = "torchrun --nnodes=12 --nproc_per_node=2 --rdzv_id=1 --rdzv_backend=c10d --rdzv_endpoint=h0:29400 app.py"
    by_name, slow = launched(one, dynamic, tmp_path)
    by_table, fast = launched(one, line, tmp_path)
    print(f"predicted {forecast}, measured strings {slow:.3f} table {fast:.3f}")
    assert by_name == strings != order
    assert by_table == order
    assert slow / fast > 1.5
