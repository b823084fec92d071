"""Reads the text that Prometheus reads."""

from __future__ import annotations

import re

from rota.metrics.catalogue import Metrics
from rota.metrics.exposition import exposition

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def values(source: Metrics | str, name: str, **wanted: str) -> list[float]:
    """The values of the series of a metric that have these labels."""
    text = exposition(source.registry).decode() if isinstance(source, Metrics) else source
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and match[1] == name and wanted.items() <= dict(_LABEL.findall(match[2] or "")).items():
            found.append(float(match[3]))
    return found


def total(source: Metrics | str, name: str, **wanted: str) -> float:
    return sum(values(source, name, **wanted))
