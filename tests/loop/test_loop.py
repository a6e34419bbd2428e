"""Commands of the README on real captures, and their certificates recomputed."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest

TORUS = "data/infiniband/opensm-torus-5x4x3"
LAUNCHER_FILES = ["MPICH_RANK_ORDER", "rankfile", "hostfile", "slurm.hosts", "placement.csv"]


def without_network() -> tuple[str, ...]:
    """Prefix that disconnects a command from the network, where permitted."""
    return ("unshare", "-n") if os.geteuid() == 0 and shutil.which("unshare") else ()


def test_demo_in_a_minute_without_network(hopbyte, tmp_path):
    begin = time.monotonic()
    done = hopbyte("demo", "--out", tmp_path, "--json", "--quiet", wrap=without_network())
    assert time.monotonic() - begin < 60
    answer = json.loads(done.stdout)
    mapping = answer["mapping"]
    assert mapping["verdict"] == "improved"
    for figure in ("worst_link_seconds", "hop_bytes"):
        assert mapping["bound"][figure] <= mapping["result"][figure] < mapping["best_baseline"][figure]
    assert answer["model"]["mapped_seconds"] < answer["model"]["beside_seconds"]
    for name in LAUNCHER_FILES:
        assert (tmp_path / name).stat().st_size > 0
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page and not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)


def test_certificate_equals_a_recount(hopbyte, recount, tmp_path):
    ranks = random.Random(7)
    matrix = [[ranks.choice([0, 0, 0, 1000, 250_000]) for _ in range(48)] for _ in range(48)]
    traffic = tmp_path / "dense.mat"
    traffic.write_text("\n".join(" ".join(map(str, row)) for row in matrix) + "\n")
    where = {"subnet": "ibnetdiscover.out.zst", "routes": "opensm-lfts.dump.zst"}
    files = {name: Path(__file__).parents[2] / TORUS / file for name, file in where.items()}
    done = hopbyte(
        "map", traffic, "--fabric", files["subnet"], "--routes", files["routes"],
        "--nodes", "n-[0-3]-[0-2]-1-0 HCA-1", "--ranks-per-node", 4, "--trials", 20000,
        "--json", "-q", "--out", tmp_path,
    )  # fmt: skip
    certificate = tmp_path / "certificate.json"
    certificate.write_text(done.stdout)
    counted = recount(certificate, "result", traffic=traffic, placement=tmp_path / "placement.csv", **files)
    assert counted["worst_link_seconds"] > 0


@pytest.fixture
def folder(shared):
    return shared / "infiniband/plafrim2"


@pytest.fixture
def machine(folder):
    return {
        "subnet": folder / "ib-subnet-fe80_0000_0000_0000.txt",
        "routes": folder / "ibroutes-fe80_0000_0000_0000",
    }


class TestPlafrim2:
    """The 64 ranks of a real application on their real slots."""

    def test_remap_beats_the_real_placement(self, hopbyte, recount, folder, machine, tmp_path):
        real = folder / "resources.txt"
        done = hopbyte(
            "map", folder / "app.mat", "--fabric", machine["subnet"], "--routes", machine["routes"],
            "--current", real, "--json", "-q", "--out", tmp_path,
        )  # fmt: skip
        certificate = tmp_path / "certificate.json"
        certificate.write_text(done.stdout)
        given = {"traffic": folder / "app.mat", **machine}
        before = recount(certificate, "current", placement=real, **given)
        after = recount(certificate, "result", placement=tmp_path / "placement.csv", **given)
        rankfile = recount(certificate, "result", placement=tmp_path / "rankfile", **given)
        assert after == rankfile
        assert after["worst_link_seconds"] < before["worst_link_seconds"]
        assert after["hop_bytes"] < before["hop_bytes"]
        bound = json.loads(done.stdout)["bound"]["worst_link_seconds"]
        assert 0 < bound <= after["worst_link_seconds"]

    def test_demo_on_it(self, hopbyte, folder, machine, tmp_path):
        done = hopbyte(
            "demo", "--fabric", machine["subnet"], "--routes", machine["routes"], "--traffic", folder / "app.mat",
            "--current", folder / "resources.txt", "--out", tmp_path,
        )  # fmt: skip
        assert "better than" in done.stdout
        assert (tmp_path / "report.html").stat().st_size > 10_000


def test_bad_input_leaves_nothing_behind(hopbyte, tmp_path):
    cases = {
        "empty": b"",
        "binary": bytes(range(256)) * 64,
        "cut": (Path(__file__).parents[2] / TORUS / "ibnetdiscover.out.zst").read_bytes()[:700],
        "long": b"x" * 5_000_000,
    }
    out = tmp_path / "out"
    for name, content in cases.items():
        bad = tmp_path / name
        bad.write_bytes(content)
        done = hopbyte("map", "stencil:4x4:5", "--fabric", bad, "--nodes", "all", "--out", out, code=2)
        assert "error[HB" in done.stderr and str(bad) in done.stderr and "hint:" in done.stderr
        assert len(done.stderr) < 2000 and "panicked" not in done.stderr
        assert not out.exists()
