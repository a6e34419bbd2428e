"""A collector and an agent of this machine, read by those who read such things.

Prometheus scrapes the OpenMetrics endpoint, VictoriaMetrics takes Influx lines, pandas reads the
Parquet files. Programs that are missing are installed where that is allowed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def require(program: str, package: str) -> str:
    """The path of a program of a Debian package."""
    if not shutil.which(program) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], check=False)
        subprocess.run(["systemctl", "disable", "--now", package], check=False, capture_output=True)
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not here: install {package}")
    return found


def hopbyte_binary() -> Path:
    """The release binary, built by `make build`, or the one of the tests."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    builds = [target / build / "hopbyte" for build in ("release", "debug")]
    here = [build for build in builds if build.exists()]
    if not here:
        pytest.fail("no hopbyte binary: run `make build`")
    return max(here, key=lambda build: build.stat().st_mtime)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def get(url: str) -> str:
    """The text behind a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def wait(what: str, seconds: float, check):  # noqa: ANN001, ANN201
    """Calls `check` until it returns something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := check():
                return found
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail(f"{what}: nothing in {seconds} s")


@dataclass
class Site:
    """A collector with an agent, and what else a test starts."""

    folder: Path
    hopbyte: Path
    stack: ExitStack = field(default_factory=ExitStack)
    collector: int = field(default_factory=free_port)
    metrics: int = field(default_factory=free_port)

    def start(self, *command: object) -> subprocess.Popen[str]:
        """Runs a program until the test ends."""
        log = (self.folder / "log").open("a")
        words = [str(word) for word in command]
        process = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log, text=True)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def gather(self, *options: object) -> None:
        """Starts collector and agent."""
        listen = f"127.0.0.1:{self.collector}"
        metrics = f"127.0.0.1:{self.metrics}"
        self.start(self.hopbyte, "collect", "--listen", listen, "--metrics", metrics, "--store", "store", *options)
        self.start(self.hopbyte, "agent", "--to", listen, "--name", "n1", "--interface", "lo")

    def text(self) -> str:
        """What the endpoint says."""
        return get(f"http://127.0.0.1:{self.metrics}/metrics")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder and a binary; everything that was started is killed at the end."""
    site = Site(tmp_path, hopbyte_binary())
    with site.stack:
        yield site


def test_prometheus_scrapes_what_the_kernel_counts(site: Site) -> None:
    """Prometheus takes the text as it is, and the totals are the kernel's."""
    prometheus = require("prometheus", "prometheus")
    site.gather()
    text = wait("metrics", 20, lambda: site.text() if "received_bytes_total" in site.text() else "")
    assert text.endswith("# EOF\n")
    names = re.findall(r"^# TYPE (\S+)", text, re.M)
    assert len(names) == len(set(names)), "every family once"
    port = free_port()
    scrape = {"job_name": "hopbyte", "static_configs": [{"targets": [f"127.0.0.1:{site.metrics}"]}]}
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    # JSON is YAML.
    (site.folder / "prometheus.yml").write_text(json.dumps(config))
    site.start(
        prometheus,
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={site.folder / 'tsdb'}",
    )

    def ask(query: str) -> list[dict]:
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        return json.loads(get(url))["data"]["result"]

    series = 'hopbyte_port_received_bytes_total{node="n1",port="lo"}'
    wait("a scrape", 30, lambda: ask(series))
    before = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    time.sleep(4)
    seen = float(ask(series)[0]["value"][1])
    after = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    assert before <= seen <= after, (before, seen, after)
    assert [r["value"][1] for r in ask("hopbyte_tick_reported_nodes")] == ["1"]
    assert ask("up")[0]["value"][1] == "1"
    # Every expression of the dashboard finds metrics that exist.
    dashboard = json.loads((ROOT / "packaging/grafana-dashboard.json").read_text())
    used = set(re.findall(r"hopbyte_\w+", json.dumps(dashboard["panels"])))
    known = {r["metric"]["__name__"] for r in ask('{__name__=~"hopbyte_.+"}')}
    elsewhere = {
        "hopbyte_port_credit_stall_seconds_total",  # networks with credits
        "hopbyte_port_capacity_bytes_per_second",  # lo has none
        "hopbyte_tick_spread_seconds",  # more nodes than one
    }
    assert used - known <= elsewhere


def test_victoria_metrics_takes_lines(site: Site) -> None:
    """Rates arrive under ClusterCockpit's names and tags."""
    victoria = require("victoria-metrics", "victoria-metrics")
    port = free_port()
    site.start(victoria, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={site.folder / 'vm'}")
    wait("the database", 20, lambda: get(f"http://127.0.0.1:{port}/health"))
    site.gather("--lines", f"http://127.0.0.1:{port}/write")

    def ask() -> list[dict]:
        match = urllib.parse.urlencode({"match[]": "net_bytes_in_value"})
        lines = get(f"http://127.0.0.1:{port}/api/v1/export?{match}").splitlines()
        return [json.loads(line) for line in lines]

    [series] = wait("lines", 40, ask)
    assert series["metric"]["hostname"] == "n1"
    assert (series["metric"]["type"], series["metric"]["stype"]) == ("node", "network")
    assert series["metric"]["stype-id"] == "lo"


def test_pandas_reads_the_store(site: Site) -> None:
    """Columns are counters, rows are ticks, and nothing is there twice."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    site.gather()
    time.sleep(6)
    site.stack.close()
    done = subprocess.run(
        [site.hopbyte, "replay", "store", "--seal"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    files = [site.folder / line for line in done.stdout.split()]
    [file] = [f for f in files if ".ticks." not in f.name]
    rows = pandas.read_parquet(file)
    assert set(rows["node"]) == {"n1"} and len(rows) >= 3
    assert list(rows["tick"]) == list(range(rows["tick"].min(), rows["tick"].min() + len(rows)))
    counted = rows["lo/rx_bytes"].astype("int64")
    now = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    assert counted.is_monotonic_increasing and 0 < counted.max() <= now
    [ticks] = [f for f in files if ".ticks." in f.name]
    closed = pandas.read_parquet(ticks)
    assert (closed["reported"] <= closed["expected"]).all()
    # The same ticks come out of the replay.
    text = subprocess.run(
        [site.hopbyte, "--json", "replay", "store"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    again = [json.loads(line)["tick"] for line in text.stdout.splitlines()]
    assert again == list(closed["tick"])
