"""Whether a command printed what a page says it does: ids, times and measures are compared by their shape."""

from __future__ import annotations

import difflib
import re

ANYTHING = "…"
# In this order: what is longer first, so that no part of it is taken for something else.
SHAPES = [
    (re.compile(r"\b(run|job|key|wrk|evt|aud|wf|wfr|op)_[0-9a-f]{8,}…?"), r"\1_…"),
    (re.compile(r"\brota_[0-9a-f]{8,}\w*"), "rota_…"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d)?(?:\.\d+)?\b"), "<time>"),
    (
        re.compile(r"\b\d[\d,]*(?:\.\d+)? ?(?:ms|µs|s|m|h|d|%|[kKMG]i?B|seconds?|minutes?|hours?|days?)(?![\w])"),
        "<measure>",
    ),
    # 0 and 1 are mostly said on purpose: none is missing, at the first attempt.
    (re.compile(r"\b(?![01]\b(?!\.\d))\d[\d,]*(?:\.\d+)?\b"), "<number>"),
    (re.compile(r"[─━═-]{3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
]


def shape_of(text: str) -> list[str]:
    """The lines of a text without what differs from one time to the next, and without how wide columns are."""
    for pattern, shape in SHAPES:
        text = pattern.sub(shape, text)
    lines = [line.strip() for line in text.strip().splitlines()]
    return [line for line in lines if line]


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether lines are as expected; a line of … stands for any number of them."""
    if not expected:
        return not printed
    if expected[0] == ANYTHING:
        return any(matches(expected[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and expected[0] == printed[0] and matches(expected[1:], printed[1:])


def difference(expected: str, printed: str) -> str | None:
    """What a command printed besides what was expected; None when it is the same."""
    wanted, found = shape_of(expected), shape_of(printed)
    if matches(wanted, found):
        return None
    return "\n".join(
        [*difflib.unified_diff(wanted, found, "the page", "printed", lineterm=""), "", "as printed:", printed]
    )
