"""Collectives as the library sends them without any setting: bytes by pair, against Open MPI's own monitoring, and
against counts of what MPICH sends through UCX (`ucp.c`), where every rank has a node of its own."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import (
    MONITORING,
    MPICH,
    MPICH4,
    OMPI,
    OMPI5,
    Matrix,
    Mpi,
    expand,
    launch,
    read_monitoring,
    read_records,
)

KINDS = [
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "allgatherv",
    "alltoall",
    "reduce_scatter",
    "reduce_scatter_v",
]
# Doubles: the vector, or the block of a rank. 8 B, 8 kB and 160 kB or 1.6 MB.
SIZES = {"small": (1, 1), "medium": (1000, 1000), "large": (200_000, 20_000)}
VECTORS = ("bcast", "reduce", "allreduce", "ibcast", "ireduce", "iallreduce", "iallreduce_in_place")
RANKS = [4, 6, 16]
CASES = [(kind, size, ranks) for kind in KINDS for size in SIZES for ranks in RANKS]
BEGUN = [(f"i{kind}", size, ranks) for kind in [*KINDS, "scatter", "allreduce_in_place"] for size in SIZES for ranks in RANKS]
TOLERANCE = 0.02


def sent(mpi: Mpi, ranks: int, kind: str, folder: Path, options: tuple[str, ...] = ()) -> Matrix:
    """Bytes and messages of the library by pair, of a whole run under the recorder."""
    folder.mkdir(exist_ok=True)
    launch(mpi, ranks, [mpi.build("traffic.c"), kind], folder, options=[*MONITORING, *options]).ok()
    total: dict[tuple[int, int], tuple[int, int]] = {}
    # The program sends nothing itself; monitoring counts the persistent sends of a linear alltoall as if it did.
    for letter in ("I", "E"):
        for pair, (size, messages) in read_monitoring(folder, ranks, letter).items():
            before = total.get(pair, (0, 0))
            total[pair] = (before[0] + size, before[1] + messages)
    return total


def sent_by_mpich(mpi: Mpi, ranks: int, kind: str, folder: Path, options: tuple[str, ...] = ()) -> Matrix:
    """The same through UCX."""
    folder.mkdir(exist_ok=True)
    library = mpi.build("ucp.c", "-shared", "-fPIC", "-ldl")
    environment = {"MPIR_CVAR_NOLOCAL": "1"}
    program = [mpi.build("traffic.c"), kind]
    launch(mpi, ranks, program, folder, environment=environment, options=[*options], preload_first=str(library)).ok()
    total: Matrix = {}
    for rank in range(ranks):
        # Endpoints of MPICH 5 begin with the rank's own.
        others = [r for r in range(ranks) if r != rank]
        order = [rank, *others] if mpi is MPICH else [*range(ranks)]
        for line in (folder / f"ucp.{rank}").read_text().splitlines():
            number, size, messages = (int(word) for word in line.split())
            if number < ranks and order[number] != rank:
                total[rank, order[number]] = (size, messages)
    return total


Sent = Callable[[Mpi, int, str, Path], Matrix]


@functools.cache
def idle(mpi: Mpi, ranks: int, folder: Path, sent: Sent) -> Matrix:
    """What a run without any call sends."""
    return sent(mpi, ranks, "nothing", folder)


def compare(
    mpi: Mpi,
    case: tuple[str, str, int],
    base: Path,
    folder: Path,
    options: tuple[str, ...] = (),
    sent: Callable[..., Matrix] = sent,
) -> tuple[float, float, int]:
    """Wrong bytes (on the wrong pair, missing or too many), and wrong messages, as shares of the library's; its
    bytes."""
    kind, size, ranks = case
    count = SIZES[size][0 if kind in VECTORS else 1]
    folder.mkdir(exist_ok=True)
    theirs = sent(mpi, ranks, f"{kind}@{count}", folder, options)
    before = idle(mpi, ranks, base / f"idle-{mpi.name}-{ranks}", sent)
    theirs = {
        p: (theirs[p][0] - before.get(p, (0, 0))[0], theirs[p][1] - before.get(p, (0, 0))[1]) for p in theirs
    }
    ours: Counter[tuple[tuple[int, int], int]] = Counter()
    for phase, matrix in expand(f"{folder}/hopbyte-record").items():
        if phase.endswith(" collectives"):
            for pair, counts in matrix.items():
                for which in (0, 1):
                    ours[pair, which] += counts[which]
    wrong = [0, 0]
    for pair in {p for p, _ in ours} | set(theirs):
        for which in (0, 1):
            wrong[which] += abs(ours[pair, which] - theirs.get(pair, (0, 0))[which])
    total = [max(sum(counts[which] for counts in theirs.values()), 1) for which in (0, 1)]
    return wrong[0] / total[0], wrong[1] / total[1], total[0]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the runs without calls."""
    return tmp_path_factory.mktemp("idle")


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_bytes_by_pair(case: tuple[str, str, int], base: Path, tmp_path: Path) -> None:
    bytes_wrong, messages_wrong, total = compare(OMPI, case, base, tmp_path / "run")
    print(f"{case}: {100 * bytes_wrong:.2f} % of {total} B, {100 * messages_wrong:.2f} % of messages")
    assert total > 1 and bytes_wrong <= TOLERANCE
    assert messages_wrong <= TOLERANCE


