"""Memory partitions: objects by partition, offsets, placement, errors; in a virtual machine on three NUMA nodes too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hugepages import PLENTY, huge_pages
from numa_vm import in_vm, run_in_vm

from harness import BUILD, FULL, OMPI, OMPI_OPTIONS, Result, Shmem, run_command

ONE = "SHMEM_SYMMETRIC_PARTITION1"
TWO = "SHMEM_SYMMETRIC_PARTITION2"


def run_partition(one: Shmem, pes: int, *words: object, **environment: str) -> Result:
    result = one.run(pes, one.build("partition.c"), *words, environment=environment)
    assert "BAD" not in result.out, result.out + result.err
    return result


def test_objects_of_two_partitions(shmem: Shmem, tmp_path: Path) -> None:
    """Put and atomics on both and on the usual heap; bound memory; the report of every PE."""
    settings = {ONE: "size=4M:kind=DDR:policy=M", TWO: "size=1M", "HOPBYTE_MEMORY_JSON": str(tmp_path / "memory.json")}
    settings["HOPBYTE_MEMORY_OUTPUT"] = str(tmp_path / "memory.txt")
    out = run_partition(shmem, 3, "use", 1, 3_000_000, 2, 900_000, **settings).ok().out
    assert len(re.findall(r"partition 1 policy=bind:0 N0=1024 kernelpagesize_kB=4", out)) == 3, out
    pages = re.findall(r"partition 2 policy=default .*?N0=(\d+) ", out)
    assert len(pages) == 3 and all(int(count) >= 256 for count in pages), out
    lines = [json.loads(line) for line in (tmp_path / "memory.json").read_text().splitlines()]
    assert sorted((line["rank"], line["partition"]) for line in lines) == [(pe, i) for pe in range(3) for i in (1, 2)]
    for line in lines:
        assert line["delivered_bytes"] == line["requested_bytes"] == (4 if line["partition"] == 1 else 1) << 20
        assert sum(part["bytes"] for part in line["by_node"]) == line["delivered_bytes"] and line["short"] is None
        assert line["peak_bytes"] >= (3_000_000 if line["partition"] == 1 else 900_000)
    assert (tmp_path / "memory.txt").read_text().count("delivered node 0 (DDR) 4.0 MiB") == 3


@pytest.mark.parametrize("pes", [1, 2, 5] if FULL else [3])
def test_any_order_of_allocation(shmem: Shmem, pes: int) -> None:
    """400 random allocations, reallocations and frees: no overlap, alignment, equal offsets at all PEs."""
    assert run_partition(shmem, pes, "churn", **{ONE: "size=1M"}).ok().out.count("reached") == pes


@pytest.mark.parametrize(
    ("heap", "size"), [("", ""), ("SHMEM_SYMMETRIC_SIZE", "16M"), ("SHMEM_SYMMETRIC_SIZE", "0.02g"), ("SHMEM_SYMMETRIC_HEAP_SIZE", "16M")]
)
def test_the_heap_grows_by_the_partitions(shmem: Shmem, heap: str, size: str) -> None:
    """300 MB, more than the usual heap; whichever of the names for its size the library knows."""
    settings = {ONE: "size=300M", **({heap: size} if heap else {})}
    assert "reached" in run_partition(shmem, 1, "use", 1, 250_000_000, **settings).ok().out


@pytest.mark.parametrize("segment", ["mmap", "sysv"])
def test_heaps_that_other_pes_cannot_map(segment: str) -> None:
    """Open MPI then emulates puts and gets by messages, which need progress while a PE waits for another. It polls without
    a pause: few calls, because a loaded machine takes a second for some."""
    settings = {"OMPI_MCA_sshmem": segment, "OMPI_MCA_sshmem_sysv_use_hp": "0", ONE: "size=1M"}
    run_partition(OMPI, 2, "use", 1, 100_000, SHMEM_SYMMETRIC_SIZE="32M", **settings).ok()


def test_reserved_huge_pages_of_the_librarys_heap() -> None:
    """Mandatory 2 MB pages: refused on Open MPI's usual heap, delivered on its heap of huge pages."""
    settings = {ONE: "size=4M:pgsize=2M:kind=DDR:policy=M", "SHMEM_SYMMETRIC_SIZE": "16M"}
    result = run_partition(OMPI, 2, "use", 1, 3_000_000, **settings)
    if "off for shared memory here" in result.err:
        assert result.code not in (0, None) and "4.0 MiB not in pages of 2M" in result.err
    with huge_pages(PLENTY):
        settings |= {"OMPI_MCA_sshmem": "sysv", "OMPI_MCA_sshmem_sysv_use_hp": "1"}
        out = run_partition(OMPI, 2, "use", 1, 3_000_000, **settings).ok().out
        assert out.count("partition 1 policy=bind:0 N0=2 kernelpagesize_kB=2048") == 2, out


