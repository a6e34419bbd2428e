"""Loads by the structure of a machine: groups of a dragonfly, levels of a tree, kinds of link inside hosts.

Bands show least, quartiles and most of all links that they stand for, so that machines of any size stay legible.
"""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from hopbyte._core import Machine, links

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_INK, _BAND, _UNKNOWN = "#1b1f24", "#9fb4ca", "#8b949e"
_DRAGONFLIES = ("aries", "slingshot", "dragonfly")


def by_group(machine: Machine, loads: ArrayLike, *, label: str = "load", ax: Axes | None = None) -> Axes:
    """The worst load of the links from every group of a dragonfly to every other; on the diagonal of those inside.

    ``loads`` has a value per link (not-a-number is missing). Pairs without a link are hatched. Raises ``ValueError``
    for a machine without groups.
    """
    group = _groups(machine)
    loads = per_link(machine, loads)
    table = links(machine)
    between = (table.from_router >= 0) & (table.to_router >= 0) & ~np.isnan(loads)
    size = int(group.max()) + 1
    matrix = np.full((size, size), np.nan)
    start, end = group[table.from_router[between]], group[table.to_router[between]]
    np.fmax.at(matrix, (start, end), loads[between])
    ax = _axes(ax)
    ax.patch.set(hatch="////", edgecolor=_UNKNOWN, facecolor="white")
    image = ax.imshow(np.ma.masked_invalid(matrix), cmap="cividis", vmin=0, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, shrink=0.85).set_label(f"{label}: worst link")
    ax.set(xlabel="to group", ylabel="from group")
    return ax


def by_level(machine: Machine, loads: ArrayLike, *, label: str = "load", ax: Axes | None = None) -> Axes:
    """Bands of loads by level of a tree, upwards and downwards apart; on other networks by distance from the hosts."""
    loads = per_link(machine, loads)
    table = links(machine)
    level = levels(machine)
    known = (table.from_router >= 0) & (table.to_router >= 0)
    start = np.where(known, level[np.maximum(table.from_router, 0)], 0)
    end = np.where(known, level[np.maximum(table.to_router, 0)], 0)
    groups: dict[str, Bools] = {
        "from\nhosts": (table.from_router < 0) & (table.to_router >= 0),
        "to\nhosts": (table.from_router >= 0) & (table.to_router < 0),
    }
    for at in range(int(level.max()) + 1):
        groups[f"{at} to {at + 1}\nup"] = known & (start == at) & (end == at + 1)
        groups[f"{at + 1} to {at}\ndown"] = known & (start == at + 1) & (end == at)
        groups[f"within\nlevel {at}"] = known & (start == at) & (end == at)
    return bands(groups, loads, label=label, what="level of switches, 0 at the hosts", ax=ax)


def by_kind(machine: Machine, loads: ArrayLike, *, label: str = "load", ax: Axes | None = None) -> Axes:
    """Bands of loads by kind of link: inside hosts (NVLink, PCIe, memory), at their ports, and in the network."""
    loads = per_link(machine, loads)
    kind = links(machine).kind
    groups = {name: kind == number for number, name in enumerate(machine.kinds)}
    return bands(groups, loads, label=label, what="kind of link", ax=ax)


def by_family(machine: Machine, loads: ArrayLike, *, label: str = "load") -> Figure:
    """The picture of a machine's family: slices of a torus, groups of a dragonfly, levels of a tree, kinds in hosts."""
    from hopbyte import plot

    loads = per_link(machine, loads)
    if machine.grid() is not None and len(machine.grid()[0]) <= 3:  # type: ignore[index]
        return plot.torus_slices(machine, loads, label=label)
    if machine.family in _DRAGONFLIES:
        draw = by_group
    else:
        inside = any(re.search(r"nvlink|pcie|memory|xgmi|upi", name, re.IGNORECASE) for name in machine.kinds)
        draw = by_kind if inside else by_level
    figure, ax = plt.subplots(layout="constrained")
    draw(machine, loads, label=label, ax=ax)
    return figure


def bands(groups: dict[str, Bools], loads: ArrayLike, *, label: str, what: str, ax: Axes | None = None) -> Axes:
    """Least to most (line), quartiles (band) and median (mark) of each group's loads; empty groups are left out."""
    loads = np.asarray(loads, dtype=float)
    for members in groups.values():
        _same_length(loads, len(members))
    ax = _axes(ax)
    shown = {name: members for name, members in groups.items() if members.any()}
    for at, members in enumerate(shown.values()):
        values = loads[members]
        known = values[~np.isnan(values)]
        if known.size == 0:
            ax.text(at, 0, "not\nknown", ha="center", va="bottom", fontsize=7, color=_UNKNOWN)
            continue
        least, low, middle, high, most = np.quantile(known, (0, 0.25, 0.5, 0.75, 1))
        ax.plot([at, at], [least, most], color=_INK, linewidth=1)
        ax.bar(at, high - low, 0.6, bottom=low, color=_BAND, edgecolor=_INK, linewidth=0.6)
        ax.plot([at - 0.3, at + 0.3], [middle, middle], color=_INK, linewidth=1.6)
    names = [f"{name}\n{int(members.sum()):,}" for name, members in shown.items()]
    ax.set_xticks(range(len(names)), names, fontsize=8)
    ax.set_xlim(-0.7, max(len(names), 3) - 0.3)
    ax.set_ylim(bottom=0)
    ax.set(xlabel=f"{what}, with the number of links", ylabel=f"{label}: least, quartiles, most")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def per_link(machine: Machine, loads: ArrayLike) -> Floats:
    """Loads as an array with a value for every link of the machine."""
    values = np.asarray(loads, dtype=float)
    _same_length(values, machine.link_count)
    return values


def _same_length(values: Floats, links: int) -> None:
    if values.shape != (links,):
        raise ValueError(f"found {values.size} loads, expected {links}, one per link")


def levels(machine: Machine) -> NDArray[np.int64]:
    """Level of every router: 0 with hosts, else one more than the lowest neighbour; -1 if no host is connected."""
    table = links(machine)
    level = np.full(len(machine.routers), -1, dtype=np.int64)
    at_hosts = np.concatenate([table.from_router[table.to_router < 0], table.to_router[table.from_router < 0]])
    level[at_hosts[at_hosts >= 0]] = 0
    between = (table.from_router >= 0) & (table.to_router >= 0)
    start, end = table.from_router[between], table.to_router[between]
    height = 0
    while True:
        reached = end[(level[start] == height) & (level[end] < 0)]
        if reached.size == 0:
            return level
        height += 1
        level[reached] = height


def _groups(machine: Machine) -> NDArray[np.int64]:
    if machine.family not in _DRAGONFLIES:
        raise ValueError(f"{machine.source} has no groups: draw it with by_level() or Machine.svg()")
    places = [machine.coordinates(router) for router in range(len(machine.routers))]
    if any(not place for place in places):
        raise ValueError(f"{machine.source} does not state the groups of its routers: draw it with Machine.svg()")
    return np.asarray([place[0] for place in places if place], dtype=np.int64)


def _axes(ax: Axes | None) -> Axes:
    return ax if ax is not None else plt.subplots(layout="constrained")[1]
