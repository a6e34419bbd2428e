"""Failures of a cluster on real processes: a stopped agent, a slow one, a device that disappears and returns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Site, free_port, require, resident, wait

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t)
{
    int (*next)(clockid_t, struct timespec *);
    *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = next(id, t);
    if (id == CLOCK_REALTIME && access(getenv("CLOCK_IS_BACK"), F_OK) == 0)
        t->tv_sec -= 400 * 86400;
    return rc;
}
"""


def test_a_frozen_node_is_named_at_the_deadline(site: Site) -> None:
    """LDMS shows a stopped sampler's last values as consistent; here the next tick reports it."""
    site.collect("--expect", "n[1-2]")
    first, second = site.agent("n1"), site.agent("n2")
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    second.send_signal(signal.SIGSTOP)
    tick = wait("its name", lambda: t if (t := site.last_tick())["frozen"] == ["n2"] else None)
    assert tick["missing"] == [{"node": "n2", "why": "silent"}] and tick["reported"] == 1
    second.send_signal(signal.SIGCONT)
    wait("both again", lambda: site.last_tick()["reported"] == 2)
    assert first.poll() is None


def test_a_collector_that_stands_costs_its_agents_the_oldest_reports_only(site: Site) -> None:
    """The agent's memory is bounded, it reports dropped ticks, and both continue."""
    collector = site.collect()
    agent = site.agent("n1", "--keep", 3)
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    before = resident(agent)
    collector.send_signal(signal.SIGSTOP)
    lost = wait("reports given up", lambda: site.last("n1")["dropped_reports"] >= 3)
    assert lost and resident(agent) < before + 2_000_000
    collector.send_signal(signal.SIGCONT)
    at = site.last("n1")["sequence"]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at)
    wait("whole ticks", lambda: site.last_tick()["reported"] == 1)


def numbers(site: Site, store: str, node: str) -> list[tuple[int, int]]:
    """Sequence number and tick of a node's stored reports, after the collector ended."""
    pandas = pytest.importorskip("pandas")
    command = [site.hopbyte, "replay", store, "--seal"]
    subprocess.run(command, cwd=site.folder, capture_output=True, check=True)
    tables = [pandas.read_parquet(file) for file in (site.folder / store).glob("*.reports.parquet")]
    table = pandas.concat(tables)
    rows = table[(table["node"] == node) & (table["source"] == "linux")]
    return sorted((int(row.sequence), int(row.time.timestamp() * 10)) for row in rows.itertuples())


def test_processes_that_stand_for_long_lose_and_double_nothing(site: Site) -> None:
    """Collector and agent are stopped in turn: what was read is stored once, what was not read is counted."""
    collector = site.collect("--store", "store", "--period", "0.2", "--deadline", "100")
    agent = site.agent("n1", "--period", "0.2")
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 2)
    collector.send_signal(signal.SIGSTOP)
    time.sleep(10)
    stood = site.last("n1")
    assert stood["sequence"] > stood["acknowledged"] + 20 and stood["dropped_reports"] == 0
    collector.send_signal(signal.SIGCONT)
    wait("the backlog", lambda: site.last("n1")["acknowledged"] > stood["sequence"])
    skipped = sum(tick["skipped_ticks"] for tick in site.ticks())
    assert skipped >= 20, "the ticks that no one closed are said"
    missed = site.last("n1")["missed_ticks"]
    agent.send_signal(signal.SIGSTOP)
    time.sleep(6)
    agent.send_signal(signal.SIGCONT)
    at = site.last("n1")["sequence"]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at + 5)
    lost = site.last("n1")["missed_ticks"] - missed
    assert lost >= 20, lost
    last = site.last("n1")["acknowledged"]
    site.stack.close()
    found = numbers(site, "store", "n1")
    assert [n for n, _ in found][:last] == list(range(1, last + 1))
    # The next report after the gap has its own time: a rate over it is one over six seconds.
    gaps = [after - before for (_, before), (_, after) in pairwise(found)]
    assert max(gaps) >= 50, gaps


