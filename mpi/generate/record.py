"""The recorder's wrappers: the arguments of each call that give destination and bytes."""

from __future__ import annotations

from generate.header import Function

# Point to point: the hook's arguments are (communicator, destination, count, datatype).
SENDS = {name: "comm, dest, count, datatype" for name in ("Send", "Bsend", "Ssend", "Rsend")}
SENDS |= {f"I{name.lower()}": arguments for name, arguments in list(SENDS.items())}
SENDS |= {name: "comm, dest, sendcount, sendtype" for name in ("Sendrecv", "Isendrecv")}
SENDS |= {name: "comm, dest, count, datatype" for name in ("Sendrecv_replace", "Isendrecv_replace")}

PERSISTENT_SENDS = {
    f"{name}_init": "comm, dest, count, datatype" for name in ("Send", "Bsend", "Ssend", "Rsend")
}
PERSISTENT_SENDS["Psend_init"] = "comm, dest, (uint64_t)partitions * (uint64_t)count, datatype"

# One-sided: (window, target, out count and type, in count and type).
NOTHING = "0, MPI_DATATYPE_NULL"
ONE = "1, datatype"
OUT = "origin_count, origin_datatype"
RMA = {
    "Put": f"KIND_PUT, win, target_rank, {OUT}, {NOTHING}",
    "Get": f"KIND_GET, win, target_rank, {NOTHING}, {OUT}",
    "Accumulate": f"KIND_ACCUMULATE, win, target_rank, {OUT}, {NOTHING}",
    "Get_accumulate": (
        "KIND_GET_ACCUMULATE, win, target_rank, op == MPI_NO_OP ? 0 : origin_count, origin_datatype, "
        "result_count, result_datatype"
    ),
    "Fetch_and_op": ("KIND_FETCH_AND_OP, win, target_rank, op == MPI_NO_OP ? 0 : 1, datatype, 1, datatype"),
    "Compare_and_swap": f"KIND_COMPARE_AND_SWAP, win, target_rank, {ONE}, {ONE}",
}
RMA |= {f"R{name.lower()}": RMA[name] for name in ("Put", "Get", "Accumulate", "Get_accumulate")}

SEND = "sendbuf, sendcount, sendtype, recvcount, recvtype"
COUNTS = "HOPBYTE_COUNTS({})"
IN_PLACE_COUNTS = "sendbuf == MPI_IN_PLACE ? HOPBYTE_COUNTS(recvcounts) : HOPBYTE_COUNTS(sendcounts), {}"
ONE_TYPE = "NULL, sendbuf == MPI_IN_PLACE ? recvtype : sendtype"
MANY_TYPES = "sendbuf == MPI_IN_PLACE ? recvtypes : sendtypes, MPI_DATATYPE_NULL"

