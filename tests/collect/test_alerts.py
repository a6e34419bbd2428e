"""Alerts and dashboard in a real Prometheus: each alert is raised by its fault and by nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import Site, free_port, get, require, wait
from program import ROOT

RULES = ROOT / "packaging/prometheus-rules.yml"
PORT = '{node="n1",source="hca",port="1"}'
NODE = '{node="n1"}'
CAPACITY = f"hopbyte_port_capacity_bytes_per_second{PORT}"
FAULT = 'hopbyte_fault{fault="slow",kind="link",name="r2 X+"}'
LINK = '{link="r2 X+",from="r2",to="r3",kind="cable"}'

# Series of a minute each, for an hour: of a healthy cluster, and of each fault.
HEALTHY = {
    "hopbyte_collector_tick_age_seconds": "0.5x60",
    f"hopbyte_node_reported{NODE}": "1x60",
    "hopbyte_tick_frozen_nodes": "0x60",
    "hopbyte_tick_ahead_nodes": "0x60",
    "hopbyte_tick_failed_nodes": "0x60",
    f"hopbyte_agent_dropped_reports_total{NODE}": "3x60",
    "hopbyte_collector_deferred_reads_total": "7x60",
    "hopbyte_store_failing": "0x60",
    "hopbyte_store_lost_blocks_total": "2x60",
    # 10 GB/s used to a half.
    f"hopbyte_port_received_bytes_total{PORT}": "0+300000000000x60",
    CAPACITY: "10000000000x60",
    f"hopbyte_port_sent_bytes_total{PORT}": "0+300000000000x60",
    f"hopbyte_port_sent_capacity_bytes_per_second{PORT}": "10000000000x60",
    f"hopbyte_port_credit_stall_seconds_total{PORT}": "0+3x60",
    f"hopbyte_port_errors_total{PORT}": "123456x60",
    f"hopbyte_port_lanes{PORT}": "4x60",
    "hopbyte_oracle_source_up": "1x60",
    "hopbyte_oracle_reading_time_seconds": "0+60x60",
    f"hopbyte_node_processor_wait_seconds_total{NODE}": "0+6x60",
    FAULT.replace("slow", "hot spot"): "1x60",
    f"hopbyte_link_used_ratio{LINK}": "0.5x60",
    "hopbyte_link_job_bytes_total" + LINK.replace("}", ',job="a"}'): "0+300000000000x60",
}
FAULTS = {
    "HopbyteCollectorStuck": {"hopbyte_collector_tick_age_seconds": "0+60x60"},
    "HopbyteNodeMissing": {f"hopbyte_node_reported{NODE}": "1x29 0x30"},
    "HopbyteNodesFrozen": {"hopbyte_tick_frozen_nodes": "0x29 2x30"},
    "HopbyteClockAhead": {"hopbyte_tick_ahead_nodes": "0x29 1x30"},
    "HopbyteSourceFailed": {"hopbyte_tick_failed_nodes": "0x29 1x30"},
    "HopbyteReportsDropped": {f"hopbyte_agent_dropped_reports_total{NODE}": "3+0x29 3+10x30"},
    "HopbyteCollectorOverloaded": {"hopbyte_collector_deferred_reads_total": "7+0x29 7+10x30"},
    "HopbyteStoreFailing": {"hopbyte_store_failing": "0x29 1x30"},
    "HopbyteStoreDamaged": {"hopbyte_store_lost_blocks_total": "2+0x29 2+1x30"},
    "HopbyteLinkSaturated": {f"hopbyte_port_sent_bytes_total{PORT}": "0+570000000000x60"},
    "HopbyteLinkStalled": {f"hopbyte_port_credit_stall_seconds_total{PORT}": "0+18x60"},
    "HopbyteLinkErrors": {f"hopbyte_port_errors_total{PORT}": "0+5x60"},
    "HopbyteErrorCounterFull": {f"hopbyte_port_full_error_counters{PORT}": "1x60"},
    "HopbyteWaitCounterFull": {f"hopbyte_port_full_wait_counters{PORT}": "1x60"},
    "HopbyteLinkDegraded": {f"hopbyte_port_lanes{PORT}": "4x29 2x30"},
    "HopbyteLinkSlow": {CAPACITY: "10000000000x29 9500000000x30"},
    "HopbyteLinkDown": {f"hopbyte_port_lanes{PORT}": "4x29 0x30"},
    "HopbyteNodeStarved": {f"hopbyte_node_processor_wait_seconds_total{NODE}": "0+30x60"},
    "HopbyteFault": {FAULT: "1x60"},
    "HopbyteFabricLinkErrors": {f"hopbyte_link_errors_total{LINK}": "0+5x60"},
    "HopbyteFabricLinkDown": {f"hopbyte_link_up{LINK}": "1x29 0x30"},
    "HopbyteOracleBlind": {"hopbyte_oracle_source_up": "1x29 0x30"},
    "HopbyteJobSaturatesLink": {f"hopbyte_link_used_ratio{LINK}": "0.5x29 0.95x30"},
}


def series(text: str) -> str:
    """`1x29 0x30` in the notation of promtool: constant unless a step is given."""
    return " ".join(part if "+" in part else part.replace("x", "+0x") for part in text.split())


def test_every_fault_raises_its_alert_and_no_other(tmp_path: Path) -> None:
    """By promtool's own unit tests, an hour of a series each."""
    promtool = require("promtool", "prometheus")
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert sorted(alerts) == sorted(FAULTS), "a fault for each alert"
    tests = []
    for fault, changed in [("none", {}), *FAULTS.items()]:
        inputs = [{"series": name, "values": series(values)} for name, values in (HEALTHY | changed).items()]
        # The count tells raised from not raised; the words of the annotations are not compared.
        raised = [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": "50m",
                "exp_samples": [{"labels": "{}", "value": int(alert == fault)}],
            }
            for alert in alerts
        ]
        tests.append({"name": fault, "interval": "1m", "input_series": inputs, "promql_expr_test": raised})
    file = tmp_path / "alerts.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


