"""The gm API and the gpcd replay: paper 000, Figs. 1 and 4, leaders, wrap and reset, memory, other sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from program import ROOT, scaled

from harness import ABI, ALL, BUILD, MPICH, OMPI, Mpi, Result, launch, run_command

each_mpi = pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)
INCLUDE = ROOT / "mpi" / "include"

# Paper 000, Fig. 4, as printed.
FIGURE_4 = """\
(0, 1, 1)
X+ (1, 1, 1)   9.38 1626452284 304999266 101662806 101666422 3533598961  2689080952
X- (15, 1, 1)  9.38 100506     38796     9780      12932     83          0
Y+ (0, 2, 1)   4.69 1627257610 305156760 101726643 101718920 1702270109  0
Y- (0, 0, 1)   9.38 1153554135 216313236 72105559  72104412  1925883229  2366983378
Z+ (0, 1, 2)  15.00 815234359  152948952 50988260  50982984  133047991   776502961
Z- (0, 1, 0)  15.00 1743043    378399    156635    126133    580         992022669
HH (0, 1, 1)  10.40 1834489368 344019696 114672167 114673232 10585723107 2263990777
(0, 0, 1)
X+ (1, 0, 1)   9.38 1966685020 368797209 122929393 122932403 3317929506  3063532486
X- (15, 0, 1)  9.38 122194     43005     11983     14335     9           0
Y+ (0, 1, 1)   9.38 1154016206 216417552 72141025  72139184  3589170400  1097189607
Y- (0, 11, 1)  4.69 96911      20538     9646      6846      56244       0
Z+ (0, 0, 2)  15.00 2477453033 458007486 153779007 152669162 952487628   2209098748
Z- (0, 0, 0)  15.00 2071415    3684912   128723    1228304   464902      387186094
HH (0, 0, 1)  10.40 2174662127 407809092 135934105 135936364 10604254673 2216827070
"""

# Paper 000, Fig. 3 (tiles counted 8 * row + column).
TILES = {
    "X+": [2, 3, 10, 11, 24, 25, 32, 33],
    "X-": [4, 5, 12, 13, 30, 31, 38, 39],
    "Y+": [37, 45, 46, 47],
    "Y-": [34, 40, 41, 42],
    "Z+": [0, 1, 8, 9, 21, 22, 23, 29],
    "Z-": [6, 7, 14, 15, 16, 17, 18, 26],
    "HH": [19, 20, 27, 28, 35, 36, 43, 44],
}


def cname(x: int, y: int, z: int) -> str:
    """A name for a router; any one-to-one rule will do."""
    return f"c{x}-{y // 2}c{z // 8}s{z % 8}g{y % 2}"


def interconnect(dims: tuple[int, int, int]) -> str:
    """`rtr --interconnect` of a torus: Y links alternate, Z links within a cage are backplane (paper 000, III)."""
    lines = []
    for x in range(dims[0]):
        for y in range(dims[1]):
            for z in range(dims[2]):
                here = (x, y, z)
                links: dict[int, tuple[str, tuple[int, ...], str]] = {}
                for axis, letter in enumerate("XYZ"):
                    for sign, step in (("+", 1), ("-", -1)):
                        to = list(here)
                        to[axis] = (to[axis] + step) % dims[axis]
                        lower = (
                            min(here[axis], to[axis])
                            if abs(here[axis] - to[axis]) == 1
                            else max(here[axis], to[axis])
                        )
                        kind = [
                            "cable11x",
                            "mezzanine" if lower % 2 == 0 else "cable11y",
                            "backplane" if lower % 8 != 7 else "cable15z",
                        ][axis]
                        for tile in TILES[letter + sign]:
                            links[tile] = (letter + sign, tuple(to), kind)
                for tile in sorted(links):
                    direction, to, kind = links[tile]
                    lines.append(
                        f"{cname(*here)}l{tile // 8}{tile % 8}[({x},{y},{z})] {direction} -> "
                        f"{cname(*to)}l{tile // 8}{tile % 8}[({to[0]},{to[1]},{to[2]})]\tLinkType: {kind}"
                    )
    return "\n".join(lines) + "\n"


def register(tile: int, counter: int) -> str:
    """gpcd's name of a tile counter."""
    return f"GM_{tile // 8}_{tile % 8}_TILE_PERFORMANCE_COUNTERS_{counter}"


