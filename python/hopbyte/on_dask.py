"""Sweeps over operating points, and searches for a mapping, on more than one machine.

``hopbyte sweep --points I/N`` runs one part of a sweep, ``hopbyte map --part I/N`` one part of a search; a Slurm array
needs nothing else. Here the parts are tasks of a Dask cluster with this package on its workers. A shared file system
is not needed: scenarios are sent to the workers, and results are returned.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hopbyte._core import HopbyteError


def _hopbyte(words: Sequence[str], folder: str) -> str:
    command = [sys.executable, "-m", "hopbyte", "--quiet", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        raise HopbyteError(done.stderr.strip())
    return done.stdout


def _write(texts: Sequence[str], folder: str) -> list[str]:
    names = [f"scenario{i}.toml" for i in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (Path(folder) / name).write_text(text, encoding="utf-8")
    return names


def _part(texts: Sequence[str], options: Sequence[str], part: str) -> str:
    """Runs one part on a worker and returns its journal."""
    with tempfile.TemporaryDirectory(prefix="hopbyte-sweep-") as folder:
        names = _write(texts, folder)
        _hopbyte(["sweep", *names, *options, "--jobs", "1", "--out", "part.parquet", "--points", part], folder)
        journals = sorted(Path(folder).glob("part.parquet.*.jsonl"))
        return journals[0].read_text(encoding="utf-8") if journals else ""


def _threads(client: Any) -> int:
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _option(name: str, value: Any) -> list[str]:
    """An option of the command; a :class:`~pathlib.Path` is made absolute for the workers."""
    word = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [word]
    if isinstance(value, (list, tuple)):
        return [w for one in value for w in _option(name, one)]
    return [word, str(value.resolve() if isinstance(value, Path) else value)]


def _options(given: Mapping[str, Any]) -> list[str]:
    return [word for name, value in given.items() for word in _option(name, value)]


def sweep_on_dask(
    client: Any,
    scenarios: Iterable[str | Path],
    *,
    out: str | Path,
    link: Sequence[float] = (),
    injection: Sequence[float] = (),
    latency: Sequence[float] = (),
    message_rate: Sequence[float] = (),
    cpu: Sequence[float] = (),
    memory: Sequence[float] = (),
    interruptions: Sequence[float] = (),
    cross: bool = False,
    trials: int = 1,
    placement: str | None = None,
    noise: float | None = None,
    level: str | None = None,
    plot: str | Path | None = None,
    parts: int | None = None,
) -> list[dict[str, Any]]:
    """Runs ``hopbyte sweep`` on the workers of a :class:`dask.distributed.Client`.

    Arguments correspond to the options of the command. ``scenarios`` are files on this machine; machines and traffic
    that they name are specs, or files at the same path on every worker. ``parts`` is the number of tasks (default:
    four per thread of the cluster). Writes all runs to ``out`` (Parquet) and returns the sensitivities, a dictionary
    per scenario and axis. The result is byte-identical to that of a single machine.
    """
    texts = [Path(s).read_text(encoding="utf-8") for s in scenarios]
    axes = {"link": link, "injection": injection, "latency": latency, "message_rate": message_rate, "cpu": cpu}
    axes |= {"memory": memory, "interruptions": interruptions}
    given: dict[str, Any] = {name: ",".join(repr(float(f)) for f in factors) or None for name, factors in axes.items()}
    given |= {"trials": trials, "placement": placement, "noise": noise, "level": level, "cross": cross}
    options = _options(given)
    count = parts or 4 * _threads(client)
    tasks = [client.submit(_part, texts, options, f"{i}/{count}", pure=False) for i in range(1, count + 1)]
    target = Path(out).resolve()
    for i, journal in enumerate(client.gather(tasks), start=1):
        if journal:
            Path(f"{target}.{i}of{count}.jsonl").write_text(journal, encoding="utf-8")
    if plot is not None:
        options += ["--plot", str(Path(plot).resolve())]
    with tempfile.TemporaryDirectory(prefix="hopbyte-sweep-") as folder:
        names = _write(texts, folder)
        lines = _hopbyte(["sweep", *names, *options, "--out", str(target)], folder).splitlines()
    found = [json.loads(line) for line in lines]
    return [f for f in found if f["schema"] == "hopbyte.sensitivity/1"]


def _search(words: Sequence[str], part: str) -> str:
    """Searches from one part of the seeds on a worker, and returns the part's result file."""
    with tempfile.TemporaryDirectory(prefix="hopbyte-map-") as folder:
        _hopbyte(["map", *words, "--out", folder, "--part", part], folder)
        return "".join(path.read_text(encoding="utf-8") for path in Path(folder).glob("part-*.json"))


def map_on_dask(
    client: Any,
    traffic: str | Path,
    *,
    seeds: int,
    out: str | Path,
    parts: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Searches from many seeds on the workers of a :class:`dask.distributed.Client` and keeps the best mapping.

    ``options`` are those of ``hopbyte map``: ``fabric="gemini:16x12x24", nodes="all", trials=10_000_000``. ``seeds``
    is the number of seeds from ``seed`` (1) on. Strings are passed to the command unchanged; a :class:`~pathlib.Path`
    is a file at the same absolute path on every worker. ``parts`` is the number of tasks (default: one per thread of
    the cluster), each with one search thread. Writes every launcher's file and ``mapping.json`` into the folder
    ``out`` and returns the content of the latter. With ``trials`` the result does not depend on the number of parts
    and equals that of a single machine.
    """
    place = str(traffic.resolve()) if isinstance(traffic, Path) else traffic
    options = {"threads": 1, **options}
    words = [place, "--seeds", str(seeds), *_options(options)]
    count = min(parts or _threads(client), seeds)
    tasks = [client.submit(_search, words, f"{i}/{count}", pure=False) for i in range(1, count + 1)]
    folder = Path(out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for i, found in enumerate(client.gather(tasks), start=1):
        (folder / f"part-{i}of{count}.json").write_text(found, encoding="utf-8")
    best: dict[str, Any] = json.loads(_hopbyte(["map", *words, "--out", str(folder)], str(folder)))
    return best
