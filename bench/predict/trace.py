"""hopbyte's traces (mpi/FORMAT.md) as SimGrid's time-independent traces.

Collective calls of all ranks stay calls, so that SimGrid chooses their algorithms; those of some ranks, which its replay
does not know, and those below `small` bytes become messages: recursive doubling for reductions and barriers of 2^n ranks, binomial
trees, and all at once for the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SPEED = 1e9  # operations per second of a platform's host
SMALL = 1024
ALL = 1 << 62  # no call stays
MOST = 1 << 22
BLOCKING = {"-", "-1"}  # slots of calls without a request
CALLS = {"allreduce": "allreduce {n} 0 6", "bcast": "bcast {n} {root} 6", "reduce": "reduce {n} 0 {root} 6",
         "barrier": "barrier", "alltoall": "alltoall {n} {n} 6 6", "allgather": "allgather {n} {n} 6 6",
         "gather": "gather {n} {n} {root} 6 6", "scatter": "scatter {n} {n} {root} 6 6"}  # fmt: skip


@dataclass
class Rank:
    """A rank's events, and their places in the program."""

    events: dict[int, list[str]] = field(default_factory=dict)
    places: list[list[str]] = field(default_factory=list)


def numbers(text: str) -> list[int]:
    """`0-6:2,9` as a list."""
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def counts(text: str) -> Iterator[int]:
    """Iterations of a loop's executions: `12,4*3`."""
    for part in text.split(","):
        count, _, times = part.partition("*")
        for _ in range(int(times or 1)):
            yield int(count)


def read(folder: Path) -> tuple[dict[int, Rank], dict[str, list[int]]]:
    """All ranks, and the members of all groups."""
    ranks: dict[int, Rank] = {}
    groups: dict[str, list[int]] = {}
    for file in folder.glob("rank.*.hbt"):
        rank, number, size, inside = Rank(), 0, 0, False
        for line in file.read_text().splitlines():
            word, *cells = line.split("\t")
            if word == "program":
                inside = True
            elif inside and (word in "()" or word.isdigit()):
                rank.places.append([word, *cells])
            elif word == "rank":
                number = int(cells[0])
            elif word == "size":
                size = int(cells[0])
            elif word == "event":
                rank.events[int(cells[0])] = cells[1:]
            elif word == "group" and cells[2] != "-":
                groups[cells[0]] = numbers(cells[2])
            elif word == "group" and int(cells[1]) == size:
                groups.setdefault(cells[0], list(range(size)))
        ranks[number] = rank
    return ranks, groups


def sequence(places: list[list[str]]) -> Iterator[list[str]]:
    """The places with loops executed."""

    def parse(at: int) -> tuple[list, int]:
        steps: list = []
        while at < len(places):
            place = places[at]
            if place[0] == "(":
                body, at = parse(at + 1)
                steps.append((counts(place[1]), body))
            elif place[0] == ")":
                return steps, at + 1
            else:
                steps.append(place)
                at += 1
        return steps, at

    def run(steps: list) -> Iterator[list[str]]:
        for step in steps:
            if isinstance(step, tuple):
                for _ in range(next(step[0])):
                    yield from run(step[1])
            else:
                yield step

    yield from run(parse(0)[0])


def messages(
    kind: str, members: list[int], me: int, root: int, size: float, tag: int, row: dict[int, float]
) -> list[str]:
    """The messages of one member of a collective of some ranks."""
    n = len(members)
    both = lambda to, come: [
        f"irecv {members[come]} {tag} {MOST} 6", f"isend {members[to]} {tag} {size:.0f} 6", "waitall"]  # fmt: skip
    lines: list[str] = []
    if kind in {"allreduce", "barrier", "allgather"} and n & (n - 1) == 0:
        for bit in range(n.bit_length() - 1):
            lines += both(me ^ (1 << bit), me ^ (1 << bit))
    elif kind in {"bcast", "scatter", "scatterv", "reduce", "gather", "gatherv"}:
        place, down = (me - root) % n, kind in {"bcast", "scatter", "scatterv"}
        parent = place & (place - 1)
        low = place & -place if place else 1 << (n - 1).bit_length()
        children = [place + (1 << b) for b in range(low.bit_length() - 1) if place + (1 << b) < n]
        up = [("recv" if down else "send", parent)] if place else []
        below = [("send" if down else "recv", child) for child in reversed(children)]
        for word, other in up + below if down else below[::-1] + up:
            room = size if word == "send" else MOST
            lines.append(f"{word} {members[(other + root) % n]} {tag} {room:.0f} 6")
    elif kind in {"scan", "exscan"}:
        lines += [f"recv {members[me - 1]} {tag} {MOST} 6"] if me else []
        lines += [f"send {members[me + 1]} {tag} {size:.0f} 6"] if me + 1 < n else []
    else:
        # Blocks of different sizes: those that are not recorded are empty.
        other = 0.0 if kind[-1] in "vw" else size
        for step in range(1, n):
            to, come = members[(me + step) % n], members[(me - step) % n]
            lines += [f"irecv {come} {tag} {MOST} 6", f"isend {to} {tag} {row.get(to, other):.0f} 6"]
        lines.append("waitall")
    return lines


def write(folder: Path, out: Path, small: int = SMALL) -> list[Path]:
    """Writes a file for each rank."""
    ranks, groups = read(folder)
    files = []
    for number, rank in sorted(ranks.items()):
        lines, tags = ["init"], defaultdict(int)
        slots: dict[str, str] = {}
        row: dict[int, float] = {}
        for place in sequence(rank.places):
            operation, _, group, peer, tag, slot, *kind = rank.events[int(place[0])]
            gap = float(place[1]) if len(place) > 1 else 0.0
            size = float(place[3]) if len(place) > 3 else 0.0
            if gap > 0:
                lines.append(f"compute {gap * 1e-9 * SPEED:.0f}")
            # Tags of a group are its own; SimGrid has one space of them.
            name = int(group, 16) % 1009 * 100_003 + int(tag) % 100_003 if group != "-" else 0
            if operation in {"send", "receive"}:
                word = "send" if operation == "send" else "recv"
                start = "" if slot in BLOCKING else "i"
                # A receive is not recorded with a size; SimGrid refuses one below what is sent.
                room = size if word == "send" else MOST
                lines.append(f"{start}{word} {peer} {name} {room:.0f} 6")
                if slot not in BLOCKING:
                    ends = (number, peer) if word == "send" else (peer, number)
                    slots[slot] = f"wait {ends[0]} {ends[1]} {name}"
            elif operation == "row":
                row[int(peer)] = size
            elif operation == "wait" and slot in slots:
                lines.append(slots.pop(slot))
            elif operation == "collective":
                members = groups[group]
                tags[group] += 1
                if len(members) == len(ranks) and kind[0] in CALLS and size >= small:
                    lines.append(CALLS[kind[0]].format(n=f"{size:.0f}", root=max(int(peer), 0)))
                elif len(members) > 1:
                    tag_of = 500_000_000 + int(group, 16) % 1009 * 100_003 + tags[group] % 100_003
                    me = members.index(number)
                    lines += messages(kind[0], members, me, max(int(peer), 0), size, tag_of, row)
                row = {}
        file = out / f"rank-{number}.txt"
        file.write_text("".join(f"{number} {line}\n" for line in [*lines, "finalize"]))
        files.append(file)
    return files
