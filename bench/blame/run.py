"""``hopbyte blame`` against faults drawn at random on simulated machines, and against machines without any.

Each round draws a machine and eight jobs, runs them without a fault (`simulate.c`: packets, buffers, credits)
and then with each of two faults, writes the counters as files of real tools, and runs the command on them as a
user would. Nothing here shares code with the inference. A fault has an effect if a job loses at least two
percent of its throughput, or if counters of its own show it (lanes, errors, exchanged cables that carry at least
one percent of their capacity); the others cannot be seen in the traffic, and only accusations of other components
are counted. Known limit: gpcdr's files of Gemini have no counters of host links.

    bench/blame/run.py --hopbyte target/release/hopbyte --seed 1 --rounds 100
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from machines import WINDOW, Machine, Writer, finish, load, swapped  # noqa: E402

JOBS, MOST_NODES, EFFECT, COSTLY = 8, 96, 0.02, 0.1
SMALL = [
    ("torus:6x6:nodes=2", "rows"),
    ("gemini:4x4x4", "ldms"),
    ("fattree:down=8x8,up=1x4", "mads"),
    ("dragonfly:5x4:nodes=4", "rows"),
]
LARGE = [
    ("torus:8x8x8", "rows"),
    ("gemini:8x6x8", "ldms"),
    ("fattree:down=16x16,up=1x8", "mads"),
    ("dragonfly:9x8:nodes=4", "rows"),
    ("gemini:16x12x24", "ldms"),
    ("fattree:k=16,levels=3", "mads"),
    ("torus:16x16x18", "rows"),
    ("dragonfly:33x16:nodes=8", "rows"),
]
KINDS = [
    "cable rate",
    "lanes",
    "loss",
    "paused host",
    "slow router",
    "slow node",
    "starved host",
    "one direction",
    "wrong cable",
]
SELF_SHOWN = ("lanes", "loss", "wrong cable")


class Health:
    """Shares that a fault leaves."""

    def __init__(self) -> None:
        self.link: dict[int, float] = {}
        self.arrives: dict[int, float] = {}
        self.takes: dict[int, float] = {}
        self.sends: dict[int, float] = {}
        self.router: dict[int, float] = {}
        self.lanes: dict[int, int] = {}


def simulate(program: Path, m: Machine, flows: list[tuple], health: Health) -> tuple[list[list[int]], list[int]]:
    """Counts of all links, and packets delivered by job."""
    own = [link["capacity_bytes_per_s"] / m.fastest for link in m.links]
    lines = [f"{len(m.links)} {len(m.routers)} {len(m.nodes)} {len(flows)}"]
    for i, link in enumerate(m.links):
        lines.append(f"{link['a']} {link['b']} {own[i] * health.link.get(i, 1):.6f} {health.arrives.get(i, 1):.3f}")
    for n, node in enumerate(m.nodes):
        takes, sends = health.takes.get(n, 1), health.sends.get(n, 1)
        lines.append(
            f"{node['inject']} {node['eject']} {takes} {sends} {own[node['inject']]:.6f} {own[node['eject']]:.6f}"
        )
    lines += [str(health.router.get(r, 1)) for r in range(len(m.routers))]
    for job, a, b, rate, (message, period, on), route in flows:
        lines.append(f"{job} {a} {b} {rate:.6f} {message} {period} {on} {len(route)} " + " ".join(map(str, route)))
    done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    rows = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert rows[-1] == [WINDOW]
    return rows[:-2], rows[-2]


def draw_jobs(m: Machine, draw: random.Random) -> tuple[list[list[int]], list[tuple]]:
    """Nodes of the jobs, and pairs that exchange bytes: job, sender, receiver, packets a cycle, and when they are sent.

    Messages of a job have one length, and half of the jobs compute between two exchanges.
    """
    order = list(range(len(m.nodes)))
    if draw.random() < 0.5:
        draw.shuffle(order)
    each = len(order) // JOBS
    jobs, pairs = [], []
    for job in range(JOBS):
        part = order[job * each : (job + 1) * each]
        size = max(2, min(MOST_NODES, int(len(part) * draw.uniform(0.5, 1))))
        nodes, load_, pattern, far = part[:size], draw.uniform(0.1, 0.7), draw.randrange(4), draw.randrange(1, size)
        period = draw.choice([200, 500, 1000])
        duty = draw.choice([1, 1, 0.7, 0.4])
        sent = draw.choice([4, 16, 48]), period, round(period * duty)
        for i, node in enumerate(nodes):
            if pattern == 0:
                partners = {i + 1, i - 1}
            elif pattern == 1:
                partners = {i + 1, i - 1, i + far, i - far}
            else:
                partners = {draw.randrange(size) for _ in range(4)}
            partners = sorted({p % size for p in partners} - {i})
            rate = load_ * m.links[m.nodes[node]["inject"]]["capacity_bytes_per_s"] / m.fastest
            pairs += [(job, node, nodes[p], rate / duty / len(partners), sent) for p in partners]
        jobs.append(nodes)
    return jobs, pairs


def draw_fault(m: Machine, pairs: list[tuple], clean: list[list[int]], draw: random.Random) -> tuple:
    """Kind, share that is left, names of the component, health, and cables that were exchanged."""
    used = [c[0] / WINDOW / (link["capacity_bytes_per_s"] / m.fastest) for c, link in zip(clean, m.links, strict=True)]
    hops = [i for i, link in enumerate(m.links) if link["hop"]]
    busy = [i for i in hops if used[i] >= 0.2] or [i for i in hops if used[i] > 0] or hops
    kind, share, link = draw.choice(KINDS), draw.randint(1, 9) / 10, draw.choice(busy)
    back = m.reverse[link]
    if kind == "wrong cable" and m.files != "mads":
        kind = "cable rate"
    if kind == "lanes" and (m.files == "mads" or m.links[link]["lanes"] < 2):
        kind = "cable rate"
    names, health, other = {m.names[link], m.names[back]}, Health(), None
    receivers = [p[2] for p in pairs if used[m.nodes[p[2]]["eject"]] > 0.1] or [p[2] for p in pairs]
    node = draw.choice(receivers)
    if kind == "cable rate":
        health.link = {link: share, back: share}
    elif kind == "one direction":
        health.link = {link: share}
    elif kind == "lanes":
        lanes = m.links[link]["lanes"]
        left = min(lanes - 1, max(1, round(lanes * share)))
        share = left / lanes
        health.link, health.lanes = {link: share, back: share}, {link: left, back: left}
    elif kind == "loss":
        health.arrives = {link: share}
    elif kind == "slow router":
        router = m.links[link]["b"]
        names, health.router = {m.routers[router]}, {router: share}
    elif kind == "wrong cable":
        ends = {m.links[link]["a"], m.links[link]["b"]}
        other = draw.choice([i for i in hops if not ends & {m.links[i]["a"], m.links[i]["b"]}])
        names |= {m.names[other], m.names[m.reverse[other]]}
    else:
        one = m.nodes[node]
        router = m.routers[one["router"]]
        names = {one["name"], f"{one['name']}->{router} host", f"{router}->{one['name']} host"}
        names |= {m.names[one["inject"]], m.names[one["eject"]], f"{router} HH in", f"{router} HH out"}
        health.takes = {node: share}
        if kind != "paused host":
            health.sends = {node: share}
    return kind, share, names, health, (link, other)


class Site:
    """Machines, programs and a folder."""

    def __init__(self, hopbyte: Path, simulator: Path, folder: Path) -> None:
        self.hopbyte, self.simulator, self.folder = hopbyte, simulator, folder
        self.slowest = 0.0

    def ask(self, m: Machine, verb: list[str], files: list[str]) -> subprocess.CompletedProcess[str]:
        words = [
            self.hopbyte,
            "--quiet",
            "--json",
            *verb,
            *files,
            "--fabric",
            *m.words,
            "--jobs",
            self.folder / "jobs.csv",
        ]
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.slowest = max(self.slowest, time.monotonic() - begin)
        assert done.returncode in (0, 1), (words, done.stderr)
        return done

    def blame(self, m: Machine, files: list[str]) -> list[dict]:
        return json.loads(self.ask(m, ["blame"], files).stdout)["causes"]

    def attributed(self, m: Machine, files: list[str], clean: list[list[int]]) -> tuple[float, float]:
        """Packets of the five fullest links between routers, and those that are given to the right jobs."""
        done = self.ask(m, ["links", "--by-job", "--by", "bytes", "--top", "60"], files)
        rows = [
            row
            for row in map(json.loads, done.stdout.splitlines())
            if row.get("link") in set(m.names) and row.get("received_bytes")
        ]
        rows = [row for row in rows if m.links[m.names.index(row["link"])]["hop"]]
        hot = right = 0.0
        for row in rows[:5]:
            truth = clean[m.names.index(row["link"])][5:]
            hot += sum(truth)
            for job in row.get("by_job", []):
                share = job["bytes"] / row["received_bytes"] * sum(truth)
                right += min(share, truth[int(job["job"].removeprefix("job"))])
        return hot, right


def verdict(causes: list[dict], names: set[str]) -> str:
    """Of the accusations: the right one first, tied with the first, later, or none of them."""
    accusations = [c for c in causes if c["fault"] != "hot_spot"]
    if not accusations:
        return "silent"

    def tied(c: dict) -> bool:
        return any(o.endswith(f" {n}") for o in c["or"] for n in names)

    if accusations[0]["name"] in names:
        return "first"
    if tied(accusations[0]):
        return "tied"
    return "later" if any(c["name"] in names or tied(c) for c in accusations) else "wrong"


def short(causes: list[dict]) -> str:
    said = [f"{c['fault']} {c['kind']} {c['name']}" + (f" (or {len(c['or'])})" if c["or"] else "") for c in causes[:4]]
    return f"{len(causes)} causes: " + "; ".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hopbyte", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--small", action="store_true", help="four small machines")
    parser.add_argument("--show", action="store_true", help="every answer, not only those that are not right")
    parser.add_argument("--keep", type=Path, help="folder for the files of every question")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        simulator = folder / "simulate"
        source = Path(__file__).with_name("simulate.c")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-o", simulator, source], check=True)
        site = Site(args.hopbyte.resolve(), simulator, folder)
        machines = [load(site.hopbyte, name, files, folder) for name, files in (SMALL if args.small else LARGE)]
        return rounds(site, machines, args)


def rounds(site: Site, machines: list[Machine], args: argparse.Namespace) -> int:
    table: dict[tuple[str, float], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    losses: list[tuple[float, bool]] = []
    costly: list[bool] = []
    accused, hot, right = 0, 0.0, 0.0
    for number in range(args.rounds):
        draw = random.Random(f"{args.seed}:{number}")
        m = machines[number % len(machines)]
        jobs, pairs = draw_jobs(m, draw)
        flows = [(job, a, b, rate, sent, m.route(a, b)) for job, a, b, rate, sent in pairs]
        rows = [f"job{job},{m.nodes[n]['host']}" for job, nodes in enumerate(jobs) for n in nodes]
        (site.folder / "jobs.csv").write_text("\n".join(["job,node", *rows]) + "\n")
        clean, delivered = simulate(site.simulator, m, flows, Health())
        files = Writer(m, clean, {}, draw).write(site.folder)
        keep(args, site, m, number, "clean", files, "")
        causes = site.blame(m, files)
        if any(c["fault"] != "hot_spot" for c in causes):
            accused += 1
            print(f"{number} {m.name}: clean, but {short(causes)}", flush=True)
        one, other = site.attributed(m, files, clean)
        hot, right = hot + one, right + other
        for which in range(2):
            kind, share, names, health, (link, swap) = draw_fault(m, pairs, clean, draw)
            real, run = m, flows
            if kind == "wrong cable":
                real = Machine(m.name, m.files, [str(site.folder / "as-cabled.txt")], swapped(m, link, swap))
                Path(real.words[0]).write_text(real.text)
                finish(site.hopbyte, real)
                order = {node["name"]: n for n, node in enumerate(real.nodes)}
                run = []
                for job, a, b, rate, sent in pairs:
                    a, b = (order[m.nodes[n]["name"]] for n in (a, b))
                    source, target = real.nodes[a], real.nodes[b]
                    way = real.shortest(source["router"], target["router"], draw)
                    run.append((job, a, b, rate, sent, [source["inject"], *way, target["eject"]]))
            counts, got = simulate(site.simulator, real, run, health)
            files = Writer(real, counts, health.lanes, draw).write(site.folder)
            worst = max(1 - g / max(d, 1) for g, d in zip(got, delivered, strict=True))
            keep(args, site, m, number, str(which), files, json.dumps([kind, share, sorted(names), worst]))
            causes = site.blame(m, files)
            said = verdict(causes, names)
            cell = table[kind, round(share, 1)]
            shown = kind in SELF_SHOWN and (kind != "loss" or (m.files != "ldms" and counts[link][4] > 0))
            exchanged = [i for i, name in enumerate(real.names) if swap is not None and name in names]
            carried = any(counts[i][0] >= 0.01 * WINDOW for i in exchanged)
            if worst >= EFFECT or (shown and (kind != "wrong cable" or carried)):
                cell[said] += 1
                if worst >= COSTLY:
                    costly.append(said in ("first", "tied"))
                if kind not in SELF_SHOWN:
                    losses.append((worst, said in ("first", "tied")))
            else:
                said = f"no effect, {said}"
                cell["no effect"] += 1
                cell["others accused"] += said.endswith("wrong")
            if not said.endswith("first") or args.show:
                fault = f"{kind} {share:.2f} of {sorted(names)}, jobs lose {100 * worst:.0f} %"
                print(f"{number}.{which} {m.name}: {fault}: {said}: {short(causes)}", flush=True)
    print(f"faults that cost a job 10 % or more: {sum(costly)} of {len(costly)} found")
    return report(table, losses, args, accused, right / hot if hot else 1.0, site.slowest)


def keep(
    args: argparse.Namespace, site: Site, m: Machine, number: int, what: str, files: list[str], truth: str
) -> None:
    if args.keep:
        folder = args.keep / f"{number}-{what}"
        folder.mkdir(parents=True, exist_ok=True)
        names = [f for f in files if os.path.exists(f)]
        machine = [w for w in m.words if os.path.exists(w)]
        subprocess.run(["cp", *names, *machine, site.folder / "jobs.csv", folder], check=True)
        (folder / "truth").write_text(truth)
        (folder / "words").write_text(json.dumps([m.words, files]))


def report(
    table: dict,
    losses: list[tuple[float, bool]],
    args: argparse.Namespace,
    accused: int,
    attributed: float,
    slowest: float,
) -> int:
    columns = ["first", "tied", "later", "wrong", "silent", "no effect", "others accused"]
    print(f"{'fault':14} left " + "".join(f"{c:>15}" for c in columns))
    total: dict[str, int] = defaultdict(int)
    for kind in KINDS:
        sums: dict[str, int] = defaultdict(int)
        for (name, share), cell in sorted(table.items()):
            if name == kind:
                print(f"{kind:14} {share:4.1f} " + "".join(f"{cell[c]:15}" for c in columns))
                for c in columns:
                    sums[c] += cell[c]
                    total[c] += cell[c]
        print(f"{kind:14}  all " + "".join(f"{sums[c]:15}" for c in columns))
    print(f"{'all':14}      " + "".join(f"{total[c]:15}" for c in columns))
    print("faults that no counter of their own shows, by the throughput that the worst job loses:")
    for low, high in ((EFFECT, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1.01)):
        of = [found for lost, found in losses if low <= lost < high]
        print(f"  {100 * low:3.0f} to {100 * min(high, 1):3.0f} %: {sum(of)} of {len(of)} found")
    named = total["first"] + total["tied"]
    spoken = named + total["later"] + total["wrong"]
    print(
        f"seed {args.seed}: {spoken + total['silent']} faults with an effect, of {spoken} accusations {named} right "
        f"({100 * named / max(spoken, 1):.1f} %), {total['silent']} not found; "
        f"{accused} of {args.rounds} clean runs accused; {100 * attributed:.1f} % of the bytes of full links given to "
        f"the right jobs; slowest answer {slowest:.1f} s"
    )
    return 0 if named >= 0.95 * spoken and accused == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
