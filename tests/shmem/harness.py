"""Runs OpenSHMEM programs with hopbyte's library on every OpenSHMEM installed here, each run with a deadline."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from program import Result, finish, scaled, start

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("HOPBYTE_SHMEM_BUILD", ROOT / "build/shmem"))
SANDIA = Path(os.environ.get("HOPBYTE_SANDIA", ROOT / "build/sandia"))
FULL = os.environ.get("HOPBYTE_TEST_FULL", "") not in ("", "0")
DEADLINE_SECONDS = 90
# Without it, Debian's Open MPI 4.1 ends every OpenSHMEM program with signal 11 after right results.
OMPI_OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--mca", "memory", "^patcher"]


def run_command(command: list[str], environment: dict[str, str], seconds: float = DEADLINE_SECONDS) -> Result:
    """Runs a command in its own process group and kills the whole group at the deadline."""
    result = finish(start(command, environment), seconds)
    assert result.code != 0 or "BAD" not in result.out, result.out
    return result


@dataclass(frozen=True)
class Shmem:
    """One OpenSHMEM: how to compile for it and how to launch under it."""

    name: str
    compiler: str
    launcher: str

    def build(self, source: str, *, sanitized: bool = False) -> Path:
        """Compiles a program of this folder."""
        folder = BUILD / "sanitize" if sanitized else BUILD
        program = folder / "tests" / f"{Path(source).stem}.{self.name}"
        program.parent.mkdir(parents=True, exist_ok=True)
        library = folder / self.name
        newest = max(f.stat().st_mtime for f in (HERE / source, library / "libhopbyte_shmem.so"))
        if program.exists() and program.stat().st_mtime > newest:
            return program
        fresh = program.with_suffix(f".{os.getpid()}")
        flags = ["-O1", "-g", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-pthread"]
        flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"] if sanitized else []
        link = [f"-L{library}", "-lhopbyte_shmem", f"-Wl,-rpath,{library}", "-lm"]
        command = [self.compiler, *flags, f"-I{folder}/include", str(HERE / source), "-o", str(fresh), *link]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        fresh.rename(program)
        return program

    def run(
        self,
        pes: int,
        program: Path,
        *words: object,
        environment: dict[str, str] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> Result:
        """Runs a program; a wait of hopbyte's library for more than 30 s (on an idle machine) ends it with a message."""
        passed = {"HOPBYTE_SHMEM_TIMEOUT": f"{scaled(30):.0f}", **(environment or {})}
        if self.name == "ompi":
            given = [word for key, value in passed.items() for word in ("-x", f"{key}={value}")]
            # Its usual place for the heap is the address sanitizer's.
            heap = ["--mca", "sshmem_base_start_address", str(1 << 45)] if "sanitize" in str(program) else []
            command = [self.launcher, *OMPI_OPTIONS, *heap, "-np", str(pes), *given]
        else:
            passed |= {"SHMEM_OFI_PROVIDER": "sockets", "FI_PROVIDER": "sockets"}
            command = [self.launcher, "-n", str(pes)]
            seconds = max(seconds, 600)
        return run_command([*command, str(program), *(str(w) for w in words)], passed, seconds)


OMPI = Shmem(
    "ompi",
    shutil.which("oshcc.openmpi") or shutil.which("oshcc") or "",
    shutil.which("oshrun.openmpi") or shutil.which("oshrun") or "",
)
HYDRA = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich") or ""
ALL = [OMPI]
# Sandia OpenSHMEM over libfabric's sockets takes minutes on a few cores.
if FULL and (SANDIA / "bin/oshcc").exists() and HYDRA:
    ALL.append(Shmem("sos", str(SANDIA / "bin/oshcc"), HYDRA))
