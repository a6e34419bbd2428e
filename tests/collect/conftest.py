"""A collector and an agent of this machine, and the other programs of these tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import hopbyte_binary

NEED = str(Path(__file__).resolve().parents[2] / "scripts" / "need.sh")


def require(program: str, package: str) -> str:
    """The path of a program of a Debian package."""
    if not shutil.which(program) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run([NEED, "--no-install-recommends", f"{program}={package}"], check=False)
        subprocess.run(["systemctl", "disable", "--now", package], check=False, capture_output=True)
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not here: install {package}")
    return found


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def secret(file: Path, text: str) -> None:
    """A file with a secret, not readable by others."""
    file.touch(mode=0o600)
    file.write_text(text + "\n")


def get(url: str) -> str:
    """The text behind a URL."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def resident(process: subprocess.Popen[str]) -> int:
    """Resident memory in bytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


PATIENCE = 120.0


def wait(what: str, check):  # noqa: ANN001, ANN201
    """Calls `check` until it returns something true; with a long timeout, since a machine may be busy."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if found := check():
                return found
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail(f"{what}: nothing in {PATIENCE} s")


@dataclass
class Site:
    """A collector with an agent, and the other programs that a test starts."""

    folder: Path
    hopbyte: Path
    stack: ExitStack = field(default_factory=ExitStack)
    collector: int = field(default_factory=free_port)
    metrics: int = field(default_factory=free_port)

    def start(self, *command: object, out: str = "log") -> subprocess.Popen[str]:
        """Runs a program until the test ends; its output goes to a file."""
        with (self.folder / out).open("a") as printed, (self.folder / "log").open("a") as said:
            words = [str(word) for word in command]
            process = subprocess.Popen(words, cwd=self.folder, stdout=printed, stderr=said, text=True)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def collect(self, *options: object) -> subprocess.Popen[str]:
        """Starts a collector; its ticks go to `ticks` as JSON."""
        listen = ["--listen", f"127.0.0.1:{self.collector}"]
        return self.start(self.hopbyte, "--json", "collect", *listen, *options, out="ticks")

    def agent(self, name: str, *options: object) -> subprocess.Popen[str]:
        """Starts an agent of this machine under a name; its ticks go to a file of that name."""
        to = [] if "--nats" in options else ["--to", f"127.0.0.1:{self.collector}"]
        words = [self.hopbyte, "--json", "agent", "--name", name, "--interface", "lo", *to, *options]
        return self.start(*words, out=name)

    def gather(self, *options: object, agent: list[object] | None = None) -> None:
        """Starts collector, with endpoint and store, and agent."""
        self.collect("--metrics", f"127.0.0.1:{self.metrics}", "--store", "store", *options)
        self.agent("n1", *(agent or []))

    def last(self, out: str) -> dict:
        """The last complete line of a program's output."""
        text = (self.folder / out).read_text()
        lines = [line for line in text[: text.rfind("\n") + 1].splitlines() if line.endswith("}")]
        if not lines:
            raise OSError(f"nothing in {out} yet")
        return json.loads(lines[-1])

    def ticks(self) -> list[dict]:
        """How all ticks closed."""
        text = (self.folder / "ticks").read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.endswith("}")]

    def last_tick(self) -> dict:
        """How the newest tick closed."""
        return self.last("ticks")

    def text(self) -> str:
        """The endpoint's metrics."""
        return get(f"http://127.0.0.1:{self.metrics}/metrics")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder and a binary; all started programs are killed at the end."""
    site = Site(tmp_path, hopbyte_binary())
    with site.stack:
        yield site


@pytest.fixture
def certificate(site: Site) -> list[str]:
    """A certificate for this machine's address and its key, as options."""
    openssl = require("openssl", "openssl")
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    here = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    for words in [
        ["-subj", "/CN=collector", "-keyout", "key.pem", "-out", "cert.pem", *here],
        ["-subj", "/CN=other", "-keyout", "other-key.pem", "-out", "other.pem"],
    ]:
        subprocess.run([*new, *words], cwd=site.folder, check=True, capture_output=True)
    secret(site.folder / "token", "sixteen bytes or more of secret")
    return ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]
