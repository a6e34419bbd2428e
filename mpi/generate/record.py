"""The recorder's wrappers: the arguments of each call that give destination and bytes."""

from __future__ import annotations

import re
from dataclasses import replace

from generate.header import Function, complete, read_standard

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
        "KIND_GET_ACCUMULATE, win, target_rank, op == MPI_NO_OP ? -1 : origin_count, origin_datatype, "
        "result_count, result_datatype"
    ),
    "Fetch_and_op": ("KIND_FETCH_AND_OP, win, target_rank, op == MPI_NO_OP ? -1 : 1, datatype, 1, datatype"),
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

# Collectives with an operation. Those that do not commute have other algorithms.
REDUCTIONS = {"Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan"}


SEND_TRACE = "hopbyte_trace_send(comm, dest, tag, {count}, {datatype}, {request});"
BUFFERED_TRACE = "hopbyte_trace_buffered(comm, dest, tag, count, datatype);"
BOTH_TRACE = (
    "hopbyte_trace_both(comm, dest, sendtag, {count}, {datatype}, source, recvtag, {status}, {request});"
)
PERSIST_TRACE = "hopbyte_trace_persistent({op}, {buffered}, comm, {peer}, tag, {count}, {datatype}, request);"


def traces() -> dict[str, str]:
    """The statement that adds a call to the trace, by function; {0}, {1}, … are its parameters. Collectives are added
    where they are counted; before it they only have their request."""
    table: dict[str, str] = {}
    for name in SENDS:
        later = name.startswith("I")
        request, status = ("request", "NULL") if later else ("NULL", "status")
        if "endrecv" in name:
            count, datatype = ("count", "datatype") if "replace" in name else ("sendcount", "sendtype")
            table[name] = BOTH_TRACE.format(count=count, datatype=datatype, status=status, request=request)
        elif "bsend" in name.lower():
            table[name] = BUFFERED_TRACE
        else:
            table[name] = SEND_TRACE.format(count="count", datatype="datatype", request=request)
    for name, arguments in PERSISTENT_SENDS.items():
        fields = {"count": arguments.split(", ")[2], "datatype": "datatype", "peer": "dest"}
        buffered = "true" if name == "Bsend_init" else "false"
        table[name] = PERSIST_TRACE.format(op="TRACE_SEND", buffered=buffered, **fields)
    table["Psend_init"] += " hopbyte_trace_partitioned(*request, partitions);"
    for name in NO_SENDS:
        peer = "source" if name == "Recv_init" else "{4}"
        fields = {"count": "0", "datatype": "MPI_DATATYPE_NULL", "peer": peer}
        table[name] = PERSIST_TRACE.format(op="TRACE_RECEIVE", buffered="false", **fields)
    for name in COLLECTIVES:
        table["I" + name.lower()] = "hopbyte_trace_requested(request);"
        table[f"{name}_init"] = "hopbyte_trace_persistent_collective(request);"
    return table


def opens() -> dict[str, str]:
    """The statement before a call that tells the trace of its begin, where several threads may call: what follows from
    its message may be in the trace of another thread before it returns."""
    both = "hopbyte_trace_open_both(comm, dest, sendtag, {}, {}, source, recvtag);"
    table: dict[str, str] = {}
    for name in SENDS:
        if "endrecv" in name:
            table[name] = both.format(
                *(("count", "datatype") if "replace" in name else ("sendcount", "sendtype"))
            )
        else:
            table[name] = "hopbyte_trace_open_send(comm, dest, tag, count, datatype);"
    table["Recv"] = table["Irecv"] = "hopbyte_trace_open_receive(comm, source, tag);"
    for name, (hook, arguments) in COLLECTIVES.items():
        for variant, how in ((name, ()), ("I" + name.lower(), ("HOW_NONBLOCKING",))):
            collect = f"{sink(name, *how)} hopbyte_collective_{hook}(&sink, {arguments});"
            table[variant] = f"{collect} hopbyte_trace_open_collective(&sink);"
    return table


