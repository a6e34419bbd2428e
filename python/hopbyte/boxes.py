"""Placements as boxes: a job's grid of ranks, rearranged over its slots.

A :class:`Box` is an array with the shape of the application's grid; each entry is a slot of an
allocation, in the order of an in-order run. Rearranging the array rearranges the ranks::

    from hopbyte import boxes

    start = hopbyte.place(machine, nodes, tasks=64, ranks_per_node=8, how="in-order")
    box = boxes.Box.of(start, (4, 4, 4))
    better = box.tile(2, 2, 2).placement(machine)      # every node gets a cube of ranks

Each step returns a new box with permuted slots, so no step can place two ranks on one slot. The
steps are the usual manual ones for tori and stencils: tiles, tilts (shears), zigzags and snakes. A
custom strategy is a function of traffic, machine and the initial placement; :func:`compare`
evaluates several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

import hopbyte
from hopbyte._core import Evaluation, Machine, Placement, Traffic

Order = Callable[[Sequence[int]], Sequence[tuple[int, ...]]]
"""An order of the cells of a grid of the given sizes."""


def rows(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The cells of a grid row by row, the last dimension fastest."""
    return list(product(*(range(n) for n in sizes)))


def snake(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The cells of a grid as a snake: each is adjacent to the previous one."""
    if not sizes:
        return [()]
    inner = snake(sizes[1:])
    return [(i, *cell) for i in range(sizes[0]) for cell in (inner if i % 2 == 0 else reversed(inner))]


def morton(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The cells of a grid along Morton's curve (Z order), which preserves locality."""
    bits = max(sizes, default=1).bit_length()

    def key(cell: tuple[int, ...]) -> int:
        planes = ((c >> bit) & 1 for bit in reversed(range(bits)) for c in cell)
        value = 0
        for plane in planes:
            value = 2 * value + plane
        return value

    return sorted(rows(sizes), key=key)


@dataclass(frozen=True)
class Box:
    """Slots on a grid of ranks; rank *r* is the *r*-th entry, the last dimension fastest."""

    slots: NDArray[np.int64]
    node_names: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, placement: Placement, dims: Sequence[int]) -> Box:
        """The ranks of a placement as a grid of ``dims``."""
        names = tuple(placement.node_names)
        sizes = _sizes(dims)
        if int(np.prod(sizes)) != len(names):
            raise ValueError(f"found a grid of {sizes} = {int(np.prod(sizes))}, expected {len(names)} ranks")
        return cls(np.arange(len(names)).reshape(sizes), names)

    @property
    def dims(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return self.slots.shape

    def tile(self, *sizes: int, order: Order = rows, within: Order = rows) -> Box:
        """Assigns the slots tile by tile, for tiles of ``sizes``.

        ``order`` is the order of the tiles, ``within`` that of the ranks of a tile: :func:`rows`,
        :func:`snake`, :func:`morton` or a custom function. Sizes must divide the grid. Slots are
        assigned from the first on, independent of the box's previous arrangement: of several ``tile``
        calls the last one wins. Tiles of tiles need a custom ``order`` or ``within``.
        """
        tile = _sizes(sizes)
        if len(tile) != len(self.dims) or any(n % t for n, t in zip(self.dims, tile, strict=True)):
            raise ValueError(f"found tiles of {tile}, expected sizes that divide {self.dims}")
        counts = [n // t for n, t in zip(self.dims, tile, strict=True)]
        return self._taken(
            tuple(o * t + i for o, t, i in zip(outer, tile, inner, strict=True))
            for outer in _checked(order, counts)
            for inner in _checked(within, tile)
        )

    def arrange(self, order: Order) -> Box:
        """Assigns the slots in an order of the whole grid."""
        return self._taken(_checked(order, self.dims))

    def tilt(self, axis: int, along: int, slope: int = 1) -> Box:
        """Shears the grid: the plane at coordinate *c* along ``along`` rotates by ``slope`` · *c* places
        along ``axis``. Neighbours along ``along`` get different coordinates on ``axis``, which spreads
        their traffic over more links of a torus."""
        return self._turned(axis, along, lambda c: slope * c)

    def zigzag(self, axis: int, along: int, depth: int = 1) -> Box:
        """As :meth:`tilt`, but back and forth: planes rotate by 0, 1, … ``depth``, … 1, 0, 1, … places."""
        if depth < 1:
            raise ValueError(f"found depth {depth}, expected at least 1")
        return self._turned(axis, along, lambda c: depth - abs(c % (2 * depth) - depth))

    def flip(self, axis: int) -> Box:
        """Reverses the grid along an axis."""
        return Box(np.flip(self.slots, self._axis(axis)), self.node_names)

    def names(self) -> list[str]:
        """The node of each rank."""
        return [self.node_names[slot] for slot in self.slots.ravel()]

    def placement(self, machine: Machine) -> Placement:
        """The box as a placement."""
        return hopbyte.place(machine, self.names())

    def _taken(self, cells: Iterable[tuple[int, ...]]) -> Box:
        """Assigns the slots of the box to cells, in the order of an in-order run."""
        slots = np.empty_like(self.slots)
        for slot, cell in zip(np.sort(self.slots, axis=None), cells, strict=True):
            slots[cell] = slot
        return Box(slots, self.node_names)

    def _turned(self, axis: int, along: int, places: Callable[[int], int]) -> Box:
        axis, along = self._axis(axis), self._axis(along)
        if axis == along:
            raise ValueError(f"found axis {axis} twice, expected two axes")
        planes = np.moveaxis(self.slots, along, 0)
        turned = [np.roll(p, places(c), axis - (axis > along)) for c, p in enumerate(planes)]
        return Box(np.moveaxis(np.stack(turned), 0, along), self.node_names)

    def _axis(self, axis: int) -> int:
        if not 0 <= axis < self.slots.ndim:
            raise ValueError(f"found axis {axis}, expected 0 to {self.slots.ndim - 1}")
        return axis


Strategy = Callable[[Traffic, Machine, Placement], "Placement | Box | Sequence[str]"]
"""A strategy: returns a placement, a box, or the node of each rank."""


@dataclass(frozen=True)
class Trial:
    """Result of a strategy; the functions of :mod:`hopbyte.plot` accept it."""

    name: str
    machine: Machine
    before: Placement
    placement: Placement
    baseline: Evaluation
    result: Evaluation

    @property
    def improved(self) -> bool:
        """Whether the time of the worst link, or at equal time the hop-bytes, are less than before."""
        now, was = self.result, self.baseline
        return (now.worst_link_seconds, now.hop_bytes) < (was.worst_link_seconds, was.hop_bytes)


def compare(
    traffic: Traffic,
    machine: Machine,
    start: Placement,
    strategies: Mapping[str, Strategy],
) -> list[Trial]:
    """Evaluates strategies from one start, best first; the start itself is included as ``start``.

    A strategy that uses a slot more than once, or a node outside the start's allocation, raises
    ``ValueError``: its result would not be comparable.
    """
    baseline = hopbyte.evaluate(traffic, start, machine)
    trials = [Trial("start", machine, start, start, baseline, baseline)]
    slots = _slots(start)
    for name, strategy in strategies.items():
        found = strategy(traffic, machine, start)
        if isinstance(found, Box):
            found = found.names()
        placement = found if isinstance(found, Placement) else hopbyte.place(machine, found)
        for node, count in _slots(placement).items():
            if count > slots.get(node, 0):
                has = slots.get(node, 0)
                raise ValueError(f"strategy {name}: found {count} ranks on {node}, expected at most {has}")
        if len(placement) != len(start):
            raise ValueError(f"strategy {name}: found {len(placement)} ranks, expected {len(start)}")
        result = hopbyte.evaluate(traffic, placement, machine)
        trials.append(Trial(name, machine, start, placement, baseline, result))
    return sorted(trials, key=lambda t: (t.result.worst_link_seconds, t.result.hop_bytes))


def _slots(placement: Placement) -> dict[str, int]:
    names, counts = np.unique(np.array(placement.node_names), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    found = tuple(int(n) for n in sizes)
    if not found or any(n < 1 for n in found):
        raise ValueError(f"found sizes {found}, expected numbers from 1")
    return found


def _checked(order: Order, sizes: Sequence[int]) -> Sequence[tuple[int, ...]]:
    """The cells of an order; each must occur once."""
    cells = [tuple(cell) for cell in order(sizes)]
    if sorted(cells) != rows(sizes):
        raise ValueError(f"found an order of {len(cells)} cells, expected each cell of {tuple(sizes)} once")
    return cells
