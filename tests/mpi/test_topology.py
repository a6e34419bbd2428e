"""Cray's PMI and RCA calls over coordinates that hopbyte wrote, used as programs for Cray machines use them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program import ROOT, find_binary

from harness import ALL, BUILD, HERE, MPICH, MPICH4, OMPI, OMPI5, Mpi, Result, launch, run_command

HOPBYTE = find_binary()
each_mpi = pytest.mark.parametrize("mpi", [*ALL, MPICH4, OMPI5], ids=lambda m: m.name)
HEADERS = f"-I{ROOT}/mpi/include/cray"
MACHINE = """# a machine of 4 x 3 x 5, whose second dimension is no ring
dims 4 3 5
wrap 1 0 1
kind X long cable
"""


def program(mpi: Mpi, source: str) -> Path:
    """A program linked with the library, as one for a Cray with -lpmi -lrca."""
    library = mpi.library("topology")
    # A program that calls only functions of MPI that the library defines would else lose its MPI library.
    return mpi.build(source, HEADERS, "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}")


def run_program(mpi: Mpi, folder: Path, source: str = "nearest.c", *words: str, ranks: int = 4, **more: str) -> Result:
    return launch(mpi, ranks, [program(mpi, source), *words], folder, tools=(), environment=more)


@each_mpi
def test_a_program_for_cray_finds_its_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """Lines of ranks: two on each node. Hops: one round the ring of X, one in Y, one round the ring of Z."""
    lines = [f"node rank:{r} {'0 1 4' if r < 2 else '3 2 0'} n{r} {17 if r < 2 else 42}\n" for r in range(4)]
    (tmp_path / "coords").write_text(MACHINE + "".join(lines))
    result = run_program(mpi, tmp_path, HOPBYTE_COORDS_FILE="coords").ok()
    found = {int(rank): rest for rank, rest in re.findall(r"^rank (\d) (.*)$", result.out, re.MULTILINE)}
    for rank, nid, at in ((0, 17, "0 1 4"), (1, 17, "0 1 4"), (2, 42, "3 2 0"), (3, 42, "3 2 0")):
        assert found[rank] == (
            f"early 0 nid {nid} at {at} of 4 3 5 hops 6 here 2 2 2 lists 0 8 gather 0 app 4"
        ), result.out
    assert "mistakes 3 3 3 3 -1 -22" in result.out
    assert result.err == "" or "hopbyte" not in result.err


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
@pytest.mark.skipif(HOPBYTE is None, reason="no hopbyte binary: make build")
def test_hopbyte_writes_the_file(mpi: Mpi, tmp_path: Path) -> None:
    """`fabric convert --to coords`; ranks are found by their hosts' names, short or full."""
    run_command(
        [str(HOPBYTE), "fabric", "convert", "torus:2x2x2", "--to", "coords", "--out", "coords"], tmp_path
    ).ok()
    nodes = [line.split() for line in (tmp_path / "coords").read_text().splitlines() if line.startswith("node ")]
    script = tmp_path / "on_hosts.sh"
    script.write_text(
        "#!/bin/sh\nr=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
        'exec unshare --uts sh -c \'hostname "$0" && exec "$@"\' '
        f"$(sed -n \"$((r + 1))p\" {tmp_path}/hosts) {program(mpi, 'nearest.c')}\n"
    )
    script.chmod(0o755)
    (tmp_path / "hosts").write_text("".join(f"{n[1]}.cluster.org\n" for n in nodes[::-1]))
    options = ["--mca", "btl", "self,tcp"] if mpi is OMPI else []
    result = launch(
        mpi, 8, [script], tmp_path, tools=(), environment={"HOPBYTE_COORDS_FILE": "coords"}, options=options
    ).ok()
    found = {int(r): tuple(map(int, a.split())) for r, a in re.findall(r"rank (\d) .* at (\d \d \d) of 2 2 2", result.out)}
    assert found == {7 - i: tuple(map(int, n[2:5])) for i, n in enumerate(nodes)}


