"""`hopbyte run` killed before every change that it makes to its files, and the cost of a launch with nothing to do.

A script stands for the launcher: it answers for its version as Open MPI's does, leaves the ranks' records that the
recorder would, on the hosts that the requested order names, and executes the program.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import hopbyte_binary

# Calls that change files or the process. A process that is killed between two of them leaves the same as before the
# later one, so that these are all states that a kill can leave.
CHANGES = ["mkdir", "rename", "unlink", "unlinkat", "rmdir", "flock", "fsync", "write", "execve"]
HOSTS = ["n0-0", "n1-0", "n0-1", "n1-1"]
CODE = 7

LAUNCHER = """#!/bin/sh
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
while [ $# -gt 0 ]; do
  case $1 in
  -x) case $2 in HOPBYTE_RECORD_DIR=*) into=${2#*=} ;; HOPBYTE_REORDER_MAP=*) map=${2#*=} ;; esac; shift 2 ;;
  --host | -np | --map-by) shift 2 ;;
  *) break ;;
  esac
done
echo "${map:+placed}${into:+ recorded}" >> launches
if [ -n "$into" ]; then
  rank=0
  for host in n0-0 n0-0 n1-0 n1-0 n0-1 n0-1 n1-1 n1-1; do
    [ -z "$map" ] || [ -n "$DEAF" ] || host=$(sed -n "s/^$rank,\\([^,]*\\),.*/\\1/p" "$map")
    peer=$(((rank + 4 * FAR + 1 - FAR) % 8))
    printf '%s\\n' '# hopbyte-record 2' "rank\\t$rank" 'size\\t8' "host\\t$host" 'spawned\\t0' 'phase\\t0\\tmain' \\
      "P\\t0\\t$peer\\t1000000\\t10" 'ended\\tfinalize' 'end\\t8' | sed 's/\\\\t/\\t/g' > "$into/rank.$rank.hbr"
    rank=$((rank + 1))
  done
fi
exec "$@"
"""


@dataclass
class Site:
    """A folder with a launcher, a program, settings, and the records of earlier runs."""

    folder: Path
    far: int = 1

    @classmethod
    def made(cls, folder: Path) -> Site:
        for name, text in (("mpirun", LAUNCHER), ("app", f"#!/bin/sh\nexit {CODE}\n")):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        for tool in ("record", "reorder"):
            (folder / f"libhopbyte_{tool}_ompi.so").touch()
        (folder / "hopbyte.toml").write_text("fabric = 'torus:2x2'\nstate = 'state'\nlibraries = '.'\n")
        (folder / "state").mkdir()
        return cls(folder)

    def command(self) -> list[str]:
        return ["./mpirun", "--host", ",".join(f"{host}:2" for host in HOSTS), "-np", "8", "./app"]

    def run(self, *options: str, wrap: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        line = [*wrap, str(hopbyte_binary()), "run", *options, "--", *self.command()]
        environment = {**os.environ, "FAR": str(self.far), "HOME": str(self.folder)}
        return subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    def launches(self) -> list[str]:
        log = self.folder / "launches"
        return log.read_text().splitlines() if log.exists() else []

    def clean(self) -> str:
        """A run that nothing disturbs: the job's exit code, one launch; the remarks."""
        before = len(self.launches())
        done = self.run()
        assert done.returncode == CODE, done.stderr
        assert len(self.launches()) == before + 1
        assert all(line.startswith("hopbyte: ") for line in done.stderr.splitlines()), done.stderr
        return done.stderr

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "state").glob("*/*"))

    def settled(self) -> list[str]:
        """The files beside those of the last run, which the next one settles."""
        files = self.files()
        last = {name.split(".")[0] for name in files if name.startswith("run-")}
        assert len(last) == 1, files
        return [name for name in files if not name.startswith("run-")]

    def dry(self, *options: str) -> subprocess.CompletedProcess[str]:
        """A dry run, which changes no file and leaves none."""
        temporary = Path(tempfile.gettempdir())
        before = self.state()
        done = self.run("--dry-run", *options)
        assert self.state() == before
        assert not list(temporary.glob(f"hopbyte-*-{os.getpid()}"))
        return done

    def state(self) -> dict[str, tuple[bytes, int]]:
        """Content and time of every file of the store, and of its folders."""
        paths = sorted((self.folder / "state").rglob("*"))
        return {str(p): (b"" if p.is_dir() else p.read_bytes(), p.stat().st_mtime_ns) for p in paths}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


SETTLED = ["command", "decision", "placement.csv", "record"]


