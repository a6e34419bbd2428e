"""Reads the function prototypes of an MPI header from the C preprocessor's output."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Parameter:
    """One parameter: `type` is everything before the name, `array` everything after it."""

    type: str
    name: str
    array: str

    @property
    def text(self) -> str:
        """The parameter as a C declaration."""
        return f"{self.type} {self.name}{self.array}"


@dataclass(frozen=True)
class Function:
    """An MPI function as its header declares it; `name` is without the prefix, MPI_ or MPIX_."""

    returns: str
    name: str
    parameters: tuple[Parameter, ...]
    prefix: str = "MPI"
    newer: bool = False  # not in MPI 3.1: a library may lack it
    declared: bool = True  # by the header

    @property
    def declaration(self) -> str:
        """The parameter list, in parentheses."""
        return "(" + (", ".join(p.text for p in self.parameters) or "void") + ")"

    def call(self, replace: dict[str, str] | None = None) -> str:
        """The argument list that passes the parameters on, some replaced by other expressions."""
        replace = replace or {}
        return "(" + ", ".join(replace.get(p.name, p.name) for p in self.parameters) + ")"

    def has(self, kind: str) -> bool:
        """Whether there is a parameter of this type, not an array or pointer."""
        return any(p.type == kind and not p.array for p in self.parameters)

    def definition(self, body: str) -> str:
        """Its definition in a preload library; a library that lacks the function still seems to lack it."""
        what = f"({self.returns}, {self.prefix}, {self.name}, {self.declaration})"
        if not self.newer:
            return f"HOPBYTE_DEFINE_AS{what}\n{body}"
        names = [] if self.declared else [f"{self.prefix}_{self.name}", f"P{self.prefix}_{self.name}"]
        lines = [f"{self.returns} {name}{self.declaration};\n" for name in names]
        return f"{''.join(lines)}HOPBYTE_DEFINE_NEWER{what}\n{body}"

    def definition_if(self, concerned: str, body: str) -> str:
        """Its definition with `body` for calls of which the C expression `concerned` is true. The others take one jump,
        without a stack frame: programs that use nothing of a tool do not become slower by it."""
        own, here = f"{self.prefix}_{self.name}", f"hopbyte_{self.name}"
        names = [] if self.declared else [f"{self.returns} P{own}{self.declaration};\n"]
        return f"""{"".join(names)}HOPBYTE_STRAIGHT({self.returns}, {self.prefix}, {self.name}, {self.declaration}, {self.call()})
__attribute__((noinline)) static {self.returns} {here}_concerned{self.declaration}
{body}
""" + self.definition(f"""{{
    if (__builtin_expect({concerned}, 0))
        return {here}_concerned{self.call()};
    return HOPBYTE_STRAIGHT_CALL({self.name}){self.call()};
}}
""")

    @property
    def next(self) -> str:
        """An expression: the library's own function."""
        return f"NEXT_AS({self.prefix}, {self.name})"


def strip_attributes(text: str) -> str:
    """Removes every __attribute__((…)), however its parentheses nest."""
    kept: list[str] = []
    at = 0
    for match in re.finditer(r"__attribute__\s*\(", text):
        if match.start() < at:
            continue
        kept.append(text[at : match.start()])
        depth, end = 1, match.end()
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        at = end
    kept.append(text[at:])
    return "".join(kept)


def parse_parameter(text: str) -> Parameter | None:
    """One parameter, or None for one that has no name or is not plain (function pointers, `...`)."""
    match = re.fullmatch(r"(.*?[\s*])(\w+)\s*((?:\[[^\]]*\]\s*)*)", text.strip(), flags=re.DOTALL)
    if not match or "(" in text:
        return None
    kind = re.sub(r"\s+", " ", match[1]).strip()
    return Parameter(kind, match[2], match[3].strip()) if kind else None


def parse_functions(text: str) -> dict[str, Function]:
    """All functions MPI_X(…) declared in preprocessed text that a wrapper can pass on, by X; MPIX_X by that name."""
    functions: dict[str, Function] = {}
    pattern = r"\b(int|double|MPI_\w+)\s+(MPIX?)_(\w+)\s*\(([^;{}]*?)\)\s*;"
    for match in re.finditer(pattern, strip_attributes(text)):
        inside = match[4].strip()
        parameters = [] if inside == "void" else [parse_parameter(p) for p in inside.split(",")]
        plain = [p for p in parameters if p is not None]
        if len(plain) == len(parameters):
            key = match[3] if match[2] == "MPI" else f"MPIX_{match[3]}"
            extension = match[2] == "MPIX"
            functions[key] = Function(match[1], match[3], tuple(plain), match[2], newer=extension)
    return functions


def read_standard() -> dict[str, Function]:
    """The functions of the standard, by name without MPI_."""
    text = (Path(__file__).parent / "standard.h").read_text(encoding="utf-8")
    old, newer = text.split("/* newer */")
    functions = parse_functions(old)
    for name, f in parse_functions(newer).items():
        functions[name] = replace(f, newer=True)
    return functions


def complete(declared: dict[str, Function]) -> dict[str, Function]:
    """The functions of a header, and those of the standard that it lacks."""
    functions = dict(declared)
    for name, f in read_standard().items():
        if name in declared:
            functions[name] = replace(declared[name], newer=f.newer)
        else:
            functions[name] = replace(f, declared=False)
    return functions


def read_functions(compiler: list[str], header: str) -> dict[str, Function]:
    """Preprocesses `header` with `compiler` (command and flags) and parses its declarations."""
    command = [*compiler, "-E", "-P", "-x", "c", "-"]
    source = f"#include <{header}>\n"
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"generate: cannot preprocess {header}: {' '.join(command)}\n{done.stderr}")
    functions = parse_functions(done.stdout)
    if len(functions) < 300:
        raise SystemExit(
            f"generate: {header} declares only {len(functions)} MPI functions; is it the right header?"
        )
    return functions
