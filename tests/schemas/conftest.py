"""The JSON output of every command in the book and the transcripts."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from program import ROOT, hopbyte_binary

Documents = dict[str, list[tuple[str, dict[str, Any]]]]
# Not run again: without JSON, with a server, or with another process.
SKIPPED = re.compile(r"^(collect|agent|replay|record|oracle serve|generate|lab)\b|--serve\b|--check -- ")
# Of what no page shows.
MORE = ["config", "run --dry-run -- true", "fabric specs", "fabric nodes torus:2x2", "probe plan torus:2x2",
        "map stencil:2x2:5 --fabric torus:2x2 --nodes all --trials 100 --emit json",
        "model reproduce D1 --figures figures", "view data/links.jsonl --fabric torus:4x4 --out page.html",
        "fabric check torus:2x2 --each-link", "watch store --fabric torus:2x2:host=100 --speed 0",
        "collect --listen 127.0.0.1:0 --expect n[1-3],login --ticks 1",
        "agent --root data/sysfs/before --name n1 --to 127.0.0.1:9 --ticks 1"]  # fmt: skip
# Files of others, whose format is theirs.
FOREIGN = ("jax.devices.json", "dlrover.json")


def gather(folder: Path) -> None:
    """A store of some ticks of a node whose adapter is slower than `torus:2x2:host=100` says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program = hopbyte_binary()
    collect = [program, "collect", "--listen", address, "--store", "store", "--expect", "n0-0", "--ticks", "4"]
    agent = [program, "agent", "--root", "data/sysfs/before", "--name", "n0-0", "--to", address, "--ticks", "8"]
    quiet = subprocess.DEVNULL
    begun = [subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet) for command in (collect, agent)]
    assert begun[0].wait(60) == 0
    begun[1].kill()
    begun[1].wait()


# Requests of every kind.
ASKED = ["{}", '{"id": 1, "from": 0, "to": "n1-1", "metric": "used"}', '{"pairs": [[0, 1]]}', '{"among": [0, 1]}',
         '{"names": true}', '{"links": true}', '{"from": "nobody", "to": 0}',
         '{"among": [0, 1], "pack": true}']  # fmt: skip


def ask(folder: Path) -> list[dict[str, Any]]:
    """An oracle's answers."""
    words = [hopbyte_binary(), "oracle", "serve", "data/links.jsonl", "--fabric", "torus:4x4", "--socket", "oracle"]
    command = [*words, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout and server.stdout.readline()
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(folder / "oracle"))
                line.sendall("".join(f"{one}\n" for one in ASKED).encode())
                with line.makefile("rb") as answers:
                    return [json.loads(answers.readline()) for _ in ASKED]
        finally:
            server.kill()


def commands(page: Path) -> list[str]:
    """The hopbyte commands of a page, without the program's name."""
    lines = re.findall(r"^ *\$ hopbyte (.*)$", page.read_text(), re.M)
    return [line for line in lines if not SKIPPED.search(line.removeprefix("--quiet ").removeprefix("--json "))]


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of an output: one, or one a line."""
    try:
        whole = json.loads(text)
        return [whole] if isinstance(whole, dict) else []
    except ValueError:
        found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """Objects by the name of their schema, with the commands that printed them."""
    found: Documents = defaultdict(list)
    folders = [ROOT / "docs/src", ROOT / "tests/transcripts"]
    pages = [ROOT / "README.md", *(page for one in folders for page in sorted(one.rglob("*.md")))]
    for page in pages:
        folder = tmp_path_factory.mktemp(page.stem)
        for name in ("data", "scenarios"):
            (folder / name).symlink_to(ROOT / name)
        lines = commands(page)
        if page.name == "README.md":
            gather(folder)
            found["hopbyte.oracle/1"] += [("oracle serve", answer) for answer in ask(folder)]
            lines += MORE
        for line in lines:
            words = [str(hopbyte_binary()), "--json", "--quiet", *shlex.split(line)]
            words = [w for i, w in enumerate(words) if w not in ("--json", "--quiet", "-q") or i < 3]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
            for value in objects(done.stdout):
                found[value.get("schema", "none")].append((line, value))
        for file in folder.rglob("*.json*"):
            if file.name not in FOREIGN and file.relative_to(folder).parts[0] not in ("data", "scenarios"):
                for value in objects(file.read_text()):
                    found[value.get("schema", "none")].append((f"{page.name}: {file.name}", value))
    return found
