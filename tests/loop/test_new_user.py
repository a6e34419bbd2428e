"""What a new user meets: names with blanks, no home, a full disk, closed pipes, misspelt settings and options.

Each refusal names the place, what was found and expected, and what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from program import hopbyte_binary

Done = subprocess.CompletedProcess[bytes]


class User:
    """A user in a folder of their own, with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    def types(self, *words: str | bytes, code: int = 0, **options: object) -> Done:
        line = [str(hopbyte_binary()), *words]
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "env": self.environment, **options}
        done: Done = subprocess.run(
            line, cwd=self.folder, stderr=subprocess.PIPE, timeout=60, check=False, **given
        )  # type: ignore[call-overload]
        assert done.returncode == code, (words, done)
        assert b"panicked" not in done.stderr
        return done

    def sets(self, text: str) -> None:
        (self.folder / "hopbyte.toml").write_text(text)


@pytest.fixture
def user(tmp_path: Path) -> User:
    folder = tmp_path / "my first job"
    folder.mkdir()
    return User(folder)


MAP = ["map", "my traffic.csv", "--fabric", "torus:4x4", "--nodes", "n0-0:2,n0-1:2"]


def test_names_with_blanks_are_quoted_in_the_line_to_type(user: User) -> None:
    (user.folder / "my traffic.csv").write_text("src,dst,bytes\n0,1,10\n2,3,10\n")
    user.types(*MAP, "--out", "my out", "--report", "my page.html")
    done = user.types("apply", "my out/mapping.json", "--emit", "openmpi-rankfile", "--to", "my ranks")
    assert b"mpirun -n 4 --rankfile 'my ranks' ./app" in done.stderr
    assert b"file='my ranks'" in done.stderr


@pytest.mark.parametrize(("text", "said"), [
    ("fabrik = 'torus:4x4'\n", ":1: found fabrik, expected fabric, "),
    ("fabrik = 'torus:4x4'\n", "hint: there is fabric\n"),
    ("# mine\nsystem_map = 'a'\n", ":2: found system_map"),
    ("# mine\nsystem_map = 'a'\n", "hint: there is system-map\n"),
    ("oracle = 'a:1'\nfabric = ''\n", ':2: found fabric = "", expected a text'),
    ("[fabric]\nfile = 'a'\n", ":1: found fabric = "),
])  # fmt: skip
def test_a_misspelt_setting_is_named_with_its_line(user: User, text: str, said: str) -> None:
    user.sets(text)
    done = user.types("config", code=2)
    assert done.stderr.startswith(b"error[HB0101]: ") and said in done.stderr.decode()
    # A job runs all the same.
    user.types("run", "--", "sh", "-c", "exit 7", code=7)


def test_settings_that_lead_nowhere_are_told(user: User) -> None:
    user.sets("fabric = 'toros:4x4'\nroutes = ['my tables.txt']\n")
    user.environment["HOPBYTE_FABRIK"] = "torus:4x4"
    said = user.types("config").stderr.decode()
    assert "did you mean torus:4x4?" in said
    assert "routes = my tables.txt of " in said and "there is no such file" in said
    assert "HOPBYTE_FABRIK is not read; there is HOPBYTE_FABRIC" in said
    user.sets("fabric = 'torus:4x4'\n")
    del user.environment["HOPBYTE_FABRIK"]
    assert user.types("config").stderr == b""