FAMILIES = {
    "received_bytes_total": "counter",
    "sent_bytes_total": "counter",
    "received_packets_total": "counter",
    "sent_packets_total": "counter",
    "input_stall_seconds_total": "counter",
    "credit_stall_seconds_total": "counter",
    "credit_stalls_total": "counter",
    "errors_total": "counter",
    "lanes": "gauge",
    "sent_lanes": "gauge",
    "capacity_bytes_per_second": "gauge",
    "sent_capacity_bytes_per_second": "gauge",
    "queued_bytes": "gauge",
}


@pytest.fixture
def everything(site: Site) -> Path:
    """Metrics of a port with every quantity, as another collector would export them."""
    lines = []
    for name, kind in FAMILIES.items():
        lines.append(f"# TYPE hopbyte_port_{name.removesuffix('_total')} {kind}")
        lines += [f'hopbyte_port_{name}{{node="n{n}",source="hca",port="1"}} 4' for n in (1, 2)]
    file = site.folder / "everything.prom"
    file.write_text("\n".join([*lines, "# EOF\n"]))
    return file


def follow_links(site: Site, port: int) -> None:
    """An oracle of a line of six routers with a job on two of its nodes; its counters change every half second."""
    rows = [{"link": link, "received_bytes": 9e9, "errors": 1} for link in ("r2 X+", "n2->r2 host", "r3->n3 host")]
    rows += [{"link": link, "received_bytes": 0} for link in ("n3->r3 host", "r2->n2 host")]
    rows.append({"link": "r4 X+", "received_bytes": 0, "errors": 123456})
    rows.append({"summary": {"window_seconds": 10}})
    lines = "".join(json.dumps({"schema": "hopbyte.link/1"} | row) + "\n" for row in rows)
    (site.folder / "links.jsonl").write_text(lines)
    (site.folder / "jobs.csv").write_text("job,node\na,n2\na,n3\n")
    words = ["links.jsonl", "--fabric", "mesh:6", "--jobs", "jobs.csv", "--listen", f"127.0.0.1:{port}"]
    site.start(site.hopbyte, "--quiet", "oracle", "serve", *words)
    touch = "while sleep 0.5; do cp links.jsonl next; mv next links.jsonl; done"
    site.start("sh", "-c", touch)


def test_every_panel_and_every_rule_finds_its_metrics(site: Site, everything: Path) -> None:
    """Two nodes with every quantity: each expression's metrics exist in a real Prometheus, and no panel is empty."""
    prometheus = require("prometheus", "prometheus")
    site.collect("--metrics", f"127.0.0.1:{site.metrics}", "--store", "store")
    for name in ("n1", "n2"):
        site.agent(name, "--file", everything)
    port, oracle = free_port(), free_port()
    follow_links(site, oracle)
    targets = [f"127.0.0.1:{site.metrics}", f"127.0.0.1:{oracle}"]
    scrape = {"job_name": "hopbyte", "static_configs": [{"targets": targets}]}
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [scrape],
        "rule_files": [str(RULES)],
    }
    (site.folder / "prometheus.yml").write_text(json.dumps(config))
    words = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={site.folder / 'tsdb'}"]
    site.start(prometheus, "--config.file=prometheus.yml", *words)

    def ask(query: str) -> list[dict]:
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        return json.loads(get(url))["data"]["result"]

    wait("both nodes", lambda: len(ask("hopbyte_port_lanes")) == 2)
    wait("bytes of jobs", lambda: len(ask("rate(hopbyte_link_job_bytes_total[10s])")) > 0)
    time.sleep(4)
    known = {r["metric"]["__name__"] for r in ask('{__name__=~"hopbyte_.+"}')}
    used = set(re.findall(r"\bhopbyte_\w+", "\n".join(re.findall(r"expr: .*|^ {10}\S.*", RULES.read_text(), re.M))))
    # There only where a counter is full.
    full = {"hopbyte_port_full_error_counters", "hopbyte_port_full_wait_counters"}
    assert used - full <= known, used - known
    empty = []
    for panel in json.loads((ROOT / "packaging/grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "4s").replace("$node", ".*")
            if not ask(query):
                empty.append((panel["title"], target["expr"]))
    # No node is missing here.
    assert [title for title, _ in empty] == ["Missing nodes"], empty
