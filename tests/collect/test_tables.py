"""The tables of a store: segments whose interfaces change, read whole by plain queries of DuckDB, pandas and polars."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Site, wait

ROOT = Path(__file__).resolve().parents[2]
MOMENTS = 12


def counters(moment: int) -> str:
    """A file of one interface that stays, one that is new in every moment, and one that cannot be read in some."""
    metric = "node_network_receive_bytes_total"
    rows = [("eth0", 1_000_000 + 1000 * moment), (f"veth{moment:04x}", 10 + moment)]
    if moment % 3:
        rows.append(("eth1", 5_000_000 + moment))
    text = "".join(f'{metric}{{device="{device}"}} {value}\n' for device, value in rows)
    return f"# TYPE {metric.removesuffix('_total')} counter\n{text}# EOF\n"


@pytest.fixture
def store(site: Site) -> Path:
    """A store of at least six segments and two nodes."""
    file = site.folder / "counters.prom"

    def write(moment: int) -> None:
        (site.folder / "new").write_text(counters(moment))
        os.replace(site.folder / "new", file)

    write(0)
    site.collect("--store", "store", "--period", "0.5", "--segment", "0", "--deadline", "200")
    for node in ("n1", "n2"):
        site.agent(node, "--period", "0.5", "--file", file)
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    for moment in range(1, MOMENTS):
        write(moment)
        time.sleep(0.7)
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] >= MOMENTS)
    site.stack.close()
    subprocess.run([site.hopbyte, "replay", "store", "--seal"], cwd=site.folder, capture_output=True, check=True)
    return site.folder / "store"


def test_the_books_queries_run_as_they_stand(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of the section about Parquet, in a folder with a store."""
    for name in ("duckdb", "pandas", "polars", "pyarrow"):
        pytest.importorskip(name)
    page = (ROOT / "docs/src/watching.md").read_text()
    section = page[page.index("### Parquet") :]
    section = section[: section.find("\n## ")]
    blocks = re.findall(r"```python\n(.*?)```", section, re.S)
    assert blocks
    monkeypatch.chdir(store.parent)
    for block in blocks:
        names: dict[str, object] = {}
        exec(block, names)
        assert len(names["rows"]) > 0  # type: ignore[arg-type]


def test_queries_over_all_segments(store: Path) -> None:
    """Twelve questions, each to every engine that states it simply; the answers agree, and are those of the input."""
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    pytest.importorskip("pyarrow")
    segments = sorted(store.glob("*.counters.parquet"))
    assert len(segments) >= 6
    pattern = {kind: f"{store}/*.{kind}.parquet" for kind in ("counters", "reports", "ticks")}
    frame = {kind: pandas.concat(map(pandas.read_parquet, sorted(store.glob(f"*.{kind}.parquet")))) for kind in pattern}
    lazy = {kind: polars.scan_parquet(path) for kind, path in pattern.items()}
    rows, reports, ticks = frame["counters"], frame["reports"], frame["ticks"]

    def ask(query: str) -> list[tuple]:
        for kind, path in pattern.items():
            query = query.replace(f"[{kind}]", f"'{path}'")
        return duckdb.sql(query).fetchall()

    own = rows[(rows["source"] != "processors") & (rows["port"] != "lo")]
    # 1: all rows of all files, and the same columns in each.
    [(count,)] = ask("select count(*) from [counters]")
    assert count == len(rows) == lazy["counters"].collect().height
    schemas = {str(polars.read_parquet_schema(file)) for file in segments}
    assert len(schemas) == 1, schemas
    # 2: nodes.
    assert ask("select distinct node from [counters] order by node") == [("n1",), ("n2",)]
    assert set(rows["node"]) == {"n1", "n2"}
    # 3: interfaces, also those that came and went.
    of_links = "source <> 'processors' and port <> 'lo'"
    ports = {port for (port,) in ask(f"select distinct port from [counters] where {of_links}")}
    births = {port for port in ports if port.startswith("veth")}
    assert ports - births == {"eth0", "eth1"} and len(births) >= MOMENTS - 3, ports
    assert ports == set(own["port"])
    # 4: the bytes of the interface that stays, from the first to the last value of the input.
    grown = ask("select node, max(value) - min(value) from [counters] where port = 'eth0' group by node order by node")
    assert [bytes_ for _, bytes_ in grown] == [1000 * (MOMENTS - 1)] * 2, grown
    by = own[own["port"] == "eth0"].groupby("node")["value"]
    assert list(by.max() - by.min()) == [bytes_ for _, bytes_ in grown]
    lazily = lazy["counters"].filter(polars.col("port") == "eth0").group_by("node").agg(polars.col("value").max())
    assert set(lazily.collect()["value"]) == {1_000_000 + 1000 * (MOMENTS - 1)}
    # 5: no tick occurs twice in a series, across all segments.
    twice = "select node, source, port, counter, tick from [counters] group by all having count(*) > 1"
    assert ask(twice) == []
    assert not rows.duplicated(["node", "source", "port", "counter", "tick"]).any()
    # 6: rates by a window over segments; a value never decreases.
    rates = ask(
        """select min(d), sum(d) from (select value - lag(value) over
           (partition by node, port, counter order by tick) as d from [counters] where port = 'eth0')"""
    )
    assert rates == [(0, 2 * 1000 * (MOMENTS - 1))]
    # 7: a value that was not read is NULL or has no row, never zero.
    assert ask("select count(*) from [counters] where port = 'eth1' and value < 5000000") == [(0,)]
    # 8: every report has its counters, and every counter its report.
    joined = ask(
        """select count(*) from (select distinct node, source, tick from [counters]) c
           full join [reports] r using (node, source, tick) where c.node is null or r.sequence is null"""
    )
    assert joined == [(0,)]
    # 9: sequence numbers have no gap.
    gaps = reports.groupby("node")["sequence"].agg(lambda s: s.max() - s.min() + 1 - s.nunique())
    assert set(gaps) == {0}, gaps
    # 10: time is the tick's, in UTC, in every engine.
    first = ask("select min(tick), epoch_ns(min(time)) from [ticks]")[0]
    assert first[1] == first[0] * 500_000_000
    assert ticks["time"].min().value == first[1]
    assert lazy["ticks"].select(polars.col("time").min()).collect().item().timestamp() == first[1] / 1e9
    # 11: a range of time over segments.
    middle = int(ticks["tick"].median())
    later = ask(f"select count(*) from [counters] where tick >= {middle}")
    assert later == [(int((rows["tick"] >= middle).sum()),)]
    # 12: units: the factor and the width of a counter.
    kinds = ask("select distinct quantity, factor, bits from [counters] where port = 'eth0'")
    assert len(kinds) == 1 and kinds[0][1] == 1.0 and kinds[0][2] in (32, 64), kinds
