"""A lab for the tests: needs root (or a user namespace that may make networks) and says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import hopbyte_binary


@dataclass
class Lab:
    """One running lab."""

    name: str
    binary: Path

    def call(self, *words: object, ok: tuple[int, ...] = (0,)) -> str:
        command = [str(self.binary), "lab", *(str(w) for w in words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
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
        text, _ = sink.communicate(timeout=60)
        sender.wait(timeout=60)
        received, seconds = text.split()
        assert int(received) == total
        return float(seconds)

    def counters(self, seconds: float) -> dict[str, dict[str, float]]:
        text = self.call("counters", "--name", self.name, "--interval", seconds, "--json")
        return {row["link"]: row for row in map(json.loads, text.splitlines())}


def namespaces(name: str) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if line.startswith(f"{name}-")]


def totals(one) -> dict[str, int]:
    """Bytes sent by every shaped interface, straight from the kernel: `r3 l17` or `n5 eth0`."""
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
    """Builds labs and takes them down whatever happens."""
    up: list[Lab] = []

    def build(spec: str, *options: object) -> Lab:
        one = Lab(f"t{len(up)}x{os.getpid() % 10_000_000}", hopbyte_binary())
        up.append(one)
        one.call("up", spec, "--name", one.name, *options)
        return one

    yield build
    for one in up:
        one.call("down", one.name, ok=(0, 1))
