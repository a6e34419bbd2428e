"""Plots of dragonflies, trees and hosts show their input values."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest

import hopbyte
from hopbyte import families, plot


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_groups_show_the_worst_link_of_each_pair() -> None:
    machine = hopbyte.load_fabric("dragonfly:9x4")
    links = hopbyte.links(machine)
    loads = np.arange(machine.link_count, dtype=float)
    shown = np.asarray(plot.by_group(machine, loads).images[0].get_array())
    group = [(machine.coordinates(r) or [0])[0] for r in range(len(machine.routers))]
    expected: dict[tuple[int, int], float] = {}
    for a, b, load in zip(links.from_router, links.to_router, loads, strict=True):
        if a >= 0 and b >= 0:
            pair = (group[a], group[b])
            expected[pair] = max(expected.get(pair, 0.0), load)
    for (a, b), load in expected.items():
        assert shown[a, b] == load
    with pytest.raises(ValueError, match="no groups"):
        plot.by_group(hopbyte.load_fabric("torus:4x4"), np.zeros(96))


def test_levels_of_a_tree_are_bands_with_their_numbers() -> None:
    machine = hopbyte.load_fabric("fattree:k=4,levels=3")
    assert sorted(set(families.levels(machine))) == [0, 1, 2]
    loads = np.linspace(0, 1, machine.link_count)
    ax = plot.by_level(machine, loads)
    names = [t.get_text() for t in ax.get_xticklabels()]
    assert any(name.startswith("0 to 1\nup") for name in names)
    assert sum(int(name.rsplit("\n", 1)[1].replace(",", "")) for name in names) == machine.link_count


def test_hosts_have_bands_by_kind() -> None:
    machine = hopbyte.load_fabric("gpu-rails")
    loads = np.ones(machine.link_count)
    loads[::5] = np.nan
    names = [t.get_text() for t in plot.by_kind(machine, loads).get_xticklabels()]
    assert {name.rsplit("\n", 1)[0] for name in names} == set(machine.kinds)


@pytest.mark.parametrize("spec", ["torus:4x4x2", "dragonfly:9x4", "fattree:k=4,levels=3", "gpu-rails", "hyperx:4x4"])
def test_every_family_has_a_picture(spec: str) -> None:
    machine = hopbyte.load_fabric(spec)
    figure = plot.by_family(machine, np.linspace(0, 1, machine.link_count))
    assert figure.axes


def test_loads_are_converted_and_counted() -> None:
    machine = hopbyte.load_fabric("dragonfly:9x4")
    loads = [0.5] * machine.link_count
    for draw in (plot.by_group, plot.by_level, plot.by_kind):
        draw(machine, loads)
        with pytest.raises(ValueError, match=f"expected {machine.link_count}, one per link"):
            draw(machine, loads[1:])
