"""The trace of `hopbyte record --trace`: every message in order, folded, on every MPI, whatever ends the job."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from program import scaled

from harness import ALL, OMPI, Mpi, launch, read_records, run_command

RANKS = 2
each_mpi = pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)
KINDS = "point+communicators+persistent+regions+bcast+allreduce+alltoallv+gatherv+grid+scan"


def unfolded(lines: list[list[str]], events: dict[int, list[str]]) -> list[tuple[list[str], float]]:
    """The events of a program with their bytes, loops unrolled; a loop's counts are used in order."""
    root: list = []
    stack = [root]
    for cells in lines:
        if cells[0] == "(":
            counts = []
            for part in cells[1].split(","):
                count, _, times = part.partition("*")
                counts += [int(count)] * int(times or 1)
            loop: tuple[list[int], list] = (counts, [])
            stack[-1].append(loop)
            stack.append(loop[1])
        elif cells[0] == ")":
            stack.pop()
        else:
            stack[-1].append((events[int(cells[0])], float(cells[3]) if len(cells) > 3 else 0.0))
    out: list[tuple[list[str], float]] = []

    def run(steps: list) -> None:
        for first, second in steps:
            if isinstance(second, float):
                out.append((first, second))
            else:
                for _ in range(first.pop(0)):
                    run(second)

    run(root)
    return out


def read_trace(path: Path) -> tuple[dict[str, str], list[tuple[list[str], float]]]:
    """Single lines by their first field, and the events in order."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    begin = rows.index(["program"])
    events = {int(r[1]): r[2:] for r in rows[:begin] if r[0] == "event"}
    program = [r for r in rows[begin + 1 :] if r[0].isdigit() or r[0] in "()"]
    return {r[0]: r[1] for r in rows if len(r) == 2}, unfolded(program, events)


@each_mpi
def test_all_messages_are_in_the_trace_and_match(mpi: Mpi, tmp_path: Path) -> None:
    passed = {"HOPBYTE_RECORD_TRACE": "1", "HOPBYTE_RECORD_DIR": str(tmp_path / "record")}
    launch(mpi, RANKS, [mpi.build("traffic.c"), KINDS, "5"], tmp_path, environment=passed).ok()
    records = read_records(tmp_path / "record", RANKS)
    sent: Counter[tuple[int, int]] = Counter()
    messages: Counter[tuple[str, int, int]] = Counter()
    received: Counter[tuple[str, int, int]] = Counter()
    collectives = Counter()
    for rank in range(RANKS):
        lines, events = read_trace(tmp_path / f"record/rank.{rank}.hbt")
        assert lines["ended"] == "finalize"
        assert int(lines["events"]) == len(events)
        open_slots: dict[str, str] = {}
        for (op, _, group, peer, tag, slot, kind, *_), size in events:
            if op == "send":
                sent[rank, int(peer)] += size
                messages[group, rank, int(peer)] += 1
            elif op == "receive":
                assert int(peer) >= 0 or slot != "-1"
                received[group, int(peer), rank] += 1
            elif op == "collective":
                collectives[rank, kind] += 1
            if op in {"send", "receive", "collective"} and slot != "-1":
                # Nobody waits for buffered sends.
                assert open_slots.get(slot, "send") == "send", "a slot that is in use"
                open_slots[slot] = op
            if op == "wait":
                assert open_slots.pop(slot, None), "a wait without a request"
            assert int(tag) >= -1
    expected: Counter[tuple[int, int]] = Counter()
    for rank, record in enumerate(records):
        for (_, to), counts in record.point.items():
            if to >= 0:
                expected[rank, to] += counts["bytes"]
    for pair, size in expected.items():
        assert abs(sent[pair] - size) <= 1e-9 * size + 1e-6, pair
    assert sum(messages.values()) == sum(received.values())
    known = {k: n for k, n in received.items() if k[1] >= 0}
    assert all(messages[k] >= n for k, n in known.items())
    assert all(n == collectives[0, kind] for (_, kind), n in collectives.items() if kind == "allreduce")


@each_mpi
def test_calls_of_threads_are_all_in_the_trace(mpi: Mpi, tmp_path: Path) -> None:
    passed = {"HOPBYTE_RECORD_TRACE": "1", "HOPBYTE_RECORD_DIR": str(tmp_path / "record")}
    program = mpi.build("threads.c", "-pthread")
    launch(mpi, RANKS, [program, "4", "4000"], tmp_path, environment=passed).ok()
    for rank in range(RANKS):
        path = tmp_path / f"record/rank.{rank}.hbt"
        lines, events = read_trace(path)
        assert lines["threads"] == "4"
        operations = Counter(e[0] for e, _ in events)
        # A blocking send that another thread's call came into has a request and a wait.
        begun = sum(e[0] == "send" and e[5] != "-1" for e, _ in events)
        assert operations == {
            "receive": 16000 * RANKS,
            "send": 16000 * RANKS,
            "wait": 16000 * RANKS + begun,
            "end": 1,
        }
        assert sum(size for _, size in events) == RANKS * 4000 * 8 * (1 + 2 + 3 + 4)
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        begin = rows.index(["program"])
        # Overlapping calls of threads do not add up to more than the run; its start and end are fractions of a
        # millisecond outside of all calls, on a loaded machine longer.
        times, stack = 0.0, [1.0]
        for cells in rows[begin + 1 :]:
            if cells[0] == "(":
                counts = [part.partition("*") for part in cells[1].split(",")]
                stack.append(sum(float(c) * float(t or 1) for c, _, t in counts))
            elif cells[0] == ")":
                stack.pop()
            elif cells[0].isdigit():
                times += stack[-1] * sum(float(c) for c in cells[1:3]) * 1e-9
        whole = float(lines["seconds"])
        assert whole * (1 - scaled(0.01)) - 5e-4 <= times <= whole * 1.01 + 5e-4


@each_mpi
def test_a_killed_job_leaves_its_trace(mpi: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    source.write_text(
        """#include <mpi.h>
