"""The lab's links carry their rates, routes are the fabric's, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import namespaces, reading, totals
from program import hopbyte_binary

STREAM = str(Path(__file__).parent / "stream.py")
MBIT = 20
BYTES = 4_000_000
SHORT = 1_000_000


def rate(within, one, source: str, target: str, low: float, high: float) -> None:
    """A stream gets between two shares of the rate. It is short, since any processor contention spoils it."""
    bits = 8e-6 * SHORT / MBIT
    within(lambda: {target: bits / one.stream(source, target, SHORT)}, {target: (low, high)})


def test_a_stream_gets_the_rate_of_its_narrowest_link(lab, within):
    one = lab("torus:4x2:nodes=2", "--rate", f"{MBIT}mbit")
    # TCP over Ethernet carries at most 1448 of 1514 bytes of payload.
    rate(within, one, "n0-0-0", "n2-1-0", 0.85, 0.97)
    one.call("degrade", "r1-0 X+", "0.25", "--name", one.name)
    rate(within, one, "n0-0-0", "n2-1-0", 0.2, 0.25)
    # The reverse direction takes other links and keeps its rate.
    rate(within, one, "n2-1-0", "n0-0-0", 0.85, 0.97)


def test_bytes_are_counted_on_the_links_of_the_routes_and_nowhere_else(lab):
    one = lab("torus:4x4", "--rate", "100mbit")
    assert set(totals(one).values()) == {0}, "an idle lab is silent"
    one.stream("n0-0", "n1-1", BYTES)
    sent = totals(one)
    # Routers 0 (0,0), 4 (1,0), 5 (1,1), 1 (0,1); each has X+ X- Y+ Y- in this order.
    request = ["n0 eth0", "r0 l0", "r4 l18", "r5 n5"]
    response = ["n5 eth0", "r5 l21", "r1 l7", "r0 n0"]
    assert {name for name, count in sent.items() if count > 0} == {*request, *response}
    # Every frame of the stream crosses every link of the route, with its headers.
    assert len({sent[name] for name in request}) == 1
    assert len({sent[name] for name in response}) == 1
    assert BYTES * 1514 / 1448 <= sent[request[0]] < BYTES * 1514 / 1448 + 200 * 1514
    rows = one.counters(0.5)
    assert set(rows) >= {"n0-0->r0-0 host", "r0-0 X+", "r1-0 Y+", "r1-1->n1-1 host"}


def test_every_byte_of_every_frame_is_counted(lab):
    """Datagrams have no acknowledgements: a frame is its payload, 8 bytes of UDP, 20 of IP and 14 of Ethernet."""
    one = lab("torus:4x4", "--rate", "100mbit")
    words = [str(one.binary), "lab", "run", "--name", one.name, "--on", "n1-1", "--", "python3", STREAM, "hole"]
    hole = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hole.stdout is not None and hole.stdout.readline() == "ready\n"
    expected = 0
    for size, count in ((1000, 50), (1, 20), (1472, 10)):
        one.call("run", "--name", one.name, "--on", "n0-0", "--", "python3", STREAM, "frames", "n1-1", size, count)
        expected += count * (size + 8 + 20 + 14)
        counted = dict.fromkeys(["n0 eth0", "r0 l0", "r4 l18", "r5 n5"], expected)

        def sent() -> dict[str, int]:
            return {name: count for name, count in totals(one).items() if count}

        # The last ones may still be in flight.
        assert reading(sent, lambda sent, counted=counted: sent == counted, 10) == counted
    hole.communicate(timeout=120)


def test_counters_show_a_busy_link(lab, within, tmp_path):
    one = lab("torus:4x2:nodes=1", "--rate", f"{MBIT}mbit")
    # More than the link's rate, so it never idles: its queue of 0.4 s outlasts the pauses of a sender that waits for a
    # processor. A socket buffer fills 0.06 s of it, hence eight sockets.
    one.call("background", "start", *["n0-0:n1-0"] * 8, "--rate", f"{MBIT}mbit", "--name", one.name)
    path = tmp_path / "links.json"

    def links() -> dict[str, float]:
        one.call("counters", "--name", one.name, "--interval", "1", "-o", path)
        command = [str(one.binary), "links", str(path), "--fabric", "torus:4x2:nodes=1", "--json"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        *rows, last = map(json.loads, text.splitlines())
        assert last["summary"]["matched"] > 0 and last["summary"]["unmatched"] == 0
        stalled = {row["link"]: row["credit_stall_ratio"] for row in rows}
        # The backlog at the network's entry is visible.
        return {row["link"]: row["used_ratio"] for row in rows} | {"waits": stalled["n0-0->r0-0 host"]}

    within(links, {"r0-0 X+": (0.9, 1.05), "r0-0 X-": (0, 0.1), "waits": (0.5, 1)})


def test_streams_keep_their_rate_beside_others_until_they_are_stopped(lab, within):
    """The background takes half of every link of a route, and a connection that shares a link gets the rest."""
    one = lab("torus:4x2", "--rate", f"{MBIT}mbit")
    named = ["--name", one.name]
    one.call("background", "start", "n0-0:n2-1", "--share", "0.5", *named)
    one.call("background", "start", "n0-1:n1-1", "n3-1:n3-0", "--rate", "2mbit", *named)
    listed = [json.loads(line) for line in one.call("background", "list", *named, "--json").splitlines()]
    assert [(s["from"], s["to"], s["bits_per_second"], s["sends"]) for s in listed] == [
        ("n0-0", "n2-1", 0.5e6 * MBIT, True), ("n0-1", "n1-1", 2e6, True), ("n3-1", "n3-0", 2e6, True)]  # fmt: skip
    half = {"n0-0->r0-0 host", "r0-0 X+", "r1-0 X+", "r2-0 Y+", "r2-1->n2-1 host"}

    def shares() -> dict[str, float]:
        used = {name: row["used_ratio"] for name, row in one.counters(1).items() if row["sent_bytes"]}
        assert half <= set(used) and len(used) == len(half) + 6, used
        return used

    others = set(shares()) - half
    within(shares, dict.fromkeys(half, (0.45, 0.55)) | dict.fromkeys(others, (0.07, 0.13)))
    # A connection over its middle link gets the other half.
    rate(within, one, "n1-0", "n2-0", 0.3, 0.6)
    one.call("background", "stop", *named)
    one.call("background", "stop", *named, ok=(1,))
    assert not one.call("background", "list", *named, "--json")
    # Queues of 400 ms and the ends of the connections drain first.
    windows = (sum(row["sent_bytes"] for row in one.counters(0.5).values()) for _ in range(10))
    assert any(sent == 0 for sent in windows)
    for words, message in [(["n0-0"], "two nodes"), (["n0-0:n9-9"], "n9-9"), (["n0-0:n0-0"], "to itself"),
                           (["n0-0:n1-0", "--share", "1.5"], "at most 1"),
                           (["n0-0:n1-0", "--rate", "x"], "50mbit")]:  # fmt: skip
        refused = [str(one.binary), "lab", "background", "start", *words, *named]
        done = subprocess.run(refused, check=False, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
    # Streams that were not stopped end with the lab.
    one.call("background", "start", "n0-0:n2-1", *named)
    one.call("down", one.name)
    deadline = time.monotonic() + 60
    while senders(one.name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not senders(one.name)


def senders(name: str) -> list[str]:
    command = ["pgrep", "-f", f"background send --name {name} "]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return listed.stdout.split()


def test_links_and_injection_are_detuned_to_a_share(lab, within):
    """Paper 001's operating points: streams above the rate use the remaining bandwidth, and nothing else changes."""
    one = lab("torus:2x2", "--rate", f"{MBIT}mbit")
    named = ["--name", one.name]
    one.call("background", "start", *["n0-0:n1-1"] * 8, "--rate", f"{MBIT}mbit", *named)
    host, cable = "n0-0->r0-0 host", "r0-0 X+"
    # Rates increase, and broken links come last: the backlog of a repaired link would remain visible for a while.
    for links, injection in [(1, 0.25), (1, 0.5), (1, 0.75), (0.25, 1), (0.5, 1), (0.75, 1)]:
        one.call("detune", "--links", links, "--injection", injection, *named)
        time.sleep(0.1)
        shares = {host: injection, cable: min(links, injection)}
        bounds = {name: (share - 0.08, share + 0.08) for name, share in shares.items()}
        within(lambda: {name: row["used_ratio"] for name, row in one.counters(0.4).items()}, bounds)


