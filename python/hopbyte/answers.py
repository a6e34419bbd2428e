"""Answers of the verbs: verify, predict, model, blame, probe analysis, and any other command.

Every function returns a :class:`Report`: the fields of the command's ``--json``, its text, whether the answer is
yes, and its tables as columns or data frames.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from numbers import Real
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from hopbyte import _core
from hopbyte._core import HopbyteError, Links, Machine

if TYPE_CHECKING:
    import pandas as pd

_Path: TypeAlias = str | PathLike[str]
_MOST_ROWS = 30
_T = TypeVar("_T")
Axis: TypeAlias = Literal["link", "injection", "latency", "message_rate", "cpu"]
"""Axes of an operating point."""


class Report(Mapping[str, Any]):
    """The answer of a verb, with the fields of its ``--json`` output.

    ``report["helped"]`` is a field; ``report.text`` the text that the command prints, ``report.answer`` whether the
    answer is yes (exit code 0), ``report.rows("placements")`` a table as columns, ``report.frame("placements")`` the
    same as a pandas data frame.
    """

    def __init__(self, fields: dict[str, Any], text: str = "", answer: bool = True) -> None:
        """Wraps the fields of an answer."""
        self._fields = fields
        self._text = text
        self._answer = answer

    @property
    def text(self) -> str:
        """The text of the command; the fields as JSON where it has none of its own."""
        return self._text or json.dumps(self._fields, indent=2, ensure_ascii=False)

    @property
    def answer(self) -> bool:
        """Whether the answer is yes: exit code 0 of the command, not 1."""
        return self._answer

    @property
    def tables(self) -> list[str]:
        """Names of the fields that are tables: lists of objects."""
        return [name for name, value in self._fields.items() if _is_table(value)]

    def rows(self, table: str | None = None) -> dict[str, list[Any]]:
        """A table as columns by name; the first one by default. Missing values are ``None``."""
        names = self.tables
        table = table if table is not None else next(iter(names), None)
        if table not in names:
            raise HopbyteError(f"found table {table!r}, expected one of {', '.join(names) or 'none: it has no table'}")
        columns: dict[str, list[Any]] = {}
        for at, row in enumerate(self._fields[table]):
            for name in row:
                columns.setdefault(name, [None] * at)
            for name, column in columns.items():
                column.append(row.get(name))
        return columns

    def frame(self, table: str | None = None) -> pd.DataFrame:
        """A table as a pandas data frame; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows(table))

    def __getitem__(self, name: str) -> Any:
        """A field."""
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the fields."""
        return iter(self._fields)

    def __len__(self) -> int:
        """Number of fields."""
        return len(self._fields)

    def __repr__(self) -> str:
        """Schema and answer."""
        answer = "yes" if self._answer else "no"
        return f"<hopbyte.Report {self._fields.get('schema', 'without a schema')}: {answer}>"

    def __str__(self) -> str:
        """The text."""
        return self.text

    def _repr_html_(self) -> str:
        plain = {k: v for k, v in self._fields.items() if not isinstance(v, list | dict)}
        parts = [html_table("", {"field": list(plain), "value": list(plain.values())})]
        parts += [html_table(name, self.rows(name)) for name in self.tables]
        return "".join(parts)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(row, dict) for row in value)


def html_table(title: str, columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as an HTML table of at most 30 rows; everything is escaped."""
    length = max((len(values) for values in columns.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = []
    for at in range(min(length, _MOST_ROWS)):
        body.append("".join(f"<td>{escape(_cell(values[at]))}</td>" for values in columns.values()))
    more = f"<caption>{escape(title)}</caption>" if title else ""
    rest = f"<p>… and {length - _MOST_ROWS:,} more rows</p>" if length > _MOST_ROWS else ""
    return f"<table>{more}<thead><tr>{head}</tr></thead><tbody><tr>{'</tr><tr>'.join(body)}</tr></tbody></table>{rest}"


def _cell(value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:,.6g}"


def _report(answer: tuple[str, str, bool]) -> Report:
    fields, text, yes = answer
    return Report(json.loads(fields), text, yes)


def _several(name: str, values: Iterable[_T]) -> list[_T]:
    """A list; one text would be taken letter by letter."""
    if isinstance(values, str | bytes | PathLike):
        raise TypeError(f"{name}: found {values!r}, expected a list")
    return list(values)


def verify(
    machine: Machine,
    after: Links,
    before: Links | None = None,
    *,
    mapping: _core.Mapping | _Path | None = None,
    repeats: float = 1.0,
    tolerance: float = 15.0,
) -> Report:
    """Compares counters of a run with those before it, and with a mapping's prediction (``hopbyte verify``).

    ``after`` and ``before`` are links with counters; ``mapping`` one of this session or a file ``mapping.json``;
    ``repeats`` how often its traffic ran in the counters' window; ``tolerance`` in per cent. The answer is no if the
    worst link did not improve, or not as predicted. Raises :class:`HopbyteError` for links of another machine,
    or without one that was read.
    """
    return _report(_core.verify(machine, after, before, mapping, repeats, tolerance))


def predict(
    trace: _Path,
    machine: Machine,
    placements: Sequence[_Path] = (),
    *,
    network: str = "plain",
    nodes: str | None = None,
    ranks_per_node: int | None = None,
    seed: int = 1,
    collectives: str | None = None,
    operations_per_second: float | None = None,
) -> Report:
    """Run time of a recorded job under each of several placements (``hopbyte predict``), in seconds with intervals.

    ``trace`` is a folder of ``hopbyte record --trace`` or a trace of another format, ``placements`` are files,
    ``network`` rates and delays beyond the links: plain, ethernet, gemini, seastar, infiniband or a file. The table
    ``placements`` has a row per placement. The answer is no if the trace lacks calls.
    """
    return _report(
        _core.predict(
            fspath(trace),
            machine,
            _several("placements", placements),
            network,
            nodes,
            ranks_per_node,
            seed,
            collectives,
            operations_per_second,
        )
    )


def model(
    scenario: _Path | Mapping[str, Any],
    *,
    level: Literal["static", "fluid", "stalls", "packet"] | None = None,
    link: float | None = None,
    injection: float | None = None,
    latency: float | None = None,
    message_rate: float | None = None,
    cpu: float | None = None,
    placement: _Path | None = None,
    network: _Path | None = None,
) -> Report:
    """Run time of a job at an operating point, and the load of every link (``hopbyte model run``).

    ``scenario`` is a TOML or JSON file, or its content as a dictionary; ``level`` and the factors ``link`` to
    ``cpu`` take the place of the scenario's, ``placement`` is a file, ``network`` a preset or a file of rates and
    delays. The table ``links`` has a row per loaded link.
    """
    text: str | None
    if isinstance(scenario, Mapping):
        name, text = "scenario", json.dumps(dict(scenario))
    else:
        name, text = fspath(scenario), None
    rates = fspath(network) if network is not None else None
    return _report(_core.model(name, text, level, link, injection, latency, message_rate, cpu, placement, rates))


def sensitivity(
    scenario: _Path | Mapping[str, Any],
    axes: Sequence[Axis] = ("link", "injection", "latency"),
    factors: Sequence[float] = (1.0, 0.75, 0.5, 0.25),
    *,
    level: Literal["static", "fluid", "stalls", "packet"] | None = None,
) -> Report:
    """Run times of a scenario while one parameter of the network changes at a time.

    The table ``runs`` has the columns ``axis``, ``factor``, ``time_seconds`` and ``slowdown_ratio``, the time over
    that of the unchanged network. For journals and many scenarios use ``hopbyte sweep``.
    """
    numbers = not isinstance(factors, bytes | bytearray | str)
    if not numbers or not all(isinstance(f, Real) and not isinstance(f, bool) for f in factors):
        raise HopbyteError(f"found factors={factors!r}, expected numbers above zero")
    axes = _several("axes", axes)
    base = float(model(scenario, level=level)["time_seconds"])
    runs = []
    for axis in axes:
        for factor in factors:
            point: dict[str, Any] = {axis: factor}
            seconds = float(model(scenario, level=level, **point)["time_seconds"])
            ratio = seconds / base if base > 0 else 1.0
            runs.append({"axis": axis, "factor": factor, "time_seconds": seconds, "slowdown_ratio": ratio})
    return Report({"schema": "hopbyte.sensitivity-runs", "time_seconds": base, "runs": runs})


def analyse_probe(
    results: _Path | Sequence[_Path],
    machine: Machine,
    *,
    tolerance: float | None = None,
    expected: Mapping[str, float] | None = None,
) -> Report:
    """Slow paths of TopoBW results and the components that explain them (``hopbyte probe analyse``).

    ``tolerance`` is the smallest slowdown to report as a share of the expected rate, ``expected`` the rate of kinds of
    link in bytes per second. The answer is no if a path is slow.
    """
    files = [results] if isinstance(results, str | PathLike) else list(results)
    return _report(_core.analyse_probe(files, machine, tolerance, dict(expected or {})))


def blame(
    machine: Machine,
    links: Links,
    *,
    jobs: _Path | None = None,
    jobs_at: float | None = None,
    recorded: Mapping[str, _Path] | None = None,
) -> Report:
    """Causes of a slow network by its counters (``hopbyte blame``): slow links, nodes or adapters, and jobs.

    ``jobs`` is a list of Slurm, PBS, Flux or Kubernetes pods, or a CSV ``job,node[,start,end]``; ``jobs_at`` a time in
    Unix seconds; ``recorded`` names the folder of a record for some of the jobs. The answer is no if there are causes.
    Raises :class:`HopbyteError` if the counters show none of the faults.
    """
    if recorded is not None and not isinstance(recorded, Mapping):
        raise HopbyteError(f"found recorded={recorded!r}, expected a folder by the name of each job")
    given = [f"{job}={fspath(record)}" for job, record in (recorded or {}).items()]
    return _report(_core.blame(machine, links, jobs, jobs_at, given))


def history(
    store: _Path,
    machine: Machine,
    *,
    start: float | None = None,
    end: float | None = None,
    links: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Every reading of a collector's store as a data frame: a row per tick and link; needs pandas.

    ``start`` and ``end`` are seconds since 1970, ``links`` names of links (all that were read by default). Columns:
    ``time_seconds``, ``window_seconds``, ``link``, ``link_number``, ``received_bytes``, ``used_ratio``,
    ``input_stall_ratio``, ``credit_stall_ratio``, ``errors``, ``errors_at_least`` (whether there may be more); missing
    values are not-a-number. Caveats are in ``frame.attrs["notes"]``.
    """
    import pandas as pd

    names = None if links is None else _several("links", links)
    columns, notes = _core.store_history(store, machine, start, end, names)
    frame = pd.DataFrame(columns)
    frame.attrs["notes"] = notes
    return frame


def frame(table: Links | _core.Traffic | _core.Placement | _core.RouteCosts) -> pd.DataFrame:
    """Links, traffic, a placement or route costs as a pandas data frame."""
    import pandas as pd

    if isinstance(table, Links):
        return pd.DataFrame(table.columns())
    if isinstance(table, _core.Traffic):
        names = ("from_rank", "to_rank", "bytes", "messages")
        return pd.DataFrame({name: getattr(table, name) for name in names})
    if isinstance(table, _core.Placement):
        return pd.DataFrame({"rank": range(len(table)), "node": table.node_names, "slot": table.slot})
    if not isinstance(table, _core.RouteCosts):
        raise TypeError(f"found {table!r}, expected links, traffic, a placement or route costs")
    return pd.DataFrame(table.matrix, index=table.names, columns=table.names)


def explain(identifier: str) -> Report:
    """Cause, example and remedy of an error by its identifier, such as ``HB0201`` (``hopbyte explain``)."""
    (fields, text), *_ = _core.explain_errors([identifier])
    return Report(json.loads(fields), text)


def command(*words: str) -> list[Report]:
    """Runs any other command, such as ``command("fabric", "check", "torus:4x4")``, and returns its JSON objects.

    Errors of the command raise :class:`HopbyteError` with its text and ``id``; remarks on standard error are dropped.
    A command without JSON output (a page or picture with ``-o -``) gives one report, its output as the text.
    """
    line = [sys.executable, "-m", "hopbyte", "--json", "--quiet", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = [row for row in map(_object, done.stdout.splitlines()) if row is not None]
    if done.returncode not in (0, 1):
        failed: dict[str, Any] = next((row for row in found if row.get("schema") == "hopbyte.error/1"), {})
        error = HopbyteError(failed.get("message") or done.stderr.strip() or f"exit code {done.returncode}")
        error.id = failed.get("id", error.id)
        raise error
    if not found and done.stdout:
        return [Report({}, done.stdout, done.returncode == 0)]
    return [Report(row, "", done.returncode == 0) for row in found]


def _object(row: str) -> dict[str, Any] | None:
    """The JSON object of a line, if it is one."""
    try:
        value = json.loads(row) if row.startswith("{") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
