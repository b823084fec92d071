"""Counters, gauges and histograms with bounded labels.

The event loop writes, other threads read: every read copies what it shows in one step of the interpreter. A series is
looked up once and kept by those who count often.

An instrument has at most MOST_SERIES combinations of labels. What comes later is counted under `_other` in the labels
that tenants choose (OPEN_LABELS), so that sums stay right and no tenant can fill the memory of a process.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, TypeVar

MOST_SERIES = 1000
OTHER = "_other"  # no namespace can have this name
OPEN_LABELS = frozenset({"namespace", "pool", "task"})
Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
_FEW = 12  # up to so many values it is cheaper to find the bucket of each


class Number:
    """One series of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        self.value += amount


class Distribution:
    """One series of a histogram: how many values are at most as large as each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # by bucket, not cumulative; the last is above all bounds
        self.sum = 0.0

    def observe(self, values: list[float]) -> None:
        """Counts these values; sorts the list."""
        self.sum += sum(values)
        counts = self.counts
        if len(values) <= _FEW:
            for value in values:
                counts[bisect_left(self.bounds, value)] += 1
            return
        values.sort()
        seen, many = 0, len(values)
        for place, bound in enumerate(self.bounds):
            below = bisect_right(values, bound, seen)
            if below > seen:
                counts[place] += below - seen
                seen = below
            if seen == many:
                return
        counts[-1] += many - seen


Series = TypeVar("Series", Number, Distribution)


class Instrument(Generic[Series]):
    """A metric by its name, with a series for each combination of labels."""

    def __init__(self, name: str, kind: Kind, words: str, labels: Labels, make: Callable[[], Series]) -> None:
        self.name = name
        self.kind: Kind = kind
        self.words = words
        self.labels = labels
        self._make: Callable[[], Series] = make
        self._series: dict[Labels, Series] = {}  # what a process does not count is not shown as zero

    def series(self) -> list[tuple[Labels, Series]]:
        """All series with the values of their labels."""
        return list(self._series.items())

    def of(self, *labels: str) -> Series:
        """The series of these labels."""
        found = self._series.get(labels)
        if found is None:
            labels = labels if self.has_room_for(labels) else self.others(labels)
            found = self._series.setdefault(labels, self._make())
        return found

    def has_room_for(self, labels: Labels) -> bool:
        """Whether these labels are shown as they are."""
        return labels in self._series or len(self._series) < MOST_SERIES

    def others(self, labels: Labels) -> Labels:
        """The labels under which these are shown if there are too many."""
        pairs = zip(self.labels, labels, strict=True)
        return tuple(OTHER if name in OPEN_LABELS else value for name, value in pairs)


class Counter(Instrument[Number]):
    """Only grows, from zero when the process starts."""

    def __init__(self, name: str, words: str, labels: Labels) -> None:
        super().__init__(name, "counter", words, labels, Number)


class Gauge(Instrument[Number]):
    """Goes up and down. One with `combine` max shows the largest of what falls together under `_other`."""

    def __init__(
        self, name: str, words: str, labels: Labels, combine: Callable[[float, float], float] = lambda a, b: a + b
    ) -> None:
        super().__init__(name, "gauge", words, labels, Number)
        self._combine = combine

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Shows these values and no others. Labels with the smallest values go to `_other` first."""
        kept: dict[Labels, Number] = {}
        for labels in sorted(values, key=lambda labels: -values[labels]):
            place = labels if len(kept) < MOST_SERIES else self.others(labels)
            known = kept.get(place)
            number = kept.setdefault(place, Number())
            number.value = values[labels] if known is None else self._combine(known.value, values[labels])
        self._series = kept


class Histogram(Instrument[Distribution]):
    """Counts values by size."""

    def __init__(self, name: str, words: str, labels: Labels, bounds: Sequence[float]) -> None:
        super().__init__(name, "histogram", words, labels, lambda: Distribution(bounds))
        self.bounds = bounds


AnyInstrument = TypeVar("AnyInstrument", Counter, Gauge, Histogram)


class Registry:
    """The instruments of a process, in the order in which they are shown."""

    def __init__(self) -> None:
        self._instruments: dict[str, Counter | Gauge | Histogram] = {}
        self._readers: list[Callable[[], None]] = []

    def add(self, instrument: AnyInstrument) -> AnyInstrument:
        self._instruments[instrument.name] = instrument
        return instrument

    def before_reading(self, read: Callable[[], None]) -> None:
        """Calls this before the instruments are shown, in any thread: for what can be asked at any time."""
        self._readers.append(read)

    def read(self) -> list[Counter | Gauge | Histogram]:
        """All instruments, with values of now."""
        for reader in list(self._readers):
            reader()
        return list(self._instruments.values())
