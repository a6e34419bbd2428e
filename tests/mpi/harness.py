"""Runs MPI programs under hopbyte's preload libraries on every MPI installed here, each run with a deadline."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from program import LIBRARIES, MPICH5, OPENMPI5, ROOT, Result, finish, start

BUILD = LIBRARIES
HERE = Path(__file__).resolve().parent
DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Mpi:
    """One MPI: how to compile for it, how to launch under it, and its flavour of preload library."""

    name: str
    flavour: str
    compiler: str
    fortran: str
    launcher: str

    def library(self, tool: str) -> Path:
        """The preload library of `tool` for this MPI."""
        return BUILD / f"libhopbyte_{tool}_{self.flavour}.so"

    def sanitized(self, tool: str) -> tuple[str, dict[str, str]]:
        """Environment to run `tool` under the address and undefined-behaviour sanitizers."""
        asan = subprocess.run(
            ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        library = BUILD / "sanitize" / f"libhopbyte_{tool}_{self.flavour}.so"
        # The MPI libraries leak by design, and their handlers for stray signals must not hide a report.
        return f"{asan}:{library}", {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99"}

    def build(self, source: str, *flags: str) -> Path:
        """Compiles a program of this folder, once per change of its source."""
        path = HERE / source
        program = BUILD / "tests" / f"{path.stem}.{self.name}"
        if not program.exists() or program.stat().st_mtime < path.stat().st_mtime:
            program.parent.mkdir(parents=True, exist_ok=True)
            compiler = self.compiler if path.suffix == ".c" else self.fortran
            warnings = ["-Wall", "-Wextra", "-Wno-stringop-overread"] if path.suffix == ".c" else []
            # Several workers may build it at once: each builds its own copy, the last rename wins.
            fresh = program.with_suffix(f"{program.suffix}.{os.getpid()}")
            mods = [] if path.suffix == ".c" else ["-J", str(program.parent)]
            command = [compiler, "-O1", "-g", *warnings, *mods, str(path), "-o", str(fresh), *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
            fresh.rename(program)
        return program

    def command(self, ranks: int, environment: dict[str, str], options: list[str]) -> list[str]:
        """The launcher's command line, up to the program."""
        if self.flavour == "ompi":
            passed = [word for key, value in environment.items() for word in ("-x", f"{key}={value}")]
            return [
                self.launcher,
                "--allow-run-as-root",
                "--oversubscribe",
                "-np",
                str(ranks),
                *passed,
                *options,
            ]
        passed = [word for key, value in environment.items() for word in ("-genv", key, value)]
        return [self.launcher, "-n", str(ranks), *passed, *options]


OMPI = Mpi("ompi", "ompi", "mpicc.openmpi", "mpif90.openmpi", "mpirun.openmpi")
MPICH4 = Mpi("mpich4", "mpich", "mpicc.mpich", "mpif90.mpich", "mpirun.mpich")
MPICH = Mpi("mpich5", "mpich", str(MPICH5 / "bin/mpicc"), "", str(MPICH5 / "bin/mpiexec"))
ABI = Mpi("abi", "abi", str(MPICH5 / "bin/mpicc_abi"), "", str(MPICH5 / "bin/mpiexec"))
# The wheel of Open MPI 5, under the library that is built for 4.1.
OMPI5 = Mpi("ompi5", "ompi", str(OPENMPI5 / "bin/mpicc"), "", str(OPENMPI5 / "bin/mpirun"))
ALL = [OMPI, MPICH, ABI]
WITH_FORTRAN = [OMPI, MPICH4]


def run_command(
    command: list[str],
    folder: Path,
    environment: dict[str, str] | None = None,
    seconds: float = DEADLINE_SECONDS,
) -> Result:
    """Runs a command in its own process group and kills the whole group at the deadline."""
    return finish(start(command, environment, folder), seconds)


def launch(
    mpi: Mpi,
    ranks: int,
    program: list[str | Path],
    folder: Path,
    *,
    tools: tuple[str, ...] = ("record",),
    environment: dict[str, str] | None = None,
    options: list[str] | None = None,
    preload_first: str = "",
    seconds: float = DEADLINE_SECONDS,
) -> Result:
    """Runs `program` on `ranks` ranks with the preload libraries of `tools`, outermost first."""
    passed = dict(environment or {})
    preload = [preload_first] if preload_first else []
    preload += [str(mpi.library(tool)) for tool in tools]
    if preload:
        passed["LD_PRELOAD"] = ":".join(preload)
    command = mpi.command(ranks, passed, options or []) + [str(word) for word in program]
    return run_command(command, folder, seconds=seconds)


