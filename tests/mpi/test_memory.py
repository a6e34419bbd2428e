"""Kinds of memory and huge pages under MPI: placement as /proc/self/numa_maps has it, errors, the report, captured hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hugepages import PLENTY, huge_pages

from harness import ABI, BUILD, MPICH, MPICH4, OMPI, OMPI5, Mpi, Result, launch, run_command

EVERY = [OMPI, OMPI5, MPICH4, MPICH, ABI]
each_mpi = pytest.mark.parametrize("mpi", EVERY, ids=lambda mpi: mpi.name)
two_mpis = pytest.mark.parametrize("mpi", [OMPI, MPICH], ids=lambda mpi: mpi.name)
BYTES = 10_000_000
PAGES = (BYTES + 4095) // 4096


def run_memory(mpi: Mpi, folder: Path, call: str, size: int, *keys: str, ranks: int = 2, **environment: str) -> Result:
    """The test program; MPICH's launcher mixes lines of ranks, hence words per rank."""
    words: list[str | Path] = [mpi.build("memory.c"), call, str(size), *keys]
    result = launch(mpi, ranks, words, folder, tools=("memory",), environment=environment)
    assert "BAD" not in result.out, result.out
    return result


def maps(result: Result, ranks: int = 2) -> list[dict[str, str]]:
    """Policy, pages by node and page size that each success printed."""
    assert result.out.count("SUCCESS") == ranks, result.out + result.err
    found = re.findall(r"policy=(\S+)((?: N\d+=\d+)*) kernelpagesize_kB=(\d+)", result.out)
    assert len(found) == ranks, result.out
    return [
        {"policy": policy, "size": size, **dict(word.split("=") for word in nodes.split())}
        for policy, nodes, size in found
    ]


@each_mpi
@pytest.mark.parametrize("call", ["alloc", "win", "shared"])
def test_bound_to_ddr_by_crays_variable(mpi: Mpi, call: str, tmp_path: Path) -> None:
    """Every page populated before the call returns, and bound."""
    for row in maps(run_memory(mpi, tmp_path, call, BYTES, MPICH_ALLOC_MEM_AFFINITY="D")):
        assert row["policy"] == "bind:0" and row["size"] == "4"
        assert PAGES - 1 <= sum(int(row[key]) for key in row if key[0] == "N")


@two_mpis
@pytest.mark.parametrize(
    ("policy", "shown"), [("M", "bind:0"), ("Preferred", "prefer"), ("interleave", "interleave:0")]
)
def test_policies(mpi: Mpi, policy: str, shown: str, tmp_path: Path) -> None:
    """Cray's letters and words; this host's memory is named HBM, as where the firmware publishes nothing."""
    settings = {"MPICH_ALLOC_MEM_AFFINITY": "MCDRAM", "MPICH_ALLOC_MEM_POLICY": policy}
    result = run_memory(mpi, tmp_path, "alloc", BYTES, HOPBYTE_MEMORY_KINDS="HBM=0", **settings)
    assert all(row["policy"].startswith(shown) for row in maps(result))


@each_mpi
@pytest.mark.parametrize("call", ["alloc", "win"])
def test_huge_pages(mpi: Mpi, call: str, tmp_path: Path) -> None:
    """2 MB pages, reserved ones: 5 for 10 MB. The window still says that MPI_Win_allocate made it."""
    with huge_pages(PLENTY):
        result = run_memory(mpi, tmp_path, call, BYTES, MPICH_ALLOC_MEM_PG_SZ="2M", MPICH_ALLOC_MEM_AFFINITY="DDR").ok()
        assert all(row["size"] == "2048" and row["N0"] == "5" for row in maps(result))


@pytest.mark.parametrize("mpi", [MPICH, ABI], ids=lambda mpi: mpi.name)
def test_large_count_windows(mpi: Mpi, tmp_path: Path) -> None:
    """MPI_Win_allocate_c, on the library's segment and on huge pages."""
    for row in maps(run_memory(mpi, tmp_path, "large", BYTES, MPICH_ALLOC_MEM_AFFINITY="DDR").ok()):
        assert row["policy"] == "bind:0" and row["size"] == "4"
    with huge_pages(PLENTY):
        result = run_memory(mpi, tmp_path, "large", BYTES, MPICH_ALLOC_MEM_PG_SZ="2M").ok()
        assert all(row["size"] == "2048" for row in maps(result))


