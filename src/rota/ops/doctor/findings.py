"""Findings: what a check reports."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How serious it is."""

    ok = "ok"
    warning = "warning"
    problem = "problem"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was checked, how it is, and the command or setting that fixes it."""

    check: str
    state: State
    words: str
    fix: str | None = None


def ok(check: str, words: str) -> Finding:
    """All is well."""
    return Finding(check, State.ok, words)


def warning(check: str, words: str, fix: str | None = None) -> Finding:
    """It works, but not as well or as safely as it could; or it is not set up yet."""
    return Finding(check, State.warning, words, fix)


def problem(check: str, words: str, fix: str | None = None) -> Finding:
    """It does not work."""
    return Finding(check, State.problem, words, fix)


async def collect(
    check: str, findings: Iterable[Finding] | AsyncIterable[Finding] | Awaitable[Iterable[Finding]]
) -> list[Finding]:
    """The findings of a check. If the check itself fails, that is a finding too."""
    try:
        if isinstance(findings, AsyncIterable):
            return [finding async for finding in findings]
        return list(await findings if isinstance(findings, Awaitable) else findings)
    except Exception as error:  # noqa: BLE001 - reported as a finding
        return [
            problem(
                check, f"the check failed: {type(error).__name__}: {error}", "this is a bug in Rota: please report it"
            )
        ]
