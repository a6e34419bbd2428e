"""Certificates that expire and are renewed, secrets that are replaced, clocks that are set, without a restart."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Site, free_port, require, secret, wait
from test_access import ask, bearer
from test_failures import CLOCK


def said(site: Site) -> str:
    """Messages of all programs."""
    return (site.folder / "log").read_text()


def stored(site: Site, node: str) -> list[int]:
    """The sequence numbers of a node's stored reports, after the collector ended."""
    pandas = pytest.importorskip("pandas")
    command = [site.hopbyte, "replay", "store", "--seal"]
    subprocess.run(command, cwd=site.folder, capture_output=True, check=True)
    tables = [pandas.read_parquet(file) for file in (site.folder / "store").glob("*.reports.parquet")]
    table = pandas.concat(tables)
    rows = table[(table["node"] == node) & (table["source"] == "linux")]
    return sorted(int(n) for n in rows["sequence"])


def replace(site: Site, target: str, source: str) -> None:
    """Replaces a file as tools that renew do: under another name, then by renaming."""
    mode = (site.folder / target).stat().st_mode & 0o777 if (site.folder / target).exists() else 0o600
    new = site.folder / f"{target}.new"
    new.touch(mode=0o600)
    new.write_bytes((site.folder / source).read_bytes())
    new.chmod(mode)
    os.replace(new, site.folder / target)


