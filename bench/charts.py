"""Charts as SVG, drawn by hand: lines over time and bars, readable on light and dark pages alike."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 40
INK, FAINT = "#7a7f87", "#7a7f8733"
COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6")


def line_chart(title: str, unit: str, series: dict[str, Sequence[float]], step: float) -> str:
    """Values at an even distance of `step` seconds, from zero up."""
    highest = _round_up(max((max(values) for values in series.values() if values), default=1))
    longest = max((len(values) for values in series.values()), default=1)
    parts = _frame(title, unit, highest)
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{_x((index + 1) / longest):.1f},{_y(value / highest):.1f}" for index, value in enumerate(values)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - RIGHT, TOP - 8 + 14 * number, name, colour, "end"))
    parts.append(_text(LEFT, HEIGHT - 12, "0 s"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 12, f"{longest * step:g} s", anchor="end"))
    return _svg(parts)


def bar_chart(title: str, unit: str, bars: dict[str, float]) -> str:
    """One bar for each name, from zero up."""
    highest = _round_up(max(bars.values(), default=1))
    parts = _frame(title, unit, highest)
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    for number, (name, value) in enumerate(bars.items()):
        left, top = LEFT + slot * (number + 0.15), _y(value / highest)
        height = HEIGHT - BOTTOM - top
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{slot * 0.7:.1f}" height="{height:.1f}" fill="{COLOURS[0]}"/>'
        )
        middle = left + slot * 0.35
        parts.append(_text(middle, top - 5, _short(value), anchor="middle"))
        parts.append(_text(middle, HEIGHT - BOTTOM + 16, name, anchor="middle"))
    return _svg(parts)


def _frame(title: str, unit: str, highest: float) -> list[str]:
    parts = [_text(LEFT, 18, f"{title} ({unit})", INK, size=14)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _y(share)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>')
        parts.append(_text(LEFT - 6, y + 4, _short(highest * share), anchor="end"))
    return parts


def _text(x: float, y: float, text: str, colour: str = INK, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>", ""])


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _short(value: float) -> str:
    if value >= 1000:  # noqa: PLR2004 - from here on in thousands
        return f"{value / 1000:.3g}k"
    return f"{value:.3g}"


def _round_up(value: float) -> float:
    """The next number that looks good at the end of an axis."""
    magnitude = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    while magnitude * 10 < value:
        magnitude *= 10
    return next(magnitude * factor for factor in (1, 2, 2.5, 4, 5, 8, 10) if magnitude * factor >= value)
