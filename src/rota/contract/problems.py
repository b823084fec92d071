"""Errors (RFC 9457)."""

from __future__ import annotations

from rota.contract.fields import Out


class FieldProblem(Out, kw_only=True):
    """What is wrong with one field."""

    field: str
    """the field, as it is called here"""
    message: str
    """what is wrong with it"""


class Problem(Out, kw_only=True):
    """A problem as RFC 9457 defines it."""

    type: str
    """the kind of problem, as a URN"""
    title: str
    """the kind in words"""
    status: int
    """the HTTP status"""
    detail: str
    """what is wrong, and what to do"""
    errors: list[FieldProblem] | None = None
    """the fields that are wrong"""
