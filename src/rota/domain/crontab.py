"""Parses crontabs into entries that can become jobs.

It reads them as Vixie cron and its descendants in Debian and Red Hat do. A line is a comment, a variable for the lines
below it, or an entry: five fields or a name such as @daily, in a system crontab the account, and the command. An
unescaped percent sign ends the command; what follows is standard input, with further percent signs as line breaks. The
five fields mean the same as in Rota, including the rule of the two day fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rota.domain.cron_grammar import MACROS, parse_fields
from rota.domain.runner_payloads import SHELL
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

TIMEZONE = "CRON_TZ"
AT_START = "@reboot"
_FIELDS = 5
_VARIABLE = re.compile(r"""(["']?)([A-Za-z_][A-Za-z0-9_]*)\1[ \t]*=[ \t]*(.*?)[ \t]*""", re.DOTALL)
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_WORD = re.compile(r"(\S+)[ \t]+(?=\S)")
_AT_RANDOM = re.compile(r"(?<![^,])(?:(\d+)?~(\d+)?)(?=$|[,/])")
_RANGES = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))  # of ~ without bounds
_MAIL = "MAILTO"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A command and when to run it."""

    line: int
    expression: str
    command: str
    given: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    user: str | None = None

    @property
    def shell(self) -> str:
        return self.environment.get("SHELL") or SHELL


@dataclass(frozen=True)
class Remark:
    """A problem or remark about a line."""

    line: int
    words: str


@dataclass
class Crontab:
    """A parsed file: entries, lines that can't be read, and remarks on lines that are ignored or mean less here."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


def parse_crontab(text: str, *, system: bool = False) -> Crontab:
    """Parses a crontab; with `system` each entry names the account before its command."""
    found = Crontab()
    environment: dict[str, str] = {}
    spoilt: set[str] = set()  # variables that could not be set: lines below must not run without them
    for number, line in _lines(text):
        if variable := _VARIABLE.fullmatch(line):
            name, is_set = _set(found, environment, number, variable)
            spoilt = spoilt - {name} if is_set else spoilt | {name}
        elif line.lower().startswith(AT_START):
            found.remarks.append(Remark(number, f"{AT_START} is no time: left out; let the host's init start it"))
        else:
            try:
                entry = _entry(number, line, environment, system=system)
            except BadInputError as error:
                found.problems.append(Remark(number, str(error)))
                continue
            if spoilt:
                problem = f"needs {', '.join(sorted(spoilt))}, which could not be set above"
                found.problems.append(Remark(number, problem))
            else:
                found.entries.append(entry)
    return found


def split_input(text: str) -> tuple[str, str]:
    """Splits a command from its standard input at the first unescaped percent sign."""
    command, rest = _before_percent(text)
    return command, "" if rest is None else _input(rest)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r").lstrip(" \t")
        if line.strip() and not line.startswith("#"):
            yield number, line


def _set(found: Crontab, environment: dict[str, str], number: int, variable: re.Match[str]) -> tuple[str, bool]:
    """Sets a variable if possible; returns its name, and whether it was set."""
    name, value = variable[2], variable[3]
    if quoted := _QUOTED.fullmatch(value):
        value = quoted[2]
    if problem := _problem_with(name, value):
        found.problems.append(Remark(number, problem))
        return name, False
    if name == _MAIL and value:
        found.remarks.append(Remark(number, f"{_MAIL}: nothing is mailed; what a command prints is in its log"))
    environment[name] = value
    return name, True


def _problem_with(name: str, value: str) -> str | None:
    if name == TIMEZONE:
        try:
            load_zone(value)
        except BadInputError as error:
            return f"{TIMEZONE}: {error}"
    if name == "SHELL" and not value.startswith("/"):
        return "SHELL must be the whole path of a shell"
    if name.startswith("ROTA_") or "\x00" in value:
        return f"{name} can't be set for a command"
    return None


def _entry(number: int, line: str, environment: Mapping[str, str], *, system: bool) -> Entry:
    # A minus before the minute tells some crons not to log the entry.
    words, rest = _take(line.removeprefix("-"), 1 if line.startswith("@") else _FIELDS)
    expression = _expression(words)
    user = None
    if system:
        (user,), rest = _take(rest, 1, "the account and the command")
    command, given = split_input(rest)
    if not command.strip() or "\x00" in rest:
        raise BadInputError("has no command")
    variables = {name: value for name, value in environment.items() if name not in (TIMEZONE, _MAIL)}
    return Entry(
        line=number,
        expression=expression,
        command=command.strip(),
        given=given,
        environment=variables,
        timezone=environment.get(TIMEZONE) or None,
        user=user,
    )


def _take(text: str, count: int, wanted: str = "five fields and a command") -> tuple[list[str], str]:
    """Takes this many words; returns them and the rest."""
    words: list[str] = []
    for _ in range(count):
        word = _WORD.match(text)
        if word is None:
            raise BadInputError(f"is incomplete: {wanted} are expected")
        words.append(word[1])
        text = text[word.end() :]
    return words, text


def _expression(words: list[str]) -> str:
    """The cron expression in Rota's form; raises BadInputError if invalid."""
    if len(words) == 1:
        if words[0].lower() not in MACROS:
            raise BadInputError(f"{words[0]!r} is not known; {', '.join(MACROS)} are")
        return words[0].lower()
    expression = " ".join(_spread(word, *bounds) for word, bounds in zip(words, _RANGES, strict=True))
    parse_fields(expression)
    return expression


def _spread(word: str, low: int, high: int) -> str:
    """`10~20`, a random value chosen once, becomes `H(10-20)`, chosen by the job's id."""
    return _AT_RANDOM.sub(lambda match: f"H({match[1] or low}-{match[2] or high})", word)


def _before_percent(text: str) -> tuple[str, str | None]:
    """The text before and after the first unescaped percent sign."""
    command: list[str] = []
    escaped = False
    for position, letter in enumerate(text):
        if escaped and letter == "%":
            command[-1] = letter
        elif letter == "%":
            return "".join(command), text[position + 1 :]
        else:
            command.append(letter)
        escaped = letter == "\\" and not escaped
    return "".join(command), None


def _input(text: str) -> str:
    """Turns unescaped percent signs into line breaks; ends with a line break."""
    given = re.sub(r"\\%|%", lambda match: "%" if match[0] == r"\%" else "\n", text)
    return given if not given or given.endswith("\n") else f"{given}\n"
