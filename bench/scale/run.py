"""Time and memory for reading, checking and routing machines of growing size.

    python3 bench/scale/run.py [HOPBYTE]

Writes fat trees as dumps with `hopbyte fabric convert`, then runs `hopbyte fabric check` on each: read the
file, walk the routes of all pairs of nodes, look for credit loops. Prints CPU and wall seconds and
peak memory, and fails when 100,000 ports take 1.5 GB, or 10 s of both wall time and CPU time (on a busy
machine only CPU time is meaningful).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 10.0
MEGABYTES = 1500.0
# Switch radix of three-level trees. Binary dumps by end ports: k^3 / 4. Subnets by switch ports, 5 k^3 / 4, for
# InfiniBand has LIDs for 49,151 ends.
ENDS = (34, 48, 74)
SUBNETS = (20, 30, 44)


def run(words: list[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak megabytes of a command that must succeed."""
    begin = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(words)} ended with {child.returncode}")
    wall = time.monotonic() - begin
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6


def main() -> int:
    hopbyte = sys.argv[1] if len(sys.argv) > 1 else "target/release/hopbyte"
    late = 0
    print("ports     nodes  switches  dump                         MB   CPU s  wall s  peak MB")
    with tempfile.TemporaryDirectory() as folder:
        for k, forms in [(k, ("rule", "tables", "scan")) for k in ENDS] + [(k, ("subnet",)) for k in SUBNETS]:
            nodes, switches = k**3 // 4, 5 * k * k // 4
            for form in forms:
                files, ports = write(hopbyte, Path(folder), k, form), nodes
                if form == "subnet":
                    ports = k * switches
                size = sum(f.stat().st_size for f in files) / 1e6
                cpu, wall, peak = run([hopbyte, "-q", "fabric", "check", str(files[0])])
                if ports >= 100_000 and (min(cpu, wall) > SECONDS or peak > MEGABYTES):
                    late += 1
                print(
                    f"{ports:7,}  {nodes:7,}  {switches:8,}  {NAMES[form]:24} {size:7.1f}"
                    f" {cpu:7.2f} {wall:7.2f} {peak:8.0f}",
                    flush=True,
                )
                for file in files:
                    file.unlink()
    return 1 if late else 0


NAMES = {
    "rule": "binary, routes by rule",
    "tables": "binary, all tables",
    "scan": "ibnetdiscover, no tables",
    "subnet": "ibnetdiscover and LFTs",
}


def write(hopbyte: str, folder: Path, k: int, form: str) -> list[Path]:
    """Writes a tree in one of the forms."""
    convert = [hopbyte, "-q", "fabric", "convert", f"fattree:k={k},levels=3", "--out"]
    if form in ("rule", "tables"):
        file = folder / f"{form}.hbm"
        run([*convert, str(file), *(["--tables"] if form == "tables" else [])])
        return [file]
    files = [folder / f"{form}.ibnetdiscover"]
    if form == "subnet":
        files.append(folder / f"{form}.lfts")
    for file in files:
        run([*convert, str(file)])
    return files


if __name__ == "__main__":
    sys.exit(main())
