"""Figures 1 to 10 of paper 004: published claim, and the statement of what one shared machine can show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A panel: axes, the paper's claim, and what is measured here instead of its machine."""

    title: str
    published: str
    shown: str
    x: str = "bytes"
    y: str = "microseconds"
    logarithmic: bool = True
    lower_is_better: bool = True


HOST = "ranks of one host of {cores} cores, which other programs share"
FIGURES = {
    "1a": Figure(
        "Off-node latency",
        "MPT 7.5.3 up to 34 % below 7.3.3 (KNL, Aries)",
        "Two network namespaces over TCP: the software path of today's libraries. No Aries, no MPT, no versions of one.",
    ),
    "1b": Figure(
        "On-node bandwidth",
        "MPT 7.5.3 up to 2.7 times 7.3.3 above 1 KB (memcpy tuned for KNL)",
        "Libraries side by side on this processor. MPICH 4 and 5 are versions of one library, as in the paper.",
        y="GB/s",
        lower_is_better=False,
    ),
    "2a": Figure(
        "Latency of several pairs",
        "MPT 7.5.3 up to 60 % below 7.4.0 for small messages (2 nodes, 32 pairs)",
        "Four pairs on one host: more ranks than cores, so that waiting decides. The paper's gain is not testable.",
    ),
    "2b": Figure(
        "Message rate, peer after peer",
        "MPT 7.5.3 up to 60 % above 7.4.0 (SMB, 2,048 ranks, 6 peers)",
        "The pattern of SMB's pair-based test with 8 ranks on one host.",
        y="MB/s",
        lower_is_better=False,
    ),
    "3": Figure(
        "MPI_Bcast",
        "MPICH_NETWORK_BUFFER_COLL_OPT up to 20 % faster (4,096 ranks)",
        "Broadcast of 8 ranks on one host. The option bypasses a netmod of MPICH: a library on top cannot offer it.",
    ),
    "4a": Figure(
        "Latency of 16 threads a rank, small",
        "own global lock 62 % better than pthread's; per-object 42 %",
        "MPICH 4.0.2 with its pthread mutex and with hopbyte's fair lock preloaded, in turns. 32 threads on {cores} cores.",
    ),
    "4b": Figure(
        "Latency of 16 threads a rank, large",
        "own global lock 38 % better than pthread's; per-object 13 %",
        "As 4a. Per-object locks cannot be added from outside the library.",
    ),
    "5a": Figure(
        "MPI_Put by several threads, small",
        "thread-hot RMA against a global lock (64 threads a rank)",
        "Threads of one rank put to another on the host. More than {cores} threads share cores: no gain can show.",
        y="GB/s",
        lower_is_better=False,
    ),
    "5b": Figure(
        "MPI_Put by several threads, large",
        "about 30 % more for large messages",
        "As 5a; the host's memory is the limit.",
        y="GB/s",
        lower_is_better=False,
    ),
    "6": Figure(
        "SHMEM put, both ways",
        "put that returns before remote completion: 1.8 times (BDW), 64 % (KNL) below 4 KB",
        "Both semantics on Open MPI's OpenSHMEM: a quiet a window of 64, and a quiet a put. One processor, shared memory.",
        y="GB/s",
        lower_is_better=False,
    ),
    "7": Figure(
        "SHMEM reduction, large",
        "optimised reduction about 12 times faster for very large data (18,000 PEs)",
        "8 PEs on 4 hosts with 50 Mbit/s, the same variable in hopbyte's library. Bytes fall by log2(n) / 2: more PEs, more gain.",
        y="milliseconds",
    ),
    "8a": Figure(
        "SMP-aware team reduction, small",
        "SHMEM_TEAM_SMP_REDUCE up to 64 % less latency (36 PEs a node)",
        "8 PEs on 4 hosts with 50 Mbit/s, two on each, on and off: little to save with two PEs a node.",
        y="milliseconds",
    ),
    "8b": Figure(
        "SMP-aware team reduction, large",
        "up to 4 times faster at 16 KB",
        "As 8a.",
        y="milliseconds",
    ),
    "9a": Figure(
        "WOMBAT's pattern (patches)",
        "time step 14 % shorter with thread-hot RMA (4 ranks x 16 threads a node, 125 nodes)",
        "Puts with signals against messages, same grid and checksum, ranks x threads. One host of {cores} cores.",
        x="ranks x threads",
        y="time, notified / messages",
        logarithmic=False,
    ),
    "9b": Figure(
        "SNAP's pattern (sweep)",
        "up to 22 % faster with RMA at 512 nodes (Tables IV and V)",
        "Table V's groups, angles, ny and nz (nx 24 instead of 720). Threads beyond {cores} cores cannot gain here.",
        x="ranks x threads",
        y="time, notified / messages",
        logarithmic=False,
    ),
    "10": Figure(
        "MiniGhost, default and reordered ranks",
        "up to 32 % less time with MPICH_RANK_REORDER_METHOD=4 (Trinity)",
        "16 ranks on 4 hosts with 50 Mbit/s; the same variables, read by libhopbyte_reorder. Links limit, so the gain shows.",
        x="bytes a face",
        y="milliseconds",
    ),
}  # fmt: skip