def test_every_origin_of_a_setting(user: User) -> None:
    """User, project, variable; a later one wins, and a new machine drops the parts of the earlier."""
    settings = user.folder / ".config/hopbyte"
    settings.mkdir(parents=True)
    (settings / "hopbyte.toml").write_text("fabric = 'torus:4x4'\nnames = 'n'\nstate = 's'\n")

    def origins() -> dict[str, tuple[str, str]]:
        answer = json.loads(user.types("config", "--json").stdout)
        return {s["name"]: (*s["values"], s["origin"]) for s in answer["settings"]}

    assert origins()["fabric"] == ("torus:4x4", str(settings / "hopbyte.toml"))
    user.sets("fabric = 'torus:8x8'\n")
    found = origins()
    assert found["fabric"] == ("torus:8x8", str(user.folder / "hopbyte.toml"))
    # A path of a file is one beside it, also before the folder exists.
    assert "names" not in found and found["state"][0] == str(settings / "s")
    user.environment["HOPBYTE_FABRIC"] = "mesh:2x2"
    assert origins()["fabric"] == ("mesh:2x2", "HOPBYTE_FABRIC")


@pytest.mark.parametrize(("words", "named"), [
    (["fabric", "show"], ["mesh:2x2"]), (["fabric", "nodes"], ["mesh:2x2"]), (["fabric", "pairs"], ["mesh:2x2"]),
    (["fabric", "route", "n0-0", "n3-0"], ["mesh:4x4", "n0-0", "n3-0"]), (["fabric", "diff", "torus:4x4"], None),
    (["probe", "plan"], ["mesh:2x2"]),
])  # fmt: skip
def test_the_configured_machine_is_the_first_argument(user: User, words: list[str], named: list[str] | None) -> None:
    """One that is named replaces it; without either, the argument is missing. Help shows it as optional."""
    verb = words[:2]
    assert b"[OPTIONS] [FABRIC]" in user.types(*verb, "-h").stdout or named is None
    assert b"FABRIC" in user.types(*words, code=2).stderr or named is None
    user.sets("fabric = 'torus:4x4'\n")
    done = user.types(*words)
    assert done.stderr.startswith(b"hopbyte: fabric torus:4x4 of ")
    assert done.stdout == user.types(*verb, "torus:4x4", *words[2:]).stdout
    if named:
        other = user.types(*verb, *named)
        assert b"hopbyte.toml" not in other.stderr and other.stdout != done.stdout


def test_a_warning_of_run_is_one_line(user: User) -> None:
    (user.folder / "machine.txt").write_text("no machine\n")
    user.sets("fabric = 'machine.txt'\nstate = 's'\n")
    mpirun = user.folder / "mpirun"
    mpirun.write_text("#!/bin/sh\nexit 7\n")
    mpirun.chmod(0o755)
    for text in ("fabric = 'machine.txt'\n", "fabrik = 'a'\n", "fabric = \n"):
        user.sets(text)
        said = user.types("run", "--", "./mpirun", "-n", "4", "--host", "a:2,b:2", "true", code=7).stderr.decode()
        assert said.startswith("hopbyte: command unchanged: ") and said.count("\n") == 1, said


@pytest.mark.parametrize("home", [None, "/nowhere", "/proc"])
def test_a_launch_without_a_usable_home(user: User, home: str | None) -> None:
    del user.environment["HOME"]
    user.environment |= {"HOME": home} if home else {}
    done = user.types("run", "--", "sh", "-c", "exit 7", code=7)
    assert done.stderr.count(b"\n") <= 1


def test_a_misspelt_option_is_not_taken_for_the_job(user: User) -> None:
    done = user.types("run", "--dryrun", "--", "true", code=2)
    assert b"'--dryrun'" in done.stderr and b"'--dry-run'" in done.stderr
    done = user.types("record", "--librarys", "x", "--", "true", code=2)
    assert b"'--libraries'" in done.stderr
    assert user.types("run", "--dry-run", "sh", "-c", "exit 1").stdout == b"sh -c 'exit 1'\n"


@pytest.mark.parametrize(("words", "meant"), [
    (["mpa"], b"'map'"), (["fabric", "shwo"], b"'show'"), (["reocrd"], b"'record'"),
])  # fmt: skip
def test_a_verb_with_swapped_letters_is_known(user: User, words: list[str], meant: bytes) -> None:
    assert b"similar subcommand exists: " + meant in user.types(*words, code=2).stderr


