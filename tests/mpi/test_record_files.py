"""The recorder's files: descriptors that the program closes, size limits, and several jobs in one folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import hopbyte_binary

from harness import BUILD, MPICH, OMPI, OMPI5, Mpi, read_record, read_records, run_command

each_mpi = pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)

# Gives the numbers of the recorder's descriptors to files of its own, as a library does that closes all but the
# descriptors it knows.
CLOSES = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, taken = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char link[300], target[4096] = "", name[64];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        if (readlink(link, target, sizeof target - 1) < 0 || !strstr(target, ".hbr.")) continue;
        snprintf(name, sizeof name, "mine.%d.%d", rank, taken++);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        dup2(fd, atoi(entry->d_name));
        if (write(fd, "mine\n", 5) != 5) return 1;
        close(fd);
    }
    closedir(folder);
    if (argc > 1 && rank == 0 && system("rm -f record/rank.0.hbr.*")) return 1;
    for (int i = 0; i < 300; i++) { /* groups and phases are written, and the table of counts grows */
        MPI_Comm part;
        MPI_Pcontrol(2 + i);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, i % 3 ? rank : -rank, &part);
        MPI_Barrier(part);
        MPI_Comm_free(&part);
    }
    MPI_Finalize();
    return taken ? 0 : 2;
}
"""

LIMITED = r"""
#include <mpi.h>
#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    struct rlimit limit = {100, 100};
    MPI_Init(&argc, &argv);
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 20; i++) MPI_Pcontrol(2 + i);
    MPI_Finalize();
    return 0;
}
"""


def program(mpi: Mpi, folder: Path, source: str) -> str:
    """Compiles a program."""
    (folder / "program.c").write_text(source)
    run_command([mpi.compiler, "-O1", "program.c", "-o", "program"], folder).ok()
    return str(folder / "program")


def record(folder: Path, *command: str):
    """`hopbyte record` into the folder `record`."""
    recorder = [str(hopbyte_binary()), "record", "--json", "--libraries", str(BUILD), "--out", "record"]
    return run_command([*recorder, *command], folder)


@each_mpi
def test_no_byte_goes_into_a_file_of_the_program(mpi: Mpi, tmp_path: Path) -> None:
    """The program gives the numbers of the recorder's descriptors to files of its own: the record is whole."""
    closes = program(mpi, tmp_path, CLOSES)
    answer = json.loads(record(tmp_path, "--", *mpi.command(4, {}, []), closes).ok().out.splitlines()[-1])
    assert answer["complete"] and len(answer["phases"]) >= 300
    mine = sorted(tmp_path.glob("mine.*"))
    assert len(mine) == 8 and all(path.read_bytes() == b"mine\n" for path in mine)
    read_records(tmp_path / "record", 4)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    """It cannot be opened again: nothing is written anywhere else, and the reason is printed once."""
    closes = program(MPICH, tmp_path, CLOSES)
    result = record(tmp_path, "--", *MPICH.command(2, {}, []), closes, "remove")
    assert result.code == 1
    assert result.err.count("rank 0 is not recorded") == 1, result.err
    assert all(path.read_bytes() == b"mine\n" for path in tmp_path.glob("mine.*"))


@each_mpi
def test_a_size_limit_does_not_end_the_program(mpi: Mpi, tmp_path: Path) -> None:
    """A file at its limit raises a signal that ends a program: not for the recorder's files."""
    limited = program(mpi, tmp_path, LIMITED)
    result = record(tmp_path, "--", *mpi.command(2, {}, []), limited)
    assert result.code == 1 and "exit status: 0" in result.err, result.err
    assert "File too large; rank 0 is not recorded" in result.err
    assert "no rank left a record: they could not write it, as they said" in result.err


@each_mpi
@pytest.mark.parametrize("second", [2, 3])
def test_several_jobs_are_refused_and_kept(mpi: Mpi, second: int, tmp_path: Path) -> None:
    """Two launchers under one command: no job's record takes the place of another's."""
    program = str(mpi.build("traffic.c"))
    lines = [" ".join([*mpi.command(ranks, {}, []), program, "point"]) for ranks in (2, second)]
    (tmp_path / "both.sh").write_text("\n".join(lines) + "\n")
    preload = str(mpi.library("record"))
    result = record(tmp_path, "--flavour", mpi.flavour, "--", "sh", "both.sh")
    assert result.code == 1 and "2 MPI jobs ran" in result.err, (result.err, preload)
    assert not (tmp_path / "record/traffic.csv").exists()
    files = sorted((tmp_path / "record").glob("*.hbr"))
    assert len(files) == 2 + second
    assert all(read_record(path).header["ended"] == "finalize" for path in files)


FEW = r"""
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(500000);
    }
}
"""


