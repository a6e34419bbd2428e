"""hopbyte's traces (mpi/FORMAT.md) as a schedule in GOAL, the language of LogGOPSim and of htsim in ATLAHS.

Collective calls become messages, by Open MPI 4.1's algorithms for few ranks as far as they are easy: recursive
doubling for barriers and small reductions to all, Rabenseifner's for large ones; binomial trees (of radix 4 for small
broadcasts) for bcast, reduce, gather and scatter; Bruck's for small alltoall of 16 ranks or more, all at once for
other alltoall and alltoallv, empty ones left out; rings for allgatherv, and for allgather of other than 2^n ranks.

The n-th send from one rank to another with a tag of a communicator belongs to the n-th receive; each of 256 consecutive
ones has its own tag. A receive from any rank takes a message that no other names. Messages to oneself are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from trace import Rank, read, sequence

Round = list[tuple[str, int, float]]  # messages at once: `send` or `recv`, the other member, bytes
Key = tuple[int, int, str]  # source, destination, context
LARGE, SMALL = 4096, 512


@dataclass
class Call:
    """A call of a rank; `block` is what it sends to each rank, if that is recorded."""

    operation: str
    context: str  # communicator, and tag of a message
    peer: int
    slot: str
    kind: str
    gap: float
    size: float
    block: dict[int, float]


def calls(rank: Rank) -> Iterator[Call]:
    """The calls in order, rows joined with their collective."""
    gap, block = 0.0, dict[int, float]()
    for place in sequence(rank.places):
        operation, _, group, peer, tag, slot, *kind = rank.events[int(place[0])]
        gap += float(place[1]) if len(place) > 1 else 0.0
        size = float(place[3]) if len(place) > 3 else 0.0
        if operation == "row":
            block[int(peer)] = size
        else:
            context = group if operation == "collective" else f"{group} {tag}"
            word = "recv" if operation == "receive" else operation
            yield Call(word, context, int(peer), slot, (kind or [""])[0], gap, size, block)
            gap, block = 0.0, {}


def tree(place: int, n: int, radix: int) -> tuple[int, list[tuple[int, int]]]:
    """The parent, and each child with the size of its own tree, farthest first."""
    mask = 1
    while mask < n and place % (radix * mask) == 0:
        mask *= radix
    parent, children = place - place % (radix * mask), []
    while mask := mask // radix:
        far = range(place + mask, min(place + radix * mask, n), mask)
        children += [(child, min(mask, n - child)) for child in far]
    return parent, children


def doubling(me: int, n: int, size: float) -> Iterator[Round]:
    """Reductions to all, and barriers."""
    levels = n.bit_length() - 1
    extra = n - (1 << levels)
    if (paired := me < 2 * extra) and me % 2 == 0:
        yield from ([("send", me + 1, size)], [("recv", me + 1, size)])
        return
    if paired:
        yield [("recv", me - 1, size)]
    new = me // 2 if paired else me - extra
    exact = size < (LARGE if n >= 16 else 2 * LARGE)
    steps = [(bit, size if exact else size / (2 << bit)) for bit in range(levels)]
    for bit, part in steps if exact else steps + steps[::-1]:
        other = new ^ (1 << bit)
        yield [(word, 2 * other + 1 if other < extra else other + extra, part) for word in ("recv", "send")]
    if paired:
        yield [("send", me - 1, size)]


def rounds(call: Call, me: int, sizes: list[float], blocks: list[dict[int, float]]) -> Iterator[Round]:
    """A member's messages in a collective, with what all members give: bytes, and blocks to each member."""
    n, kind, size, root = len(sizes), call.kind, call.size, max(call.peer, 0)
    if kind in {"allreduce", "barrier"} or kind.startswith("reduce_scatter"):
        yield from doubling(me, n, size)
    elif kind in {"bcast", "reduce", "gather", "scatter"}:
        parent, children = tree((me - root) % n, n, 4 if kind == "bcast" and size < LARGE and n >= 8 else 2)
        word, back = ("recv", "send") if kind in {"bcast", "scatter"} else ("send", "recv")
        if kind in {"bcast", "reduce"}:
            children = [(child, 1) for child, _ in children]
        mine = 1 if kind == "reduce" else 1 + sum(count for _, count in children)
        up = [(word, (parent + root) % n, size * mine)] if me != root else []
        below = [(back, (child + root) % n, size * count) for child, count in children]
        yield from (up, below) if word == "recv" else (below, up)
    elif kind in {"scan", "exscan"}:
        yield from ([("recv", me - 1, size)] if me else [], [("send", me + 1, size)] if me + 1 < n else [])
    elif kind == "allgather" and n & (n - 1) == 0:
        for bit in range(n.bit_length() - 1):
            yield [(word, me ^ (1 << bit), size * (1 << bit)) for word in ("recv", "send")]
    elif kind.startswith("allgather"):
        for step in range(n - 1):
            yield [("recv", (me - 1) % n, sizes[me - 1 - step]), ("send", (me + 1) % n, sizes[me - step])]
    elif kind == "alltoall" and n >= 16 and size < SMALL:
        for bit in range((n - 1).bit_length()):
            far, part = 1 << bit, size * sum(place >> bit & 1 for place in range(n))
            yield [("recv", (me - far) % n, part), ("send", (me + far) % n, part)]
    else:
        given = [dict.fromkeys(range(n), size)] * n if kind == "alltoall" else blocks
        others = [*range(me + 1, n), *range(me)]
        come: Round = [("recv", other, 0.0) for other in reversed(others) if given[other].get(me)]
        yield come + [("send", other, given[me][other]) for other in others if given[me].get(other)]


