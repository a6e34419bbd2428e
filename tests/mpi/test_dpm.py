"""Two jobs that meet by a file, as with Cray's MPICH_DPM_SERVER and MPICH_DPM_CLIENT, and processes that are spawned."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import ROOT, find_binary, finish, scaled, start

from harness import DEADLINE_SECONDS, MPICH, MPICH4, OMPI, OMPI5, Mpi, Result, launch, run_command

HOPBYTE = find_binary()
# Netmods that can connect two jobs (`hopbyte doctor --mpi` finds these words).
OFI = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}


@contextmanager
def name_server(folder: Path) -> Iterator[list[str]]:
    """Open MPI's server, without which its jobs do not find each other; yields mpirun's words."""
    program = shutil.which("ompi-server")
    assert program
    uri = folder / "uri"
    child = subprocess.Popen([program, "--no-daemonize", "-r", str(uri)])
    try:
        for _ in range(500):
            if uri.exists() and uri.stat().st_size:
                break
            time.sleep(0.02)
        yield ["--ompi-server", f"file:{uri}"]
    finally:
        child.kill()
        child.wait()


def command(mpi: Mpi, ranks: int, options: list[str], words: list[str], **environment: str) -> list[str]:
    """The meeting program under the library."""
    passed = {"LD_PRELOAD": str(mpi.library("dpm")), **environment, **(OFI if mpi in (MPICH, MPICH4) else {})}
    return [*mpi.command(ranks, passed, options), str(mpi.build("meet.c")), *words]


def meet(mpi: Mpi, folder: Path, service: str, options: list[str], clients: int = 1) -> tuple[Result, list[Result]]:
    """A server of three ranks and clients of two, which start before it."""
    file = str(folder / "here/server")
    (folder / "here").mkdir()
    waiting = [
        start(command(mpi, 2, options, ["client", service], MPICH_DPM_CLIENT=file), None, folder) for _ in range(clients)
    ]
    time.sleep(0.5)
    words = ["server", service, str(clients)]
    server = start(command(mpi, 3, options, words, MPICH_DPM_SERVER="1", HOPBYTE_DPM_FILE=file), None, folder)
    results = [finish(client, DEADLINE_SECONDS) for client in waiting]
    return finish(server, DEADLINE_SECONDS), results


@pytest.mark.parametrize("service", ["-", "ocean model"])
def test_two_jobs_of_mpich(service: str, tmp_path: Path) -> None:
    server, (client,) = meet(MPICH, tmp_path, service, [])
    assert "server got: 3" in server.ok().out
    assert "client got: 6" in client.ok().out
    assert "twice" not in server.out
    assert f"clients connect with MPICH_DPM_CLIENT={tmp_path}/here/server" in server.err
    assert not [*(tmp_path / "here").iterdir()], "the file outlived its server"


@pytest.mark.parametrize("service", ["-", "ocean"])
def test_two_jobs_of_open_mpi(service: str, tmp_path: Path) -> None:
    with name_server(tmp_path) as options:
        server, (client,) = meet(OMPI, tmp_path, service, options)
    assert "server got: 3" in server.ok().out
    assert "client got: 6" in client.ok().out
    assert not [*(tmp_path / "here").iterdir()]


each_mpi = pytest.mark.parametrize("mpi", [OMPI, OMPI5, MPICH, MPICH4], ids=lambda m: m.name)


def client_alone(
    tmp_path: Path, service: str = "-", ranks: int = 2, seconds: str = "1", mpi: Mpi = MPICH
) -> Result:
    words = command(
        mpi, ranks, [], ["client", service], HOPBYTE_DPM_CLIENT="file", HOPBYTE_DPM_SECONDS=seconds
    )
    return run_command(words, tmp_path, seconds=60)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def file_of(pid: int, started: int, port: str = "port\t-\tx", boot: str | None = None) -> str:
    return f"# hopbyte-dpm 1\nhost\t{os.uname().nodename}\nboot\t{boot or boot_id()}\nprocess\t{pid}\t{started}\n{port}\nend\n"


@each_mpi
def test_no_server_before_the_deadline(mpi: Mpi, tmp_path: Path) -> None:
    begun = time.monotonic()
    result = client_alone(tmp_path, mpi=mpi).ok()
    assert 1 <= time.monotonic() - begun < scaled(20)
    assert result.out.count("MPI_Comm_connect gave MPI_ERR_PORT") == 2, "every rank gets the error"
    assert re.search(r"cannot open .*/file: No such file or directory; is the server running", result.err)
    assert "(waited 1 s, HOPBYTE_DPM_SECONDS)" in result.err


@each_mpi
@pytest.mark.parametrize("case", ["dead", "reused", "rebooted"])
def test_a_stale_file_is_refused(case: str, mpi: Mpi, tmp_path: Path) -> None:
    """A process that is gone, one whose number was given to another, and one before the last boot."""
    child = subprocess.Popen(["true"])
    child.wait()
    own = int(Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19])
    text = {
        "dead": file_of(child.pid, 1234),
        "reused": file_of(os.getpid(), own + 1),
        "rebooted": file_of(os.getpid(), own, boot="00000000-0000-0000-0000-000000000000"),
    }[case]
    (tmp_path / "file").write_text(text)
    result = client_alone(tmp_path, seconds="0", mpi=mpi).ok()
    assert "/file is stale: its server, process " in result.err
    assert result.out.count("MPI_ERR_PORT") == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("tcp://somewhere\n", 1),
        ("# hopbyte-dpm 1\nhost\ta\nport\t-\n", 3),
        ("# hopbyte-dpm 1\nhost\ta\nprocess\t1\t2\nport\t-\tx\n", 5),
        ("# hopbyte-dpm 1\nhost\ta\nprocess\tone\t2\nend\n", 3),
        ("# hopbyte-dpm 1\nend\n", 3),
    ],
)
def test_other_files_are_refused(text: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    result = client_alone(tmp_path, seconds="0", ranks=1).ok()
    assert f"/file:{line}: not the file of a server" in result.err
    assert "MPI_ERR_PORT" in result.out


def test_every_prefix_of_a_file_is_refused(tmp_path: Path) -> None:
    """The server renames whole files; what a copy cut short is never taken for one."""
    own = int(Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19])
    whole = file_of(os.getpid(), own)
    program = tmp_path / "prefixes"
    source = tmp_path / "prefixes.c"
    source.write_text(
        '#include "dpm/dpm.h"\nconst char hopbyte_tool[] = "test";\n'
        "int main(int n, char **v) { static struct hopbyte_dpm_file f; char why[DPM_REASON];\n"
        '    for (int i = 1; i < n; i++) printf("%d ", hopbyte_dpm_read(v[i], &f, why)); return 0; }\n'
    )
    mpi = ROOT / "mpi"
    compiled = ["gcc", "-std=gnu11", "-fsanitize=address,undefined", "-DHOPBYTE_FLAVOUR_MPICH", f"-I{mpi}", f"-I{MPICH.compiler.rsplit('/', 2)[0]}/include",
                str(source), str(mpi / "dpm/file.c"), str(mpi / "common/deep.c"), str(mpi / "common/own.c"), "-ldl", "-o", str(program)]  # fmt: skip
    run_command(compiled, tmp_path).ok()
    names = []
    for length in range(len(whole) + 1):
        (tmp_path / f"f{length}").write_text(whole[:length])
        names.append(f"f{length}")
    states = run_command([str(program), *names], tmp_path).ok().out.split()
    assert set(states[:-1]) == {"1"}, "DPM_BROKEN"
    assert states[-1] == "3", "DPM_ALIVE"


def test_an_unknown_service_and_a_running_servers_file(tmp_path: Path) -> None:
    """While a server runs: a client that asks for another service, and a second server with the same file."""
    file = {"HOPBYTE_DPM_SERVER": str(tmp_path / "file")}
    server = start(command(MPICH, 1, [], ["server", "ice", "0", "8"], **file), None, tmp_path)
    for _ in range(400):
        if (tmp_path / "file").exists():
            break
        time.sleep(0.02)
    client = client_alone(tmp_path, "ocean", seconds="0").ok()
    assert "MPI_Lookup_name gave MPI_ERR_NAME" in client.out
    assert re.search(r"/file has no service ocean", client.err)
    assert (tmp_path / "file").stat().st_mode & 0o077 == 0, "a port is a way into the job"
    other = run_command(command(MPICH, 1, [], ["server", "-", "0"], **file), tmp_path, seconds=60).ok()
    assert "MPI_Open_port gave MPI_ERR_PORT" in other.out
    assert "/file belongs to a running server, process " in other.err
    finish(server, DEADLINE_SECONDS).ok()
    assert not (tmp_path / "file").exists()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = run_command(
        command(MPICH, 1, [], ["server", "-", "0"], HOPBYTE_DPM_SERVER="/nonexistent/file"), tmp_path, seconds=60
    ).ok()
    assert "MPI_Open_port gave MPI_ERR_PORT" in result.out
    assert "cannot write /nonexistent/file: No such file or directory" in result.err


def test_without_a_setting_nothing_changes(tmp_path: Path) -> None:
    """A look-up goes to the MPI library, which knows of no name server."""
    result = run_command(command(MPICH, 1, [], ["client", "ocean"]), tmp_path, seconds=60).ok()
    assert "MPI_Lookup_name gave" in result.out
    assert "hopbyte" not in result.err


@pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda m: m.name)
def test_spawned_processes_under_the_libraries(mpi: Mpi, tmp_path: Path) -> None:
    """`spawn.c` spawns itself; the libraries of this page do not disturb it."""
    result = launch(
        mpi, 2, [mpi.build("spawn.c")], tmp_path, tools=("dpm", "mpit", "topology"),
        environment={"HOPBYTE_DPM_SERVER": "unused"},
    )  # fmt: skip
    result.ok()


def doctor(launcher: str, folder: Path) -> list[str]:
    """What doctor says about a launcher, without folders; it leaves no file."""
    told = run_command([str(HOPBYTE), "doctor", "--mpi", launcher], folder, seconds=300).ok().out
    assert not [*folder.iterdir()]
    return re.sub(r"/[^ =:]*/(libhopbyte|hopbyte-)", r"\1", told).splitlines()


EXPECTED = {
    OMPI: {"threads": True, "MPI_T": True, "I/O": True, "windows": True, "ABI": False, "spawn": True, "connect": True,
           "dpm": True, "lock": False, "shmem": True},
    OMPI5: {"spawn": True, "connect": False, "dpm": False, "lock": False, "ABI": False, "windows": True},
    MPICH: {"threads": True, "I/O": True, "windows": True, "ABI": True, "spawn": True, "connect": True, "dpm": True, "lock": False},
    MPICH4: {"spawn": False, "connect": False, "dpm": False, "windows": False, "lock": True},
}  # fmt: skip
PARTS = ("launch", "record", "gm", "reorder", "io", "memory", "mpit", "topology", "papi", "notify")


@pytest.mark.skipif(HOPBYTE is None, reason="no hopbyte binary: make build")
@pytest.mark.parametrize("mpi", EXPECTED, ids=lambda m: m.name)
def test_doctor_tells_them(mpi: Mpi, tmp_path: Path) -> None:
    """What the other tests of these libraries show, and the flags that it takes, before any job."""
    told = doctor(mpi.launcher, tmp_path)
    found = {line[4:17].strip(): line.startswith("yes") for line in told if line[:4].strip() in ("yes", "no")}
    expected = {**dict.fromkeys(PARTS, True), **EXPECTED[mpi]}
    assert {name: found[name] for name in expected} == expected
    flags = {OMPI: "--ompi-server file:URI", MPICH: "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp"}
    assert flags.get(mpi, "LD_PRELOAD") in "\n".join(told)


@pytest.mark.skipif(HOPBYTE is None, reason="no hopbyte binary: make build")
def test_the_book_shows_what_doctor_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs/src/runtime.md").read_text()
    shown = page.split("```text\n# mpirun.openmpi\n")[1].split("```")[0].splitlines()
    numbers = re.compile(r"\d+")
    told = [numbers.sub("N", line) for line in doctor("mpirun.openmpi", tmp_path)[1:]]
    assert [numbers.sub("N", line) for line in shown] == told