def sink(name: str, *how: str) -> str:
    """A sink for a collective: how it is called, and whether its operation commutes."""
    fields = [field for field in how if field.startswith(".")]
    bits = [bit for bit in how if not bit.startswith(".")]
    if bits and name == "Allreduce":
        bits.append("(sendbuf == MPI_IN_PLACE ? HOW_IN_PLACE : 0)")
    bits += ["hopbyte_op_how(op)"] * (name in REDUCTIONS)
    fields += [f".how = {' | '.join(bits)}"] * bool(bits)
    return f"struct hopbyte_sink sink = {{{', '.join(fields)}}};"


# Receiving and completion: (statement before the call, statement after it, whether the call looked in vain, for those that
# look and return). {0}, {1}, … are the parameters. Their time is counted; the messages are in the sender's file.
ONE_BEFORE, MANY_BEFORE = "hopbyte_trace_before(1, {0});", "hopbyte_trace_before({0}, {1});"
# Statuses that the program ignores are needed where it receives from any source.
STATUS = " {{{}}} = hopbyte_trace_status({{{}}}, {}, {});"


def status(parameter: int, count: str = "1", needed: str = "false") -> str:
    """The statement that replaces a status, or statuses, which the program ignores."""
    return STATUS.format(parameter, parameter, count, needed)


ANY = "{} == MPI_ANY_SOURCE || {} == MPI_ANY_TAG"
SOME_AFTER = "hopbyte_trace_done_some(*{2}, {3}, {4});"
# Calls that add nothing to the trace, where their time is waiting and not computation.
WAITS = ("", "", "")


def looks(flag: int) -> tuple[str, str, str]:
    """The same of calls that look and return."""
    return ("", "", f"!*{{{flag}}}")


TIMED = {
    "Recv": (
        status(6, needed=ANY.format("{3}", "{4}")),
        "hopbyte_trace_receive(comm, source, tag, status, NULL);",
        "",
    ),
    "Irecv": ("", "hopbyte_trace_receive(comm, source, tag, NULL, request);", ""),
    "Mrecv": ("hopbyte_trace_message(*{3});", "hopbyte_trace_matched_receive({4}, NULL);", ""),
    "Imrecv": ("hopbyte_trace_message(*{3});", "hopbyte_trace_matched_receive(NULL, request);", ""),
    "Probe": WAITS,
    "Iprobe": looks(3),
    "Mprobe": (
        status(4, needed=ANY.format("{0}", "{1}")),
        "hopbyte_trace_matched(comm, *message, status, source, tag);",
        "",
    ),
    "Improbe": (
        status(5, needed=ANY.format("{0}", "{1}")),
        "if (*flag) hopbyte_trace_matched(comm, *message, status, source, tag);",
        "!*flag",
    ),
    "Wait": (ONE_BEFORE + status(1), "hopbyte_trace_done(0, {1});", ""),
    "Waitall": (MANY_BEFORE + status(2, "{0}"), "hopbyte_trace_done_all({0}, {2});", ""),
    "Waitany": (MANY_BEFORE + status(3), "hopbyte_trace_done(*{2}, {3});", ""),
    "Waitsome": (MANY_BEFORE + status(4, "{0}"), SOME_AFTER, ""),
    "Test": (ONE_BEFORE + status(2), "if (*{1}) hopbyte_trace_done(0, {2});", "!*{1}"),
    "Testall": (MANY_BEFORE + status(3, "{0}"), "if (*{2}) hopbyte_trace_done_all({0}, {3});", "!*{2}"),
    "Testany": (MANY_BEFORE + status(4), "if (*{3}) hopbyte_trace_done(*{2}, {4});", "!*{3}"),
    "Testsome": (MANY_BEFORE + status(4, "{0}"), SOME_AFTER, "*{2} <= 0"),
    **{f"Request_get_status{of}": looks(flag) for of, flag in (("", 1), ("_all", 2), ("_any", 3))},
    "Request_get_status_some": ("", "", "*{2} <= 0"),
    "Parrived": looks(2),
    "Win_test": looks(1),
    **{
        f"Win_{name}": WAITS
        for name in (
            *("fence", "start", "complete", "post", "wait", "lock", "lock_all", "unlock", "unlock_all"),
            *("flush", "flush_all", "flush_local", "flush_local_all", "sync"),
        )
    },
    # Before the call, for the reason of opens().
    "Pready": ("hopbyte_trace_ready({1}, 1);", "", ""),
    "Pready_range": ("hopbyte_trace_ready({2}, {1} - {0} + 1);", "", ""),
    "Pready_list": ("hopbyte_trace_ready({2}, {0});", "", ""),
}

