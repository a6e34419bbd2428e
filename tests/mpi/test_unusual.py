"""Programs that use less common parts of MPI: their traces can be run again, whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import hopbyte_binary

from harness import ALL, BUILD, MPICH, MPICH4, OMPI, OMPI5, Mpi, run_command
from test_trace import read_trace

RANKS = 4
KINDS = [
    "sparse",
    "ahead",
    "buffered",
    "cancelled",
    "freed",
    "groups",
    "neighbours",
    "anybody",
    "several",
    "found",
    "copied",
    "messages",
    "collectives",
]
# Debian's MPICH 4 is slow with several threads on shared cores.
CASES = [
    (mpi, kind)
    for mpi in [*ALL, MPICH4, OMPI5]
    for kind in KINDS
    if mpi is not MPICH4 or kind not in {"messages", "collectives"}
]


def recorded(mpi: Mpi, words: list[str], folder: Path, code: int, ranks: int = RANKS) -> dict:
    """The answer of `hopbyte record --trace`."""
    command = [str(hopbyte_binary()), "record", "--json", "--trace", "--libraries", str(BUILD), "--"]
    result = run_command([*command, *mpi.command(ranks, {}, []), *words], folder).ended(code)
    return json.loads(result.out.splitlines()[-1])


def predicted(folder: Path, code: int = 0, network: str = "ethernet") -> dict:
    """The answer of `hopbyte predict` with a node for each rank."""
    machine = ["--fabric", f"torus:{RANKS}", "--nodes", "all", "--ranks-per-node", "1", "--network", network]
    command = [str(hopbyte_binary()), "predict", "--json", "hopbyte-record", *machine]
    return json.loads(run_command(command, folder).ended(code).out)


@pytest.mark.parametrize(("mpi", "kind"), CASES, ids=lambda c: getattr(c, "name", c))
def test_its_trace_can_be_run_again(mpi: Mpi, kind: str, tmp_path: Path) -> None:
    program = mpi.build("unusual.c", "-pthread")
    answer = recorded(mpi, [str(program), kind], tmp_path, 0)
    assert answer["complete"] and answer["traced"], answer
    prediction = predicted(tmp_path)
    assert prediction["complete"], prediction["notes"]
    assert not any("left out" in note or "buffered" in note for note in prediction["notes"])
    # Messages of the threads move so many bytes through every host link, at 12.5 GB/s.
    first = prediction["placements"][0]
    assert first["seconds"] > 0
    assert first["compute_seconds"] <= first["seconds"] * (1 + 1e-9)


@pytest.mark.parametrize("mpi", [OMPI, OMPI5], ids=lambda m: m.name)
def test_a_trace_has_the_bytes_of_both_neighbours(mpi: Mpi, tmp_path: Path) -> None:
    """The neighbour in a ring of two is there twice, and blocks of a gather belong to no later call."""
    program = mpi.build("unusual.c", "-pthread")
    recorded(mpi, [str(program), "neighbours"], tmp_path, 0)
    _, events = read_trace(tmp_path / "hopbyte-record/rank.1.hbt")
    sizes: list[float] = []
    calls: list[tuple[str, float]] = []
    for event, size in events:
        if event[0] == "row":
            sizes.append(size)
        elif event[0] == "collective" and event[6] != "barrier":
            calls.append((event[6], sum(sizes)))
            sizes = []
    assert sizes == []
    turn = [("gatherv", 400.0), ("neighbor_alltoall", 1600.0), ("gatherv", 400.0), ("alltoallv", 0.0)]
    assert calls == turn * 5


def test_a_job_that_is_ended_keeps_its_counts(tmp_path: Path) -> None:
    """MPI_Abort ends the other ranks before their traces were written: the record does not depend on these."""
    source = tmp_path / "abort.c"
    source.write_text(
        """#include <mpi.h>
