"""Traffic from an OTF2 trace (Score-P, Scalasca, sst-dumpi's ``dumpi2otf2``)::

    python -m hopbyte.from_otf2 scorep_run/traces.otf2 traffic.csv

writes bytes and messages by sender and receiver, in a format that ``hopbyte map`` reads. It needs the OTF2 package
of the format's authors (``pip install hopbyte[otf2]``). Ranks of communicators become ranks of the world.
Collective calls are counted in a note and not written: recorders define their sizes differently.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

Pairs = Counter[tuple[int, int]]


class NoTraffic(ValueError):
    """A trace that cannot be converted to traffic; the text gives the found and the expected content."""


def messages(anchor: str | os.PathLike[str]) -> tuple[int, Pairs, Pairs, int]:
    """Ranks, bytes and messages by pair of ranks, and number of skipped collective calls."""
    try:
        from _otf2.ErrorCodes import Error
    except ImportError as error:
        raise ModuleNotFoundError("reading OTF2 needs its package: pip install hopbyte[otf2]") from error
    try:
        return _messages(anchor)
    except Error as error:
        raise NoTraffic(f"{anchor}: found {error}, expected the anchor file of a whole OTF2 trace") from error


def _messages(anchor: str | os.PathLike[str]) -> tuple[int, Pairs, Pairs, int]:
    import otf2
    from otf2.events import MpiCollectiveEnd, MpiIsend, MpiSend

    bytes_of: Pairs = Counter()
    count_of: Pairs = Counter()
    collectives = 0
    with otf2.reader.open(os.fspath(anchor)) as trace:
        rank_of = _ranks(anchor, trace.definitions)
        members: dict[Any, list[Any]] = {}
        for location, event in trace.events:
            if isinstance(event, MpiCollectiveEnd):
                collectives += 1
                continue
            if not isinstance(event, MpiSend | MpiIsend):
                continue
            comm = event.communicator
            if comm not in members:
                members[comm] = list(comm.group.members)
            group = members[comm]
            if not group:  # MPI_COMM_SELF: no other rank.
                continue
            if not 0 <= event.receiver < len(group) or location not in rank_of:
                found = f"a send to rank {event.receiver} of a communicator of {len(group)}"
                raise NoTraffic(f"{anchor}: found {found}, expected one of its members")
            pair = rank_of[location], rank_of[group[event.receiver]]
            bytes_of[pair] += event.msg_length
            count_of[pair] += 1
    return len(rank_of), bytes_of, count_of, collectives


def _ranks(anchor: str | os.PathLike[str], definitions: Any) -> dict[Any, int]:
    """Ranks of the world by location: the communicator of that name, else the largest one."""
    comms = list(definitions.comms)
    world = [c for c in comms if c.name == "MPI_COMM_WORLD"]
    found = world or sorted(comms, key=lambda c: -len(list(c.group.members)))
    members = list(found[0].group.members) if found else []
    if not members:
        raise NoTraffic(f"{anchor}: found no communicator with members, expected a trace of an MPI job")
    return {location: rank for rank, location in enumerate(members)}


def convert(anchor: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Writes the traffic of a trace as CSV; returns ranks, pairs, and number of skipped collective calls."""
    ranks, bytes_of, count_of, collectives = messages(anchor)
    target = Path(out)
    part = target.with_name(f".{target.name}.part")
    with part.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["src", "dst", "bytes", "messages"])
        for (src, dst), size in sorted(bytes_of.items()):
            rows.writerow([src, dst, size, count_of[src, dst]])
        # States the number of ranks, even if the last ones send and receive nothing.
        rows.writerow([ranks - 1, ranks - 1, 0, 0])
    part.replace(target)
    return ranks, len(bytes_of), collectives


def main(arguments: list[str] | None = None) -> int:
    """The command; exit codes are those of ``hopbyte``."""
    parser = argparse.ArgumentParser(prog="python -m hopbyte.from_otf2", description="traffic of an OTF2 trace as CSV")
    parser.add_argument("anchor", help="the trace's anchor file, traces.otf2")
    parser.add_argument("out", help="the CSV file to write")
    args = parser.parse_args(arguments)
    if not Path(args.anchor).is_file():
        print(f"error: {args.anchor}: no such file\nhint: give the anchor file, traces.otf2", file=sys.stderr)
        return 2
    try:
        ranks, pairs, collectives = convert(args.anchor, args.out)
    except ModuleNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except (NoTraffic, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{ranks} ranks, {pairs} pairs", file=sys.stderr)
    if collectives:
        print(f"note: {collectives} collective calls are not in it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