WRONG = [
    ("no file", None, "cannot open coords: No such file or directory"),
    ("empty", "", "coords: no nodes; expected lines `node HOST X Y Z [NAME [NID]]`"),
    ("no dims", "node a 0 0 0\n", "coords:1: found 'node', expected dims before everything else"),
    ("outside", "dims 2 2\nnode a 0 2\n", "coords:2: found '2', expected a whole number in 0..1"),
    ("short", "dims 2 2\nnode a 0\n", "coords:2: found 'the end of the line', expected a whole number in 0..1"),
    ("twice", "dims 2\nnode a 0\nnode a 1\n", "coords: node 'a' is listed twice"),
    ("word", "dims 2\nmode a 0\n", "coords:2: found 'mode', expected dims, wrap, kind, kinds gemini, router, link or node"),
    ("nid", "dims 2\nnode a 0 n x\n", "coords:2: found 'x', expected a whole number in 0..100000000"),
]


@pytest.mark.parametrize(("text", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_files_fail_every_call_with_one_message(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "coords").write_text(text)
    result = run_program(OMPI, tmp_path, "places.c", ranks=2, HOPBYTE_COORDS_FILE="coords").ok()
    assert result.err.count(f"hopbyte topology: {message}") == 1
    assert result.out.count(": -1 -1 -1 -1 -2 0") == 2


def test_unknown_nodes_and_too_many_dimensions(tmp_path: Path) -> None:
    """A rank outside the file has no node; five dimensions do not fit into Cray's three. Both are said once."""
    (tmp_path / "coords").write_text("dims 2 2 2 2 2\nnode rank:0 0 1 0 1 0 a 5\n")
    result = run_program(OMPI, tmp_path, "places.c", ranks=2, HOPBYTE_COORDS_FILE="coords").ok()
    assert "1 of 2 ranks run on nodes without a line in coords (first: rank 1); calls about them fail" in result.err
    assert "the machine has 5 dimensions, but Cray's calls give three: they fail" in result.err
    assert "rank 0: 0 -1 -1 -1 0 0" in result.out
    assert "rank 1: -1 -1" in result.out


def test_without_a_file_and_without_mpi(tmp_path: Path) -> None:
    """Before MPI_Init other ranks are not known, and collective calls fail."""
    result = run_program(MPICH, tmp_path, "places.c", ranks=1).ok()
    assert result.err.count("no coordinates: HOPBYTE_COORDS_FILE is not set; hopbyte fabric convert FABRIC --to coords") == 1
    host = run_command(["hostname"], tmp_path).ok().out.strip()
    (tmp_path / "coords").write_text(f"dims 8\nnode {host} 3\n")
    result = run_command(
        [str(program(MPICH, "places.c")), "alone"], tmp_path,
        {"HOPBYTE_COORDS_FILE": "coords", "PMI_RANK": "0", "PMI_SIZE": "2"},
    ).ok()  # fmt: skip
    assert "rank 0: 0 1 0 0 0 1" in result.out


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_after_a_reordering_the_new_ranks_count(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "coords").write_text(
        "dims 4\n" + "".join(f"node rank:{r} {r} n{r} {10 + r}\n" for r in range(4))
    )
    (tmp_path / "MPICH_RANK_ORDER").write_text("3,2,1,0\n")
    result = launch(
        mpi, 4, [program(mpi, "places.c")], tmp_path,
        tools=("topology", "reorder"),
        environment={"HOPBYTE_COORDS_FILE": "coords", "MPICH_RANK_REORDER_METHOD": "3"},
    ).ok()  # fmt: skip
    assert sorted(re.findall(r"^rank (\d): 0 0 0 0 0 0$", result.out, re.MULTILINE)) == list("0123")


def test_headers_stand_alone() -> None:
    for header in ("pmi.h", "pmi_cray.h", "rca_lib.h", "rs_id.h", "rs_meshcoord.h"):
        for language in ("c", "c++"):
            command = ["gcc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language, HEADERS,
                       "-include", header, "/dev/null"]  # fmt: skip
            run_command(command, HERE).ok()
    assert BUILD.exists()
