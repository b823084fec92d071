"""Cron expressions at random, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

MONTHS = ("JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT")
RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}


def _values(part):
    low, high = RANGES[part]
    numbers = st.integers(low, high).map(str)
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(part)
    return numbers | st.sampled_from(names) if names else numbers


@st.composite
def _range(draw, part):
    low, high = RANGES[part]
    first = draw(st.integers(low, high - 1))
    return f"{first}-{draw(st.integers(first + 1, high))}"


def _items(part):
    """What all readings of cron have in common: numbers, names, ranges and steps."""
    steps = st.integers(1, RANGES[part][1] + 5).map(str)
    stepped = st.builds("{}/{}".format, st.just("*") | _range(part), steps)
    return _values(part) | _range(part) | stepped


def plain_field(part):
    """A field that every reading of cron understands."""
    return st.just("*") | st.lists(_items(part), min_size=1, max_size=3).map(",".join)


def _hashed(part):
    steps = st.integers(1, 70).map("/{}".format)
    base = st.just("H") | _range(part).map("H({})".format)
    return st.builds(str.__add__, base, st.just("") | steps)


def _picks(part):
    if part == "day":
        return st.sampled_from(["L", "LW"]) | st.integers(1, 31).map("{}W".format)
    if part == "weekday":
        nth = st.builds("{}#{}".format, _values("weekday"), st.integers(1, 5))
        return nth | st.builds("{}L".format, _values("weekday"))
    return st.nothing()


def full_field(part):
    """A field with everything the grammar has."""
    items = _items(part) | _hashed(part) | _picks(part)
    star = st.sampled_from(["*", "?"]) if part in ("day", "weekday") else st.just("*")
    return star | st.lists(items, min_size=1, max_size=3).map(",".join)


def _joined(field, *, with_seconds):
    parts = ["minute", "hour", "day", "month", "weekday"]
    five = st.tuples(*map(field, parts)).map(" ".join)
    return st.builds("{} {}".format, field("second"), five) if with_seconds else five


def plain_expressions():
    """5 fields that every reading of cron understands."""
    return _joined(plain_field, with_seconds=False)


def plain_expressions_with_seconds():
    """6 fields that every reading of cron understands, seconds first."""
    return _joined(plain_field, with_seconds=True)


def full_expressions():
    """5 or 6 fields with everything the grammar has; some never fire."""
    return _joined(full_field, with_seconds=False) | _joined(full_field, with_seconds=True)
