"""The installed package: command, types, version."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from conftest import ROOT

import hopbyte


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_command_is_the_program() -> None:
    command = Path(sys.executable).with_name("hopbyte")
    done = run(str(command), "fabric", "show", "torus:4x4x4", "--json")
    assert done.returncode == 0, done.stderr
    assert '"routers":64' in done.stdout
    assert run(sys.executable, "-m", "hopbyte", "--version").stdout == f"hopbyte {version('hopbyte')}\n"
    wrong = run(sys.executable, "-m", "hopbyte", "fabric", "show", "gemini:1x2")
    assert wrong.returncode == 2
    assert "hint:" in wrong.stderr
    assert wrong.stdout == ""


def test_versions_agree() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert hopbyte.__version__ == version("hopbyte") == cargo["workspace"]["package"]["version"]


def test_the_import_is_light() -> None:
    code = "import hopbyte, sys; sys.exit('matplotlib' in sys.modules)"
    assert run(sys.executable, "-c", code).returncode == 0


def test_everything_promised_is_there() -> None:
    for name in hopbyte.__all__:
        assert getattr(hopbyte, name) is not None


def test_stubs_match_the_module() -> None:
    done = run(sys.executable, "-m", "mypy.stubtest", "hopbyte._core", "--ignore-disjoint-bases")
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_hold() -> None:
    done = run(sys.executable, "-m", "mypy")
    assert done.returncode == 0, done.stdout + done.stderr
