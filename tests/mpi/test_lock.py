"""Fair locks for the mutexes of an MPI library: semantics, conditions, refusals, and fairness in MPICH 4."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import BUILD, HERE, MPICH, MPICH4, OMPI, Mpi, Result, launch, run_command

LIBRARY = BUILD / "libhopbyte_lock.so"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test program and the library whose mutexes it locks."""
    folder = tmp_path_factory.mktemp("lock")
    warnings = ["-Wall", "-Wextra", "-Werror", "-O1", "-g"]
    library = [
        "gcc",
        *warnings,
        "-shared",
        "-fPIC",
        "-o",
        "libmpifake.so",
        str(HERE / "fakempi.c"),
        "-pthread",
    ]
    run_command(library, folder).ok()
    words = [
        "gcc",
        *warnings,
        str(HERE / "lock.c"),
        "-o",
        "lock",
        "-L.",
        "-lmpifake",
        f"-Wl,-rpath,{folder}",
        "-pthread",
    ]
    run_command(words, folder).ok()
    return folder / "lock"


def run_lock(program: Path, *arguments: str, preload: str = str(LIBRARY), **environment: str) -> Result:
    """The program under the library."""
    settings = {"LD_PRELOAD": preload, "HOPBYTE_LOCK": "fair", **environment}
    return run_command([str(program), *arguments], program.parent, settings)


@pytest.mark.parametrize(
    "wait", [{}, {"HOPBYTE_LOCK_SPINS": "0", "HOPBYTE_LOCK_YIELDS": "0"}], ids=["yield", "sleep"]
)
def test_a_mutex_behaves_as_before(program: Path, wait: dict[str, str]) -> None:
    """No lost update, recursion, trylock, deadlines, conditions without a lost signal, errors; others left alone."""
    assert run_lock(program, **wait).ok().out == "right\n"


def test_sanitizers(program: Path) -> None:
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    preload = f"{asan}:{BUILD / 'sanitize/libhopbyte_lock.so'}"
    result = run_lock(program, preload=preload, ASAN_OPTIONS="detect_leaks=0").ok()
    assert result.out == "right\n" and "Sanitizer" not in result.err and "runtime error" not in result.err


def test_a_mutex_shared_with_other_processes_is_refused(program: Path) -> None:
    result = run_lock(program, "share")
    assert result.code == 3 and "shares a mutex of its data with other processes" in result.err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HOPBYTE_LOCK", "ticket", 'HOPBYTE_LOCK="ticket": expected auto, fair or off; off'),
        ("HOPBYTE_LOCK_SPINS", "-1", 'HOPBYTE_LOCK_SPINS="-1" is not a whole number from 0 to 1000000'),
        ("HOPBYTE_LOCK_YIELDS", "many", 'HOPBYTE_LOCK_YIELDS="many" is not a whole number from 0 to 1000000'),
    ],
)
def test_bad_settings_are_told(program: Path, variable: str, value: str, message: str) -> None:
    result = run_command(["true"], program.parent, {"LD_PRELOAD": str(LIBRARY), variable: value}).ok()
    assert message in result.err


def run_latency(mpi: Mpi, folder: Path, threads: int, choice: str) -> tuple[float, Result]:
    """First thread over last, and the result."""
    settings = {"LD_PRELOAD": str(LIBRARY), "HOPBYTE_LOCK": choice, "HOPBYTE_LOCK_REPORT": "1"}
    program = mpi.build("latency.c", "-pthread")
    result = launch(mpi, 2, [program, str(threads), "100"], folder, tools=(), environment=settings).ok()
    return float(result.out.split()[1]), result


@pytest.mark.parametrize(
    ("mpi", "reason"),
    [
        (OMPI, "off: Open MPI has locks of its own"),
        (MPICH, "off: MPICH 5 and later serve threads fairly"),
        (MPICH4, "on: MPICH up to version 4 has a global pthread mutex"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_automatic(mpi: Mpi, reason: str, tmp_path: Path) -> None:
    """The lock is replaced where that helps, and the report says why."""
    _, result = run_latency(mpi, tmp_path, 2, "auto")
    assert result.err.count(reason) == 2
    assert ("acquisitions by" in result.err) == (mpi is MPICH4)


def test_the_report_counts_the_use_of_mpich_4(tmp_path: Path) -> None:
    """Every thread's acquisitions, and the waits among them. The ratio of finishing times is printed, not asserted."""
    _, result = run_latency(MPICH4, tmp_path, 16, "fair")
    used = re.findall(
        r"(\d+) acquisitions by (\d+) threads, (\d+) after waiting; longest wait ([\d.]+) ms", result.err
    )
    assert len(used) == 2 and all(int(threads) >= 16 and int(waited) > 0 for _, threads, waited, _ in used)
