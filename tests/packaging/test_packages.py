"""Debian package, wheel and tarball as a new user installs them; other recipes as far as they can be checked here."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import MINUTE, Root, only, under_a_minute
from program import ROOT

FAKE = '#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit\necho "$@"\nexit 3\n'


def works(root: Root, command: str) -> None:
    """Doctor, demo and published figures, in an empty folder."""
    root.run("mkdir -p /tmp/w")
    with under_a_minute():
        assert "recovers" in root.run(f"cd /tmp/w && {command} demo").stdout
    assert (root.folder / "tmp/w/out/rankfile").exists()
    told = root.run(f"cd /tmp/w && {command} doctor --json; test $? -le 1").stdout
    assert all(json.loads(line)["schema"] == "hopbyte.doctor/1" for line in told.splitlines())
    # A program of its own, without an MPI.
    memory = root.run(f"cd /tmp/w && {command} --json doctor --memory").stdout
    assert '"kind"' in memory, memory
    # The rows come with the package; the whole table takes 40 s.
    rows = os.environ.get("PACKAGING_ROWS", "G3 G5 D1 T2")
    reproduced = root.run(f"cd /tmp/w && {command} --json model reproduce {rows}").stdout.splitlines()
    assert json.loads(reproduced[-1])["kind"] == "summary" and len(reproduced) > 4


def test_the_deb_installs_runs_upgrades_and_leaves_the_store(root: Root, tmp_path: Path) -> None:
    deb = only("hopbyte_*.deb")
    with under_a_minute():
        root.run(f"apt-get install -y {root.add(deb)}")
    works(root, "hopbyte")
    assert root.run("id -u hopbyte").stdout.strip().isdigit()
    for path in (
        "usr/share/man/man1/hopbyte-map.1.gz",
        "usr/share/bash-completion/completions/hopbyte",
        "lib/systemd/system/hopbyte-agent.service",
        "etc/hopbyte/collect.toml",
        "usr/bin/hopbyte-agent",
        "usr/include/hopbyte.h",
        "usr/share/man/man1/hopbyte-run.1.gz",
        "usr/libexec/hopbyte/hopbyte-memory",
        "usr/libexec/hopbyte/hopbyte-mads",
    ):
        assert (root.folder / path).exists(), path
    assert "/etc/hopbyte/hopbyte.toml" not in root.run("hopbyte config").stdout

    # Another version over it: configuration and store stay.
    (root.folder / "etc/hopbyte/agent.toml").write_text('to = "elsewhere:7667"\n')
    store = root.folder / "var/lib/hopbyte/store"
    store.mkdir(parents=True)
    (store / "1.log").write_text("measured")
    newer = tmp_path / "newer"
    subprocess.run(["dpkg-deb", "-R", deb, newer], check=True)
    control = newer / "DEBIAN/control"
    control.write_text(control.read_text().replace("Version: ", "Version: 1:"))
    with (newer / "etc/hopbyte/agent.toml").open("a") as file:
        file.write("# a newer default\n")
    packed = tmp_path / "hopbyte_newer.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", newer, packed], check=True, stdout=subprocess.DEVNULL)
    root.run(f"dpkg --force-confdef --force-confold -i {root.add(packed)}")
    assert (root.folder / "etc/hopbyte/agent.toml").read_text() == 'to = "elsewhere:7667"\n'
    root.run("dpkg --remove hopbyte")
    assert not (root.folder / "usr/bin/hopbyte").exists()
    assert (root.folder / "etc/hopbyte/agent.toml").exists()
    assert "is kept" in root.run("dpkg --purge hopbyte").stderr
    assert not (root.folder / "etc/hopbyte/agent.toml").exists()
    assert (store / "1.log").read_text() == "measured"


def test_the_deb_has_what_it_names(tmp_path: Path) -> None:
    """Units that systemd accepts, a pkg-config file that compiles a program, preload libraries without an MPI."""
    stage = tmp_path / "deb"
    subprocess.run(["dpkg-deb", "-x", only("hopbyte_*.deb"), stage], check=True)
    for unit in sorted((stage / "lib/systemd/system").glob("*.service")):
        # Beside the units of this machine, with the programs of the package.
        here = tmp_path / unit.name
        here.write_text(unit.read_text().replace("=/usr/bin/", f"={stage}/usr/bin/"))
        done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and unit.name not in done.stderr, done.stderr
    program = tmp_path / "version.c"
    program.write_text("#include <hopbyte.h>\nint main(void) { return 0; }\n")
    environment = {
        **os.environ,
        "PKG_CONFIG_LIBDIR": str(next(stage.glob("usr/lib/*/pkgconfig"))),
        "PKG_CONFIG_SYSROOT_DIR": str(stage),
        "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
        "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
    }
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "hopbyte"], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    subprocess.run(["gcc", "-o", tmp_path / "version", program, *flags], check=True)
    for library in (stage / "usr/lib/hopbyte").glob("*.so"):
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        assert "libmpi" not in needed, library
    assert (stage / "usr/bin/hopbyte").stat().st_size < 30e6


def test_lintian_finds_nothing() -> None:
    deb = only("hopbyte_*.deb")
    done = subprocess.run(
        ["lintian", "--fail-on", "error,warning", "--allow-root", deb], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_installs_and_runs(root: Root, tmp_path: Path) -> None:
    wheel = only("hopbyte-*-manylinux*.whl")
    assert "abi3" in wheel.name
    # The root has no network: numpy comes beside it.
    numpy = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", tmp_path, "numpy"]
    subprocess.run(numpy, check=True)
    for file in [wheel, *tmp_path.glob("*.whl")]:
        root.add(file, "wheels")
    root.run("python3 -m venv /v")
    with under_a_minute():
        root.run(f"/v/bin/pip install --no-index --find-links /wheels /wheels/{wheel.name}")
    works(root, "/v/bin/hopbyte")
    works(root, "/v/bin/python -m hopbyte")
    root.run("""/v/bin/python -c "import hopbyte; print(hopbyte.load_fabric('torus:4x4'))" """)
    # The command finds the libraries, and starts itself again as the command, not as an interpreter.
    libraries = sorted(path.name for path in (root.folder / "v/lib/hopbyte").glob("*.so"))
    if (ROOT / "build/mpi").is_dir():
        assert {f"libhopbyte_record_{abi}.so" for abi in ("ompi", "mpich", "abi")} <= set(libraries)
        mpirun = root.folder / "usr/local/bin/mpirun"
        mpirun.write_text(FAKE)
        mpirun.chmod(0o755)
        said = root.run("cd /tmp/w && /v/bin/hopbyte record -- mpirun -n 2 true", code=1).stdout
        assert "LD_PRELOAD=/v/lib/hopbyte/libhopbyte_record_ompi.so" in said
    assert (root.folder / "v/share/hopbyte/src/mpi/Makefile").exists()


def test_the_musl_wheel_installs_and_runs(tmp_path: Path) -> None:
    """With the Python of a musl system (MUSL_PYTHON, which needs pip); without one, that it needs nothing of glibc."""
    wheel = only("hopbyte-*-musllinux*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    libraries = list((tmp_path / "wheel").rglob("*.so"))
    names = {library.name for library in libraries}
    assert {f"libhopbyte_record_{abi}.so" for abi in ("ompi", "mpich", "abi")} <= names
    for file in [*libraries, *(tmp_path / "wheel").rglob("libexec/hopbyte/*")]:
        shown = subprocess.run(["readelf", "-dV", file], capture_output=True, text=True, check=True).stdout
        assert "GLIBC" not in shown and "libgcc_s" not in shown, file
    python = os.environ.get("MUSL_PYTHON")
    if not python:
        pytest.skip("installing it needs MUSL_PYTHON, the Python of a musl system with pip")
    pip = [python, "-m", "pip", "install", "-q", "--target", str(tmp_path / "there")]
    subprocess.run([*pip, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "there")}
    for words in (["-m", "hopbyte", "demo"], ["-c", "import hopbyte; print(hopbyte.load_fabric('torus:4x4'))"]):
        subprocess.run([python, *words], env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=120)


def test_the_tarball_builds_without_a_network(tmp_path: Path) -> None:
    """One crate and its dependencies; PACKAGING_FULL=1 the whole command."""
    tarball = only("hopbyte-*.tar.xz")
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("hopbyte-*")
    crate = "hopbyte-cli" if os.environ.get("PACKAGING_FULL") else "hopbyte-model"
    # Without registries: neither a network nor what cargo has downloaded before.
    home = tmp_path / "cargo"
    home.mkdir()
    environment = {**os.environ, "CARGO_HOME": str(home), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    line = ["unshare", "--net", "cargo", "check", "--quiet", "--offline", "--locked", "-p", crate]
    with contextlib.nullcontext() if crate == "hopbyte-cli" else under_a_minute():
        done = subprocess.run(line, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_the_bill_of_materials_is_cyclonedx(tmp_path: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    subprocess.run([sys.executable, ROOT / "scripts/sbom.py", tmp_path], check=True, stdout=subprocess.DEVNULL)
    text = (tmp_path / "hopbyte.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    bom = json.loads(text)
    names = {component["name"] for component in bom["components"]}
    # Known members, a procedural macro and a crate of tests only.
    assert {"hopbyte-fabric", "rustls", "parquet", "pyo3"} <= names
    assert not {"serde_derive", "proptest", "trycmd"} & names
    assert all(c.get("hashes") for c in bom["components"] if not c["name"].startswith("hopbyte-"))
    notices = (tmp_path / "third-party.txt").read_text()
    assert all(f"  {name} " in notices for name in names if not name.startswith("hopbyte-"))


def test_recipes_are_well_formed() -> None:
    packaging = ROOT / "packaging"
    for file in [packaging / "spack/package.py", *packaging.glob("easybuild/*.eb")]:
        ast.parse(file.read_text())
    version = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version", "1"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )["packages"][0]["version"]
    for name in (
        "hopbyte.spec",
        "spack/package.py",
        "conda/recipe.yaml",
        f"easybuild/hopbyte-{version}-GCCcore-14.3.0.eb",
    ):
        assert version in (packaging / name).read_text(), name
    if shutil.which("rpmspec"):
        done = subprocess.run(
            ["rpmspec", "-P", packaging / "hopbyte.spec"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("platform", ["", "x86_64-unknown-linux-gnu"])
def test_recipes_install_what_they_have_built(tmp_path: Path, platform: str) -> None:
    """The commands of conda's recipe; conda's Rust names the platform, so that programs are in a folder of its name."""
    built = tmp_path / "target" / platform / "dist"
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    (install,) = (line.strip(" -") for line in recipe.splitlines() if "make install" in line)
    environment = {**os.environ, "PREFIX": str(tmp_path), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    environment.pop("CARGO_BUILD_TARGET", None)
    if platform:
        environment["CARGO_BUILD_TARGET"] = platform
    # What needs a compiler is left out.
    line = ["sh", "-c", install.replace("make ", "make -n ", 1)]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert f"install -D -m 755 {built}/hopbyte {tmp_path}/bin/hopbyte\n" in done.stdout


def test_the_static_program_needs_no_other_file(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for chroot")
    path = {"PATH": os.environ["PATH"]}
    program = shutil.copy(only("static/hopbyte"), tmp_path)
    assert Path(program).stat().st_size < 16e6

    def run(*words: str, most: int = 0) -> str:
        command = ["chroot", tmp_path, "/hopbyte", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=path, timeout=10 * MINUTE)
        assert done.returncode <= most, done.stderr
        return done.stdout

    with under_a_minute():
        assert "recovers" in run("demo", "--out", "/out")
    assert (tmp_path / "out/rankfile").exists()
    mapped = json.loads(run("--json", "map", "stencil:8x8x8:7", "--fabric", "torus:8x8x8", "--nodes", "all"))
    assert mapped["schema"] == "hopbyte.map/1"
    # Doctor says no where nothing can be read.
    assert "rtnetlink" in run("doctor", most=1)


def test_the_conda_recipe_renders() -> None:
    """By rattler-build's own library; a build would need the channels."""
    rattler_build = pytest.importorskip("rattler_build", reason="needs pip's py-rattler-build")
    recipe = rattler_build.Stage0Recipe.from_file(str(ROOT / "packaging/conda/recipe.yaml"))
    (variant,) = recipe.render(rattler_build.VariantConfig())
    assert "package='hopbyte'" in repr(variant)


def test_the_module_file_sets_the_paths(tmp_path: Path) -> None:
    start = Path("/usr/share/modules/init/sh")
    if not start.exists():
        pytest.skip("needs environment-modules")
    (tmp_path / "hopbyte").mkdir()
    shutil.copy(ROOT / "packaging/modulefile", tmp_path / "hopbyte/0.1.0")
    script = f". {start}; module use {tmp_path}; module load hopbyte; echo $PATH; module unload hopbyte; echo $PATH"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    with_it, without = done.stdout.splitlines()
    assert with_it.startswith("/opt/hopbyte/bin:") and "/opt/hopbyte" not in without, done.stderr
