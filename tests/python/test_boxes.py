"""Box algebra keeps slots, follows its definitions, and finds known optima."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pytest

import hopbyte
from hopbyte import boxes


@pytest.fixture(scope="module")
def machine() -> hopbyte.Machine:
    return hopbyte.load_fabric("torus:4x4x4")


@pytest.fixture(scope="module")
def start(machine: hopbyte.Machine) -> hopbyte.Placement:
    """An 8x8x8 grid of ranks, 8 on each node: in order that is 1x1x8."""
    return hopbyte.place(machine, machine.nodes, tasks=512, ranks_per_node=8, how="in-order")


STEPS: dict[str, Callable[[boxes.Box], boxes.Box]] = {
    "tile": lambda b: b.tile(2, 2, 2),
    "tile by snake": lambda b: b.tile(2, 4, 2, order=boxes.snake, within=boxes.morton),
    "arrange": lambda b: b.arrange(boxes.morton),
    "tilt": lambda b: b.tilt(0, 2, slope=3),
    "zigzag": lambda b: b.zigzag(1, 0, depth=2),
    "flip": lambda b: b.flip(2),
    "all": lambda b: b.tile(2, 2, 2).tilt(0, 1).zigzag(2, 0).flip(1),
}


@pytest.mark.parametrize("step", STEPS)
def test_every_step_keeps_the_slots(machine: hopbyte.Machine, start: hopbyte.Placement, step: str) -> None:
    box = STEPS[step](boxes.Box.of(start, (8, 8, 8)))
    assert sorted(box.slots.ravel().tolist()) == list(range(512))
    placement = box.placement(machine)
    assert Counter(placement.node_names) == Counter(start.node_names)
    assert len({placement[r] for r in range(512)}) == 512


def test_tiles_are_cubes_on_nodes(start: hopbyte.Placement) -> None:
    box = boxes.Box.of(start, (8, 8, 8)).tile(2, 2, 2)
    names = np.array(box.names()).reshape(8, 8, 8)
    assert len(np.unique(names[:2, :2, :2])) == 1
    assert names[0, 0, 0] == start.node_names[0]
    assert names[0, 0, 2] == start.node_names[8]


def test_tilts_and_zigzags_turn_planes() -> None:
    machine = hopbyte.load_fabric("torus:4x4")
    flat = boxes.Box.of(hopbyte.place(machine, machine.nodes), (4, 4))
    tilted = flat.tilt(1, 0).slots
    assert tilted.tolist() == [[0, 1, 2, 3], [7, 4, 5, 6], [10, 11, 8, 9], [13, 14, 15, 12]]
    to_and_fro = flat.zigzag(1, 0).slots
    assert to_and_fro.tolist() == [[0, 1, 2, 3], [7, 4, 5, 6], [8, 9, 10, 11], [15, 12, 13, 14]]
    assert np.array_equal(flat.tilt(1, 0).tilt(1, 0, slope=-1).slots, flat.slots)
    assert np.array_equal(flat.flip(0).flip(0).slots, flat.slots)


def test_orders_visit_every_cell_once() -> None:
    for sizes in [(3,), (2, 3), (4, 4, 4), (3, 5, 2)]:
        for order in (boxes.rows, boxes.snake, boxes.morton):
            assert sorted(order(sizes)) == boxes.rows(sizes)
    ends = boxes.snake((3, 4, 5))
    steps = [sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(ends)]
    assert set(steps) == {1}, "a snake never jumps"


def test_cubes_are_the_best_for_a_stencil(machine: hopbyte.Machine, start: hopbyte.Placement) -> None:
    traffic = hopbyte.load_traffic("stencil:8x8x8:7:80000:periodic")

    def cubes(_: hopbyte.Traffic, __: hopbyte.Machine, plain: hopbyte.Placement) -> boxes.Box:
        return boxes.Box.of(plain, (8, 8, 8)).tile(2, 2, 2)

    def by_hand(_: hopbyte.Traffic, __: hopbyte.Machine, plain: hopbyte.Placement) -> list[str]:
        return list(reversed(plain.node_names))

    trials = boxes.compare(traffic, machine, start, {"cubes": cubes, "reversed": by_hand})
    best = trials[0]
    assert best.name == "cubes" and best.improved
    assert {t.name for t in trials} == {"start", "cubes", "reversed"}
    # Each node's cube has six neighbours one hop away, four faces of 80 kB each way; half of the bytes stay inside.
    assert best.result.average_dilation == pytest.approx(0.5)
    assert best.result.hop_bytes == pytest.approx(64 * 6 * 4 * 80_000)
    assert best.baseline.worst_link_seconds > best.result.worst_link_seconds
    found = hopbyte.map(traffic, machine, ranks_per_node=8, current=start, trials=20_000)
    assert found.result.worst_link_seconds <= best.result.worst_link_seconds * (1 + 1e-9)


def test_trials_are_drawn_like_mappings(machine: hopbyte.Machine, start: hopbyte.Placement) -> None:
    traffic = hopbyte.load_traffic("stencil:8x8x8:7")
    trial = boxes.compare(
        traffic, machine, start, {"cubes": lambda _t, _m, p: boxes.Box.of(p, (8, 8, 8)).tile(2, 2, 2)}
    )[0]
    figure, axes = plt.subplots(1, 2)
    hopbyte.plot.load_by_dimension(trial, axes[0])
    hopbyte.plot.load_spread(trial, axes[1])
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert labels == ["before", "after"]
    plt.close(figure)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: boxes.Box.of(p, (8, 8)), "expected 512 ranks"),
        (lambda p: boxes.Box.of(p, (0, 8)), "numbers from 1"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).tile(3, 2, 2), "divide"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).tile(2, 2), "divide"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).tilt(0, 0), "two axes"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).zigzag(0, 3), "expected 0 to 2"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).zigzag(0, 1, depth=0), "at least 1"),
        (lambda p: boxes.Box.of(p, (8, 8, 8)).arrange(lambda s: boxes.rows(s)[1:]), "once"),
    ],
)
def test_mistakes_are_named(start: hopbyte.Placement, call: Callable[[hopbyte.Placement], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(start)


def test_strategies_may_not_take_more_than_there_is(machine: hopbyte.Machine, start: hopbyte.Placement) -> None:
    traffic = hopbyte.load_traffic("stencil:8x8x8:7")
    first = start.node_names[0]
    with pytest.raises(ValueError, match="expected at most 8"):
        boxes.compare(traffic, machine, start, {"greedy": lambda *_: [first] * 512})
    with pytest.raises(ValueError, match="expected 512"):
        boxes.compare(traffic, machine, start, {"short": lambda *_: start.node_names[:8]})