def gm_program(mpi: Mpi) -> Path:
    """The test program, linked against the library as by a user."""
    return mpi.build(
        "gm.c", f"-I{INCLUDE}", f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", f"-lhopbyte_gm_{mpi.flavour}"
    )


def run_gm(
    mpi: Mpi,
    ranks: int,
    folder: Path,
    arguments: list[str],
    domains: list[tuple[int, str]],
    **environment: str,
) -> Result:
    """Runs the program over replayed routers; `domains` gives each rank's router."""
    (folder / "domains").write_text("".join(f"{rank} {name}\n" for rank, name in domains))
    settings = {
        "HOPBYTE_GM_DOMAINS": "domains",
        "HOPBYTE_GM_INTERCONNECT": "interconnect.txt",
        "HOPBYTE_GPCD_FILE": "counters.txt",
        "HOPBYTE_GM_OUTPUT": "out.txt",
        **environment,
    }
    return launch(mpi, ranks, [gm_program(mpi), *arguments], folder, tools=(), environment=settings)


def tokens(text: str) -> list[list[str]]:
    """Lines as words, coordinates closed up."""
    return [re.sub(r",\s+", ",", line).split() for line in text.splitlines()]


def test_code_of_figure_1_compiles_unchanged_and_prints_the_counters(tmp_path: Path) -> None:
    program = tmp_path / "fig1"
    source = Path(__file__).with_name("fig1.c")
    run_command(
        [
            "gcc",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{INCLUDE}",
            str(source),
            f"-L{BUILD}",
            "-lgpcd",
            f"-Wl,-rpath,{BUILD}",
            "-o",
            str(program),
        ],
        tmp_path,
    ).ok()
    (tmp_path / "counters.txt").write_text(
        "# hopbyte-gpcd 1\nc0-0c0s0g0 GM_0_0_TILE_PERFORMANCE_COUNTERS_0 42,43\n"
        "c0-0c0s0g0 GM_5_*_TILE_PERFORMANCE_COUNTERS_5 7+1 # the last row\n"
    )
    lines = run_command([str(program)], tmp_path, {"HOPBYTE_GPCD_FILE": "counters.txt"}).ok().out.splitlines()
    assert len(lines) == 288
    assert lines[0] == "Counter GM_5_7_TILE_PERFORMANCE_COUNTERS_5: Value=7"  # adding prepends
    assert lines[-1] == "Counter GM_0_0_TILE_PERFORMANCE_COUNTERS_0: Value=42"
    assert sum(int(line.rsplit("=")[1]) for line in lines) == 42 + 8 * 7


def test_a_bad_counter_file_is_said_with_its_line(tmp_path: Path) -> None:
    program = tmp_path / "fig1"
    run_command(
        [
            "gcc",
            f"-I{INCLUDE}",
            str(Path(__file__).with_name("fig1.c")),
            f"-L{BUILD}",
            "-lgpcd",
            f"-Wl,-rpath,{BUILD}",
            "-o",
            str(program),
        ],
        tmp_path,
    ).ok()
    (tmp_path / "counters.txt").write_text(
        "# hopbyte-gpcd 1\nc0-0c0s0g0 GM_0_0_TILE_PERFORMANCE_COUNTERS_0 12,x\n"
    )
    assert (
        "counters.txt:2: expected"
        in run_command([str(program)], tmp_path, {"HOPBYTE_GPCD_FILE": "counters.txt"}).err
    )
    # One message, although 288 registers are requested.
    for place, said in (("gone.txt", "gpcd: cannot read gone.txt: "), ("", "gpcd: set HOPBYTE_GPCD_FILE")):
        [line] = run_command([str(program)], tmp_path, {"HOPBYTE_GPCD_FILE": place}).err.splitlines()
        assert line.startswith(said)


