"""Pictures for papers and notebooks: load by dimension and kind, torus slices, groups, levels, route costs.

Every function draws into given axes or creates a figure, and returns the axes or the figure.
Colour is never the only encoding of load: bars are hatched, strokes grow wider. Missing values are
drawn as missing. Before and after share one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from hopbyte._core import Evaluation, Machine, RouteCosts, links
from hopbyte.families import bands, by_family, by_group, by_kind, by_level, per_link

Floats = NDArray[np.float64]

__all__ = [
    "bands",
    "by_family",
    "by_group",
    "by_kind",
    "by_level",
    "counters_by_dimension",
    "load_by_dimension",
    "load_by_kind",
    "load_spread",
    "ramp",
    "route_cost_matrix",
    "torus_slices",
]

RAMP = ("#ccd3da", "#9fb4ca", "#d7a13a", "#dd6b26", "#b32b30", "#5f0c38")
"""Colours of the load classes from zero to the highest, the same as in the SVG pictures."""

WIDTHS = (0.5, 1.0, 1.6, 2.4, 3.2, 4.2)
"""Widths of the same classes."""

UNKNOWN = "#8b949e"
BEFORE, AFTER = "#8597a8", "#0b57d0"
_LETTERS = "XYZWVU"
_STEPS = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))}


class Compared(Protocol):
    """Loads before and after: a :class:`hopbyte.Mapping`, or a :class:`hopbyte.boxes.Trial`."""

    @property
    def machine(self) -> Machine: ...
    @property
    def baseline(self) -> Evaluation: ...
    @property
    def result(self) -> Evaluation: ...


def load_by_dimension(mapping: Compared, ax: Axes | None = None) -> Axes:
    """Mean (bar) and maximum (mark) of link time by dimension of the grid, before and after.

    As in paper 000, Figs. 6 and 7: shows at a glance where a placement loads the network. On
    machines that are no grid, links are grouped by kind.
    """
    return _bars(mapping, _by_dimension(mapping.machine), "dimension", ax)


def load_by_kind(mapping: Compared, ax: Axes | None = None) -> Axes:
    """Mean (bar) and maximum (mark) of link time by kind of link, before and after."""
    return _bars(mapping, _by_kind(mapping.machine), "kind of link", ax)


def counters_by_dimension(machine: Machine, values: ArrayLike, label: str, ax: Axes | None = None) -> Axes:
    """Mean and maximum of any value per link by dimension, such as stalls in paper 000, Fig. 7."""
    values = per_link(machine, values)
    ax = _axes(ax)
    groups = _by_dimension(machine)
    for i, members in enumerate(groups.values()):
        _bar(ax, i, 0.6, values[members], BEFORE, "")
    _label(ax, list(groups), "dimension", label)
    return ax


def torus_slices(
    machine: Machine,
    loads: ArrayLike,
    *,
    label: str = "load",
    top: float | None = None,
    columns: int | None = None,
) -> Figure:
    """Every link of a torus or mesh in flat slices, one per coordinate of the third dimension.

    Links along X and Y are strokes between routers, those of the third dimension short oblique
    strokes. ``top`` sets the end of the scale, so that several pictures can share it.
    """
    loads = per_link(machine, loads)
    grid = machine.grid()
    if grid is None:
        raise ValueError(f"{machine.source} is no grid: draw it with Machine.svg()")
    dims, coords, directions = (np.asarray(part) for part in grid)
    if len(dims) > 3:
        raise ValueError(f"found a grid of {len(dims)} dimensions, expected at most 3")
    at = np.zeros((len(coords), 3), dtype=int)
    at[:, : len(dims)] = coords
    size = np.ones(3, dtype=int)
    size[: len(dims)] = dims
    slices = int(size[2])
    few = slices if slices <= 4 else max(1, round(np.sqrt(slices * size[1] / size[0] * 1.6)))
    columns = columns or min(slices, few)
    rows = -(-slices // columns)
    figure, panels = plt.subplots(
        rows,
        columns,
        figsize=(float(np.clip(columns * size[0] * 0.42, 7, 16)), 0.9 + rows * size[1] * 0.48),
        squeeze=False,
        layout="constrained",
    )
    top = _round_up(top if top is not None else _top(loads))
    strokes, sheet = _strokes(machine, at, directions, size)
    between = directions >= 0
    classes = _classes(loads[between], top)
    for index, panel in enumerate(panels.flat):
        panel.set_axis_off()
        if index >= slices:
            continue
        here = sheet == index
        _slice(panel, strokes[here], classes[here], at[at[:, 2] == index])
        panel.set(xlim=(-0.9, size[0] - 0.1), ylim=(-0.9, size[1] - 0.1), aspect="equal")
        if slices > 1:
            panel.set_title(f"Z = {index}", loc="left", fontsize=9)
    _legend(figure, classes, top, label)
    return figure


def route_cost_matrix(costs: RouteCosts, ax: Axes | None = None) -> Axes:
    """The matrix of route costs, from (down) to (right); unknown costs are hatched."""
    ax = _axes(ax)
    matrix = np.ma.masked_invalid(costs.matrix)
    ax.set_facecolor("none")
    ax.patch.set(hatch="////", edgecolor=UNKNOWN, facecolor="white")
    image = ax.imshow(matrix, cmap="cividis", interpolation="nearest")
    unit = f" [{costs.unit}]" if costs.unit else ""
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.85)
    bar.set_label(f"{costs.aggregate} of {costs.metric} over {costs.over}{unit}")
    names = costs.names
    if len(names) <= 40:
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set(xlabel="to", ylabel="from")
    return ax


def load_spread(mapping: Compared, ax: Axes | None = None) -> Axes:
    """Histogram of link times before and after, with counts on a log scale."""
    ax = _axes(ax)
    times = (mapping.baseline.link_seconds, mapping.result.link_seconds)
    factor, unit = _unit(max(_top(t) for t in times))
    edges = np.linspace(0, max(_top(t) for t in times) / factor, 26)
    for values, colour, name, hatch in zip(times, (BEFORE, AFTER), ("before", "after"), ("", "///"), strict=True):
        ax.hist(
            values[values > 0] / factor,
            list(edges),
            histtype="stepfilled",
            alpha=0.55,
            color=colour,
            edgecolor=colour,
            hatch=hatch,
            label=name,
        )
    ax.set_yscale("log")
    ax.set(xlabel=f"link time [{unit}]", ylabel="loaded links")
    ax.legend(frameon=False)
    _quiet(ax)
    return ax


def _by_dimension(machine: Machine) -> dict[str, NDArray[np.bool_]]:
    grid = machine.grid()
    if grid is None:
        return _by_kind(machine)
    directions = np.asarray(grid[2])
    groups = {_LETTERS[dim]: directions // 2 == dim for dim in range(len(grid[0])) if dim < len(_LETTERS)}
    to_host = links(machine).to_router < 0
    hosts = directions < 0
    return {**groups, "into the\nnetwork": hosts & ~to_host, "out of the\nnetwork": hosts & to_host}


def _by_kind(machine: Machine) -> dict[str, NDArray[np.bool_]]:
    kind = links(machine).kind
    return {name: kind == number for number, name in enumerate(machine.kinds)}


def _bars(mapping: Compared, groups: dict[str, NDArray[np.bool_]], what: str, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    sides = (mapping.baseline.link_seconds, mapping.result.link_seconds)
    factor, unit = _unit(max(_top(s) for s in sides))
    for i, members in enumerate(groups.values()):
        _bar(ax, i - 0.2, 0.36, sides[0][members] / factor, BEFORE, "", "before" if i == 0 else "")
        _bar(ax, i + 0.2, 0.36, sides[1][members] / factor, AFTER, "///", "after" if i == 0 else "")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8)
    _label(ax, list(groups), what, f"link time [{unit}]: mean (bar), maximum (mark)")
    return ax


def _bar(ax: Axes, x: float, width: float, values: Floats, colour: str, hatch: str, name: str = "") -> None:
    known = values[~np.isnan(values)]
    if known.size == 0:
        ax.text(x, 0, "not\nknown", ha="center", va="bottom", fontsize=7, color=UNKNOWN)
        return
    mean, most = float(known.mean()), float(known.max())
    ax.bar(
        x,
        mean,
        width,
        color=colour,
        hatch=hatch,
        edgecolor="white",
        linewidth=0,
        label=name or None,
    )
    ax.plot([x, x], [mean, most], color="#1b1f24", linewidth=1)
    ax.plot([x - width / 4, x + width / 4], [most, most], color="#1b1f24", linewidth=1.6)


def _label(ax: Axes, names: Sequence[str], what: str, value: str) -> None:
    ax.set_xticks(range(len(names)), list(names), fontsize=8)
    ax.set_xlim(-0.7, max(len(names), 3) - 0.3)
    ax.set(xlabel=what, ylabel=value)
    ax.set_ylim(bottom=0)
    _quiet(ax)


def _quiet(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    return plt.subplots(layout="constrained")[1]


def _top(values: Floats) -> float:
    return float(np.nanmax(values, initial=0.0)) if np.any(~np.isnan(values)) else 0.0


def _round_up(value: float) -> float:
    """The next round number, so that the class limits in a legend are round too."""
    if value <= 0:
        return 0.0
    power = 10.0 ** np.floor(np.log10(value))
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return float(next((s * power for s in steps if s * power >= value * (1 - 1e-12)), 10 * power))


def _unit(top: float) -> tuple[float, str]:
    """Factor and name of the unit of time that shows a value with digits before the point."""
    return next(((f, name) for f, name in _STEPS["s"] if top >= f), _STEPS["s"][-1])


def _classes(loads: Floats, top: float) -> NDArray[np.int8]:
    """Class of each load: 0 for zero, 1 to 5 for the fifths of the scale, -1 for unknown."""
    scaled = np.ceil(np.nan_to_num(loads) / (top or 1.0) * 5 - 1e-9).clip(1, 5)
    classes = np.where(loads > 0, scaled, 0)
    return np.where(np.isnan(loads), -1, classes).astype(np.int8)


def _strokes(
    machine: Machine, at: NDArray[Any], directions: NDArray[Any], size: NDArray[Any]
) -> tuple[Floats, NDArray[np.int64]]:
    """Ends of the strokes of all links between routers, and the slice of each."""
    table = links(machine)
    between = directions >= 0
    start = at[table.from_router[between]].astype(float)
    dim, sign = directions[between] // 2, 1 - 2 * (directions[between] % 2)
    step = np.zeros((len(start), 2))
    last = np.where(sign > 0, size[dim] - 1, 0)
    rows = np.arange(len(start))
    round_the_end = start[rows, dim] == last
    for axis in (0, 1):
        along = dim == axis
        step[along, axis] = sign[along] * np.where(round_the_end[along], 0.62, 1.0)
    through = dim == 2
    step[through] = 0.3 * sign[through, None]
    # Traffic keeps to the right.
    length = np.hypot(step[:, 0], step[:, 1])
    aside = 0.07 * np.stack([step[:, 1], -step[:, 0]], axis=1) / length[:, None]
    aside[through] = 0
    first = start[:, :2] + 0.18 * step / length[:, None] + aside
    reach = np.where(round_the_end | through, 1.0, 0.82)[:, None]
    second = start[:, :2] + step * reach + aside
    return np.stack([first, second], axis=1), at[table.from_router[between], 2]


def _slice(ax: Axes, strokes: Floats, classes: NDArray[np.int8], routers: NDArray[Any]) -> None:
    for c in range(-1, 6):
        chosen = strokes[classes == c]
        if len(chosen) == 0:
            continue
        style: dict[str, Any] = (
            {"colors": UNKNOWN, "linewidths": 0.8, "linestyles": ":"}
            if c < 0
            else {"colors": RAMP[c], "linewidths": WIDTHS[c]}
        )
        ax.add_collection(LineCollection(list(chosen), **style))
    ax.scatter(
        routers[:, 0],
        routers[:, 1],
        s=18,
        marker="s",
        c="white",
        edgecolors="#7b8590",
        zorder=3,
        linewidths=0.6,
    )


def _legend(figure: Figure, classes: NDArray[np.int8], top: float, label: str) -> None:
    handles: list[Any] = []
    for c in range(6 if top > 0 else 1):
        low, high = top * (c - 1) / 5, top * c / 5
        name = "nothing" if c == 0 else f"{low:.3g} to {high:.3g}"
        handles.append(Line2D([], [], color=RAMP[c], linewidth=WIDTHS[c], label=name))
    if np.any(classes < 0):
        handles.append(Line2D([], [], color=UNKNOWN, linestyle=":", linewidth=0.8, label="not known"))
    wide = int(figure.get_figwidth() / 1.55)
    figure.legend(handles=handles, title=label, loc="outside lower center", ncols=wide, frameon=False, fontsize=8)


def ramp() -> ListedColormap:
    """The classes' colours as a matplotlib colour map."""
    return ListedColormap(list(RAMP), name="hopbyte")
