"""``hopbyte blame`` against faults drawn at random in a lab: a namespace for each router and node of a machine, eight
jobs of real processes that exchange messages over TCP.

Each set draws eight jobs, waits, asks once without a fault, and then for each of ten faults: applies it, waits until
queues and windows have settled, reads the counters of a window (`lab counters`), asks ``hopbyte blame``, and takes it
away. A fault has an effect if a job with routes over the component loses at least a tenth of the iterations that it had
without one, before and after it (other jobs, and one window, vary by chance). Links are slowed by a second shaper
behind the one whose rate the kernel tells, so that no counter shows the new rate; for a lower agreed rate the first one
is changed. A starved host shares a small quota of processor time with a program that takes it all. The far ends of two
cables are exchanged as a hand does it: the routes stay. The program of a slow reader takes its bytes at a lower rate.
So does one that computes, and no component is at fault: it is counted apart.

    sudo bench/blame/lab.py --hopbyte target/release/hopbyte --seed 1 --sets 20
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parent))
from machines import Machine, load  # noqa: E402
from run import draw_jobs, short, verdict  # noqa: E402

NAME, EFFECT, FAULTS = "blamelab", 0.1, 10
KINDS = [
    "cable rate",
    "one direction",
    "agreed rate",
    "loss",
    "paused host",
    "slow router",
    "slow node",
    "starved host",
    "wrong cable",
    "slow reader",
]
# Kinds that are of a program, not of a component.
OF_PROGRAMS = ["slow reader"]
GROUPS = Path("/sys/fs/cgroup")


def run(words: list[object]) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Lab:
    """Namespaces, agents and the collector."""

    def __init__(self, hopbyte: Path, m: Machine, rate: float, folder: Path) -> None:
        self.hopbyte, self.m, self.folder, self.rate = hopbyte, m, folder, rate
        self.handles: dict[tuple[str, str], str] = {}
        run([hopbyte, "--quiet", "lab", "up", *m.words, "--rate", f"{rate / 1e6}mbit", "--name", NAME])

    def shape(self, links: set[int], share: float) -> None:
        """Slows links behind the shaper whose rate the kernel tells, so that nothing tells the new rate; 1 ends it."""
        by_place: dict[str, list[str]] = defaultdict(list)
        for i in links:
            link = self.m.links[i]
            sender = link["from"].get("node")
            place = f"{NAME}-r{link['a']}" if sender is None else f"{NAME}-n{sender}"
            receiver = link["to"].get("node")
            device = "eth0" if sender is not None else f"n{receiver}" if receiver is not None else f"l{i}"
            rate = self.rate * link["capacity_bytes_per_s"] / self.m.fastest
            if (place, device) not in self.handles:
                shown = run(["tc", "-n", place, "qdisc", "show", "dev", device, "root"])
                self.handles[place, device] = shown.split()[2]
            queue = f"handle 2: tbf rate {round(rate * share)}bit burst 3200 latency 400ms"
            if share == 1:
                queue = f"handle 3: bfifo limit {round(rate / 8 * 0.4) + 6400}"
            parent = self.handles[place, device] + "1"
            by_place[place].append(f"qdisc replace dev {device} parent {parent} {queue}")
        for place, lines in by_place.items():
            words = ["tc", "-n", place, "-batch", "-"]
            subprocess.run(words, input="\n".join(lines) + "\n", text=True, check=True)

    def loss(self, link: int, share: float) -> None:
        """Frames lost on a link, at the end where they arrive; 0 ends it."""
        to, back = self.m.links[link]["b"], self.m.reverse[link]
        words = ["ip", "netns", "exec", f"{NAME}-r{to}", "iptables", "-t", "raw"]
        run([*words, "-F"])
        if share:
            rule = ["-A", "PREROUTING", "-i", f"l{back}", "-m", "statistic", "--mode", "random"]
            run([*words, *rule, "--probability", share, "-j", "DROP"])

    def connect(self, cables: list[tuple[int, int]]) -> None:
        """Connects the sending ends of two links with each other, in place of what they were connected with."""
        ends = [[(f"{NAME}-r{self.m.links[i]['a']}", f"l{i}", i) for i in cable] for cable in cables]
        routes = {}
        for place, device, _ in itertools.chain(*ends):
            shown = run(["ip", "-n", place, "route", "show", "dev", device])
            routes[device] = [line.split()[0] for line in shown.splitlines()]
        for place, device, _ in itertools.chain(*ends):
            # Its other end goes with it.
            subprocess.run(["ip", "-n", place, "link", "del", device], check=False, capture_output=True)
            self.handles.pop((place, device), None)
        for number, cable in enumerate(ends):
            (near, out, _), (far, back, _) = cable
            run(["ip", "link", "add", out, "netns", near, "type", "veth", "peer", "name", back, "netns", far])
            for place, device, i in cable:
                rate = round(self.rate * self.m.links[i]["capacity_bytes_per_s"] / self.m.fastest)
                set_up = ["link", "set", "dev", device, "address", f"02:78:00:00:00:{number:02x}", "arp", "off", "up"]
                run(["ip", "-n", place, *set_up])
                bucket = ["burst", max(6400, rate // 4000), "latency", "400ms"]
                run(["tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}bit", *bucket])
                for target in routes[device]:
                    run(["ip", "-n", place, "route", "add", target, "dev", device])

    def agree(self, links: set[int], share: float) -> None:
        """Changes the rate that the kernel tells; 1 ends it."""
        for i in links:
            run([self.hopbyte, "--quiet", "lab", "degrade", self.m.names[i], share, "--name", NAME])

    def down(self) -> None:
        run([self.hopbyte, "--quiet", "lab", "down", NAME])

    def attributed(self, jobs: Jobs, iterations: list[float]) -> tuple[float, float]:
        """Bytes of the five fullest links between routers, and those that are given to the right jobs."""
        about = [self.folder / "links.json", "--fabric", *self.m.words, "--jobs", self.folder / "jobs.csv"]
        done = run([self.hopbyte, "--quiet", "--json", "links", *about, "--by-job", "--by", "bytes", "--top", 0])
        rows = [row for row in map(json.loads, done.splitlines()) if row.get("received_bytes")]
        order = {name: i for i, name in enumerate(self.m.names)}
        rows = [row for row in rows if self.m.links[order[row["link"]]]["hop"]][:5]
        hot = right = 0.0
        for row in rows:
            truth: dict[str, float] = defaultdict(float)
            for job, size, route in jobs.flows:
                if order[row["link"]] in route:
                    truth[f"job{job}"] += size * iterations[job]
            hot += sum(truth.values())
            scale = sum(truth.values()) / row["received_bytes"]
            right += sum(min(job["bytes"] * scale, truth[job["job"]]) for job in row.get("by_job", []))
        return hot, right

    def blame(self, window: float, jobs: Jobs, keep: Path | None) -> tuple[list[dict], float, list[float]]:
        """The causes, the seconds of the answer, and the iterations of each job in a second meanwhile."""
        file = self.folder / "links.json"
        before, begin = jobs.iterations(), time.monotonic()
        run([self.hopbyte, "--quiet", "lab", "counters", "--name", NAME, "--interval", window, "-o", file, "--top", 1])
        after, end = jobs.iterations(), time.monotonic()
        about = ["--fabric", *self.m.words, "--jobs", self.folder / "jobs.csv"]
        ask = [self.hopbyte, "--quiet", "--json", "blame", file, *about]
        done = subprocess.run([str(w) for w in ask], capture_output=True, text=True, check=False)
        took = time.monotonic() - end
        assert done.returncode in (0, 1), done.stderr
        if keep:
            keep.with_suffix(".jsonl").write_text(file.read_text())
            keep.with_suffix(".csv").write_text((self.folder / "jobs.csv").read_text())
        jobs.done = [a - b for a, b in zip(after, before, strict=True)]
        rates = [done / (end - begin) for done in jobs.done]
        return json.loads(done.stdout)["causes"], took, rates


class Jobs:
    """Eight jobs as processes."""

    def __init__(self, program: Path, m: Machine, bytes_per_second: float, pairs: list[tuple], folder: Path) -> None:
        members = sorted({(job, n) for job, a, b, _, _ in pairs for n in (a, b)})
        self.rank = {node: i for i, (_, node) in enumerate(members)}
        self.count = max(job for job, _ in members) + 1
        self.hog: subprocess.Popen[bytes] | None = None
        self.done = [0.0] * self.count
        self.flows: list[tuple[int, int, set[int]]] = []
        periods, sends = {}, defaultdict(list)
        for job, a, b, rate, (_, period, on) in pairs:
            # Several iterations in a window, so that their number tells the loss.
            periods[job] = period // 2
            size = max(1, round(rate * bytes_per_second * on / 2000))
            sends[a].append(f"{self.rank[b]}:{size}")
            self.flows.append((job, size, set(m.route(a, b))))
        lines = [f"{len(members)} {self.count}"]
        for job, n in members:
            address = f"10.77.{(n + 1) >> 8}.{(n + 1) & 255}"
            lines.append(f"{NAME}-n{n} {address} {job} {len(sends[n])} " + " ".join(sends[n]))
        lines += [str(periods[job]) for job in range(self.count)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        self.say("\n".join(lines) + "\n")
        self.processes = [round(number) for number in self.iterations("processes")]
        rows = [f"job{job},{m.nodes[n]['host']}" for job, n in members]
        (folder / "jobs.csv").write_text("\n".join(["job,node", *rows]) + "\n")

    def say(self, text: str) -> None:
        stream: IO[str] | None = self.process.stdin
        assert stream
        stream.write(text)
        stream.flush()

    def iterations(self, question: str = "?") -> list[float]:
        self.say(question + "\n")
        assert self.process.stdout
        return [float(word) for word in self.process.stdout.readline().split()]

    def end(self) -> None:
        self.starve(0, 1)
        os.killpg(self.process.pid, 9)
        self.process.wait()

    def starve(self, rank: int, share: float) -> None:
        """Gives a rank a processor only when a period begins; smaller shares have longer periods, 1 ends it."""
        second = (GROUPS / "cgroup.controllers").exists()
        group = (GROUPS if second else GROUPS / "cpu") / NAME
        members = group / ("cgroup.procs" if second else "tasks")
        if share == 1:
            if self.hog:
                self.hog.kill()
                self.hog.wait()
                (group.parent / members.name).write_text(str(self.starved))
                group.rmdir()
            self.hog = None
            return
        group.mkdir()
        period = round((1.05 - share) * 1e6)
        quota = max(1000, period // 50)
        if second:
            (group / "cpu.max").write_text(f"{quota} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        self.hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.starved = self.processes[rank]
        for process in (self.hog.pid, self.starved):
            members.write_text(str(process))


class Fault:
    """A fault of a drawn kind, applied and taken away."""

    def __init__(self, lab: Lab, jobs: Jobs, pairs: list[tuple], draw: random.Random, kinds: list[str]) -> None:
        m, bytes_per_second = lab.m, lab.rate / 8
        self.kind, self.share = draw.choice(kinds), draw.randint(1, 9) / 10
        link = draw.choice(sorted({i for _, a, b, _, _ in pairs for i in m.route(a, b) if m.links[i]["hop"]}))
        node = draw.choice(sorted({b for _, _, b, _, _ in pairs}))
        one, back = m.nodes[node], m.reverse[link]
        host = {one["name"], m.names[one["inject"]], m.names[one["eject"]]}
        self.names = {m.names[link], m.names[back]}
        self.links = {link, back} if self.kind in ("cable rate", "wrong cable") else {link}
        self.set = lambda share: lab.shape(self.links, share)
        if self.kind == "loss":
            self.share = round(1 - (1 - self.share) / 10, 2)
            self.set = lambda share: lab.loss(link, round(1 - share, 3))
        elif self.kind == "slow router":
            self.names = {m.routers[m.links[link]["b"]]}
            end = {"router": m.links[link]["b"]}
            self.links = {i for i, other in enumerate(m.links) if end in (other["from"], other["to"])}
        elif self.kind == "slow node":
            self.names = host
            self.links = {one["inject"], one["eject"]}
        elif self.kind == "paused host":
            self.names = host
            self.links = {one["eject"]}
        elif self.kind == "agreed rate":
            self.set = lambda share: lab.agree(self.links, share)
        elif self.kind == "starved host":
            self.names = host
            self.set = lambda share: jobs.starve(jobs.rank[node], share)
            self.links = {one["inject"], one["eject"]}
        elif self.kind == "wrong cable":
            ends = {m.links[link]["a"], m.links[link]["b"]}
            hops = [i for i, one in enumerate(m.links) if one["hop"]]
            other = draw.choice([i for i in hops if not ends & {m.links[i]["a"], m.links[i]["b"]}])
            self.links |= {other, m.reverse[other]}
            self.names |= {m.names[i] for i in self.links}
            right = [(link, back), (other, m.reverse[other])]
            wrong = [(link, m.reverse[other]), (other, back)]
            self.set = lambda share: lab.connect(right if share == 1 else wrong)
        elif self.kind == "slow reader":
            self.names = host
            self.set = lambda share: jobs.iterations(
                f"slow {jobs.rank[node]} {0 if share == 1 else round(share * bytes_per_second)}"
            )
            self.links = {one["inject"], one["eject"]}
        self.victims = {job for job, _, route in jobs.flows if route & self.links}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hopbyte", type=Path, required=True)
    parser.add_argument("--machine", default="torus:4x4x4:nodes=2")
    parser.add_argument("--mbit", type=float, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--settle", type=float, default=3, help="seconds before the counters are read")
    parser.add_argument("--window", type=float, default=10, help="seconds; a collector is judged by as many")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "jobs"
        source = Path(__file__).with_name("jobs.c")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-o", program, source], check=True)
        machine = load(args.hopbyte.resolve(), args.machine, "rows", folder)
        lab = Lab(args.hopbyte.resolve(), machine, args.mbit * 1e6, folder)
        try:
            return sets(lab, program, args)
        finally:
            lab.down()


class Trial:
    """What was said of a fault, and what it cost: the least loss against the windows before and after it."""

    def __init__(self, name: str, fault: Fault, causes: list[dict], before: list[float], with_it: list[float]) -> None:
        self.name, self.fault, self.causes = name, fault, causes
        self.before, self.with_it, self.worst = before, with_it, 0.0
        self.said = verdict(causes, fault.names)
        self.found, self.accused = self.said in ("first", "tied"), self.said != "silent"

    def end(self, after: list[float], keep: Path | None) -> str:
        """The line of the trial, and the word for its table."""
        rates = [(self.with_it[j], min(self.before[j], after[j])) for j in sorted(self.fault.victims)]
        self.worst = max((1 - rate / usual for rate, usual in rates if usual > 0), default=0.0)
        fault = self.fault
        if keep:
            truth = [fault.kind, fault.share, sorted(fault.names), self.worst]
            (keep / f"{self.name.replace('.', '-')}.json").write_text(json.dumps(truth))
        print(
            f"{self.name} {fault.kind} {fault.share} of {sorted(fault.names)}, jobs lose {100 * self.worst:.0f} %: "
            f"{self.said}: {short(self.causes)}",
            flush=True,
        )
        return self.said if self.worst >= EFFECT else f"no effect, {self.said}"


def sets(lab: Lab, program: Path, args: argparse.Namespace) -> int:
    table: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    capacity = args.mbit * 1e6 / 8
    trials: list[Trial] = []
    slowest, attributed = 0.0, [0.0, 0.0]
    for number in range(args.sets):
        draw = random.Random(f"{args.seed}:{number}")
        _, pairs = draw_jobs(lab.m, draw)
        jobs = Jobs(program, lab.m, capacity, pairs, lab.folder)
        time.sleep(2 * args.settle)
        for which in range(FAULTS + 1):
            causes, seconds, clean = lab.blame(args.window, jobs, args.keep and args.keep / f"{number}-{which}-clean")
            slowest = max(slowest, seconds)
            attributed = [a + b for a, b in zip(attributed, lab.attributed(jobs, jobs.done), strict=True)]
            if any(c["fault"] != "hot_spot" for c in causes):
                table["clean"]["accused"] += 1
                print(f"{number}.{which} clean, but {short(causes)}", flush=True)
            table["clean"]["runs"] += 1
            if which:
                table[trials[-1].fault.kind][trials[-1].end(clean, args.keep)] += 1
            if which == FAULTS:
                break
            fault = Fault(lab, jobs, pairs, draw, args.kinds)
            fault.set(fault.share)
            time.sleep(args.settle)
            causes, seconds, with_it = lab.blame(args.window, jobs, args.keep and args.keep / f"{number}-{which}")
            slowest = max(slowest, seconds)
            fault.set(1)
            trials.append(Trial(f"{number}.{which}", fault, causes, clean, with_it))
            # Connections that were cut off send again after ever longer pauses.
            time.sleep(args.settle * (5 if fault.kind == "wrong cable" else 1))
        jobs.end()
    for kind, cells in table.items():
        print(f"{kind:16} " + ", ".join(f"{n} {what}" for what, n in sorted(cells.items())))
    of_components = [t for t in trials if t.fault.kind not in OF_PROGRAMS]
    for name, least in (("all faults", -9.0), ("faults that cost a job 10 % or more", EFFECT)):
        of = [t for t in of_components if t.worst >= least]
        found, accused = sum(t.found for t in of), sum(t.accused for t in of)
        print(f"{name}: {found} of {len(of)} found, of {accused} accusations {found} right")
    share = 100 * attributed[1] / max(attributed[0], 1)
    print(f"{share:.1f} % of the bytes of full links given to the right jobs; slowest answer {slowest:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
