"""Membership of teams against a brute-force model, and every collective on every team made."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness import FULL, OMPI, Shmem

Team = list[int] | None
View = list[Team]


class Model:
    """The teams of every PE, from the definitions in OpenSHMEM 1.5 and Cray's manual pages."""

    def __init__(self, pes: int) -> None:
        self.pes = pes
        everyone = list(range(pes))
        self.views: list[View] = [[everyone, everyone] for _ in everyone]
        self.lines: list[str] = []

    def parents(self) -> list[int]:
        return [k for k in range(len(self.views[0])) if any(view[k] is not None for view in self.views)]

    def add(self, line: str, parent: int, made: int, members) -> None:
        """`members(team, member)`: the teams of one member of a parent; they must not raise."""
        self.lines.append(line)
        for view in self.views:
            new: View = [None] * made
            team = view[parent]
            if team is not None:
                new = members(team, team.index(self.views.index(view)))
            view += new

    def strided(self, parent: int, start: int, stride: int, size: int) -> None:
        def members(team: list[int], me: int) -> View:
            seats = [start + i * stride for i in range(size)]
            good = 1 <= size <= len(team) and all(0 <= s < len(team) for s in seats) and (stride or size == 1)
            return [[team[s] for s in seats] if good and me in seats else None]

        self.add(f"strided {parent} {start} {stride} {size}", parent, 1, members)

    def grid(self, word: str, parent: int, ranges: list[int], short: bool) -> None:
        """Axes of a grid; `short`: the last row may be incomplete."""

        def members(team: list[int], me: int) -> View:
            given = [min(ranges[0], len(team))] if short else ranges
            shape = [given[0], -(-len(team) // given[0])] if short else given
            cells = {}
            for i, pe in enumerate(team):
                at, left = [], i
                for extent in shape:
                    at.append(left % extent)
                    left //= extent
                if left == 0:
                    cells[tuple(at)] = pe
            mine = next((at for at, pe in cells.items() if pe == team[me]), None)
            if mine is None:
                return [None] * len(shape)
            axes = []
            for axis in range(len(shape)):
                line = [(at[axis], pe) for at, pe in cells.items()
                        if at[:axis] + at[axis + 1 :] == mine[:axis] + mine[axis + 1 :]]
                axes.append([pe for _, pe in sorted(line)])
            return axes

        words = " ".join(map(str, ranges))
        self.add(f"{word} {parent} {words}", parent, 2 if short else len(ranges), members)

    def color(self, parent: int, pairs: list[tuple[int | None, int]]) -> None:
        def members(team: list[int], me: int) -> View:
            mine = pairs[team[me]][0]
            if mine is None:
                return [None]
            same = [(pairs[pe][1], i, pe) for i, pe in enumerate(team) if pairs[pe][0] == mine]
            return [[pe for _, _, pe in sorted(same)]]

        words = " ".join(f"{'u' if c is None else c}:{k}" for c, k in pairs)
        self.add(f"color {parent} {words}", parent, 1, members)

    def destroy(self, team: int) -> None:
        self.lines.append(f"destroy {team}")
        for view in self.views:
            view[team] = None


def draw(pes: int, seed: int, steps: int) -> Model:
    """A script of random splits of random teams; grids fit all parents of their number."""
    rng = random.Random(f"{pes} {seed}")
    model = Model(pes)
    for _ in range(steps):
        parent = rng.choice(model.parents())
        smallest = min(len(view[parent]) for view in model.views if view[parent] is not None)
        kind = rng.randrange(6)
        if kind == 0:
            stride = rng.choice([-3, -2, -1, 1, 2, 3])
            model.strided(parent, rng.randrange(smallest), stride, rng.randint(1, smallest))
        elif kind == 1:
            model.grid("2d", parent, [rng.randint(1, smallest + 1)], True)
        elif kind == 2:
            x = rng.randint(1, smallest)
            model.grid("cart2", parent, [x, rng.randint(1, smallest // x)], False)
        elif kind == 3:
            x = rng.randint(1, smallest)
            y = rng.randint(1, smallest // x)
            model.grid("cart3", parent, [x, y, rng.randint(1, smallest // (x * y))], False)
        elif kind == 4:
            colors = [None, *range(rng.randint(1, 3))]
            model.color(parent, [(rng.choice(colors), rng.randint(-2, 2)) for _ in range(pes)])
        elif parent > 1 and rng.random() < 0.5:
            model.destroy(parent)
    return model


def compare(one: Shmem, model: Model, folder: Path, *, sanitized: bool = False, **environment: str) -> None:
    script = folder / "script"
    script.write_text("\n".join(model.lines) + "\n")
    program = one.build("teams.c", sanitized=sanitized)
    out = one.run(model.pes, program, script, environment=environment).ok().out
    found = {}
    for line in out.splitlines():
        if line.startswith("TEAM "):
            f = line.split()
            found[int(f[1]), int(f[3])] = ([int(w) for w in f[7:]], int(f[5]))
    wanted = {
        (k, pe): (team, team.index(pe))
        for pe, view in enumerate(model.views)
        for k, team in enumerate(view)
        if team is not None
    }
    assert found == wanted, model.lines


QUICK = [(1, 0), (3, 0), (4, 1)]
CASES = [(pes, seed) for pes in range(1, 10) for seed in range(3)] if FULL else QUICK


@pytest.mark.parametrize(("pes", "seed"), CASES)
def test_membership(shmem: Shmem, pes: int, seed: int, tmp_path: Path) -> None:
    compare(shmem, draw(pes, seed, 12), tmp_path)


def test_strided_split_may_be_refused(shmem: Shmem, tmp_path: Path) -> None:
    """Teams that the parent does not contain are refused at all members, and the parent stays usable."""
    model = Model(3)
    for start, stride, size in [(0, 1, 4), (0, -1, 2), (2, 1, 2), (1, 0, 2), (1, 0, 1), (2, -1, 3), (0, 5, 1)]:
        model.strided(0, start, stride, size)
    compare(shmem, model, tmp_path)


def test_sanitizer(tmp_path: Path) -> None:
    """The same under the address and undefined-behaviour sanitizers, with 4 KiB for pieces."""
    compare(
        OMPI,
        draw(4, 7, 10),
        tmp_path,
        sanitized=True,
        ASAN_OPTIONS="detect_leaks=0:handle_segv=0",
        HOPBYTE_SHMEM_STAGE="4096",
        HOPBYTE_SHMEM_CHECK="1",
    )
