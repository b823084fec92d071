"""Progress in the output of commands: found wherever the output is cut, and nothing else is changed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.worker.runners.progress_lines import ProgressLines

LINES = [
    b"::rota progress 10\n",
    b"::rota progress 33.5% a third\r\n",
    b"::rota progress 100 done \xff\n",
    b"::rota progress 101\n",
    b"::rota progress \n",
    b"::rota progress 5x\n",
    b"::rota other 5\n",
    b" ::rota progress 5\n",
    b": \n",
    b"\n",
    b"text ::rota progress 7\n",
]
TOLD = {0: (0.1, None), 1: (0.335, "a third"), 2: (1.0, "done \ufffd")}


def read(pieces):
    """What goes on, and what was told at last."""
    told = []
    lines = ProgressLines(lambda share, message: told.append((share, message)))
    kept = b"".join([*(lines.feed(piece) for piece in pieces), lines.rest()])
    return kept, told


@given(
    st.lists(st.sampled_from(range(len(LINES))), max_size=8), st.lists(st.integers(0, 200), max_size=8), st.booleans()
)
def test_wherever_output_is_cut_the_same_is_found_and_the_same_goes_on(chosen, cuts, is_ended):
    output = b"".join(LINES[number] for number in chosen)
    expected = b"".join(LINES[number] for number in chosen if number not in TOLD)
    told = [TOLD[number] for number in chosen if number in TOLD]
    if chosen and not is_ended:  # the last line has no end
        output = output[:-1]
        expected = expected[:-1] if chosen[-1] not in TOLD else expected
    places = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    kept, found = read([output[first:last] for first, last in pairwise(places)])
    assert kept == expected
    assert found[-1:] == told[-1:]
    assert set(found) <= set(told)


@pytest.mark.parametrize("last", [b"", b"\n"])
def test_a_flood_of_progress_is_told_once_for_each_piece(last):
    kept, told = read([b"::rota progress 50\n" * 3000 + b"::rota progress 60" + last])
    assert (kept, len(told)) == (b"", 1 if last else 2)
    assert told[-1] == (0.6, None)


def test_a_line_that_does_not_end_is_not_held_back():
    lines = ProgressLines(lambda *_told: pytest.fail("it is no progress"))
    assert lines.feed(b"::rota progress 5 " + b"x" * 3000).endswith(b"xxx")
    assert lines.feed(b"more\n") == b"more\n"
    assert lines.rest() == b""
