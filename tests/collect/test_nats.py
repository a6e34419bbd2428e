"""Agents and collectors on a real NATS server that is killed and started again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field

import pytest
from conftest import Site, free_port, require, wait

FAST = ["--period", "0.2"]
TICKS = [*FAST, "--deadline", "150"]


@dataclass
class Bus:
    """A test's own server."""

    site: Site
    options: list[str]
    program: str
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    scheme: str = "nats"

    def start(self) -> None:
        """Starts it, with its stored state."""
        folder = self.site.folder / "jetstream"
        words = [self.program, "-a", "127.0.0.1", "-p", self.port, "-sd", folder, *self.options]
        self.process = self.site.start(*words)

    def kill(self) -> None:
        """Kills it with SIGKILL, like a power failure."""
        assert self.process
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> list[str]:
        """Its address."""
        return ["--nats", f"{self.scheme}://127.0.0.1:{self.port}"]


@pytest.fixture
def server(site: Site):  # noqa: ANN201
    """Makes servers with options."""
    os.environ["PATH"] += ":/usr/sbin"
    program = require("nats-server", "nats-server")

    def make(*options: str, scheme: str = "nats") -> Bus:
        bus = Bus(site, list(options), program, scheme=scheme)
        bus.start()
        return bus

    return make


def test_agents_and_collectors_find_each_other_again(site: Site, server) -> None:  # noqa: ANN001
    """Server and collector are killed in turn; the agents continue and their ticks arrive again."""
    bus = server()
    collector = site.collect(*bus.url, *TICKS)
    for name in ("n1", "login"):
        site.agent(name, *bus.url, *FAST)
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    bus.kill()
    wait("silence", lambda: site.last_tick()["reported"] == 0)
    bus.start()
    wait("both after the server", lambda: site.last_tick()["reported"] == 2)
    collector.kill()
    collector.wait()
    site.collect(*bus.url, *TICKS)
    tick = site.last_tick()["tick"]
    wait("both after the collector", lambda: (t := site.last_tick())["tick"] > tick and t["reported"] == 2)
    # A second agent of the same name is refused, as without NATS.
    site.agent("n1", *bus.url, *FAST)
    wait("a sentence", lambda: "a second agent named n1" in (site.folder / "log").read_text())
    wait("both still", lambda: site.last_tick()["reported"] == 2)


