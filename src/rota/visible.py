"""Text of strangers, fit to be shown: it can't move a cursor, change colours, break a line or turn its direction.

Names, errors and logs hold whatever somebody wrote into them. A terminal obeys escape sequences, a reader of logs
takes a line break for the next event, and a direction override lets one text look like another.
"""

from __future__ import annotations

import re

MARK = "\ufffd"
# Control characters of both sets, separators that some readers take for line breaks, and what overrides or isolates the
# direction of writing up to the end of a line. A tab and a line feed are left to whoever calls.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ALL_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with a mark in the place of what a terminal would obey; tabs and line feeds stay."""
    return _HIDDEN.sub(MARK, text)


def escaped(text: str) -> str:
    """The text on one line, with an escape in the place of what a terminal would obey."""
    return _ALL_HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
