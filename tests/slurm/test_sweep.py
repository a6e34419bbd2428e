"""The book's job array for a sweep, on a real Slurm: its gathered parts equal a run on one machine."""

from __future__ import annotations

from program import hopbyte_binary

HOPBYTE = hopbyte_binary()
PARTS = 3
SCENARIO = """schema = "hopbyte.scenario/1"
name = "halo anywhere"
fabric = "torus:4x4x4:link=3.092,host=2.0,latency=50"
network = "seastar"
noise = 0.02
[job]
nodes.scattered = { count = 16 }
placement = "random"
workload.halo = { grid = [4, 2, 2], bytes = [1e5], iterations = 2, compute_s = 1e-4 }
"""
# The text of the book (docs/src/sweep.md), with this scenario.
OPTIONS = "halo.toml --trials 4 --link 1/4,1/2,1 --out halo.parquet"


def sweep(slurm, folder) -> str:
    return slurm.run(HOPBYTE, "sweep", *OPTIONS.replace("halo.", f"{folder}/halo.").split()).stdout


def test_an_array_of_parts_is_one_sweep(slurm, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "halo.toml").write_text(SCENARIO)
    told = sweep(slurm, here)
    wrapped = f"{HOPBYTE} sweep {OPTIONS} --points $SLURM_ARRAY_TASK_ID/{PARTS}"
    submit = ["sbatch", "--wait", f"--array=1-{PARTS}", "--ntasks=1", f"--chdir={there}", "--output=%a.out"]
    slurm.run(*submit, "--wrap", wrapped)
    parts = sorted(p.name for p in there.glob("*.jsonl"))
    assert parts == [f"halo.parquet.{i}of{PARTS}.jsonl" for i in range(1, PARTS + 1)], list(there.iterdir())
    # 12 runs, one task each, and a line that names the sweep.
    assert sum(len((there / part).read_text().splitlines()) - 1 for part in parts) == 12
    # Parts never gather, not even the last one to end.
    assert not (there / "halo.parquet").exists()
    assert sweep(slurm, there) == told
    assert (there / "halo.parquet").read_bytes() == (here / "halo.parquet").read_bytes()