def figure_4_counters() -> str:
    """Counters whose last two samples differ by the figure: spread over the tiles of each link."""
    lines = ["# hopbyte-gpcd 1"]
    router = ""
    for words in tokens(FIGURE_4):
        if len(words) == 1:
            router = cname(*map(int, re.findall(r"\d+", words[0])))
            continue
        tiles = TILES[words[0]]
        for counter, total in enumerate(map(int, words[3:])):
            for i, tile in enumerate(tiles):
                part = total // len(tiles) + (total % len(tiles) if i == 0 else 0)
                base = 1000 * tile + counter
                lines.append(f"{router} {register(tile, counter)} {base},{base + 5},{base + 5 + part}")
    return "\n".join(lines) + "\n"


@each_mpi
def test_figure_4(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((16, 12, 3)))
    (tmp_path / "counters.txt").write_text(figure_4_counters())
    # Four ranks on two routers: ranks 0 and 2 share one, 1 and 3 the other.
    seen = [(0, cname(0, 1, 1)), (1, cname(0, 0, 1)), (2, cname(0, 1, 1)), (3, cname(0, 0, 1))]
    result = run_gm(mpi, 4, tmp_path, ["3"], seen, HOPBYTE_GM_JSON="out.json").ok()
    text = (tmp_path / "out.txt").read_text()
    assert tokens(text) == tokens(FIGURE_4)
    assert [line for line in text.splitlines() if not line.startswith(("X", "Y", "Z", "H"))] == [
        "(0, 1, 1)",
        "(0, 0, 1)",
    ]
    assert sorted(re.findall(r"rank (\d) leads (\d)", result.err)) == [
        ("0", "1"),
        ("1", "1"),
        ("2", "0"),
        ("3", "0"),
    ]
    objects = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert len(objects) == 14 and objects[0]["vc0_phits"] == 1626452284
    assert objects[6]["link"] == "HH" and objects[6]["capacity_bytes_per_s"] == pytest.approx(10.401e9)


def test_the_comment_lines_of_figure_4_on_request(tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((16, 12, 3)))
    (tmp_path / "counters.txt").write_text(figure_4_counters())
    run_gm(OMPI, 1, tmp_path, ["3"], [(0, cname(0, 1, 1))], HOPBYTE_GM_TITLES="1").ok()
    lines = tokens((tmp_path / "out.txt").read_text())
    assert lines[0] == ["#", "DEST_COORD"]
    assert lines[1] == [
        "#",
        "SRC_COORD",
        "GB/s",
        "VC0_PHITS",
        "VC1_PHITS",
        "VC0_PKTS",
        "VC1_PKTS",
        "INQ_STALLS",
        "OUTQ_STALLS",
    ]


