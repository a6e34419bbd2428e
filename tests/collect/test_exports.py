"""A collector and an agent of this machine, read by real databases and monitoring systems.

Prometheus scrapes the OpenMetrics endpoint, VictoriaMetrics takes Influx lines, pandas, DuckDB and polars read the
Parquet files. Missing programs are installed where permitted.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from conftest import Site, free_port, get, require, wait
from program import ROOT


def test_prometheus_scrapes_what_the_kernel_counts(site: Site) -> None:
    """Prometheus accepts the text unchanged, and the totals are the kernel's."""
    prometheus = require("prometheus", "prometheus")
    site.gather()
    text = wait("metrics", lambda: site.text() if "received_bytes_total" in site.text() else "")
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
    wait("a scrape", lambda: ask(series))
    before = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    time.sleep(4)
    seen = float(ask(series)[0]["value"][1])
    after = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    assert before <= seen <= after, (before, seen, after)
    assert [r["value"][1] for r in ask("hopbyte_tick_reported_nodes")] == ["1"]
    assert ask("up")[0]["value"][1] == "1"


def test_victoria_metrics_takes_lines(site: Site) -> None:
    """Rates arrive under ClusterCockpit's names and tags."""
    victoria = require("victoria-metrics", "victoria-metrics")
    port = free_port()
    site.start(victoria, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={site.folder / 'vm'}")
    wait("the database", lambda: get(f"http://127.0.0.1:{port}/health"))
    site.gather("--lines", f"http://127.0.0.1:{port}/write", "--cluster", "alps")

    def ask() -> list[dict]:
        match = urllib.parse.urlencode({"match[]": "net_bytes_in_bw_value"})
        lines = get(f"http://127.0.0.1:{port}/api/v1/export?{match}").splitlines()
        return [json.loads(line) for line in lines]

    [series] = wait("lines", ask)
    assert (series["metric"]["cluster"], series["metric"]["hostname"]) == ("alps", "n1")
    assert (series["metric"]["type"], series["metric"]["stype"]) == ("node", "network")
    assert series["metric"]["stype-id"] == "lo"


def test_lines_of_other_tools_become_counters(site: Site) -> None:
    """Totals in the format of ClusterCockpit's collector; malformed lines are reported with their number."""
    port = free_port()
    site.gather("--listen-lines", f"127.0.0.1:{port}")
    tags = "cluster=c,hostname=cc1,type=node,stype=network,stype-id=eth0"

    def post(text: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/write", data=text.encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def totals() -> list[str]:
        start = 'hopbyte_port_received_bytes_total{node="cc1"'
        return [line for line in site.text().splitlines() if line.startswith(start)]

    wait("the collector", lambda: site.last_tick()["reported"] == 1)
    now = int(time.time())
    lines = [f"net_bytes_in,{tags} value={1000 + 500 * i}i {now - 20 + 10 * i}\n" for i in range(3)]
    assert post("".join(lines) + f"net_bytes_in_bw,{tags} value=50 {now}\nload_one,hostname=cc1 value=1\n") == (204, "")
    # The time of the last line is complete after two ticks without further lines for it.
    series = wait("totals", lambda: found if (found := totals()) and found[0].endswith(" 2000") else None)
    assert series == ['hopbyte_port_received_bytes_total{node="cc1",source="lines",port="eth0"} 2000']
    # As with InfluxDB, a bad line does not affect the others; the answer has their numbers.
    other = tags.replace("cc1", "cc2")
    status, text = post(f"net_bytes_in,{tags} value=-1 {now}\nnet_bytes_in,{other} value=7 {now}\n")
    answer = json.loads(text)
    assert status == 400 and (answer["kept"], answer["refused"]) == (1, 1), text
    assert "partial write" in answer["error"] and "line 1: found" in answer["lines"][0] and "a total" in text
    wait("the good line", lambda: 'hopbyte_port_received_bytes_total{node="cc2"' in site.text())
    status, text = post("net_bytes_in,hostname=../x,stype-id=e value=1\n")
    assert status == 400 and "host name" in text
    # Lines of a node with an agent are refused, those of other nodes behind them are kept.
    status, text = post(f"net_bytes_in,{tags.replace('cc1', 'n1')} value=1 {now}\nnet_bytes_in,{other} value=9\n")
    assert status == 400 and "which an agent reports" in text and json.loads(text)["kept"] == 1
    # One line of each of the last three posts; 3 totals and 2 others of the first, and 2 good ones behind bad ones.
    wait("the metric", lambda: "hopbyte_collector_lines_refused_total 3\n" in site.text())
    assert "hopbyte_collector_lines_kept_total 7\n" in site.text()
    # They do not delay a tick: the agent's ticks are complete.
    tick = site.last_tick()
    assert (tick["expected"], tick["reported"], tick["late"]) == (1, 1, [])


def the_books_query() -> str:
    """The query of the page about the store."""
    page = (ROOT / "docs/src/watching.md").read_text()
    [query] = re.findall(r'duckdb\.sql\("""(.*?)"""\)', page, re.S)
    return query


def test_pandas_duckdb_and_polars_read_the_store(site: Site) -> None:
    """Rows are counters, segments and nodes have the same columns, and the book's query finds every node."""
    pandas, duckdb, polars = (pytest.importorskip(name) for name in ("pandas", "duckdb", "polars"))
    pytest.importorskip("pyarrow")
    site.gather()
    # Nodes with other interfaces: earlier, each set had a file of its own, whose number changed with the segment.
    tree = site.folder / "node"
    for interface in ("lo", "ib0", "eth7"):
        (tree / f"sys/class/net/{interface}/statistics").mkdir(parents=True)
        for counter in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets"):
            (tree / f"sys/class/net/{interface}/statistics/{counter}").write_text("5\n")
    site.agent("n2", "--root", tree, "--interface", "ib0")
    site.agent("n3", "--root", tree, "--interface", "eth7")
    wait("three nodes", lambda: site.last_tick()["reported"] == 3)
    time.sleep(6)
    site.stack.close()
    done = subprocess.run(
        [site.hopbyte, "replay", "store", "--seal"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    files = [site.folder / line for line in done.stdout.split()]
    [file] = [f for f in files if f.name.endswith(".counters.parquet")]
    # A second segment, of a restarted collector.
    shutil.copy(file, file.with_name("09999999999-00.counters.parquet"))
    everything = duckdb.sql(the_books_query().replace("store/", f"{site.folder}/store/")).fetchall()
    assert {row[0] for row in everything} == {"n1", "n2", "n3"}
    file.with_name("09999999999-00.counters.parquet").unlink()
    rows = pandas.read_parquet(file)
    assert set(rows["node"]) == {"n1", "n2", "n3"}
    rows = rows[(rows["node"] == "n1") & (rows["counter"] == "rx_bytes") & (rows["port"] == "lo")].sort_values("tick")
    assert len(rows) >= 3
    assert list(rows["tick"]) == list(range(rows["tick"].min(), rows["tick"].min() + len(rows)))
    counted = rows["value"].astype("int64")
    now = int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())
    assert counted.is_monotonic_increasing and 0 < counted.max() <= now
    [ticks] = [f for f in files if ".ticks." in f.name]
    closed = pandas.read_parquet(ticks)
    assert (closed["reported"] <= closed["expected"]).all()
    [grown] = [row[2] for row in everything if row[:2] == ("n1", "lo")]
    assert grown == counted.max() - counted.min()
    [reports] = [f for f in files if ".reports." in f.name]
    assert set(polars.scan_parquet(reports).collect()["node"]) == {"n1", "n2", "n3"}
    # On a busy machine the agent may have missed a tick: all three see the same ones.
    incomplete = polars.scan_parquet(ticks).filter(polars.col("missing") != "").collect()
    assert list(incomplete["tick"]) == list(closed["tick"][closed["missing"] != ""])
    # The replay yields the same ticks.
    text = subprocess.run(
        [site.hopbyte, "--json", "replay", "store"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    again = [json.loads(line)["tick"] for line in text.stdout.splitlines()]
    assert again == list(closed["tick"])
