"""Hosts with several ports in the lab: which port bytes leave by, and times of real processes against the model's."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from conftest import Lab, totals
from program import hopbyte_binary

RANKS = str(Path(__file__).parent / "ranks.py")
STREAM = str(Path(__file__).parent / "stream.py")
# The fabric's capacities are the lab's rates, so that the model's times are the lab's.
RATE = "10mbit"
# Bytes of a frame for those of its payload: the lab's calibration (docs/src/lab.md). Nothing is fitted.
FRAMES = 1514 / 1448
# Four hosts of four GPUs, each with its own port; two hosts on every leaf, and one up-link.
NETWORK = "fattree:down=2x8,up=1x1,rails=4,link=0.00125"
RAILS = f"{NETWORK},hosts=gh200-quad"
# gpu-rails (DGX H100, eight rails) at the size of a lab.
DGX = "fattree:down=2x16,up=1x1,rails=8,link=0.00125,hosts=dgx-h100"
# All orders and sizes: five minutes, `make test-lab-full`. A sample otherwise.
FULL = os.environ.get("HOPBYTE_LAB_FULL") == "1"


@dataclass
class Case:
    """A collective of one process on each of some places."""

    order: str
    pattern: str
    size: int
    places: list[str]
    predicted: float = 0.0
    measured: float = 0.0


def answer(*words: object) -> dict:
    """The JSON of a verb."""
    command = [str(hopbyte_binary()), "--json", *(str(w) for w in words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def places(fabric: str) -> list[str]:
    """All places, host by host."""
    found = answer("map", "stencil:2:3:1", "--fabric", fabric, "--nodes", "all", "--trials", "0")
    return [entry["node"] for entry in found["allocation"]]


def predicted(fabric: str, case: Case, folder: Path) -> float:
    """The model's time: flows that share links, with the lab's frames."""
    ranks = len(case.places)
    work = {
        "ring": f"workload.recorded = {{ traffic = 'collective:allreduce:{ranks}:{case.size}:ring' }}",
        "all-to-all": f"workload.all-to-all = {{ ranks = {ranks}, bytes = {case.size}, rounds_apart = true }}",
    }[case.pattern]
    scenario = folder / "scenario.toml"
    scenario.write_text(
        f"schema = 'hopbyte.scenario/1'\nname = '{case.pattern}'\nfabric = '{fabric}'\n"
        "network = 'plain'\nlevel = 'fluid'\n"
        f"parameters.protocol.plain.wire_bytes_per_byte = {FRAMES}\n"
        f"[job]\nnodes = 'all'\nplacement = {{ nodes = {json.dumps(case.places)} }}\n{work}\n"
    )
    return answer("model", "run", scenario)["time_seconds"]


def seats(one: Lab) -> dict[str, list[str]]:
    """Of every place by name: address, namespace, host and interface."""
    lines = Path(f"/run/hopbyte-lab/{one.name}/places").read_text().splitlines()
    return {name: [address, *rest] for address, name, *rest in map(str.split, lines)}


def measured(one: Lab, case: Case, folder: Path) -> float:
    """Time until the last rank has ended."""
    folder.mkdir()
    of = seats(one)
    at = [of[place.replace(" ", "-")] for place in case.places]
    common = {"pattern": case.pattern, "bytes": case.size, "folder": str(folder), "addresses": [s[0] for s in at]}
    (folder / "common.json").write_text(json.dumps(common))
    words = [sys.executable, RANKS, str(folder / "common.json")]
    ranks = [
        subprocess.Popen(["ip", "netns", "exec", space, *words, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank, (_, space, *_) in enumerate(at)
    ]
    deadline = time.monotonic() + 120
    while len(list(folder.glob("ready*"))) < len(ranks):
        assert time.monotonic() < deadline and all(r.poll() is None for r in ranks), "a rank did not connect"
        time.sleep(0.02)
    draft = folder / "draft"
    draft.write_text(str(time.monotonic() + 0.3))
    draft.rename(folder / "start")
    return max(float(rank.communicate(timeout=240)[0]) for rank in ranks)


def compared(one: Lab, fabric: str, cases: list[Case], folder: Path) -> list[Case]:
    """Predicts all cases, stores that, and only then runs them."""
    for case in cases:
        case.predicted = predicted(fabric, case, folder)
    (folder / "predicted.json").write_text(json.dumps([asdict(case) for case in cases]))
    for number, case in enumerate(cases):
        case.measured = measured(one, case, folder / str(number))
        ratio = case.measured / case.predicted
        print(
            f"{fabric} | {case.order} | {case.pattern} | {case.size} | {case.predicted:.3f} | {case.measured:.3f}"
            f" | {ratio:.3f}"
        )
    return cases


def orders(fabric: str, seeds: list[int]) -> dict[str, list[str]]:
    """The places in order, and shuffled."""
    all_places = places(fabric)
    found = {"in order": all_places}
    for seed in seeds:
        found[f"shuffled by {seed}"] = random.Random(seed).sample(all_places, len(all_places))
    return found


def off(cases: list[Case]) -> float:
    return statistics.median(abs(case.measured / case.predicted - 1) for case in cases)


@pytest.mark.parametrize("rule", ["rail", "nearest"])
def test_bytes_leave_by_the_port_of_the_rule_and_stay_inside_otherwise(lab, rule):
    """GPU 1 of a host to GPU 3 of another: by the target's rail, or by the port of each."""
    one = lab(f"{RAILS}/{rule}", "--rate", "100mbit")
    of = seats(one)
    listening = one.start("h2-r3", sys.executable, STREAM, "sink")
    send = "import os, sys; sys.argv[1:] = ['send', 'h2-r3', '400000']; exec(open(os.environ['STREAM']).read())"
    bound = (
        "import socket\nplain = socket.create_connection\n"
        "own = (os.environ['HOPBYTE_LAB_ADDRESS'], 0)\n"
        "socket.create_connection = lambda to, **k: plain(to, source_address=own, **k)\n"
    )
    code = f"import os\n{bound}{send}"
    done = one.start("h0-r1", "env", f"STREAM={STREAM}", sys.executable, "-c", code)
    listening.communicate(timeout=60)
    assert done.wait(timeout=60) == 0
    sent = {name for name, count in totals(one).items() if count > 50_000 and name.startswith("n")}
    port = {"rail": of["h0-r3"], "nearest": of["h0-r1"]}[rule]
    assert sent == {f"{port[1].removeprefix(one.name + '-')} {port[3]}"}
    # Between GPUs of a host nothing is shaped or counted.
    before = totals(one)
    seconds = one.stream("h0-r2", "h0-r0", 20_000_000)
    assert totals(one) == before and 20e6 / seconds > 10 * 100e6 / 8