#include <unistd.h>
int main(int c, char **v) {
    MPI_Init(&c, &v);
    int r, n; double x = 1, y;
    MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (;;) {
        MPI_Sendrecv(&x, 1, MPI_DOUBLE, (r + 1) % n, 3, &y, 1, MPI_DOUBLE, (r + n - 1) % n, 3, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        usleep(1000);
    }
}"""
    )
    program = tmp_path / "loop"
    run_command([mpi.compiler, str(source), "-o", str(program)], tmp_path).ok()
    environment = {
        "LD_PRELOAD": str(mpi.library("record")),
        "HOPBYTE_RECORD_DIR": str(tmp_path / "record"),
        "HOPBYTE_RECORD_TRACE": "1",
    }
    job = subprocess.Popen([*mpi.command(2, environment, []), str(program)], start_new_session=True)
    try:
        deadline = time.monotonic() + scaled(60)
        paths = [tmp_path / f"record/rank.{rank}.hbt" for rank in range(2)]
        while not all(p.exists() for p in paths) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    for path in paths:
        lines, events = read_trace(path)
        assert lines["ended"] == "running"
        assert len(events) >= 256 / scaled(1)
        assert all(e[0] != "end" for e, _ in events)
        assert path.stat().st_size < 10_000


@each_mpi
def test_a_program_with_decimal_commas_leaves_a_readable_trace(mpi: Mpi, tmp_path: Path) -> None:
    """A German program: MPI codes with a graphical or C++ part call setlocale."""
    made = tmp_path / "de_DE.UTF-8"
    make = ["localedef", "-c", "-i", "de_DE", "-f", "UTF-8", str(made)]
    if not shutil.which(make[0]) or subprocess.run(make, check=False, capture_output=True).returncode:
        pytest.skip("no locale with decimal commas can be made here: install locales")
    source = tmp_path / "comma.c"
    source.write_text(
        """#include <locale.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
    double x = 1, y;
    MPI_Init(&c, &v);
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        return 1;
    for (int i = 0; i < 20; i++) {
        usleep(1000 + 300 * i);
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    printf("%.1f\\n", 0.5);
}"""
    )
    program = tmp_path / "comma"
    run_command([mpi.compiler, str(source), "-o", str(program)], tmp_path).ok()
    folder = tmp_path / "record"
    environment = {"LOCPATH": str(tmp_path), "HOPBYTE_RECORD_DIR": str(folder), "HOPBYTE_RECORD_TRACE": "1"}
    result = launch(mpi, RANKS, [program], tmp_path, environment=environment).ok()
    assert "0,5" in result.out, "the program's own numbers stay as they are"
    for rank in range(RANKS):
        text = (folder / f"rank.{rank}.hbt").read_text()
        lines, _ = read_trace(folder / f"rank.{rank}.hbt")
        assert 0.05 < float(lines["seconds"]) < 60
        numbers = [cell for line in text.splitlines() for cell in line.split("\t")[1:] if cell[:1].isdigit()]
        assert not any("," in cell and "*" not in cell and line_is_value(cell) for cell in numbers), text


def line_is_value(cell: str) -> bool:
    """Whether a cell is a number with a comma in place of the point."""
    return cell.replace(",", "", 1).isdigit() and cell.count(",") == 1


def test_the_command_says_what_it_traced(tmp_path: Path) -> None:
    from program import hopbyte_binary

    from harness import BUILD

    command = [str(hopbyte_binary()), "record", "--json", "--trace", "--libraries", str(BUILD), "--"]
    program = [str(OMPI.build("traffic.c")), "point+allreduce", "50"]
    result = run_command([*command, *OMPI.command(RANKS, {}, []), *program], tmp_path).ok()
    answer = json.loads(result.out.splitlines()[-1])
    assert answer["traced"] and answer["trace_notes"] == []
    times = answer["times"]
    assert 0 < times["least_mpi_seconds"] <= times["mpi_seconds"] <= times["most_mpi_seconds"]
    assert times["compute_seconds"] == pytest.approx(times["seconds"] - times["mpi_seconds"], abs=1e-6)
    calls = {row["name"]: row["calls"] for row in times["calls"]}
    assert calls["MPI_Allreduce"] > 0 and calls.get("MPI_Waitall", 0) + calls.get("MPI_Wait", 0) > 0
    assert sum(row["seconds"] for row in times["calls"]) == pytest.approx(times["mpi_seconds"], rel=1e-3)
    assert times["phase_order"].split()[0] == "0"