def test_a_cut_cable_is_routed_round(lab, within):
    one = lab("torus:4x2", "--rate", f"{MBIT}mbit")
    one.call("cut", "r0-0 X+", "--name", one.name)
    rate(within, one, "n0-0", "n1-0", 0.8, 0.97)


def test_a_killed_builder_leaves_a_lab_that_down_removes(lab):
    name = f"k{os.getpid() % 10_000_000}"
    command = [str(hopbyte_binary()), "lab", "up", "torus:6x6", "--name", name]
    builder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not namespaces(name) and time.monotonic() < deadline:
        time.sleep(0.01)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert namespaces(name)
    listed = subprocess.run([command[0], "lab", "list"], check=True, capture_output=True, text=True)
    assert name in listed.stdout.split() and f"lab '{name}' is half-built" in listed.stderr
    used = subprocess.run(
        [command[0], "lab", "counters", "--name", name], check=False, capture_output=True, text=True
    )
    assert used.returncode == 2 and "half-built" in used.stderr
    subprocess.run([command[0], "lab", "down", name], check=True, capture_output=True)
    assert not namespaces(name)


def test_bad_input_is_refused_before_anything_is_built(lab):
    one = lab("torus:2x2")
    for words, message in [
        (["up", "torus:2x2", "--name", one.name], "up already"),
        (["up", "torus:2x2", "--name", "Bad_Name"], "lower-case"),
        (["up", "torus:2x2", "--rate", "50mbyte"], "50mbit"),
        (["up", "cielo", "--name", "big"], "at most"),
        (["degrade", "r0-0 X+", "0", "--name", one.name], "above 0"),
        (["run", "--name", "absent", "--", "true"], "no lab"),
    ]:
        done = subprocess.run(
            [str(one.binary), "lab", *words], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
    assert not namespaces("big")


NOBODY = ["setpriv", "--reuid", "nobody", "--clear-groups"]
OWN_SPACE = [*NOBODY, "unshare", "--user", "--map-root-user", "--net", "--mount"]


@pytest.mark.skipif(
    subprocess.run([*OWN_SPACE, "true"], check=False, capture_output=True).returncode != 0,
    reason="this kernel lets only root make user namespaces",
)
def test_somebody_without_rights_has_a_lab_in_a_namespace_of_his_own():
    """The hint's commands: build, use and remove a lab, with nothing visible outside the namespace."""
    # A world-readable Python, since a virtual environment may not be, and the rest in a world-accessible folder, since
    # the checkout may not be.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        hopbyte, stream = (shutil.copy(file, folder) for file in (hopbyte_binary(), STREAM))
        lab = f"{hopbyte} --quiet lab"
        script = f"""set -e
            mount -t tmpfs tmpfs /run
            {lab} up torus:2x2 --name own --rate 50mbit
            {lab} run --name own --on n1-1 -- {python} {stream} sink &
            {lab} run --name own --on n0-0 -- {python} {stream} send n1-1 200000
            wait
            {lab} down own"""
        command = [*OWN_SPACE, "sh", "-c", script]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.split()[0] == "200000", done.stderr
    assert not namespaces("own")


@pytest.mark.parametrize("user", ["nobody"])
def test_without_rights_it_says_so_first(user):
    done = subprocess.run(
        [
            "setpriv",
            "--reuid",
            user,
            "--clear-groups",
            str(hopbyte_binary()),
            "lab",
            "up",
            "torus:2x2",
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and "root" in done.stderr, done.stderr
