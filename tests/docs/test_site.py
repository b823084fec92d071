"""The site of the documentation can be built, holds every page, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
    "use": "href",
}
IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; strict: a link that leads nowhere or a page without a place in the navigation fails."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


class Loads(HTMLParser):
    """Collects what a page loads, and where it links to."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif LOADING.get(tag) in found and found.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(found[LOADING[tag]])


def is_elsewhere(address):
    return re.match(r"(?:\w+:)?//", address) is not None


def test_no_page_loads_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        foreign = [address for address in Loads(page.read_text()).loaded if address and is_elsewhere(address)]
        assert not foreign, f"{page.relative_to(site)}: {foreign}"


def test_no_style_loads_anything_from_another_host(site):
    for style in site.rglob("*.css"):
        assert not IN_STYLES.search(style.read_text()), style.name


def test_the_look_for_foreign_hosts_finds_them():
    page = Loads('<script src="https://example.com/x.js"></script><link href="//example.com/a.css"><img src="a.png">')
    assert [is_elsewhere(address) for address in page.loaded] == [True, True, False]
    assert IN_STYLES.search("@import 'https://example.com/a.css'")


def test_every_page_is_in_the_navigation(site):
    start = site / "index.html"
    reached = {(start.parent / link.partition("#")[0]).resolve() for link in Loads(start.read_text()).links if link}
    written = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    pages = {site / path.with_name(path.name.replace("README", "index")).with_suffix(".html") for path in written}
    assert {page.resolve() for page in pages} <= reached | {start.resolve()}


def test_what_is_meant_for_tests_is_not_in_the_site(site):
    for page in site.rglob("*.html"):
        assert not re.search(
            r"&lt;!-- (?:needs|hidden|file|output)|<!-- (?:needs|hidden|file|output)", page.read_text()
        )


def test_search_has_an_index_that_needs_no_server(site):
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = ")
    assert 'src="assets/worker-in-a-frame.js' in (site / "index.html").read_text()


def test_the_pages_that_are_made_from_the_code_are_up_to_date():
    command = [sys.executable, "tools/make_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