BOTH_BEFORE = f"status = hopbyte_trace_status(status, 1, {ANY.format('source', 'recvtag')});"

# Counted at every start: their requests must be known, so that a start of any other request is noticed.
NO_SENDS = {"Recv_init", "Precv_init"}

# Wrapped by hand in record/init.c.
WATCHED = {
    "Init": "start of the record",
    "Init_thread": "start of the record",
    "Session_init": "start of the record",
    "Session_finalize": "end of the record",
    "Finalize": "end of the record",
    "Abort": "end of the record",
    "Pcontrol": "phases",
    "Start": "persistent operations are counted at every start",
    "Startall": "persistent operations are counted at every start",
    "Request_free": "frees a persistent operation",
    "Cancel": "a receive without a message",
    "Comm_free": "the handle may be given to another communicator",
    "Comm_disconnect": "the handle may be given to another communicator",
    "Win_free": "the handle may be given to another window",
    "Type_free": "the handle may be given to another datatype",
}

# Communicators with the same members are told apart by the order of their creation; copies are learned from the original,
# for a request may still have to complete them.
CREATES = {
    name: "MPI_COMM_NULL"
    for name in (
        "Comm_create",
        "Comm_create_group",
        "Comm_create_from_group",
        "Comm_split",
        "Comm_split_type",
        "Cart_create",
        "Cart_sub",
        "Graph_create",
        "Dist_graph_create",
        "Dist_graph_create_adjacent",
        "Intercomm_merge",
    )
} | {name: "comm" for name in ("Comm_dup", "Comm_dup_with_info", "Comm_idup", "Comm_idup_with_info")}

# ROMIO, the MPI-IO of MPICH and one of Open MPI's, calls MPI as a program does: messages of the library.
FILES = re.compile(r"File_(?!\w*errhandler|(c2f|f2c|fromint|toint)$)\w+")

# Functions of the standard without a wrapper, by name without MPI_ and `_c`: (pattern, reason).
NOT_WRAPPED = (
    (
        r"Get_count|Get_elements(_x)?",
        "receiving: the message is in the sender's file",
    ),
    (
        r"Test_cancelled|Grequest_\w+",
        "completion of an operation that was counted when it was started",
    ),
    (
        r"Win_(create\w*|allocate\w*|attach|detach|shared_query)",
        "creation of windows: no data of the application",
    ),
    (
        (r"Intercomm_create\w*|Cart_map|Graph_map"),
        "creation of communicators: messages of the library, not of the application",
    ),
    (
        r"Comm_(accept|connect|join|get_parent)|Open_port|Close_port|(Unp|P)ublish_name|Lookup_name",
        "other worlds: messages of the library; the application's messages to them are counted",
    ),
    (r"File_\w*errhandler|Register_datarep", "MPI-IO: local"),
    (
        r"(Comm_|Session_)?([Bb]uffer_)?(attach|detach|flush|iflush)(_buffer)?",
        "buffers: their messages are counted when sent",
    ),
    (r"Buffer_\w+", "buffers: their messages are counted when sent"),
    (r"\w+_(c2f|f2c|c2f08|f082c|f082f|f2f08|fromint|toint)", "conversion of handles and statuses"),
    (
        r"Abi_\w+|Get_\w+|Initialized|Finalized|Query_thread|Is_thread_main|Wtime|Wtick|Aint_\w+",
        "local enquiry",
    ),
    (r"(Type|Status|Group|Info|Op|Errhandler|Error|Attr|Keyval)_\w+", "local objects"),
    (
        r"(Comm|Win|Session)_(get|set|call|test)_\w+|(Comm|Win)_(delete_attr|create_keyval|free_keyval|create_errhandler)",
        "local objects",
    ),
    (r"Comm_(rank|size|group|remote_\w+|compare)|Session_create_errhandler", "local objects"),
    (
        r"(Add|Remove)_error_\w+|Reduce_local|Pack\w*|Unpack\w*|Address|Alloc_mem|Free_mem|Sizeof",
        "local operation",
    ),
    (r"(Cart|Cartdim|Graph|Graphdims|Dist_graph|Dims|Topo)_\w+", "topologies: local enquiry"),
)


