#!/usr/bin/env python3
"""Runs the fuzz targets one after the other; stops with status 1 at the first finding.

Each target starts from its seeds (fuzz/seeds/TARGET) and its kept corpus (fuzz/kept/TARGET.tar.gz), and grows
fuzz/corpus/TARGET. --count adds the executions to the table of fuzz/README.md; --keep minimises the corpus of a target
and writes it to fuzz/kept.
"""

import argparse
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
README = FUZZ / "README.md"
MARK = "<!-- executions: written by scripts/fuzz.py --count -->"
# Kept inputs per target: the repository holds less than 2 MB of them.
MOST_KEPT = 64 << 10


def build() -> Path:
    env = os.environ | {"RUSTC_BOOTSTRAP": "1"}
    env["PATH"] += f":{Path.home()}/.cargo/bin"
    if shutil.which("cargo-fuzz", path=env["PATH"]) is None:
        subprocess.run(["cargo", "install", "--locked", "cargo-fuzz"], check=True, env=env)
    command = ["cargo", "fuzz", "build", "--sanitizer", "none", "reader"]
    subprocess.run(command, check=True, env=env, cwd=ROOT)
    return program()


def program() -> Path:
    found = sorted(FUZZ.glob("target/*/release/reader"))
    if not found:
        sys.exit("found no fuzz/target/*/release/reader, expected one: run without --no-build")
    return found[-1]


def unpack(target: str) -> None:
    """Unpacks the kept corpus once."""
    corpus, kept = FUZZ / "corpus" / target, FUZZ / "kept" / f"{target}.tar.gz"
    if corpus.is_dir():
        return
    corpus.mkdir(parents=True)
    if kept.is_file():
        with tarfile.open(kept) as archive:
            for member in archive.getmembers():
                data = archive.extractfile(member)
                if data is not None and "/" not in member.name:
                    (corpus / member.name).write_bytes(data.read())


def libfuzzer(reader: Path, target: str, *arguments: str) -> str:
    """Runs the program on a target; returns its messages."""
    command = [str(reader), *arguments, "-rss_limit_mb=2048"]
    run = subprocess.run(
        command, env=os.environ | {"HOPBYTE_FUZZ": target}, cwd=ROOT, capture_output=True, text=True, errors="replace"
    )
    return run.stderr


def fuzz(reader: Path, target: str, seconds: int, longest: int) -> tuple[int, list[str]]:
    """Executions, and findings."""
    unpack(target)
    artifacts = FUZZ / "artifacts" / target
    artifacts.mkdir(parents=True, exist_ok=True)
    # Without time the corpus itself is run: a regression test.
    bound = f"-max_total_time={seconds}" if seconds > 0 else "-runs=0"
    text = libfuzzer(
        reader,
        target,
        str(FUZZ / "corpus" / target),
        str(FUZZ / "seeds" / target),
        f"-artifact_prefix={artifacts}/",
        bound,
        f"-timeout={longest}",
        f"-report_slow_units={longest}",
        "-print_final_stats=1",
    )
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", text))
    executions = int(stats.get("number_of_executed_units", 0))
    print(f"{target}: {executions} executions, {stats.get('peak_rss_mb', '?')} MB", flush=True)
    findings = [str(path.relative_to(ROOT)) for path in sorted(artifacts.iterdir())]
    if findings:
        shown = re.findall(r"panicked at .*\n.*|ERROR: .*|SUMMARY: .*", text)
        print("\n".join(shown), file=sys.stderr)
    elif "stat::" not in text:
        findings = [f"{target}: the program ended without statistics:\n{text[-2000:]}"]
    return executions, findings


def keep(reader: Path, target: str) -> None:
    """Minimises the corpus, and keeps the smallest inputs of it that fit in MOST_KEPT."""
    corpus, smaller = FUZZ / "corpus" / target, FUZZ / "corpus" / f".{target}"
    shutil.rmtree(smaller, ignore_errors=True)
    smaller.mkdir(parents=True)
    libfuzzer(reader, target, "-merge=1", "-timeout=60", str(smaller), str(corpus), str(FUZZ / "seeds" / target))
    inputs = sorted(smaller.iterdir(), key=lambda p: (p.stat().st_size, p.name))
    if not inputs:
        shutil.rmtree(smaller)
        return
    seeds = {path.read_bytes() for path in (FUZZ / "seeds" / target).iterdir()}
    packed, left = io.BytesIO(), MOST_KEPT
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in inputs:
            data = path.read_bytes()
            left -= len(data)
            if left < 0:
                break
            if data not in seeds:
                member = tarfile.TarInfo(path.name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    kept = FUZZ / "kept"
    kept.mkdir(exist_ok=True)
    # Without a time: equal inputs give equal bytes.
    (kept / f"{target}.tar.gz").write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    shutil.rmtree(corpus)
    smaller.rename(corpus)


def count(added: dict[str, int]) -> None:
    """Adds executions to the table of the README."""
    head, _, table = README.read_text().partition(MARK)
    totals = {name: int(n.replace(",", "")) for name, n in re.findall(r"^\| `(\w+)` \| ([\d,]+) \|$", table, re.M)}
    for target, executions in added.items():
        totals[target] = totals.get(target, 0) + executions
    rows = [f"| `{name}` | {totals[name]:,} |" for name in sorted(totals)]
    lines = ["", "", "| target | executions |", "|---|---:|", *rows, f"| all | {sum(totals.values()):,} |", ""]
    README.write_text(head + MARK + "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="folders of fuzz/seeds (default: all)")
    parser.add_argument("--seconds", type=int, default=30, help="time of each target; 0 runs the corpus only")
    parser.add_argument("--total-seconds", type=int, help="time of all targets together, in place of --seconds")
    parser.add_argument("--count", action="store_true", help="add the executions to the table of fuzz/README.md")
    parser.add_argument("--keep", action="store_true", help="write the minimised corpus to fuzz/kept")
    parser.add_argument("--timeout", type=int, default=10, help="seconds of an input, by the clock, that are a finding")
    parser.add_argument("--no-build", action="store_true", help="run the program that is built")
    options = parser.parse_args()
    targets = options.targets or sorted(path.name for path in (FUZZ / "seeds").iterdir())
    seconds = options.seconds
    if options.total_seconds is not None:
        seconds = max(1, options.total_seconds // len(targets))
    reader = program() if options.no_build else build()
    for target in targets:
        executions, findings = fuzz(reader, target, seconds, options.timeout)
        if options.count:
            count({target: executions})
        if findings:
            sys.exit("found: " + " ".join(findings))
        if options.keep:
            keep(reader, target)


if __name__ == "__main__":
    main()