def test_an_agent_that_meets_another_collector_loses_nothing(site: Site) -> None:
    """Two collectors behind one address, each with a store: together they hold every report, and each one once."""
    first = site.collect("--store", "a", "--period", "0.2", "--deadline", "100")
    site.agent("n1", "--period", "0.2")
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 5)
    beside = [site.hopbyte, "collect", "--store", "a", "--listen", "127.0.0.1:0", "--ticks", "1"]
    refused = subprocess.run(beside, cwd=site.folder, capture_output=True, text=True)
    assert refused.returncode in (2, 3) and "another collector writes to this store" in refused.stderr, refused
    reached = []
    for store in ("b", "a"):
        first.kill()
        first.wait()
        reached.append(site.last("n1")["acknowledged"])
        time.sleep(1)
        first = site.collect("--store", store, "--period", "0.2", "--deadline", "100")
        at = site.last("n1")["sequence"]
        wait("acknowledgements", lambda at=at: site.last("n1")["acknowledged"] > at + 5)
        # Never taken back, although the other store holds less.
        assert site.last("n1")["acknowledged"] >= reached[-1]
    last = site.last("n1")["acknowledged"]
    site.stack.close()
    kept = {store: [n for n, _ in numbers(site, store, "n1")] for store in ("a", "b")}
    assert all(len(set(found)) == len(found) for found in kept.values()), kept
    assert set(range(1, last + 1)) <= set(kept["a"]) | set(kept["b"]), (last, kept)


def test_a_file_system_without_inodes_is_said_and_survived(site: Site) -> None:
    """No new log can be created: nothing is acknowledged meanwhile, and nothing lost when there is room again."""
    # In a namespace of processes nothing outlives the test.
    inside = ["unshare", *(["-Ur"] if os.geteuid() else []), "-m", "--pid", "--fork", "--kill-child", "--mount-proc"]
    (site.folder / "store").mkdir()
    mount = "mount -t tmpfs -o size=16m,nr_inodes=4000 none store"
    if subprocess.run([*inside, "sh", "-c", mount], cwd=site.folder, capture_output=True).returncode:
        pytest.skip("no file systems can be mounted here")
    listen = ["--listen", f"127.0.0.1:{site.collector}", "--metrics", f"127.0.0.1:{site.metrics}"]
    listen += ["--period", "0.2", "--deadline", "100"]
    # Files of others use up the inodes until `room` exists; every tick ends a log.
    others = "i=0; while : > store/other$i; do i=$((i+1)); done 2>/dev/null"
    free = "while ! [ -e room ]; do sleep 0.1; done; rm store/other*"
    command = f"{site.hopbyte} --json collect {' '.join(listen)} --store store --segment 0"
    copy = "while ! [ -e end ]; do sleep 0.1; done; kill %2; sleep 1; cp -r store kept; : > copied"
    wait_for = "while ! [ -e full ]; do sleep 0.1; done"
    script = f"{mount}; ({wait_for}; {others}; {free}) & {command} & {copy}"
    site.start(*inside, "bash", "-m", "-c", script, out="ticks")
    site.agent("n1", "--period", "0.2")
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 2)
    (site.folder / "full").touch()
    wait("the metric", lambda: "hopbyte_store_failing 1\n" in site.text())
    wait("a warning", lambda: "No space left on device" in (site.folder / "log").read_text())
    time.sleep(1)
    at = site.last("n1")["acknowledged"]
    time.sleep(3)
    assert site.last("n1")["acknowledged"] == at, "reports are acknowledged that are nowhere"
    (site.folder / "room").touch()
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at + 20)
    last = site.last("n1")["acknowledged"]
    (site.folder / "end").touch()
    wait("a copy", lambda: (site.folder / "copied").exists())
    site.stack.close()
    found = [n for n, _ in numbers(site, "kept", "n1")]
    assert found[:last] == list(range(1, last + 1)), (last, found)


