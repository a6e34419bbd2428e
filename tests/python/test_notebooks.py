"""The notebooks run from top to bottom, and what they show is a picture, a table or a value."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def run(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Names and shown values of a notebook's cells."""
    names: dict[str, Any] = {}
    shown = []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None, "clear the outputs before committing"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}[{number}]", "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), f"{path.name}[{number}]", "eval"), names))
    return names, shown


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names, shown = run(path)
    plt.close("all")
    for value in shown:
        if type(value).__module__.startswith("hopbyte"):
            picture = value._repr_svg_() if hasattr(value, "_repr_svg_") else value._repr_html_()
            assert picture.startswith(("<svg", "<table"))
    # The statements of the text hold.
    match path.stem:
        case "congested":
            assert names["waiting"]["link"] == "r1-0 X+" and names["congested"]
            assert names["causes"]["causes"] and not names["causes"].answer
        case "placement":
            assert names["gain"] > 0.15
        case "slower":
            assert names["slowdown"]("all-to-all", "link", 0.5) == pytest.approx(2.0, rel=0.01)
            assert names["slowdown"]("ping-pong", "link", 0.5) < 1.5 < names["ratio"]
