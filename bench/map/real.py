#!/usr/bin/env python3
"""The mapper on published jobs: the second half of `make bench-map`.

A job of PlaFRIM on the slots that it had, the published 64-rank matrices of AMG and CG (arXiv 2005.10413) and NPB SP
class D on 1,024 ranks through the command, QAPLIB through the benchmark program. Prints two tables and puts them into
bench/results/map.md. The files are in the folder of captures (`$HOPBYTE_SHARED/data`, or `../shared/data` beside the
checkout); missing files are skipped with a message.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from page import into_page
from run import ROOT, build_bench, built

DATA = Path(os.environ.get("HOPBYTE_SHARED", ROOT.parent / "shared")) / "data"
# Instances in the folder of captures; those of `$HOPBYTE_QAPLIB`, if set, follow. Seconds of search on one thread.
QAP = ["chr12a", "esc16a", "nug12", "tai12a", "els19", "bur26a", "nug30", "sko42"]
QAP_SECONDS = 10
QAP_SEEDS = (1, 2, 3)
# Three nodes of one switch have no links but those of the hosts.
WORST = {"PlaFRIM": "worst-link"}
# The best of the twelve published maps of each, evaluated by our metrics: worst link in ms, hop-bytes in GB (two maps).
PUBLISHED = {"AMG": (4.51, 5.78), "CG": (63.2, 85.4)}


def unpacked(path: Path) -> str:
    """Text of a .zst file, through the zstd program."""
    return subprocess.run(["zstd", "-dcq", str(path)], check=True, capture_output=True, text=True).stdout


def edges(text: str) -> tuple[int, dict[tuple[int, int], float]]:
    """Bytes by pair, of a dense matrix or of a count and `from to bytes` lines."""
    rows = list(csv.reader(text.split("\n"), delimiter="," if "," in text else " "))
    rows = [row for row in rows if row]
    if len(rows[0]) == 1:
        return int(rows[0][0]), {(int(a), int(b)): float(w) for a, b, w in rows[1:]}
    return len(rows), {(a, b): float(w) for a, row in enumerate(rows) for b, w in enumerate(row) if w.strip()}


def mean_of_both_ways(text: str, out: Path) -> Path:
    """The traffic with the mean of both directions for every pair, as in the study with the published figures."""
    ranks, sent = edges(text)
    pairs = {(min(a, b), max(a, b)) for a, b in sent if a != b}
    mean = {(a, b): round((sent.get((a, b), 0) + sent.get((b, a), 0)) / 2) for a, b in sorted(pairs)}
    lines = [f"{x},{y},{w}\n" for (a, b), w in mean.items() for x, y in ((a, b), (b, a)) if w]
    out.write_text(f"# {ranks} ranks\nsrc,dst,bytes\n" + "".join(lines))
    return out


def jobs(folder: Path) -> list[tuple[str, str, list[str]]]:
    """Name, allocation and arguments for `hopbyte map` of every job with its files present."""
    found = []
    plafrim, comm = DATA / "infiniband/plafrim2", DATA / "comm"
    if plafrim.exists():
        subnet, routes = plafrim / "ib-subnet-fe80_0000_0000_0000.txt", plafrim / "ibroutes-fe80_0000_0000_0000"
        words = [plafrim / "app.mat", "--fabric", subnet, "--routes", routes, "--current", plafrim / "resources.txt"]
        found.append(("PlaFRIM", "its 3 nodes", [str(w) for w in words]))
    for name, file in (("AMG", "maplib-amg-64.bytes.csv.zst"), ("CG", "maplib-cg-64.bytes.csv.zst")):
        if (comm / file).exists():
            traffic = mean_of_both_ways(unpacked(comm / file), folder / f"{name}.csv")
            found.append((name, "torus 4x4x4", on_gemini(traffic, "4x4x4", folder)))
    if (comm / "npb-sp-D-1024.topo.zst").exists():
        traffic = mean_of_both_ways(unpacked(comm / "npb-sp-D-1024.topo.zst"), folder / "SP.csv")
        found.append(("NPB SP", "torus 8x8x16", on_gemini(traffic, "8x8x16", folder)))
    return found


def on_gemini(traffic: Path, shape: str, folder: Path) -> list[str]:
    """One rank on the first node of every router."""
    x, y, z = (int(n) for n in shape.split("x"))
    nodes = folder / f"{shape}.nodes"
    nodes.write_text("".join(f"{2 * router}\n" for router in range(x * y * z)))
    return [str(traffic), "--fabric", f"gemini:{shape}", "--nodes", f"@{nodes}", "--ranks-per-node", "1"]


def job_rows(hopbyte: str, folder: Path) -> list[str]:
    """Every job with both objectives."""
    heads = ["job", "ranks", "where", "objective"]
    for figure in ("worst link ms", "hop-bytes GB"):
        heads += [f"{figure}: before", "mapped", "bound", "published"]
    heads.append("CPU s")
    out = [f"| {' | '.join(heads)} |", "|---|---:|---|---|" + "---:|" * 9]
    for name, where, words in jobs(folder):
        worst_link = WORST.get(name, "worst-network-link")
        for objective, shown in ((worst_link, "worst link"), ("hop-bytes", "hop-bytes")):
            trials = "4000000" if name == "NPB SP" else "400000"
            command = [hopbyte, "--json", "-q", "map", *words, "--objective", objective, "--trials", trials]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}\n{done.stderr}")
            a = json.loads(done.stdout)
            placements = (a.get("current") or a["baseline"], a["result"], a["bound"])
            worst = [f"{p[worst_link.replace('-', '_') + '_seconds'] * 1e3:,.3f}" for p in placements]
            hops = [f"{p['hop_bytes'] / 1e9:,.3f}" for p in placements]
            known = [f"{v:,}" for v in PUBLISHED.get(name, ())] or ["", ""]
            cells = [name, str(len(a["placement"])), where, shown, *worst, known[0], *hops, known[1]]
            out.append(f"| {' | '.join(cells)} | {a['cpu_seconds']:.2f} |")
            print(out[-1], file=sys.stderr, flush=True)
    return out


def qap_files() -> list[Path]:
    """Instances with a best known value; missing ones are named."""
    files = [DATA / f"qaplib/{name}.dat" for name in QAP]
    for file in files:
        if not file.exists():
            print(f"{file.stem} skipped: its file is not here", file=sys.stderr)
    folder = os.environ.get("HOPBYTE_QAPLIB")
    more = sorted(Path(folder).glob("*.dat")) if folder else []
    return [f for f in files if f.exists()] + [f for f in more if f.stem not in QAP and f.with_suffix(".sln").exists()]


def qap_rows(program: str) -> list[str]:
    """Every instance beside the best known value: the median and the worst of the seeds."""
    out = ["| instance | best known | median | above % | worst | above % | CPU s |", "|---|---:|---:|---:|---:|---:|---:|"]
    for file in qap_files():
        runs = []
        for seed in QAP_SEEDS:
            command = [program, "qap", str(file), str(QAP_SECONDS), str(seed)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append(json.loads(done.stdout))
        runs.sort(key=lambda r: r["found"])
        cells = [file.stem, f"{runs[0]['best_known']:,.0f}"]
        for run in (runs[len(runs) // 2], runs[-1]):
            cells += [f"{run['found']:,.0f}", f"{run['above_percent']:.2f}"]
        out.append(f"| {' | '.join(cells)} | {max(r['search_cpu_seconds'] for r in runs):.1f} |")
        print(out[-1], file=sys.stderr, flush=True)
    return out


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopbyte", help="the program, instead of building it")
    hopbyte = parser.parse_args().hopbyte or built("hopbyte", "build", "--locked", "--release", "-p", "hopbyte-cli", "--bin", "hopbyte")
    with tempfile.TemporaryDirectory() as folder:
        tables = [job_rows(hopbyte, Path(folder)), qap_rows(build_bench())]
    for table in tables:
        print(*table, "", sep="\n")
        if len(table) > 2:
            into_page(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
