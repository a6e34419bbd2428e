"""Agents and viewers connect over TLS to a collector with a test certificate."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import Site, get, require, resident, wait


def test_what_is_said_is_encrypted_and_the_collector_is_known(site: Site, certificate: list[str]) -> None:
    """Clients that trust the certificate are served; others, and plain connections, get an error."""
    token = ["--token", "token"]
    site.collect(*certificate, *token, "--metrics", f"127.0.0.1:{site.metrics}", "--store", "store")
    agent = site.agent("n0-0", *token, "--tls-ca", "cert.pem")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    wait("acknowledgements", lambda: site.last("n0-0")["acknowledged"] >= 1)
    # The endpoint reads the collector from within the process.
    wait("metrics", lambda: 'hopbyte_node_reported{node="n0-0"} 1' in site.text())
    address = f"127.0.0.1:{site.collector}"
    watch = [site.hopbyte, "--json", "replay", address, *token, "--tls-ca", "cert.pem"]
    seen = subprocess.Popen(watch, cwd=site.folder, stdout=subprocess.PIPE, text=True)
    assert seen.stdout and json.loads(seen.stdout.readline())["expected"] == 1
    seen.kill()
    seen.wait()

    def log() -> str:
        return (site.folder / "log").read_text()

    oracle = ["oracle", "serve", address, "--fabric", "torus:2x2", *token, "--tls-ca", "cert.pem"]
    site.start(site.hopbyte, *oracle, out="oracle")
    url = wait("the oracle", lambda: (site.folder / "oracle").read_text().strip())
    asked = f"{url}pair?from=n0-0&to=n1-1&metric=hops"
    assert json.loads(get(asked))["cost"] == 2.0
    # A loopback speaks for no link; that the oracle says so shows that reports reached it.
    wait("its ticks", lambda: "left out, loopback: n0-0 lo" in log())
    site.agent("mute", *token)
    site.agent("plain")
    wait("a sentence to the agent", lambda: "the collector requires TLS (--tls-ca FILE)" in log())
    wait("a sentence of the collector", lambda: "refused, TLS expected" in log())
    wait("a question", lambda: "does it require TLS (--tls-ca FILE)?" in log())
    # Viewers get the question too, and an agent that ends before the collector gave up.
    for words in (["replay", address], ["agent", "--to", address, "--name", "short", "--ticks", "1"]):
        done = subprocess.run([site.hopbyte, *words, *token], cwd=site.folder, capture_output=True, text=True)
        assert done.returncode and "does it require TLS (--tls-ca FILE)?" in done.stderr, done
    # Another authority's certificate.
    site.agent("stranger", *token, "--tls-ca", "other.pem")
    wait("mistrust", lambda: "invalid peer certificate" in log())
    tick = site.last_tick()
    assert (tick["expected"], tick["reported"]) == (1, 1) and agent.poll() is None


def test_the_own_certificate_may_be_marked_as_an_authority_s(site: Site, certificate: list[str]) -> None:
    """As plain `openssl req -x509` makes it; it is trusted for itself and its name only."""
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    new += ["-nodes", "-days", "2"]
    for name, address in (("own", "127.0.0.1"), ("else", "127.0.0.9")):
        words = ["-subj", "/CN=c", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        alternative = ["-addext", f"subjectAltName=IP:{address}"]
        subprocess.run([*new, *words, *alternative], cwd=site.folder, check=True, capture_output=True)
    token = ["--token", "token"]
    site.collect("--tls-cert", "own.pem", "--tls-key", "own.key", *token)
    site.agent("n1", *token, "--tls-ca", "own.pem")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    site.agent("stranger", *token, "--tls-ca", "else.pem")
    wait("mistrust", lambda: "invalid peer certificate" in (site.folder / "log").read_text())


def test_a_certificate_for_another_name_is_refused(site: Site, certificate: list[str]) -> None:
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    new += ["-nodes", "-days", "2"]
    words = ["-subj", "/CN=c", "-keyout", "else.key", "-out", "else.pem", "-addext", "subjectAltName=IP:127.0.0.9"]
    subprocess.run([*new, *words], cwd=site.folder, check=True, capture_output=True)
    site.collect("--tls-cert", "else.pem", "--tls-key", "else.key", "--token", "token")
    site.agent("n1", "--token", "token", "--tls-ca", "else.pem")
    wait("mistrust", lambda: "invalid peer certificate" in (site.folder / "log").read_text())


def test_a_collector_without_tls_says_so(site: Site, certificate: list[str]) -> None:
    """An agent that requires TLS gets no plain connection."""
    assert certificate
    site.collect()
    site.agent("n1", "--tls-ca", "cert.pem")
    said = "TLS, for which this collector has no certificate"
    wait("a sentence", lambda: said in (site.folder / "log").read_text())


def test_what_does_not_go_together_is_refused(site: Site, certificate: list[str]) -> None:
    """Packets are not encrypted; a key must be the certificate's."""

    def refused(*words: str) -> str:
        command = [site.hopbyte, *words, "--ticks", "1"]
        done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True)
        assert done.returncode == 2, done
        return done.stderr

    assert "signed, not encrypted" in refused("collect", *certificate, "--udp", "127.0.0.1:0")
    assert "signed, not encrypted" in refused("agent", "--to", "udp://127.0.0.1:1", "--tls-ca", "cert.pem")
    assert "--tls-key" in refused("collect", "--tls-cert", "cert.pem")
    assert "expected a key" in refused("collect", "--tls-cert", "cert.pem", "--tls-key", "cert.pem")
    assert "expected certificates, PEM" in refused("agent", "--tls-ca", "token")