@dataclass
class Record:
    """One rank's file, parsed as in FORMAT.md. Counters have the lines' keys; values are (bytes, messages)."""

    header: dict[str, str] = field(default_factory=dict)
    phases: dict[int, str] = field(default_factory=dict)
    groups: dict[str, tuple[int, str]] = field(default_factory=dict)
    point: dict[tuple[str, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    pairs: dict[tuple[str, str, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    calls: dict[tuple[str, str, str, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    sizes: dict[tuple[str, str, str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    rma: dict[tuple[str, str, str, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def read_record(path: Path) -> Record:
    """Parses a file, checking its first and last lines."""
    record = Record()
    lines = path.read_text().splitlines()
    assert lines[0] == "# hopbyte-record 2", lines[0]
    assert lines[-1].split("\t") == ["end", str(len(lines) - 1)], lines[-1]
    for line in lines[1:]:
        key, *f = line.split("\t")
        if key == "phase":
            record.phases[int(f[0])] = f[1]
        elif key == "group":
            record.groups[f[0]] = (int(f[1]), f[2])
        elif key == "P":
            add(record.point[record.phases[int(f[0])], int(f[1])], f[2:])
        elif key == "C":
            add(record.pairs[record.phases[int(f[0])], f[1], f[2], f[3]], f[4:])
        elif key == "K":
            add(record.calls[record.phases[int(f[0])], f[1], f[2], int(f[3])], f[5:])
            record.sizes[record.phases[int(f[0])], f[1], f[2], int(f[3])].add(f[4])
        elif key == "R":
            add(record.rma[record.phases[int(f[0])], f[1], f[2], int(f[3])], f[4:])
        elif key in ("time", "setting", "unknown", "call", "inside", "mpi", "order"):
            pass
        else:
            assert len(f) == 1, line
            record.header[key] = f[0]
    return record


def add(counter: Counter[str], fields: list[str]) -> None:
    """Adds a line's two numbers; the same key may occur on several lines."""
    counter["bytes"] += int(fields[0])
    counter["messages"] += int(fields[1])


def read_records(folder: Path, ranks: int) -> list[Record]:
    """All files of a job, in rank order."""
    records = [read_record(folder / f"rank.{rank}.hbr") for rank in range(ranks)]
    assert not [*folder.glob("*.tmp"), *folder.glob("*.live")], "temporary files left behind"
    for rank, record in enumerate(records):
        assert (record.header["rank"], record.header["size"]) == (str(rank), str(ranks))
        for group, (_, listing) in record.groups.items():
            if listing != "-" and "x" not in listing:
                members(record.groups, group)
    return records


Matrix = dict[tuple[int, int], tuple[int, int]]


def point_matrix(records: list[Record], phase: str | None = None) -> Matrix:
    """Bytes and messages by (source, destination), over all phases or one."""
    matrix: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for source, record in enumerate(records):
        for (where, destination), counter in record.point.items():
            if phase in (None, where):
                matrix[source, destination][0] += counter["bytes"]
                matrix[source, destination][1] += counter["messages"]
    return {pair: (counts[0], counts[1]) for pair, counts in matrix.items()}


def fnv1a(content: bytes) -> int:
    """64-bit FNV-1a, as in crates/fabric/src/hash.rs."""
    found = 0xCBF29CE484222325
    for byte in content:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def members(groups: dict[str, tuple[int, str]], group: str) -> list[int]:
    """World ranks of a group from its listing."""
    ranks: list[int] = []
    for part in groups[group][1].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        ranks += range(int(first), int(last or first) + 1, int(step or 1))
    assert len(ranks) == groups[group][0]
    assert group == f"{fnv1a(b''.join(struct.pack('<i', rank) for rank in ranks)):016x}"
    return ranks


def pair_matrix(records: list[Record], kind: str | None = None) -> Matrix:
    """Bytes and messages by (source, destination) of the collectives with both in their arguments."""
    matrix: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for source, record in enumerate(records):
        for (_, _, what, to), counter in record.pairs.items():
            if kind in (None, what):
                matrix[source, int(to)][0] += counter["bytes"]
                matrix[source, int(to)][1] += counter["messages"]
    return {pair: (counts[0], counts[1]) for pair, counts in matrix.items()}


def expand(source: str) -> dict[str, Matrix]:
    """Bytes and messages by pair of a record or spec, by phase, as read by hopbyte."""
    result = run_command([str(example("traffic")), source], ROOT).ok()
    phases: dict[str, Matrix] = defaultdict(dict)
    for line in result.out.splitlines()[1:]:
        source_rank, target, size, messages, phase = line.split(",")
        phases[phase][int(source_rank), int(target)] = (round(float(size)), int(messages))
    return dict(phases)


@functools.cache
def example(name: str) -> Path:
    """The example of crates/observe, built if missing."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["cargo", "build", "-q", "--locked", "-p", "hopbyte-observe", "--example", name]
    run_command(command, ROOT, seconds=1200).ok()
    return target / "debug" / "examples" / name


def read_monitoring(folder: Path, ranks: int, letter: str) -> Matrix:
    """One kind of line of Open MPI's monitoring files `m.RANK.prof`."""
    matrix: Matrix = {}
    for rank in range(ranks):
        for line in (folder / f"m.{rank}.prof").read_text().splitlines():
            f = line.split("\t")
            if f[0] == letter:
                matrix[int(f[1]), int(f[2])] = (int(f[3].split()[0]), int(f[4].split()[0]))
    return matrix


MONITORING = [
    "--mca",
    "pml_monitoring_enable",
    "2",
    "--mca",
    "pml_monitoring_enable_output",
    "3",
    "--mca",
    "pml_monitoring_filename",
    "m",
]
