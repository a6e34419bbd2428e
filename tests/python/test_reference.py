"""The API reference of the book is that of the package; with `REFERENCE=overwrite` this test rewrites it."""

from __future__ import annotations

import inspect
import os
import re
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

import hopbyte
from hopbyte import boxes, families, plot

PAGE = ROOT / "docs/src/python.md"
START, END = "<!-- reference -->\n", "<!-- end -->\n"


def text(thing: Any) -> str:
    """Its docstring as Markdown."""
    doc = inspect.getdoc(thing) or ""
    doc = re.sub(r":(?:class|func|mod|meth):`~?([^`]*)`", r"`\1`", doc)
    return re.sub(r"``([^`]*)``", r"`\1`", doc).strip()


def signature(name: str, thing: Any) -> str:
    """Name and arguments, without types, which the stubs have."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return f"{name}(…)"
    words, starred = [], False
    for p in parameters:
        if p.name == "self":
            continue
        if p.kind is p.POSITIONAL_ONLY:
            words.append(p.name)
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            words.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        starred = starred or star == "*"
        # A function's representation has its address.
        shown = p.default.__name__ if inspect.isfunction(p.default) else repr(p.default)
        default = "" if p.default is p.empty else f"={shown}"
        words.append(f"{star}{p.name}{default}")
    return f"{name}({', '.join(words)})"


def members(cls: type) -> list[str]:
    """Properties and methods of a class, one line each."""
    rows = []
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_") or isinstance(value, str):
            continue
        value = value.__func__ if isinstance(value, staticmethod) else value
        called = callable(value)
        doc = text(value).split("\n\n")[0].replace("\n", " ")
        rows.append(f"- `{signature(name, value) if called else name}`: {doc}")
    return rows


def names(module: ModuleType) -> list[str]:
    """Public names of a module that it defines or lists."""
    listed: list[str] = list(getattr(module, "__all__", ()))
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    public = [(n, getattr(module, n)) for n in listed or own if not n.startswith("_")]
    return sorted(n for n, v in public if inspect.isroutine(v) or inspect.isclass(v))


def reference() -> str:
    """The page's list."""
    parts = []
    for module, title in [(hopbyte, "hopbyte"), (plot, "hopbyte.plot"), (boxes, "hopbyte.boxes")]:
        parts.append(f"## `{title}`\n")
        for name in names(module):
            thing = getattr(module, name)
            if inspect.isclass(thing):
                parts.append(f"### class `{name}`\n\n{text(thing)}\n")
                parts.extend([*members(thing), ""])
            else:
                parts.append(f"### `{signature(name, thing)}`\n\n{text(thing)}\n")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip() + "\n\n"


def test_the_page_is_the_package() -> None:
    page = PAGE.read_text()
    before, rest = page.split(START)
    _, after = rest.split(END)
    new = before + START + "\n" + reference() + END + after
    if os.environ.get("REFERENCE") == "overwrite":
        PAGE.write_text(new)
    assert page == new or os.environ.get("REFERENCE") == "overwrite", "REFERENCE=overwrite rewrites docs/src/python.md"


@pytest.mark.parametrize("module", [hopbyte, plot, boxes, families], ids=lambda m: m.__name__)
def test_everything_public_is_documented(module: ModuleType) -> None:
    for name in names(module):
        thing = getattr(module, name)
        assert text(thing), f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            for row in members(thing):
                assert not row.endswith(": "), f"{name}: {row}"
