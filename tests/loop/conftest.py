"""The whole loop from the command line on captures, with independent recomputation."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, hopbyte_binary

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def hopbyte() -> Run:
    """Runs the program; asserts its exit code."""
    binary = hopbyte_binary()

    def run(*words: object, code: int = 0, wrap: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        line = [*wrap, str(binary), *map(str, words)]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="session")
def recount() -> Callable[..., dict[str, Any]]:
    """Recomputes a placement's cost with tests/recount, which shares no code with hopbyte."""

    def count(certificate: Path, field: str, **files: Path) -> dict[str, Any]:
        given = [word for name, path in files.items() for word in (f"--{name}", str(path))]
        line = ["python3", ROOT / "tests/recount/recount.py", *given]
        done = subprocess.run(
            [*map(str, line), "--certificate", str(certificate), "--field", field],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return count


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of captures that may not be redistributed; absent on most machines."""
    folder = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("the folder shared/data is not here: nothing to test on")
    return folder
