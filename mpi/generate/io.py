"""The wrappers of the MPI-IO timers: the application's reads and writes, and the library's own MPI calls inside them."""

from __future__ import annotations

import re

from generate.header import Function, complete

# The application's calls by name: File_[i](read|write)[_at|_shared|_ordered][_all][_begin|_end].
CALL = re.compile(r"File_(i?)(read|write)(_at|_shared|_ordered)?(_all)?(_begin|_end)?(_c)?")

# MPI calls of the library that move file data between ranks; all others that block are agreement on counts, offsets and
# errors, in which a rank mostly waits for others.
DATA = [
    "Send",
    "Isend",
    "Issend",
    "Ssend",
    "Rsend",
    "Bsend",
    "Irecv",
    "Recv",
    "Sendrecv",
    "Wait",
    "Waitall",
    "Waitany",
    "Waitsome",
    "Test",
    "Testall",
    "Testany",
    "Testsome",
    "Alltoallv",
    "Alltoallw",
    "Ialltoallv",
    "Ialltoallw",
    "Scatterv",
    "Iscatterv",
    "Start",
    "Startall",
]
AGREEMENT = [
    "Barrier",
    "Bcast",
    "Allreduce",
    "Reduce",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scan",
    "Exscan",
    "Iallreduce",
    "Iallgather",
    "Ialltoall",
    "Ibcast",
    "Igather",
    "Ibarrier",
    "Probe",
    "Iprobe",
]
SENDS = {"Send", "Isend", "Issend", "Ssend", "Rsend", "Bsend"}


def application(function: Function) -> str | None:
    """The wrapper of a read or write, or None for another function."""
    match = CALL.fullmatch(function.name)
    if not match:
        return None
    nonblocking, direction, pointer, every, split, _ = match.groups()
    collective = bool(every) or pointer == "_ordered"
    part = f"IO_{direction.upper()}{'_ALL' if collective else ''}"
    names = {p.name: p for p in function.parameters}
    counted = "count" in names and split != "_end"
    meet = collective and not nonblocking and split != "_end"
    size = "hopbyte_io_bytes((uint64_t)count, datatype)" if counted else "0"
    own = {"status": "hopbyte_io_status(&call, status)"} if "status" in names and not split else {}
    handle = function.parameters[0].name
    extra = ""
    if nonblocking:
        extra = "    call.sums.later = 1;\n"
    if split == "_end":
        extra = "    call.sums.calls = 0;\n"
    return function.definition(f"""{{
    if (hopbyte_depth || !hopbyte_io_on)
        return {function.next}{function.call()};
    struct hopbyte_io_call call;
    hopbyte_io_begin(&call, {handle}, {part}, {str(meet).lower()}, {size});
{extra}    hopbyte_depth++;
    int rc = {function.next}{function.call(own)};
    hopbyte_depth--;
    hopbyte_io_end(&call, rc);
    return rc;
}}
""")


def inner(function: Function, data: bool) -> str:
    """The wrapper of an MPI call that the library makes while it reads or writes."""
    bare = function.name.removesuffix("_c")
    sent = ""
    if bare in SENDS:
        sent = "\n        now->sums.sent += hopbyte_io_bytes((uint64_t)count, datatype);"
    body = f"""{{
    struct hopbyte_io_call *now = hopbyte_io_now;
    double begun = 0;
    bool outermost = hopbyte_io_inner_begin(now, &begun);
    if (outermost) {{{sent}
    }}
    int rc = {function.next}{function.call()};
    hopbyte_io_inner_end(now, outermost, {str(data).lower()}, begun);
    return rc;
}}"""
    return function.definition_if("hopbyte_io_now != NULL", body)


def generate(functions: dict[str, Function]) -> str:
    """The C source of all wrappers."""
    everything = complete(functions)
    parts = ['#include "io.h"\n']
    parts += [text for f in everything.values() if (text := application(f))]
    if len(parts) < 40:
        raise SystemExit(
            f"generate: only {len(parts) - 1} functions read or write files; is the header whole?"
        )
    for data, names in ((True, DATA), (False, AGREEMENT)):
        for name in names:
            for variant in (name, f"{name}_c"):
                if variant in everything:
                    parts.append(inner(everything[variant], data))
    return "\n".join(parts)
