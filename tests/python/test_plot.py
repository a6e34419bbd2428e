"""Plots show their input values."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

import hopbyte
from hopbyte import plot


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_bars_are_the_means(mapping: hopbyte.Mapping) -> None:
    ax = plot.load_by_dimension(mapping)
    names = [t.get_text() for t in ax.get_xticklabels()]
    assert names == ["X", "Y", "Z", "into the\nnetwork", "out of the\nnetwork"]
    directions = np.asarray((mapping.machine.grid() or ([], [], []))[2])
    bars = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(bars) == 10
    # Bars come in pairs, before and after, and the unit is that of the largest time.
    unit = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[ax.get_ylabel().split("[")[1].split("]")[0]]
    for side, cost in enumerate((mapping.baseline, mapping.result)):
        for dim in range(3):
            mean = cost.link_seconds[directions // 2 == dim].mean()
            assert bars[2 * dim + side].get_height() * unit == pytest.approx(mean)


def test_kinds_and_spread(mapping: hopbyte.Mapping) -> None:
    ax = plot.load_by_kind(mapping)
    assert [t.get_text() for t in ax.get_xticklabels()] == mapping.machine.kinds
    spread = plot.load_spread(mapping)
    assert spread.get_yscale() == "log"


def test_slices_show_every_link_once(torus: hopbyte.Machine) -> None:
    loads = np.linspace(0.0, 1.0, torus.link_count)
    loads[::7] = np.nan
    figure = plot.torus_slices(torus, loads, label="used share")
    strokes = sum(
        len(collection.get_segments())
        for ax in figure.axes
        for collection in ax.collections
        if hasattr(collection, "get_segments")
    )
    between = int((np.asarray((torus.grid() or ([], [], []))[2]) >= 0).sum())
    assert strokes == between == 480
    words = [t.get_text() for t in figure.legends[0].get_texts()]
    assert "not known" in words
    assert len([ax for ax in figure.axes if ax.get_title(loc="left").startswith("Z")]) == 3


def test_slices_refuse_what_is_no_grid() -> None:
    tree = hopbyte.load_fabric("fattree:k=4,levels=2")
    with pytest.raises(ValueError, match="no grid"):
        plot.torus_slices(tree, np.zeros(tree.link_count))


def test_cost_matrix(torus: hopbyte.Machine) -> None:
    costs = hopbyte.route_costs(torus, torus.nodes[:12])
    ax = plot.route_cost_matrix(costs)
    shown = ax.images[0].get_array()
    assert shown is not None
    assert np.array_equal(np.asarray(shown), costs.matrix)
    assert [t.get_text() for t in ax.get_yticklabels()] == costs.names


def test_classes_follow_the_drawings() -> None:
    classes = plot._classes(np.array([0.0, 1e-9, 0.2, 0.21, 1.0, np.nan]), 1.0)
    assert classes.tolist() == [0, 1, 1, 2, 5, -1]
