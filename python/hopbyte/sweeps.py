"""Sweeps over operating points on more than one machine.

``hopbyte sweep --points I/N`` runs one part of a sweep; a Slurm array needs nothing else. Here the parts are
tasks of a Dask cluster whose workers have this package. They share no file system: scenarios go there, runs come
back.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hopbyte._core import HopbyteError


def _hopbyte(words: Sequence[str], folder: str) -> str:
    command = [sys.executable, "-m", "hopbyte", "--quiet", "--json", "sweep", *words]
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
    """Runs one part where a worker is, and returns its journal."""
    with tempfile.TemporaryDirectory(prefix="hopbyte-sweep-") as folder:
        names = _write(texts, folder)
        _hopbyte([*names, *options, "--jobs", "1", "--out", "part.parquet", "--points", part], folder)
        journals = sorted(Path(folder).glob("part.parquet.*.jsonl"))
        return journals[0].read_text(encoding="utf-8") if journals else ""


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
    cross: bool = False,
    trials: int = 1,
    placement: str | None = None,
    noise: float | None = None,
    level: str | None = None,
    plot: str | Path | None = None,
    parts: int | None = None,
) -> list[dict[str, Any]]:
    """Runs ``hopbyte sweep`` on the workers of a :class:`dask.distributed.Client`.

    Arguments mean what the options of the command mean. ``scenarios`` are files here; machines and traffic that
    they name are specs, or files that workers find under the same path. ``parts`` is the number of tasks (default:
    four a thread of the cluster). Writes all runs to ``out`` (Parquet) and returns the sensitivities, a dictionary
    a scenario and axis. The result is the same as that of one machine, byte for byte.
    """
    texts = [Path(s).read_text(encoding="utf-8") for s in scenarios]
    options: list[str] = ["--trials", str(trials)]
    axes = {"link": link, "injection": injection, "latency": latency, "message-rate": message_rate, "cpu": cpu}
    for name, factors in axes.items():
        if len(factors) > 0:
            options += [f"--{name}", ",".join(repr(float(f)) for f in factors)]
    for name, value in {"placement": placement, "noise": noise, "level": level}.items():
        if value is not None:
            options += [f"--{name}", str(value)]
    if cross:
        options.append("--cross")
    count = parts or 4 * max(1, sum(client.nthreads().values()))
    tasks = [client.submit(_part, texts, options, f"{i}/{count}", pure=False) for i in range(1, count + 1)]
    target = Path(out).resolve()
    for i, journal in enumerate(client.gather(tasks), start=1):
        if journal:
            Path(f"{target}.{i}of{count}.jsonl").write_text(journal, encoding="utf-8")
    if plot is not None:
        options += ["--plot", str(Path(plot).resolve())]
    with tempfile.TemporaryDirectory(prefix="hopbyte-sweep-") as folder:
        names = _write(texts, folder)
        lines = _hopbyte([*names, *options, "--out", str(target)], folder).splitlines()
    found = [json.loads(line) for line in lines]
    return [f for f in found if f["schema"] == "hopbyte.sensitivity/1"]
