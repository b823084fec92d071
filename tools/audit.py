"""Looks at what Rota is built on: is everything pinned, may it be used, was it withdrawn, is it known to be vulnerable?

Pins and licences are looked up in this environment, the rest at the package index that pip is configured for. What the
index does not tell is said to be unchecked; only findings fail.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, canonicalize_name, parse_sdist_filename
from packaging.utils import parse_wheel_filename as parse_wheel
from packaging.version import Version

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)")
OLDEST_PYTHON = "3.11.0"
OURS = frozenset({"rota", "pip", "setuptools"})  # what comes with a virtual environment is not ours to pin
SECONDS = 15.0
ALL_SECONDS = 60.0
AT_ONCE = 16
OK = 200
SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"

# What goes with Apache-2.0 without asking anything of who uses Rota. MPL-2.0 asks for changes of its own files only.
ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0"),
        *("Apache Software License", "3-Clause BSD License", "BSD License", "ISC License (ISCL)", "MIT License"),
        *("Mozilla Public License 2.0 (MPL 2.0)", "Python Software Foundation License"),
    }
)
# Name, and why it may be used all the same.
EXCEPTIONS = {
    "psycopg": "LGPL; a tool of our tests, and loaded where an application has installed it; never shipped",
    "psycopg-binary": "as psycopg",
}


class Pin(NamedTuple):
    """A package and the version that is to be installed."""

    name: str
    version: str


class Report:
    """What was found, and what could not be looked at."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.unchecked: Counter[str] = Counter()

    def print(self) -> int:
        """In words; the exit code."""
        for reason, count in sorted(self.unchecked.items()):
            print(f"not checked: {reason} ({count} packages)")
        for finding in self.findings:
            print(f"found: {finding}")
        print(f"{len(self.findings)} findings")
        return 1 if self.findings else 0


def read_pins(text: str, report: Report) -> list[Pin]:
    """The pins of a file; what is not exact is a finding."""
    pins: dict[str, Pin] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        match = PIN.fullmatch(line)
        if match is None:
            report.findings.append(f"{line!r} is no exact pin")
            continue
        pin = Pin(canonicalize_name(match[1]), match[2])
        if pin.name in pins:
            report.findings.append(f"{pin.name} is pinned twice")
        pins[pin.name] = pin
    return list(pins.values())


def check_installed(pins: Iterable[Pin], installed: Iterable[Pin], report: Report) -> None:
    """Everything that is installed is pinned, and is what the pin says."""
    wanted = {pin.name: pin.version for pin in pins}
    for name, version in installed:
        if name in OURS:
            continue
        if name not in wanted:
            report.findings.append(f"{name} {version} is installed and not pinned")
        elif Version(wanted[name]) != Version(version):
            report.findings.append(f"{name} is pinned to {wanted[name]}, and {version} is installed")


def check_pythons(found: Iterable[Distribution], report: Report) -> None:
    """Everything can be installed with the oldest Python that Rota promises, to its last digit."""
    for distribution in found:
        about = distribution.metadata
        wanted = ",".join(about.get_all("Requires-Python") or [])
        if OLDEST_PYTHON not in SpecifierSet(wanted):
            name = canonicalize_name(about["Name"])
            report.findings.append(
                f"{name} {distribution.version} needs Python {wanted}, and we promise {OLDEST_PYTHON}"
            )


def check_licences(found: Iterable[Distribution], report: Report) -> None:
    """Every licence goes with ours, or there is a reason."""
    for distribution in found:
        name = canonicalize_name(distribution.metadata["Name"])
        if name not in EXCEPTIONS and not is_allowed(licences_of(distribution)):
            report.findings.append(f"{name} has the licence {licences_of(distribution) or 'that it does not tell'}")


def licences_of(distribution: Distribution) -> str:
    """As an expression: what the package says in the newest of the ways there are."""
    about = distribution.metadata
    if expressions := about.get_all("License-Expression"):
        return str(expressions[0])
    classifiers = [
        text.split(" :: ")[-1] for text in about.get_all("Classifier") or [] if text.startswith("License ::")
    ]
    if classifiers:
        return " AND ".join(classifiers)
    return str((about.get_all("License") or [""])[0]).strip().split("\n")[0]


def is_allowed(expression: str) -> bool:
    """One of the alternatives is, or all the parts are. Where both occur all that is named must be: we don't weigh."""
    if expression in ALLOWED:
        return True  # some names have brackets of their own
    named = [part.strip(" ()") in ALLOWED for part in re.split(" AND | OR ", expression)]
    return any(named) if " OR " in expression and " AND " not in expression else all(named)


