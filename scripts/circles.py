"""Import cycles between the files of a Rust crate.

A file leads to the files named by its `use crate::…` items and its `mod x;` declarations (except those of the crate's
root, which declares every module). A re-exported name counts for the file that defines it.
`use super::…` stays within a folder and does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
MOD = re.compile(r"^\s*(?:pub(?:\([a-z ]+\))?\s+)?mod\s+(\w+);", re.M)
USE = re.compile(r"^\s*(pub(?:\([a-z ]+\))?\s+)?use\s+([^;]+);", re.M)


def code_of(text: str) -> str:
    """Rust source without comments and without its test module (kept line by line)."""
    text = re.split(r"^#\[cfg\(test\)\]\s*\nmod ", text, maxsplit=1, flags=re.M)[0]
    return "\n".join(re.sub(r"//.*", "", line) for line in text.splitlines())


def modules(source: Path) -> dict[Module, Path]:
    """Module paths and their files; the root is the empty path."""
    found = {}
    for file in sorted(source.rglob("*.rs")):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[-1] == "mod" or parts == ("lib",):
            parts = parts[:-1]
        if parts != ("main",):
            found[parts] = file
    return found


def leaves(tree: str, prefix: Module = ()) -> Iterator[Module]:
    """Paths named by a use tree such as `crate::{a::B, c::*}`."""
    depth, begin, items = 0, 0, []
    for at, sign in enumerate(tree):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            items.append(tree[begin:at])
            begin = at + 1
    for item in [*items, tree[begin:]]:
        head, brace, rest = item.strip().partition("{")
        path = prefix + tuple(part for part in re.sub(r"\s+as\s+\w+|\s", "", head).split("::") if part)
        if brace:
            yield from leaves(rest.rsplit("}", 1)[0], path)
        elif path:
            yield path


def absolute(module: Module, path: Module, known: dict[Module, Path]) -> Module | None:
    """A path from the root of the crate; None for another crate's."""
    if path[0] == "crate":
        return path[1:]
    if path[0] == "self":
        return module + path[1:]
    if path[0] != "super":
        return module + path if module + path[:1] in known else None
    while path and path[0] == "super":
        module, path = module[:-1], path[1:]
    return module + path


def graph(source: Path) -> dict[Path, set[Path]]:
    """File: files that it leads to."""
    known = modules(source)
    used: dict[Module, list[Module]] = {module: [] for module in known}
    exported: dict[Module, Module] = {}
    for module, file in known.items():
        code = code_of(file.read_text())
        used[module] += [(*module, child) for child in MOD.findall(code) if module and (*module, child) in known]
        for public, tree in USE.findall(code):
            for path in leaves(tree):
                target = absolute(module, path, known)
                if target and public:
                    exported[(*module, target[-1])] = target
                if target and path[0] == "crate":
                    used[module].append(target)

    def home(path: Module) -> Path | None:
        seen = set()
        while path in exported and path not in seen:
            seen.add(path)
            path = exported[path]
        return next((known[path[:n]] for n in range(len(path), -1, -1) if path[:n] in known), None)

    return {known[m]: {file for file in map(home, paths) if file} - {known[m]} for m, paths in used.items()}


def reachable(edges: dict[Path, set[Path]], start: Path) -> set[Path]:
    """Files reachable from a file, directly or not."""
    found: set[Path] = set()
    waiting = list(edges[start])
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting.extend(edges.get(file, ()))
    return found


def circles(source: Path) -> list[list[Path]]:
    """Sets of two files or more that all reach each other, largest first."""
    edges = graph(source)
    reach = {file: reachable(edges, file) for file in edges}
    sets = {frozenset(o for o in reach[file] if file in reach[o]) for file in edges if file in reach[file]}
    return sorted((sorted(s) for s in sets), key=len, reverse=True)
