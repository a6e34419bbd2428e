"""topobw: phases, links, labels and refusals, on emulated tori of one host. Timings are printed, never asserted."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from launch import ALL, BOTH, BUILD, MPICH, OMPI, Mpi, children, command, finish, run, scaled, start

SMALL = ["--bytes", "3000", "--window", "3", "--warmup", "0"]
LINE = re.compile(r"(?P<source>\S+) (?P<label>[XYZUVW][+-])(?P<kind>[A-Z])(?P<mode>[ES]) (?P<target>\S+) "
                  r"\((?P<a>nid\d{5}|rank \d+) to (?P<b>nid\d{5}|rank \d+)\): "
                  r"(?P<seconds>\d+\.\d{4}) seconds = (?P<rate>\d+\.\d\d) MB/sec")
TOTAL = re.compile(r"Bandwidth (\w) min: (\d+\.\d\d) on (\S+) max: (\d+\.\d\d) on (\S+) avg: (\d+\.\d\d)")

# Lines of paper 002, Fig. 6, with the scan's misreadings corrected.
FIGURE_6 = """\
c0-0c0s5n1 X+CE c0-0c1s5n1 (nid00011 to nid00053): 5.0454 seconds = 5945.98 MB/sec
c0-0c0s3n2 X+CS c0-0c1s3n2 (nid00024 to nid00038): 10.0846 seconds = 2974.83 MB/sec
c0-0c0s3n3 X+CS c0-0c1s3n3 (nid00025 to nid00039): 10.0851 seconds = 2974.68 MB/sec
c0-0c0s3n0 Y+GS c0-0c0s3n1 (nid00006 to nid00007): 4.4262 seconds = 6777.84 MB/sec
c0-0c0s7n1 Y+ME c0-0c0s7n2 (nid00015 to nid00016): 5.0445 seconds = 5947.03 MB/sec
c0-0c1s6n3 Z+BE c0-0c1s7n3 (nid00045 to nid00047): 4.4365 seconds = 6762.15 MB/sec
c0-0c1s2n0 Z+BS c0-0c1s3n0 (nid00058 to nid00056): 7.2851 seconds = 4118.02 MB/sec
c0-0c1s2n1 Z+BS c0-0c1s3n1 (nid00059 to nid00057): 7.2847 seconds = 4118.23 MB/sec
c0-0c1s7n0 Z+CS c0-0c1s0n0 (nid00048 to nid00062): 10.5132 seconds = 2853.55 MB/sec
"""


@dataclass(frozen=True)
class Grid:
    """An emulated machine: rank by rank, router by router."""

    dims: tuple[int, ...]
    wrap: bool = True
    nodes: int = 1

    @property
    def routers(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*[range(d) for d in self.dims]))

    @property
    def ranks(self) -> int:
        return len(self.routers) * self.nodes

    def text(self) -> str:
        lines = ["# made by a test", "dims " + " ".join(map(str, self.dims))]
        if not self.wrap:
            lines.append("wrap" + " 0" * len(self.dims))
        for router, where in enumerate(self.routers):
            for slot in range(self.nodes):
                rank = router * self.nodes + slot
                lines.append(f"node rank:{rank} {' '.join(map(str, where))} n{rank} {rank}")
        return "\n".join(lines) + "\n"

    def name(self, where: tuple[int, ...]) -> str:
        return "r" + "-".join(map(str, where))

    def links(self) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Directed links by name, from the definition of a torus or mesh."""
        found = {}
        for where in self.routers:
            for d, length in enumerate(self.dims):
                for sign, step in (("+", 1), ("-", -1)):
                    moved = where[d] + step
                    if length == 1 or (not self.wrap and not 0 <= moved < length):
                        continue
                    far = (*where[:d], moved % length, *where[d + 1:])
                    found[f"{self.name(where)} {'XYZUVW'[d]}{sign}"] = (where, far)
        return found