def test_ring_and_all_to_all_of_real_processes_take_the_predicted_time(lab, tmp_path):
    one = lab(RAILS, "--rate", RATE)
    cases = [
        Case(order, pattern, size, seated)
        for order, seated in orders(RAILS, [1, 2, 3] if FULL else [1]).items()
        for pattern, sizes in (("ring", [320_000, 960_000]), ("all-to-all", [40_000, 120_000]))
        for size in (sizes if FULL else sizes[:1])
    ]
    found = compared(one, RAILS, cases, tmp_path)
    for pattern in ("ring", "all-to-all"):
        assert off([case for case in found if case.pattern == pattern]) < 0.15


@pytest.mark.skipif(not FULL, reason="two minutes: make test-lab-full")
def test_eight_rails_and_shared_ports_take_the_predicted_time(lab, tmp_path):
    """DGX H100 with eight ports; GPUs behind PCIe that share four ports, described by a file."""
    shared = tmp_path / "pcie.json"
    convert = [hopbyte_binary(), "--quiet", "fabric", "convert", NETWORK, "--hosts", "pcie-gpus", "-o", shared]
    subprocess.run(convert, check=True)
    for fabric in (DGX, str(shared)):
        one = lab(fabric, "--rate", RATE)
        cases = [
            Case(order, pattern, size, seated)
            for order, seated in orders(fabric, [4]).items()
            for pattern, size in (("ring", 640_000), ("all-to-all", 120_000))
        ]
        folder = tmp_path / one.name
        folder.mkdir()
        assert off(compared(one, fabric, cases, folder)) < 0.15
        one.call("down", one.name)


def test_hosts_that_a_lab_cannot_stand_for_are_refused(lab):
    one = lab("torus:2x2")
    for fabric, message in [
        (f"{RAILS}/striped", "striped"),
        ("fattree:down=18x4,up=1x1,rails=4,link=0.00125,hosts=gb200-nvl72", "joined by links inside"),
    ]:
        words = [one.binary, "lab", "up", fabric, "--name", "none"]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_degraded_detuned_and_refused_links_of_hosts(lab, within):
    one = lab(RAILS, "--rate", "20mbit")
    named = ["--name", one.name]
    one.call("degrade", "h0-r1", "0.5", *named)
    one.call("background", "start", *["h0-r1:h1-r1"] * 4, "--rate", "20mbit", *named)

    def used() -> dict[str, float]:
        return {name: row["used_ratio"] for name, row in one.counters(0.5).items()}

    within(used, {"h0-r1->leaf1 host": (0.42, 0.58), "h0-r0->leaf0 host": (0, 0.01)})
    one.call("background", "stop", *named)
    one.call("detune", "--links", "0.5", "--injection", "0.5", *named)
    for words, message in [
        (["degrade", "h0-r0->h0-r1 NVLink", "0.5"], "inside a host"),
        (["background", "start", "h0-r0:h0-r1"], "inside h0"),
        (["run", "--on", "h9-r9", "--", "true"], "h9-r9"),
    ]:  # fmt: skip
        command = [str(one.binary), "lab", *words[:1], *named, *words[1:]]
        if words[0] == "background":
            command = [str(one.binary), "lab", *words, *named]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
    assert one.call("run", *named, "--on", "h3", "--", "hostname") == "h3\n"
