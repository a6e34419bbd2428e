"""Ranks that end without MPI_Finalize, in every way: their counts up to then are in the record, with the cause."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from program import hopbyte_binary, scaled

from harness import (
    ALL,
    BUILD,
    MPICH,
    OMPI,
    Mpi,
    Record,
    launch,
    point_matrix,
    read_record,
    read_records,
    run_command,
)

RANKS = 3
each_mpi = pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.name)
KINDS = "point+communicators+persistent+regions+bcast+allreduce+alltoallv+gatherv+grid+scan+rma+many"


def patience() -> list[str]:
    """The deadline of `hopbyte record` for a job that ends by itself."""
    return ["--deadline", f"{scaled(40):.0f}"]


def counts(record: Record, sizes: bool) -> list[object]:
    """All numbers of a rank's record. A small table rounds sizes when it is full, which it is not at the same call."""
    return [record.point, record.pairs, record.calls, record.rma, *([record.sizes] if sizes else [])]


def compiled(mpi: Mpi, folder: Path, source: str) -> Path:
    """A program of a few lines."""
    (folder / "program.c").write_text(source)
    run_command([mpi.compiler, "program.c", "-o", "program"], folder).ok()
    return folder / "program"


def recorded(
    mpi: Mpi, folder: Path, *program: str | Path, options: list[str] | None = None, environment: dict[str, str] | None = None
):
    """Runs a program with all ranks under `hopbyte record`."""
    command = [str(hopbyte_binary()), "record", "--json", "--libraries", str(BUILD), *patience(), "--"]
    launched = [*mpi.command(RANKS, {}, options or []), *map(str, program)]
    return run_command([*command, *launched], folder, environment)


def end(mpi: Mpi, folder: Path, *way: str, environment: dict[str, str] | None = None):
    """Runs the traffic program under `hopbyte record` to the given end."""
    program = [mpi.build("traffic.c"), KINDS, "1", "end", *way]
    options = ["--mca", "osc", "sm"] if mpi is OMPI else []
    return recorded(mpi, folder, *program, options=options, environment=environment)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Record]]:
    """The record of the job that ended by MPI_Finalize, by MPI."""
    found = {}
    for mpi in ALL:
        folder = tmp_path_factory.mktemp(mpi.name)
        answer = json.loads(end(mpi, folder, "finalize").ok().out.splitlines()[-1])
        assert answer["complete"] and not answer["cut"]
        found[mpi.name] = read_records(folder / "hopbyte-record", RANKS)
    return found


# The way, the causes that the ended rank may have in its record.
WAYS = [
    ("15", {"SIGTERM"}),
    ("9", {"killed"}),
    ("11", {"SIGSEGV"}),
    ("fault", {"SIGSEGV"}),
    ("abort()", {"SIGABRT"}),
    ("_exit", {"_exit(5)"}),
    ("_Exit", {"_exit(6)"}),
    ("7", {"SIGBUS"}),
    ("24", {"SIGXCPU"}),
    ("14", {"killed"}),
]


@pytest.mark.parametrize("rank", ["1", "all"])
@pytest.mark.parametrize(("way", "causes"), WAYS, ids=[way for way, _ in WAYS])
@each_mpi
def test_every_rank_leaves_its_counts(
    mpi: Mpi, way: str, causes: set[str], rank: str, whole: dict[str, list[Record]], tmp_path: Path
) -> None:
    small = {"HOPBYTE_RECORD_TABLE": "256"} if rank == "all" else {}
    result = end(mpi, tmp_path, way, *([rank] if rank != "all" else []), environment=small)
    assert result.code == 1, result.err
    answer = json.loads(result.out.splitlines()[-1])
    assert not answer["complete"]
    assert {row["rank"] for row in answer["cut"]} == set(range(RANKS))
    cause = {row["rank"]: row["cause"] for row in answer["cut"]}
    # With "all", the launcher ends the others after the first.
    assert cause[1] in causes if rank == "1" else causes & set(cause.values()), cause
    # The launcher ends the others: by SIGTERM, or by SIGKILL, which cannot be caught.
    assert set(cause.values()) <= causes | {"SIGTERM", "killed"}, cause
    records = read_records(tmp_path / "hopbyte-record", RANKS)
    for found, expected in zip(records, whole[mpi.name], strict=True):
        assert counts(found, not small) == counts(expected, not small)
        assert set(found.phases.values()) == set(expected.phases.values())
    lines = (tmp_path / "hopbyte-record/traffic.csv").read_text().splitlines()
    assert lines[0].startswith(f"# incomplete: {RANKS} of {RANKS} ranks ended before MPI_Finalize (")
    assert not list((tmp_path / "hopbyte-record").glob("*.live"))