# Collectives: hook and its arguments after the sink.
COLLECTIVES = {
    "Barrier": ("simple", f"KIND_BARRIER, comm, RANK_OUTSIDE, {NOTHING}"),
    "Bcast": ("simple", "KIND_BCAST, comm, root, count, datatype"),
    "Reduce": ("simple", "KIND_REDUCE, comm, root, count, datatype"),
    "Allreduce": ("simple", "KIND_ALLREDUCE, comm, RANK_OUTSIDE, count, datatype"),
    "Scan": ("simple", "KIND_SCAN, comm, RANK_OUTSIDE, count, datatype"),
    "Exscan": ("simple", "KIND_EXSCAN, comm, RANK_OUTSIDE, count, datatype"),
    "Reduce_scatter_block": ("simple", "KIND_REDUCE_SCATTER_BLOCK, comm, RANK_OUTSIDE, recvcount, datatype"),
    "Gather": ("gather", f"KIND_GATHER, comm, root, {SEND}"),
    "Allgather": ("gather", f"KIND_ALLGATHER, comm, RANK_OUTSIDE, {SEND}"),
    "Alltoall": ("gather", f"KIND_ALLTOALL, comm, RANK_OUTSIDE, {SEND}"),
    "Scatter": ("scatter", "comm, root, sendcount, sendtype, recvcount, recvtype"),
    "Gatherv": ("gatherv", "comm, root, sendbuf, sendcount, sendtype"),
    "Scatterv": ("scatterv", f"comm, root, {COUNTS.format('sendcounts')}, sendtype"),
    "Allgatherv": ("allgatherv", f"comm, sendcount, sendtype, {COUNTS.format('recvcounts')}, recvtype"),
    "Alltoallv": ("alltoallv", f"KIND_ALLTOALLV, comm, {IN_PLACE_COUNTS.format(ONE_TYPE)}"),
    "Alltoallw": ("alltoallv", f"KIND_ALLTOALLW, comm, {IN_PLACE_COUNTS.format(MANY_TYPES)}"),
    "Reduce_scatter": ("reduce_scatter", f"comm, {COUNTS.format('recvcounts')}, datatype"),
    "Neighbor_allgather": ("neighbor", "KIND_NEIGHBOR_ALLGATHER, comm, sendcount, sendtype"),
    "Neighbor_allgatherv": ("neighbor", "KIND_NEIGHBOR_ALLGATHERV, comm, sendcount, sendtype"),
    "Neighbor_alltoall": ("neighbor", "KIND_NEIGHBOR_ALLTOALL, comm, sendcount, sendtype"),
    "Neighbor_alltoallv": (
        "neighborv",
        f"KIND_NEIGHBOR_ALLTOALLV, comm, {COUNTS.format('sendcounts')}, NULL, sendtype",
    ),
    "Neighbor_alltoallw": (
        "neighborv",
        f"KIND_NEIGHBOR_ALLTOALLW, comm, {COUNTS.format('sendcounts')}, sendtypes, MPI_DATATYPE_NULL",
    ),
}


def wrapper(function: Function, hook: str) -> str:
    """A wrapper that runs `hook` after the call has succeeded, unless the MPI library itself is calling."""
    call = f"NEXT({function.name}){function.call()}"
    return f"""HOPBYTE_DEFINE({function.returns}, {function.name}, {function.declaration})
{{
    if (hopbyte_depth || !hopbyte_recording())
        return {call};
    hopbyte_depth++;
    int rc = {call};
    if (__builtin_expect(rc == MPI_SUCCESS, 1))
        {hook}
    hopbyte_depth--;
    return rc;
}}
"""


def persistent(collect: str) -> str:
    """The hook of a call that creates a persistent operation: stores the sends of every start."""
    return f"""{{
            struct hopbyte_sink sink = {{0}};
            {collect}
            hopbyte_persistent_add(*request, &sink);
        }}"""


def hooks() -> dict[str, str]:
    """Every function the recorder counts, with the statement that counts it."""
    table = {name: f"hopbyte_send_count({arguments});" for name, arguments in SENDS.items()}
    for name, arguments in PERSISTENT_SENDS.items():
        communicator, destination, count, datatype = arguments.split(", ")
        collected = (
            f"hopbyte_send_collect(&sink, {communicator}, {destination}, (uint64_t)({count}), {datatype});"
        )
        table[name] = persistent(collected)
    table |= {name: f"hopbyte_rma_count({arguments});" for name, arguments in RMA.items()}
    for name, (hook, arguments) in COLLECTIVES.items():
        table[name] = table["I" + name.lower()] = f"hopbyte_collective_{hook}(NULL, {arguments});"
        table[f"{name}_init"] = persistent(f"hopbyte_collective_{hook}(&sink, {arguments});")
    return table


# Not in MPI 3.1, so absent from Open MPI 4; every other function must be in every header.
NEWER = {name for name in hooks() if name.endswith("_init") or name.startswith("Isendrecv")} - {
    name for name in PERSISTENT_SENDS if name != "Psend_init"
}


def generate(functions: dict[str, Function]) -> str:
    """The C source of all wrappers, the large-count variants of MPI 4 included."""
    parts = ['#include "record.h"\n']
    for name, hook in hooks().items():
        if name not in functions and name not in NEWER:
            raise SystemExit(f"generate: the header does not declare MPI_{name}")
        for variant in (name, f"{name}_c"):
            if variant in functions:
                parts.append(wrapper(functions[variant], hook))
    return "\n".join(parts)