@two_mpis
def test_pages_that_this_machine_lacks(mpi: Mpi, tmp_path: Path) -> None:
    """16 MB: the next smaller that the machine has, aligned to 16 MB, and said so; an error if mandatory."""
    with huge_pages(PLENTY):
        settings = {"MPICH_ALLOC_MEM_PG_SZ": "16M", "HOPBYTE_MEMORY_JSON": "memory.json"}
        rows = maps(run_memory(mpi, tmp_path, "alloc", BYTES, **settings).ok())
        assert all(row["size"] == "2048" for row in rows)
        for line in (tmp_path / "memory.json").read_text().splitlines():
            assert "this machine has no pages of 16M; the next smaller are of 2M" in json.loads(line)["short"]
        result = run_memory(mpi, tmp_path, "alloc", BYTES, HOPBYTE_ALLOC_MEM_POLICY="M", **settings)
        assert result.out.count("NO_MEM") == 2


@two_mpis
def test_without_free_huge_pages_transparent_ones_are_tried(mpi: Mpi, tmp_path: Path) -> None:
    with huge_pages(0):
        settings = {"HOPBYTE_ALLOC_MEM_PG_SZ": "2M", "HOPBYTE_MEMORY_REPORT": "1"}
        result = run_memory(mpi, tmp_path, "alloc", BYTES, **settings).ok()
        maps(result)
        assert result.err.count("NOT AS ASKED: ") == 2 and "pages of 2M asked for, 0 free" in result.err
        result = run_memory(mpi, tmp_path, "win", BYTES, HOPBYTE_ALLOC_MEM_POLICY="M", **settings)
        assert result.out.count("NO_MEM") == 2 and "pages of 2M asked for, 0 free" in result.err


# Environment, keys of the info object, and the message; each an error class of MPI at every rank.
REFUSED = {
    "no_kind": ({"MPICH_ALLOC_MEM_AFFINITY": "CXL", "MPICH_ALLOC_MEM_POLICY": "M"}, [], "NO_MEM", "this host has no CXL"),
    "no_node": (
        {"HOPBYTE_ALLOC_MEM_AFFINITY": "node900", "HOPBYTE_ALLOC_MEM_POLICY": "M"},
        [],
        "NO_MEM",
        "node 900: this host has no such node with memory",
    ),
    "no_gigantic_pages": (
        {"MPICH_ALLOC_MEM_PG_SZ": "512M", "HOPBYTE_ALLOC_MEM_POLICY": "Mandatory"},
        [],
        "NO_MEM",
        "this machine has no pages of 512M",
    ),
    "info_kind": ({}, ["hopbyte_memory_kind=GDDR"], "INFO_VALUE", 'info key hopbyte_memory_kind="GDDR": expected DDR'),
    "info_policy": ({}, ["hopbyte_memory_policy=X"], "INFO_VALUE", 'hopbyte_memory_policy="X": expected Mandatory (M)'),
    "info_page": ({}, ["hopbyte_memory_page_size=3M"], "INFO_VALUE", 'hopbyte_memory_page_size="3M": expected 4K, 2M'),
}