def test_a_limit_on_file_sizes_ends_logs_and_loses_nothing(site: Site) -> None:
    """`ulimit -f`: a log that may not grow is followed by another; refused blocks are sent again and stored once."""
    command = f"{site.hopbyte} collect --listen 127.0.0.1:{site.collector} --store store --print none"
    limited = f"ulimit -f 16; exec {command} --period 0.2 --deadline 100"
    collector = site.start("sh", "-c", limited)
    site.agent("n1", "--period", "0.2")

    def logs() -> list[Path]:
        return sorted((site.folder / "store").glob("*.log"))

    wait("a third log", lambda: len(logs()) > 2)
    at = site.last("n1")["sequence"]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at)
    assert collector.poll() is None
    last = site.last("n1")["acknowledged"]
    site.stack.close()
    # In blocks of 512 or 1,024 bytes, by the shell.
    assert all(log.stat().st_size <= 16 << 10 for log in logs())
    assert "File too large" in (site.folder / "log").read_text()
    found = [n for n, _ in numbers(site, "store", "n1")]
    assert found[:last] == list(range(1, last + 1)), (last, found)


def test_an_interface_that_goes_and_returns(site: Site) -> None:
    """Its counters disappear and return with it; the agent and the other interface continue."""
    ip = shutil.which("ip")
    if not ip or os.geteuid():
        pytest.skip("needs root and ip")
    name = f"hb{os.getpid() % 100000}"
    add = [ip, "link", "add", name, "type", "veth", "peer", "name", f"{name}p"]
    if subprocess.run(add, capture_output=True).returncode:
        pytest.skip("no virtual cables can be made here")
    site.stack.callback(subprocess.run, [ip, "link", "del", name], check=False, capture_output=True)
    site.gather("--period", "0.5", agent=["--period", "0.5", "--interface", name])

    def ports() -> set[str]:
        lines = [li for li in site.text().splitlines() if li.startswith("hopbyte_port_received_bytes_total")]
        return {li.split('port="')[1].split('"')[0] for li in lines}

    wait("both", lambda: ports() == {"lo", name})
    subprocess.run([ip, "link", "del", name], check=True)
    wait("one", lambda: ports() == {"lo"})
    time.sleep(1)
    subprocess.run(add, check=True)
    wait("both again", lambda: ports() == {"lo", name})


def test_a_clock_that_is_set_back_stops_no_tick(site: Site) -> None:
    """The collector's clock is set back by 400 days: ticks go on, also with an agent by UDP that starts after it."""
    (site.folder / "clock.c").write_text(CLOCK)
    build = [require("gcc", "gcc"), "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"]
    subprocess.run(build, cwd=site.folder, check=True)
    back, udp = site.folder / "back", f"127.0.0.1:{free_port()}"
    clock = [f"LD_PRELOAD={site.folder / 'clock.so'}", f"CLOCK_IS_BACK={back}"]
    command = [site.hopbyte, "--json", "collect", "--listen", f"127.0.0.1:{site.collector}", "--udp", udp]
    site.start("env", *clock, *command, "--store", "store", out="ticks")
    words = [site.hopbyte, "--json", "agent", "--name", "n1", "--interface", "lo", "--to", f"udp://{udp}"]
    agent = site.start(*words, out="n1")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    before = site.last_tick()["tick"]
    back.touch()
    wait("ticks", lambda: site.last_tick()["tick"] < before - 399 * 86400)
    agent.kill()
    agent.wait()
    # The agent's clock is right: its reports are ahead of the collector's, and are stored.
    wait("silence", lambda: not site.last_tick()["ahead"])
    site.start(*words, out="n1")
    wait("the new agent", lambda: site.last_tick()["ahead"] == ["n1"])
