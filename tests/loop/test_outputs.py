"""Outputs over existing files, links and pipes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from program import hopbyte_binary

Run = Callable[..., subprocess.CompletedProcess[str]]
STENCIL = ("map", "stencil:4x4:5", "--fabric", "torus:4x4", "--nodes", "all", "--trials", "10")


def test_a_launchers_file_of_somebody_else_is_kept(hopbyte: Run, tmp_path: Path) -> None:
    own = tmp_path / "hostfile"
    own.write_text("n0-0 slots=2\n")
    said = hopbyte(*STENCIL, "--out", tmp_path, code=2).stderr
    assert "hostfile" in said and "mapping.json" in said, said
    assert os.listdir(tmp_path) == ["hostfile"] and own.read_text() == "n0-0 slots=2\n"
    own.unlink()
    hopbyte(*STENCIL, "--out", tmp_path)
    hopbyte(*STENCIL, "--out", tmp_path)
    assert (tmp_path / "mapping.json").exists()


def test_an_output_whose_reader_leaves_is_not_complete() -> None:
    """Only the reader of standard output may leave without an error."""
    program = hopbyte_binary()
    line = f"{program} -q fabric convert torus:32x32 --to json -o >(head -c 1 >/dev/null)"
    cut = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert cut.returncode == 3 and cut.stderr, cut
    line = f"set -o pipefail; {program} -q fabric convert torus:32x32 --to json | head -c 1 >/dev/null"
    shown = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_sweep_writes_through_links_and_keeps_permissions(hopbyte: Run, tmp_path: Path) -> None:
    table, link = tmp_path / "t.parquet", tmp_path / "link"
    table.write_bytes(b"")
    table.chmod(0o600)
    link.symlink_to(table)
    hopbyte("sweep", "scenarios/examples/xt4/ping-pong.toml", "--link", "1/2,1", "-o", link)
    assert link.is_symlink() and table.read_bytes()[:4] == b"PAR1"
    assert table.stat().st_mode & 0o777 == 0o600


def test_options_of_a_grid_are_refused_beside_other_traffic(hopbyte: Run) -> None:
    for option in (["--periodic"], ["--halo", "5"], ["--nearest"], ["--ndims", "2"]):
        assert "cannot be used with" in hopbyte(*STENCIL, *option, code=2).stderr