def test_recorded_placed_verified(site: Site) -> None:
    assert "recording" in site.clean()
    assert "order of 8 ranks is changed" in site.clean()
    assert "the last run was placed as requested" in site.clean()
    assert "order of 8 ranks is changed" in site.clean()
    assert site.launches() == [" recorded", "placed recorded", "placed", "placed"]
    assert site.settled() == SETTLED


def test_a_dry_run_changes_nothing_and_says_what_the_run_will_do(site: Site) -> None:
    shown = site.dry()
    assert "recording" in shown.stderr and not site.files()
    state = str(site.folder / "state") + "/"
    assert f"HOPBYTE_RECORD_DIR={state}" in shown.stdout
    for verified in (False, True):
        site.clean()
        shown = site.dry()
        # The record of the last run, which is not settled, is already used.
        assert "order of 8 ranks is changed" in shown.stderr, shown
        assert ("the last run was placed as requested" in shown.stderr) == verified
        assert f"HOPBYTE_REORDER_MAP={state}" in shown.stdout
        assert ("HOPBYTE_RECORD_DIR" in shown.stdout) != verified
    launches = len(site.launches())
    site.dry("--json")
    assert len(site.launches()) == launches
    assert site.settled() == SETTLED or "decision" not in site.files()


def test_a_dry_run_beside_a_run_in_progress(site: Site) -> None:
    site.clean()
    (site.folder / "app").write_text("#!/bin/sh\ntouch started\nexec sleep 30\n")
    line = [str(hopbyte_binary()), "run", "--", *site.command()]
    environment = {**os.environ, "FAR": "1", "HOME": str(site.folder)}
    with subprocess.Popen(line, cwd=site.folder, env=environment, stderr=subprocess.DEVNULL) as running:
        while not (site.folder / "started").exists():
            time.sleep(0.02)
        site.dry()
        running.kill()


