"""Empty Debian roots, made once by debootstrap, in which packages are installed and run."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import ROOT

DIST = ROOT / "dist"
BASE = ROOT / "build/debian-root"
MINUTE = 60.0


@contextmanager
def under_a_minute() -> Iterator[None]:
    """A minute of processor time for the commands inside: on a busy machine they wait, which is not theirs."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start = used()
    yield
    assert used() - start < MINUTE


@dataclass
class Root:
    """A Debian root; commands in it see its own processes only, and no network."""

    folder: Path

    def run(self, command: str, code: int = 0, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs a shell command in the root."""
        inside = f'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i {ENVIRONMENT} sh -c "$1"'
        line = ["unshare", "--mount", "--pid", "--fork", "--net", "sh", "-c", inside, str(self.folder), command]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=seconds)
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def add(self, file: Path, folder: str = "root") -> str:
        """Copies a file into the root; its name there."""
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, self.folder / folder)
        return f"/{folder}/{file.name}"


ENVIRONMENT = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8"


def only(pattern: str) -> Path:
    """The one package of a kind in dist/."""
    found = sorted(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else pytest.fail(f"no {pattern} in dist/: run `make test-packaging`")


@pytest.fixture(scope="session")
def base() -> Path:
    """A minimal Debian 12 with Python."""
    if os.geteuid() != 0:
        pytest.skip("needs root for debootstrap and chroot")
    if not (BASE / "done").exists():
        shutil.rmtree(BASE, ignore_errors=True)
        mirror = [word for word in (os.environ.get("DEBIAN_MIRROR"),) if word]
        command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm", str(BASE), *mirror]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode != 0:
            pytest.skip(f"debootstrap: {done.stdout[-300:]} {done.stderr[-300:]}")
        (BASE / "done").touch()
    return BASE


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Iterator[Root]:
    """A fresh copy of the root."""
    folder = tmp_path / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(folder)], check=True)
    yield Root(folder)
    shutil.rmtree(folder, ignore_errors=True)
