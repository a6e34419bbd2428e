"""Answers of the verbs from Python are those of the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT

import hopbyte

DATA = ROOT / "data"


def said(*words: str) -> dict[str, Any]:
    """The first JSON object that the command prints."""
    line = [sys.executable, "-m", "hopbyte", "--json", "--quiet", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return found


@pytest.fixture(scope="module")
def small() -> hopbyte.Machine:
    return hopbyte.load_fabric("torus:4x4")


def test_verify(small: hopbyte.Machine) -> None:
    before = hopbyte.links(small, DATA / "links.jsonl")
    after = hopbyte.links(small, DATA / "links-after.jsonl")
    report = hopbyte.verify(small, after, before)
    files = ("--after", "data/links-after.jsonl", "--before", "data/links.jsonl")
    expected = said("verify", *files, "--fabric", "torus:4x4")
    for side in ("before", "after"):
        expected[side].pop("source"), report[side].pop("source")
    assert dict(report) == expected
    assert report.answer == bool(report["helped"])
    assert report.text.count("\n") > 3
    other = hopbyte.load_fabric("torus:4x4")
    with pytest.raises(hopbyte.HopbyteError, match="another machine"):
        hopbyte.verify(other, after)


def test_verify_a_mapping(small: hopbyte.Machine, tmp_path: Path) -> None:
    traffic = hopbyte.load_traffic("stencil:2x2:5")
    mapping = hopbyte.map(traffic, small, "n0-0,n1-0,n2-0,n3-0", trials=500)
    mapping.document(tmp_path / "mapping.json")
    links = hopbyte.links(small, DATA / "links.jsonl")
    made = hopbyte.verify(small, links, mapping=mapping)
    saved = hopbyte.verify(small, links, mapping=tmp_path / "mapping.json")
    assert dict(made) == dict(saved)
    assert made["predicted"]["worst_link_seconds"] > 0


def test_predict(small: hopbyte.Machine) -> None:
    report = hopbyte.predict(DATA / "trace-ring", small, nodes="all", ranks_per_node=1)
    words = ("data/trace-ring", "--fabric", "torus:4x4", "--nodes", "all", "--ranks-per-node", "1")
    expected = said("predict", *words)
    expected["trace"] = report["trace"]
    assert dict(report) == expected
    assert list(report.frame("placements")["name"]) == [row["name"] for row in expected["placements"]]


def test_model_and_sensitivity() -> None:
    path = ROOT / "scenarios/examples/xt4/all-to-all.toml"
    report = hopbyte.model(path, link=0.5)
    expected = said("model", "run", str(path), "--link", "0.5")
    expected.pop("solver_seconds")
    assert dict(report) == expected
    runs = hopbyte.sensitivity(path, axes=["link"], factors=[1, 0.5]).rows("runs")
    assert runs["slowdown_ratio"] == [1.0, pytest.approx(2.0, rel=0.01)]
    with pytest.raises(hopbyte.HopbyteError, match="level") as refused:
        hopbyte.model(path, level="quantum")  # type: ignore[arg-type]
    assert refused.value.id == "HB0005"


def test_probe_analysis() -> None:
    mesh = hopbyte.load_fabric("mesh:2x2:nodes=2")
    report = hopbyte.analyse_probe(DATA / "probe/topobw.jsonl", mesh)
    assert dict(report) == said("probe", "analyse", "data/probe/topobw.jsonl", "--fabric", "mesh:2x2:nodes=2")
    assert report.answer == (report["slow_paths"] == 0)


def test_blame(small: hopbyte.Machine) -> None:
    links = hopbyte.links(small, DATA / "links-stalls.jsonl")
    report = hopbyte.blame(small, links, jobs=DATA / "squeue.json")
    words = ("data/links-stalls.jsonl", "--fabric", "torus:4x4", "--jobs", "data/squeue.json")
    assert dict(report) == said("blame", *words)


def test_any_other_command() -> None:
    (check,) = hopbyte.command("fabric", "check", "torus:4x4")
    assert check["routable"] and check.answer
    names = [row["name"] for row in hopbyte.command("fabric", "nodes", "torus:4x4")]
    assert names == hopbyte.load_fabric("torus:4x4").nodes
    with pytest.raises(hopbyte.HopbyteError, match="n9-9") as refused:
        hopbyte.command("fabric", "route", "torus:4x4", "n0-0", "n9-9")
    assert refused.value.id == "HB0201"


def test_arguments_of_another_kind_are_refused(small: hopbyte.Machine) -> None:
    example = ROOT / "scenarios/examples/xt4/ping-pong.toml"
    for factors in ([None], [True], b"\x01"):
        with pytest.raises(hopbyte.HopbyteError, match="found factors"):
            hopbyte.sensitivity(example, ("link",), factors)  # type: ignore[arg-type]
    with pytest.raises(hopbyte.HopbyteError, match="found recorded"):
        hopbyte.blame(small, hopbyte.links(small), recorded=["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found None"):
        hopbyte.frame(None)  # type: ignore[arg-type]
    machine = hopbyte.load_fabric("mesh:2x2:nodes=2")
    with pytest.raises(hopbyte.HopbyteError, match="found cabel"):
        hopbyte.analyse_probe(DATA / "probe/topobw.jsonl", machine, expected={"cabel": 9e9})


def test_errors_have_identifiers(small: hopbyte.Machine) -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: hopbyte.load_fabric("gemini:1x2"), "HB0102"),
        (lambda: small.find_node("n9-9"), "HB0201"),
        (lambda: hopbyte.load_fabric(DATA / "README.md"), "HB0101"),
        (lambda: hopbyte.explain("HB9999"), "HB0002"),
    ]
    for call, identifier in calls:
        with pytest.raises(hopbyte.HopbyteError) as refused:
            call()
        assert refused.value.id == identifier
        assert hopbyte.explain(identifier)["id"] == identifier
    assert hopbyte.HopbyteError("x").id == "HB0005"
    with pytest.raises(FileNotFoundError) as missing:
        hopbyte.load_fabric("no/such/file.txt")
    assert getattr(missing.value, "id", "").startswith("HB")


def test_notebooks_show_tables_and_pictures(small: hopbyte.Machine, mapping: hopbyte.Mapping) -> None:
    links = hopbyte.links(small, DATA / "links.jsonl")
    costs = hopbyte.route_costs(small)
    traffic = hopbyte.Traffic.of_matrix(np.array([[0.0, 5.0], [7.0, 0.0]]))
    for shown in (small, links):
        assert ElementTree.fromstring(shown._repr_svg_()).tag.endswith("svg")
    for table in (mapping, mapping.result, mapping.placement, costs, traffic):
        rows = ElementTree.fromstring(f"<div>{table._repr_html_()}</div>").findall(".//tbody/tr")
        assert 1 <= len(rows) <= 20
    first = ElementTree.fromstring(f"<div>{traffic._repr_html_()}</div>").findall(".//tbody/tr/td")
    assert [cell.text for cell in first[:3]] == ["1", "0", "7"]
    hostile = hopbyte.Report({"schema": "<b>", "rows": [{"<i>": "<script>"}]})
    assert "<b>" not in hostile._repr_html_() and "<script>" not in hostile._repr_html_()


def test_frames(small: hopbyte.Machine, mapping: hopbyte.Mapping) -> None:
    links = hopbyte.links(small, DATA / "links.jsonl")
    frame = hopbyte.frame(links)
    assert len(frame) == len(links) and np.isnan(frame["used_ratio"]).sum() == len(links) - 3
    assert list(hopbyte.frame(mapping.placement)["node"]) == mapping.placement.node_names
    assert hopbyte.frame(hopbyte.route_costs(small)).shape == (16, 16)
    report = hopbyte.Report({"a": [{"x": 1}, {"x": 2, "y": 3}]})
    assert report.rows() == {"x": [1, 2], "y": [None, 3]}
    with pytest.raises(hopbyte.HopbyteError, match="expected one of a"):
        report.rows("b")


def test_a_store_as_a_frame(tmp_path: Path) -> None:
    """Some ticks of a collector that one agent reports to, while its counters change, then the store as columns."""
    root = tmp_path / "root"
    shutil.copytree(DATA / "sysfs/before", root, symlinks=True)
    line = [sys.executable, "-m", "hopbyte"]
    store = tmp_path / "store"
    port = 20000 + os.getpid() % 20000
    collect = [*line, "collect", "--listen", f"127.0.0.1:{port}", "--period", "0.2", "--deadline", "100"]
    server = subprocess.Popen([*collect, "--store", str(store), "--ticks", "8"], stderr=subprocess.DEVNULL)
    agent = [*line, "agent", "--root", str(root), "--name", "n1-0", "--period", "0.2"]
    worker = subprocess.Popen([*agent, "--to", f"127.0.0.1:{port}"], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        counters = list(root.rglob("telemetry/hni_sts_*_octets"))
        began = time.time()
        for value in range(10**6, 10**9, 10**6):
            for counter in counters:
                counter.write_text(f"{value}@{time.time() - began + 1000:.9f}\n")
            if server.poll() is not None:
                break
            time.sleep(0.1)
        assert server.wait(timeout=30) == 0
    finally:
        worker.terminate()
        worker.wait()
        server.kill()
    machine = hopbyte.load_fabric("torus:4x4")
    frame = hopbyte.history(store, machine)
    assert frame["link"].str.contains("1-0").all() and frame["received_bytes"].max() > 0
    assert frame["time_seconds"].is_monotonic_increasing
    one = frame["link"].iloc[0]
    assert set(hopbyte.history(store, machine, links=[one])["link"]) == {one}
    newest = hopbyte.links(machine, store)
    assert newest.source is not None and "store" in newest.source
    with pytest.raises(hopbyte.HopbyteError):
        hopbyte.history(store, machine, links=["no such link"])
    with pytest.raises(hopbyte.HopbyteError, match="found no logs"):
        hopbyte.history(tmp_path, machine)


def test_links_without_a_reading_answer_nothing(small: hopbyte.Machine) -> None:
    unread, read = hopbyte.links(small), hopbyte.links(small, DATA / "links.jsonl")
    traffic = hopbyte.load_traffic("stencil:4x4:5")
    placement = hopbyte.place(small, small.nodes)
    calls: list[Callable[[], object]] = [
        lambda: hopbyte.verify(small, unread),
        lambda: hopbyte.verify(small, unread, read),
        lambda: hopbyte.verify(small, read, unread),
        lambda: hopbyte.map(traffic, small, background=unread, trials=10),
        lambda: hopbyte.evaluate(traffic, placement, small, background=unread),
    ]
    for call in calls:
        with pytest.raises(hopbyte.HopbyteError, match="none of which names a link") as refused:
            call()
        assert refused.value.id == "HB0105"


def test_one_text_is_no_list(small: hopbyte.Machine, tmp_path: Path) -> None:
    for call in (
        lambda: hopbyte.predict(DATA / "trace-ring", small, "file", nodes="all"),
        lambda: hopbyte.history(tmp_path, small, links="r0-0 X+"),
        lambda: hopbyte.sensitivity("file", "link"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


def test_missing_files_are_errors_of_the_system(small: hopbyte.Machine) -> None:
    for call in (
        lambda: hopbyte.model("nofile"),
        lambda: hopbyte.history("nofile", small),
        lambda: hopbyte.links(small, DATA / "links.jsonl", token="nofile"),
        lambda: hopbyte.links(small, DATA / "links.jsonl", tls_ca="nofile"),
    ):
        with pytest.raises(FileNotFoundError, match="nofile") as missing:
            call()
        assert missing.value.id == "HB0601"  # type: ignore[attr-defined]
    with pytest.raises(hopbyte.HopbyteError, match="seconds since 1970"):
        hopbyte.history("nofile", small, start=float("nan"))
    (page,) = hopbyte.command("view", "--fabric", "torus:2x2", "-o", "-")
    assert page.text.startswith("<!doctype html>")
