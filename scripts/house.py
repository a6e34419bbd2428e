#!/usr/bin/env python3
"""Checks the project's rules that the compiler cannot check.

1. Crates depend on each other as the table of ARCHITECTURE.md allows, in tests too.
2. The pure crates touch no file, network, process, environment or clock, and forbid `unsafe`.
3. Source files stay under 600 lines (900 is an error); the command line's crate stays under 7,000.
4. Every dependency has a row in docs/dependencies.md with its benefit and its users.
5. No import cycle within a crate has more than five files (scripts/circles.py).
6. Every file in a crate's tests/ is a test program or a module of one.
7. Paths and commits named in ARCHITECTURE.md, CONTRIBUTING.md and docs/src/security.md exist.

Prints every violation and exits with 1 if there is one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from circles import circles, code_of

ROOT = Path(__file__).resolve().parent.parent

# Used by the tests of any crate, and by nothing else.
TEST_ONLY = {"testdata"}

PURE = ("fabric", "oracle", "model", "map")
IMPURE = re.compile(
    r"\bstd::(?:fs|net|env|process)\b"
    r"|\bstd::\{[^}]*\b(?:fs|net|env|process)\b"
    r"|\bstd::time::(?:Instant|SystemTime)\b"
    r"|\bstd::time::\{[^}]*\b(?:Instant|SystemTime)\b"
    r"|\b(?:Instant|SystemTime)::now\b"
)
# A search with a time budget has to read the monotonic clock; it reads no other clock and stores no time.
BUDGET_CLOCKS = {"crates/map/src/mapper.rs", "crates/map/src/schedule.rs"}
CLOCK = re.compile(r"\bstd::time\b|\bInstant::now\b")

WARN_LINES, MOST_LINES = 600, 900
# Readers of large formats and flag tables may be longer; each has a reason.
LONG_FILES: dict[str, str] = {
    "crates/fabric/src/collective/open_mpi.rs": "decision tables of a library",
    "mpi/generate/standard.h": "a table of the standard's functions",
}
SOURCES = ("*.rs", "*.py", "*.c", "*.h", "*.ts", "*.sh")
CLI_LINES = 7_000
LARGEST_CIRCLE = 5

# Rules that only warn until the tree complies. To make one an error, delete its name here.
ONLY_WARNED = {"commits", "unused-arrows"}

Finding = tuple[str, str]  # rule, text


def workspace() -> list[dict]:
    """Packages of the workspace, from cargo metadata."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"cargo metadata failed:\n{done.stderr}")
    return json.loads(done.stdout)["packages"]


def may_use(page: str) -> dict[str, set[str]]:
    """Crate: crates that it may use, from rows "| `crates/NAME` … | … | a, b |" of ARCHITECTURE.md."""
    table = {}
    for crate, uses in re.findall(r"^\|\s*`crates/(\w+)`[^|]*\|[^|]*\|([^|]*)\|\s*$", page, re.M):
        table[crate] = set(re.findall(r"\w+", uses)) - {"nothing"}
    return table


def arrows(packages: list[dict], table: dict[str, set[str]]) -> list[Finding]:
    """Differences between the table and cargo's dependencies (normal, build and dev)."""
    found = [
        ("table", f"ARCHITECTURE.md: {crate} may use {other}, which has no row")
        for crate, uses in sorted(table.items())
        for other in sorted(uses - set(table))
    ]
    for package in packages:
        crate = package["name"].removeprefix("hopbyte-")
        if crate not in table:
            found.append(("table", f"ARCHITECTURE.md: the table has no row for crates/{crate}"))
            continue
        used = set()
        for dependency in package["dependencies"]:
            other = dependency["name"].removeprefix("hopbyte-")
            if not dependency["name"].startswith("hopbyte-"):
                continue
            used.add(other)
            allowed = table[crate] | (TEST_ONLY if dependency["kind"] == "dev" else set())
            if other not in allowed:
                found.append(("arrows", f"crates/{crate}/Cargo.toml: {crate} must not use {other}"))
        for other in sorted(table[crate] - used):
            found.append(("unused-arrows", f"ARCHITECTURE.md: {crate} does not use {other}"))
    return found