@two_mpis
@pytest.mark.parametrize("call", ["alloc", "win", "shared"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(mpi: Mpi, call: str, name: str, tmp_path: Path) -> None:
    environment, keys, error, message = REFUSED[name]
    result = run_memory(mpi, tmp_path, call, 4096, *keys, **environment).ok()
    assert result.out.count(error) == 2, result.out + result.err
    assert message in result.err
    assert result.err.count(message) == (2 if call == "alloc" else 1)


@each_mpi
@pytest.mark.parametrize("call", ["alloc", "win", "shared"])
def test_over_capacity(mpi: Mpi, call: str, tmp_path: Path) -> None:
    """A petabyte: an error of the call, and the job goes on."""
    result = run_memory(mpi, tmp_path, call, 1 << 50, HOPBYTE_ALLOC_MEM_AFFINITY="DDR").ok()
    assert result.out.count("NO_MEM") == 2
    assert "1024.0 TiB asked for" in result.err and "left to this process" in result.err


@two_mpis
def test_unequal_requests(mpi: Mpi, tmp_path: Path) -> None:
    """Keys at rank 0 only: an error at both instead of a deadlock."""
    result = run_memory(mpi, tmp_path, "win-unequal", 4096, "hopbyte_memory_kind=DDR").ok()
    assert result.out.count("INFO_VALUE") == 2 and "ranks ask for different memory" in result.err


def test_unequal_environments(tmp_path: Path) -> None:
    program = str(OMPI.build("memory.c"))
    library = str(OMPI.library("memory"))
    command = OMPI.command(1, {"LD_PRELOAD": library, "MPICH_ALLOC_MEM_AFFINITY": "DDR"}, [])
    second = ["-np", "1", "-x", f"LD_PRELOAD={library}", program, "alloc", "4096"]
    result = run_command([*command, program, "alloc", "4096", ":", *second], tmp_path)
    assert result.code == 2 and "ranks have different HOPBYTE_ or MPICH_ memory variables" in result.err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MPICH_ALLOC_MEM_AFFINITY", "FAST", "expected DDR (D, NORMALMEM), HBM"),
        ("HOPBYTE_ALLOC_MEM_AFFINITY", "node", "expected DDR (D, NORMALMEM), HBM"),
        ("MPICH_ALLOC_MEM_POLICY", "Q", "expected Mandatory (M), Preferred (P) or Interleave (I)"),
        ("MPICH_ALLOC_MEM_PG_SZ", "0", "expected 4K, 2M, 4M"),
        ("MPICH_ALLOC_MEM_PG_SZ", "2MB", "expected 4K, 2M, 4M"),
        ("MPICH_INTERNAL_MEM_AFFINITY", "HBM2", "expected DDR (D, NORMALMEM), HBM"),
        ("HOPBYTE_MEMORY_KINDS", "HBM:0", 'expected KIND=NODES …, as in "HBM=2,3 CXL=4"'),
        ("HOPBYTE_MEMORY_KINDS", "HBM=900", "this host has no memory on node 900"),
    ],
)
def test_bad_settings_end_the_job_at_the_start(variable: str, value: str, message: str, tmp_path: Path) -> None:
    result = run_memory(MPICH, tmp_path, "alloc", 4096, **{variable: value})
    assert result.code not in (0, None) and "SUCCESS" not in result.out
    assert f'{variable}="{value}"' in result.err and message in result.err


def test_a_policy_without_effect_is_said(tmp_path: Path) -> None:
    """Cray's policy has none with DDR and the system's default; hopbyte's has."""
    settings = {"MPICH_ALLOC_MEM_AFFINITY": "DDR", "MPICH_ALLOC_MEM_POLICY": "Interleave"}
    result = run_memory(OMPI, tmp_path, "alloc", BYTES, **settings).ok()
    assert result.err.count("MPICH_ALLOC_MEM_POLICY has no effect with DDR") == 1
    assert all(row["policy"] == "bind:0" for row in maps(result))
    result = run_memory(OMPI, tmp_path, "alloc", BYTES, HOPBYTE_ALLOC_MEM_POLICY="I", **settings).ok()
    assert all(row["policy"] == "interleave:0" for row in maps(result))


def test_preferred_without_the_kind_goes_on_and_says_so(tmp_path: Path) -> None:
    result = run_memory(MPICH, tmp_path, "win", BYTES, MPICH_ALLOC_MEM_AFFINITY="M").ok()
    assert all(row["policy"] == "default" for row in maps(result))
    assert "not delivered as asked at 2 of 2 ranks" in result.err