def why_not(name: str) -> str | None:
    """The reason why a function has no wrapper; None if it is counted, watched or unknown."""
    bare = name.removesuffix("_c")
    if any(each in table for each in (name, bare) for table in (hooks(), WATCHED, TIMED, CREATES)):
        return None
    if FILES.fullmatch(name):
        return None
    return next((reason for pattern, reason in NOT_WRAPPED if re.fullmatch(pattern, bare)), None)


def filled(statement: str, function: Function) -> str:
    """A statement with the parameters of a function in place of {0}, {1}, …"""
    for number, parameter in enumerate(function.parameters):
        statement = statement.replace(f"{{{number}}}", parameter.name)
    return statement


class Wrappers:
    """Definitions of wrappers, and the numbers of their functions."""

    def __init__(self) -> None:
        """The first two functions are wrapped by hand."""
        self.names = ["MPI_Start", "MPI_Startall"]

    def define(
        self,
        function: Function,
        hook: str,
        trace: str = "",
        before: str = "",
        vain: str = "",
        begin: str = "",
    ) -> str:
        """A wrapper that times the call and runs `hook` after it has succeeded, unless the MPI library itself is
        calling; `trace` and `before` only where the program is traced, and `begin` also only with several threads. `vain`
        tells whether a call that looks and returns has looked in vain.
        Persistent operations that are created while recording pauses may be started later."""
        call = f"{function.next}{function.call()}"
        when = (
            "hopbyte_recorder.begun"
            if function.name.endswith(("_init", "_init_c"))
            else "hopbyte_recording()"
        )
        number = len(self.names)
        self.names.append(f"{function.prefix}_{function.name}")
        prepare = f"if (hopbyte_tracing()) {{ {filled(before, function)} }}" if before else ""
        threads = "hopbyte_threaded && hopbyte_tracing()"
        begins = f"if ({threads}) {{ {filled(begin, function)} }}" if begin else ""
        closes = f"if ({threads}) hopbyte_trace_close();" if begin else ""
        waits = "begun = hopbyte_look_begin(begun);" if vain else ""
        looked = (
            f"if (rc == MPI_SUCCESS && ({filled(vain, function)})) hopbyte_look_vain(ended);"
            if vain
            else ""
        )
        return function.definition(f"""{{
    if (hopbyte_depth || !{when})
        return {call};
    hopbyte_depth++;
    {prepare}{begins}
    uint64_t begun = hopbyte_clock();
    hopbyte_call_begin({number}, begun);
    int rc = {call};
    uint64_t ended = hopbyte_clock();
    {waits}
    hopbyte_call_count_time({number}, begun, ended);
    {looked}
    if (hopbyte_tracing()) {{
        hopbyte_trace_time(begun, ended);
        if (rc == MPI_SUCCESS) {{ {filled(trace, function)} }}
    }}
    if (__builtin_expect(rc == MPI_SUCCESS, 1))
        {{ {hook} }}
    {closes}
    hopbyte_depth--;
    return rc;
}}
""")

    def table(self) -> str:
        """The names, by number."""
        names = "".join(f'    "{name}",\n' for name in self.names)
        return (
            f"const char *const hopbyte_call_names[] = {{\n{names}}};\n"
            f"const int hopbyte_call_count = {len(self.names)};\n"
            f'_Static_assert({len(self.names)} <= CALLS_MAX, "too many functions");\n'
        )


