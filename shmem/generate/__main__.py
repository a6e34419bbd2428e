"""usage: python3 -m generate header|source FILE

Writes the functions of every type and operation from one table: reductions on teams by Cray's names (paper 004, table II)
and by OpenSHMEM 1.5's, on active sets by OpenSHMEM 1.4's, and the typed data movement of OpenSHMEM 1.5.
"""

from __future__ import annotations

import sys
from pathlib import Path

BITS = ("and", "or", "xor")
ORDER = ("min", "max")
ARITHMETIC = ("sum", "prod")
ALL = BITS + ORDER + ARITHMETIC

# name, C type, operations, has a reduction on active sets in OpenSHMEM 1.4
TYPES: list[tuple[str, str, tuple[str, ...], bool]] = [
    ("char", "char", ALL, False),
    ("schar", "signed char", ALL, False),
    ("short", "short", ALL, True),
    ("int", "int", ALL, True),
    ("long", "long", ALL, True),
    ("longlong", "long long", ALL, True),
    ("uchar", "unsigned char", ALL, False),
    ("ushort", "unsigned short", ALL, False),
    ("uint", "unsigned int", ALL, False),
    ("ulong", "unsigned long", ALL, False),
    ("ulonglong", "unsigned long long", ALL, False),
    ("int8", "int8_t", ALL, False),
    ("int16", "int16_t", ALL, False),
    ("int32", "int32_t", ALL, False),
    ("int64", "int64_t", ALL, False),
    ("uint8", "uint8_t", ALL, False),
    ("uint16", "uint16_t", ALL, False),
    ("uint32", "uint32_t", ALL, False),
    ("uint64", "uint64_t", ALL, False),
    ("size", "size_t", ALL, False),
    ("ptrdiff", "ptrdiff_t", ALL, False),
    ("float", "float", ORDER + ARITHMETIC, True),
    ("double", "double", ORDER + ARITHMETIC, True),
    ("longdouble", "long double", ORDER + ARITHMETIC, True),
    ("complexf", "float _Complex", ARITHMETIC, True),
    ("complexd", "double _Complex", ARITHMETIC, True),
]
EXPRESSION = {
    "and": "a[i] & b[i]",
    "or": "a[i] | b[i]",
    "xor": "a[i] ^ b[i]",
    "min": "b[i] < a[i] ? b[i] : a[i]",
    "max": "b[i] > a[i] ? b[i] : a[i]",
    "sum": "a[i] + b[i]",
    "prod": "a[i] * b[i]",
}
# Distinct types for _Generic; the others are names of these.
GENERIC = ("char", "schar", "short", "int", "long", "longlong", "uchar", "ushort", "uint", "ulong", "ulonglong")
REAL = ("float", "double", "longdouble")
COMPLEX = ("complexf", "complexd")


def team_arguments(c: str) -> str:
    """Parameters of Cray's reductions (paper 004, table II)."""
    return f"hopbyte_team_t team, {c} *dest, const {c} *source, int nreduce, {c} *pWrk, long *pSync"


def active_arguments(c: str) -> str:
    """Parameters of OpenSHMEM 1.4's reductions."""
    return f"{c} *dest, const {c} *source, int nreduce, int PE_start, int logPE_stride, int PE_size, {c} *pWrk, long *pSync"


def generic(name: str, types: list[str], function: str, arguments: str) -> list[str]:
    """A C11 type-generic macro over hopbyte's functions."""
    c_type = {name: c for name, c, *_ in TYPES}
    rows = ", ".join(f"{c_type[t]} *: hopbyte_{t}_{function}" for t in types)
    return [
        f"#undef shmem_{name}",
        f"#define shmem_{name}(team, dest, {arguments}) _Generic((dest), {rows})((team), (dest), {arguments})",
    ]


