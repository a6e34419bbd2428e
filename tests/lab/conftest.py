"""A lab for the tests: needs root (or a user namespace that may make networks), else fails with a message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from program import hopbyte_binary

T = TypeVar("T")

@dataclass
class Lab:
    """One running lab."""

    name: str
    binary: Path

    def call(self, *words: object, ok: tuple[int, ...] = (0,)) -> str:
        command = [str(self.binary), "lab", *(str(w) for w in words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode in ok, done.stderr
        return done.stdout

    def start(self, node: str, *command: str) -> subprocess.Popen[str]:
        words = [str(self.binary), "lab", "run", "--name", self.name, "--on", node, "--", *command]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def stream(self, source: str, target: str, total: int) -> float:
        """Sends bytes over one TCP connection; seconds from the first to the last byte received."""
        script = str(Path(__file__).parent / "stream.py")
        sink = self.start(target, sys.executable, script, "sink")
        sender = self.start(source, sys.executable, script, "send", target, str(total))
        text, _ = sink.communicate(timeout=120)
        sender.wait(timeout=120)
        received, seconds = text.split()
        assert int(received) == total
        return float(seconds)

    def counters(self, seconds: float) -> dict[str, dict[str, float]]:
        text = self.call("counters", "--name", self.name, "--interval", seconds, "--json")
        return {row["link"]: row for row in map(json.loads, text.splitlines())}


def reading(take: Callable[[], T], right: Callable[[T], bool], seconds: float = 60) -> T:
    """The first correct reading, or the last after so many seconds."""
    deadline = time.monotonic() + seconds
    while not right(one := take()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return one


class Witness:
    """Intervals without a processor: time stolen by the hypervisor or by uninterruptible work. A thread per processor
    sleeps for two milliseconds and records how late it wakes."""

    LATE = 0.005

    def __init__(self) -> None:
        self.gaps: list[tuple[float, float]] = []
        for cpu in os.sched_getaffinity(0):
            threading.Thread(target=self.watch, args=(cpu,), daemon=True).start()

    def watch(self, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        last = time.monotonic()
        while True:
            time.sleep(0.002)
            now = time.monotonic()
            if now - last > self.LATE:
                self.gaps.append((last, now))
            last = now

    def present(self, start: float, end: float) -> float:
        """Share of an interval in which all processors were available."""
        # An interval still open is not recorded yet.
        time.sleep(self.LATE)
        away, known = 0.0, start
        for first, last in sorted(self.gaps):
            away += max(0.0, min(last, end) - max(first, known))
            known = max(known, last)
        return 1 - away / (end - start)


@pytest.fixture(scope="session")
def within() -> Callable[..., None]:
    """Asserts that link values lie within bounds. On a machine with stolen processor time links carry less than they
    allow: the lower bound is scaled by the available time. The backlog then drains faster for a moment, so values are
    read until they are right; links that are really wrong stay wrong."""
    witness = Witness()

    def check(take: Callable[[], dict[str, float]], bounds: dict[str, tuple[float, float]]) -> None:
        def take_both() -> tuple[dict[str, float], float]:
            start = time.monotonic()
            values = take()
            return values, witness.present(start, time.monotonic())

        def right(both: tuple[dict[str, float], float]) -> bool:
            values, present = both
            return all(low * present <= values[name] <= high for name, (low, high) in bounds.items())

        both = reading(take_both, right)
        assert right(both), (both, bounds)

    return check


def namespaces(name: str) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if line.startswith(f"{name}-")]


def totals(one) -> dict[str, int]:
    """Bytes sent by every shaped interface, from the kernel: `r3 l17` or `n5 eth0`."""
    found = {}
    for place in (line.split()[0] for line in namespaces(one.name)):
        command = ["ip", "netns", "exec", place, "tc", "-s", "-j", "qdisc", "show"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for queue in json.loads(text):
            if queue["kind"] == "tbf":
                found[f"{place.removeprefix(one.name + '-')} {queue['dev']}"] = queue["bytes"]
    return found


@pytest.fixture
def lab() -> Iterator[object]:
    """Builds labs and removes them after the test in any case."""
    up: list[Lab] = []

    def build(spec: str, *options: object) -> Lab:
        one = Lab(f"t{len(up)}x{os.getpid() % 10_000_000}", hopbyte_binary())
        up.append(one)
        one.call("up", spec, "--name", one.name, *options)
        return one

    yield build
    for one in up:
        one.call("down", one.name, ok=(0, 1))
