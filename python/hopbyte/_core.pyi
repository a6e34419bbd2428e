"""Types of the extension module; its documentation strings are the reference."""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Literal, SupportsIndex, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Path: TypeAlias = str | PathLike[str]
_Metric: TypeAlias = Literal[
    "hops", "inverse-bandwidth", "used", "input-stall", "credit-stall", "bytes", "packets", "errors"
]
_Aggregate: TypeAlias = Literal["max", "sum", "mean"]
_Over: TypeAlias = Literal["request", "response", "both"]
_Objective: TypeAlias = Literal["worst-link", "worst-network-link", "hop-bytes", "route-cost"]
_Launcher: TypeAlias = Literal[
    "mpich-rank-order",
    "grid-order",
    "mpich-method-4",
    "openmpi-rankfile",
    "openmpi-hostfile",
    "slurm-hostfile",
    "slurm-plane",
    "hydra-hostfile",
    "intel-machinefile",
    "flux-hostfile",
    "flux-taskmap",
    "pals",
    "node-order",
    "torchrun",
    "rank-gpus",
    "dlrover-world",
    "jax-devices",
    "kueue-assignment",
    "megatron-order",
    "nccl-tuner",
    "csv",
    "json",
]

__version__: str
__all__ = [
    "Evaluation",
    "HopbyteError",
    "Links",
    "Machine",
    "Mapping",
    "Placement",
    "RouteCosts",
    "Traffic",
    "__version__",
    "_links",
    "_machine",
    "_placement",
    "_traffic",
    "analyse_probe",
    "blame",
    "evaluate",
    "explain_errors",
    "links",
    "load_fabric",
    "load_placement",
    "load_traffic",
    "map",
    "model",
    "place",
    "predict",
    "route_costs",
    "run",
    "store_history",
    "verify",
]

class HopbyteError(ValueError):
    id: str
    file: str | None
    line: int | None
    found: str | None
    expected: str | None
    hint: str | None

