#!/usr/bin/env python3
"""Checks the rules of the house that the compiler does not know.

1. Arrows between crates point one way, and observe, map and apply never see each other.
2. The pure crates touch no file, network, process, environment or clock.
3. Source files stay short enough to be read in one sitting.
4. Every dependency says in docs/dependencies.md what it saves.

Prints every breach and exits with 1 if there is one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a crate may use of the others.
MAY_USE: dict[str, set[str]] = {
    "fabric": set(),
    "testdata": set(),
    "observe": {"fabric"},
    "collect": {"fabric", "observe"},
    "oracle": {"fabric"},
    "model": {"fabric", "oracle"},
    "map": {"fabric", "oracle"},
    "apply": {"fabric"},
    "job": {"fabric", "observe", "oracle", "model", "map", "apply"},
    "view": {"fabric", "collect", "model", "map", "job"},
    "serve": {"fabric", "observe", "collect", "oracle", "job", "view"},
    "lab": {"fabric", "observe", "collect", "oracle", "map", "apply", "job"},
    "capi": {"fabric", "observe", "oracle", "job"},
    "cli": {
        "fabric",
        "observe",
        "collect",
        "oracle",
        "model",
        "map",
        "apply",
        "job",
        "view",
        "serve",
        "lab",
    },
    "py": {"fabric", "observe", "oracle", "map", "apply", "job", "view", "cli"},
}
# Used by tests only, by any crate.
TEST_ONLY = {"testdata"}

PURE = ("fabric", "oracle", "model", "map")
IMPURE = re.compile(
    r"\bstd::(?:fs|net|env|process)\b"
    r"|\bstd::\{[^}]*\b(?:fs|net|env|process)\b"
    r"|\bstd::time::(?:Instant|SystemTime)\b"
    r"|\bstd::time::\{[^}]*\b(?:Instant|SystemTime)\b"
    r"|\b(?:Instant|SystemTime)::now\b"
)
# A search with a time budget has to know the time; it reads no other clock and stores none.
BUDGET_CLOCKS = {"crates/map/src/mapper.rs", "crates/map/src/schedule.rs"}
CLOCK = re.compile(r"\bstd::time\b|\bInstant::now\b")

WARN_LINES, MOST_LINES = 600, 900
# Readers of many-sided formats and flag tables may be longer; each says why.
LONG_FILES: dict[str, str] = {}
SOURCES = ("*.rs", "*.py", "*.c", "*.h", "*.ts", "*.sh")


def workspace() -> list[dict]:
    """Packages of the workspace, as cargo sees them."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"cargo metadata failed:\n{done.stderr}")
    return json.loads(done.stdout)["packages"]


def arrows(packages: list[dict]) -> list[str]:
    """Dependencies between crates of this workspace that are not allowed, in tests as elsewhere."""
    found = []
    for package in packages:
        crate = package["name"].removeprefix("hopbyte-")
        if crate not in MAY_USE:
            found.append(f"crates/{crate}: not in MAY_USE of scripts/house.py")
            continue
        for dependency in package["dependencies"]:
            other = dependency["name"].removeprefix("hopbyte-")
            if not dependency["name"].startswith("hopbyte-"):
                continue
            allowed = MAY_USE[crate] | (TEST_ONLY if dependency["kind"] == "dev" else set())
            if other not in allowed:
                found.append(f"crates/{crate}/Cargo.toml: {crate} must not use {other}")
    return found


def code_of(text: str) -> str:
    """Rust source without comments and without its test module (kept line by line)."""
    text = re.split(r"^#\[cfg\(test\)\]\s*\nmod ", text, maxsplit=1, flags=re.M)[0]
    return "\n".join(re.sub(r"//.*", "", line) for line in text.splitlines())


def purity() -> list[str]:
    """Uses of files, network, processes, environment and clocks in pure crates."""
    found = []
    for crate in PURE:
        for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
            for number, line in enumerate(code_of(file.read_text()).splitlines(), 1):
                name = str(file.relative_to(ROOT))
                if name in BUDGET_CLOCKS and CLOCK.search(line):
                    continue
                if IMPURE.search(line):
                    found.append(f"{name}:{number}: {line.strip()}: {crate} is pure")
    return found


def tracked(pattern: str) -> list[Path]:
    """Files under version control or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def lengths() -> tuple[list[str], list[str]]:
    """(too long, getting long) source files."""
    breaches, warnings = [], []
    for pattern in SOURCES:
        for file in tracked(pattern):
            name = str(file.relative_to(ROOT))
            lines = len(file.read_bytes().splitlines())
            if name in LONG_FILES or lines <= WARN_LINES:
                continue
            text = f"{name}: {lines} lines, {WARN_LINES} is the measure"
            (breaches if lines > MOST_LINES else warnings).append(text)
    return breaches, warnings


def dependencies() -> list[str]:
    """Dependencies of the workspace that docs/dependencies.md does not explain."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    page = (ROOT / "docs/dependencies.md").read_text()
    explained = set(re.findall(r"[A-Za-z0-9_-]+", " ".join(re.findall(r"^\|([^|]*)\|", page, re.M))))
    return [
        f"Cargo.toml: {name} has no line in docs/dependencies.md"
        for name in manifest["workspace"]["dependencies"]
        if not name.startswith("hopbyte-") and name not in explained
    ]


def main() -> int:
    """Runs all checks."""
    too_long, getting_long = lengths()
    breaches = arrows(workspace()) + purity() + too_long + dependencies()
    for text in getting_long:
        print(f"warning: {text}")
    for text in breaches:
        print(f"error: {text}")
    print(f"house rules: {len(breaches)} breaches, {len(getting_long)} warnings")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
