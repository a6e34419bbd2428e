"""Load of a machine's network, cost of a job's traffic on it, and better task mappings.

The verbs of the command line as functions::

    import hopbyte

    machine = hopbyte.load_fabric("subnet.txt")          # or "gemini:16x12x24"
    links = hopbyte.links(machine, "counters.csv")       # NumPy columns, without copies
    costs = hopbyte.route_costs(machine, metric="hops")  # a NumPy matrix
    traffic = hopbyte.load_traffic("app.mat")
    mapping = hopbyte.map(traffic, machine, "miriel[063-065]:24")
    mapping.placement.write("openmpi-rankfile", "rankfile")
    hopbyte.plot.load_by_dimension(mapping)
    report = hopbyte.verify(machine, links)              # fields, text, tables, yes or no
    hopbyte.frame(links)                                 # a pandas data frame

Manual placements, as tiles and tilts of a grid, and custom strategies: :mod:`hopbyte.boxes`.

Arrays are read-only views of the objects' memory. Missing values are not-a-number, never zero.
Units are in the names. :mod:`hopbyte.plot` needs matplotlib (``pip install hopbyte[plot]``).
"""

from typing import TYPE_CHECKING, Any

from hopbyte._core import (
    Evaluation,
    HopbyteError,
    Links,
    Machine,
    Mapping,
    Placement,
    RouteCosts,
    Traffic,
    __version__,
    evaluate,
    links,
    load_fabric,
    load_placement,
    load_traffic,
    map,
    place,
    route_costs,
)
from hopbyte.answers import (
    Report,
    analyse_probe,
    blame,
    command,
    explain,
    frame,
    history,
    model,
    predict,
    sensitivity,
    verify,
)
from hopbyte.on_dask import map_on_dask, sweep_on_dask

if TYPE_CHECKING:
    from hopbyte import boxes, plot

__all__ = [
    "Evaluation",
    "HopbyteError",
    "Links",
    "Machine",
    "Mapping",
    "Placement",
    "Report",
    "RouteCosts",
    "Traffic",
    "__version__",
    "analyse_probe",
    "blame",
    "boxes",
    "command",
    "evaluate",
    "explain",
    "frame",
    "history",
    "links",
    "load_fabric",
    "load_placement",
    "load_traffic",
    "map",
    "map_on_dask",
    "model",
    "place",
    "plot",
    "predict",
    "route_costs",
    "sensitivity",
    "sweep_on_dask",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Imports :mod:`hopbyte.plot` (which imports matplotlib) and :mod:`hopbyte.boxes` on first use."""
    if name in ("boxes", "plot"):
        import importlib

        return importlib.import_module(f"hopbyte.{name}")
    raise AttributeError(f"module 'hopbyte' has no attribute {name!r}")