def creation(function: Function, original: str) -> str:
    """A wrapper that numbers the communicator which a call creates, where the program is traced."""
    fresh = next(p.name for p in function.parameters if p.type.endswith("*") and "MPI_Comm" in p.type)
    return function.definition(f"""{{
    bool here = !hopbyte_depth && hopbyte_recorder.begun && hopbyte_tracing();
    hopbyte_depth++;
    int rc = {function.next}{function.call()};
    if (here && rc == MPI_SUCCESS)
        hopbyte_comm_created(*{fresh}, {original});
    hopbyte_depth--;
    return rc;
}}
""")


def within(function: Function) -> str:
    """A wrapper under which the library's own calls are not the program's."""
    return function.definition(f"""{{
    hopbyte_depth++;
    {function.returns} rc = {function.next}{function.call()};
    hopbyte_depth--;
    return rc;
}}
""")


def unknown(function: Function) -> str:
    """The hook of a call that sends data in a way that the recorder does not know."""
    return (
        f'hopbyte_unknown("{function.prefix}_{function.name}", "a function that the recorder does not know");'
    )


def persistent(collect: str, declared: str = "struct hopbyte_sink sink = {0};") -> str:
    """The hook of a call that creates a persistent operation: stores the sends of every start."""
    return f"""{{
            {declared}
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
    table |= {name: persistent("") for name in NO_SENDS}
    table |= {name: f"hopbyte_rma_count({arguments});" for name, arguments in RMA.items()}
    table |= {name: "hopbyte_started(root, comm, *intercomm);" for name in ("Comm_spawn", "Comm_spawn_multiple")}
    for name, (hook, arguments) in COLLECTIVES.items():
        collect = f"hopbyte_collective_{hook}(&sink, {arguments});"
        table[name] = f"hopbyte_collective_{hook}(NULL, {arguments});"
        if name in REDUCTIONS:
            table[name] = f"{sink(name, '.counted = true')} {collect}"
        table["I" + name.lower()] = f"{sink(name, '.counted = true', 'HOW_NONBLOCKING')} {collect}"
        table[f"{name}_init"] = persistent(collect, sink(name, "HOW_PERSISTENT"))
    return table


def sends_data(function: Function) -> bool:
    """Whether a function that is not in the tables looks like communication."""
    kinds = ("MPI_Comm", "MPI_Win")
    return function.returns == "int" and function.has("MPI_Datatype") and any(function.has(k) for k in kinds)


def generate(functions: dict[str, Function]) -> str:
    """The C source of all wrappers: of the standard's functions, whether the header declares them or not, of their
    extensions before they were standard, and of functions that the recorder does not know."""
    parts = ['#include "record.h"\n']
    wrappers = Wrappers()
    everything = complete(functions)
    counted, traced, opened = hooks(), traces(), opens()
    for name, original in CREATES.items():
        parts.append(creation(everything[name], original))
    parts += [within(function) for name, function in everything.items() if FILES.fullmatch(name)]
    for name, hook in counted.items():
        for variant in (name, f"{name}_c"):
            if variant in everything:
                trace, begin = traced.get(name, ""), opened.get(name, "")
                before = BOTH_BEFORE if name in {"Sendrecv", "Sendrecv_replace"} else ""
                parts.append(wrappers.define(everything[variant], hook, trace, before, begin=begin))
    for name, (before, after, vain) in TIMED.items():
        for variant in (name, f"{name}_c"):
            if variant in everything:
                begin = opened.get(name, "")
                parts.append(wrappers.define(everything[variant], "", after, before, vain, begin))
    for name in (
        name for name in counted if name.endswith("_init") and name not in {*PERSISTENT_SENDS, *NO_SENDS}
    ):
        if f"MPIX_{name}" not in functions:  # persistent collectives of Open MPI 4
            extension = replace(everything[name], prefix="MPIX", newer=True, declared=False)
            parts.append(wrappers.define(extension, counted[name], traced[name]))
    standard = read_standard()
    for name, function in functions.items():
        bare = name.removesuffix("_c")
        if name not in standard and bare not in counted and sends_data(function):
            hook = counted.get(bare.removeprefix("MPIX_")) or unknown(function)
            parts.append(wrappers.define(function, hook, traced.get(bare.removeprefix("MPIX_"), "")))
    return "\n".join([*parts, wrappers.table()])
