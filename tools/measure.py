"""Measures the source: how much there is, how many names, and which of them occur twice.

`python tools/measure.py [FOLDER]`: FOLDER is a checkout of Rota; without it, the one that this file is in.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

GENERATED = "# Made from"
RIDDLES = re.compile(r"\b(?:somebody|whoever|nobody|everybody)\b", re.IGNORECASE)
SCHEMA = frozenset({"migrations", "current"})  # folders of what makes the tables
TEXTS = (".py", ".sql", ".txt", ".html")


class Module:
    """One file of Python below `root`."""

    def __init__(self, path: Path, root: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        parts = path.relative_to(root.parent).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.parts = parts[:-1] if self.is_package else parts
        self.is_generated = self.text.startswith(GENERATED)

    @property
    def dotted(self) -> str:
        return ".".join(self.parts)

    @property
    def layer(self) -> str:
        """The first folder below rota; in store, which is cut by verbs, also the second."""
        inner = self.parts[1:] if self.is_package else self.parts[1:-1]
        return "/".join(inner[: 2 if inner[:1] == ("store",) else 1]) or "(root)"

    @property
    def classes(self) -> list[str]:
        return [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @cached_property
    def names(self) -> dict[str, bool]:
        """Public names that it defines at the top, and whether each is a constant."""
        found: dict[str, bool] = {}
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[node.name] = False
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in (inner for one in targets for inner in ast.walk(one)):
                    if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                        found[target.id] = target.id.isupper()
        return {name: constant for name, constant in found.items() if not name.startswith("_")}

    @property
    def import_lines(self) -> int:
        imports = (node for node in ast.walk(self.tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)

    def uses(self) -> Iterator[tuple[str, str]]:
        """(module, name) of what it takes from others: `from module import name`, or `module.name`."""
        known: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield node.module, alias.name
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                yield known[node.value.id], node.attr


def twice(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that occur more than once, each with where."""
    found = defaultdict(list)
    for name, place in named:
        found[name].append(place)
    return {name: sorted(places) for name, places in sorted(found.items()) if len(places) > 1}


def lines(texts: Iterable[str]) -> int:
    """How many there are."""
    return sum(len(text.splitlines()) for text in texts)


def report(root: Path) -> Iterator[str]:
    """The table, line by line."""
    modules = [Module(path, root) for path in sorted(root.rglob("*.py"))]
    written = [one for one in modules if not one.is_generated]
    yield f"modules                          {len(modules):>7,}"
    yield f"lines                            {lines(one.text for one in modules):>7,}"
    yield f"  of them imports                {sum(one.import_lines for one in modules):>7,}"
    yield f"  of them generated              {lines(one.text for one in modules if one.is_generated):>7,}"

    used = {pair for one in modules for pair in one.uses() if pair[0] != one.dotted}
    named = [(one.dotted, name, constant) for one in modules for name, constant in one.names.items()]
    alone = [constant for module, name, constant in named if (module, name) not in used]
    yield f"public names at the top          {len(named):>7,}"
    yield f"  never imported elsewhere       {len(alone):>7,}  ({sum(alone):,} constants)"

    # A package counts as a module where something is defined in it.
    places = [(one.parts[-1], one) for one in modules if one.names or not one.is_package]
    overall = twice((name, one.dotted) for name, one in places)
    layered = twice((f"{one.layer}: {name}", one.dotted) for name, one in places)
    classes = twice((name, one.dotted) for one in written for name in one.classes)
    yield f"module names twice               {len(overall):>7,}"
    yield f"  within a layer                 {len(layered):>7,}"
    yield f"class names twice                {len(classes):>7,}"

    statements = [path for path in root.rglob("*.sql") if not SCHEMA.intersection(path.parts)]
    ours = [path.read_text(encoding="utf-8") for path in statements if "testing" not in path.parts]
    yield f"SQL statements                   {len(ours):>7,}  (and {len(statements) - len(ours)} of the test kit)"
    yield f"  lines                          {lines(ours):>7,}"
    texts = (path.read_text(encoding="utf-8") for path in root.rglob("*") if path.suffix in TEXTS)
    riddles = sum(bool(RIDDLES.search(line)) for text in texts for line in text.splitlines())
    yield f"lines with riddle words          {riddles:>7,}  (somebody, whoever, nobody, everybody)"

    for title, found in (("Module names", overall), ("Module names in one layer", layered), ("Class names", classes)):
        yield f"\n{title} twice:"
        yield from (f"  {name}: {', '.join(where)}" for name, where in found.items())


def main() -> None:
    """Prints the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    print("\n".join(report(folder / "src" / "rota")))


if __name__ == "__main__":
    main()