def test_names_that_a_subject_could_misread(site: Site, server) -> None:  # noqa: ANN001
    """Names with the bus's separators arrive; names with its wildcards are refused by the agent itself."""
    bus = server()
    site.collect(*bus.url, *TICKS)
    names = ["a.b:c", "x..y", ".x", "x.", ":", "-n"]
    for at, name in enumerate(names):
        words = [site.hopbyte, "agent", f"--name={name}", "--interface", "lo", *bus.url, *FAST]
        site.start(*words, out=f"agent{at}")
    wait("all nodes", lambda: site.last_tick()["reported"] == len(names))
    for name in ["*", ">", "a b", "$SYS", "ü", "", "n" * 129]:
        words = [str(site.hopbyte), "agent", f"--name={name}", "--interface", "lo", *bus.url, "--ticks", "1"]
        done = subprocess.run(words, cwd=site.folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "--name: found node name" in done.stderr, (name, done)


def test_lines_come_over_the_bus_too(site: Site, server) -> None:  # noqa: ANN001
    """ClusterCockpit's collectors publish lines on their own subject."""
    bus = server()
    site.gather(*bus.url, "--nats-lines", "hpc.nodes", *TICKS, agent=FAST)
    heard = f"nats://127.0.0.1:{bus.port}: connected"
    wait("the bus", lambda: heard in (site.folder / "log").read_text())
    tags = "hostname=cc1,type=node,stype=network,stype-id=eth0"
    text = f"net_bytes_out,{tags} value=77 {int(time.time())}\n".encode()
    with socket.create_connection(("127.0.0.1", bus.port)) as client:
        client.sendall(b'CONNECT {"verbose":false}\r\nPUB hpc.nodes %d\r\n%s\r\nPING\r\n' % (len(text), text))
        wait("the server", lambda: b"PONG" in client.recv(4096))
    sample = 'hopbyte_port_sent_bytes_total{node="cc1",source="lines",port="eth0"} 77'
    wait("its total", lambda: sample in site.text())


def test_collectors_share_the_blocks(site: Site, server) -> None:  # noqa: ANN001
    """64 neighbours form one block; each collector gathers its own."""
    bus = server()
    for i in range(2):
        listen = ["--listen", f"127.0.0.1:{free_port()}", "--expect", "n[0-1],n[64-65]"]
        words = [site.hopbyte, "--json", "collect", *listen, *bus.url, "--shard", f"{i}/2", *TICKS]
        site.start(*words, out=f"shard{i}")
    for name in ("n0", "n64"):
        site.agent(name, *bus.url, *FAST)
    for i, other in enumerate(("n1", "n65")):

        def missing(shard: str = f"shard{i}") -> list[str] | None:
            tick = site.last(shard)
            assert tick["expected"] == 2
            return [m["node"] for m in tick["missing"]] if tick["reported"] == 1 else None

        assert wait("its node", missing) == [other]


def test_a_stream_loses_nothing_that_was_acknowledged(site: Site, server) -> None:  # noqa: ANN001
    """Server, collector and agent are killed in turn; every acknowledged message of a stream is in the store."""
    bus = server("-js")
    collect = [*bus.url, *TICKS, "--jetstream", "COUNTERS", "--store", "store"]
    report = [*bus.url, *FAST, "--jetstream", "--keep", "500"]
    collector = site.collect(*collect)
    wait("the stream", lambda: "connected" in (site.folder / "log").read_text())
    agent = site.agent("n1", *report)
    wait("the agent", lambda: site.last("n1"))

    def acknowledged(more: int = 3) -> None:
        at = site.last("n1")["sequence"]
        wait("acknowledgements", lambda: site.last("n1")["acknowledged"] >= at + more)

    acknowledged()
    for _ in range(2):
        bus.kill()
        time.sleep(1)
        bus.start()
        acknowledged()
        collector.kill()
        collector.wait()
        acknowledged()
        collector = site.collect(*collect)
        acknowledged()
        agent.kill()
        agent.wait()
        with (site.folder / "n1").open("a") as lines:
            lines.write("\n")  # a truncated line
        agent = site.agent("n1", *report)
        wait("the next agent", lambda: site.last("n1")["sequence"] < 20)
        acknowledged()
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    time.sleep(1)
    site.stack.close()

    ticks: dict[tuple[int, int], int] = {}
    highest: dict[int, int] = {}
    for line in (site.folder / "n1").read_text().splitlines():
        try:
            tick = json.loads(line)
        except ValueError:
            continue
        assert tick["dropped_reports"] == 0
        ticks[tick["start_ns"], tick["sequence"]] = tick["tick"]
        highest[tick["start_ns"]] = max(highest.get(tick["start_ns"], 0), tick["acknowledged"])
    told = {t for (start, sequence), t in ticks.items() if sequence <= highest[start]}
    done = subprocess.run(
        [site.hopbyte, "--json", "replay", "store"], cwd=site.folder, capture_output=True, text=True, check=True
    )
    closings = [json.loads(line) for line in done.stdout.splitlines()]
    late = [late["tick"] for closing in closings for late in closing["late"]]
    kept = [c["tick"] for c in closings if c["reported"]] + late
    assert len(highest) == 3 and len(told) > 20
    assert told <= set(kept), sorted(told - set(kept))
    assert len(kept) == len(set(kept)), "nothing twice"
    assert late, "no ticks of the collector's downtime"


def test_a_server_is_talked_to_in_tls(site: Site, server, certificate: list[str]) -> None:  # noqa: ANN001
    """Agents and collectors verify the server's certificate, and a TLS server refuses plain connections."""
    assert certificate
    bus = server("-js", "--tls", "--tlscert", "cert.pem", "--tlskey", "key.pem", scheme="tls")
    trust = ["--tls-ca", "cert.pem"]
    site.collect(*bus.url, *TICKS, *trust, "--jetstream", "COUNTERS", "--store", "store")
    wait("the stream", lambda: f"tls://127.0.0.1:{bus.port}: connected" in (site.folder / "log").read_text())
    site.agent("n1", *bus.url, *FAST, *trust, "--jetstream")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] >= 3)
    bus.kill()
    bus.start()
    at = site.last_tick()["tick"]
    wait("the node again", lambda: (t := site.last_tick())["tick"] > at + 3 and t["reported"] == 1)
    plain = ["--nats", f"nats://127.0.0.1:{bus.port}"]
    for words, said in [
        (plain, "a NATS server that requires TLS, expected tls://HOST and --tls-ca FILE"),
        ([*bus.url, "--tls-ca", "other.pem"], "invalid peer certificate"),
    ]:
        site.agent("stranger", *words, *FAST)
        wait(said, lambda said=said: said in (site.folder / "log").read_text())
    for words, said in [(bus.url, "which needs --tls-ca FILE"), ([*plain, *trust], "expected tls://HOST")]:
        command = [site.hopbyte, "agent", *words, "--ticks", "1"]
        done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr, done