@pytest.mark.parametrize("case", BEGUN, ids=lambda c: "-".join(map(str, c)))
def test_bytes_by_pair_of_nonblocking_calls(case: tuple[str, str, int], base: Path, tmp_path: Path) -> None:
    bytes_wrong, _, total = compare(OMPI, case, base, tmp_path / "run")
    assert total > 1 and bytes_wrong <= TOLERANCE


@pytest.mark.parametrize("case", [c for c in BEGUN if c[2] == 6], ids=lambda c: "-".join(map(str, c)))
def test_bytes_by_pair_of_nonblocking_calls_of_open_mpi_5(
    case: tuple[str, str, int], base: Path, tmp_path: Path
) -> None:
    bytes_wrong, _, total = compare(OMPI5, case, base, tmp_path / "run")
    assert total > 1 and bytes_wrong <= TOLERANCE


@pytest.mark.parametrize("case", [c for c in CASES if c[2] == 6], ids=lambda c: "-".join(map(str, c)))
def test_bytes_by_pair_of_open_mpi_5(case: tuple[str, str, int], base: Path, tmp_path: Path) -> None:
    bytes_wrong, _, total = compare(OMPI5, case, base, tmp_path / "run")
    assert total > 1 and bytes_wrong <= TOLERANCE


# A block forwarded by a gather is of a derived type, whose bytes are not counted.
OF_MPICH = [c for c in CASES if c[0] != "gather" or c[1] == "small"]


@pytest.mark.parametrize("mpi", [MPICH4, MPICH], ids=lambda m: m.name)
@pytest.mark.parametrize("case", OF_MPICH, ids=lambda c: "-".join(map(str, c)))
def test_bytes_by_pair_of_mpich(mpi: Mpi, case: tuple[str, str, int], base: Path, tmp_path: Path) -> None:
    bytes_wrong, _, total = compare(mpi, case, base, tmp_path / "run", sent=sent_by_mpich)
    assert total > 1 and bytes_wrong <= TOLERANCE


@pytest.mark.parametrize("mpi", [OMPI, MPICH4, MPICH], ids=lambda m: m.name)
def test_records_have_the_version_that_decides(mpi: Mpi, tmp_path: Path) -> None:
    launch(mpi, 2, [mpi.build("traffic.c"), "nothing"], tmp_path).ok()
    for record in read_records(tmp_path / "hopbyte-record", 2):
        assert re.search(r"(Version: +|v)\d+\.", record.header["library"]), record.header["library"]


# Algorithms that are not the library's own choice for 8 kB and six ranks.
SET = [
    ("allreduce", "allreduce", 2),
    ("allreduce", "allreduce", 4),
    ("bcast", "bcast", 3),
    ("bcast", "bcast", 4),
    ("bcast", "bcast", 7),
    ("bcast", "bcast", 8),
    ("reduce", "reduce", 4),
    ("reduce", "reduce", 6),
    ("reduce", "reduce", 7),
    ("gather", "gather", 3),
    ("allgather", "allgather", 5),
    ("reduce_scatter", "reduce_scatter_block", 2),
    ("reduce_scatter", "reduce_scatter_block", 4),
]


@pytest.mark.parametrize(("kind", "variable", "number"), SET, ids=lambda v: str(v))
def test_the_jobs_variables_are_followed(
    kind: str, variable: str, number: int, base: Path, tmp_path: Path
) -> None:
    options = ("--mca", "coll_tuned_use_dynamic_rules", "1")
    options += ("--mca", f"coll_tuned_{variable}_algorithm", str(number))
    bytes_wrong, messages_wrong, total = compare(OMPI, (kind, "medium", 6), base, tmp_path / "run", options)
    assert total > 1 and max(bytes_wrong, messages_wrong) <= TOLERANCE
