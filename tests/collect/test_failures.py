"""Failures of a cluster on real processes: a stopped agent, a slow one, a device that disappears and returns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

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
