#!/usr/bin/env python3
"""Cost of two or more builds of the agent, in turns: the same interfaces, the same peer, one agent at a time.

The peer is a small server in this process that welcomes any version of the protocol, so that an earlier build
needs no collector of its own. An agent reads the 14 interfaces of a network namespace over netlink (needs root),
alone or with 60 files of counters beside them, and reports every 100 ms by TCP, UDP or TLS. Printed are the
median and quartiles of its processor time a tick (/proc/PID/task/*/schedstat), and the median of the ratios of
neighbouring runs: a machine that is shared changes its speed slowly. --strace counts system calls instead.

    bench/agent/pair.py NAME=FILE [NAME=FILE…] [--rounds 10] [--seconds 5] [--ways tcp,udp,tls] [--strace]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ldms  # noqa: E402
from agent.run import certificate, ip  # noqa: E402

SPACE = "hopbyte-pair-agent"
PERIOD_NS = 100_000_000
FILES = 60


def frame(kind: bytes, body: bytes) -> bytes:
    """A frame of the protocol."""
    return struct.pack("<I", 1 + len(body)) + kind + body


def talk(stream: socket.socket) -> None:
    """Welcomes an agent, and acknowledges all its reports every eighth of them."""
    came, reports = b"", 0
    with stream:
        while True:
            more = stream.recv(1 << 16)
            if not more:
                return
            came += more
            if came.startswith(b"hopb"):
                if len(came) < 6:
                    continue
                came = came[6:]
            while len(came) >= 4 and len(came) >= (whole := 4 + struct.unpack_from("<I", came)[0]):
                kind, came = came[4:5], came[whole:]
                if kind == b"H":
                    stream.sendall(frame(b"W", bytes(8)))
                reports += kind == b"R"
                if kind == b"R" and reports % 8 == 0:
                    stream.sendall(frame(b"A", struct.pack("<Q", reports)))


def serve(space: str, ways: list[str], certificate_of: str) -> dict[str, int]:
    """Starts the peers in the namespace; returns their ports."""
    with open(f"/var/run/netns/{space}") as there, open("/proc/self/ns/net") as here:
        libc_setns(there.fileno())
        tcp, tls = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        libc_setns(here.fileno())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate_of}/cert.pem", f"{certificate_of}/key.pem")

    def accept(server: socket.socket, secured: bool) -> None:
        while True:
            stream, _ = server.accept()
            if secured:
                stream = context.wrap_socket(stream, server_side=True)
            threading.Thread(target=talk, args=(stream,), daemon=True).start()

    def packets() -> None:
        greeted = set()
        while True:
            _, peer = udp.recvfrom(1 << 16)
            # A hello is answered once with a challenge; earlier versions expect none and ignore it.
            if peer not in greeted:
                greeted.add(peer)
                udp.sendto(frame(b"C", bytes(24)), peer)

    jobs = [(accept, (tcp, False)), (accept, (tls, True)), (packets, ())]
    for job, arguments in jobs:
        threading.Thread(target=job, args=arguments, daemon=True).start()
    ports = {"tcp": tcp, "tls": tls, "udp": udp}
    return {way: ports[way].getsockname()[1] for way in ways}


def libc_setns(descriptor: int) -> None:
    """setns(2), which Python has since 3.12."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def run(agent: str, way: str, port: int, files: list[str], folder: str, seconds: float, strace: bool) -> object:
    """µs of processor time a tick, or the system calls a tick."""
    address = f"127.0.0.1:{port}"
    options = {
        "version": "0.1.0",
        "node": "n1",
        "to": {"Udp" if way == "udp" else "Tcp": address},
        "token": None,
        "tls_ca": f"{folder}/cert.pem" if way == "tls" else None,
        "period_ns": PERIOD_NS,
        "keep": 600,
        "root": None,
        "interfaces": [],
        "files": files,
        "ticks": None,
        "json": False,
        "quiet": True,
    }
    # Earlier versions refuse options that they do not know.
    if b"fabric_wide" in Path(agent).read_bytes():
        options["fabric_wide"] = False
    env = os.environ | {"HOPBYTE_AGENT_OPTIONS": json.dumps(options)}
    process = subprocess.Popen(["ip", "netns", "exec", SPACE, agent], env=env)
    try:
        time.sleep(1.5)
        if strace:
            counted = subprocess.run(
                ["timeout", "-s", "INT", str(seconds), "strace", "-c", "-f", "-p", str(process.pid)],
                capture_output=True,
                text=True,
            ).stderr
            rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ )? *(\w+)$", counted, re.M)
            ticks = seconds * 1e9 / PERIOD_NS
            return {name: round(int(n) / ticks, 2) for n, name in rows if name != "total"}
        before, began = ldms.cpu_ns(process.pid), time.monotonic()
        time.sleep(seconds)
        spent, ticks = ldms.cpu_ns(process.pid) - before, (time.monotonic() - began) * 1e9 / PERIOD_NS
        if process.poll() is not None:
            sys.exit(f"{agent} ended with status {process.returncode}")
        return spent / 1e3 / ticks
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--ways", default="tcp,udp,tls")
    parser.add_argument("--strace", action="store_true")
    options = parser.parse_args()
    builds = dict(build.split("=", 1) for build in options.builds)
    ways = options.ways.split(",")
    subprocess.run(["ip", "netns", "del", SPACE], stderr=subprocess.DEVNULL, check=False)
    ip("netns", "add", SPACE)
    try:
        ip("-n", SPACE, "link", "set", "lo", "up")
        for i in range(7):
            ip("-n", SPACE, "link", "add", f"a{i}", "type", "veth", "peer", "name", f"b{i}")
            for end in "ab":
                ip("-n", SPACE, "link", "set", f"{end}{i}", "up")
        with tempfile.TemporaryDirectory() as folder:
            certificate(folder)
            files = []
            for i in range(FILES):
                name = f"{folder}/n1.{i}.prom"
                metric = "node_network_receive_bytes"
                text = f'# TYPE {metric} counter\n{metric}_total{{device="x{i}"}} 1000\n# EOF\n'
                Path(name).write_text(text)
                files.append(name)
            ports = serve(SPACE, ways, folder)
            for way in ways:
                for more in ([], files):
                    compare(builds, way, ports[way], more, folder, options)
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=False)


def compare(
    builds: dict[str, str], way: str, port: int, files: list[str], folder: str, options: argparse.Namespace
) -> None:
    """All builds in turns by one way."""
    found: dict[str, list[float]] = {name: [] for name in builds}
    what = f"{way}, {1 + len(files)} sources"
    names = list(builds)
    if options.strace:
        for name in names:
            print(f"{what}, {name}:", run(builds[name], way, port, files, folder, options.seconds, True), flush=True)
        return
    for at in range(options.rounds):
        for name in names if at % 2 == 0 else names[::-1]:
            cost = run(builds[name], way, port, files, folder, options.seconds, False)
            assert isinstance(cost, float)
            found[name].append(cost)
    first = found[names[0]]
    for name in names:
        low, middle, high = statistics.quantiles(found[name], n=4, method="inclusive")
        ratio = statistics.median(now / then for now, then in zip(found[name], first, strict=True))
        spread = f"{low:.1f} to {high:.1f}, least {min(found[name]):.1f}"
        print(f"{what}, {name}: {middle:.1f} us a tick ({spread}), {ratio:.3f} of {names[0]}", flush=True)


if __name__ == "__main__":
    main()