@each_mpi
def test_mpi_abort_keeps_the_other_ranks(mpi: Mpi, whole: dict[str, list[Record]], tmp_path: Path) -> None:
    command = [str(hopbyte_binary()), "record", "--json", "--libraries", str(BUILD), "--"]
    program = [str(mpi.build("traffic.c")), "point", "3", "abort"]
    result = run_command([*command, *mpi.command(RANKS, {}, []), *program], tmp_path)
    answer = json.loads(result.out.splitlines()[-1])
    assert result.code == 1 and answer["cut"][0] == {"rank": 0, "cause": "abort"}
    assert {row["rank"] for row in answer["cut"]} <= {0, 1, 2} and not answer["complete"]
    assert answer["bytes"] > 0


LEAVES = r"""
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *leave(void *how)
{
    usleep(100000);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "_exit")) _exit(4);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "MPI_Abort")) MPI_Abort(MPI_COMM_WORLD, 3);
    return 0;
}

int main(int argc, char **argv)
{
    int have, rank, size, flag;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &have);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &have, 1, MPI_INT, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) pthread_create(&thread, 0, leave, argv[1]);
    for (;;) MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}
"""


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("way", "cause"), [("exit", "exit"), ("_exit", "_exit(4)"), ("abort", "SIGABRT"), ("MPI_Abort", "abort")]
)
def test_a_thread_ends_the_process(mpi: Mpi, way: str, cause: str, tmp_path: Path) -> None:
    """Another thread than the one inside MPI ends the process: every rank's counts are there."""
    (tmp_path / "leaves.c").write_text(LEAVES)
    run_command([mpi.compiler, "-O1", "-pthread", "leaves.c", "-o", "leaves"], tmp_path).ok()
    result = recorded(mpi, tmp_path, "./leaves", way)
    answer = json.loads(result.out.splitlines()[-1])
    assert result.code == 1 and not answer["complete"]
    assert {row["rank"]: row["cause"] for row in answer["cut"]}[1] == cause
    records = read_records(tmp_path / "hopbyte-record", RANKS)
    assert point_matrix(records) == {(rank, (rank + 1) % RANKS): (400, 100) for rank in range(RANKS)}


# UCX sets its handler when it is loaded, which an MPI that is linked with it does before the recorder looks.
TRANSPORT = r"""
#include <signal.h>
#include <unistd.h>
static void said(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    if (write(2, "the transport's handler\n", 24) < 0) _exit(1);
    signal(number, SIG_DFL);
    raise(number);
}
__attribute__((constructor)) static void set(void)
{
    struct sigaction action = {.sa_sigaction = said, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
}
int transport = 1;
"""