@each_mpi
def test_report(mpi: Mpi, tmp_path: Path) -> None:
    """Text in the order of ranks, JSON with the bytes of numa_maps, and the library's own memory."""
    settings = {"MPICH_ALLOC_MEM_AFFINITY": "DDR", "MPICH_INTERNAL_MEM_AFFINITY": "DDR"}
    settings |= {"HOPBYTE_MEMORY_JSON": "memory.json", "HOPBYTE_MEMORY_OUTPUT": "memory.txt"}
    rows = maps(run_memory(mpi, tmp_path, "win", BYTES, **settings).ok())
    lines = [json.loads(line) for line in (tmp_path / "memory.json").read_text().splitlines()]
    assert [(line["rank"], line["call"]) for line in lines] == [
        (rank, call) for rank in (0, 1) for call in ("internal memory", "MPI_Win_allocate")
    ]
    for line in lines:
        assert line["schema"] == "hopbyte.memory/1" and line["kind"] == "DDR" and line["short"] is None
        assert sum(part["bytes"] for part in line["by_node"]) == line["delivered_bytes"]
        assert sum(part["bytes"] for part in line["by_page"]) == line["delivered_bytes"]
    assert lines[0]["delivered_bytes"] > 1 << 20
    assert lines[1]["requested_bytes"] == BYTES and lines[1]["calls"] == 1
    assert abs(lines[1]["delivered_bytes"] - 4096 * int(rows[0]["N0"])) <= 8192
    text = (tmp_path / "memory.txt").read_text().splitlines()
    assert [line.split()[3] for line in text] == ["0", "0", "1", "1"]


def test_nothing_asked_is_the_librarys_own_way(tmp_path: Path) -> None:
    result = run_memory(MPICH, tmp_path, "win", BYTES, HOPBYTE_MEMORY_REPORT="1").ok()
    assert all(row["policy"] == "default" for row in maps(result)) and "hopbyte" not in result.err


@two_mpis
@pytest.mark.parametrize("call", ["alloc", "win", "shared"])
def test_sanitizers(mpi: Mpi, call: str, tmp_path: Path) -> None:
    preload, options = mpi.sanitized("memory")
    settings = {"LD_PRELOAD": preload, **options, "HOPBYTE_ALLOC_MEM_AFFINITY": "DDR", "HOPBYTE_MEMORY_REPORT": "1"}
    settings["MPICH_INTERNAL_MEM_AFFINITY"] = "DDR"
    words: list[str | Path] = [mpi.build("memory.c"), call, str(BYTES), "hopbyte_memory_page_size=2M"]
    result = launch(mpi, 2, words, tmp_path, tools=(), environment=settings).ok()
    assert result.out.count("SUCCESS") == 2 and "Sanitizer" not in result.err and "runtime error" not in result.err


# --- captured hosts ---


def capture(folder: Path, nodes: dict[int, dict[str, Any]], model: str = "Some CPU") -> Path:
    """A folder like / with NUMA nodes: memory in MB, CPUs, bandwidth and latency, and the device behind it."""
    system = folder / "sys/devices/system/node"
    system.mkdir(parents=True)
    (folder / "proc").mkdir()
    (folder / "proc/cpuinfo").write_text(f"processor : 0\nmodel name : {model}\n")
    (system / "online").write_text(",".join(str(node) for node in sorted(nodes)) + "\n")
    (system / "has_cpu").write_text(",".join(str(n) for n, row in sorted(nodes.items()) if row.get("cpus")) + "\n")
    for number, row in nodes.items():
        place = system / f"node{number}"
        place.mkdir()
        total = row.get("mb", 1024) << 10
        (place / "meminfo").write_text(f"Node {number} MemTotal: {total} kB\nNode {number} MemFree: {total // 2} kB\n")
        if "bandwidth" in row:
            attributes = place / "access0/initiators"
            attributes.mkdir(parents=True)
            (attributes / "read_bandwidth").write_text(f"{row['bandwidth']}\n")
            (attributes / "read_latency").write_text(f"{row.get('latency', 100)}\n")
        if "device" in row:
            device = folder / "sys/devices" / row["device"]
            device.mkdir(parents=True)
            (device / "target_node").write_text(f"{number}\n")
            links = folder / "sys/bus/dax/devices"
            links.mkdir(parents=True, exist_ok=True)
            (links / device.name).symlink_to(f"../../../devices/{row['device']}")
    return folder


