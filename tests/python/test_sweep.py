"""A sweep on a real Dask cluster of two processes says what one machine says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from dask.distributed import Client, LocalCluster

import hopbyte

SCENARIO = """
schema = "hopbyte.scenario/1"
name = "halo"
fabric = "torus:4x4x4:link=3.092,host=2.0,latency=50"
network = "seastar"
noise = 0.05
[job]
placement = "random"
workload.halo = { grid = [4, 4, 4], bytes = [100e3], iterations = 2, compute_s = 0.0005 }
"""


def test_dask_and_one_machine_agree(tmp_path: Path) -> None:
    scenario = tmp_path / "halo.toml"
    scenario.write_text(SCENARIO)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        found = hopbyte.sweep_on_dask(
            client, [scenario], link=[0.25, 1.0], cpu=[1.0, 2.0], trials=3, parts=4, out=tmp_path / "dask.parquet"
        )
        with pytest.raises(hopbyte.HopbyteError, match="trials"):
            hopbyte.sweep_on_dask(client, [scenario], trials=0, parts=1, out=tmp_path / "nothing.parquet")
    assert [f["axis"] for f in found] == ["link", "cpu"]
    assert found[0]["slope"]["low"] <= found[0]["slope"]["mean"] <= found[0]["slope"]["high"]
    words = ["sweep", "halo.toml", "--link", "0.25,1", "--cpu", "1,2", "--trials", "3", "--out", "one.parquet"]
    subprocess.run([sys.executable, "-m", "hopbyte", "--quiet", *words], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    table = pq.read_table(tmp_path / "one.parquet")
    assert table.num_rows == 9
    assert table.column("link_factor").to_pylist() == [1.0] * 3 + [0.25] * 3 + [1.0] * 3
    assert not list(tmp_path.glob("*.jsonl"))