def purity() -> list[Finding]:
    """Uses of files, network, processes, environment and clocks in pure crates, and `unsafe` allowed there."""
    found = []
    for crate in PURE:
        source = ROOT / "crates" / crate / "src"
        if "#![forbid(unsafe_code)]" not in (source / "lib.rs").read_text():
            found.append(("forbid-unsafe", f"crates/{crate}/src/lib.rs: no #![forbid(unsafe_code)]"))
        for file in sorted(source.rglob("*.rs")):
            name = str(file.relative_to(ROOT))
            for number, line in enumerate(code_of(file.read_text()).splitlines(), 1):
                if name in BUDGET_CLOCKS and CLOCK.search(line):
                    continue
                if IMPURE.search(line):
                    found.append(("purity", f"{name}:{number}: {line.strip()}: {crate} is pure"))
    return found


def threads() -> list[Finding]:
    """Threads whose refusal by the system is a panic."""
    found = []
    for file in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        name = str(file.relative_to(ROOT))
        for number, line in enumerate(code_of(file.read_text()).splitlines(), 1):
            if re.search(r"\bthread::spawn\(|\bscope\.spawn\(", line):
                found.append(("threads", f"{name}:{number}: {line.strip()}: expected hopbyte_observe::threads"))
    return found


def tracked(pattern: str) -> list[Path]:
    """Files under version control or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def line_count(file: Path) -> int:
    """Lines of a file."""
    return len(file.read_bytes().splitlines())


def lengths() -> list[Finding]:
    """Source files that are too long or nearly so, and the size of the command line's crate."""
    found = []
    for pattern in SOURCES:
        for file in tracked(pattern):
            name, lines = str(file.relative_to(ROOT)), line_count(file)
            if name not in LONG_FILES and lines > WARN_LINES:
                rule = "long-file" if lines > MOST_LINES else "warning"
                found.append((rule, f"{name}: {lines} lines, {WARN_LINES} is the limit"))
    lines = sum(map(line_count, (ROOT / "crates/cli/src").rglob("*.rs")))
    if lines >= CLI_LINES:
        found.append(("cli-size", f"crates/cli/src: {lines:,} lines, {CLI_LINES:,} is the limit"))
    return found


def lost_tests(packages: list[dict]) -> list[Finding]:
    """Test files that belong to no test program: crates list their programs, so cargo would not miss them."""
    found = []
    for package in packages:
        programs = [Path(t["src_path"]) for t in package["targets"] if "test" in t["kind"]]
        modules = {name for p in programs for name in re.findall(r"^mod (\w+);", p.read_text(), re.M)}
        for file in sorted((Path(package["manifest_path"]).parent / "tests").glob("*.rs")):
            if file not in programs and file.stem not in modules:
                found.append(("lost-test", f"{file.relative_to(ROOT)}: no module of a test program"))
    return found


