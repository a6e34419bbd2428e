"""Programs that use nothing of a preloaded library: their calls reach the MPI by a handful of instructions, which no timing on
a shared machine could show. A message of 8 bytes to oneself takes 1,200 of them under Open MPI 4.1."""

from __future__ import annotations

import platform
import re

import pytest

from harness import ABI, MPICH, OMPI, Mpi, run_command

MOST = 6
CALLS = {
    "io": ["MPI_Send", "MPI_Irecv", "MPI_Wait", "MPI_Allreduce"],
    "reorder": ["MPI_Send", "MPI_Irecv", "MPI_Allreduce", "MPI_Comm_rank"],
    "memory": ["MPI_Alloc_mem", "MPI_Free_mem"],
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads instructions of x86-64")
@pytest.mark.parametrize("mpi", [OMPI, MPICH, ABI], ids=lambda mpi: mpi.name)
@pytest.mark.parametrize("tool", CALLS)
def test_an_idle_call_is_one_comparison_and_a_jump(mpi: Mpi, tool: str) -> None:
    """Up to the jump into the MPI library: no stack frame, at most one branch, not taken."""
    library = mpi.library(tool)
    for call in CALLS[tool]:
        command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={call}", str(library)]
        shown = run_command(command, library.parent).ok().out
        words = re.findall(r"^\s*[0-9a-f]+:\s+(\S.*)$", shown, flags=re.MULTILINE)
        jump = next(i for i, word in enumerate(words) if re.match(r"(notrack )?jmp\s+\*", word))
        before = [word for word in words[:jump] if not word.startswith(("endbr64", "nop"))]
        assert len(before) <= MOST, (call, words[: jump + 1])
        assert not [word for word in before if word.startswith(("push", "call", "sub"))], (call, before)
        assert sum(word.startswith("j") for word in before) <= 1, (call, before)