class Schedule:
    """A rank's operations, each after those that were waited for before it."""

    def __init__(self, me: int, sent: dict[Key, list[float]], hosts: list[int], faster: float, wire: float) -> None:
        self.me, self.sent = me, sent
        self.hosts, self.faster, self.wire = hosts, faster, wire
        self.steps: list[tuple[str, Key, int, float, list[int], int]] = []
        self.after: list[int] = []
        self.issued = 0  # the last send since a computation
        self.met: Counter[Key] = Counter()

    def add(self, word: str, size: float, key: Key = (0, 0, "")) -> int:
        if len(self.after) > 2 and word != "calc":
            self.compute(0.0)
        self.steps.append((word, key, self.met[key], size, self.after, self.issued))
        return len(self.steps)

    def compute(self, nanoseconds: float) -> None:
        self.after, self.issued = [self.add("calc", nanoseconds)], 0

    def start(self, word: str, other: int, context: str, size: float) -> list[int]:
        """Begins a message; the label to wait for."""
        if other == self.me:
            return []
        key = (self.me, other, context) if word == "send" else (other, self.me, context)
        label = self.add(word, size, key)
        self.met[key] += 1
        if word == "send":
            self.issued = label
            self.sent[key].append(size)
        return [label]

    def lines(self, tags: dict[str, int]) -> Iterator[str]:
        yield f"rank {self.hosts[self.me]} {{\n"
        for label, (word, key, nth, size, after, issued) in enumerate(self.steps, 1):
            what = f"{size / self.faster:.0f}"
            way = f"to {self.hosts[key[1]]}" if word == "send" else f"from {self.hosts[key[0]]}"
            if word != "calc":
                tag = (nth % 256 << 16) + tags.setdefault(key[2], len(tags))
                what = f"{max(1.0, self.sent[key][nth] * self.wire):.0f}b {way} tag {tag}"
            yield f"l{label}: {word} {what}\n"
            yield from (f"l{label} requires l{need}\n" for need in after)
            # LogGOPSim cannot begin a receive by another's begin: its time would be in the past.
            if issued and issued not in after and word != "recv":
                yield f"l{label} irequires l{issued}\n"
        yield "}\n"


def write(record: Path, out: Path, hosts: list[int] | None = None, faster: float = 1.0, wire: float = 1.0) -> int:
    """Writes the schedule of a recorded folder, rank r as hosts[r]; the number of operations.

    Computation is so much faster than recorded, messages are so many times as large.
    """
    ranks, groups = read(record)
    programs = {me: list(calls(rank)) for me, rank in sorted(ranks.items())}
    shared: dict[tuple[str, int], list[Call]] = defaultdict(list)  # calls in a context
    left: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)  # sources of messages that no receive names
    for me, call in ((me, call) for me, program in programs.items() for call in program):
        shared[call.context, me].append(call)
        left[call.peer, call.context][me] += call.operation == "send"
        left[me, call.context][call.peer] -= call.operation == "recv" and call.peer >= 0
    sources = {key: iter([s for _, s in sorted((i / n, s) for s, n in found.items() for i in range(n))])
               for key, found in left.items()}  # fmt: skip
    sent: dict[Key, list[float]] = defaultdict(list)
    hosts = hosts or list(programs)
    schedules = [Schedule(me, sent, hosts, faster, wire) for me in programs]
    for schedule, (me, program) in zip(schedules, programs.items(), strict=True):
        slots, done = dict[str, list[int]](), Counter[str]()
        for call in program:
            if call.gap >= 0.5:
                schedule.compute(call.gap)
            if call.operation in {"send", "recv"}:
                other = call.peer if call.peer >= 0 else next(sources[me, call.context])
                slots[call.slot] = schedule.start(call.operation, other, call.context, call.size)
            if call.operation == "wait" or "-1" in slots:
                schedule.after = schedule.after + slots.pop(call.slot, [])
            elif call.operation == "collective" and len(members := groups[call.context]) > 1:
                same = [shared[call.context, other][done[call.context]] for other in members]
                done[call.context] += 1
                blocks = [{members.index(to): size for to, size in c.block.items() if to in members} for c in same]
                for messages in rounds(call, members.index(me), [c.size for c in same], blocks):
                    begun = [schedule.start(word, members[at], call.context, size) for word, at, size in messages]
                    schedule.after = sum(begun, schedule.after)
    tags: dict[str, int] = {}
    in_order = sorted(schedules, key=lambda schedule: schedule.hosts[schedule.me])
    lines = (line for schedule in in_order for line in schedule.lines(tags))
    out.write_text("".join([f"num_ranks {len(ranks)}\n", *lines]))
    return sum(len(schedule.steps) for schedule in schedules)