def test_a_dry_run_as_json(user: User) -> None:
    shown = json.loads(user.types("run", "--json", "--dry-run", "sh", "-c", "exit 1").stdout)
    assert shown["schema"] == "hopbyte.run/1" and shown["command"] == ["sh", "-c", "exit 1"]
    assert shown["unchanged"] and shown["remarks"] == ["command unchanged: `sh` is no known launcher"]


def test_a_missing_program_names_the_installed_sources(user: User) -> None:
    installed = user.folder.parent / "opt"
    (installed / "bin").mkdir(parents=True)
    sources = installed / "share/hopbyte/src"
    sources.mkdir(parents=True)
    shutil.copy(hopbyte_binary(), installed / "bin/hopbyte")
    line = [str(installed / "bin/hopbyte"), "doctor", "--memory"]
    done = subprocess.run(line, cwd=user.folder, env=user.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and f"`make -C {sources}/mpi doctor OUT=FOLDER`" in done.stderr, done


def test_an_argument_that_is_not_text(user: User) -> None:
    done = user.types("fabric", "show", b"caf\xe9.txt", code=2)
    assert b"caf\\u{fffd}.txt with bytes that are not UTF-8" in done.stderr and b"hint: " in done.stderr
    # A job's own arguments are passed on as they are.
    done = user.types("run", "--", "printf", "%s", b"caf\xe9")
    assert done.stdout == b"caf\xe9"


@pytest.mark.parametrize("words", [
    ["fabric", "show", "torus:4x4"], ["fabric", "show", "torus:4x4", "--json"], ["fabric", "nodes", "torus:20x20x20"],
    ["config"], ["doctor"],
])  # fmt: skip
def test_a_full_disk_behind_the_output(user: User, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = user.types(*words, code=3, stdout=full)
    assert done.stderr.startswith(b"error[HB0603]: cannot write standard output: No space left")


def test_a_reader_that_stops_early(user: User) -> None:
    read, write = os.pipe()
    os.close(read)
    for words in (["fabric", "nodes", "torus:20x20x20"], ["fabric", "show", "torus:4x4", "--json"]):
        assert user.types(*words, stdout=write).stderr == b""
    os.close(write)


def test_no_terminal_type_no_columns_no_input(user: User) -> None:
    user.environment["COLUMNS"] = "1"
    assert user.types("map", "--help").stdout
    done = user.types("map", "-", "--fabric", "torus:4x4", "--nodes", "all", code=2)
    assert b"found a device, expected a regular file\nhint: " in done.stderr


LAUNCH = ["run", "--", "./mpirun", "-n", "4", "--host", "a:2,b:2", "true"]


@pytest.fixture
def launcher(user: User) -> User:
    (user.folder / "mpirun").write_text("#!/bin/sh\nexit 7\n")
    (user.folder / "mpirun").chmod(0o755)
    return user


def test_a_misspelt_variable_is_told_by_every_verb_that_reads_settings(launcher: User) -> None:
    user = launcher
    remark = "HOPBYTE_FABRIK is not read; there is HOPBYTE_FABRIC"
    user.environment |= {"HOPBYTE_FABRIK": "torus:4x4", "HOPBYTE_SHMEM_NETWORK_LATENCY": "1", "HOPBYTE_TOKEN_FILE": "t"}
    for words in (["fabric", "show"], ["links", "x"], ["map", "stencil:2x2:5", "--nodes", "all"], ["probe", "plan"]):
        said = user.types(*words, code=2).stderr.decode()
        assert said.startswith(f"hopbyte: {remark}\n") and said.count("is not read") == 1, said
    said = user.types(*LAUNCH, code=7).stderr.decode()
    assert said.startswith("hopbyte: command unchanged: ") and said.endswith(f"; {remark}\n"), said
    assert said.count("\n") == 1
    user.sets("fabric = 'torus:4x4'\nstate = 's'\n")
    assert user.types("fabric", "show").stderr.decode().count(remark) == 1
    # A command line that needs no setting reads none.
    assert user.types("fabric", "show", "torus:4x4").stderr == b""


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_settings_that_are_no_file_are_refused(launcher: User, kind: str) -> None:
    user = launcher
    path = user.folder / "hopbyte.toml"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "link": lambda: path.symlink_to("nowhere")}[kind]()
    said = user.types("config", code=2).stderr.decode()
    assert str(path) in said and "\nhint: " in said
    assert f"command unchanged: {path}: " in user.types(*LAUNCH, code=7).stderr.decode()


def test_a_store_that_is_a_file(launcher: User) -> None:
    user = launcher
    (user.folder / "s").write_text("")
    user.sets("fabric = 'torus:4x4'\nstate = 's'\n")
    said = user.types(*LAUNCH, code=7).stderr.decode()
    assert "expected a folder as state; name a folder" in said and "hopbyte.toml" in said and said.count("\n") == 1


def test_a_misspelt_launcher_keeps_its_error(user: User) -> None:
    done = user.types("run", "--", "mpirn", "-n", "2", "true", code=127)
    assert b"mpirn: No such file or directory (os error 2); did you mean mpirun?\n" in done.stderr


@pytest.mark.parametrize(("settings", "said"), [
    ("launcher = 'openmpi-rankfil'\n", "hint: there is openmpi-rankfile"),
    ("collector = 'head'\n", ":1: found collector = head, expected HOST:PORT"),
])  # fmt: skip
def test_a_setting_without_effect_is_refused(user: User, settings: str, said: str) -> None:
    user.sets(settings)
    assert said in user.types("config", code=2).stderr.decode()


def test_the_configured_launcher_is_written(user: User) -> None:
    (user.folder / "my traffic.csv").write_text("src,dst,bytes\n0,1,10\n2,3,10\n")
    user.types(*MAP, "--out", "out")
    # A configured machine replaces neither that of the mapping, nor are its parts options of apply.
    user.sets("launcher = 'openmpi-rankfile'\nfabric = 'torus:2x2'\nroutes = ['r']\n")
    done = user.types("apply", "out/mapping.json")
    assert done.stdout.startswith(b"rank 0=n0-0 slot=0\n")
    assert done.stderr.startswith(b"hopbyte: launcher openmpi-rankfile of ")
    assert user.types("apply", "out/mapping.json", "--emit", "csv").stdout.startswith(b"rank,node")
    assert b'"launcher":"slurm-hostfile"' in user.types("apply", "out/mapping.json", "--json").stdout
    assert b"out/ranks" in user.types("apply", "out/mapping.json", "--to", "out/ranks").stderr


def test_the_configured_collector_is_the_default_source(user: User) -> None:
    """Nothing listens there, which the refusals name."""
    user.sets("fabric = 'torus:4x4'\ncollector = 'localhost:1'\ntoken = 'secret'\n")
    (user.folder / "secret").write_text("0123456789abcdef\n")
    (user.folder / "secret").chmod(0o644)
    words = [["links"], ["blame"], ["watch"], ["map", "stencil:2x2:5", "--nodes", "all"], ["replay", "localhost:1"]]
    for line in words:
        said = user.types(*line, code=2).stderr.decode()
        assert "secret: found mode 0644" in said, said
    (user.folder / "secret").chmod(0o600)
    for line in words:
        said = user.types(*line, code=3).stderr.decode()
        assert "collector localhost:1: Connection refused" in said, said
    # Another machine has another load, and another source is read in its place.
    user.types("map", "stencil:2x2:5", "--nodes", "all", "--fabric", "torus:2x2", "--seconds", "0.1")
    assert b"other:1" in user.types("links", "other:1", code=3).stderr
    user.sets("fabric = 'torus:4x4'\noracle = 'localhost:1'\ncollector = 'other:1'\n")
    said = user.types("map", "stencil:2x2:5", "--nodes", "all", code=3).stderr.decode()
    assert "oracle http://localhost:1: Connection refused" in said


@pytest.mark.parametrize(("words", "said"), [
    (["map", "stencil:2x2:5", "--seconds", "-1"], "--seconds: found -1, expected a value that is not negative"),
    (["map", "stencil:2x2:5", "--trials", "-12"], "--trials: found -12, expected"),
    (["agent", "--keep", "-3"], "--keep: found -3, expected"),
    (["agent", "--to", "nowhere"], "--to: found nowhere, expected HOST:PORT"),
    (["agent", "--to", "udp://head:port"], "--to: found head:port, expected HOST:PORT"),
    (["oracle", "query", "n0-0", "n0-1", "--fabric", "torus:4x4", "--counters", "x"], "metric hops needs no counters"),
])  # fmt: skip
def test_values_of_options(user: User, words: list[str], said: str) -> None:
    text = user.types(*words, code=2).stderr.decode()
    assert said in text and "-- -" not in text, text


@pytest.mark.parametrize(("address", "code", "said"), [
    ("localhost", 2, "hint: an address is http://HOST:PORT, HOST:PORT or the path of a socket"),
    ("http://localhost", 3, "hint: no port in the address: http://HOST:PORT"),
    ("localhost:1", 3, "oracle http://localhost:1: Connection refused"),
])  # fmt: skip
def test_addresses_of_an_oracle(user: User, address: str, code: int, said: str) -> None:
    line = ["map", "stencil:2x2:5", "--fabric", "torus:2x2", "--nodes", "all", "--oracle", address]
    assert said in user.types(*line, code=code).stderr.decode()


DATA = Path(__file__).resolve().parents[2] / "data"
TOPOBW = str(DATA / "probe/topobw.jsonl")
COUNTERS = str(DATA / "links.jsonl")
TRACE = str(DATA / "trace-halo")
PROF = str(DATA / "comm/lammps-lj-64.prof.tar.zst")
PLACED = str(DATA / "run-ring/placement.csv")
ON = ["--fabric", "torus:4x4"]


@pytest.mark.parametrize(("words", "said"), [
    (["map", COUNTERS, *ON, "--nodes", "all"], "the file is counters ("),
    (["map", TOPOBW, *ON, "--nodes", "all"], "the file is results of a probe ("),
    (["map", "stencil:2x2:5", "--fabric", COUNTERS, "--nodes", "all"], "the file is counters ("),
    (["blame", TOPOBW, *ON], "the file is results of a probe ("),
    (["blame", COUNTERS, "--fabric", TOPOBW], "the file is results of a probe ("),
    (["blame", "stencil:4x4:5", *ON], "stencil:4x4:5 is a spec of a traffic: "),
    (["probe", "analyse", "torus:4x4", "--fabric", TOPOBW], "the file is results of a probe ("),
    (["probe", "analyse", COUNTERS, *ON], "the file is counters ("),
    (["predict", "torus:4x4", "--fabric", TRACE], "the folder is a trace ("),
    (["predict", COUNTERS, *ON], "the file is counters ("),
    (["predict", TRACE, *ON, "--placement", COUNTERS], "the file is counters ("),
    (["fabric", "show", "stencil:4x4:5"], "stencil:4x4:5 is a spec of a traffic: "),
    (["fabric", "show", PROF], "the file is traffic (Open MPI monitoring (.prof)): "),
    (["fabric", "show", TRACE], "the folder is a trace ("),
    (["fabric", "show", TOPOBW], "the file is results of a probe ("),
    (["fabric", "show", PLACED], "the file is a placement ("),
    (["apply", COUNTERS], "the file is counters ("),
    (["links", PROF, *ON], "the file is traffic ("),
])  # fmt: skip
def test_files_in_each_others_place(user: User, words: list[str], said: str) -> None:
    text = user.types(*words, code=2).stderr.decode()
    assert f"hint: {said}" in text and "are two arguments swapped?" in text, text


@pytest.mark.parametrize(("words", "code", "said"), [
    (["fabric", "check", "torus:4x4", "--routes", "junk.txt"], 2, "--routes: found junk.txt, expected no forwarding"),
    (["fabric", "check", str(DATA / "infiniband/opensm-x5-minhop/ibnetdiscover-p.out.zst"), "--routes", "junk.txt"], 2,
     "hint: forwarding tables come from "),
    (["map", "stencil:2x2:5", *ON, "--nodes", "al"], 2, "hint: did you mean all, "),
    (["map", "stencil:2x2:5", *ON, "--nodes", "n0-0:x"], 2, "found x slots of n0-0, expected a whole number"),
    (["map", "alltoal:16", *ON, "--nodes", "all"], 2, "did you mean collective:alltoall:16?"),
    (["map", "collective:alltoal:16:8", *ON, "--nodes", "all"], 2, "did you mean collective:alltoall:16:8?"),
    (["map", "empty", *ON, "--nodes", "all"], 2, "hint: "),
    (["apply", "junk.txt"], 2, "junk.txt:1: found junk, expected a mapping as `hopbyte map --json` prints it\nhint: "),
    (["fabric", "show", "loop"], 3, "hint: a symbolic link leads back to itself"),
    (["map", "stencil:2x2:5", *ON, "--nodes", "all", "--seconds", "99", "--out", "junk.txt/x"], 2,
     "hint: junk.txt is a file: name another folder"),
    (["fabric", "draw", "torus:4x4", "--out", "nowhere/x.svg"], 2, "hint: check the path; a folder "),
    (["replay", "folder"], 2, "hint: `hopbyte collect --store FOLDER` writes one"),
    (["watch", "localhost:1"], 3, "hint: nothing listens there: check HOST:PORT, or start one with: hopbyte collect"),
    (["links", "no-such-host.invalid:7667", *ON], 3, "collector no-such-host.invalid:7667: failed to lookup"),
    (["fabric", "show", "topology.conf"], 2, "hint: each [ needs its ]"),
    (["predict", str(DATA / "run-ring"), *ON], 2, "(hopbyte's recorder (.hbr)): `hopbyte record --trace` records"),
    (["oracle", "query", "n77", "n0-1", *ON], 2, "no node 'n77' in torus:4x4\nhint: "),
    (["oracle", "query", "somewhere", "n0-1", *ON], 2, "hint: nodes are called n0-0, n0-1, n0-2; `hopbyte fabric"),
    (["model", "reproduce", "--from", str(DATA.parent / "scenarios"), "D1", "G555"], 2, "no row G555 in "),
])  # fmt: skip
def test_a_refusal_says_what_to_do(user: User, words: list[str], code: int, said: str) -> None:
    (user.folder / "junk.txt").write_text("junk\nmore\n")
    (user.folder / "empty").write_text("")
    (user.folder / "loop").symlink_to("loop")
    (user.folder / "folder").mkdir()
    (user.folder / "topology.conf").write_text("SwitchName=s0 Nodes=n[1-\n")
    text = user.types(*words, code=code).stderr.decode()
    assert said in text and "\nhint: " in text, text


def test_rows_in_any_case(user: User) -> None:
    rows = str(DATA.parent / "scenarios")
    upper, lower = (user.types("model", "reproduce", "--from", rows, row).stdout for row in ("D1", "d1"))
    assert upper == lower != b""


def test_lists_from_standard_input(user: User) -> None:
    given = {"input": b"n0-0\nn0-1\n", "stdin": None}
    done = user.types("map", "stencil:2x1:5", *ON, "--seconds", "0.1", "--nodes", "@-", **given)
    assert b"2 nodes with 2 slots" in done.stdout
    assert user.types("fabric", "check", "torus:4x4", "--down", "@-", "--json", **given, code=2).stderr