def header() -> list[str]:
    """Prototypes, and the names of OpenSHMEM 1.5."""
    lines = ["/* Written by shmem/generate. */", "#ifndef __cplusplus"]
    renames = []
    for name, c, operations, _ in TYPES:
        for operation in operations:
            lines.append(f"void shmemx_team_{name}_{operation}_to_all({team_arguments(c)});")
            lines.append(
                f"int hopbyte_{name}_{operation}_reduce(hopbyte_team_t team, {c} *dest, const {c} *source, size_t nreduce);"
            )
            renames.append(f"#define shmem_{name}_{operation}_reduce hopbyte_{name}_{operation}_reduce")
        if name in COMPLEX:
            continue
        team, data = "hopbyte_team_t team", f"{c} *dest, const {c} *source"
        lines += [
            f"int hopbyte_{name}_broadcast({team}, {data}, size_t nelems, int PE_root);",
            f"int hopbyte_{name}_collect({team}, {data}, size_t nelems);",
            f"int hopbyte_{name}_fcollect({team}, {data}, size_t nelems);",
            f"int hopbyte_{name}_alltoall({team}, {data}, size_t nelems);",
            f"int hopbyte_{name}_alltoalls({team}, {data}, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);",
        ]
        renames += [
            f"#define shmem_{name}_{call} hopbyte_{name}_{call}"
            for call in ("broadcast", "collect", "fcollect", "alltoall", "alltoalls")
        ]
    lines += ["#endif", "#if !defined(HOPBYTE_SHMEM_KEEP_LIBRARY_TEAMS)", *renames]
    lines.append("#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L")
    for operation in ALL:
        kinds = [*GENERIC]
        kinds += REAL if operation in ORDER + ARITHMETIC else []
        kinds += COMPLEX if operation in ARITHMETIC else []
        lines += generic(f"{operation}_reduce", kinds, f"{operation}_reduce", "source, nreduce")
    moved = [*GENERIC, *REAL]
    lines += generic("broadcast", moved, "broadcast", "source, nelems, root")
    for call in ("collect", "fcollect", "alltoall"):
        lines += generic(call, moved, call, "source, nelems")
    lines += generic("alltoalls", moved, "alltoalls", "source, dst, sst, nelems")
    return [*lines, "#endif", "#endif"]


def source() -> list[str]:
    """Definitions: a loop for each type and operation, and calls of the engine."""
    lines = ["/* Written by shmem/generate. */", '#include "state.h"', "#include <complex.h>"]
    for name, c, operations, active in TYPES:
        for operation in operations:
            fold = f"fold_{name}_{operation}"
            call = f"shmemx_team_{name}_{operation}_to_all"
            # Small integers are promoted; the result is stored modulo 2^n as in C.
            lines += [
                f"static void {fold}(void *into, const void *from, size_t count)",
                f"{{ {c} *a = into; const {c} *b = from;",
                f"  for (size_t i = 0; i < count; i++) a[i] = ({c})({EXPRESSION[operation]}); }}",
                f'static const struct fold of_{name}_{operation} = {{"{name}", "{operation}", sizeof({c}), {fold}}};',
                f"void {call}({team_arguments(c)})",
                f'{{ (void)pWrk; (void)pSync; if (nreduce < 0) shmem_fail("{call}: nreduce %d", nreduce);',
                f'  reduce_team(team_mine(team, "{call}"), "{call}", dest, source, (size_t)nreduce, &of_{name}_{operation}); }}',
                f"int hopbyte_{name}_{operation}_reduce(hopbyte_team_t team, {c} *dest, const {c} *source, size_t nreduce)",
                f"{{ return hopbyte_reduce(team, dest, source, nreduce, &of_{name}_{operation}); }}",
            ]
            if active:
                set_call = f"shmem_{name}_{operation}_to_all"
                lines += [
                    f"void {set_call}({active_arguments(c)})",
                    "{ hopbyte_reduce_active(dest, source, nreduce, PE_start, logPE_stride, PE_size, pWrk, pSync,",
                    f'    &of_{name}_{operation}, "{set_call}"); }}',
                ]
        if name in COMPLEX:
            continue
        team, data = "hopbyte_team_t team", f"{c} *dest, const {c} *source"
        lines += [
            f"int hopbyte_{name}_broadcast({team}, {data}, size_t n, int root)",
            f"{{ return hopbyte_broadcastmem(team, dest, source, n * sizeof({c}), root); }}",
            f"int hopbyte_{name}_alltoalls({team}, {data}, ptrdiff_t dst, ptrdiff_t sst, size_t n)",
            f"{{ return hopbyte_alltoallsmem(team, dest, source, dst, sst, n, sizeof({c})); }}",
        ]
        for move in ("collect", "fcollect", "alltoall"):
            lines += [
                f"int hopbyte_{name}_{move}({team}, {data}, size_t n)",
                f"{{ return hopbyte_{move}mem(team, dest, source, n * sizeof({c})); }}",
            ]
    return lines


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    lines = header() if what == "header" else source()
    fresh = path.with_suffix(f"{path.suffix}.new")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(path)


if __name__ == "__main__":
    main()