GRIDS = [Grid((5,)), Grid((2, 2, 2)), Grid((3, 4)), Grid((2, 3, 2), wrap=False), Grid((1, 7)), Grid((3, 2), nodes=2),
         Grid((2, 2), nodes=3), Grid((16,)), Grid((2, 1, 2, 2))]


def write(folder: Path, text: str) -> Path:
    path = folder / "coords"
    path.write_text(text)
    return path


def measure(mpi: Mpi, grid: Grid, folder: Path, *options: object) -> list[dict[str, Any]]:
    """The JSON lines of a run on an emulated grid."""
    path = write(folder, grid.text())
    return run(mpi, grid.ranks, "topobw", "--coords", path, *SMALL, "--json", *options).ok().records()


def check_phases(lines: list[dict[str, Any]], router: dict[str, tuple[int, ...]]) -> None:
    """No router sends and receives in one phase (partners excepted: their bytes use no link), no node acts twice."""
    senders, receivers = defaultdict(set), defaultdict(set)
    parts: dict[int, Counter[str]] = defaultdict(Counter)
    for line in lines:
        if line["trial"] == 0:
            parts[line["phase"]].update([line["from"], line["to"]])
            if line["kind"] != "same router":
                senders[line["phase"]].add(router[line["from"]])
                receivers[line["phase"]].add(router[line["to"]])
    for phase, counter in parts.items():
        assert max(counter.values()) == 1, (phase, counter)
        assert not senders[phase] & receivers[phase], phase


