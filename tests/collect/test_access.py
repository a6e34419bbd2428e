"""Who may read and write over HTTP: tokens, TLS, foreign pages, idle connections, a full disk."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from conftest import Site, free_port, secret, wait

ROOT = Path(__file__).resolve().parents[2]
READER = "a token of readers"
WRITER = "a token of writers"


def ask(
    port: int, method: str = "GET", path: str = "/metrics", trust: Path | None = None, body: str = "", **headers: str
) -> tuple[int, str]:
    """Status and body of a request to this machine; over TLS if there is a certificate to trust."""
    if trust:
        context = ssl.create_default_context(cafile=str(trust))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def bearer(text: str) -> dict[str, str]:
    """The header of a token without white space."""
    return {"Authorization": f"Bearer {text.replace(' ', '-')}"}


def test_readers_and_writers_have_tokens_and_tls_of_their_own(site: Site, certificate: list[str]) -> None:
    """The secret of the cluster admits to nothing over HTTP, a read token writes nothing, and all is encrypted."""
    lines = free_port()
    secret(site.folder / "readers", READER.replace(" ", "-"))
    secret(site.folder / "writers", WRITER.replace(" ", "-"))
    readers, writers = ["--read-token", "readers"], ["--write-token", "writers"]
    web = ["--metrics", f"0.0.0.0:{site.metrics}", "--listen-lines", f"0.0.0.0:{lines}"]
    site.collect(*certificate, "--token", "token", *web, *readers, *writers)
    site.agent("n1", "--token", "token", "--tls-ca", "cert.pem")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    trust = site.folder / "cert.pem"
    status, text = ask(site.metrics, trust=trust, **bearer(READER))
    assert status == 200 and 'hopbyte_node_reported{node="n1"} 1' in text
    for wrong in ["sixteen bytes or more of secret", WRITER, "guess"]:
        assert ask(site.metrics, trust=trust, **bearer(wrong))[0] == 401, wrong
    assert ask(site.metrics, trust=trust)[0] == 401
    assert ask(site.metrics, path=f"/metrics?token={READER.replace(' ', '-')}", trust=trust)[0] == 401
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(site.metrics, **bearer(READER))
    line = "net_bytes_in,hostname=cc1,stype-id=eth0 value=1"
    for token, expected in [(WRITER, 204), (READER, 401)]:
        assert ask(lines, "POST", "/write", trust, line, **bearer(token))[0] == expected
    # A read token reads the stream of ticks, and reports nothing.
    address = f"127.0.0.1:{site.collector}"
    replay = [site.hopbyte, "--json", "replay", address, "--token", "readers", "--tls-ca", "cert.pem"]
    seen = subprocess.Popen(replay, cwd=site.folder, stdout=subprocess.PIPE, text=True)
    assert seen.stdout and '"reported":1' in seen.stdout.readline()
    seen.kill()
    seen.wait()
    site.agent("n2", "--token", "readers", "--tls-ca", "cert.pem")
    wait("a refusal", lambda: "a token that is not this collector's" in (site.folder / "log").read_text())


def test_what_is_open_to_others_is_refused(site: Site, certificate: list[str]) -> None:
    """Addresses without tokens, tokens that every user may read, and one secret for both purposes."""
    assert certificate

    def refused(*words: object) -> str:
        command = [site.hopbyte, "collect", "--listen", "127.0.0.1:0", "--ticks", "1", *words]
        done = subprocess.run([str(w) for w in command], cwd=site.folder, capture_output=True, text=True)
        assert done.returncode == 2, done
        return done.stderr

    assert "expected --read-token FILE as well" in refused("--metrics", "0.0.0.0:0")
    assert "expected --write-token FILE as well" in refused("--listen-lines", "0.0.0.0:0")
    metrics = ["--metrics", "127.0.0.1:0"]
    open_file = site.folder / "open"
    open_file.write_text("sixteen-bytes-or-more-of-secret\n")
    for mode in [0o604, 0o644, 0o602, 0o666]:
        open_file.chmod(mode)
        for words in [["--token", "open"], [*metrics, "--read-token", "open"]]:
            text = refused(*words)
            assert f"found mode {mode:04o}, open to every user" in text and "chmod o-rwx open" in text
    open_file.chmod(0o600)
    assert "the secret of --token" in refused("--token", "open", *metrics, "--read-token", "open")
    shutil.copy(site.folder / "key.pem", site.folder / "open-key.pem")
    (site.folder / "open-key.pem").chmod(0o644)
    assert "found mode 0644" in refused("--tls-cert", "cert.pem", "--tls-key", "open-key.pem")


def test_the_shipped_units_silence_nothing() -> None:
    """Failures of the store, refusals and changes of nodes reach the journal."""
    units = sorted((ROOT / "packaging").glob("*.service"))
    assert len(units) == 2
    for unit in units:
        text = unit.read_text()
        assert not re.search(r"--quiet|^Standard(Output|Error)=", text, re.M), unit
    settings = (ROOT / "packaging/collect.toml").read_text()
    assert 'print = "changes"' in settings and not re.search("^quiet", settings, re.M)


def test_an_age_of_no_days_is_refused(site: Site) -> None:
    """Retention of nothing would delete the store."""
    words = ["collect", "--listen", "127.0.0.1:0", "--store", "store", "--ticks", "1", "--retain", "0"]
    done = subprocess.run([site.hopbyte, *words], cwd=site.folder, capture_output=True, text=True)
    assert done.returncode == 2 and "0 is not in 1..=36500" in done.stderr
    assert not (site.folder / "store").exists()


def test_foreign_pages_inject_nothing(site: Site) -> None:
    """`Host` and `Origin` of a browser tell a page of another site, also behind a name that it made resolve here."""
    lines = free_port()
    site.gather("--listen-lines", f"127.0.0.1:{lines}", "--allow-host", "monitor.site")
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    line = "net_bytes_in,hostname=cc1,stype-id=eth0 value=1"
    for headers, expected in [
        ({}, 204),
        ({"Origin": f"http://127.0.0.1:{lines}"}, 204),
        ({"Host": "monitor.site"}, 204),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ]:
        assert ask(lines, "POST", "/write", body=line, **headers)[0] == expected, headers
        metrics = {name: text.replace(str(lines), str(site.metrics)) for name, text in headers.items()}
        assert ask(site.metrics, **metrics)[0] == (200 if expected == 204 else expected), headers
    assert "hopbyte_collector_http_refused_total 4\n" in site.text()


def test_idle_connections_keep_no_scrape_from_its_answer(site: Site) -> None:
    """Thirty of thirty scrapes are answered while hundreds of connections wait, and a new one for each that ends."""
    site.gather()
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    address = ("127.0.0.1", site.metrics)
    idle = [socket.create_connection(address) for _ in range(600)]
    for _ in range(30):
        assert ask(site.metrics)[0] == 200
        idle += [socket.create_connection(address) for _ in range(5)]
    for stream in idle:
        stream.close()


def test_a_store_that_takes_nothing_is_a_metric_and_stops_no_scrape(site: Site) -> None:
    """A limit on the size of files stands for a full disk."""
    words = ["--metrics", f"127.0.0.1:{site.metrics}", "--store", "store", "--listen", f"127.0.0.1:{site.collector}"]
    limited = 'trap "" XFSZ; ulimit -f 2; exec "$@"'
    site.start("bash", "-c", limited, "bash", site.hopbyte, "--quiet", "collect", "--print", "none", *words)
    site.agent("n1")

    def failing() -> str:
        text = site.text()
        return text if "hopbyte_store_failing 1\n" in text else ""

    text = wait("the failure", failing)
    assert "hopbyte_store_unkept_ticks_total" in text
    # The ticks go on, and `--quiet` does not silence it.
    for _ in range(5):
        assert ask(site.metrics)[0] == 200
    assert "nothing is acknowledged" in (site.folder / "log").read_text()