def test_a_full_partition(shmem: Shmem) -> None:
    """NULL without room or for no bytes; freed room is used again."""
    out = run_partition(shmem, 2, "full", **{ONE: "size=1M"}).ok().out
    assert out.count("right") == 4


CALLS = {
    "undefined": "shmem_kind_malloc: partition 9 is not defined (SHMEM_SYMMETRIC_PARTITION9)",
    "unequal_size": "shmem_kind_malloc: size must be equal at all members: ",
    "unequal_id": "shmem_kind_malloc: partition_id must be equal at all members: ",
    "alignment": "shmem_kind_align: alignment 48: expected a power of two",
    "freed_twice": "is not the start of an object of partition 1, or was freed",
    "inside": "is not the start of an object of partition 1, or was freed",
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(shmem: Shmem, name: str) -> None:
    result = run_partition(shmem, 2, name, **{ONE: "size=1M", TWO: "size=1M"})
    assert result.code not in (0, None) and "reached" not in result.out
    assert CALLS[name] in result.err, result.err


# Refused before the OpenSHMEM library starts: by one process, without a launcher.
SETTINGS = {
    "size=0": 'size "0": expected bytes above 0',
    "size=1MB": 'size "1MB": expected bytes above 0',
    "size=-5": 'size "-5": expected bytes above 0',
    "kind=DDR": "size= is missing",
    "": "size= is missing",
    "size=1M:pgsize=3M": 'pgsize "3M": expected 4K, 2M, 4M',
    "size=1M:pgsize=": 'pgsize "": expected 4K, 2M, 4M',
    "size=1M:kind=FASTEST": 'kind "FASTEST": expected DDR (D, NORMALMEM), HBM',
    "size=1M:policy=MAYBE": 'policy "MAYBE": expected Mandatory (M), Preferred (P) or Interleave (I)',
    "size=1M:size=2M": "size is given twice",
    "size=1M:colour=red": '"colour": expected size=, pgsize=, kind= or policy=',
    "1M": '"1M": expected size=, pgsize=, kind= or policy=',
}


@pytest.mark.parametrize("value", SETTINGS)
def test_bad_values(value: str) -> None:
    result = run_command([str(OMPI.build("partition.c")), "use"], {ONE: value}, 30)
    assert result.code == 2, result
    assert f'hopbyte shmem: {ONE}="{value}": {SETTINGS[value]}' in result.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SHMEM_SYMMETRIC_PARTITION01", "partition 1 is defined twice"),
        ("SMA_SYMMETRIC_PARTITION1", "partition 1 is defined twice"),
        ("SHMEM_SYMMETRIC_PARTITION", "expected a number from 0 to 127"),
        ("SHMEM_SYMMETRIC_PARTITION128", "expected a number from 0 to 127"),
        ("SHMEM_SYMMETRIC_PARTITION1A", "expected a number from 0 to 127"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    result = run_command([str(OMPI.build("partition.c")), "use"], {ONE: "size=1M", name: "size=1M"}, 30)
    assert result.code == 2 and message in result.err, result


UNMET = {
    "size=1M:kind=CXL:policy=M": "this host has no CXL",
    "size=1M:kind=node900:policy=Mandatory": "node 900: this host has no such node with memory",
    "size=1M:pgsize=512M:policy=M": "this machine has no pages of 512M",
    "size=4000T": "left to this process by the machine and its control groups",
}


@pytest.mark.parametrize("value", UNMET)
def test_unmet(shmem: Shmem, value: str) -> None:
    result = run_partition(shmem, 2, "use", 1, 64, **{ONE: value})
    assert result.code not in (0, None) and "reached" not in result.out
    assert UNMET[value] in result.err, result.err


def test_preferred_goes_on_and_says_so(shmem: Shmem) -> None:
    result = run_partition(shmem, 2, "use", 1, 64, **{ONE: "size=1M:kind=CXL"}).ok()
    assert result.err.count("is not as asked: this host has no CXL") == 2


def test_partitions_must_be_equal() -> None:
    """A partition that only one PE has."""
    program = str(OMPI.build("partition.c"))
    command = [OMPI.launcher, *OMPI_OPTIONS, "-np", "1", "-x", f"{ONE}=size=1M", program, "none", ":"]
    result = run_command([*command, "-np", "1", program, "none"], {"HOPBYTE_SHMEM_TIMEOUT": "30"})
    assert result.code not in (0, None) and "has other SHMEM_ or HOPBYTE_SHMEM_ variables" in result.err


def test_sanitizer() -> None:
    settings = {ONE: "size=1M:kind=DDR:pgsize=2M", "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}
    program = OMPI.build("partition.c", sanitized=True)
    result = OMPI.run(2, program, "churn", environment=settings).ok()
    assert "BAD" not in result.out


@in_vm
def test_three_nodes(tmp_path: Path) -> None:
    """One partition on HBM, one interleaved over DDR, one that does not fit; one PE, started without a launcher."""
    program = OMPI.build("partition.c")
    lib = Path("/usr/lib/x86_64-linux-gnu")
    files = [program, BUILD / "ompi/libhopbyte_shmem.so", Path("/usr/bin/orted"), Path("/usr/bin/orterun")]
    for folder in (lib / "openmpi/lib", lib / "pmix2", lib / "ucx", Path("/usr/share/openmpi"), Path("/etc/openmpi")):
        files += [f for f in folder.glob("**/*") if f.is_file()]
    launcher = "orterun --allow-run-as-root --oversubscribe --mca memory ^patcher --mca plm isolated -np 2 "
    launcher += "-x SHMEM_SYMMETRIC_SIZE=16M -x HOPBYTE_SHMEM_STAGE=64K -x HOPBYTE_MEMORY_REPORT=1 "
    cases = {
        "placed": f"{launcher} -x {ONE}=size=8M:kind=FASTMEM:policy=M -x {TWO}=size=8M:kind=NORMALMEM:policy=I "
        f"{program} use 1 5000000 2 5000000",
        "churn": f"{launcher} -x {ONE}=size=4M:kind=F:policy=M {program} churn",
        "too much": f"{launcher.replace('-np 2', '-np 1')} -x {ONE}=size=300M:kind=F:policy=M {program} use 1 64",
    }
    out = run_in_vm(tmp_path, files, cases)
    code, text = out["placed"]
    assert code == 0 and "BAD" not in text, text
    assert text.count("partition 1 policy=bind:2 N2=2048") == 2, text
    shares = re.findall(r"partition 2 policy=interleave:0-1 N0=(\d+) N1=(\d+)", text)
    assert len(shares) == 2 and all(int(a) + int(b) == 2048 and 512 <= int(a) <= 1536 for a, b in shares), text
    assert out["churn"][0] == 0 and out["churn"][1].count("reached") == 2 and "BAD" not in out["churn"][1], out
    code, text = out["too much"]
    assert code != 0 and "300.0 MiB asked for" in text and "reached" not in text and "Killed" not in text, text
