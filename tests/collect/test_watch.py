"""The links of a machine from running agents: a page per tick, from totals and from percentages alone."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest
from conftest import Site, wait

FABRIC = "gemini:4x4x4"
RATE = 1_000_000_000


@pytest.fixture
def routers(site: Site):  # noqa: ANN201
    """Metrics of two routers in gpcdr's format, rewritten ten times a second: totals, and percentages alone."""
    files = {name: site.folder / f"{name}.metrics" for name in ("totals", "derived")}
    stop, gone = threading.Event(), set()

    def write() -> None:
        start = time.time()
        while True:
            now = time.time()
            total = int((now - start) * RATE) + 1_000_000
            lines = {
                "totals": f"traffic_X+ {total} bytes\ncredit_stall_X+ {total // 4} ns\n",
                "derived": "X+_SAMPLE_GEMINI_LINK_USED_BW 75 %\n",
            }
            for name, file in files.items():
                part = file.with_suffix(".part")
                part.write_text(f"timestamp {int(now * 1000)} ms\n{lines[name]}")
                part.rename(file) if name not in gone else file.unlink(missing_ok=True)
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=write)
    thread.start()
    site.stack.callback(lambda: (stop.set(), thread.join()))
    for file in files.values():
        wait("its metrics", file.exists)
    return files, gone


def row(page: Path, name: str) -> str | None:
    """A row of the newest complete page."""
    rows = [line for line in page.read_text().splitlines() if line.startswith(name)]
    return rows[-1] if rows else None


def test_watch_shows_what_agents_of_routers_read(site: Site, routers) -> None:  # noqa: ANN001
    """A rate from totals, a percentage as given, and no values for a router without its file."""
    files, gone = routers
    site.collect("--period", "0.5")
    words = ["--period", "0.5", "--to", f"127.0.0.1:{site.collector}", "--interface", "none", "--file"]
    # Two nodes share a router; these are of the first and the last.
    site.start(site.hopbyte, "agent", "--name", "nid00000", *words, files["totals"])
    site.start(site.hopbyte, "agent", "--name", "nid00127", *words, files["derived"])
    wait("both nodes", lambda: site.last_tick()["reported"] == 2)
    address = f"127.0.0.1:{site.collector}"
    site.start(site.hopbyte, "watch", address, "--fabric", FABRIC, out="page")
    page = site.folder / "page"
    bars = wait("both links", lambda: b if (b := row(page, "X- ")) and "2 of 64" in b else None)
    # Arrivals on X+ left the neighbour by X-; the worst value exists as a percentage only.
    assert "75.0" in bars, bars

    def rate() -> float | None:
        rows = [line.split() for line in page.read_text().splitlines() if " X- " in line and "MB/s" not in line]
        rates = [float(words[2]) for words in rows if words[2].replace(".", "").isdigit()]
        return rates[-1] if rates else None

    # The files have their own timestamp, to a millisecond.
    wait("its rate", lambda: (r := rate()) and abs(r - RATE / 1e6) < 10)
    gone.add("derived")
    wait("one link", lambda: "1 of 64" in (row(page, "X- ") or ""))
    gone.clear()
    wait("both again", lambda: "2 of 64" in (row(page, "X- ") or ""))


def test_links_of_this_machine_over_an_interval(site: Site) -> None:
    """`links live` reads twice, with the given interval, and reports the measured one."""
    words = ["links", "live", "--fabric", "torus:2x2", "--counters-of", "n0-0"]

    def summary(seconds: float) -> dict:
        command = [site.hopbyte, *words, "--interval", str(seconds), "--json"]
        started = time.monotonic()
        done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True)
        assert done.returncode == 0, done
        assert time.monotonic() - started >= seconds
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(lines) == 3 and all(line["received_bytes"] is not None for line in lines[:2])
        return lines[-1]["summary"]

    for seconds in (0.2, 0.6):
        window = summary(seconds)["window_seconds"]
        assert seconds <= window < seconds + 5, window


def test_watch_fits_the_terminal(site: Site) -> None:
    """On a terminal as under ssh: no line is wider and no page longer than it, and a resize takes effect at once."""
    site.gather("--period", "0.5", agent=["--period", "0.5"])
    wait("the node", lambda: site.last_tick()["reported"] == 1)
    terminal, side = pty.openpty()
    site.stack.callback(os.close, terminal)

    def resize(rows: int, columns: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    resize(3, 44)
    watch = subprocess.Popen([site.hopbyte, "watch", f"127.0.0.1:{site.collector}"], stdout=side)
    site.stack.callback(lambda: (watch.kill(), watch.wait()))
    os.close(side)
    seen = ""

    def page() -> list[str]:
        nonlocal seen
        seen += os.read(terminal, 65536).decode(errors="replace")
        whole = seen.split("\x1b[H")[1:-1]
        return whole[-1].replace("\x1b[K", "").replace("\x1b[J", "").split("\r\n") if whole else []

    def small() -> bool:
        lines = page()
        assert len(lines) <= 3 and all(len(line) <= 44 for line in lines), lines
        return len(lines) == 3 and "more lines" in lines[1]

    wait("a page of two lines", small)
    resize(24, 80)
    wait("a sparkline", lambda: any("\u2581" in line or "\u2588" in line for line in page()))
    assert all(len(line) <= 80 for line in page())


def test_links_blame_and_view_read_a_collector_and_its_store(site: Site, routers) -> None:  # noqa: ANN001
    """The newest tick of both, an earlier one of the store, and refusals with a reason."""
    files, _ = routers
    site.gather(agent=["--file", files["totals"]])
    collector, store = f"127.0.0.1:{site.collector}", site.folder / "store"

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in (site.hopbyte, "--json", *words, "--fabric", FABRIC)]
        return subprocess.run(command, capture_output=True, text=True, cwd=site.folder, timeout=100)

    def read(*words: object) -> list[dict]:
        done = run(*words)
        if done.returncode == 2 and "fewer than two ticks" in done.stderr:
            raise OSError("not yet")
        return [json.loads(line) for line in done.stdout.splitlines()]

    name = ["--name", "nid00000"]
    site.start(site.hopbyte, "agent", "--root", "/nonexistent", "--to", collector, *name, "--file", files["totals"])
    for source in (collector, store):
        rows = wait("a tick with the router", lambda s=source: [r for r in read("links", s) if r.get("coverage")])
        (link,) = [row for row in rows if row["received_bytes"]]
        assert abs(link["received_bytes"] / RATE - 1) < 0.5
        assert read("blame", source)[0]["links_read"] == 2
        assert run("view", source, "-o", "page.html").returncode == 0
        assert "1 of " in (site.folder / "page.html").read_text()

    ticks = [json.loads(line) for line in (site.folder / "ticks").read_text().splitlines()]
    early = run("links", store, "--at", ticks[0]["time_seconds"] - 100)
    assert early.returncode == 2 and "fewer than two ticks" in early.stderr
    (then,) = [row for row in read("links", store, "--at", ticks[-1]["time_seconds"]) if row.get("received_bytes")]
    assert then["link"] == link["link"]
    nobody = run("links", "127.0.0.1:1")
    assert nobody.returncode == 3 and "refused" in nobody.stderr
