"""Errors (RFC 9457)."""

from __future__ import annotations

from rota.contract.fields import Out


class FieldProblem(Out, kw_only=True):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(Out, kw_only=True):
    """A problem as RFC 9457 defines it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | None = None
