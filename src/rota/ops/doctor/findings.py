"""What a check says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

_MEND = "this is a defect of Rota's: please report it"


class State(StrEnum):
    """How serious it is."""

    ok = "ok"
    warning = "warning"
    problem = "problem"


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, and the command or setting that mends it."""

    check: str
    state: State
    words: str
    mend: str | None = None


def ok(check: str, words: str) -> Finding:
    """It is as it should be."""
    return Finding(check, State.ok, words)


def warning(check: str, words: str, mend: str | None = None) -> Finding:
    """It works, but not as well or as safely as it could; or it is not there yet."""
    return Finding(check, State.warning, words, mend)


def problem(check: str, words: str, mend: str | None = None) -> Finding:
    """It does not work."""
    return Finding(check, State.problem, words, mend)


async def look(check: str, do: Callable[[], Awaitable[Iterable[Finding]]]) -> list[Finding]:
    """The findings of a check; one that fails itself is a finding too, so that the others are heard all the same."""
    try:
        return list(await do())
    except Exception as error:  # noqa: BLE001 - told as a finding
        return [problem(check, f"could not be looked at: {type(error).__name__}: {error}", _MEND)]
