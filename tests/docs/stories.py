"""Pages as stories: what a page of the documentation has its reader do, in order.

Blocks marked `sh` and `python` are done as they stand. A comment in the line above a block's fence says otherwise:

    <!-- file: tasks.py -->       the block is what this file holds
    <!-- adds to: tasks.py -->    the block goes to the end of this file
    <!-- background -->           the command goes on until the page ends; those in SERVES need no comment
    <!-- fails -->                it must end with another exit status than 0
    <!-- output -->               above a `text` block: what the block before it prints
    <!-- not run: reason -->      can't be done here

A comment that begins with `hidden sh` or `hidden python` holds steps that a reader need not see. One that begins with
`needs:` says what must be there before the first step: `server`, `server tasks:app`, `server tasks:app in
examples/first_steps`, `postgres`, or `page other.md in my-project`: the page goes on in the home that another page of
its folder left, in that directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

RUNNABLE = ("sh", "python")
FILES = {"file": "file", "adds to": "adds"}
SHELLS = ("bash", "shell", "console", "zsh")
FENCE = re.compile(r"^(\s*)```\s*(\w*)(.*)$")
COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
HIDDEN = re.compile(r"^<!-- hidden (sh|python)$")
NEEDS_SERVER = re.compile(r"server(?: (?P<app>\S+:\S+)(?: in (?P<place>\S+))?)?")
NEEDS_PAGE = re.compile(r"page (?P<page>\S+\.md) in (?P<place>\S+)")
SERVES = re.compile(r"^(?:\w+=\S+ )*(?:make up|rota (?:up|dev|api|scheduler|worker|top))\b(?!.*--(?:help|once)\b)")


class PageError(Exception):
    """A page that can't be read as a story: says where and why."""


@dataclass(frozen=True)
class Step:
    """A block of a page. `kind` is run, background, fails, output, file, adds or skipped; these three have a note."""

    line: int
    language: str
    kind: str
    text: str
    note: str = ""


@dataclass
class Page:
    """A page's steps, and what must be there before the first of them."""

    path: Path
    steps: list[Step] = field(default_factory=list)
    needs_postgres: bool = False
    needs_server: bool = False
    app: str | None = None
    place: str | None = None
    goes_on_from: Path | None = None

    @property
    def has_something_to_run(self) -> bool:
        """Whether there is anything in it that could fail."""
        return any(step.kind in ("run", "background", "fails") for step in self.steps)

    def parts_of_file(self, name: str) -> list[Step]:
        """The blocks that make up this file."""
        return [step for step in self.steps if step.kind in ("file", "adds") and step.note == name]


def read_page(path: Path) -> Page:
    """Reads a page; raises PageError for what nobody could do."""
    page = Page(path)
    lines = path.read_text().splitlines()
    number = 0
    while number < len(lines):
        number = _read_from(page, lines, number)
    return page


def _read_from(page: Page, lines: list[str], number: int) -> int:
    """Reads what begins in this line; gives the number of the line behind it."""
    line = lines[number]
    if hidden := HIDDEN.match(line):
        end = _find(lines, number, lambda text: text.strip() == "-->", page)
        page.steps.append(Step(number + 2, hidden[1], "run", _joined(lines[number + 1 : end])))
        return end + 1
    if fence := FENCE.match(line):
        end = _find(lines, number, lambda text: text.strip() == "```", page)
        _add_block(page, fence, lines, number, end)
        return end + 1
    if comment := COMMENT.match(line):
        _read_comment(page, comment[1], number, followed_by_block=_is_fence(lines, number + 1))
    elif "<!--" in line and "`" not in line:
        raise PageError(f"{page.path}:{number + 1}: a comment that nobody understands: {line.strip()}")
    return number + 1


def _find(lines: list[str], begin: int, is_end, page: Page) -> int:
    for number in range(begin + 1, len(lines)):
        if is_end(lines[number]):
            return number
    raise PageError(f"{page.path}:{begin + 1}: what begins here has no end")


def _is_fence(lines: list[str], number: int) -> bool:
    return number < len(lines) and FENCE.match(lines[number]) is not None


def _joined(lines: list[str]) -> str:
    return dedent("\n".join(lines)) + "\n"


def _read_comment(page: Page, text: str, number: int, *, followed_by_block: bool) -> None:
    word, _, rest = text.partition(":")
    if word == "needs":
        _add_needs(page, rest.strip(), number)
    elif not followed_by_block:
        raise PageError(f"{page.path}:{number + 1}: a comment that no block follows: {text}")


def _add_needs(page: Page, what: str, number: int) -> None:
    if page.steps:
        raise PageError(f"{page.path}:{number + 1}: what a page needs is said before its first block")
    if what == "postgres":
        page.needs_postgres = True
    elif match := NEEDS_PAGE.fullmatch(what):
        page.goes_on_from, page.place = page.path.with_name(match["page"]), match["place"]
    elif match := NEEDS_SERVER.fullmatch(what):
        page.needs_server, page.app, page.place = True, match["app"], match["place"]
    else:
        raise PageError(f"{page.path}:{number + 1}: nobody knows how to provide {what!r}")


def _add_block(page: Page, fence: re.Match[str], lines: list[str], begin: int, end: int) -> None:
    language = fence[2]
    comment = COMMENT.match(lines[begin - 1]) if begin else None
    directive = comment[1] if comment and not comment[1].startswith("needs:") else ""
    where = f"{page.path}:{begin + 1}"
    if language in SHELLS:
        raise PageError(f"{where}: blocks of commands are marked sh, not {language}")
    kind, note = _meaning(directive, language, where)
    if kind == "output" and not (page.steps and page.steps[-1].kind in ("run", "background", "fails")):
        raise PageError(f"{where}: there is no block before it that could have printed this")
    if kind:
        page.steps.append(Step(begin + 2, language, kind, _joined(lines[begin + 1 : end]), note))


def _meaning(directive: str, language: str, where: str) -> tuple[str, str]:
    """What is to be done with a block: its kind and note; no kind if nothing is."""
    word, _, note = (part.strip() for part in directive.partition(":"))
    if not directive:
        return ("run" if language in RUNNABLE else ""), ""
    if word in FILES and note:
        return FILES[word], note
    if word == "not run":
        if not note:
            raise PageError(f"{where}: 'not run' wants a reason")
        return "skipped", note
    if word == "output" and not note and language == "text":
        return "output", ""
    if word in ("background", "fails") and not note and language in RUNNABLE:
        return word, ""
    raise PageError(f"{where}: <!-- {directive} --> means nothing above a block of {language or 'no language'}")


def parts_of(text: str) -> Iterator[tuple[bool, str]]:
    """A block's commands, those that go on by themselves apart from the others: whether it does, and its lines."""
    waiting: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if not SERVES.match(line):
            waiting.append(line)
            continue
        if "".join(waiting).strip():
            yield False, "\n".join(waiting) + "\n"
        waiting = []
        yield True, line + "\n"
    if "".join(waiting).strip():
        yield False, "\n".join(waiting) + "\n"
