"""hopbyte-probe: structure, counts and checked payloads of every verb. Timings are never asserted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from launch import ALL, BOTH, MPICH, OMPI, Mpi, run, scaled

FIXED = ["--iterations", "3", "--trials", "2", "--budget", "0", "--warmup", "1"]
SIZES = [8, 3001]
SUMMARY = {"median_seconds", "low_seconds", "high_seconds", "confidence", "least_seconds", "most_seconds", "trials"}
OPERATIONS = 3 * 2  # iterations times timed trials


def probe(mpi: Mpi, ranks: int, verb: str, *options: object) -> list[dict[str, Any]]:
    """The records of a run, without the first line (program, MPI, nodes)."""
    first, *records = run(mpi, ranks, "hopbyte-probe", verb, *options, "--json").ok().records()
    assert first["schema"] == "hopbyte-probe-1"
    assert first["run"]["probe"] == verb and first["run"]["ranks"] == ranks == len(first["run"]["nodes"])
    assert ("Open MPI v4" if mpi.is_ompi else "MPICH Version: 5") in first["run"]["mpi"]
    for record in records:
        assert (record["schema"], record["probe"], record["ranks"]) == ("hopbyte-probe-1", verb, ranks)
        assert record["wrong_bytes"] == 0
        if "trials" in record:
            assert record.keys() >= SUMMARY
            assert 0 < record["least_seconds"] <= record["low_seconds"] <= record["median_seconds"]
            assert record["median_seconds"] <= record["high_seconds"] <= record["most_seconds"]
            assert record["trials"] == 2 and record["confidence"] == 0.5
    return records


def sizes(*bytes_: int) -> list[str]:
    return ["--bytes", ",".join(map(str, bytes_))]


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("verb", "pairs"), [("latency", 1), ("multi-latency", 2)])
def test_latency(mpi: Mpi, verb: str, pairs: int) -> None:
    records = probe(mpi, 5, verb, *sizes(*SIZES), *FIXED)
    assert [(r["bytes"], r["pairs"], r["iterations"]) for r in records] == [(b, pairs, 3) for b in SIZES]
    for r in records:
        assert r["messages"] == 2 * OPERATIONS * pairs
        assert r["sent_bytes"] == r["messages"] * r["bytes"]
        assert r["checked_bytes"] == 2 * 2 * pairs * r["bytes"]  # trials, ends
        assert r["slowest_pair_seconds"] >= r["median_seconds"] * (1 - 1e-9)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("verb", "directions"), [("bandwidth", 1), ("bidirectional", 2)])
def test_bandwidth(mpi: Mpi, verb: str, directions: int) -> None:
    for r in probe(mpi, 4, verb, *sizes(*SIZES), *FIXED, "--window", 5, "--pairs", 2, "--nap", 10):
        assert r["messages"] == OPERATIONS * 5 * 2 * directions
        assert r["checked_bytes"] == 2 * 5 * 2 * directions * r["bytes"]
        assert r["bytes_per_second"] == pytest.approx(5 * 2 * directions * r["bytes"] / r["median_seconds"], rel=1e-6)
        assert r["messages_per_second"] == pytest.approx(r["bytes_per_second"] / r["bytes"], rel=1e-6)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("pattern", ["single", "pairs", "prepost", "allstart"])
def test_rate(mpi: Mpi, pattern: str) -> None:
    for r in probe(mpi, 5, "rate", *sizes(8, 64), *FIXED, "--window", 4, "--peers", 3, "--pattern", pattern):
        streams = 2 if pattern == "single" else 5 * 3
        assert r["pattern"] == pattern
        assert r["messages"] == OPERATIONS * 4 * streams
        assert r["checked_bytes"] == 2 * 4 * streams * r["bytes"]
        assert r["messages_per_second"] == pytest.approx(4 * streams / r["median_seconds"], rel=1e-6)


def test_a_small_job_sends_to_all_others() -> None:
    [r] = probe(OMPI, 3, "rate", *sizes(8), *FIXED, "--window", 4, "--pattern", "prepost")
    assert r["peers"] == 2 and r["messages"] == OPERATIONS * 4 * 3 * 2


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("verb", "blocks"), [("bcast", 1), ("alltoall", 5), ("allreduce", 1)])
def test_collectives(mpi: Mpi, verb: str, blocks: int) -> None:
    records = probe(mpi, 5, verb, *sizes(8, 4096), *FIXED)
    assert [r["bytes"] for r in records] == [8, 4096]
    for r in records:
        assert r["checked_bytes"] == 2 * 5 * blocks * r["bytes"]
        assert r["mean_rank_seconds"] <= r["median_seconds"] * (1 + 1e-9)


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize("transport", ["messages", "notified"])
def test_threads(mpi: Mpi, transport: str) -> None:
    options = ["--threads", 3, "--pairs", 2, "--transport", transport]
    for r in probe(mpi, 4, "threads", *sizes(*SIZES), *FIXED, *options):
        assert (r["threads"], r["pairs"], r["transport"]) == (3, 2, transport)
        assert r["messages"] == 2 * OPERATIONS * 3 * 2
        assert r["checked_bytes"] == 2 * 2 * 3 * 2 * r["bytes"]
        assert 1 / 3 <= r["jain_index"] <= 1 + 1e-9
        assert 0 < r["finish_ratio"] <= 1


def test_locks() -> None:
    """No lost update, at every number of threads, for every lock; more than one rank is refused."""
    records = probe(OMPI, 1, "locks", "--threads", 3, "--seconds", 0.05)
    assert [(r["threads"], r["lock"]) for r in records] == [
        (threads, lock) for threads in (1, 2, 3) for lock in ("pthread", "ticket", "mcs", "fair")
    ]
    for r in records:
        assert r["acquisitions"] > 0 and r["checked_bytes"] == 8
        assert 0 <= r["slowest_over_fastest"] <= 1 and 0 < r["jain_index"] <= 1 + 1e-9
    refused = run(OMPI, 2, "hopbyte-probe", "locks")
    assert refused.code == 2 and "found 2 ranks, expected 1" in refused.err


@pytest.mark.parametrize("mpi", ALL, ids=lambda m: m.flavour)
@pytest.mark.parametrize("threads", [1, 3])
def test_rma(mpi: Mpi, threads: int) -> None:
    records = probe(mpi, 4, "rma", *sizes(*SIZES), *FIXED, "--threads", threads, "--window", 4, "--pairs", 2)
    assert [(r["operation"], r["bytes"]) for r in records] == [(o, b) for o in ("put", "get") for b in SIZES]
    for r in records:
        assert r["messages"] == OPERATIONS * 4 * threads * 2
        assert r["checked_bytes"] == 2 * 4 * threads * 2 * r["bytes"]
        assert r["operations_per_second"] == pytest.approx(4 * threads * 2 / r["median_seconds"], rel=1e-6)
    only = probe(mpi, 2, "rma", *sizes(8), *FIXED, "--operation", "get")
    assert [r["operation"] for r in only] == ["get"]


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize(("victim", "timers"), [("latency", 1), ("bandwidth", 1), ("allreduce", 3)])
def test_congestion(mpi: Mpi, victim: str, timers: int) -> None:
    """Three victims of six, of which one pair (or all, for the collective) measures."""
    records = probe(mpi, 6, "congestion", "--bytes", 64, "--victim", victim, "--victims", "0,2-3", "--samples", 7,
                    "--rounds", 3, "--window", 3, "--background-bytes", 5000)
    alone, loaded, slowdown = records
    assert [r["state"] for r in records] == ["alone", "loaded", "slowdown"]
    for r in (alone, loaded):
        assert r["samples"] == 7 * 3 * timers
        assert 0 < r["median_seconds"] <= r["p90_seconds"] <= r["p99_seconds"] <= r["p99_9_seconds"]
        assert r["p99_9_seconds"] <= r["most_seconds"]
    assert alone["checked_bytes"] == {"latency": 2, "bandwidth": 3, "allreduce": 3}[victim] * 64 * 3 * 2
    assert slowdown["median_ratio"] == pytest.approx(loaded["median_seconds"] / alone["median_seconds"], rel=1e-6)
    assert slowdown["round_low_ratio"] <= slowdown["round_high_ratio"]
    rounds, rest = divmod(slowdown["background_bytes"], 3 * 2 * 5000)
    assert rounds >= 3 * 2 and rest == 0  # three ranks to two others each, twice per round before the victims start


@pytest.mark.parametrize(("pattern", "messages"), [("alltoall", 4 * 3), ("incast", 3), ("pairs", 4)])
def test_background(pattern: str, messages: int) -> None:
    (r,) = probe(OMPI, 4, "background", "--background", pattern, "--background-bytes", 1000, "--seconds", 0.2)
    assert r["seconds"] >= 0.2
    assert r["background_bytes"] > 0 and r["background_bytes"] % (messages * 1000) == 0
    assert r["background_bytes_per_second"] == pytest.approx(r["background_bytes"] / r["seconds"], rel=1e-6)


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
def test_calibrate(mpi: Mpi) -> None:
    """Every measurement once, every rank as the partner of rank 0, and an eager limit that is that of the library."""
    first, *records = run(mpi, 4, "hopbyte-probe", "calibrate", "--json").ok().records()
    assert len(first["run"]["nodes"]) == 4
    found = [(r["probe"], r.get("pairs"), r.get("partner")) for r in records]
    assert found == [
        ("latency", 1, None), *[("latency", 1, rank) for rank in (1, 2, 3)], ("rate", 1, None), ("rate", 2, None),
        ("bandwidth", 1, None), ("bandwidth", 2, None), ("allreduce", None, None), ("eager", None, None),
        ("progress", None, None),
    ]  # fmt: skip
    assert all(r["wrong_bytes"] == 0 for r in records)
    eager, progress = records[-2:]
    assert (eager["at_least"], 0 <= eager["bytes"] < 1 << 24) == (0, True)
    if mpi.is_ompi:  # less than a header below the limit of shared memory, 4,096 bytes
        assert 3_900 < eager["bytes"] <= 4_096
        assert progress["bytes"] == 4 * 16_384
    assert progress["waited_seconds"] > 0 and progress["waited_after_seconds"] > 0


def test_trials_go_on_until_narrow() -> None:
    """A wide interval causes more trials, up to the budget; a generous precision stops at the minimum."""
    _, eager = run(OMPI, 2, "hopbyte-probe", "latency", "--bytes", 8, "--iterations", 5, "--trials", 6, "--budget",
                   scaled(0.3), "--precision", 0, "--json").ok().records()
    assert eager["trials"] > 6 and eager["confidence"] >= 0.95
    _, content = run(OMPI, 2, "hopbyte-probe", "latency", "--bytes", 8, "--iterations", 5, "--trials", 6, "--budget",
                     60, "--precision", 1000000, "--json").ok().records()
    assert content["trials"] == 6


def test_table_has_the_figures_of_json() -> None:
    out = run(OMPI, 4, "hopbyte-probe", "rma", *sizes(8, 64), *FIXED).ok().out.splitlines()
    assert out[0].startswith("# hopbyte-probe rma, Open MPI v4.1.4, 4 ranks")
    columns = re.split(r"\s{2,}", out[1].lstrip("# ").strip())
    assert columns == ["bytes", "operation", "threads", "window", "median us", "low us", "high us", "trials",
                       "operations/s", "MB/s", "wrong bytes"]
    assert [line.split()[:2] for line in out[2:]] == [["8", "put"], ["64", "put"], ["8", "get"], ["64", "get"]]
    assert all(len(line.split()) == len(columns) for line in out[2:])


@pytest.mark.parametrize("mpi", BOTH, ids=lambda m: m.flavour)
@pytest.mark.parametrize("verb", ["latency", "multi-latency", "bandwidth", "bidirectional", "rate", "bcast", "alltoall",
                                  "allreduce", "threads", "threads --transport notified", "rma --operation put",
                                  "rma --operation get", "congestion --victim latency --victims 0,1"])
def test_damage_is_seen(mpi: Mpi, verb: str) -> None:
    """Corrupted messages give exit code 1 and a count of wrong bytes."""
    name, *more = verb.split()
    options = {"rate": ["--peers", "2", "--pattern", "allstart"], "congestion": ["--samples", "4", "--rounds", "2"],
               "threads": ["--threads", "2", "--pairs", "2"]}.get(name, [])
    if name in ("latency", "multi-latency", "bandwidth", "bidirectional", "rma"):
        options = ["--pairs", "2"]
    fixed = [] if name == "congestion" else FIXED
    result = run(mpi, 4, "hopbyte-probe", name, *more, *sizes(64), *options, *fixed, "--json",
                 environment={"LD_PRELOAD": str(mpi.program("libcorrupt.so"))}).ended(1)
    assert sum(r.get("wrong_bytes", 0) for r in result.records()) > 0


@pytest.mark.parametrize(("words", "message"), [
    ([], "found 'nothing', expected a verb"),
    (["latancy"], "found 'latancy', expected a verb"),
    (["latency", "--peers", "2"], "latency: unknown option '--peers'"),
    (["latency", "--bytes", "8,x"], "--bytes: found '8,x', expected up to 64 sizes"),
    (["latency", "--bytes", "3GB"], "found a size of 3000000000 bytes, expected at most 2147483647"),
    (["latency", "--pairs", "2"], "--pairs: found 2, expected at most 1 on 3 ranks"),
    (["rate", "--pattern", "prepost", "--peers", "3"], "--peers: found 3, expected fewer than the 3 ranks"),
    (["bcast", "--root", "3"], "--root: found 3, expected a rank below 3"),
    (["allreduce", "--bytes", "12"], "--bytes: found 12, expected multiples of 8"),
    (["congestion", "--victims", "0,7"], "--victims: found '0,7', expected ranks below 3"),
    (["congestion"], "found 2 victims and 1 background ranks, expected at least 2 of each"),
    (["threads", "--threads", "0"], "--threads: found '0', expected a whole number from 1"),
])
def test_bad_input(words: list[str], message: str) -> None:
    result = run(MPICH, 3, "hopbyte-probe", *words).ended(2)
    assert message in result.err, result.err
    assert result.out == ""


def test_alone() -> None:
    assert "found 1 rank, expected at least 2" in run(OMPI, 1, "hopbyte-probe", "latency").ended(2).err


def test_help() -> None:
    out = run(MPICH, 2, "hopbyte-probe", "--help").ok().out
    for verb in re.findall(r"^  (\S+)", out, re.MULTILINE):
        usage = run(MPICH, 1, "hopbyte-probe", verb, "--help").ok().out
        assert usage.startswith(f"usage: mpiexec … hopbyte-probe {verb} ")
