"""The project's rules: violations are found where they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import circles
import house

TABLE = """
| folder | question | may use |
|---|---|---|
| `crates/fabric` | words | nothing |
| `crates/map` | where | fabric |
| `crates/testdata` | tests | nothing |
| `mpi/` | C | MPI |
"""


def package(name: str, **dependencies: str | None) -> dict:
    """A crate in `cargo metadata`; values are the dependencies' kinds."""
    listed = [{"name": f"hopbyte-{other}", "kind": kind} for other, kind in dependencies.items()]
    return {"name": f"hopbyte-{name}", "dependencies": listed}


def test_the_table_is_read() -> None:
    assert house.may_use(TABLE) == {"fabric": set(), "map": {"fabric"}, "testdata": set()}


@pytest.mark.parametrize(
    ("crate", "text"),
    [
        (package("fabric", map=None), "fabric must not use map"),
        (package("fabric", map="dev"), "fabric must not use map"),
        (package("map", testdata=None), "map must not use testdata"),
        (package("job"), "no row for crates/job"),
    ],
)
def test_what_the_table_does_not_allow_is_found(crate: dict, text: str) -> None:
    assert any(text in finding[1] for finding in house.arrows([crate], house.may_use(TABLE)))


def test_a_row_that_allows_more_than_is_used_is_warned_of() -> None:
    ((rule, text),) = house.arrows([package("map", testdata="dev")], house.may_use(TABLE))
    assert (rule in house.ONLY_WARNED, text) == (True, "ARCHITECTURE.md: map does not use fabric")


def test_what_the_table_allows_passes() -> None:
    crates = [package("map", fabric=None, testdata="dev"), package("fabric", testdata="dev")]
    assert house.arrows(crates, house.may_use(TABLE)) == []


def test_a_row_that_allows_a_crate_without_row_is_found() -> None:
    (finding,) = house.arrows([], house.may_use(TABLE + "| `crates/job` | loop | view |\n"))
    assert "job may use view" in finding[1]


def test_threads_that_panic_when_they_are_refused_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "crates/a/src"
    source.mkdir(parents=True)
    spawn = "fn f() { std::thread::spawn(g); }\n"
    (source / "lib.rs").write_text(f"{spawn}#[cfg(test)]\nmod tests {{\n{spawn}}}\n")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    ((rule, text),) = house.threads()
    assert (rule, text.split(": ")[0]) == ("threads", "crates/a/src/lib.rs:1")


def test_circles_of_imports_go_through_exports_and_leave_tests_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\nmod d;\npub use b::c::Word;\n")
    (tmp_path / "a.rs").write_text("use crate::{Word, d::X as Y};\n")
    (tmp_path / "b/mod.rs").write_text("pub mod c;\n")
    (tmp_path / "b/c.rs").write_text("use crate::a::{self, Z};\nuse super::Sibling;\n")
    test = "#[cfg(test)]\nmod tests {\n  use crate::a::Z;\n}\n"
    (tmp_path / "d.rs").write_text(f"use std::fmt;\n// use crate::a::Z;\n{test}")
    # Parent and child: the parent declares, the child names its parent's type by `crate::`.
    (tmp_path / "b/mod.rs").write_text("pub mod c;\npub mod e;\n")
    (tmp_path / "b/e.rs").write_text("use crate::b::Own;\n")
    assert [tmp_path / "b/e.rs", tmp_path / "b/mod.rs"] in circles.circles(tmp_path)
    (tmp_path / "b/e.rs").write_text("use super::Own;\n")
    assert circles.circles(tmp_path) == [[tmp_path / "a.rs", tmp_path / "b/c.rs"]]
