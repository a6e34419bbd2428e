"""A sweep and a mapping search on a real Dask cluster of two processes give the results of one machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from dask.distributed import Client, LocalCluster

import hopbyte

SCENARIO = Path(__file__).resolve().parents[1] / "halo.toml"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        yield client


def test_dask_and_one_machine_agree(tmp_path: Path, client: Client) -> None:
    found = hopbyte.sweep_on_dask(
        client, [SCENARIO], link=[0.25, 1.0], cpu=[1.0, 2.0], trials=3, parts=4, out=tmp_path / "dask.parquet"
    )
    with pytest.raises(hopbyte.HopbyteError, match="trials"):
        hopbyte.sweep_on_dask(client, [SCENARIO], trials=0, parts=1, out=tmp_path / "nothing.parquet")
    assert [f["axis"] for f in found] == ["link", "cpu"]
    assert found[0]["slope"]["low"] <= found[0]["slope"]["mean"] <= found[0]["slope"]["high"]
    words = ["sweep", str(SCENARIO), "--link", "0.25,1", "--cpu", "1,2", "--trials", "3", "--out", "one.parquet"]
    subprocess.run([sys.executable, "-m", "hopbyte", "--quiet", *words], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    table = pq.read_table(tmp_path / "one.parquet")
    assert table.num_rows == 9
    assert table.column("link_factor").to_pylist() == [1.0] * 3 + [0.25] * 3 + [1.0] * 3
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_mapping_found_on_dask_is_that_of_one_machine(tmp_path: Path, client: Client) -> None:
    traffic = tmp_path / "grid.csv"
    pairs = [(r, (r + d) % 64) for r in range(64) for d in (1, 8, 63, 56)]
    traffic.write_text("src,dst,bytes\n" + "".join(f"{a},{b},{1000 + 10 * a}\n" for a, b in pairs))
    options = {"fabric": "torus:4x4x4", "nodes": "all", "trials": 3000}
    found = hopbyte.map_on_dask(client, traffic, seeds=5, parts=3, out=tmp_path / "dask", **options)
    words = ["map", "grid.csv", *(w for k, v in options.items() for w in (f"--{k}", str(v)))]
    words += ["--seeds", "5", "--out", "one"]
    subprocess.run([sys.executable, "-m", "hopbyte", "-q", *words], cwd=tmp_path, check=True, capture_output=True)
    one = json.loads((tmp_path / "one/mapping.json").read_text())
    assert found == json.loads((tmp_path / "dask/mapping.json").read_text())
    for key in ("placement", "slots", "result", "bound", "seed", "seeds", "trials", "verdict"):
        assert found[key] == one[key], key
    assert found["seeds"] == 5 and not list(tmp_path.glob("*/part*"))
    with pytest.raises(hopbyte.HopbyteError, match="no-such-machine"):
        hopbyte.map_on_dask(client, traffic, seeds=2, out=tmp_path / "no", fabric="no-such-machine", nodes="all")
