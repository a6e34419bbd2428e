"""`hopbyte demo --lab` at a small size: the loop runs, results are right, and a killed demo cleans up."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time

import pytest
from program import LIBRARIES, PROGRAMS, hopbyte_binary

SIZE = [
    "--machine", "torus:2x2x2", "--grid", "2,2,1", "--unknowns", "2500", "--competing", "2",
    "--programs", str(PROGRAMS), "--libraries", str(LIBRARIES),
]  # fmt: skip

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun.openmpi") or not (PROGRAMS / "ompi/spmv").exists()
    or not (LIBRARIES / "libhopbyte_record_ompi.so").exists(),
    reason="needs Open MPI, the probes and the preload libraries: make -C probes deps all; make -C mpi deps all",
)


def namespaces() -> set[str]:
    """Processes of all demos; another one may be running."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return {line.split()[0] for line in listed.stdout.splitlines() if re.match(r"demo\d+-", line)}


def test_the_loop_on_a_small_cluster(tmp_path):
    """One trial: the running application takes every method's map, and its results stay right."""
    others = namespaces()
    command = [str(hopbyte_binary()), "demo", "--lab", *SIZE, "--lab-trials", "1", "--budget", "1", "--out",
               str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    assert answer["verified"] and len(answer["nodes"]) == answer["ranks"] == 4
    assert [f["method"] for f in answer["figures"]] == ["hops", "used", "credit-stall", "worst-link"]
    (trial,) = answer["trials"]
    # Two faces of 20 kB leave every host in a product: 32 ms at 10 Mbit/s, and no link is faster than that.
    assert trial["alone_seconds"] > 2 * 20000 * 8 / 10e6
    for remap in trial["remaps"]:
        assert remap["product_seconds"] > 2 * 20000 * 8 / 10e6
        assert remap["mapping_seconds"] > 0 and remap["moving_seconds"] >= 0
    # The recorded traffic is the application's: two neighbours, 5x5x100 doubles each, and one plan exchange.
    lines = [line.split(",") for line in (tmp_path / "out/product.csv").read_text().splitlines()[1:]]
    assert len(lines) == 8 and all(20000 <= float(line[2]) < 21000 and line[3] == "1" for line in lines), lines
    assert not namespaces() - others


def test_a_killed_demo_leaves_nothing(tmp_path):
    others = namespaces()
    command = [str(hopbyte_binary()), "demo", "--lab", *SIZE, "--out", str(tmp_path / "out")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(namespaces() - others) < 16 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    child.send_signal(signal.SIGKILL)
    child.wait()
    while namespaces() - others and time.monotonic() < deadline + 120:
        time.sleep(0.2)
    assert not namespaces() - others


def test_what_it_lacks_is_said_first(tmp_path):
    command = [str(hopbyte_binary()), "demo", "--lab", "--grid", "3,1", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "three numbers" in done.stderr
    command = [str(hopbyte_binary()), "demo", "--lab", "--programs", str(tmp_path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and "make -C probes" in done.stderr
