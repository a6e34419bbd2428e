"""Reductions: all types and operations, all algorithms, active sets beside the equal team, counts and bytes."""

from __future__ import annotations

import subprocess

import pytest

from harness import BUILD, FULL, HERE, OMPI, ROOT, Shmem

ALGORITHMS = ["doubling", "halving", "ring", "smp-doubling", "smp-halving", "smp-ring"]


def test_schedules() -> None:
    """Rounds of all algorithms, run on arrays: results, agreement, piece sizes, bytes against the formulas."""
    program = BUILD / "tests" / "schedules"
    program.parent.mkdir(parents=True, exist_ok=True)
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    files = [str(HERE / "schedules.c"), str(ROOT / "shmem/src/schedule.c")]
    command = ["gcc", "-O1", "-g", *sanitize, "-Wall", "-Wextra", f"-I{ROOT}/shmem/src", *files]
    subprocess.run([*command, "-o", str(program)], check=True)
    most, seeds = (120, 10) if FULL else (40, 4)
    done = subprocess.run([program, str(most), str(seeds)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"checked {most * seeds * 30}\n"


@pytest.mark.parametrize("pes", [1, 2, 3, 4, 5, 7, 8] if FULL else [3])
def test_every_type_and_operation(shmem: Shmem, pes: int) -> None:
    """170 reductions by two names each, in place too, and 54 on active sets, with counts of 0 to 65."""
    out = shmem.run(pes, shmem.build("reduce.c"), seconds=300).ok().out
    assert out.startswith("checked ")
    assert int(out.split()[1]) > 1000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms(shmem: Shmem, algorithm: str) -> None:
    """Long arrays in pieces through a small stage, on emulated nodes of two and three PEs."""
    for pes, nodes in [(3, 2), (4, 2), (5, 3), (8, 3)] if FULL else [(4, 3)]:
        environment = {
            "HOPBYTE_SHMEM_REDUCE": algorithm,
            "HOPBYTE_SHMEM_STAGE": "4096",
            "HOPBYTE_SHMEM_PES_PER_NODE": str(nodes),
        }
        most = 5000 if shmem is OMPI else 700
        shmem.run(pes, shmem.build("reduce.c"), 1, 100, most, environment=environment).ok()


@pytest.mark.parametrize("algorithm", ["ring", "smp-halving"])
def test_sanitizer(algorithm: str) -> None:
    environment = {
        "HOPBYTE_SHMEM_REDUCE": algorithm,
        "HOPBYTE_SHMEM_STAGE": "4096",
        "HOPBYTE_SHMEM_PES_PER_NODE": "3",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0",
    }
    OMPI.run(4, OMPI.build("reduce.c", sanitized=True), 1, 700, environment=environment).ok()


@pytest.mark.parametrize(
    ("environment", "size", "chosen"),
    [
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "1"}, 100, {"doubling"}),
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "1"}, 2048, {"halving", "ring"}),
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "1"}, 2047, {"doubling"}),
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "1", "SHMEM_REDUCE_CUTOFF_SIZE": "1K"}, 128, {"halving", "ring"}),
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "0"}, 100000, {"doubling"}),
        ({"SHMEM_USE_LARGE_OPT_REDUCE": "0", "SHMEM_TEAM_SMP_REDUCE": "1"}, 100, {"smp-doubling"}),
        (
            {"SHMEM_USE_LARGE_OPT_REDUCE": "1", "SHMEM_TEAM_SMP_REDUCE": "1"},
            100000,
            {"smp-halving", "smp-ring"},
        ),
        ({"SHMEM_TEAM_SMP_REDUCE": "0"}, 100000, {"doubling", "halving", "ring"}),
    ],
)
def test_cray_variables(environment: dict[str, str], size: int, chosen: set[str]) -> None:
    """The algorithms that Cray's variables allow (longs; two PEs on each of two nodes)."""
    environment = {"SHMEM_TEAM_SMP_REDUCE": "0", **environment, "HOPBYTE_SHMEM_PES_PER_NODE": "2", "HOPBYTE_SHMEM_VERBOSE": "1"}
    err = OMPI.run(4, OMPI.build("reduce.c"), size, environment=environment).ok().err
    lines = [line for line in err.splitlines() if f"reduction of {size * 8} bytes, 4 PEs on 2 nodes" in line]
    assert lines
    assert {line.split(": ")[2].split(",")[0] for line in lines} <= chosen
