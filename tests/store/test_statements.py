"""Statements and the calls that run them agree, as far as can be seen without a database."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from uuid import uuid4

import pytest

import rota.store
from rota.domain.job import Timetable
from rota.store.lease import leased
from rota.store.postgres.statements import Statement, load, load_all

SOURCES = sorted(Path(rota.__path__[0]).rglob("*.py"))
FETCHING = {"fetch", "fetch_row", "fetch_value"}


def calls():
    """Each call that names a statement: where, which, and the call itself."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FETCHING:
                match node.args:
                    case [ast.Constant(value=str(name)), *others] if " " not in name:
                        assert not others, f"{path}:{node.lineno}: {name} is given values without names"
                        yield path, name, node


def given(call):
    """The names that a call gives, and whether it gives others that can't be seen here."""
    names, unseen = [], False
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg=str(name)):
                names.append(name)
            case ast.keyword(value=ast.Call(func=ast.Name(id="columns"), args=[_, ast.Constant(value=str(text))])):
                names += text.split()
            case ast.keyword(value=ast.Call(func=ast.Name(id="leased"))):
                names += leased(uuid4(), {})
            case ast.keyword(value=ast.Call(func=ast.Attribute(attr="asdict"), args=[ast.Name(id="timetable")])):
                names += Timetable.__struct_fields__
            case _:
                unseen = True
    return {*names} - {"timeout"}, unseen


def test_every_call_gives_the_parameters_of_its_statement():
    wrong = []
    for path, name, call in calls():
        package = "rota.testing" if path.parent.name == "testing" and name in load_all("rota.testing") else "rota.store"
        wanted = {*load(name, package).names}
        names, unseen = given(call)
        if not (names <= wanted if unseen else names == wanted):
            wrong.append(f"{path}:{call.lineno}: {name} takes {sorted(wanted)}, is given {sorted(names)}")
    assert not wrong, "\n".join(wrong)


def test_every_statement_is_run_and_only_by_the_modules_beside_it():
    folders = {file.stem: file.parent for file in Path(rota.store.__path__[0]).glob("*/*.sql")}
    run = [(path, name) for path, name, _ in calls() if path.parent.name != "testing"]
    elsewhere = [f"{path} runs {name} of {folders[name]}" for path, name in run if path.parent != folders[name]]
    assert not elsewhere, "others call a function of that module:\n" + "\n".join(elsewhere)
    assert {name for _, name in run} == folders.keys()


def test_names_become_numbers_in_the_order_of_first_use():
    statement = Statement("name", "SELECT :b::text[], (:a)[1:2], x[y.a:y.b], ':c' -- :d\n WHERE :b = ANY (:a)", [])
    assert statement.text == "SELECT $1::text[], ($2)[1:2], x[y.a:y.b], ':c' -- :d\n WHERE $1 = ANY ($2)"
    assert statement.names == ("b", "a")


def test_the_columns_of_a_run_are_written_out():
    assert Statement("name", "SELECT {run}, {x.run}", ["id", "name"]).text == "SELECT id, name, x.id, x.name"


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT :a", "SELECT :a, :b"])
def test_what_is_missing_or_unknown_is_refused(sql):
    statement = Statement("name", sql, [])
    values = {name: name.upper() for name in reversed(statement.names)}
    assert statement.bind(values) == tuple(name.upper() for name in statement.names)
    with pytest.raises(TypeError, match="expected"):
        statement.bind({**values, "c": 1})
    if values:
        with pytest.raises(TypeError, match="expected"):
            statement.bind({**dict(list(values.items())[1:]), "c": 1})


STATEMENT_FILES = sorted(Path(rota.store.__path__[0]).glob("*/*.sql"))
CURRENT = Path(rota.store.__path__[0]) / "schema" / "current"
# How an idiom is recognised that a header must name; store/README.md explains them.
IDIOMS = {
    "OFFSET 0": r"\bOFFSET 0\b",
    "one-element array": r"= ANY \(ARRAY\[\w+\.\w+\]\)",
    "ctid": r"\bctid\b",
    "from position": r":begin_at\b",
    "by_id": r"rota\.by_id\(",
}


def header(path):
    """What the comment above a statement says, by its words: '' for what it does, 'Index', 'Locks', 'Idioms'."""
    found, word = {"": ""}, ""
    for line in path.read_text().splitlines():
        if not line.startswith("--"):
            break
        if match := re.match(r"-- (Index|Locks|Idioms): ", line):
            word = match[1]
        found[word] = f"{found.get(word, '')} {line[match.end() if match else 3 :]}".strip()
    return found


@pytest.mark.parametrize("path", STATEMENT_FILES, ids=lambda path: path.stem)
def test_a_header_says_what_a_statement_does_its_index_its_locks_and_its_idioms(path):
    said = header(path)
    assert said[""], "what it does"
    assert said.get("Index"), "`Index:` and the index that serves it, or none"
    assert said.get("Locks"), "`Locks:` and what it locks, or none"
    statement = re.sub(r"--[^\n]*", "", path.read_text())
    used = {idiom for idiom, pattern in IDIOMS.items() if re.search(pattern, statement)}
    named = {idiom for idiom in IDIOMS if idiom in said.get("Idioms", "")}
    assert named == used, "`Idioms:` and those of store/README.md that it uses"
    assert "$" not in said[""], "parameters have names"


def test_headers_name_indexes_that_are_there():
    schema = "".join(file.read_text() for file in CURRENT.glob("*.sql"))
    known = {*re.findall(r"(?:INDEX|CONSTRAINT|TABLE) (?:rota\.)?(\w+)", schema), "api_keys_hash_key"}
    wrong = [
        f"{path.name}: {word}"
        for path in STATEMENT_FILES
        for word in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", header(path)["Index"])
        if word not in known
    ]
    assert not wrong
