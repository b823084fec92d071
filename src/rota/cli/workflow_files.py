"""Files with a workflow: YAML, JSON or TOML, read so that nothing is taken for something else.

A key that stands twice is refused with its line: decoders keep the last one and say nothing. Of YAML 1.1 what surprises
is left out: `on`, `no` and 2027-01-31 are text, as in YAML 1.2.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rota.contract.json_rules import bad_json
from rota.contract.workflows import WorkflowIn
from rota.errors import BadInputError

_FIELD = "FILE"
_BOOLEAN = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INTEGER = re.compile(r"^(?:[-+]?(?:0|[1-9][0-9]*))$")
_LEFT_OUT = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int"}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # it comes without types
    """YAML with the types of JSON, and each key once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            key = self.construct_object(name, deep=True)
            line = name.start_mark.line + 1
            if not isinstance(key, str):
                raise BadInputError(f"line {line}: the key {name.value!r} is not text; put it in quotes", field=_FIELD)
            if key in seen:
                raise BadInputError(f"line {line}: {key!r} is given twice", field=_FIELD)
            seen.add(key)
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return made


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in _LEFT_OUT]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))


def read_workflow(file: str) -> WorkflowIn:
    """The workflow in a file; raises BadInputError that says where it is wrong."""
    content = read_content(file)
    if not isinstance(content, dict):
        raise BadInputError(f"{file} must hold one workflow: name and nodes", field=_FIELD)
    try:
        return msgspec.convert(content, WorkflowIn)
    except msgspec.ValidationError as error:
        bad = bad_json(error)
        where, words = bad.fields[0] if bad.fields else ("", str(bad))
        raise BadInputError(f"{where}: {words}" if where else words, field=_FIELD) from None


def read_content(file: str) -> Any:
    """What a file says, as JSON has it; - is stdin."""
    return _parse(file, _text_of(file))


def _parse(file: str, text: str) -> Any:
    kind = Path(file).suffix.lower()
    if kind == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadInputError(f"{file} is not valid TOML: {error}", field=_FIELD) from None
    if kind == ".json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"{file} is not valid JSON: {error}", field=_FIELD) from None
        # What is JSON is YAML but for tabs, which stand between values only: this finds keys that are given twice.
        _parse_yaml(file, text.replace("\t", " "))
        return found
    return _parse_yaml(file, text)


def _parse_yaml(file: str, text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - made from the safe loader
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        words = getattr(error, "problem", None) or error
        raise BadInputError(f"{file} is not valid YAML{where}: {words}", field=_FIELD) from None


def _text_of(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInputError(f"{file} is not UTF-8 text", field=_FIELD) from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file} can't be read ({getattr(error, 'strerror', error)})", field=_FIELD) from None
