"""Documents tell the truth: commands, options, links and variables in them exist."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import msgspec
import pytest
import typer

from bench.report import Results, readme_with_figures
from rota import settings
from rota.cli.main import app
from rota.domain.cron_grammar import MACROS, parse_fields
from rota.testing.databases import SERVER_VARIABLE
from rota.worker.runners import command, script

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"
README_EXAMPLE_BY_LINE = 20
README_PYTHON_BY_LINE = 40

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CRON = re.compile(r"[\dH*@][^ ]*( [^ ]+){4,5}")
VARIABLE = re.compile(r"\bROTA_[A-Z_]+\b")

ROTA = typer.main.get_command(app)
FOR_SCRIPTS = set(re.findall(r'"(ROTA_[A-Z_]+)"', inspect.getsource(script) + inspect.getsource(command)))
FOR_TESTS = {SERVER_VARIABLE}


def name_of(path):
    return str(path.relative_to(ROOT))


def shell_lines(text):
    """The lines of shell blocks, with continued lines joined."""
    blocks = [body for language, body in FENCE.findall(text) if language in ("sh", "shell", "bash")]
    return [line.strip() for body in blocks for line in body.replace("\\\n", " ").splitlines() if line.strip()]


def commands_of(text):
    """Every `rota …` of a document: in shell blocks, and in the running text."""
    prose = FENCE.sub("", text)
    found = [*shell_lines(text), *INLINE.findall(prose)]
    return [line for line in found if line == "rota" or line.startswith(("rota ", ".venv/bin/rota "))]


def options_of(command):
    words = {word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)}
    return {word for word in words if word.startswith("-")}


def problem_with(line):
    """What is wrong with a command line, or None."""
    words = shlex.split(line, comments=True)[1:]
    command, known = ROTA, options_of(ROTA)
    for word in words:
        subcommands = getattr(command, "commands", {})
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in known | {"--help", "-h"}:
                return f"{command.name} has no option {word}"
        elif word in subcommands:
            command = subcommands[word]
            known = options_of(command)
        elif command is ROTA and word != "COMMAND":
            return f"there is no command {word}"
    return None


def all_commands():
    return [(name_of(path), line) for path in DOCUMENTS for line in commands_of(path.read_text())]


def anchors_of(path):
    """Anchors of headings, by GitHub's rule."""
    headings = HEADING.findall(FENCE.sub("", path.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def documented_commands(command, path=()):
    """The full names of all commands there are."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield (*path, name)
        yield from documented_commands(subcommand, (*path, name))


@pytest.mark.parametrize(("document", "line"), all_commands())
def test_every_command_in_a_document_exists_with_its_options(document, line):
    assert problem_with(line) is None


def test_the_check_of_commands_finds_what_is_wrong():
    assert problem_with("rota submit hello --task rota.echo --wait") is None
    assert problem_with("rota dead-letters redrive --all") is None
    assert "no command" in problem_with("rota sumbit hello")
    assert "no option --taks" in problem_with("rota submit hello --taks x")
    assert "no option --all" in problem_with("rota dead-letters --all")


def test_documents_have_commands_at_all():
    assert len(all_commands()) > 30


def test_the_reference_names_every_command_and_every_option():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for path in documented_commands(ROTA):
        assert f"rota {' '.join(path)}" in page
        command = ROTA
        for name in path:
            command = command.commands[name]
        missing = {option for option in options_of(command) - {"--help", "-h"} if f"`{option}" not in page}
        assert not missing, f"rota {' '.join(path)}: {missing}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(document):
    for target in LINK.findall(FENCE.sub("", document.read_text())):
        if "://" in target:
            continue
        place, _, anchor = target.partition("#")
        path = (document.parent / place).resolve() if place else document
        assert path.exists(), target
        assert path.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors_of(path), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_variable_in_a_document_exists(document):
    mentioned = set(VARIABLE.findall(document.read_text()))
    secrets = {name for name in mentioned if name.startswith(settings.SECRET_PREFIX)}
    assert mentioned - secrets <= set(settings.VARIABLES) | FOR_SCRIPTS | FOR_TESTS


@pytest.mark.parametrize("variable", sorted({*settings.VARIABLES, *FOR_SCRIPTS, *FOR_TESTS}))
def test_every_variable_is_in_the_reference(variable):
    assert f"`{variable}`" in SETTINGS_PAGE.read_text()


def test_the_defaults_in_the_reference_are_the_real_ones():
    rows = re.findall(r"^\| `(ROTA_[A-Z_]+)` \| `([^`]+)` \|", SETTINGS_PAGE.read_text(), re.MULTILINE)
    told = {variable: default for variable, default in rows if variable not in ("ROTA_HOME", "ROTA_DATABASE_URL")}
    assert len(told) > 8
    for variable, default in told.items():
        field = settings.VARIABLES[variable]
        assert settings.parse(variable, default) == getattr(settings.Settings(), field.name), variable


def test_the_figures_in_the_readme_are_those_of_the_last_benchmark():
    results = msgspec.json.decode((ROOT / "bench" / "results" / "results.json").read_bytes(), type=Results)
    readme = (ROOT / "README.md").read_text()
    assert readme_with_figures(readme, results) == readme
    assert readme.count("jobs/s") > 1


def test_the_readme_has_a_runnable_example_by_line_20_and_python_by_line_40():
    beginning = "\n".join((ROOT / "README.md").read_text().splitlines()[:README_EXAMPLE_BY_LINE])
    lines = shell_lines(beginning)
    assert "make up" in lines
    assert any(line.startswith("rota submit ") for line in lines)
    assert "@app.task" in (ROOT / "README.md").read_text().splitlines()[:README_PYTHON_BY_LINE]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_modules_named_in_documents_are_there(document):
    for path in re.findall(r"`((?:src|docs|examples|tests)/[\w./-]+)`", document.read_text()):
        assert (ROOT / path).exists(), path


def test_cron_expressions_in_the_reference_can_be_read():
    page = (ROOT / "docs" / "reference" / "schedules.md").read_text()
    written = [text for text in INLINE.findall(FENCE.sub("", page)) if CRON.fullmatch(text)]
    assert len(written) > 20
    assert {*MACROS, *MACROS.values()} <= {*written, *INLINE.findall(page)}
    for expression in written:
        assert parse_fields(expression)


def test_the_example_tasks_can_be_loaded():
    where = ROOT / "examples" / "first_steps" / "tasks.py"
    spec = importlib.util.spec_from_file_location("tasks", where)
    tasks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    assert set(tasks.app.tasks) == {"tasks.greet", "count", "charge"}
