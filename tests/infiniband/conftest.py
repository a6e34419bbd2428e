"""A simulated InfiniBand fabric under a real subnet manager.

`ibsim` answers management packets for a network described in a file; OpenSM and the
infiniband-diags tools use it through a preloaded library instead of hardware.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import hopbyte_binary

PACKAGES = {
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "ibnetdiscover": "infiniband-diags",
    "dump_fts": "infiniband-diags",
    "ibtracert": "infiniband-diags",
}
NEED = str(Path(__file__).resolve().parents[2] / "scripts" / "need.sh")
PRELOAD = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")


def require_programs() -> None:
    """Installs missing programs where permitted; otherwise lists them."""
    os.environ["PATH"] += ":/usr/sbin"
    needed = [f"{program}={package}" for program, package in PACKAGES.items()]
    done = subprocess.run([NEED, *needed, f"{PRELOAD}=ibsim-utils"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(done.stderr)


@dataclass
class Sim:
    """One running simulator."""

    net: Path
    folder: Path
    host: str
    process: subprocess.Popen[str]

    def tool(self, *command: str, timeout: float = 200) -> str:
        env = dict(
            os.environ,
            LD_PRELOAD=str(PRELOAD),
            SIM_HOST=self.host,
            OSM_TMP_DIR=str(self.folder),
            OSM_CACHE_DIR=str(self.folder),
        )
        done = subprocess.run(
            command,
            check=False,
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
        return done.stdout

    def route(self, engine: str, *options: str) -> None:
        """One sweep of OpenSM with a routing engine."""
        log = self.folder / "opensm.log"
        self.tool("opensm", "-o", "-e", "-R", engine, "-f", str(log), *options)

    def dump(self, name: str) -> tuple[Path, Path]:
        """Fabric and forwarding tables, as printed by the real tools."""
        fabric, tables = self.folder / f"{name}.ibnetdiscover", self.folder / f"{name}.fts"
        fabric.write_text(self.tool("ibnetdiscover"))
        tables.write_text(self.tool("dump_fts"))
        return fabric, tables

    def console(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        time.sleep(0.3)


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Starts simulators from network descriptions and stops them all at the end."""
    require_programs()
    # Simulator and tools alternate, one packet each: on one processor, wake-ups need no migration.
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    # The simulator's socket name is global to the machine: another run must not answer for this one.
    monkeypatch.setenv("IBSIM_SOCKNAME", f"hopbyte{os.getpid()}")
    running: list[subprocess.Popen[str]] = []

    def start(text: str) -> Sim:
        net = tmp_path / f"net{len(running)}"
        net.write_text(text)
        host = re.search(r'^(?:Ca|Hca)\s+\d+\s+"([^"]+)"', text, re.MULTILINE)
        assert host, "the network has no channel adapter"
        log = (tmp_path / "ibsim.log").open("w")
        process = subprocess.Popen(
            ["ibsim", "-s", str(net)], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
        )
        running.append(process)
        time.sleep(1)
        assert process.poll() is None, (tmp_path / "ibsim.log").read_text()
        return Sim(net, tmp_path, host.group(1), process)

    yield start
    for process in running:
        process.kill()
        process.wait()
    os.sched_setaffinity(0, processors)


@pytest.fixture
def hopbyte() -> object:
    """Runs the command and returns (exit code, standard output)."""
    binary = hopbyte_binary()

    def run(*arguments: object) -> tuple[int, str]:
        command = [str(binary), *(str(a) for a in arguments)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, done.stdout

    return run