def test_hosts_that_are_no_nodes_are_told_and_not_recorded(site: Site) -> None:
    command = site.command()
    command[2] = "here:4,there:4"
    line = [str(hopbyte_binary()), "run", "--", *command]
    done = subprocess.run(line, cwd=site.folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == CODE
    said = "not recorded, since runs on these hosts cannot be placed: "
    assert said in done.stderr and "found here, expected a node of the fabric" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert site.launches() == [""] and not list((site.folder / "state").glob("*/run-*"))


def test_an_order_that_is_not_followed_is_asked_for_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEAF", "1")
    assert "recording" in site.clean()
    assert "order of 8 ranks is changed" in site.clean()
    for _ in range(2):
        assert "the order asked for was not followed" in site.clean()
    assert site.launches() == [" recorded", "placed recorded", "", ""]
    shutil.rmtree(next((site.folder / "state").glob("*/record")).parent)
    monkeypatch.delenv("DEAF")
    assert "recording" in site.clean()


def test_layouts_and_prefixes_have_records_of_their_own_or_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that deal ranks to hosts are part of a command; what runs the launcher is not."""
    own = Site.command
    monkeypatch.setattr(Site, "command", lambda site: [*own(site)[:-1], "--map-by", "node", "./app"])
    assert "recording" in site.clean()
    monkeypatch.setattr(Site, "command", own)
    assert "recording" in site.clean()
    assert len(list((site.folder / "state").glob("*/command"))) == 2
    for prefix, said in [
        (["timeout", "30"], "order of 8 ranks is changed"),
        (["nice", "-n", "1"], "the last run was placed as requested"),
        (["env", "FAR=1"], "order of 8 ranks is changed"),
    ]:
        monkeypatch.setattr(Site, "command", lambda site, prefix=prefix: [*prefix, *own(site)])
        assert said in site.clean(), prefix
    assert site.launches() == [" recorded", " recorded", "placed recorded", "placed", "placed"]


@pytest.mark.parametrize(("listed", "passed"), [
    ("NONE", "LD_PRELOAD,HOPBYTE_RECORD_DIR"), ("A,LD_PRELOAD", "A,LD_PRELOAD,HOPBYTE_RECORD_DIR"), ("ALL", "ALL"),
])  # fmt: skip
def test_the_list_of_exported_variables_gets_the_recorders(site: Site, listed: str, passed: str) -> None:
    """As `sbatch --export=NONE` leaves it for the steps of its job."""
    srun = site.folder / "srun"
    srun.write_text("#!/bin/sh\nprintenv SLURM_EXPORT_ENV > seen\n")
    srun.chmod(0o755)
    record = [str(hopbyte_binary()), "record", "--flavour", "ompi", "--libraries", ".", "-o", "out"]
    line = [*record, "--", "./srun", "./app"]
    environment = {**os.environ, "SLURM_EXPORT_ENV": listed}
    done = subprocess.run(line, cwd=site.folder, env=environment, capture_output=True, text=True, check=False)
    assert (site.folder / "seen").read_text() == passed + "\n", done.stderr


def kills(site: Site, signal: str) -> Iterator[str]:
    """Runs that are ended at the first, second, … call of each kind, until there is none."""
    state = site.folder / "state"
    kept = site.folder / "kept"
    shutil.copytree(state, kept)
    for call in CHANGES:
        for number in range(1, 100):
            shutil.rmtree(state)
            shutil.copytree(kept, state)
            before = len(site.launches())
            trace = site.folder / "trace"
            inject = f"inject={call}:signal={signal}:when={number}"
            done = site.run(wrap=("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={call}", "-e", inject))
            launched = len(site.launches()) - before
            # Ended by the signal before or in the job, or the job ran once, to its end.
            assert launched == 1 if done.returncode == CODE else launched <= 1, (call, number, done)
            hit = f"killed by {signal}" in trace.read_text() or f"--- {signal}" in trace.read_text()
            if not hit:
                break
            yield f"{call} {number}"
        else:
            pytest.fail(f"no end of {call}")


needs_strace = pytest.mark.skipif(
    not shutil.which("strace")
    or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode != 0,
    reason="needs strace, and the right to trace",
)


@needs_strace
@pytest.mark.parametrize(("earlier", "signal"), [
    (0, "SIGKILL"), (1, "SIGKILL"), (2, "SIGKILL"), (3, "SIGKILL"), (1, "SIGTERM"), (1, "SIGINT"),
])  # fmt: skip
def test_killed_before_every_change(site: Site, earlier: int, signal: str) -> None:
    """After a run that was killed anywhere, the next ones record, place and leave nothing else."""
    for _ in range(earlier):
        site.clean()
    tried = []
    for number in kills(site, signal):
        tried.append(number)
        remarks = [site.clean() for _ in range(3)]
        assert "order of 8 ranks is changed" in remarks[2], (number, remarks)
        assert "command unchanged" not in "".join(remarks), (number, remarks)
        # Files that were half made go when they are old.
        old = time.time() - 3600
        for path in (site.folder / "state").glob("*/.*"):
            os.utime(path, (old, old))
        for path in (site.folder / "state").glob("*/*.new"):
            os.utime(path, (old, old))
        site.clean()
        assert site.settled() == SETTLED, number
    # The lock and the end of the command's own process are always among them.
    assert {"flock 1", "execve 2"} <= set(tried), tried


@pytest.mark.parametrize("rank", [3, 7])
def test_a_damaged_record_is_recorded_again(site: Site, rank: int) -> None:
    for _ in range(3):
        site.clean()
    [file] = (site.folder / "state").glob(f"*/record/rank.{rank}.hbr")
    # Half of a line in place of its traffic, in a file that says it is complete.
    file.write_text(file.read_text().replace("P\t0\t", "P\tx\t"))
    next(file.parent.parent.glob("decision")).unlink()
    said = site.clean()
    assert "the record of an earlier run is damaged and was removed" in said, said
    said += site.clean()
    assert "recording" in said
    assert "order of 8 ranks is changed" in site.clean()


def test_a_search_that_the_deadline_cut_decides_nothing(site: Site) -> None:
    site.clean()
    site.clean()
    for decision in (site.folder / "state").glob("*/decision"):
        decision.unlink()
    said = site.run("--deadline", "0.1").stderr
    assert "decision" not in site.files(), said
    assert "order of 8 ranks is changed" in site.clean()


def test_a_launch_with_nothing_to_do_costs_little(site: Site) -> None:
    """Under 50 ms more than the command alone, when the launcher's own order is known to be as good."""
    site.far = 0
    site.clean()
    for _ in range(2):
        assert "the launcher's own order is as good" in site.clean()
    assert site.launches()[-1] == ""
    (folder := site.folder / "state").chmod(0o700)
    assert folder.exists()

    def seconds(line: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(line, cwd=site.folder, capture_output=True, check=False, env={**os.environ, "FAR": "0"})
        return time.perf_counter() - start

    own = site.command()
    through = [str(hopbyte_binary()), "run", "--", *own]
    pairs = [(seconds(own), seconds(through)) for _ in range(20)]
    added = min(t for _, t in pairs) - min(o for o, _ in pairs)
    assert added < 0.05, f"{added * 1e3:.1f} ms"


def test_another_record_or_machine_is_decided_again(site: Site) -> None:
    site.far = 0
    site.clean()
    assert "as good" in site.clean()
    decided = next((site.folder / "state").glob("*/decision")).read_text()
    assert "as good" in site.clean()
    assert next((site.folder / "state").glob("*/decision")).read_text() == decided
    settings = site.folder / "hopbyte.toml"
    settings.write_text(settings.read_text().replace("2x2", "4x4"))
    site.clean()
    assert next((site.folder / "state").glob("*/decision")).read_text() != decided


@pytest.fixture
def signals_are_heard() -> Iterator[None]:
    """A shell's background jobs ignore SIGINT, and those of nohup SIGHUP; children inherit that."""
    heard = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_are_heard")
def test_the_exit_code_and_the_signals_are_the_jobs(site: Site) -> None:
    app = site.folder / "app"
    for name in ("TERM", "INT", "HUP", "USR1"):
        app.write_text(f"#!/bin/sh\nkill -{name} $$\nsleep 5\n")
        done = site.run()
        assert done.returncode < 0, name
    app.write_text("#!/bin/sh\ntrap 'exit 5' TERM\necho ready; while :; do sleep 0.05; done\n")
    child = subprocess.Popen(
        [str(hopbyte_binary()), "run", "--", *site.command()], cwd=site.folder, stdout=subprocess.PIPE,
        env={**os.environ, "FAR": "1"},
    )  # fmt: skip
    assert child.stdout and child.stdout.readline() == b"ready\n"
    child.terminate()
    assert child.wait(timeout=20) == 5


def test_torchrun_runs_as_it_is(site: Site) -> None:
    """Its exit code and output; the remark names the command that gives the node ranks."""
    torchrun = site.folder / "torchrun"
    torchrun.write_text('#!/bin/sh\necho "$@"\nexit 9\n')
    torchrun.chmod(0o755)
    line = [str(hopbyte_binary()), "run", "--", "./torchrun", "--nnodes=4", "--node-rank=0", "train.py"]
    environment = {**os.environ, "SLURM_JOB_NODELIST": "n[1-4]"}
    done = subprocess.run(line, cwd=site.folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (9, "--nnodes=4 --node-rank=0 train.py\n")
    assert "command unchanged: torchrun" in done.stderr and "--emit torchrun" in done.stderr


FLUX = """#!/bin/sh
[ "$1 $2" = "getattr hostlist" ] && { echo 'n[0-1]-[0-1]'; exit; }
[ "$1" = run ] || exit 64
echo "${HOPBYTE_REORDER_MAP:+placed}${HOPBYTE_RECORD_DIR:+ recorded} $LD_PRELOAD" >> launches
while [ "${1#./}" = "$1" ]; do shift; done
exec "$@"
"""


def test_flux_run_is_recorded(site: Site) -> None:
    """`flux run` on a script that stands for Flux: its hosts are asked for, and the recorder is in its environment."""
    (site.folder / "flux").write_text(FLUX)
    (site.folder / "flux").chmod(0o755)
    # The program is linked with an MPI, which tells the library to preload.
    cc = shutil.which("gcc")
    if cc is None:
        pytest.skip("needs gcc")
    library = site.folder / "libmpi.so.40"
    (site.folder / "mpi.c").write_text("int MPI_Init(int *n, char ***v) { (void)n; (void)v; return 0; }\n")
    (site.folder / "app.c").write_text("int MPI_Init(int *, char ***);\nint main(void) { MPI_Init(0, 0); return 7; }\n")
    subprocess.run(
        [cc, "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", library, site.folder / "mpi.c"], check=True
    )
    own = [cc, "-o", site.folder / "mpiapp", site.folder / "app.c", library, f"-Wl,-rpath,{site.folder}"]
    subprocess.run(own, check=True)
    environment = {**os.environ, "PATH": f"{site.folder}:{os.environ['PATH']}", "HOME": str(site.folder)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [str(hopbyte_binary()), "run", "--", "flux", *words, "./mpiapp"]
        return subprocess.run(line, cwd=site.folder, env=environment, capture_output=True, text=True, check=False)

    done = run("run", "-n", "8", "-c", "2", "-o", "cpu-affinity=per-task")
    assert (done.returncode, "recording" in done.stderr) == (CODE, True), done.stderr
    last = site.launches()[-1]
    assert last.startswith(" recorded") and "libhopbyte_record_ompi.so" in last
    done = run("run", "-N", "2", "-n", "8")
    assert done.returncode == CODE and "does not use all 4 nodes" in done.stderr, done.stderr
    done = run("submit", "-n", "8")
    assert done.returncode == 64 and "only `flux run`" in done.stderr, done.stderr