@pytest.mark.parametrize("library", ["libucs.so.test", "libapplication.so"])
def test_a_transport_with_a_handler_hides_no_cause(library: str, tmp_path: Path) -> None:
    """Its handler runs after the recorder's; one of another library may mean to go on, and is left alone."""
    (tmp_path / "transport.c").write_text(TRANSPORT)
    build = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "transport.c", "-o", library]
    run_command(build, tmp_path).ok()
    (tmp_path / "falls.c").write_text(
        "#include <mpi.h>\nextern int transport;\n"
        "int main(int c,char**v){MPI_Init(&c,&v);*(volatile int*)0=transport;}\n"
    )
    linked = [f"./{library}", "-Wl,-rpath,$ORIGIN", "-o", "falls"]
    run_command([MPICH.compiler, "-O1", "falls.c", *linked], tmp_path).ok()
    command = [
        str(hopbyte_binary()),
        "record",
        "--json",
        "--flavour",
        "mpich",
        "--libraries",
        str(BUILD),
        "--",
    ]
    result = run_command([*command, *MPICH.command(1, {}, []), "./falls"], tmp_path)
    answer = json.loads(result.out.splitlines()[-1])
    assert answer["cut"] == [{"rank": 0, "cause": "SIGSEGV" if library.startswith("libucs") else "killed"}], (
        result.err
    )
    assert "the transport's handler" in result.err + result.out


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
@pytest.mark.parametrize("how", ["deadline", signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_walltime(mpi: Mpi, how: str | signal.Signals, tmp_path: Path) -> None:
    """The job or `hopbyte record` itself is ended: the folder can be mapped afterwards in any case."""
    command = [str(hopbyte_binary()), "record", "--libraries", str(BUILD)]
    seconds = round(scaled(4))
    if how == "deadline":
        command += ["--deadline", str(seconds)]
    command += ["--", *mpi.command(2, {}, []), str(mpi.build("traffic.c")), "point", "100000000"]
    with open(tmp_path / "log", "w") as log:
        child = subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        if how != "deadline":
            time.sleep(seconds)
            child.send_signal(how)
            if how == signal.SIGKILL:
                os.killpg(child.pid, how)  # as a scheduler does at the end of the walltime
        code = child.wait(timeout=scaled(60))
    said = (tmp_path / "log").read_text()
    folder = tmp_path / "hopbyte-record"
    if how == signal.SIGKILL:
        assert code == -9
        deadline = time.monotonic() + scaled(30)
        question = [
            str(hopbyte_binary()),
            "map",
            str(folder),
            "--fabric",
            "torus:2",
            "--nodes",
            "all",
            "--json",
        ]
        while "still running" in (mapped := run_command(question, tmp_path)).err:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert mapped.code == 0, mapped.err
        assert "2 of 2 ranks ended before MPI_Finalize" in mapped.out + mapped.err
        return
    assert code == 1, said
    assert f"ended at the deadline of {seconds} s" in said or "ended by a signal" in said
    assert "incomplete: 2 of 2 ranks ended before MPI_Finalize" in said
    for record in read_records(folder, 2):
        assert sum(c["messages"] for c in record.point.values()) > 100


def test_ranks_of_several_hosts(tmp_path: Path) -> None:
    """Each rank with a host name of its own; the folder is shared."""
    script = tmp_path / "host.sh"
    script.write_text(
        "#!/bin/sh\n"
        "exec unshare --uts sh -c 'hostname node'$OMPI_COMM_WORLD_RANK'; "
        f"exec {OMPI.build('traffic.c')} point 1 end 9 1'\n"
    )
    script.chmod(0o755)
    command = [
        str(hopbyte_binary()),
        "record",
        "--json",
        "--flavour",
        "ompi",
        "--libraries",
        str(BUILD),
        "--",
    ]
    result = run_command([*command, *OMPI.command(RANKS, {}, []), str(script)], tmp_path)
    answer = json.loads(result.out.splitlines()[-1])
    assert result.code == 1 and answer["hosts"] == RANKS, result.err
    placed = (tmp_path / "hopbyte-record/placement.csv").read_text()
    assert placed == "rank,node,slot\n0,node0,0\n1,node1,0\n2,node2,0\n"


@pytest.mark.parametrize("table", ["256", "1024", "65536"])
def test_a_kill_at_any_moment_counts_nothing_twice(table: str, tmp_path: Path) -> None:
    """The cycle's counts fall from c+1 to c once; every count is exact although moves, growth and spills go on."""
    program = MPICH.build("cycle.c")
    chance = random.Random(7)
    command = [str(hopbyte_binary()), "record", "--flavour", "mpich", "--libraries", str(BUILD), "--json"]
    for trial in range(int(os.environ.get("HOPBYTE_TEST_KILLS", "12"))):
        folder = tmp_path / str(trial)
        seconds = chance.uniform(0.02, 0.4)
        waiting = "until ls $HOPBYTE_RECORD_DIR/*.live >/dev/null 2>&1; do sleep 0.01; done"
        script = f"{program} 900 & {waiting}; sleep {seconds:.4f}; kill -9 $!; wait"
        result = run_command(
            [*command, "--out", str(folder), "--", "sh", "-c", script],
            tmp_path,
            {"HOPBYTE_RECORD_TABLE": table},
        )
        (cut,) = json.loads(result.out.splitlines()[-1])["cut"]
        assert (cut["rank"], cut["cause"]) == (0, "killed"), result.err
        (record,) = read_records(folder, 1)
        found = [record.point[f"pcontrol-{2 + i}", 0]["messages"] for i in range(900)]
        assert found == sorted(found, reverse=True) and found[0] - found[-1] <= 1, found
        assert all(c["bytes"] == 4 * c["messages"] for c in record.point.values())


def test_time_of_a_killed_rank_ends_with_its_last_call(tmp_path: Path) -> None:
    program = compiled(
        MPICH,
        tmp_path,
        "#include <mpi.h>\n#include <signal.h>\n#include <unistd.h>\n"
        "int main(int c,char**v){int x=1,y;MPI_Init(&c,&v);for(int i=0;i<4;i++){usleep(100000);"
        "MPI_Sendrecv(&x,1,MPI_INT,0,0,&y,1,MPI_INT,0,0,MPI_COMM_WORLD,MPI_STATUS_IGNORE);}raise(SIGKILL);return 0;}\n",
    )
    command = [str(hopbyte_binary()), "record", "--flavour", "mpich", "--libraries", str(BUILD), "--json"]
    result = run_command([*command, "--", str(program)], tmp_path)
    answer = json.loads(result.out.splitlines()[-1])
    assert answer["cut"] == [{"rank": 0, "cause": "killed"}], result.err
    times = answer["times"]
    assert 0.4 <= times["seconds"] < scaled(5) and times["mpi_seconds"] < times["seconds"], answer


@each_mpi
def test_a_job_that_hangs_says_where(mpi: Mpi, tmp_path: Path) -> None:
    """Rank 0 waits for a message that nobody sends, the others for rank 0, until SIGTERM: time in MPI, not computation."""
    program = compiled(
        mpi,
        tmp_path,
        "#include <mpi.h>\n#include <signal.h>\n#include <unistd.h>\n"
        "int main(int c,char**v){int r,x;MPI_Init(&c,&v);MPI_Comm_rank(MPI_COMM_WORLD,&r);usleep(200000);"
        "if(!fork()){sleep(2);kill(getppid(),SIGTERM);_exit(0);}"
        "if(!r)MPI_Recv(&x,1,MPI_INT,1,9,MPI_COMM_WORLD,MPI_STATUS_IGNORE);else MPI_Barrier(MPI_COMM_WORLD);return 0;}\n",
    )
    result = recorded(mpi, tmp_path, program)
    answer = json.loads(result.out.splitlines()[-1])
    calls = {row["rank"]: row for row in answer["cut"] if row["cause"] == "SIGTERM"}
    assert calls, answer["cut"]
    for rank, row in calls.items():
        assert row["call"] == ("MPI_Recv" if rank == 0 else "MPI_Barrier"), answer["cut"]
        assert 1 < row["call_seconds"] < scaled(5), answer["cut"]
    assert answer["times"]["mpi_seconds"] > 0.8 * len(calls) / 3 * (answer["times"]["seconds"] - 0.3), answer
    assert any("ranks that ended within a call: " in note for note in answer["notes"]), answer["notes"]


def test_a_forked_child_changes_nothing(tmp_path: Path) -> None:
    program = compiled(
        MPICH,
        tmp_path,
        "#include <mpi.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(int c,char**v){int r,n,x=1,y;MPI_Init(&c,&v);MPI_Comm_rank(MPI_COMM_WORLD,&r);"
        "MPI_Comm_size(MPI_COMM_WORLD,&n);MPI_Sendrecv(&x,1,MPI_INT,(r+1)%n,0,&y,1,MPI_INT,(r+n-1)%n,0,"
        "MPI_COMM_WORLD,MPI_STATUS_IGNORE);for(int i=0;i<3;i++){pid_t p=i?fork():vfork();if(!p){"
        "if(i==1)exit(0);if(i==2)abort();_exit(0);}waitpid(p,0,0);}MPI_Finalize();return 0;}\n",
    )
    launch(MPICH, 2, [program], tmp_path).ok()
    for rank, record in enumerate(read_records(tmp_path / "hopbyte-record", 2)):
        assert record.header["ended"] == "finalize"
        assert record.point == {("main", 1 - rank): {"bytes": 4, "messages": 1}}
    assert not list((tmp_path / "hopbyte-record").glob("*.live"))


def test_handlers_of_the_application_run(tmp_path: Path) -> None:
    """A program that catches SIGTERM to go on, with a handler from before or after MPI_Init, is not disturbed."""
    program = compiled(
        MPICH,
        tmp_path,
        "#include <mpi.h>\n#include <signal.h>\n#include <unistd.h>\nstatic volatile sig_atomic_t seen;\n"
        "static void f(int s){(void)s;seen++;}\n"
        "int main(int c,char**v){int before=c>1;if(before)signal(SIGTERM,f);MPI_Init(&c,&v);"
        "if(!before)signal(SIGTERM,f);raise(SIGTERM);kill(getpid(),SIGTERM);usleep(1000);"
        "MPI_Finalize();return seen==2?0:1;}\n",
    )
    for arguments in ([], ["before"]):
        launch(MPICH, 2, [program, *arguments], tmp_path).ok()
        for record in read_records(tmp_path / "hopbyte-record", 2):
            assert record.header["ended"] == "finalize"


@pytest.mark.parametrize("limit", ["off", "full"])
def test_without_space_the_job_goes_on(limit: str, tmp_path: Path) -> None:
    """No file of counts, or no space for it: the job ends as without a recorder, its record is whole or it is said that
    it is not."""
    folder = kept = tmp_path / "record"
    program = str(MPICH.build("traffic.c"))
    job = f"{MPICH.launcher} -n 2 {program} point"
    preload = f"LD_PRELOAD={MPICH.library('record')}"
    if limit == "full":
        kept = tmp_path / "kept"
        folder.mkdir()
        kept.mkdir()
        setup = f"mount -t tmpfs -o size=40k none {folder}"
        script = f"{setup} && env {preload} HOPBYTE_RECORD_DIR={folder} {job}; code=$?; cp {folder}/*.hbr {kept}; exit $code"
        result = run_command(["unshare", "-m", "sh", "-c", script], tmp_path).ok()
    else:
        script = f"env {preload} HOPBYTE_RECORD_LIVE=off HOPBYTE_RECORD_DIR={folder} {job}"
        result = run_command(["sh", "-c", script], tmp_path).ok()
        read_records(folder, 2)
    # The rank that ends first frees the space of its counts, so that the other's record may fit.
    for rank in range(2):
        path = kept / f"rank.{rank}.hbr"
        assert path.exists() != (f"rank {rank} is not recorded" in result.err + result.out), result.err
        if path.exists():
            assert read_record(path).header["ended"] == "finalize"
    # Each rank says once that its file cannot grow.
    assert (result.err + result.out).count("cannot extend") == (2 if limit == "full" else 0), result.err