@final
class Machine:
    @property
    def source(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def routing_text(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def shape(self) -> list[int] | None: ...
    @property
    def routers(self) -> list[str]: ...
    @property
    def nodes(self) -> list[str]: ...
    @property
    def link_count(self) -> int: ...
    @property
    def kinds(self) -> list[str]: ...
    def find_node(self, name: str) -> int: ...
    def router_of(self, node: int) -> int: ...
    def coordinates(self, router: int) -> list[int] | None: ...
    def route(self, from_node: str, to_node: str) -> list[int]: ...
    def grid(self) -> tuple[list[int], list[list[int]], list[int]] | None: ...
    def svg(
        self,
        loads: ArrayLike | None = None,
        *,
        name: str = "load",
        unit: Literal["s", "B", "ratio", "count"] = "ratio",
        title: str = "",
        worst: int = 10,
    ) -> str: ...
    def _repr_svg_(self) -> str: ...

@final
class Links:
    @property
    def names(self) -> list[str]: ...
    @property
    def ends(self) -> list[str]: ...
    @property
    def source(self) -> str | None: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def window_seconds(self) -> float | None: ...
    @property
    def from_router(self) -> NDArray[np.int32]: ...
    @property
    def to_router(self) -> NDArray[np.int32]: ...
    @property
    def kind(self) -> NDArray[np.uint16]: ...
    @property
    def direction(self) -> NDArray[np.int16]: ...
    @property
    def capacity_bytes_per_s(self) -> NDArray[np.float64]: ...
    @property
    def latency_seconds(self) -> NDArray[np.float64]: ...
    @property
    def hop(self) -> NDArray[np.bool_]: ...
    @property
    def received_bytes(self) -> NDArray[np.float64]: ...
    @property
    def packets(self) -> NDArray[np.float64]: ...
    @property
    def used_ratio(self) -> NDArray[np.float64]: ...
    @property
    def input_stall_ratio(self) -> NDArray[np.float64]: ...
    @property
    def credit_stall_ratio(self) -> NDArray[np.float64]: ...
    @property
    def input_stall_seconds(self) -> NDArray[np.float64]: ...
    @property
    def credit_stall_seconds(self) -> NDArray[np.float64]: ...
    @property
    def errors(self) -> NDArray[np.float64]: ...
    @property
    def errors_at_least(self) -> NDArray[np.bool_]: ...
    @property
    def lanes(self) -> NDArray[np.float64]: ...
    @property
    def coverage(self) -> NDArray[np.float64]: ...
    def columns(self) -> dict[str, list[str] | NDArray[np.generic]]: ...
    def _repr_svg_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class RouteCosts:
    @property
    def matrix(self) -> NDArray[np.float32]: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def metric(self) -> _Metric: ...
    @property
    def aggregate(self) -> _Aggregate: ...
    @property
    def over(self) -> _Over: ...
    @property
    def unit(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Traffic:
    @staticmethod
    def of_pairs(
        from_rank: ArrayLike,
        to_rank: ArrayLike,
        bytes: ArrayLike,
        tasks: int | None = None,
    ) -> Traffic: ...
    @staticmethod
    def of_matrix(matrix: ArrayLike) -> Traffic: ...
    @property
    def source(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def tasks(self) -> int: ...
    @property
    def total_bytes(self) -> float: ...
    @property
    def from_rank(self) -> NDArray[np.uint32]: ...
    @property
    def to_rank(self) -> NDArray[np.uint32]: ...
    @property
    def bytes(self) -> NDArray[np.float64]: ...
    @property
    def messages(self) -> NDArray[np.uint64]: ...
    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Placement:
    @property
    def node(self) -> NDArray[np.uint32]: ...
    @property
    def slot(self) -> NDArray[np.uint32]: ...
    @property
    def node_names(self) -> list[str]: ...
    def moved(self, other: Placement) -> int: ...
    def render(self, to: _Launcher) -> str: ...
    def write(self, to: _Launcher, path: _Path, *, force: bool = False) -> None: ...
    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...
    def __iter__(self) -> Iterator[tuple[str, int]]: ...
    def __getitem__(self, rank: SupportsIndex, /) -> tuple[str, int]: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Evaluation:
    @property
    def worst_link_seconds(self) -> float: ...
    @property
    def turn_seconds(self) -> list[float]: ...
    @property
    def worst_link(self) -> str | None: ...
    @property
    def worst_network_link_seconds(self) -> float: ...
    @property
    def hop_bytes(self) -> float: ...
    @property
    def average_dilation(self) -> float: ...
    @property
    def off_node_bytes(self) -> float: ...
    @property
    def link_bytes(self) -> NDArray[np.float64]: ...
    @property
    def link_seconds(self) -> NDArray[np.float64]: ...
    def _repr_html_(self) -> str: ...

@final
class Mapping:
    @property
    def placement(self) -> Placement: ...
    @property
    def before(self) -> Placement: ...
    @property
    def result(self) -> Evaluation: ...
    @property
    def baseline(self) -> Evaluation: ...
    @property
    def improved(self) -> bool: ...
    @property
    def machine(self) -> Machine: ...
    def certificate_json(self) -> str: ...
    def document(self, path: _Path | None = None) -> str: ...
    def report(self, path: _Path | None = None, *, title: str = "") -> str: ...
    def _repr_html_(self) -> str: ...

# What pickles call.
def _links(machine: Machine, files: str | None) -> Links: ...
def _machine(source: str) -> Machine: ...
def _placement(
    machine: Machine, nodes: Sequence[tuple[str, int]], ranks: Sequence[tuple[int, int]]
) -> Placement: ...
def _traffic(
    source: str,
    tasks: int,
    from_rank: NDArray[np.uint32],
    to_rank: NDArray[np.uint32],
    bytes: NDArray[np.float64],
) -> Traffic: ...
def run(arguments: Sequence[str]) -> int: ...
def load_fabric(
    source: _Path,
    *,
    routes: Sequence[_Path] = ...,
    system_map: _Path | None = None,
    names: _Path | None = None,
    hosts: Sequence[str] = ...,
    down: Sequence[str] = ...,
    routing: str | None = None,
) -> Machine: ...
def links(
    machine: Machine,
    *counters: _Path,
    interval: float | None = None,
    region: int | None = None,
    node: str | None = None,
    at: float | None = None,
    token: _Path | None = None,
    tls_ca: _Path | None = None,
) -> Links: ...
def route_costs(
    machine: Machine,
    nodes: Sequence[str] | None = None,
    *,
    metric: _Metric = "hops",
    aggregate: _Aggregate = "sum",
    over: _Over = "request",
    links: Links | None = None,
) -> RouteCosts: ...
def load_traffic(source: _Path) -> Traffic: ...
def load_placement(
    source: _Path,
    machine: Machine,
    *,
    nodes: str | Sequence[str] | None = None,
    ranks_per_node: int = 1,
) -> Placement: ...
def place(
    machine: Machine,
    nodes: str | Sequence[str],
    *,
    tasks: int | None = None,
    ranks_per_node: int | None = None,
    how: Literal["by-rank", "in-order", "round-robin"] = "by-rank",
) -> Placement: ...
def evaluate(
    traffic: Traffic,
    placement: Placement,
    machine: Machine,
    *,
    background: Links | None = None,
    response_fraction: float | None = None,
    wire: str = "auto",
) -> Evaluation: ...
def map(
    traffic: Traffic,
    machine: Machine,
    nodes: str | Sequence[str] = "all",
    *,
    ranks_per_node: int | None = None,
    objective: _Objective = "worst-link",
    metric: _Metric = "hops",
    aggregate: _Aggregate | None = None,
    background: Links | None = None,
    current: Placement | None = None,
    response_fraction: float | None = None,
    wire: str = "auto",
    seconds: float = 2.0,
    trials: int | None = None,
    seed: int = 1,
    threads: int = 0,
    keep: Literal["groups", "hosts", "nothing"] = "groups",
) -> Mapping: ...
def verify(
    machine: Machine,
    after: Links,
    before: Links | None,
    mapping: Mapping | _Path | None,
    repeats: float,
    tolerance: float,
) -> tuple[str, str, bool]: ...
def predict(
    trace: str,
    machine: Machine,
    placements: Sequence[_Path],
    network: str,
    nodes: str | None,
    ranks_per_node: int | None,
    seed: int,
    collectives: str | None,
    operations_per_second: float | None,
) -> tuple[str, str, bool]: ...
def model(
    name: str,
    text: str | None,
    level: str | None,
    link: float | None,
    injection: float | None,
    latency: float | None,
    message_rate: float | None,
    cpu: float | None,
    placement: _Path | None,
    network: str | None,
) -> tuple[str, str, bool]: ...
def analyse_probe(
    results_of: Sequence[_Path], machine: Machine, tolerance: float | None, expected: dict[str, float]
) -> tuple[str, str, bool]: ...
def blame(
    machine: Machine, links: Links, jobs: _Path | None, jobs_at: float | None, recorded: Sequence[str]
) -> tuple[str, str, bool]: ...
def explain_errors(ids: Sequence[str]) -> list[tuple[str, str]]: ...
def store_history(
    store: _Path, machine: Machine, start: float | None, end: float | None, only: Sequence[str] | None
) -> tuple[dict[str, list[str] | NDArray[np.generic]], list[str]]: ...
