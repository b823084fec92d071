"""What the site does beyond what mkdocs does: a navigation that takes up new pages by itself, pages without the
comments that are meant for tests, links into the repository as text, and diagrams inside their pages, so that they take
its colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^\s*```")
LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)\s#]+)(?:#[^)\s]*)?\)")
DIAGRAM = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+\.svg)\)$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Makes the navigation from the folders there are."""
    docs = Path(config["docs_dir"])
    first = config["extra"]["first"]
    config["nav"] = []
    for section in config["extra"]["sections"]:
        ((title, place),) = section.items()
        if (docs / place).is_file():
            config["nav"].append({title: place})
        elif pages := _pages(docs, place, first):
            config["nav"].append({title: pages})
    return config


def _pages(docs: Path, folder: str, first: list[str]) -> list[str]:
    found = [path.relative_to(docs).as_posix() for path in (docs / folder).rglob("*.md")]
    return sorted(found, key=lambda name: (first.index(name) if name in first else len(first), name))


def on_page_markdown(markdown: str, page: Any, config: Any, **_rest: Any) -> str:
    """A page as readers of the site should get it."""
    text = without_comments(markdown)
    docs = Path(config["docs_dir"])
    here = docs / Path(page.file.src_uri).parent
    text = LINK.sub(lambda match: _as_text(match, here, docs), text)
    return DIAGRAM.sub(lambda match: _drawing(match[1], here / match[2]), text)


def without_comments(markdown: str) -> str:
    """Leaves out HTML comments, but for those inside blocks."""
    kept, in_block, in_comment = [], False, False
    for line in markdown.splitlines():
        if not in_comment and FENCE.match(line):
            in_block = not in_block
        in_comment = in_comment or (not in_block and line.startswith("<!--"))
        if not in_comment:
            kept.append(line)
        elif "-->" in line:
            in_comment = False
    return "\n".join(kept).lstrip("\n") + "\n"


def _as_text(match: re.Match[str], here: Path, docs: Path) -> str:
    """A link that leads out of the site says where in the repository it leads."""
    target = (here / match[2] / match[3]).resolve()
    if target.is_relative_to(docs.resolve()):
        return match[0]
    return f"{match[1]} (`{target.relative_to(docs.resolve().parent)}`)"


def _drawing(title: str, path: Path) -> str:
    return f'<div class="diagram" role="img" aria-label="{title}">\n{path.read_text().strip()}\n</div>'
