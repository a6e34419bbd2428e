"""The reordering library's wrappers: functions with a communicator argument get the reordered world for the world."""

from __future__ import annotations

from generate.header import Function, Parameter, complete

# Written by hand in reorder/world.c and reorder/topology.c, or correct without a wrapper: MPI_Abort ends the job either
# way, and a handle converted to a number must convert back to the same handle.
BY_HAND = {
    "Init",
    "Init_thread",
    "Finalize",
    "Abort",
    "Comm_c2f",
    "Comm_toint",
    "Comm_get_attr",
    "Attr_get",
    "Comm_set_errhandler",
    "Errhandler_set",
    "Cart_create",
    "Dist_graph_create_adjacent",
}


def generate(functions: dict[str, Function]) -> str:
    """The C source of all wrappers."""
    parts = ['#include "reorder.h"\n']
    for function in complete(functions).values():
        by_value = {p.name: f"hopbyte_world_of({p.name})" for p in function.parameters if is_communicator(p)}
        if not by_value or function.name in BY_HAND:
            continue
        body = f"{{\n    return {function.next}{function.call(by_value)};\n}}"
        parts.append(function.definition_if("hopbyte_world.on", body))
    if len(parts) < 100:
        raise SystemExit(
            f"generate: only {len(parts) - 1} functions take a communicator; is the header whole?"
        )
    return "\n".join(parts)


def is_communicator(parameter: Parameter) -> bool:
    """Whether a parameter is a communicator by value."""
    return parameter.type == "MPI_Comm" and not parameter.array