def test_rounds() -> None:
    """The properties of the phases, for every ring up to 200 and every tournament up to 150."""
    result = finish(start([str(BUILD / "test_rounds")])).ok()
    print(result.out)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_every_link_once(mpi: Mpi, grid: Grid, tmp_path: Path) -> None:
    *lines, last = measure(mpi, grid, tmp_path, "--trials", 2)
    router = {f"n{i}": grid.routers[i // grid.nodes] for i in range(grid.ranks)}
    used = Counter((line["link"], line["from"], line["to"]) for line in lines if line["kind"] != "same router")
    expected = Counter()
    for link, (a, b) in grid.links().items():
        for slot in range(grid.nodes):
            source, target = (f"n{grid.routers.index(r) * grid.nodes + slot}" for r in (a, b))
            expected[link, source, target] = 2  # two trials
    assert used == expected
    partners = Counter((line["from"], line["to"]) for line in lines if line["kind"] == "same router")
    assert partners == Counter({(f"n{a}", f"n{b}"): 2 for a in range(grid.ranks) for b in range(grid.ranks)
                                if a != b and a // grid.nodes == b // grid.nodes})
    check_phases(lines, router)
    for line in lines:
        assert line["schema"] == "hopbyte-topobw-1"
        assert (line["bytes"], line["messages"]) == (9000, 3)
        assert line["seconds"] > 0
        assert line["bytes_per_second"] == pytest.approx(9000 / line["seconds"])
        alone = grid.nodes == 1 and line["kind"] != "same router"
        assert line["mode"] == ("exclusive" if alone else "shared")
    assert {group["name"]: group["transfers"] for group in last["summary"]} == \
        Counter(line["link"][-2] for line in lines if line["trial"] == 0)


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
def test_text_and_summary(mpi: Mpi, tmp_path: Path) -> None:
    grid = Grid((3, 2), nodes=2)
    path = write(tmp_path, grid.text())
    out = run(mpi, grid.ranks, "topobw", "--coords", path, *SMALL, "--trials", 3).ok().out.splitlines()
    matches = [LINE.fullmatch(line) for line in out]
    lines = [m for m in matches if m]
    totals = [TOTAL.fullmatch(line) for line, m in zip(out, matches, strict=True) if not m]
    assert all(totals), out
    assert [t[1] for t in totals if t] == ["X", "Y"]
    for total in totals:
        assert total
        rates = {m["source"]: [] for m in lines}
        for m in lines:
            if m["label"][0] == total[1]:
                rates[m["source"]].append(float(m["rate"]))
        every = [rate for some in rates.values() for rate in some]
        assert float(total[2]) == min(every) and float(total[2]) in rates[total[3]]
        assert float(total[4]) == max(every) and float(total[4]) in rates[total[5]]
        assert float(total[6]) == pytest.approx(sum(every) / len(every), abs=0.011)


def test_figure_lines_are_read() -> None:
    assert all(LINE.fullmatch(line) for line in FIGURE_6.splitlines())


def test_labels_of_figure_6(tmp_path: Path) -> None:
    """The nodes of Fig. 6 on a machine of two chassis get the labels of Fig. 6."""
    figure = [LINE.fullmatch(line) for line in FIGURE_6.splitlines()]
    nids: dict[str, str] = {}
    for m in figure:
        assert m
        nids |= {m["source"]: m["a"][3:], m["target"]: m["b"][3:]}
    # Partners, without which the links of the figure would not be shared.
    nids |= {"c0-0c1s7n1": "49", "c0-0c1s0n1": "63"}
    coords = ["dims 2 2 8", "kinds gemini"]
    for rank, (name, nid) in enumerate(nids.items()):
        place = re.fullmatch(r"c0-0c(\d)s(\d)n(\d)", name)
        assert place
        coords.append(f"node rank:{rank} {place[1]} {int(place[3]) // 2} {place[2]} {name} {int(nid)}")
    path = write(tmp_path, "\n".join(coords))
    out = run(MPICH, len(nids), "topobw", "--coords", path, "--partial", *SMALL, "--trials", 1).ok().out
    ours = {line.rsplit(":", 1)[0] for line in out.splitlines()}
    assert {line.rsplit(":", 1)[0] for line in FIGURE_6.splitlines()} <= ours


def test_modes(tmp_path: Path) -> None:
    grid = Grid((4,), nodes=2)
    path = write(tmp_path, grid.text())
    modes = {}
    for mode in ("shared", "exclusive", "both"):
        *lines, _ = run(OMPI, 8, "topobw", "--coords", path, *SMALL, "--trials", 1, "--mode", mode,
                        "--json").ok().records()
        modes[mode] = Counter(line["mode"] for line in lines if line["kind"] != "same router")
        check_phases(lines, {f"n{i}": (i // 2,) for i in range(8)})
    assert modes == {"shared": {"shared": 16}, "exclusive": {"exclusive": 16},
                     "both": {"shared": 16, "exclusive": 16}}


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_environment(mpi: Mpi, tmp_path: Path) -> None:
    """Coordinates from the environment: two ranks per node, of which one measures; a node name alone adds no node."""
    words = mpi.base()
    count = "-np" if mpi.is_ompi else "-n"
    for x in range(3):
        place = {"HOPBYTE_COORDS": f"{x},1", "HOPBYTE_DIMS": "3,2", "HOPBYTE_WRAP": "1,0", "HOPBYTE_NODE": f"host{x}"}
        words += [":"] * (x > 0) + [count, "2", *mpi.variables(place), str(mpi.program("topobw")), "--coords", "env",
                                    "--partial", *SMALL, "--trials", "1"]
    out = finish(start(words)).ok().out
    found = {(m["source"], m["label"], m["target"], m["a"], m["b"]) for m in map(LINE.fullmatch, out.splitlines()) if m}
    assert found == {(f"host{a}", sign, f"host{b}", f"rank {2 * a}", f"rank {2 * b}")
                     for a in range(3) for sign, b in (("X+", (a + 1) % 3), ("X-", (a - 1) % 3))}


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_tournament(mpi: Mpi, ranks: int) -> None:
    *lines, last = run(mpi, ranks, "topobw", "--tournament", "--ranks", *SMALL, "--trials", 1, "--json").ok().records()
    assert Counter((line["from"], line["to"]) for line in lines) == \
        Counter((f"rank:{a}", f"rank:{b}") for a in range(ranks) for b in range(ranks) if a != b)
    check_phases(lines, {f"rank:{i}": (i,) for i in range(ranks)})
    assert [group["name"] for group in last["summary"]] == ["path"]


def test_plan_is_a_schedule(tmp_path: Path) -> None:
    """The output of --plan runs as --schedule with the same phases, links, kinds and modes."""
    grid = Grid((3, 2), nodes=2)
    path, schedule = write(tmp_path, grid.text()), tmp_path / "schedule"
    schedule.write_text(run(MPICH, grid.ranks, "topobw", "--coords", path, "--mode", "both", "--plan").ok().out)
    fields = ("phase", "phase_name", "link", "from", "to", "kind", "mode")
    ran = [[tuple(line[f] for f in fields) for line in
            run(MPICH, grid.ranks, "topobw", *source, *SMALL, "--trials", 1, "--json").ok().records()[:-1]]
           for source in (["--coords", path, "--mode", "both"], ["--schedule", schedule])]
    assert ran[0] == ran[1]


def test_schedule_of_a_tree(tmp_path: Path) -> None:
    """A switch tree's schedule: links shared within a phase are detected, kinds and names are the planner's."""
    schedule = tmp_path / "schedule"
    schedule.write_text("phase\tup\nrank:0\trank:2\tleaf0->spine0\tup link\nrank:1\trank:3\tleaf0->spine0\tup link\n"
                        "phase\tleaf\nrank:0\trank:1\tsw0[1]\tleaf\n")
    result = run(OMPI, 4, "topobw", "--schedule", schedule, *SMALL, "--trials", 1).ok()
    labels = [line.split(" (")[0] for line in result.out.splitlines()]
    assert labels[:3] == ["rank:0 leaf0->spine0:LS rank:2", "rank:1 leaf0->spine0:LS rank:3", "rank:0 sw0[1]:LE rank:1"]
    assert [line.split(" min:")[0] for line in result.out.splitlines()[3:]] == ["Bandwidth up link", "Bandwidth leaf"]


RING = "dims 2\nnode rank:0 0\nnode rank:1 1\n"
BAD = {
    "no dims": ("node rank:0 0\n", "coords:1: found 'node', expected dims before everything else"),
    "bad number": ("dims 2\nnode rank:0 0\nnode rank:1 x\n", "coords:3: found 'x', expected a whole number in 0..1"),
    "too far": ("dims 2\nnode rank:0 2\n", "coords:2: found '2', expected a whole number in 0..1"),
    "short": ("dims 2 2\nnode rank:0 1\n", "coords:2: found 'the end of the line'"),
    "unknown word": ("dims 2\nnodes rank:0 0\n", "coords:2: found 'nodes', expected dims, wrap, kind"),
    "twice": (RING + "node rank:1 0\n", "node 'rank:1' is listed twice"),
    "other job": ("dims 2\nnode other1 0\nnode other2 1\n", "which is not listed"),
    "huge": ("dims 4096 4096 4096\n", "expected at most 4194304 routers"),
    "control": ("dims 2\nnode a\x01b 0\n", "coords:2: found 'a control character', expected text"),
    "zero byte": ("dims 2\0\n", "holds a zero byte"),
    "long name": ("dims 2\nnode " + "n" * 128 + " 0\n", "expected a node name of at most 127 characters"),
    "empty": ("dims 2\n", "no nodes"),
    "direction": (RING + "link 0 Y+ cable\n", "coords:4: found 'Y+', expected a direction such as X+"),
    "kind twice": (RING + "link 0 X+ a\nlink 1 X+ b\nlink 0 X+ c\n", "for the same link, expected one"),
    "missing": ("dims 3\nnode rank:0 0\nnode rank:1 1\n", "4 of 6 directed links have an end outside this job"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_coordinates(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    result = run(MPICH, 2, "topobw", "--coords", write(tmp_path, text), *SMALL).ended(2)
    assert message in result.err, result.err
    assert result.out == ""


BAD_SCHEDULE = {
    "no phase": ("rank:0\trank:1\tl\tk\n", "schedule:1: found 'rank:0', expected a phase"),
    "both": ("phase\tp\nrank:0\trank:1\tl\tk\nrank:1\trank:2\tl\tk\n",
             "schedule:3: found 'rank:1', expected a node that takes no part in this phase yet"),
    "itself": ("phase\tp\nrank:0\trank:0\tl\tk\n", "schedule:2: found 'rank:0', expected a node that takes no part"),
    "absent": ("phase\tp\nrank:0\thost9\tl\tk\n", "found 'host9', expected a node on which a rank of this job runs"),
    "no kind": ("phase\tp\nrank:0\trank:1\tl\n", "expected the link's kind"),
    "mode": ("phase\tp\nrank:0\trank:1\tl\tk\tmaybe\n", "found 'maybe', expected shared, exclusive"),
    "empty": ("# nothing\n", "no transfers"),
}


@pytest.mark.parametrize("case", BAD_SCHEDULE)
def test_bad_schedules(case: str, tmp_path: Path) -> None:
    text, message = BAD_SCHEDULE[case]
    path = tmp_path / "schedule"
    path.write_text(text)
    result = run(MPICH, 3, "topobw", "--schedule", path, *SMALL).ended(2)
    assert message in result.err, result.err
    assert result.out == ""


@pytest.mark.parametrize(("options", "message"), [
    ((), "found 0 of --coords, --schedule, --tournament"),
    (("--tournament", "--window", "0"), "--window: found '0', expected a whole number from 1"),
    (("--tournament", "--bytes", "12q"), "--bytes: found '12q', expected bytes from 1"),
    (("--tournament", "--mode", "exclusiv"), "--mode: found 'exclusiv', expected one of shared|exclusive|both"),
    (("--tournament", "--nonsense"), "unknown option '--nonsense'"),
    (("--coords", "/nowhere"), "/nowhere: No such file or directory"),
    (("--coords", "env"), "HOPBYTE_COORDS is not set"),
])
def test_bad_options(options: tuple[str, ...], message: str) -> None:
    for mpi in BOTH:
        result = run(mpi, 2, "topobw", *options).ended(2)
        assert message in result.err
        assert result.out == ""


def test_link_kinds_and_router_names(tmp_path: Path) -> None:
    text = ("dims 3 2\nkind X long cable\nkind Y copper\nlink 1 0 X+ optical\nrouter 2 1 c9\n" +
            "".join(f"node rank:{i} {i // 2} {i % 2}\n" for i in range(6)))
    *lines, _ = run(MPICH, 6, "topobw", "--coords", write(tmp_path, text), *SMALL, "--trials", 1,
                    "--json").ok().records()
    kinds = {line["link"]: line["kind"] for line in lines}
    assert kinds.pop("r1-0 X+") == "optical"
    assert "c9 X-" in kinds
    assert all(kind == ("long cable" if link[-2] == "X" else "copper") for link, kind in kinds.items())


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_lost_rank_is_no_hang(mpi: Mpi, blow: signal.Signals) -> None:
    """A killed rank ends the job through the launcher, a stopped one through the deadline."""
    child = start(command(mpi, 4, "topobw", "--tournament", "--ranks", "--trials", 1000000, "--bytes", 1000,
                          "--window", 2, "--deadline", 5))
    began = time.monotonic()
    while len(ranks := children(child.pid, "topobw")) < 4 or time.monotonic() - began < 2:
        assert time.monotonic() - began < scaled(60) and child.poll() is None
        time.sleep(0.05)
    os.kill(ranks[2], blow)
    result = finish(child, 60)
    if blow == signal.SIGSTOP:
        assert "no end after 5 s of" in result.err
        for pid in ranks:
            if Path(f"/proc/{pid}").exists():  # a launcher that gave up on the stopped rank
                os.kill(pid, signal.SIGKILL)
    assert result.code not in (0, None), result
