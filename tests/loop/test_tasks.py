"""Questions of the book answered on other inputs than the book's, whose answers are known from how they were made.

Each task takes a command line from a page of the book, replaces the input files, machine and names by its own, and runs
it in a folder that has nothing else. Expected values are computed here, from the generator of the input.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shlex
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import ROOT, hopbyte_binary

X, Y = 5, 3
MACHINE = f"torus:{X}x{Y}"
GB = 12.5e9
Place = tuple[int, int]


def node(place: Place) -> str:
    return f"n{place[0]}-{place[1]}"


def links() -> list[str]:
    """Directed links between routers."""
    return [f"r{x}-{y} {way}" for x in range(X) for y in range(Y) for way in ("X+", "X-", "Y+", "Y-")]


def route(a: Place, b: Place) -> list[str]:
    """Host links and the way in X, then Y, each the shorter way round (no ties: odd sizes)."""
    if a == b:
        return []
    at, way = list(a), [f"{node(a)}->r{a[0]}-{a[1]} host"]
    for axis, size in ((0, X), (1, Y)):
        ahead = (b[axis] - a[axis]) % size
        step = 1 if ahead <= size // 2 else -1
        while at[axis] != b[axis]:
            way.append(f"r{at[0]}-{at[1]} {'XY'[axis]}{'+' if step > 0 else '-'}")
            at[axis] = (at[axis] + step) % size
    return [*way, f"r{b[0]}-{b[1]}->{node(b)} host"]


@dataclass
class Task:
    """A folder of a new user."""

    folder: Path

    def counters(self, name: str, rows: dict[str, dict[str, float]]) -> None:
        lines = [{"schema": "hopbyte.link/1", "link": link, **values} for link, values in rows.items()]
        lines.append({"schema": "hopbyte.link/1", "summary": {"window_seconds": 1.0}})
        (self.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def follow(self, page: str, start: str, changes: dict[str, str], code: int = 0) -> str:
        """The page's command that begins with `start`, with words replaced; its output."""
        text = (ROOT / "docs/src" / page).read_text()
        lines = [line[2:] for line in text.splitlines() if line.startswith("$ hopbyte ")]
        line = next(line for line in lines if line.replace("--quiet ", "").startswith(f"hopbyte {start}"))
        words = shlex.split(line)[1:]
        assert set(changes) <= set(words), (line, changes)
        words = [changes.get(word, word) for word in words]
        # Neither the repository's files nor this user's settings.
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        line = [str(hopbyte_binary()), *words]
        done = subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout


