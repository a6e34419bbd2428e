"""Commands measured, and tables in a page of bench/results."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results"


def measured(command: list[str]) -> tuple[str, float, float, float] | None:
    """Runs a command: its output, processor seconds, time and peak memory in MB; None if it fails."""
    with tempfile.TemporaryFile("w+") as out:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode:
            return None
        return out.read(), usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


def into_page(table: list[str], page: Path = RESULTS / "map.md") -> None:
    """Replaces the table with the same first columns in a page."""
    lines = page.read_text().split("\n")
    first = " | ".join(table[0].split(" | ")[:3])
    begin = next(i for i, text in enumerate(lines) if text.startswith(first))
    end = next(i for i, text in enumerate(lines) if i > begin and not text.startswith("|"))
    page.write_text("\n".join(lines[:begin] + table + lines[end:]))
