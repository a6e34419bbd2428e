"""`docs/schemas` against the commands' real output: every object is valid, and has no field that its schema lacks."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
from conftest import Documents
from program import ROOT

FOLDER = ROOT / "docs/schemas"
SCHEMAS = {json.loads(f.read_text())["$id"]: json.loads(f.read_text()) for f in sorted(FOLDER.glob("*.json"))}
# Read by hopbyte only, or inputs with a page of their own: no output of a command.
INTERNAL = {
    "hopbyte.map-part/1", "hopbyte.map-seed/1", "hopbyte.sweep-journal/1", "hopbyte.machine/1", "hopbyte.scenario/1",
}  # fmt: skip
# Printed by verbs that need an MPI, root or a server: without a schema so far.
ELSEWHERE = {
    "hopbyte.demo.lab/1",
    "hopbyte.lab.background/1",
    "hopbyte.lab.counters/1",
    "hopbyte.record/1",
    "hopbyte.serving/1",
}


def closed(schema: Any) -> Any:
    """The same schema without room for further fields."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) if key != "enum" else value for key, value in schema.items()}
    if "properties" in schema and schema.get("additionalProperties") is None:
        made["additionalProperties"] = False
    return made


def named_in_the_source() -> set[str]:
    """Names of schemas in the crates."""
    text = "".join(path.read_text() for path in (ROOT / "crates").glob("*/src/**/*.rs"))
    return set(re.findall(r'"(hopbyte\.[a-z.-]+/\d+)"', text))


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_file_is_a_schema(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (FOLDER / (name.removeprefix("hopbyte.").replace("/", "-") + ".json")).exists()
    assert schema["properties"]["schema"] == {"const": name}
    assert "schema" in schema["required"] and schema["description"]


def test_every_output_has_a_schema() -> None:
    assert named_in_the_source() - INTERNAL - ELSEWHERE == set(SCHEMAS)


def test_the_book_lists_them() -> None:
    page = (ROOT / "docs/src/schemas.md").read_text()
    assert set(re.findall(r"^\| `(hopbyte\.[^`]*)`", page, re.M)) == set(SCHEMAS)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_outputs_are_valid(name: str, documents: Documents) -> None:
    assert documents[name], f"no command of the book prints {name}"
    validator = jsonschema.Draft202012Validator(closed(copy.deepcopy(SCHEMAS[name])))
    for command, value in documents[name]:
        errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]
        assert not errors, f"{command}\n" + "\n".join(errors[:5])


def test_no_output_is_without_a_schema(documents: Documents) -> None:
    assert [command for command, _ in documents["none"]] == []


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_wrong_value_is_refused(name: str, documents: Documents) -> None:
    """Each required field once absent, each of the first object once of another type."""
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    for field in SCHEMAS[name]["required"]:
        value = {k: v for k, v in documents[name][0][1].items() if k != field}
        assert not validator.is_valid(value), field
    for field in SCHEMAS[name]["properties"]:
        if not open_ended(name, field):
            assert not validator.is_valid({**documents[name][0][1], field: {"no such": ["thing"]}}), field


def open_ended(name: str, field: str) -> bool:
    """Fields whose keys are names of the input."""
    return "additionalProperties" in json.dumps(SCHEMAS[name]["properties"][field])