def test_idle_connections_in_tls_are_bounded(site: Site, certificate: list[str]) -> None:
    """Idle clients after the handshake cost little, are closed by a timeout, and the others are served."""
    collector = site.collect(*certificate, "--connections", 80, "--token", "token")
    site.agent("n1", "--token", "token", "--tls-ca", "cert.pem")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    before = resident(collector)
    trust = ssl.create_default_context(cafile=str(site.folder / "cert.pem"))
    address = ("127.0.0.1", site.collector)
    # So few that even a busy machine completes all handshakes before the first timeout.
    idle = [trust.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1") for _ in range(60)]
    grown = (resident(collector) - before) / len(idle)
    print(f"{grown / 1000:.1f} kB a connection")
    assert grown < 60_000, grown
    # Above the limit the oldest connections without a hello are closed at once, and reported.
    more = [socket.create_connection(address) for _ in range(60)]
    wait("a sentence", lambda: "too many connections without a hello" in (site.folder / "log").read_text())
    wait("their end", lambda: "no hello within 5 s" in (site.folder / "log").read_text())
    wait("the node still", lambda: site.last_tick()["reported"] == 1)
    assert resident(collector) - before < 60_000 * len(idle)
    for stream in idle + more:
        stream.close()


def test_lines_are_posted_over_https(site: Site, certificate: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A database behind TLS gets its lines if the system trusts its certificate; otherwise a remark is printed."""
    assert certificate
    posts: list[str] = []

    class Database(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Accepts a connection and does nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(site.folder / "cert.pem", site.folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site.stack.callback(server.shutdown)
    url = f"https://127.0.0.1:{server.server_port}/write?token=secret"
    stranger = Site(site.folder, site.hopbyte, site.stack)
    monkeypatch.setenv("SSL_CERT_FILE", str(site.folder / "other.pem"))
    stranger.gather("--lines", url)
    wait("a remark", lambda: "lines to https://127.0.0.1" in (site.folder / "log").read_text())
    assert not posts and "secret" not in (site.folder / "log").read_text()
    monkeypatch.setenv("SSL_CERT_FILE", str(site.folder / "cert.pem"))
    site.collect("--lines", url)
    site.agent("n1")
    wait("lines", lambda: any("net_bytes_in_bw" in text for text in posts))


def test_an_expired_certificate_is_told_at_the_start(site: Site, certificate: list[str]) -> None:
    openssl = require("openssl", "openssl")
    asked = [openssl, "req", "-new", "-key", "key.pem", "-subj", "/CN=collector", "-out", "asked.pem"]
    # Extensions make it a certificate of version 3.
    (site.folder / "extensions").write_text("subjectAltName = DNS:localhost\n")
    signed = [openssl, "x509", "-req", "-in", "asked.pem", "-signkey", "key.pem", "-days", "-1", "-out", "cert.pem"]
    signed += ["-extfile", "extensions"]
    told = "cert.pem: the certificate has expired: clients refuse it"

    def said() -> str:
        command = [site.hopbyte, "collect", "--listen", "127.0.0.1:0", *certificate, "--ticks", "2", "--print", "none"]
        done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stderr

    assert "certificate" not in said()
    for command in (asked, signed):
        subprocess.run(command, cwd=site.folder, check=True, capture_output=True)
    assert said().count(told) == 1
    links = Path(__file__).parents[2] / "data" / "links.jsonl"
    view = [site.hopbyte, "view", links, "--fabric", "torus:4x4", "--serve", *certificate]
    with subprocess.Popen(view, cwd=site.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as page:
        assert page.stdout and page.stderr and page.stdout.readline().startswith("https://")
        page.kill()
        assert page.stderr.read().count(told) == 1
