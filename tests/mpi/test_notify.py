"""Notified puts: no signal lost, twice or before its data, with several threads; errors; thread and address checks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import ABI, BUILD, HERE, MPICH, MPICH4, OMPI, OMPI5, ROOT, Mpi, Result, launch

EVERY = [OMPI, OMPI5, MPICH4, MPICH, ABI]
# `make -C mpi test FULL=1`: as many rounds with every number of threads.
FULL = os.environ.get("HOPBYTE_TEST_FULL", "") not in ("", "0")
ROUNDS = 100_000
THREADS = range(1, 9)
named = pytest.mark.parametrize("mpi", EVERY, ids=lambda m: m.name)


def program(mpi: Mpi) -> Path:
    """The test program, linked to the library of the MPI's flavour."""
    return mpi.build(
        "notify.c",
        f"-I{ROOT}/mpi/include",
        "-pthread",
        f"-L{BUILD}",
        f"-lhopbyte_notify_{mpi.flavour}",
        f"-Wl,-rpath,{BUILD}",
    )


def sanitized(mpi: Mpi, check: str) -> Path:
    """The test program and the library in one, under a sanitizer."""
    out = BUILD / "tests" / f"notify.{mpi.name}.{check}.{os.getpid()}"
    flags = ["-O1", "-g", f"-fsanitize={check}", "-fno-omit-frame-pointer", f"-I{ROOT}/mpi/include", "-pthread"]
    sources = [str(HERE / "notify.c"), str(ROOT / "mpi/notify/notify.c")]
    out.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [mpi.compiler, *flags, *sources, "-o", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def run(mpi: Mpi, ranks: int, folder: Path, *words: object, **environment: str) -> Result:
    """A mode of the test program. Open MPI 5's component for UCX prints an error line here, and rdma does not."""
    options = ["--mca", "osc", "^ucx"] if mpi is OMPI5 else []
    return launch(
        mpi,
        ranks,
        [program(mpi), *(str(w) for w in words)],
        folder,
        tools=(),
        environment=environment,
        options=options,
        seconds=900 if FULL else 300,
    )


def microseconds(result: Result) -> float:
    """Time of a round."""
    found = re.fullmatch(r"right ([\d.]+) us\n", result.ok().out)
    assert found, result.out
    return float(found[1])


@named
@pytest.mark.parametrize("threads", THREADS)
def test_no_signal_is_lost_twice_or_early(mpi: Mpi, threads: int, tmp_path: Path) -> None:
    """100,000 round trips of pairs of threads, in which each signal and each word of the data is that of the round."""
    rounds = ROUNDS if FULL else ROUNDS // (16 * threads)
    run(mpi, 2, tmp_path, "strict", threads, rounds).ok()


@named
def test_a_hundred_thousand_rounds(mpi: Mpi, tmp_path: Path) -> None:
    """With four threads, in sum; the others above are a sixteenth of that."""
    run(mpi, 2, tmp_path, "strict", 4, ROUNDS // 4).ok()


@named
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_stream_ahead_of_the_receiver(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    """A ring with room for four rounds, freed by signals the other way."""
    run(mpi, ranks, tmp_path, "stream", 3, 3000).ok()


@named
def test_signals_of_all_add_up(mpi: Mpi, tmp_path: Path) -> None:
    run(mpi, 3, tmp_path, "fanin", 4, 2000).ok()


@named
def test_errors(mpi: Mpi, tmp_path: Path) -> None:
    """Twenty wrong arguments: class, words found and expected; nothing is sent."""
    run(mpi, 2, tmp_path, "errors").ok()


@named
def test_by_default_an_error_ends_the_job(mpi: Mpi, tmp_path: Path) -> None:
    result = run(mpi, 2, tmp_path, "fatal")
    assert result.code not in (0, None)
    assert "hopbyte notify: hopbyte_notify_signal: found target 2, expected 0 to 1" in result.err


def test_a_wait_has_a_limit_if_asked(tmp_path: Path) -> None:
    result = run(MPICH, 1, tmp_path, "late", 1, HOPBYTE_NOTIFY_TIMEOUT="0.3")
    assert result.code not in (0, None)
    assert "rank 0: signal 1 is 0 after 0.3 s, expected 3" in result.err


def test_a_bad_limit_is_told(tmp_path: Path) -> None:
    result = run(MPICH, 1, tmp_path, "errors-none", 1, HOPBYTE_NOTIFY_TIMEOUT="soon").ok()
    assert 'HOPBYTE_NOTIFY_TIMEOUT="soon" is not a number of seconds' in result.err


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_more_threads_than_cores_do_not_starve(mpi: Mpi, tmp_path: Path) -> None:
    """Round trip with four times as many threads as cores on each of two ranks, per thread of a core, below ten times
    that with as many threads as cores: best of five, since other programs share the machine."""
    cores = os.cpu_count() or 1
    few = min(microseconds(run(mpi, 2, tmp_path, "strict", cores, 3000)) for _ in range(5))
    many = min(microseconds(run(mpi, 2, tmp_path, "strict", 4 * cores, 1000)) for _ in range(5))
    assert many < 10 * max(few, 20) * 4, (few, many)


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
@pytest.mark.parametrize("words", [("strict", 4, 1000), ("stream", 3, 500), ("fanin", 4, 300), ("errors",)])
def test_sanitizer_of_addresses(mpi: Mpi, words: tuple[object, ...], tmp_path: Path) -> None:
    built = sanitized(mpi, "address,undefined")
    environment = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99"}
    result = launch(mpi, 2, [built, *map(str, words)], tmp_path, tools=(), environment=environment).ok()
    built.unlink()
    assert "Sanitizer" not in result.err and "runtime error" not in result.err, result.err


def test_sanitizer_of_threads(tmp_path: Path) -> None:
    """One rank, whose threads signal each other; the MPI library is not checked, as it is not compiled for it. MPICH 5
    ends with signal 11 under this check; without a fixed layout of memory, so does every program on new kernels."""
    built = sanitized(OMPI, "thread")
    environment = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=98"}
    words: list[str | Path] = ["setarch", "-R", built, "alone", "4", "2000"]
    result = launch(OMPI, 1, words, tmp_path, tools=(), environment=environment).ok()
    built.unlink()
    assert "ThreadSanitizer" not in result.err, result.err
