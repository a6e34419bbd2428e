"""spmv queries libhopbyte for a map at run time, moves its blocks and continues."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launch import BOTH, OMPI, ROOT, Mpi, command, finish, run, start

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LIBRARY = Path(os.environ.get("HOPBYTE_LIBRARY", TARGET / "release/libhopbyte.so"))
HOPBYTE = Path(os.environ.get("HOPBYTE", TARGET / "release/hopbyte"))
FABRIC = "torus:2x2x4"
RANKS = 32
NODES = ",".join(f"n{x}-{y}-{z}" for z in range(4) for y in range(2) for x in range(2))
WORDS = ["--cells", "2,2,2", "--unknowns", 3, "--verify", "full", "--nap", 100, "--json"]
ASK = ["--ask", FABRIC, "--nodes", NODES, "--library", LIBRARY]


class Oracle:
    """A running oracle of a torus with one link used to 90 % by other jobs."""

    def __init__(self, folder: Path) -> None:
        counters, self.socket = folder / "links.jsonl", folder / "socket"
        counters.write_text(
            '{"schema":"hopbyte.link/1","link":"r0-0-0 Z+","used_ratio":0.9}\n'
            '{"schema":"hopbyte.link/1","summary":{}}\n'
        )
        self.child = subprocess.Popen(
            [HOPBYTE, "--quiet", "oracle", "serve", counters, "--fabric", FABRIC, "--socket",
             self.socket], stdout=subprocess.PIPE, text=True)
        assert self.child.stdout
        self.url = self.child.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:")

    def end(self) -> None:
        self.child.kill()
        self.child.wait()


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[Oracle]:
    served = Oracle(tmp_path)
    yield served
    served.end()


def shuffled(folder: Path) -> Path:
    """A deliberately bad placement of blocks."""
    blocks = list(range(RANKS))
    random.Random(5).shuffle(blocks)
    path = folder / "start"
    path.write_text("".join(f"{rank} {block}\n" for rank, block in enumerate(blocks)))
    return path


def migration(records: list[dict[str, Any]]) -> dict[str, Any]:
    [found] = [r for r in records if r.get("record") == "migration"]
    return found


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_it_asks_moves_and_goes_on(mpi: Mpi, oracle: Oracle, tmp_path: Path) -> None:
    """The products after the move equal the serial ones, as they do without it."""
    start_map = shuffled(tmp_path)
    for address in (oracle.socket, oracle.url):
        result = run(mpi, RANKS, "spmv", *WORDS, *ASK, "--oracle", address, "--map", start_map,
                     "--iterations", 40, "--ask-at", 15).ok()
        moved = migration(result.records())
        assert moved["iteration"] == 15 and moved["version"] > 0
        assert 0 < moved["moved_blocks"] <= RANKS and moved["moved_bytes"] > 0
        assert moved["worst_link_seconds"] < moved["before_worst_link_seconds"]
        assert 0 < moved["refresh_seconds"] < moved["query_seconds"] <= moved["map_seconds"]
        windows = [r for r in result.records() if r.get("record") == "window"]
        assert [(w["first_iteration"], w["map"]) for w in windows] == [(0, str(start_map)), (15, "libhopbyte")]
        last = result.records()[-1]
        assert last["verified"] is True and last["wrong_values"] == 0
    assert run(mpi, RANKS, "spmv", *WORDS, "--map", start_map, "--iterations", 40).ok().records()[-1]["verified"]


def test_without_an_oracle_the_machine_alone_decides(tmp_path: Path) -> None:
    result = run(OMPI, RANKS, "spmv", *WORDS, *ASK, "--map", shuffled(tmp_path), "--iterations", 20, "--ask-at", 1)
    moved = migration(result.ok().records())
    assert moved["version"] == 0 and moved["moved_blocks"] > 0


@pytest.mark.parametrize(("words", "code", "message"), [
    (["--ask", FABRIC, "--library", "/nowhere/libhopbyte.so"], 3, "--ask: /nowhere/libhopbyte.so: cannot open"),
    (["--ask", FABRIC, "--library", LIBRARY, "--nodes", "n0-0-0,n9-9-9"], 3, "n9-9-9"),
    (["--ask", FABRIC, "--library", LIBRARY, "--nodes", "n0-0-0,n0-0-1,n0-0-2"], 2, "--nodes: found 3 names"),
    (["--ask", "nothing", "--library", LIBRARY, "--nodes", "n0-0-0"], 3, "nothing"),
    (["--ask", FABRIC, "--library", LIBRARY, "--nodes", "n0-0-0", "--oracle", "/nowhere/s"], 3, "oracle serve"),
])
def test_what_cannot_be_asked_ends_it_before_it_begins(words: list[object], code: int, message: str) -> None:
    result = run(OMPI, 4, "spmv", *words, "--iterations", 2).ended(code)
    assert message in result.err, result.err


def test_an_oracle_that_is_gone_stops_nothing(oracle: Oracle) -> None:
    """The blocks stay where they are, the products are right, and the exit code reports the failed query."""
    child = start(command(OMPI, RANKS, "spmv", *WORDS, *ASK, "--oracle", oracle.socket, "--iterations", 3000,
                          "--report-every", 100, "--ask-at", 2500))
    assert child.stdout
    seen = [line for line, _ in zip(child.stdout, range(3), strict=False)]
    oracle.end()
    result = finish(child).ended(2)
    lines = [*seen, *result.out.splitlines()]
    assert any('"refused"' in line for line in lines) and '"verified":true' in lines[-1].replace(" ", "")
    assert "going on with the map it has" in result.err
