"""Draws the diagrams of docs/explanation: `python tools/make_diagrams.py` (`make diagrams`).

They take the colour of the text around them, and where there is none (a picture on a page of a code host) that of the
reader's system: dark on light, or light on dark.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PLACE = Path(__file__).resolve().parents[1] / "docs" / "explanation"
STYLE = """<style>
.drawing { color: #1f2328; font: 13px system-ui, "Noto Sans", sans-serif; }
@media (prefers-color-scheme: dark) { .drawing { color: #e6edf3; } }
.drawing rect, .drawing line, .drawing path { fill: none; stroke: currentColor; stroke-width: 1.2; }
.drawing .soft { stroke-dasharray: 5 4; }
.drawing .bar { fill: currentColor; fill-opacity: 0.12; }
.drawing .bad { stroke: #d1442f; }
.drawing text { fill: currentColor; }
.drawing .small { font-size: 11px; opacity: 0.85; }
.drawing .strong { font-weight: 600; }
.drawing .tip { fill: currentColor; stroke: none; }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>"""


class Drawing:
    """Boxes, arrows and words, gathered."""

    def __init__(self, name: str, title: str, width: int, height: int) -> None:
        self._name, self._title, self._size = name, title, (width, height)
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = "") -> None:
        """A box with a title and lines below it, in its middle."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>')
        top = y + height / 2 - 7 * len(lines) + 5
        self.words(x + width / 2, top, title, kind="strong")
        for number, line in enumerate(lines, 1):
            self.words(x + width / 2, top + 15 * number, line, kind="small")

    def words(self, x: float, y: float, text: str, *, kind: str = "small", anchor: str = "middle") -> None:
        """A line of text."""
        self._parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, path: str, *, kind: str = "") -> None:
        """A way with a tip at its end, in the words of SVG."""
        self._parts.append(f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>')

    def line(self, path: str, *, kind: str = "") -> None:
        """A way without a tip."""
        self._parts.append(f'<path class="{kind}" d="{path}"/>')

    def bar(self, x: int, y: int, width: int, text: str, *, kind: str = "bar") -> None:
        """A stretch of time."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="26" rx="3"/>')
        self.words(x + width / 2, y + 17, text)

    def save(self) -> None:
        """Writes the file."""
        width, height = self._size
        head = (
            f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        )
        body = "\n".join([head, f"<title>{escape(self._title)}</title>", STYLE, *self._parts, "</svg>"])
        (PLACE / f"{self._name}.svg").write_text(body + "\n", encoding="utf-8")


def draw_parts() -> None:
    """Who talks to whom."""
    drawing = Drawing("parts", "The parts, and who talks to whom", 720, 380)
    drawing.box(20, 20, 180, 50, "clients", "programs, rota command, curl")
    drawing.box(20, 140, 180, 50, "your program", "submits in its own transaction")
    drawing.box(270, 20, 180, 50, "api", "one or more")
    drawing.box(
        270, 130, 180, 120, "PostgreSQL", "jobs, runs, logs,", "keys, audit, leases", "the only thing with a memory"
    )
    drawing.box(20, 300, 180, 60, "scheduler", "two or more: each has", "a share of 64 shards")
    drawing.box(270, 300, 180, 60, "worker", "any number, by pools", "and namespaces")
    drawing.box(530, 300, 170, 60, "tasks", "functions, processes,", "scripts, HTTP calls")
    drawing.box(530, 130, 170, 60, "object storage", "payloads above 64 KiB,", "logs; a directory or S3", kind="soft")
    drawing.arrow("M200 45H268")
    drawing.words(234, 38, "HTTP")
    drawing.arrow("M360 70V128")
    drawing.words(368, 100, "group commit, reads", anchor="start")
    drawing.arrow("M200 165H268")
    drawing.words(234, 158, "SQL")
    drawing.arrow("M110 300C110 230 180 215 268 215")
    drawing.words(112, 222, "fire, promote,", anchor="end")
    drawing.words(112, 237, "admit, reap", anchor="end")
    drawing.arrow("M360 300V252")
    drawing.words(368, 280, "claim, report, beat", anchor="start")
    drawing.arrow("M450 330H528")
    drawing.words(489, 323, "runs")
    drawing.arrow("M450 45C560 45 615 70 615 128", kind="soft")
    drawing.arrow("M440 300C520 260 590 240 612 192", kind="soft")
    drawing.save()


def draw_life() -> None:
    """A run's way through the tables."""
    drawing = Drawing("life-of-a-run", "The life of a run through the tables", 760, 330)
    drawing.box(10, 30, 120, 60, "jobs", "schedules only")
    drawing.box(200, 30, 140, 60, "upcoming_runs", "scheduled, retrying", "waits for its time")
    drawing.box(200, 220, 140, 60, "held_runs", "blocked", "waits at a gate")
    drawing.box(420, 120, 140, 70, "live_runs", "queued, then running", "ready or claimed")
    drawing.box(630, 120, 120, 70, "finished_runs", "success, failed,", "cancelled, skipped")
    drawing.box(630, 250, 120, 50, "dead_letters", "until you decide", kind="soft")
    drawing.box(10, 130, 120, 50, "submit", "once, for now")
    drawing.arrow("M130 55H198")
    drawing.words(164, 48, "fire")
    drawing.arrow("M340 60C400 60 460 80 470 118")
    drawing.words(440, 72, "promote", anchor="start")
    drawing.arrow("M270 90V218", kind="soft")
    drawing.words(262, 205, "has policies", anchor="end")
    drawing.arrow("M340 250C420 250 460 230 470 192")
    drawing.words(445, 244, "admit", anchor="start")
    drawing.arrow("M130 155H418")
    drawing.words(175, 148, "no policies", anchor="start")
    drawing.arrow("M130 172C160 190 165 230 198 245", kind="soft")
    drawing.arrow("M560 155H628")
    drawing.words(594, 148, "report")
    drawing.arrow("M520 118C520 10 380 -5 300 28", kind="soft")
    drawing.words(500, 28, "failed: retry after its backoff", anchor="start")
    drawing.arrow("M690 190V248")
    drawing.words(698, 222, "bury", anchor="start")
    drawing.arrow("M628 285C500 315 480 240 490 192", kind="soft")
    drawing.words(520, 318, "redrive: a new run")
    drawing.save()


def draw_leases() -> None:
    """Two workers, one run, and the numbers that keep them apart."""
    drawing = Drawing("leases", "Leases, claims and fencing over time", 800, 330)
    drawing.words(10, 60, "worker A", kind="strong", anchor="start")
    drawing.words(10, 160, "scheduler", kind="strong", anchor="start")
    drawing.words(10, 250, "worker B", kind="strong", anchor="start")
    drawing.bar(110, 42, 150, "run, claim 17")
    drawing.bar(260, 42, 250, "paused: no beats", kind="soft")
    drawing.bar(510, 42, 90, "wakes")
    drawing.bar(225, 102, 195, "lease: 5 s without a beat", kind="soft")
    drawing.bar(420, 142, 70, "reap")
    drawing.bar(490, 232, 160, "run, claim 18")
    for x in (140, 180, 220):
        drawing.arrow(f"M{x} 68V92")
    drawing.words(180, 105, "beats")
    drawing.line("M225 68V128", kind="soft")
    drawing.arrow("M420 115V140")
    drawing.words(440, 186, "A has lost its runs: attempt 'lost', run ready again")
    drawing.arrow("M470 194C470 215 475 240 488 245")
    drawing.arrow("M600 55C640 55 650 80 650 100", kind="bad")
    drawing.words(655, 92, "reports 17:", anchor="start")
    drawing.words(655, 107, "not current, fenced", anchor="start")
    drawing.arrow("M650 245H690")
    drawing.words(655, 268, "reports 18: recorded", anchor="start")
    drawing.arrow("M110 300H785")
    drawing.words(785, 318, "time", anchor="end")
    drawing.save()


def main() -> None:
    """Draws all of them."""
    for draw in (draw_parts, draw_life, draw_leases):
        draw()


if __name__ == "__main__":
    main()