def users_of(packages: list[dict]) -> dict[str, set[str]]:
    """Dependency of the workspace: crates that use it outside their tests."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    users: dict[str, set[str]] = {name: set() for name in manifest if not name.startswith("hopbyte-")}
    for package in packages:
        for dependency in package["dependencies"]:
            if dependency["kind"] != "dev" and dependency["name"] in users:
                users[dependency["name"]].add(package["name"].removeprefix("hopbyte-"))
    return users


def dependencies(packages: list[dict]) -> list[Finding]:
    """Dependencies without a row in docs/dependencies.md, and rows that list other crates than the actual users."""
    users = users_of(packages)
    crates = {package["name"].removeprefix("hopbyte-") for package in packages}
    found, explained = [], set()
    for names, where in re.findall(r"^\|([^|]*)\|([^|]*)\|", (ROOT / "docs/dependencies.md").read_text(), re.M):
        explained |= set(re.findall(r"[A-Za-z0-9_-]+", names))
        listed = set(where.replace(" ", "").split(","))
        if not listed <= crates:
            continue  # "tests", "everywhere", "Python package": no list of crates
        for name in re.findall(r"[A-Za-z0-9_-]+", names.partition("(")[0]):
            if users.get(name) != listed:
                used = ", ".join(sorted(users.get(name, ()))) or "no crate"
                text = f"docs/dependencies.md: {name} is used by {used}, not {where.strip()}"
                found.append(("dependency-rows", text))
    named = dict.fromkeys(users, "Cargo.toml") | elsewhere()
    missing = [(name, manifest) for name, manifest in named.items() if name not in explained]
    return found + [("dependencies", f"{file}: {name} has no line in docs/dependencies.md") for name, file in missing]


def elsewhere() -> dict[str, str]:
    """Dependencies of the Python package, of the pages and of the fuzz targets, with their manifests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = [project["build-system"]["requires"], project["project"]["dependencies"]]
    listed += project["project"]["optional-dependencies"].values()
    found = {re.split(r"[<>=!~;\[ ]", word)[0]: "pyproject.toml" for words in listed for word in words}
    package = json.loads((ROOT / "web/package.json").read_text())
    for kind in ("dependencies", "devDependencies"):
        found |= dict.fromkeys(package.get(kind, {}), "web/package.json")
    fuzz = tomllib.loads((ROOT / "fuzz/Cargo.toml").read_text())["dependencies"]
    return found | {name: "fuzz/Cargo.toml" for name in fuzz if not name.startswith("hopbyte-")}


def imports(packages: list[dict]) -> list[Finding]:
    """Import cycles that are too large."""
    found = []
    for package in packages:
        folder = Path(package["manifest_path"]).parent
        for circle in circles(folder / "src"):
            if len(circle) > LARGEST_CIRCLE:
                names = ", ".join(str(file.relative_to(folder / "src")) for file in circle)
                text = f"{folder.relative_to(ROOT)}: {len(circle)} files import each other in circles: {names}"
                found.append(("circles", text))
    return found


def paths(page: str) -> list[Finding]:
    """Nonexistent paths of the repository that a page has in backticks; capitals stand for any name."""
    found = []
    for name in sorted(set(re.findall(r"`((?:\w|\.[a-z])[\w./*-]*/[\w./*-]*)`", (ROOT / page).read_text()))):
        if not any(ROOT.glob(re.sub(r"\b[A-Z]{2,}\b", "*", name.rstrip("/")))):
            found.append(("paths", f"{page}: there is no {name}"))
    return found


def commits(page: str) -> list[Finding]:
    """Commits that a page has in backticks and that are no ancestors of this one; none in a shallow clone."""
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, check=False)
    if shallow.stdout.strip() != b"false":
        return []
    found = []
    for name in sorted(set(re.findall(r"`([0-9a-f]{7,40})`", (ROOT / page).read_text()))):
        known = subprocess.run([*git, "merge-base", "--is-ancestor", name, "HEAD"], capture_output=True, check=False)
        if known.returncode != 0:
            found.append(("commits", f"{page}: there is no commit {name}"))
    return found


def main() -> int:
    """Runs all checks."""
    packages = workspace()
    table = may_use((ROOT / "ARCHITECTURE.md").read_text())
    found = arrows(packages, table) + purity() + threads() + lengths() + lost_tests(packages)
    found += dependencies(packages) + imports(packages)
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/src/security.md"):
        found += paths(page) + commits(page)
    errors = 0
    for rule, text in sorted(found, key=lambda finding: finding[0] not in {*ONLY_WARNED, "warning"}):
        warned = rule == "warning" or rule in ONLY_WARNED
        errors += not warned
        print(f"{'warning' if warned else 'error'}: {text}")
    print(f"house rules: {errors} breaches, {len(found) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
