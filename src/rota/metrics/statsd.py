"""Metrics for StatsD, by UDP, every few seconds.

StatsD adds up what it gets, so counters are sent as what was added since the last time. A histogram is sent as its
count, its sum, and the quantiles of what came since the last time. Without tags, the values of labels are parts of the
name.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence

from rota.metrics.exposition import shown
from rota.metrics.instruments import Distribution, Histogram, Labels, Registry
from rota.service import Service

_PACKET_BYTES = 1400  # fits into a frame of Ethernet
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")  # for a part of a name
_UNFIT_TAG = re.compile(r"[|,#\s]")
Key = tuple[str, Labels]


class StatsdSender(Service):
    """Sends what has changed, and once more when the process ends."""

    jitter = 0

    def __init__(
        self,
        registry: Registry,
        address: tuple[str, int],
        *,
        refresh: Callable[[], Awaitable[None]],
        tags: bool,
        seconds: float,
    ) -> None:
        super().__init__()
        self._registry = registry
        self._address = address
        self._refresh = refresh
        self._tags = tags
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._sent: dict[Key, float] = {}
        self._counted: dict[Key, list[int]] = {}

    @property
    def pause_seconds(self) -> float:
        return self._seconds

    async def open(self) -> None:
        """Finds the server's address; raises OSError while that can't be done, and is called again."""
        host, port = self._address
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, _, _, _, address = found[0]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.connect(address)

    async def tick(self) -> int:
        """Sends one round; returns how many packets it took."""
        await self._refresh()
        return self._send()

    async def close(self) -> None:
        if self._socket:
            self._send()
            self._socket.close()

    def _send(self) -> int:
        before = dict(self._sent), dict(self._counted)
        packets = list(packed(self.lines()))
        for number, packet in enumerate(packets):
            if self._socket is None:
                break
            try:
                self._socket.send(packet)
            except OSError:  # mostly that of an earlier packet: nobody was there
                if number == 0:
                    self._sent, self._counted = before  # to be sent again, and nothing twice
                raise
        return len(packets)

    def lines(self) -> Iterator[str]:
        """What has changed since the last time, and all gauges."""
        for instrument in self._registry.read():
            for labels, one in instrument.series():
                place = _Place(instrument.name, instrument.labels, labels, self._tags)
                if isinstance(one, Distribution):
                    yield from self._distribution(instrument, place, labels, one)
                elif instrument.kind == "gauge":
                    yield place.line("", one.value, "g")
                else:
                    yield from self._added(place, "", (instrument.name, labels), one.value)

    def _added(self, place: _Place, suffix: str, key: Key, value: float) -> Iterator[str]:
        added = value - self._sent.get(key, 0.0)
        self._sent[key] = value
        if added:
            yield place.line(suffix, added, "c")

    def _distribution(self, instrument: object, place: _Place, labels: Labels, one: Distribution) -> Iterator[str]:
        assert isinstance(instrument, Histogram)  # noqa: S101 - only they have distributions
        name = instrument.name
        total, counts = one.sum, list(one.counts)
        before = self._counted.get((name, labels), [0] * len(counts))
        self._counted[name, labels] = counts
        new = [now - then for now, then in zip(counts, before, strict=True)]
        yield from self._added(place, ".count", (f"{name}.count", labels), sum(counts))
        yield from self._added(place, ".sum", (f"{name}.sum", labels), total)
        if any(new):
            for word, share in _QUANTILES.items():
                yield place.line(f".{word}", quantile_of(instrument.bounds, new, share), "g")


class _Place:
    """The name and tags of a series."""

    def __init__(self, name: str, names: Labels, values: Labels, tags: bool) -> None:
        self._name = name
        self._rest = "" if tags else "".join(f".{_UNFIT.sub('_', value) or '_'}" for value in values)
        pairs = [f"{label}:{_UNFIT_TAG.sub('_', value)}" for label, value in zip(names, values, strict=True)]
        self._tags = f"|#{','.join(pairs)}" if tags and pairs else ""

    def line(self, suffix: str, value: float, kind: str) -> str:
        return f"{self._name}{self._rest}{suffix}:{shown(value)}|{kind}{self._tags}"


def quantile_of(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """The bound below which this share of values is; the largest bound if it is above all."""
    wanted, seen = share * sum(counts), 0
    for bound, count in zip(bounds, counts, strict=False):
        seen += count
        if count and seen >= wanted:
            return bound
    return bounds[-1]


def packed(lines: Iterator[str]) -> Iterator[bytes]:
    """Lines in packets that fit into one frame."""
    packet = b""
    for line in lines:
        data = line.encode()
        if packet and len(packet) + 1 + len(data) > _PACKET_BYTES:
            yield packet
            packet = b""
        packet = packet + b"\n" + data if packet else data
    if packet:
        yield packet
