"""Where to begin: positions in an index whose head may be full of dead entries.

Rows are taken from the head of an index, oldest first. PostgreSQL skips the dead entries they leave behind at no cost,
unless an open transaction prevents cleanup: then dead entries pile up, and each look would walk over all of them. So a
process remembers for each key (a lane, a shard) how far it has come. The next look begins a little before that
(SLACK_SECONDS), because rows don't become visible in the order of their times.

Some rows appear before the position: given back by a worker, locked for a moment, or committed late. A whole look, from
the very beginning, finds them. With working cleanup a whole look costs next to nothing: it happens many times a second,
as long as whole looks take no more than WHOLE_SHARE of all time, and once a second in any case (USUAL_PAUSE_SECONDS).
If a whole look finds rows before the position, the position moves back to them.

One slow look proves little: the server may have stalled, or waited for a lock. So the cost of a whole look is the time
it takes beyond the ordinary looks around it, and only the least of the last three counts. If walking over dead entries
proves slow, the pause is _REST times that cost, so that whole looks never take more than a sixth of the time. The cost
of taking the rows that were found does not count.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

SLACK_SECONDS = 0.25
WHOLE_SHARE = 0.02
USUAL_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_REST = 5.0
_LOOKS_TO_PROVE = 3
# The cost of taking a row, learned from looks that begin at a position and find at least this many rows.
_ROW_SECONDS = 0.00002
_MOST_ROW_SECONDS = 0.0002
_ROWS_TO_LEARN_FROM = 50


class FullScanBudget:
    """Says when a look from the very beginning can be afforded, by what the last ones cost."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._prices: deque[float] = deque(maxlen=_LOOKS_TO_PROVE)
        self._compared: deque[bool] = deque(maxlen=_LOOKS_TO_PROVE)
        self._near: float | None = None  # the slowest look from a position since the last whole one
        self._row_cost = _ROW_SECONDS
        self._not_before = -math.inf

    def affordable(self) -> bool:
        """Whether it is time for one."""
        return self._monotonic() >= self._not_before

    @contextmanager
    def measured(self, found: Callable[[], int]) -> Iterator[None]:
        """Goes around a whole look; `found` says afterwards how many rows it gave."""
        began = self._monotonic()
        try:
            yield
        finally:
            self._prices.append(max(0.0, self._cost(began, found()) - (self._near or 0.0)))
            self._compared.append(self._near is not None)
            self._near = None
            self._not_before = self._monotonic() + self._pause()

    @contextmanager
    def compared(self, found: Callable[[], int]) -> Iterator[None]:
        """Goes around a look that is not whole: what it costs is the price of taking, and what any look costs now."""
        began = self._monotonic()
        try:
            yield
        finally:
            rows = found()
            self._near = max(self._near or 0.0, self._cost(began, rows))
            if rows >= _ROWS_TO_LEARN_FROM:
                row_cost = min((self._monotonic() - began) / rows, _MOST_ROW_SECONDS)
                self._row_cost += 0.2 * (row_cost - self._row_cost)

    def _cost(self, began: float, rows: int) -> float:
        return max(0.0, self._monotonic() - began - rows * self._row_cost)

    def _pause(self) -> float:
        if len(self._prices) < _LOOKS_TO_PROVE:
            return 0.0
        price = min(self._prices)
        pause = min(price / WHOLE_SHARE, USUAL_PAUSE_SECONDS)
        return min(max(pause, _REST * price), LONGEST_PAUSE_SECONDS) if all(self._compared) else pause


class Scan:
    """One look: where it begins in each key, and what it took."""

    def __init__(self, begin_at: list[float], *, whole: bool) -> None:
        self.begin_at = begin_at
        self.whole = whole
        self.reached: dict[int, float] = {}
        self.rows = 0

    def took(self, taken: Iterable[tuple[int, float]]) -> None:
        """(key, moment) of each row, in any order; oldest first in each key was what it looked for."""
        reached = self.reached
        for key, moment in taken:
            self.rows += 1
            if moment > reached.get(key, -math.inf):
                reached[key] = moment


class ScanPositions:
    """How far each key has been emptied: moments in seconds since the epoch, on the database's clock.

    What comes later must not be before that moment, but for what the slack and the whole looks are there for.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reached: dict[int, float] = {}
        self._looks = FullScanBudget(monotonic)

    @contextmanager
    def look(self, keys: Collection[int]) -> Iterator[Scan]:
        """Goes around one look."""
        if self._looks.affordable():
            look = Scan([-math.inf] * len(keys), whole=True)
            with self._looks.measured(lambda: look.rows):
                yield look
            self._reached |= look.reached
        else:
            look = Scan([self.begin(key) for key in keys], whole=False)
            with self._looks.compared(lambda: look.rows):
                yield look
            for key, moment in look.reached.items():
                self._reached[key] = max(moment, self._reached.get(key, -math.inf))

    def begin(self, key: int) -> float:
        """Where a look begins that is not whole."""
        return self._reached.get(key, -math.inf) - SLACK_SECONDS

    def go_back(self, key: int, moment: float) -> None:
        """A row for this moment was added: looks that are not whole find it too."""
        if key in self._reached:
            self._reached[key] = min(moment, self._reached[key])

    def forget(self) -> None:
        """The rows that were found could not be taken: the next looks start from the very beginning."""
        self._reached.clear()