def test_a_trace_of_few_calls_is_written(tmp_path: Path) -> None:
    """A rank that calls MPI twice a second is killed: its trace is there, until shortly before."""
    few = program(MPICH, tmp_path, FEW)
    result = record(tmp_path, "--trace", "--deadline", "6", "--", *MPICH.command(2, {}, []), few)
    assert result.code == 1 and "ended without MPI_Finalize" in result.err, result.err
    for rank in range(2):
        lines = (tmp_path / f"record/rank.{rank}.hbt").read_text().splitlines()
        (events,) = [line for line in lines if line.startswith("events\t")]
        assert int(events.split("\t")[1]) >= 4


QUICK = r"""
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int *memory, here = 1, was = 0;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Win_allocate(sizeof *memory, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_fence(0, window);
    MPI_Fetch_and_op(&here, &was, MPI_INT, 0, 0, MPI_NO_OP, window);
    MPI_Win_fence(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    quick_exit(6);
}
"""


def test_no_operation_is_no_message_and_quick_exit_is_a_cause(tmp_path: Path) -> None:
    """MPI_NO_OP only reads; quick_exit runs no destructors."""
    quick = program(MPICH, tmp_path, QUICK)
    result = record(tmp_path, "--", *MPICH.command(1, {}, []), quick)
    answer = json.loads(result.out.splitlines()[-1])
    assert answer["cut"] == [{"rank": 0, "cause": "quick_exit(6)"}], result.err
    rma = read_record(tmp_path / "record/rank.0.hbr").rma
    assert set(rma) == {("main", "fetch_and_op", "in", 0)}


@each_mpi
@pytest.mark.parametrize("way", ["launcher", "env"])
def test_a_preload_of_the_user_stays(mpi: Mpi, way: str, tmp_path: Path) -> None:
    """Given to the launcher or by `env`: both libraries are loaded."""
    (tmp_path / "user.c").write_text(
        '#include <unistd.h>\n__attribute__((constructor)) static void say(void){if(write(2,"user loaded\\n",12)<0)_exit(1);}\n'
    )
    run_command(["gcc", "-shared", "-fPIC", "user.c", "-o", "user.so"], tmp_path).ok()
    preload = {"LD_PRELOAD": str(tmp_path / "user.so")}
    given = mpi.command(2, preload if way == "launcher" else {}, [])
    if way == "env":
        given += ["env", f"LD_PRELOAD={preload['LD_PRELOAD']}"]
    result = record(tmp_path, "--", *given, str(mpi.build("traffic.c")), "point").ok()
    assert (result.out + result.err).count("user loaded") == 2
    read_records(tmp_path / "record", 2)


THREADED = r"""
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

static void *meet(void *communicator)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank) usleep(400000);
    MPI_Barrier(*(MPI_Comm *)communicator);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 4 };
    int have;
    MPI_Comm each[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &have);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &each[i]);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, meet, &each[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MPI_Finalize();
    return 0;
}
"""


def test_moments_of_threads_count_once(tmp_path: Path) -> None:
    """Four threads of a rank wait at the same time: the rank is in MPI no longer than it runs."""
    (tmp_path / "threaded.c").write_text(THREADED)
    run_command([MPICH.compiler, "-pthread", "threaded.c", "-o", "threaded"], tmp_path).ok()
    answer = record(tmp_path, "--", *MPICH.command(2, {}, []), "./threaded").ok()
    times = json.loads(answer.out.splitlines()[-1])["times"]
    (barrier,) = [call for call in times["calls"] if call["name"] == "MPI_Barrier"]
    assert times["threads"] == 4 and times["compute_seconds"] > 0.1
    assert times["mpi_seconds"] < times["seconds"]
    assert barrier["seconds"] > 2 * times["mpi_seconds"]


@pytest.mark.parametrize("silent", [[], ["silent"]], ids=["messages", "silent"])
@pytest.mark.parametrize("mpi", [OMPI, OMPI5, MPICH], ids=lambda m: m.name)
def test_spawned_processes_are_told_without_a_trace(mpi: Mpi, silent: list[str], tmp_path: Path) -> None:
    """They are another world: counted in notes, and the record is incomplete. Open MPI 5 starts them without the preload."""
    command = [*mpi.command(2, {"UCX_TLS": "tcp,self"}, []), str(mpi.build("spawn.c")), *silent]
    result = record(tmp_path, "--", *command)
    answer = json.loads(result.out.splitlines()[-1])
    assert result.code == 1 and not answer["complete"]
    notes = " ".join(answer["notes"])
    assert "2 processes that the job started" in notes
    assert ("2 messages to other worlds" in notes) == (not silent)
    assert any(call["name"] == "MPI_Comm_spawn" for call in answer["times"]["calls"])
