"""A sign of life after two seconds on a terminal, of every verb that may take longer.

Every verb reads a file here from a pipe that stays open until then, as a slow file system would make it.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from program import hopbyte_binary

# A line that is drawn again and again begins with the seconds since the start.
SHOWN = re.compile(rb"\r(?:\x1b\[2K)?\s*(\d+)s ")
TORUS = ["--fabric", "torus:4x4"]
# Seconds on a busy machine.
LATEST = 20
# `-` is the pipe.
LONG = {
    "fabric show": ["-"],
    "fabric nodes": ["-"],
    "fabric route": ["-", "a", "b"],
    "fabric pairs": ["-"],
    "fabric check": ["-"],
    "fabric diff": ["-", "torus:4x4"],
    "fabric draw": ["-"],
    "fabric convert": ["-", "--to", "dot"],
    "probe analyse": ["-", *TORUS],
    "links": ["-", *TORUS],
    "blame": ["-", *TORUS],
    "oracle query": ["--fabric", "-", "--all"],
    "map": ["-", *TORUS, "--nodes", "all"],
    "predict": ["-", *TORUS, "--nodes", "all"],
    "apply": ["-"],
    "verify": ["--after", "-", *TORUS],
    "model run": ["-"],
    "model topobw": ["-"],
    "sweep": ["-"],
    "view": ["-", *TORUS, "--out", "page.html"],
}
# Seen by other means, or never long.
OTHERS = {
    "run": "has a deadline of two seconds",
    "record": "its output is the job's",
    "probe run": "its output is the job's",
    "probe plan": "shows nothing yet",
    "doctor": "reads no file of the user",
    "agent": "a service",
    "collect": "a service, prints a line a tick",
    "watch": "redraws itself",
    "replay": "reads the folder of a store, which is no pipe",
    "oracle serve": "a service",
    "model reproduce": "reads no pipe; the same as `model run`",
    "calibrate": "prints each step, and the launcher its own output",
    "demo": "prints each step",
    "explain": "prints a text",
    "config": "reads three small files",
    "fabric specs": "prints a table",
    "lab": "prints each step",
    "generate": "writes small files",
}


def seconds_shown(words: list[str], folder: Path) -> list[int]:
    """Seconds that the command draws on its terminal while its input is open."""
    terminal, inside = pty.openpty()
    read, write = os.pipe()
    child = subprocess.Popen(
        [str(hopbyte_binary()), *words], cwd=folder, stdin=read, stdout=subprocess.DEVNULL, stderr=inside,
        env={**os.environ, "TERM": "xterm", "HOME": str(folder)},
    )  # fmt: skip
    os.close(inside)
    os.close(read)
    begin, said = time.monotonic(), b""
    while time.monotonic() - begin < LATEST and not SHOWN.search(said):
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                said += os.read(terminal, 65536)
            except OSError:
                break
    os.close(write)
    try:
        child.wait(timeout=20)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
    return [int(second) for second in SHOWN.findall(said)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """All verbs side by side: they only wait."""
    folder = tmp_path_factory.mktemp("progress")
    with ThreadPoolExecutor(len(LONG)) as pool:
        lines = [[*verb.split(), *words] for verb, words in LONG.items()]
        return dict(zip(LONG, pool.map(lambda line: seconds_shown(line, folder), lines), strict=True))


@pytest.mark.parametrize("verb", LONG)
def test_a_verb_shows_that_it_works(verb: str, shown: dict[str, list[int]]) -> None:
    assert shown[verb] and min(shown[verb]) >= 2, shown[verb]


def verbs(*before: str) -> list[str]:
    done = subprocess.run(
        [str(hopbyte_binary()), *before, "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    listed = re.search(r"^Commands:\n(.*?)\n\n", done.stdout, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^  ([a-z-]+) ", listed[1], re.MULTILINE) if listed else []
    return [" ".join([*before, name]) for name in names if name != "help"]


def test_every_verb_is_listed() -> None:
    named: set[str] = set()
    for verb in verbs():
        inner = verbs(verb) if verb != "lab" else []
        named.update(inner or [verb])
    assert named <= LONG.keys() | OTHERS.keys()
    assert LONG.keys() <= named
