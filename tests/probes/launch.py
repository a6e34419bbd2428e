"""Runs the probes on every MPI installed here, each run with a deadline, and reads their output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import program as programs  # noqa: E402
from program import scaled, start  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HOPBYTE_PROBES_BUILD", ROOT / "build" / "probes"))
MPICH5 = Path(os.environ.get("HOPBYTE_MPICH5", ROOT / "build" / "mpich5"))
DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Mpi:
    """One MPI: the flavour the probes were built in, and its launcher."""

    flavour: str
    launcher: str

    def program(self, name: str) -> Path:
        """A probe built for this MPI."""
        return BUILD / self.flavour / name

    @property
    def is_ompi(self) -> bool:
        """Whether this is Open MPI."""
        return self.flavour == "ompi"

    def base(self) -> list[str]:
        """The launcher with its options for a host with fewer cores than ranks."""
        if self.is_ompi:
            return [self.launcher, "--allow-run-as-root", "--oversubscribe"]
        return [self.launcher]

    def variables(self, environment: dict[str, str]) -> list[str]:
        """Options that pass an environment to the ranks of one part of the job."""
        if self.is_ompi:
            return [word for key, value in environment.items() for word in ("-x", f"{key}={value}")]
        return [word for key, value in environment.items() for word in ("-env", key, value)]


OMPI = Mpi("ompi", "mpirun.openmpi")
MPICH = Mpi("mpich", str(MPICH5 / "bin/mpiexec"))
ABI = Mpi("abi", str(MPICH5 / "bin/mpiexec"))
ALL = [OMPI, MPICH, ABI]
BOTH = [OMPI, MPICH]


class Result(programs.Result):
    """Output and exit code of a probe."""

    def records(self) -> list[dict[str, Any]]:
        """The JSON lines on standard output; anything else there is an error."""
        return [json.loads(line) for line in self.out.splitlines()]


def finish(child: subprocess.Popen[str], seconds: float = DEADLINE_SECONDS) -> Result:
    """Waits for a command and kills its whole process group at the deadline."""
    result = programs.finish(child, seconds)
    return Result(result.code, result.out, result.err)


def command(mpi: Mpi, ranks: int, program: str, *arguments: object,
            environment: dict[str, str] | None = None) -> list[str]:
    """The command line of a probe on `ranks` ranks."""
    words = [*mpi.base(), "-np" if mpi.is_ompi else "-n", str(ranks), *mpi.variables(environment or {})]
    return [*words, str(mpi.program(program)), *[str(a) for a in arguments]]


def run(mpi: Mpi, ranks: int, program: str, *arguments: object, environment: dict[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS) -> Result:
    """Runs a probe on `ranks` ranks of this host."""
    return finish(start(command(mpi, ranks, program, *arguments, environment=environment)), seconds)


def children(pid: int, name: str) -> list[int]:
    """Processes below `pid` that run the program `name`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            comm, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
        except OSError:
            continue
        if comm == name[:15] and is_below(int(rest[1]), pid):
            found.append(int(entry.name))
    return sorted(found)


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process is `ancestor` or descends from it."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat[stat.rindex(")") + 2:].split()[1])
    return False
