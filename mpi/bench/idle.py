"""Instructions that an idle preload library adds to a message of 8 bytes to oneself (Irecv, Send, Wait) and to an
MPI_Alloc_mem with its MPI_Free_mem, on every MPI built here: python3 bench/idle.py [MPI …].

Counted by callgrind, so that the load of the machine has no part in it: the difference of two runs of unequal length,
over the additional rounds. The bare program is counted twice; the difference of these two is the noise of a count.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / "mpi"), str(TESTS)]

from harness import ALL, BUILD, Mpi, run_command
from overhead import compile_program

LIBRARIES = ["gm", "reorder", "io", "memory", "mpit", "topology", "dpm", "lock"]
CALLS_PER_BATCH = 500
FEW, MANY = 4, 24
ROUNDS = {"message": "", "memory": "memory"}
SECONDS = 600.0


def library(mpi: Mpi, tool: str) -> Path:
    """The preload library; that of the lock is one for all MPIs."""
    return BUILD / "libhopbyte_lock.so" if tool == "lock" else mpi.library(tool)


def instructions(mpi: Mpi, program: Path, tool: str, batches: int, what: str) -> int:
    """Instructions of one rank's whole run, start and end included."""
    environment = {"LD_PRELOAD": str(library(mpi, tool))} if tool else {}
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        command = [*mpi.command(1, environment, []), *valgrind, str(program), str(batches)]
        result = run_command(command + ([what] if what else []), Path(folder), seconds=SECONDS).ok()
    found = re.search(r"Collected : (\d+)", result.err)
    if not found:
        raise SystemExit(f"callgrind gave no count under {mpi.name}:\n{result.err[-2000:]}")
    return int(found[1])


def per_round(mpi: Mpi, program: Path, tool: str, what: str) -> float:
    """Instructions of one round under an idle library, or under none."""
    counts = [instructions(mpi, program, tool, batches, what) for batches in (FEW, MANY)]
    return (counts[1] - counts[0]) / ((MANY - FEW) * CALLS_PER_BATCH)


def main() -> None:
    """Command line."""
    for mpi in [mpi for mpi in ALL if mpi.name in sys.argv[1:] or not sys.argv[1:]]:
        program = compile_program(mpi)
        for name, what in ROUNDS.items():
            bare, again = (per_round(mpi, program, "", what) for _ in range(2))
            print(f"{mpi.name} {name}: bare {bare:.1f}, again {again:.1f} ({100 * (again / bare - 1):+.2f} %)", flush=True)
            for tool in LIBRARIES:
                found = per_round(mpi, program, tool, what)
                print(f"  {tool}: {found:.1f} ({100 * (found / bare - 1):+.2f} %)", flush=True)


if __name__ == "__main__":
    main()
