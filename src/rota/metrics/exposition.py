"""The text that Prometheus reads, in its format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rota.metrics.instruments import Counter, Distribution, Gauge, Histogram, Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(registry: Registry, namespace: str | None = None) -> bytes:
    """All instruments that have a value, with values of now; or only what concerns one namespace."""
    return "".join(line for instrument in registry.read() for line in _lines(instrument, namespace)).encode()


def _lines(instrument: Counter | Gauge | Histogram, namespace: str | None) -> Iterator[str]:
    name, series = instrument.name, instrument.series()
    if namespace is not None:  # it is the first label of all that have it
        series = [one for one in series if instrument.labels[:1] == ("namespace",) and one[0][0] == namespace]  # type: ignore[assignment]
    if not series:
        return
    yield f"# HELP {name} {_escape(instrument.words, quote=False)}\n# TYPE {name} {instrument.kind}\n"
    for values, one in series:
        labels = [f'{label}="{_escape(value)}"' for label, value in zip(instrument.labels, values, strict=True)]
        if isinstance(one, Distribution):
            yield from _distribution(name, labels, one)
        else:
            yield f"{name}{_braced(labels)} {shown(one.value)}\n"


def _distribution(name: str, labels: Sequence[str], one: Distribution) -> Iterator[str]:
    total = one.sum
    counts = list(one.counts)
    for bound, count in zip((*map(shown, one.bounds), "+Inf"), cumulated(counts), strict=True):
        bucket = [*labels, f'le="{bound}"']
        yield f"{name}_bucket{_braced(bucket)} {count}\n"
    yield f"{name}_sum{_braced(labels)} {shown(total)}\n{name}_count{_braced(labels)} {sum(counts)}\n"


def cumulated(counts: Iterable[int]) -> Iterator[int]:
    """How many are at or below each bound."""
    seen = 0
    for count in counts:
        seen += count
        yield seen


def shown(value: float) -> str:
    """A number in the shortest form."""
    return str(int(value)) if value == int(value) else repr(value)


def _braced(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _escape(text: str, *, quote: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