@pytest.mark.parametrize(
    ("mpi", "group"),
    [(OMPI, "0"), (OMPI, "1"), (OMPI, "2"), (OMPI, "5"), (MPICH, "2"), (ABI, "5")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_one_leader_a_router_whatever_the_allocation(mpi: Mpi, group: str, tmp_path: Path) -> None:
    """12 ranks: routers with one to four ranks, in blocks and scattered; hosts emulated by blocks of `group` ranks."""
    (tmp_path / "interconnect.txt").write_text(interconnect((4, 2, 2)))
    (tmp_path / "counters.txt").write_text("* GM_*_*_TILE_PERFORMANCE_COUNTERS_0 0+1\n")
    owners = [
        (0, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
        (0, 0, 0),
        (1, 1, 1),
        (1, 1, 1),
        (1, 0, 0),
        (3, 1, 0),
        (3, 1, 0),
        (0, 0, 0),
        (2, 1, 1),
    ]
    seen = [(rank, cname(*at)) for rank, at in enumerate(owners)]
    result = run_gm(mpi, 12, tmp_path, ["2"], seen, HOPBYTE_GM_GROUP=group).ok()
    leads = {int(r): int(n) for r, n in re.findall(r"rank (\d+) leads (\d)", result.err)}
    first = {at: owners.index(at) for at in owners}
    assert {rank for rank, n in leads.items() if n} == set(first.values())
    printed = [line for line in (tmp_path / "out.txt").read_text().splitlines() if line.startswith("(")]
    assert printed == [f"({x}, {y}, {z})" for (x, y, z), _ in sorted(first.items(), key=lambda item: item[1])]


def test_a_router_can_be_named_by_coordinates_and_a_host_by_name(tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((4, 2, 2)))
    (tmp_path / "counters.txt").write_text("* GM_*_*_TILE_PERFORMANCE_COUNTERS_0 0+1\n")
    host = os.uname().nodename
    (tmp_path / "map").write_text(f"{host} (2,1,0) # this host\nelsewhere (0,0,0)\n")
    run_gm(OMPI, 2, tmp_path, ["2"], [], HOPBYTE_GM_DOMAINS="map").ok()
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "(2, 1, 0)"


def test_a_cray_node_names_its_router(tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((4, 2, 2)))
    (tmp_path / "counters.txt").write_text("* GM_*_*_TILE_PERFORMANCE_COUNTERS_0 0+1\n")
    (tmp_path / "root/proc/cray_xt").mkdir(parents=True)
    (tmp_path / "root/proc/cray_xt/cname").write_text("c3-0c0s1n3\n")
    run_gm(OMPI, 2, tmp_path, ["2"], [], HOPBYTE_GM_DOMAINS="", HOPBYTE_GM_ROOT=str(tmp_path / "root")).ok()
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "(3, 1, 1)"


WIDE = 2**48


@pytest.mark.parametrize(
    ("values", "unwrap", "shown", "why"),
    [
        ([1000, 5000], "", "4000", None),
        ([WIDE - 10, 5], "", "-", "wrap"),
        ([WIDE - 10, 5], "1", "15", None),
        ([WIDE // 2, 5], "", "-", "reset"),
        ([WIDE // 2, 5], "1", "-", "reset"),
    ],
    ids=["plain", "wrap", "wrap-resolved", "reset", "reset-is-no-wrap"],
)
def test_wrap_and_reset(values: list[int], unwrap: str, shown: str, why: str | None, tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((2, 2, 2)))
    rest = "".join(f"* {register(t, 0)} 0+0\n" for t in TILES["X+"][1:])
    (tmp_path / "counters.txt").write_text(f"* {register(TILES['X+'][0], 0)} {values[0]},{values[1]}\n{rest}")
    run_gm(
        OMPI, 1, tmp_path, ["2"], [(0, cname(0, 0, 0))], HOPBYTE_GM_UNWRAP=unwrap, HOPBYTE_GM_JSON="out.json"
    ).ok()
    line = tokens((tmp_path / "out.txt").read_text())[1]
    assert line[0] == "X+" and line[3:] == [shown, "0", "0", "0", "0", "0"]
    link = json.loads((tmp_path / "out.json").read_text().splitlines()[0])
    assert link["spoiled"] == ({} if why is None else {"0": why})
    assert link["vc0_phits"] == (None if shown == "-" else int(shown))


def test_many_samples(tmp_path: Path) -> None:
    """Any two of the last eight; a reset invalidates only the windows that contain it."""
    (tmp_path / "interconnect.txt").write_text(interconnect((2, 2, 2)))
    values = [100, 200, 400, 800, 1600, 50, 150, 350, 750, 1550]  # a reset between reads 4 and 5
    (tmp_path / "counters.txt").write_text(f"* {register(19, 1)} {','.join(map(str, values))}\n")
    expected = {(1, 0): "800", (4, 0): "1500", (7, 5): "1200", (5, 4): "-", (7, 0): "-"}
    for (older, newer), shown in expected.items():
        run_gm(OMPI, 1, tmp_path, ["10", str(older), str(newer)], [(0, cname(0, 0, 0))]).ok()
        assert tokens((tmp_path / "out.txt").read_text())[-1][4] == shown, (older, newer)
    result = run_gm(OMPI, 1, tmp_path, ["10", "8", "0"], [(0, cname(0, 0, 0))])
    assert result.code == 8 and "10 taken, the last 8 kept" in result.err


BAD = {
    "no file": (None, "cannot open interconnect.txt"),
    "not rtr": ("hello\n", 'interconnect.txt:1: found "hello", expected a line of `rtr --interconnect`'),
    "bad line": (interconnect((2, 2, 2)).replace("backplane", "rope", 1), "interconnect.txt:1: found"),
    "other machine": (interconnect((2, 2, 2)), "router c9-0c0s0g0 is not in HOPBYTE_GM_INTERCONNECT"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_interconnect_is_said_and_nothing_hangs(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    if text:
        (tmp_path / "interconnect.txt").write_text(text)
    (tmp_path / "counters.txt").write_text("")
    result = run_gm(OMPI, 3, tmp_path, ["2"], [(0, cname(0, 0, 0)), (1, "c9-0c0s0g0"), (2, cname(1, 1, 1))])
    assert result.code == 7 and message in result.err
    assert not (tmp_path / "out.txt").exists()


@each_mpi
def test_ten_thousand_routers_cost_rank_0_less_than_6_mb(mpi: Mpi, tmp_path: Path) -> None:
    """25x20x20 routers: rank 0 leads one, three other ranks stand in for the leaders of all the rest."""
    dims = (25, 20, 20)
    (tmp_path / "interconnect.txt").write_text(interconnect(dims))
    (tmp_path / "counters.txt").write_text("* GM_*_*_TILE_PERFORMANCE_COUNTERS_0 1000+3\n")
    routers = [(x, y, z) for x in range(dims[0]) for y in range(dims[1]) for z in range(dims[2])]
    seen = [(0 if i == 0 else 1 + i % 3, cname(*at)) for i, at in enumerate(routers)]
    result = run_gm(mpi, 4, tmp_path, ["2"], seen, HOPBYTE_GM_VERBOSE="1").ok()
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert len(lines) == 8 * 10_000 and len(set(lines[::8])) == 10_000
    assert all(int(line.split()[5]) in (24, 12) for line in lines if line[0] in "XYZH")
    peak, grew = map(int, re.findall(r"rank 0 leads 1 peak (\d+) grew (-?\d+)", result.err)[0])
    print(f"rank 0: {peak} bytes held by the library at most, process grew by {grew}")
    assert peak <= 6_000_000 and grew <= 6_000_000
    read, sent = map(int, re.findall(r"(\d+) bytes read, (\d+) sent", result.err)[0])
    assert read > 100 * sent, (read, sent)


def test_the_interconnect_of_cielo(tmp_path: Path) -> None:
    """184,320 lines from the generator in the shared data's folder, if present."""
    shared = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared"))
    maker = shared / "data" / "make_gemini.py"
    if not maker.exists():
        pytest.skip(f"{maker} is not here")
    with open(tmp_path / "interconnect.txt", "w") as out:
        subprocess.run(["python3", str(maker), "16", "12", "24", "--interconnect"], stdout=out, check=True)
    (tmp_path / "counters.txt").write_text("* GM_*_*_TILE_PERFORMANCE_COUNTERS_0 1000+1\n")
    result = run_gm(OMPI, 2, tmp_path, ["2"], [(0, "(0,1,1)"), (1, "(0,0,1)")], HOPBYTE_GM_VERBOSE="1").ok()
    assert "184320 lines, 4608 routers" in result.err
    ours = [words[:3] for words in tokens((tmp_path / "out.txt").read_text())]
    assert ours == [words[:3] for words in tokens(FIGURE_4)]


def infiniband(root: Path, port_values: dict[str, int]) -> None:
    """A card with one port as in Linux's sysfs."""
    port = root / "class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True, exist_ok=True)
    (port / "rate").write_text("100 Gb/sec (4X EDR)\n")
    for name, value in port_values.items():
        (port / "counters" / name).write_text(f"{value}\n")


def between_reads(process: subprocess.Popen[str], folder: Path, change) -> Result:
    """Waits for the program's flag, changes the counters, removes the flag."""
    deadline = time.monotonic() + scaled(60)
    while not (folder / "sampled").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    change()
    (folder / "sampled").unlink()
    out, err = process.communicate(timeout=scaled(60))
    return Result(process.returncode, out, err)


@each_mpi
def test_infiniband(mpi: Mpi, tmp_path: Path) -> None:
    names = [
        "port_rcv_data",
        "port_xmit_data",
        "port_rcv_packets",
        "port_xmit_packets",
        "port_rcv_errors",
        "port_xmit_wait",
    ]
    first = dict(zip(names, [2**40, 100, 10, 20, 0, 7], strict=True))
    second = dict(
        zip(names, [2**40 + 5, 40, 15, 25, 0, 2**32 - 1], strict=True)
    )  # one reset, one stuck at its end
    infiniband(tmp_path / "sys", first)
    environment = {"HOPBYTE_GM_SOURCE": "infiniband", "HOPBYTE_GM_ROOT": str(tmp_path / "sys")}
    command = [*mpi.command(3, environment, []), str(gm_program(mpi)), "2", "pause"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    result = between_reads(process, tmp_path, lambda: infiniband(tmp_path / "sys", second)).ok()
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[1][-6:] == ["RCV_WORDS", "XMIT_WORDS", "RCV_PKTS", "XMIT_PKTS", "RCV_ERRORS", "XMIT_WAIT"]
    assert lines[2] == [f"{os.uname().nodename}:mlx5_0"]
    assert lines[3] == ["1", "-", "12.50", "5", "-", "5", "5", "0", "-"]
    assert sorted(re.findall(r"leads (\d)", result.err)) == ["0", "0", "1"]


def test_infiniband_of_a_real_host(tmp_path: Path) -> None:
    """The captured sysfs of shared data: three cards, three domains, one rank reads them all."""
    shared = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared"))
    archive = shared / "data" / "sysfs" / "procfs-class-infiniband.tar.zst"
    if not archive.exists():
        pytest.skip(f"{archive} is not here")
    subprocess.run(f"zstd -dc {archive} | tar x", shell=True, cwd=tmp_path, check=True)
    result = launch(
        OMPI,
        2,
        [gm_program(OMPI), "2"],
        tmp_path,
        tools=(),
        environment={"HOPBYTE_GM_SOURCE": "infiniband", "HOPBYTE_GM_ROOT": str(tmp_path)},
    ).ok()
    titles = [line for line in result.out.splitlines() if ":" in line]
    assert [t.split(":")[1] for t in titles] == ["hfi1_0", "mlx4_0", "mlx5_0"]
    assert "rank 0 leads 3" in result.err


def test_cxi(tmp_path: Path) -> None:
    folder = tmp_path / "class/cxi/cxi0/device/telemetry"
    folder.mkdir(parents=True)
    for name in ("hni_sts_rx_ok_octets", "hni_sts_tx_ok_octets"):
        (folder / name).write_text("1234@1700000000.123456789\n")
    for name in ("hni_pkts_recv_by_tc", "hni_pkts_sent_by_tc", "hni_rx_paused", "hni_tx_paused"):
        for i in range(
            8 if name != "hni_tx_paused" else 7
        ):  # one file missing: the column cannot be computed
            (folder / f"{name}_{i}").write_text(f"{i}@1700000000.000000001\n")
    result = launch(
        OMPI, 1, [gm_program(OMPI), "2"], tmp_path, tools=(), environment={"HOPBYTE_GM_ROOT": str(tmp_path)}
    ).ok()
    assert result.out.splitlines()[-1].split() == ["cxi0", "-", "-", "0", "0", "0", "0", "0", "-"]


def test_linux_counters_of_this_host(tmp_path: Path) -> None:
    """Bytes sent over a veth pair between two reads equal /sys, and no value is `-`."""
    result = launch(
        OMPI, 2, [gm_program(OMPI), "2"], tmp_path, tools=(), environment={"HOPBYTE_GM_SOURCE": "linux"}
    )
    lines = [line.split() for line in result.ok().out.splitlines()]
    interfaces = sorted(
        name for name in os.listdir("/sys/class/net") if name not in ("lo", "bonding_masters")
    )
    assert [words[0] for words in lines[3:]] == [name[:15] for name in interfaces]
    assert all(word != "-" for words in lines[3:] for word in words[3:])
    assert lines[2] == [os.uname().nodename]


@each_mpi
def test_regions_without_relinking(mpi: Mpi, tmp_path: Path) -> None:
    """The traffic program does not use gm: preloaded, each of its regions gets its own counters."""
    (tmp_path / "interconnect.txt").write_text(interconnect((2, 2, 2)))
    (tmp_path / "counters.txt").write_text(f"* {register(19, 0)} 0+10\n")  # ten more at every sample
    (tmp_path / "domains").write_text(f"0 {cname(0, 0, 0)}\n1 {cname(1, 0, 0)}\n")
    environment = {
        "HOPBYTE_GM_REGIONS": "all",
        "HOPBYTE_GM_DOMAINS": "domains",
        "HOPBYTE_GPCD_FILE": "counters.txt",
        "HOPBYTE_GM_OUTPUT": "out.txt",
    }
    launch(
        mpi,
        2,
        [mpi.build("traffic.c"), "regions", "1"],
        tmp_path,
        tools=("record", "gm"),
        environment=environment,
    ).ok()
    found: dict[str, list[str]] = {}
    region = ""
    for words in tokens((tmp_path / "out.txt").read_text()):
        if words[:2] == ["#", "region"]:
            region = words[2]
        elif words[0] == "HH":
            found.setdefault(region, []).append(words[3])
    # Samples: job 1, solve 2, halo 3, end 4, end 5, pcontrol-2 6, its end 7, pcontrol-3 8, its end 9, job's end 10.
    assert found == {
        "job": ["90"] * 2,
        "solve": ["30"] * 2,
        "halo": ["10"] * 2,
        "pcontrol-2": ["10"] * 2,
        "pcontrol-3": ["10"] * 2,
    }
    assert (tmp_path / "hopbyte-record" / "rank.1.hbr").exists()


def test_regions_job_only_and_a_bad_setting(tmp_path: Path) -> None:
    program = OMPI.build("traffic.c")
    environment = {"HOPBYTE_GM_SOURCE": "linux", "HOPBYTE_GM_REGIONS": "job"}
    out = (
        launch(OMPI, 2, [program, "regions", "1"], tmp_path, tools=("gm",), environment=environment).ok().out
    )
    assert [line for line in out.splitlines() if line.startswith("# region")] == ["# region job"]
    environment["HOPBYTE_GM_REGIONS"] = "every"
    result = launch(OMPI, 2, [program, "regions", "1"], tmp_path, tools=("gm",), environment=environment).ok()
    assert "HOPBYTE_GM_REGIONS=every: expected job or all" in result.err
    environment = {"HOPBYTE_GM_SOURCE": "sonar", "HOPBYTE_GM_REGIONS": "job"}
    result = launch(OMPI, 2, [program, "regions", "1"], tmp_path, tools=("gm",), environment=environment).ok()
    assert "HOPBYTE_GM_SOURCE=sonar: expected gpcd, infiniband, linux or cxi" in result.err


@each_mpi
def test_sanitizers_find_nothing(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "interconnect.txt").write_text(interconnect((16, 12, 3)))
    (tmp_path / "counters.txt").write_text(figure_4_counters())
    (tmp_path / "domains").write_text(f"0 {cname(0, 1, 1)}\n1 {cname(0, 0, 1)}\n2 {cname(0, 1, 1)}\n")
    preload, settings = mpi.sanitized("gm")
    settings |= {
        "HOPBYTE_GM_DOMAINS": "domains",
        "HOPBYTE_GPCD_FILE": "counters.txt",
        "HOPBYTE_GM_REGIONS": "all",
        "HOPBYTE_GM_OUTPUT": "out.txt",
        "HOPBYTE_GM_JSON": "out.json",
    }
    for arguments in ([gm_program(mpi), "3"], [mpi.build("traffic.c"), "regions", "1"]):
        result = launch(
            mpi, 3, arguments, tmp_path, tools=(), preload_first=preload, environment=settings
        ).ok()
        assert "Sanitizer" not in result.err and "runtime error" not in result.err