def check_index(index: str, pins: Iterable[Pin], report: Report) -> None:
    """Whether the index knows of anything against a pin."""
    until = time.monotonic() + ALL_SECONDS
    with (
        httpx.Client(timeout=SECONDS, follow_redirects=True) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        for part in pool.map(lambda pin: check_pin(client, index, pin, until), pins):
            report.findings += part.findings
            report.unchecked += part.unchecked


def check_pin(client: httpx.Client, index: str, pin: Pin, until: float) -> Report:
    """One package, if there is still time."""
    report = Report()
    if time.monotonic() > until:
        report.unchecked[f"{index} took too long"] += 1
        return report
    for what, check in (("withdrawn releases", _check_yanked), ("vulnerabilities", _check_vulnerabilities)):
        try:
            problem = check(client, index, pin, report)
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            problem = f"{index} does not answer as an index does ({type(error).__name__})"
        if problem:
            report.unchecked[f"{what}: {problem}"] += 1
    return report


def _check_yanked(client: httpx.Client, index: str, pin: Pin, report: Report) -> str | None:
    answer = client.get(f"{index}/{pin.name}/", headers={"Accept": SIMPLE})
    if answer.status_code != OK:
        return f"{index} says {answer.status_code}"
    files = [yanked for name, yanked in _files(answer) if _version_of(name) == Version(pin.version)]
    if not files:
        return f"{index} does not have the release"
    if all(yanked is not None for yanked in files):
        report.findings.append(f"{pin.name} {pin.version} was withdrawn: {files[0] or 'no reason given'}")
    return None


def _check_vulnerabilities(client: httpx.Client, index: str, pin: Pin, report: Report) -> str | None:
    answer = client.get(f"{index.removesuffix('/simple')}/pypi/{pin.name}/{pin.version}/json")
    if answer.status_code != OK:
        return f"{index} does not tell (it says {answer.status_code})"
    for known in answer.json()["vulnerabilities"]:
        if not known.get("withdrawn"):
            fixed = ", ".join(known.get("fixed_in") or []) or "nothing yet"
            report.findings.append(f"{pin.name} {pin.version}: {known['id']} (mended in {fixed})")
    return None


def _files(answer: httpx.Response) -> Iterator[tuple[str, str | None]]:
    """Names of files, and why they were withdrawn (None: they were not)."""
    if "json" in answer.headers.get("content-type", ""):
        for file in answer.json()["files"]:
            yanked = file.get("yanked", False)
            yield file["filename"], None if yanked is False else str(yanked)
        return
    links = _Links()
    links.feed(answer.text)
    yield from links.found


class _Links(HTMLParser):
    """The links of a page of the index, as it was before there was JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and (address := given.get("href")):
            name = address.partition("#")[0].rpartition("/")[2]
            self.found.append((name, (given["data-yanked"] or "") if "data-yanked" in given else None))


def _version_of(file: str) -> Version | None:
    try:
        return parse_wheel(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def find_index() -> str:
    """The index that pip would ask: the one it was told, else its own default."""
    told = ["-m", "pip", "config", "get", "global.index-url"]
    default = ["-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"]
    return (os.environ.get("PIP_INDEX_URL") or _said(told) or _said(default)).rstrip("/")


def _said(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False).stdout.strip()


def needed(found: Iterable[Distribution]) -> list[Distribution]:
    """Those that Rota and the work on it pull in; what else somebody installed beside them is their own."""
    by_name = {canonicalize_name(each.metadata["Name"]): each for each in found}
    left: list[tuple[Any, frozenset[str]]] = [("rota", frozenset({"dev", "docs"}))]
    seen: set[tuple[Any, frozenset[str]]] = set()
    while left:
        name, extras = left.pop()
        if (name, extras) in seen or name not in by_name:
            continue
        seen.add((name, extras))
        for text in by_name[name].requires or ():
            wanted = Requirement(text)
            if not wanted.marker or any(wanted.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                left.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return [by_name[name] for name in sorted({name for name, _ in seen})]


def installed_pins(found: Iterable[Distribution]) -> list[Pin]:
    """What is in this environment."""
    return [Pin(canonicalize_name(one.metadata["Name"]), one.version) for one in found]


def main(arguments: list[str] | None = None) -> int:
    """Looks, and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offline", action="store_true", help="ask no index: pins and licences only")
    parser.add_argument("--constraints", type=Path, default=CONSTRAINTS)
    parser.add_argument("--index", help="another index than pip's")
    options: Any = parser.parse_args(arguments)
    report, found = Report(), needed(distributions())
    pins = read_pins(options.constraints.read_text(), report)
    check_installed(pins, installed_pins(found), report)
    check_pythons(found, report)
    check_licences(found, report)
    if not options.offline:
        check_index((options.index or find_index()).rstrip("/"), pins, report)
    return report.print()


if __name__ == "__main__":
    sys.exit(main())