def rows(text: str) -> list[list[str]]:
    """Cells of the lines of a table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line and not line.startswith("#")]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "my first job"
    folder.mkdir()
    return Task(folder)


@pytest.fixture(params=[1, 2])
def drawn(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_the_busiest_link(task: Task, drawn: random.Random) -> None:
    bytes_of = {link: float(drawn.randrange(10**9, 12 * 10**9)) for link in links()}
    task.counters("my counters.jsonl", {link: {"received_bytes": b} for link, b in bytes_of.items()})
    changes = {"data/links.jsonl": "my counters.jsonl", "torus:4x4": MACHINE}
    _, first, second = rows(task.follow("questions/congested.md", "links", changes))
    expected = sorted(bytes_of, key=lambda link: -bytes_of[link])[:2]
    assert [first[0], second[0]] == expected
    assert first[5] == f"{100 * bytes_of[expected[0]] / GB:.1f}"


def test_the_link_that_waits(task: Task, drawn: random.Random) -> None:
    waits = dict(zip(links(), drawn.sample(range(900), len(links())), strict=True))
    task.counters(
        "c.jsonl", {link: {"received_bytes": 1e9, "credit_stall_ratio": w / 1000} for link, w in waits.items()}
    )
    changes = {"data/links.jsonl": "c.jsonl", "torus:4x4": MACHINE}
    page = "questions/congested.md"
    _, worst = rows(task.follow(page, "links data/links.jsonl --fabric torus:4x4 --by credit-stall", changes))
    most = max(waits, key=lambda link: waits[link])
    assert worst[0] == most and f"{waits[most] / 10:.1f}" in worst


def test_the_cost_between_two_nodes(task: Task, drawn: random.Random) -> None:
    share = {link: drawn.randrange(1, 990) / 1000 for link in links()}
    task.counters("c.jsonl", {link: {"received_bytes": s * GB} for link, s in share.items()})
    a, b = (0, 0), (drawn.randrange(1, X), drawn.randrange(1, Y))
    changes = {"data/links.jsonl": "c.jsonl", "torus:4x4": MACHINE, "n2-0": node(b)}
    answer = rows(task.follow("questions/congested.md", "oracle query", changes))[1]
    expected = [share[link] for link in route(a, b) if link in share]
    assert answer[:3] == [node(a), node(b), f"{max(expected):.4f}"]


def test_the_dead_and_the_failing_link(task: Task, drawn: random.Random) -> None:
    dead, failing = drawn.sample(links(), 2)
    counted: dict[str, dict[str, float]] = {
        link: {"received_bytes": 1e9, "errors": 0, "lanes": 1} for link in links()
    }
    counted[dead] = {"received_bytes": 0, "errors": 0, "lanes": 0}
    counted[failing]["errors"] = 54321
    task.counters("c.jsonl", counted)
    changes = {"data/links-errors.jsonl": "c.jsonl", "torus:4x4": MACHINE}
    table = rows(task.follow("questions/bad-link.md", "blame", changes, code=1))
    found = [row[:3] for row in table if row[0] in ("down", "errors")]
    assert found == [["down", "link", dead], ["errors", "link", failing]]
    worst = rows(task.follow("questions/bad-link.md", "links", changes))[1]
    assert worst[0] == failing and "54321" in worst


def test_the_machine_without_a_link(task: Task, drawn: random.Random) -> None:
    down = drawn.choice(links())
    changes = {"torus:4x4": MACHINE, "r0-0 X+": down}
    text = task.follow("questions/bad-link.md", "fabric check", changes)
    nodes = X * Y
    assert f"{nodes * (nodes - 1)} of {nodes * (nodes - 1)}" in text and f"\n  {down}\n" in text


def jobs(task: Task, of: dict[str, list[Place]]) -> None:
    listed = [
        {"job_id": int(job), "job_state": ["RUNNING"], "nodes": ",".join(map(node, places)),
         "start_time": {"set": True, "infinite": False, "number": 1_700_000_000}}
        for job, places in of.items()
    ]  # fmt: skip
    (task.folder / "squeue now.json").write_text(json.dumps({"jobs": listed}, indent=1))


def test_the_job_of_each_link(task: Task, drawn: random.Random) -> None:
    """Two jobs in rows without a common link."""
    first, second = drawn.sample(range(Y), 2)
    of = {"101": [(0, first), (1, first)], "102": [(2, second), (4, second)]}
    jobs(task, of)
    owner = {link: job for job, (a, b) in of.items() for link in route(a, b)}
    task.counters("c.jsonl", {link: {"received_bytes": 5e9 + i} for i, link in enumerate(owner)})
    changes = {
        "data/links-stalls.jsonl": "c.jsonl", "data/squeue.json": "squeue now.json", "torus:4x4": MACHINE, "2": "0",
    }  # fmt: skip
    table = rows(task.follow("questions/who.md", "links", changes))[1:]
    assert {row[0]: row[-1].split()[0] for row in table} == owner


def test_the_receiver_that_others_wait_for(task: Task, drawn: random.Random) -> None:
    y = drawn.randrange(Y)
    a, b = (0, y), (2, y)
    way = route(a, b)
    jobs(task, {"7": [a, b], "8": [(3, y), (4, y)]})
    # The last link waits most; those before it less and less.
    counted: dict[str, dict[str, float]] = {
        link: {"received_bytes": 2.5e9, "credit_stall_ratio": 0.1 + 0.15 * i, "errors": 0}
        for i, link in enumerate(way)
    }
    quiet = [link for pair in ((b, a), ((3, y), (4, y)), ((4, y), (3, y))) for link in route(*pair)]
    counted |= {link: {"received_bytes": 1e9, "credit_stall_ratio": 0.0, "errors": 0} for link in quiet}
    task.counters("c.jsonl", counted)
    changes = {"data/links-stalls.jsonl": "c.jsonl", "data/squeue.json": "squeue now.json", "torus:4x4": MACHINE}
    table = rows(task.follow("questions/who.md", "blame", changes, code=1))
    assert ["slow receiver", "host", node(b), str(len(way)), "7"] in table


def test_a_placement_beside_other_jobs_is_the_best_of_all(task: Task, drawn: random.Random) -> None:
    """All placements of five tasks on five nodes, counted here."""
    places = [(x, 1) for x in range(X)]
    pairs = [pair for pair in itertools.permutations(range(X), 2) if drawn.random() < 0.6]
    sent = {pair: drawn.randrange(10**4, 10**6) for pair in pairs}
    (task.folder / "my traffic.csv").write_text(
        "src,dst,bytes\n" + "".join(f"{s},{d},{b}\n" for (s, d), b in sent.items())
    )
    taken = {link: drawn.randrange(0, 11) * 1e9 for link in links()}
    task.counters("other jobs.jsonl", {link: {"received_bytes": b} for link, b in taken.items()})

    def worst(order: tuple[Place, ...]) -> float:
        load: Counter[str] = Counter()
        for (s, d), count in sent.items():
            for link in route(order[s], order[d]):
                load[link] += count
        return max(count / (GB - taken.get(link, 0.0)) for link, count in load.items())

    best = min(map(worst, itertools.permutations(places)))
    changes = {
        "stencil:2x2:5": "my traffic.csv", "torus:4x4": MACHINE, "data/links.jsonl": "other jobs.jsonl",
        "n0-0,n1-0,n2-0,n3-0": ",".join(map(node, places)),
    }  # fmt: skip
    page = "questions/placement.md"
    table = {row[0]: row[1] for row in rows(task.follow(page, "map stencil:2x2:5", changes)) if len(row) > 1}
    assert float(table["in order"]) == pytest.approx(worst(tuple(places)) * 1e6, rel=1e-3)
    assert float(table["result"]) == pytest.approx(best * 1e6, rel=1e-3)


def test_the_launchers_file_and_the_ranks_that_are_elsewhere(task: Task, drawn: random.Random) -> None:
    """A placement, its host file, and a launcher that swapped two ranks."""
    hosts = {"n0-0-0": 4, "n1-0-0": 4, "n0-1-0": 4}
    listed = ",".join(f"{host}:{slots}" for host, slots in hosts.items())
    changes = {"stencil:4x4x4:7": "stencil:4x3:5", "n0-0-0,n0-0-1,n1-0-0,n1-2-3": listed, "obeyed": "my placement"}
    task.follow("questions/helped.md", "map", changes)
    mapped = {"where/mapping.json": "my placement/mapping.json", "where.hosts": "my hosts"}
    task.follow("questions/placement.md", "apply", mapped)
    lines = (task.folder / "my hosts").read_text().splitlines()
    assert {line.split()[0] for line in lines if not line.startswith("#")} == set(hosts)
    placed = [line.split(",") for line in (task.folder / "my placement/placement.csv").read_text().splitlines()[1:]]
    at = {rank: host for rank, host, *_ in placed}
    assert Counter(at.values()) == hosts
    one = drawn.choice(list(at))
    other = drawn.choice([rank for rank in at if at[rank] != at[one]])
    ran = {**at, one: at[other], other: at[one]}
    slots: Counter[str] = Counter()
    text = "rank,node,slot\n"
    for rank, host in sorted(ran.items(), key=lambda item: int(item[0])):
        text += f"{rank},{host},{slots[host]}\n"
        slots[host] += 1
    (task.folder / "ran.csv").write_text(text)
    ran_at = {"obeyed/mapping.json": "my placement/mapping.json", "data/ran.csv": "ran.csv"}
    said = task.follow("questions/helped.md", "apply", ran_at, code=1)
    expected = [[rank, at[rank], ran[rank]] for rank in sorted((one, other), key=int)]
    assert [row for row in rows(said) if row[0] in at] == expected
    assert "2 of 12 ranks" in said


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_whether_the_network_became_faster(task: Task, drawn: random.Random, factor: float) -> None:
    before = {link: float(drawn.randrange(10**8, 8 * 10**9)) for link in links()}
    after = {link: count * factor for link, count in before.items()}
    for name, counted in (("before.jsonl", before), ("after.jsonl", after)):
        task.counters(name, {link: {"received_bytes": count} for link, count in counted.items()})
    changes = {"data/links.jsonl": "before.jsonl", "data/links-after.jsonl": "after.jsonl", "torus:4x4": MACHINE}
    text = task.follow("questions/helped.md", "verify", changes, code=0 if factor < 1 else 1)
    table = {row[0]: row for row in rows(text)}
    for name, counted in (("before", before), ("after", after)):
        worst = max(counted, key=lambda link: counted[link])
        assert table[name][1] == f"{1000 * counted[worst] / GB:.3f}" and table[name][-1] == worst


def test_what_a_slower_network_costs(task: Task) -> None:
    """Two nodes, a message that fills the link: its time is that of the slowest of links and hosts."""
    scenario = (ROOT / "scenarios/examples/xt4/ping-pong.toml").read_text()
    (task.folder / "my job.toml").write_text(scenario)
    (task.folder / "twice.toml").write_text(re.sub('name = .*', 'name = "twice"', scenario).replace("1e6", "2e6"))
    changes = {
        "scenarios/examples/xt4/ping-pong.toml": "my job.toml", "1/4,1/2,1": "1/64,1/32,1/16",
        "scenarios/examples/xt4/all-to-all.toml": "twice.toml",
    }  # fmt: skip
    table = rows(task.follow("questions/slower.md", "sweep", changes))
    times = [float(row[3]) for row in table if len(row) == 7 and row[1] == "link bandwidth"]
    # Far below the host's rate a message's time is proportional to the link's.
    assert times[0] / times[1] == pytest.approx(2, rel=0.03)
    assert times[1] / times[2] == pytest.approx(2, rel=0.05)
    assert times[4] / times[0] == pytest.approx(2, rel=0.03)


def test_what_changed_between_two_dumps(task: Task) -> None:
    page = "roles/administrator.md"
    text = task.follow(page, "fabric diff", {"torus:4x4": MACHINE, "torus:4x5": f"torus:{X + 1}x{Y}"}, code=1)
    assert f"routers added ({Y}):" in text and f"nodes added ({Y}):" in text
    # Four links of each new router, two host links each; those around the old end lead elsewhere.
    assert f"links added ({Y * 6}):" in text and f"links changed ({2 * Y}):" in text
