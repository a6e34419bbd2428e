"""The book's Python code runs unchanged, block after block, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.mark.parametrize("page", ["boxes.md", "python.md"])
def test_the_book_s_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/src" / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    assert blocks, f"{page} shows no Python"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if page == "boxes.md":
        assert (tmp_path / "MPICH_RANK_ORDER").exists()
        assert (tmp_path / "before-and-after.png").stat().st_size > 1000
