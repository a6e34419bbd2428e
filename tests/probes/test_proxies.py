"""The proxy applications: right results on any grid and map, counts by formula, migration, detected damage."""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from launch import ALL, BOTH, MPICH, OMPI, Mpi, children, command, finish, run, scaled, start

Triple = tuple[int, int, int]
SMALL = {"minighost": ["--cells", "4,3,5", "--steps", "4", "--variables", "3"],
         "spmv": ["--cells", "2,3,2", "--unknowns", "3", "--iterations", "25", "--verify", "full"],
         "sweep": ["--cells", "3,4,7", "--angles", "3", "--chunk", "2", "--iterations", "2"],
         "patches": ["--cells", "3,2,4", "--patches", "2,1,2", "--steps", "4", "--variables", "3"],
         "halo_allreduce": ["--cells", "4,3,5", "--iterations", "40", "--solves", "2"]}


def total(mpi: Mpi, ranks: int, proxy: str, *options: object, code: int = 0) -> dict[str, Any]:
    """The last record of a run, after the first line (program, MPI, nodes)."""
    first, *records = run(mpi, ranks, proxy, *options, "--json").ended(code).records()
    assert first["run"]["probe"] == proxy and first["run"]["ranks"] == ranks == len(first["run"]["nodes"])
    for record in records:
        assert (record["schema"], record["proxy"], record["ranks"]) == ("hopbyte-proxy-1", proxy, ranks)
    last = records[-1]
    assert last["record"] == "total"
    assert last["verified"] is (last["wrong_values"] == 0) is (code == 0)
    return last


def triple(t: Triple) -> str:
    return ",".join(map(str, t))


def neighbours(grid: Triple, periodic: bool) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Dimension and step to the neighbouring block, for every block, last dimension fastest."""
    blocks = list(itertools.product(*map(range, grid)))
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, block in enumerate(blocks):
        for d, step in itertools.product(range(3), (-1, 1)):
            moved = block[d] + step
            if periodic or 0 <= moved < grid[d]:
                far = (*block[:d], moved % grid[d], *block[d + 1:])
                found.setdefault((d, step), []).append((number, blocks.index(far)))
    return found


def read_traffic(path: Path) -> dict[tuple[int, int], tuple[int, int]]:
    with path.open() as file:
        return {(int(r["src"]), int(r["dst"])): (int(r["bytes"]), int(r["messages"])) for r in csv.DictReader(file)}


def expected_traffic(grid: Triple, periodic: bool, bytes_: Triple,
                     messages: int = 1) -> dict[tuple[int, int], tuple[int, int]]:
    """Bytes by dimension between neighbouring blocks; none to oneself, both ways added in a ring of two."""
    b: Counter[tuple[int, int]] = Counter()
    m: Counter[tuple[int, int]] = Counter()
    for (d, _), pairs in neighbours(grid, periodic).items():
        for a, z in pairs:
            if a != z:
                b[a, z] += bytes_[d]
                m[a, z] += messages
    return {pair: (b[pair], m[pair]) for pair in b}


def write_map(path: Path, blocks: list[int], header: str = "") -> Path:
    """A map file, written and then renamed."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(header + "".join(f"{rank} {block}\n" for rank, block in enumerate(blocks)))
    temporary.rename(path)
    return path


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize("proxy", SMALL)
def test_right_on_any_map(mpi: Mpi, proxy: str, tmp_path: Path) -> None:
    """Six ranks, blocks in a shuffled order."""
    blocks = list(range(6))
    random.Random(7).shuffle(blocks)
    path = write_map(tmp_path / "map", blocks, "# shuffled\nranks 6\n\n")
    last = total(mpi, 6, proxy, *SMALL[proxy], "--map", path)
    assert last["wrong_values"] == 0 and last["seconds"] > 0


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("proxy", SMALL)
def test_right_with_naps(mpi: Mpi, proxy: str) -> None:
    """Waiting with naps gives the same results."""
    assert total(mpi, 6, proxy, *SMALL[proxy], "--nap", 20)["wrong_values"] == 0


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("scheme", ["bspma", "svaf"])
@pytest.mark.parametrize(("grid", "periodic"), [((2, 2, 3), False), ((1, 4, 3), True), ((12, 1, 1), True),
                                                ((2, 3, 2), True)])