DDR0 = {"cpus": True, "bandwidth": 200_000, "latency": 100}
HOSTS: dict[str, tuple[dict[int, dict[str, Any]], str, dict[int, str]]] = {
    "hbm beside ddr": ({0: DDR0, 1: DDR0, 2: {"bandwidth": 800_000}, 3: {"bandwidth": 800_000}}, "", {0: "DDR", 2: "HBM", 3: "HBM"}),
    "hbm with the lower numbers": ({0: {"bandwidth": 800_000}, 1: DDR0}, "", {0: "HBM", 1: "DDR"}),
    "hbm with cpus": ({0: DDR0, 1: {**DDR0, "bandwidth": 900_000}}, "", {0: "DDR", 1: "HBM"}),
    "cxl by device": (
        {0: DDR0, 1: {"device": "platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0"}},
        "",
        {1: "CXL"},
    ),
    "cxl by attributes": ({0: DDR0, 5: {"bandwidth": 30_000, "latency": 300}}, "", {5: "CXL"}),
    "persistent memory": ({0: DDR0, 1: {"bandwidth": 30_000, "device": "LNXSYSTM:00/ndbus0/region0/dax0.0/dax1.0"}}, "", {1: "PMEM"}),
    "knights landing without attributes": (
        {0: {"cpus": True}, 1: {}},
        "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
        {0: "DDR", 1: "HBM"},
    ),
    "nothing published": ({0: {"cpus": True}, 1: {}}, "", {0: "DDR", 1: "unknown"}),
    "a node without memory": ({0: DDR0, 1: {"cpus": True, "mb": 0}}, "", {0: "DDR"}),
}


def doctor(root: Path, **environment: str) -> list[dict[str, Any]]:
    result = run_command([str(BUILD / "hopbyte-memory"), str(root)], root, environment).ok()
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize("name", HOSTS)
def test_kinds_of_captured_hosts(name: str, tmp_path: Path) -> None:
    nodes, model, expected = HOSTS[name]
    rows = doctor(capture(tmp_path, nodes, model))
    kinds = {row["node"]: row["kind"] for row in rows if row["row"] == "node"}
    assert {node: kinds[node] for node in expected} == expected
    assert set(kinds) == {node for node, row in nodes.items() if row.get("mb") != 0}
    met = {row["kind"] for row in rows if row["row"] == "request" and row["works"]}
    assert met == {kind for kind in kinds.values() if kind != "unknown"} | {"SYS_DEFAULT"}


def test_kinds_by_hand(tmp_path: Path) -> None:
    root = capture(tmp_path, {0: {"cpus": True}, 1: {}, 2: {}, 3: {}})
    rows = doctor(root, HOPBYTE_MEMORY_KINDS="HBM=1-2;CXL=3")
    assert [row["kind"] for row in rows if row["row"] == "node"] == ["DDR", "HBM", "HBM", "CXL"]


@pytest.mark.parametrize("readable", [True, False], ids=["/proc/meminfo", "nothing"])
def test_a_host_that_shows_no_nodes(readable: bool, tmp_path: Path) -> None:
    """A kernel without NUMA, or a container that hides /sys: node 0 is all memory; without a size the answer is no, with a reason."""
    (tmp_path / "proc").mkdir()
    if readable:
        (tmp_path / "proc/meminfo").write_text("MemTotal: 8192 kB\nMemFree: 4096 kB\n" + "Active(file): 8 kB\nInactive(file): 8 kB\n")
    rows = doctor(tmp_path)
    node = next(row for row in rows if row["row"] == "node")
    assert (node["kind"], node["total_bytes"]) == ("DDR", 8192 << 10 if readable else 0)
    assert node["reason"] == "all memory: /sys shows no NUMA nodes"
    requests = {row["kind"]: row for row in rows if row["row"] == "request" and row["page_bytes"] == 4096}
    assert requests["DDR"]["works"] == readable
    assert readable or "its size cannot be read" in requests["DDR"]["reason"]
    assert "this host has no HBM" in requests["HBM"]["reason"]