#include <unistd.h>
int main(int c, char **v) {
    int rank, size, x = 1, y;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&x, 1, MPI_INT, (rank + 1) % size, 1, &y, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    sleep(60);
}"""
    )
    run_command([OMPI.compiler, str(source), "-o", str(tmp_path / "abort")], tmp_path).ok()
    answer = recorded(OMPI, [str(tmp_path / "abort")], tmp_path, 1)
    assert not answer["complete"] and not answer["traced"]
    assert len(answer["cut"]) == RANKS
    assert answer["messages"] >= RANKS
    assert "rank 0 is missing" in answer["trace_notes"][0]
    assert (tmp_path / "hopbyte-record/traffic.csv").exists()


def test_processes_that_the_job_starts_are_another_world(tmp_path: Path) -> None:
    answer = recorded(OMPI, [str(OMPI.build("spawn.c"))], tmp_path, 1, ranks=2)
    assert not answer["complete"] and not answer["traced"]
    assert any("another world" in note for note in answer["trace_notes"])
    prediction = predicted(tmp_path, 1)
    assert prediction["placements"][0]["seconds"] > 0


def test_unmatched_messages_of_a_pause_are_left_out_and_counted(tmp_path: Path) -> None:
    source = tmp_path / "pause.c"
    source.write_text(
        """#include <mpi.h>
int main(int c, char **v) {
    int rank, size, x = 1, y;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Request request;
    MPI_Irecv(&y, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
    if (rank == 0) MPI_Pcontrol(0);
    MPI_Send(&x, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
}"""
    )
    run_command([OMPI.compiler, str(source), "-o", str(tmp_path / "pause")], tmp_path).ok()
    recorded(OMPI, [str(tmp_path / "pause")], tmp_path, 0)
    prediction = predicted(tmp_path, 1)
    assert not prediction["complete"]
    assert any("1 receives of messages that no rank sends" in note for note in prediction["notes"])


def test_messages_that_the_recorded_mpi_buffered(tmp_path: Path) -> None:
    """Blocking sends to each other end under a library that buffers them: said for a network that would not."""
    source = tmp_path / "each.c"
    source.write_text(
        """#include <mpi.h>
int main(int c, char **v) {
    static char x[30000], y[30000]; int rank, size;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 10; i++) {
        MPI_Send(x, 30000, MPI_CHAR, (rank + 1) % size, 1, MPI_COMM_WORLD);
        MPI_Recv(y, 30000, MPI_CHAR, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}"""
    )
    run_command([OMPI.compiler, str(source), "-o", str(tmp_path / "each")], tmp_path).ok()
    recorded(OMPI, ["--mca", "btl", "tcp,self", str(tmp_path / "each")], tmp_path, 0)
    notes = predicted(tmp_path, network="gemini")["notes"]
    assert any("up to 30000 B" in note and "eager limit is 4096 B" in note for note in notes)
    assert not any("buffered" in note for note in predicted(tmp_path)["notes"])


@pytest.mark.parametrize("mpi", [OMPI, OMPI5, MPICH4], ids=lambda m: m.name)
def test_a_job_of_several_programs(mpi: Mpi, tmp_path: Path) -> None:
    program = str(mpi.build("unusual.c", "-pthread"))
    number = "-np" if mpi.flavour == "ompi" else "-n"
    answer = recorded(mpi, [program, "buffered", ":", number, "2", program, "buffered"], tmp_path, 0, ranks=2)
    assert answer["ranks"] == 4 and answer["complete"] and answer["traced"]


@pytest.mark.parametrize("mpi", [OMPI5, MPICH4, MPICH], ids=lambda m: m.name)
def test_a_partitioned_send_leaves_when_all_is_ready(mpi: Mpi, tmp_path: Path) -> None:
    """The computation between start and readiness is before the message in the trace."""
    source = tmp_path / "parts.c"
    source.write_text(
        """#include <mpi.h>
int main(int c, char **v) {
    static char x[4000], y[4000]; int rank, size, places[2] = {2, 3}; MPI_Request r[2];
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Psend_init(x, 4, 1000, MPI_CHAR, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(y, 4, 1000, MPI_CHAR, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, r);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Pready_range(0, 1, r[0]);
        MPI_Pready_list(2, places, r[0]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&r[0]); MPI_Request_free(&r[1]);
    MPI_Finalize();
}"""
    )
    run_command([mpi.compiler, str(source), "-o", str(tmp_path / "parts")], tmp_path).ok()
    recorded(mpi, [str(tmp_path / "parts")], tmp_path, 0)
    _, events = read_trace(tmp_path / "hopbyte-record/rank.1.hbt")
    assert [event[0] for event, _ in events] == ["receive", "collective", "send", "wait", "wait"] * 3 + ["end"]
    assert [size for event, size in events if event[0] == "send"] == [4000.0] * 3
    assert predicted(tmp_path)["complete"]