@pytest.fixture
def authority(site: Site) -> Path:
    """An authority `ca.pem` with certificates of this machine: `old` expired yesterday, `good` is valid."""
    openssl = require("openssl", "openssl")
    new = [openssl, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    (site.folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
    sign = [openssl, "x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    commands = [[*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]]
    commands += [[*new, "-x509", "-days", "2", "-subj", "/CN=foreign", "-keyout", "foreign.key", "-out", "foreign.pem"]]
    for name, days in [("old", "-1"), ("good", "2")]:
        commands.append([*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"])
        commands.append([*sign, "-in", f"{name}.csr", "-days", days, "-out", f"{name}.pem"])
    for command in commands:
        subprocess.run(command, cwd=site.folder, check=True, capture_output=True)
    return site.folder


def test_a_certificate_that_expired_is_renewed_while_agents_run(site: Site, authority: Path) -> None:
    """Both sides say why there is no connection; a renewed certificate and renewed trust need no restart."""
    replace(site, "cert.pem", "old.pem")
    replace(site, "key.pem", "old.key")
    secret(authority / "token", "sixteen bytes or more of secret")
    collector = site.collect("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--token", "token", "--store", "store")
    # Of consecutive failures an agent says the first.
    wait("the collector", lambda: said(site).count("listening on") == 2)
    first = site.agent("n1", "--token", "token", "--tls-ca", "ca.pem")
    wait("the agent's reason", lambda: "invalid peer certificate: Expired" in said(site))
    wait("the collector's", lambda: "CertificateExpired" in said(site))
    # The certificate before its key: for a moment they do not go together.
    replace(site, "cert.pem", "good.pem")
    wait("what is wrong", lambda: "cert.pem and key.pem: changed, and not usable" in said(site))
    replace(site, "key.pem", "good.key")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    assert "cert.pem and key.pem: changed, and read again" in said(site)
    # Readings from before the renewal are not lost.
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 3)
    # A file that is no certificate does not end the service; the old one admits a second agent.
    (authority / "cert.pem").write_text("nothing\n")
    replace(site, "trust.pem", "foreign.pem")
    second = site.agent("n2", "--token", "token", "--tls-ca", "trust.pem")
    wait("mistrust", lambda: "UnknownIssuer" in said(site))
    replace(site, "trust.pem", "ca.pem")
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    assert "trust.pem: changed, and read again" in said(site)
    assert [p.poll() for p in (collector, first, second)] == [None, None, None]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > 8)
    last = site.last("n1")["acknowledged"]
    site.stack.close()
    assert stored(site, "n1")[:last] == list(range(1, last + 1))


def test_a_secret_that_is_replaced_admits_agents_with_the_new_one(site: Site) -> None:
    """The files change one by one under a running collector and agents by both ways; no reading by TCP is lost."""
    secrets = {"old": "the first secret of the cluster", "new": "the other secret of the cluster"}
    for name, text in secrets.items():
        secret(site.folder / name, text)
    for file in ("token", "token1", "token2"):
        replace(site, file, "old")
    udp = f"127.0.0.1:{free_port()}"
    collector = site.collect("--token", "token", "--udp", udp, "--store", "store", "--period", "0.5")
    tcp = site.agent("n1", "--token", "token1", "--period", "0.5")
    words = [site.hopbyte, "--json", "agent", "--name", "n2", "--interface", "lo", "--to", f"udp://{udp}"]
    site.start(*words, "--token", "token2", "--period", "0.5", out="n2")
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    replace(site, "token", "new")
    # A connection that was proved goes on; packets are proved one by one.
    wait("packets are refused", lambda: "a packet of n2 without the token" in said(site))
    wait("the connection alone", lambda: site.last_tick()["reported"] == 1 and site.last("n1")["acknowledged"] > 0)
    assert "token: changed, and read again" in said(site)
    replace(site, "token2", "new")
    wait("both nodes again", lambda: site.last_tick()["reported"] == 2)
    # The collector starts again: the agent with the old secret is refused, keeps its readings, and follows.
    collector.kill()
    collector.wait()
    site.collect("--token", "token", "--udp", udp, "--store", "store", "--period", "0.5")
    wait("the refusal", lambda: "a token that is not this collector's" in said(site))
    (site.folder / "token1").write_text("short\n")
    time.sleep(1.5)
    replace(site, "token1", "new")
    at = site.last("n1")["sequence"]
    wait("acknowledgements", lambda: site.last("n1")["acknowledged"] > at)
    last = site.last("n1")["acknowledged"]
    assert tcp.poll() is None
    site.stack.close()
    assert stored(site, "n1")[:last] == list(range(1, last + 1))


@pytest.mark.parametrize("days", [-400, 400])
def test_a_collector_s_clock_is_set_while_agents_with_a_secret_run(site: Site, days: int) -> None:
    """There and back: ticks close, challenges are answered, every acknowledged report is in the store once."""
    text = CLOCK.replace("t->tv_sec -= 400 * 86400;", f"t->tv_sec += {days} * 86400;")
    (site.folder / "clock.c").write_text(text)
    build = [require("gcc", "gcc"), "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"]
    subprocess.run(build, cwd=site.folder, check=True)
    moved, udp = site.folder / "moved", f"127.0.0.1:{free_port()}"
    secret(site.folder / "token", "sixteen bytes or more of secret")
    clock = [f"LD_PRELOAD={site.folder / 'clock.so'}", f"CLOCK_IS_BACK={moved}"]
    listen = ["--listen", f"127.0.0.1:{site.collector}", "--udp", udp, "--token", "token", "--period", "0.5"]
    command = [site.hopbyte, "--json", "collect", *listen, "--store", "store", "--retain", "30"]
    site.start("env", *clock, *command, out="ticks")
    site.agent("n1", "--token", "token", "--period", "0.5")
    words = [site.hopbyte, "--json", "agent", "--interface", "lo", "--to", f"udp://{udp}", "--token", "token"]
    site.start(*words, "--name", "n2", "--period", "0.5", out="n2")
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    before = site.last_tick()["tick"]
    moved.touch()
    far = 2 * 399 * 86400
    wait("ticks there", lambda: abs(site.last_tick()["tick"] - before) > far)
    # Agents that begin now prove themselves too.
    site.agent("n3", "--token", "token", "--period", "0.5")
    site.start(*words, "--name", "n4", "--period", "0.5", out="n4")
    wait("acknowledgements there", lambda: site.last("n3")["acknowledged"] > 2)
    at = site.last("n1")["sequence"]
    wait("acknowledgements of the first", lambda: site.last("n1")["acknowledged"] > at)
    moved.unlink()
    wait("ticks here", lambda: abs(site.last_tick()["tick"] - before) < far)
    wait("all nodes", lambda: site.last_tick()["reported"] == 4)
    ends = {n: site.last(n)["acknowledged"] for n in ("n1", "n3")}
    packets = {n: site.last(n)["sequence"] - 2 for n in ("n2", "n4")}
    site.stack.close()
    for node, last in ends.items():
        assert stored(site, node)[:last] == list(range(1, last + 1)), node
    for node, last in packets.items():
        found = stored(site, node)
        assert found == list(range(found[0], found[-1] + 1)) and last in found, f"{node} {last} {found}"


def test_bearer_tokens_that_are_replaced_admit_without_a_restart(site: Site) -> None:
    """Metrics, lines, viewers and the oracle: both tokens while both are in the file, then the new one alone."""
    lines, oracle = free_port(), free_port()
    old, new = "the-first-token-of-readers", "the-other-token-of-readers"
    secret(site.folder / "token", "sixteen-bytes-or-more-of-secret")
    for file in ("readers", "writers"):
        secret(site.folder / file, old if file == "readers" else "a-token-of-writers")
    web = ["--metrics", f"127.0.0.1:{site.metrics}", "--listen-lines", f"127.0.0.1:{lines}"]
    site.collect("--token", "token", *web, "--read-token", "readers", "--write-token", "writers", "--period", "0.5")
    served = ["oracle", "serve", "--fabric", "torus:4x4x4", "--listen", f"127.0.0.1:{oracle}"]
    site.start(site.hopbyte, *served, "--read-token", "readers")

    def admitted(token: str) -> list[bool]:
        """Whether metrics, the oracle and the stream of ticks admit a token."""
        secret(site.folder / "shown", token)
        command = [site.hopbyte, "--json", "replay", f"127.0.0.1:{site.collector}", "--token", "shown"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=site.folder, text=True, **pipes) as stream:
            assert stream.stdout
            ticks = "tick" in stream.stdout.readline()
            stream.kill()
        answers = [ask(port, **bearer(token))[0] == 200 for port in (site.metrics, oracle)]
        return [*answers, ticks]

    wait("the oracle", lambda: admitted(old) == [True] * 3)
    assert admitted(new) == [False] * 3
    secret(site.folder / "both", f"{old}\n{new}")
    replace(site, "readers", "both")
    wait("the new token", lambda: admitted(new) == [True] * 3)
    assert admitted(old) == [True] * 3
    secret(site.folder / "later", new)
    replace(site, "readers", "later")
    wait("an end of the old token", lambda: admitted(old) == [False] * 3)
    assert admitted(new) == [True] * 3 and "readers and token: changed, and read again" in said(site)
    # The secret of the cluster never admits readers, and a file that is open to others changes nothing.

    def unusable(content: str, mode: int) -> None:
        before = said(site).count("not usable")
        (site.folder / "readers").write_text(content)
        (site.folder / "readers").chmod(mode)
        # The file is looked at when somebody asks; the secret also admits to the stream of ticks.
        wait("a reason", lambda: not admitted(content)[0] and said(site).count("not usable") > before)
        assert admitted(new)[0]

    unusable("sixteen-bytes-or-more-of-secret", 0o600)
    unusable("one-that-everybody-reads", 0o644)
    # Lines have a file of their own.
    line = "net_bytes_in,hostname=cc1,stype-id=eth0 value=1"
    secret(site.folder / "writers", "another-token-of-writers")
    wait("the writer", lambda: ask(lines, "POST", "/write", None, line, **bearer("another-token-of-writers"))[0] == 204)
    assert ask(lines, "POST", "/write", None, line, **bearer("a-token-of-writers"))[0] == 401