def test_minighost(mpi: Mpi, scheme: str, grid: Triple, periodic: bool, tmp_path: Path) -> None:
    cells, variables, traffic = (3, 2, 4), 2, tmp_path / "traffic.csv"
    flags = ["--periodic"] if periodic else []
    last = total(mpi, 12, "minighost", "--grid", triple(grid), "--cells", triple(cells), "--variables", variables,
                 "--steps", 5, "--scheme", scheme, "--traffic", traffic, *flags)
    # Ghosts of the dimensions exchanged earlier are included.
    faces = (2 * 4, (3 + 2) * 4, (3 + 2) * (2 + 2))
    bytes_ = tuple(8 * variables * f for f in faces)
    pairs = neighbours(grid, periodic)
    assert last["bytes_per_step"] == sum(bytes_[d] * len(p) for (d, _), p in pairs.items())
    assert read_traffic(traffic) == expected_traffic(grid, periodic, (bytes_[0], bytes_[1], bytes_[2]),
                                                     1 if scheme == "bspma" else variables)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("grid", "periodic"), [((2, 2, 2), False), ((1, 2, 4), True), ((8, 1, 1), True)])
def test_spmv(mpi: Mpi, grid: Triple, periodic: bool, tmp_path: Path) -> None:
    cells, unknowns, traffic = (2, 3, 1), 4, tmp_path / "traffic.csv"
    flags = ["--periodic"] if periodic else []
    result = run(mpi, 8, "spmv", "--grid", triple(grid), "--cells", triple(cells), "--unknowns", unknowns,
                 "--iterations", 31, "--report-every", 10, "--verify", "full", "--traffic", traffic, "--json",
                 *flags).ok()
    _, setup, *windows, last = result.records()
    extent = [g * c for g, c in zip(grid, cells, strict=True)]
    cell_count = extent[0] * extent[1] * extent[2]
    ends = 0 if periodic else sum(2 * cell_count // e for e in extent)
    assert setup["rows"] == cell_count * unknowns
    assert setup["entries"] == (7 * cell_count - ends) * unknowns
    assert setup["most_neighbours"] <= 6
    assert [(w["first_iteration"], w["iterations"]) for w in windows] == [(0, 10), (10, 10), (20, 10), (30, 1)]
    assert last["seconds"] == pytest.approx(sum(w["seconds"] for w in windows), rel=1e-6)
    assert last["average_seconds"] == pytest.approx(last["seconds"] / 31, rel=1e-6)
    faces = (cells[1] * cells[2], cells[0] * cells[2], cells[0] * cells[1])
    expected = expected_traffic(grid, periodic, tuple(8 * unknowns * f for f in faces))
    if periodic:  # a cell's two neighbours in a ring of two blocks of one cell are the same: needed once
        assert read_traffic(traffic).keys() == expected.keys()
    else:
        assert read_traffic(traffic) == expected


def test_spmv_message_of_the_paper() -> None:
    """By default a message holds 5x5x100 doubles, and a rank inside the grid has six neighbours."""
    _, setup, *_ = run(OMPI, 8, "spmv", "--iterations", 2, "--json").ok().records()
    assert setup["most_message_bytes"] == 5 * 5 * 100 * 8
    assert setup["rows"] == 8 * 5 * 5 * 5 * 100
    _, setup, *_ = run(OMPI, 16, "spmv", "--iterations", 2, "--grid", "4,2,2", "--cells", "2,2,2", "--unknowns", 1,
                       "--json").ok().records()
    assert setup["most_neighbours"] == 4
    tiny = ["--iterations", 2, "--cells", "1,1,1", "--unknowns", 1]
    _, setup, *_ = run(OMPI, 27, "spmv", *tiny, "--json").ok().records()
    assert setup["most_neighbours"] == 6


class Migrating:
    """An spmv that runs for some seconds and watches a map file."""

    def __init__(self, mpi: Mpi, folder: Path, *options: object, ranks: int = 6) -> None:
        self.map = folder / "remap"
        words = ["--cells", "2,2,2", "--unknowns", 3]
        average = total(mpi, ranks, "spmv", *words, "--iterations", 300)["average_seconds"]
        self.iterations = max(200, int(3 / average))
        self.child = start(command(mpi, ranks, "spmv", *words, "--iterations", self.iterations, "--verify", "full",
                                   "--report-every", max(10, self.iterations // 100), "--remap", self.map, "--json",
                                   *options))
        self.seen: list[dict[str, Any]] = []
        self.ranks = ranks

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Reads records up to the next one of a kind."""
        assert self.child.stdout
        for line in self.child.stdout:
            self.seen.append(json.loads(line))
            if self.seen[-1].get("record") == kind:
                return self.seen[-1]
        raise AssertionError(f"no {kind} in {self.seen[-3:]}: {finish(self.child).err}")

    def end(self, code: int) -> str:
        """Waits for the end; returns standard error."""
        last = self.wait_for("total")
        result = finish(self.child).ended(code)
        assert last["verified"] and last["wrong_values"] == 0
        windows = [r for r in self.seen if r.get("record") == "window"]
        assert sum(w["iterations"] for w in windows) == self.iterations
        return result.err


@pytest.mark.parametrize("options", [[], ["--messages"]], ids=["handed", "sent"])
@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_spmv_migrates_while_running(mpi: Mpi, options: list[str], tmp_path: Path) -> None:
    """A map appears, changes, and is requested by a signal; all products together equal the serial ones."""
    job = Migrating(mpi, tmp_path, *options)
    job.wait_for("window")
    write_map(job.map, [1, 0, 2, 3, 4, 5])
    first = job.wait_for("migration")
    assert first["moved_blocks"] == 2
    assert first["map_seconds"] > 0 and first["move_seconds"] > 0
    assert job.wait_for("window")["map"] == str(job.map)
    write_map(job.map, [5, 4, 3, 2, 1, 0])
    second = job.wait_for("migration")
    assert second["moved_blocks"] == 6
    assert second["moved_bytes"] > first["moved_bytes"] > 2 * 24 * 8
    for moved in (first, second):
        handed = (0, 0) if options else (moved["moved_blocks"], moved["moved_bytes"])
        assert (moved["handed_blocks"], moved["handed_bytes"]) == handed
    job.wait_for("window")
    os.kill(children(job.child.pid, "spmv")[3], signal.SIGUSR1)
    assert job.wait_for("migration")["moved_blocks"] == 0
    assert job.end(0) == ""


BAD_MAPS = {
    "short": ("0 1\n1 0\n", ":2: found no block for rank 2, expected one for each of"),
    "rank twice": ("0 1\n0 2\n", ":2: found rank 0 again"),
    "block twice": ("0 1\n1 1\n", ":2: found block 1 again"),
    "beyond": ("# a comment\n0 6\n", ":2: found '0 6', expected a rank and a block below"),
    "word": ("0 x\n", ":1: found '0 x'"),
    "three": ("0 1 2\n", ":1: found more than two words"),
    "one": ("0\n", ":1: found fewer than two words"),
    "ranks": ("ranks 12\n", ":1: found a map for 12 ranks, expected"),
    "job": ("job other\n", ":1: found a map for job 'other', expected this job, 'mine'"),
    "zero": ("0\0 1\n", "holds a zero byte"),
}


@pytest.mark.parametrize("case", BAD_MAPS)
def test_bad_map_at_the_start(case: str, tmp_path: Path) -> None:
    text, message = BAD_MAPS[case]
    (tmp_path / "map").write_text(text)
    result = run(MPICH, 4, "minighost", "--map", tmp_path / "map", environment={"HOPBYTE_JOB": "mine"}).ended(2)
    assert f"{tmp_path / 'map'}" in result.err and message in result.err, result.err
    assert result.out == ""


def test_bad_map_meanwhile(tmp_path: Path) -> None:
    """A wrong map is refused, the job continues with its present map, moves later, and exits with code 2."""
    job = Migrating(OMPI, tmp_path)
    job.wait_for("window")
    write_map(job.map, [0, 0, 1, 2, 3, 4])
    assert job.wait_for("refused")["problem"].startswith("2: found block 0 again")
    write_map(job.map, [1, 0, 2, 3, 4, 5])
    assert job.wait_for("migration")["moved_blocks"] == 2
    err = job.end(2)
    assert "remap:2: found block 0 again, expected it once; going on with the map it has" in err
    assert job.seen[-1]["refused_maps"] == 1


def test_map_of_another_job_is_refused(tmp_path: Path) -> None:
    path = write_map(tmp_path / "remap", [1, 0])
    result = run(OMPI, 2, "spmv", "--remap", path).ended(2)
    assert "already there, expected it to appear later; is it from another job?" in result.err
    assert result.out == ""


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("grid", "chunk"), [((2, 3, 1), 2), ((6, 1, 1), 7), ((1, 6, 1), 3)])
def test_sweep(mpi: Mpi, grid: Triple, chunk: int, tmp_path: Path) -> None:
    traffic, cells, angles = tmp_path / "traffic.csv", (3, 4, 7), 5
    last = total(mpi, 6, "sweep", "--grid", triple(grid), "--cells", triple(cells), "--angles", angles,
                 "--chunk", chunk, "--iterations", 3, "--traffic", traffic)
    chunks = -(-7 // chunk)
    faces = (8 * 4 * 7 * angles, 8 * 3 * 7 * angles, 0)
    pairs = {key: p for key, p in neighbours(grid, False).items() if key[0] < 2}
    assert last["messages"] == 3 * 4 * chunks * sum(map(len, pairs.values()))
    assert last["bytes"] == 3 * 4 * sum(faces[d] * len(p) for (d, _), p in pairs.items())
    assert read_traffic(traffic) == {(a, z): (4 * faces[d], 4 * chunks) for (d, _), p in pairs.items() for a, z in p}


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("grid", "periodic"), [((2, 1, 3), False), ((1, 3, 2), True), ((6, 1, 1), True)])
def test_patches(mpi: Mpi, grid: Triple, periodic: bool, tmp_path: Path) -> None:
    """Faces between ranks only; those between patches of a rank pass through memory."""
    traffic, cells, patches, variables = tmp_path / "traffic.csv", (3, 2, 4), (2, 1, 2), 3
    flags = ["--periodic"] if periodic else []
    last = total(mpi, 6, "patches", "--grid", triple(grid), "--cells", triple(cells), "--patches", triple(patches),
                 "--variables", variables, "--steps", 5, "--threads", 2, "--traffic", traffic, *flags)
    number = [patches[(d + 1) % 3] * patches[(d + 2) % 3] for d in range(3)]
    faces = [8 * variables * cells[(d + 1) % 3] * cells[(d + 2) % 3] * number[d] for d in range(3)]
    between = {key: [p for p in found if p[0] != p[1]] for key, found in neighbours(grid, periodic).items()}
    assert last["messages"] == 5 * sum(number[d] * len(p) for (d, _), p in between.items())
    assert last["bytes"] == 5 * sum(faces[d] * len(p) for (d, _), p in between.items())
    expected = expected_traffic(grid, periodic, (faces[0], faces[1], faces[2]))
    assert {k: b for k, (b, _) in read_traffic(traffic).items()} == {k: b for k, (b, _) in expected.items()}


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("proxy", "shapes"), [
    ("sweep", [(1, "--cells 8,6,7"), (4, "--cells 4,3,7"), (6, "--cells 4,2,7 --grid 2,3,1")]),
    ("patches", [(1, "--cells 3,2,2 --patches 4,2,6"), (4, "--cells 3,2,2 --patches 2,1,6"),
                 (4, "--cells 6,4,2 --patches 1,1,3 --grid 2,1,2")]),
])
def test_both_transports_have_one_checksum(mpi: Mpi, proxy: str, shapes: list[tuple[int, str]]) -> None:
    """Messages and notified puts, with one thread and three, on one grid in any division: the same sum."""
    common = ["--groups", 5, "--angles", 3, "--chunk", 2, "--iterations", 3] if proxy == "sweep" else ["--steps", 7]
    sums, counts = set(), Counter()
    for ranks, words in shapes:
        for threads, transport in itertools.product((1, 3), ("messages", "notified")):
            last = total(mpi, ranks, proxy, *common, *words.split(), "--threads", threads, "--transport", transport)
            assert (last["threads"], last["transport"]) == (threads, transport)
            sums.add(last["checksum"])
            counts[ranks, words, last["messages"], last["bytes"]] += 1
    assert len(sums) == 1 and set(counts.values()) == {4}, (sums, counts)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("proxy", ["sweep", "patches"])
def test_damage_of_a_put_is_seen(mpi: Mpi, proxy: str) -> None:
    result = run(mpi, 4, proxy, *SMALL[proxy], "--transport", "notified", "--json",
                 environment={"LD_PRELOAD": str(mpi.program("libcorrupt.so")), "HOPBYTE_CORRUPT_FROM": "15"}).ended(1)
    assert result.records()[-1]["wrong_values"] > 0


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_halo_allreduce(mpi: Mpi, tmp_path: Path) -> None:
    traffic = tmp_path / "traffic.csv"
    last = total(mpi, 8, "halo_allreduce", "--grid", "2,4,1", "--cells", "5,4,3", "--iterations", 45, "--solves", 2,
                 "--traffic", traffic)
    assert last["iterations"] == 90
    faces = (4 * 3, (5 + 2) * 3, (5 + 2) * (4 + 2))
    assert read_traffic(traffic) == expected_traffic((2, 4, 1), False, (8 * faces[0], 8 * faces[1], 8 * faces[2]))


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("proxy", SMALL)
def test_damage_is_seen(mpi: Mpi, proxy: str) -> None:
    """One message of rank 1 corrupted, and all after it: wrong values and exit code 1."""
    result = run(mpi, 4, proxy, *SMALL[proxy], "--json",
                 environment={"LD_PRELOAD": str(mpi.program("libcorrupt.so")), "HOPBYTE_CORRUPT_FROM": "15"}).ended(1)
    last = result.records()[-1]
    assert last["verified"] is False and last["wrong_values"] > 0
    assert "values are wrong" in result.err


@pytest.mark.parametrize(("words", "message"), [
    (["minighost", "--grid", "2,2,2"], "--grid: found 2,2,2, expected a product of 3, the ranks"),
    (["minighost", "--cells", "0,1,1"], "--cells: found '0,1,1', expected three whole numbers from 1"),
    (["minighost", "--map", "/nowhere"], "/nowhere: No such file or directory"),
    (["spmv", "--traffic", "/nowhere/x"], "/nowhere/x: No such file or directory"),
    (["spmv", "--verify", "all"], "--verify: found 'all', expected one of last|full"),
    (["spmv", "--cells", "900,900,900"], "rows a block, expected at most 28 million"),
    (["sweep", "--grid", "1,1,3"], "found several blocks along Z"),
    (["sweep", "--periodic"], "found --periodic, expected an open grid"),
    (["sweep", "--threads", "2"], "found 1 groups for 2 threads, expected one or more per thread"),
    (["sweep", "--transport", "puts"], "--transport: found 'puts', expected one of messages|notified"),
    (["patches", "--threads", "9"], "found 9 threads, expected at most the 8 patches of a rank"),
    (["patches", "--patches", "20,20,20"], "8e+03 patches a rank, expected at most 1e9, 1e8 and 5000"),
    (["halo_allreduce", "--iterations", "3"], "--iterations: found '3', expected a whole number from 12"),
])
def test_bad_input(words: list[str], message: str) -> None:
    result = run(MPICH, 3, *words).ended(2)
    assert message in result.err, result.err
    assert result.out == ""


def test_stopped_rank_meets_the_deadline() -> None:
    child = start(command(OMPI, 4, "minighost", "--steps", 10000000, "--cells", "2,2,2", "--deadline", 4))
    began = time.monotonic()
    while len(ranks := children(child.pid, "minighost")) < 4 or time.monotonic() - began < 2:
        assert time.monotonic() - began < scaled(60) and child.poll() is None
        time.sleep(0.05)
    os.kill(ranks[1], signal.SIGSTOP)
    try:
        result = finish(child, 60)
    finally:
        subprocess.run(["kill", "-KILL", *map(str, ranks)], stderr=subprocess.DEVNULL, check=False)
    assert result.code not in (0, None)
    assert "no end after 4 s of a time step" in result.err
