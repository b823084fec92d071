"""Paths lead where Starlette's routes would lead, and parts that are spelled out come first."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import compile_path

from rota.api.paths import PathTree
from rota.api.routes import OPERATIONS
from support import examples

TEMPLATES = sorted({operation.path for operation in OPERATIONS}, key=lambda path: path.count("{"))
PATTERNS = []
for template in TEMPLATES:
    pattern = compile_path(template.replace("{subject}", "{subject:path}"))[0].pattern
    PATTERNS.append((template, re.compile(pattern.removesuffix("$") + r"\Z", re.DOTALL)))
WORDS = sorted({part for template in TEMPLATES for part in template.split("/") if "{" not in part})


@pytest.fixture(scope="module")
def tree():
    made = PathTree()
    for template in TEMPLATES:
        made.add(template, template)
    return made


def by_patterns(path):
    for template, pattern in PATTERNS:
        if match := pattern.match(path):
            return template, match.groupdict()
    return None


def test_every_path_leads_to_itself(tree):
    for template in TEMPLATES:
        path = re.sub(r"\{(\w+)\}", r"a-\1", template)
        parameters = {name: f"a-{name}" for name in re.findall(r"\{(\w+)\}", template)}
        assert tree.find(path) == (template, parameters)


parts = st.sampled_from([*WORDS, "", "x", "job_1", "a b", "a\nb", "{jobId}", ".."]) | st.text(max_size=5)


@settings(max_examples=examples(2000), deadline=None)
@given(st.lists(parts, max_size=6))
def test_any_path_leads_where_the_routes_would(tree, words):
    path = "/" + "/".join(words)
    assert tree.find(path) == by_patterns(path)


@pytest.mark.parametrize("path", ["", "*", "v1/jobs", "/v1/jobs/", "//v1/jobs", "/v1/jobs\n", "/v1//status"])
def test_what_is_no_path_of_ours_leads_nowhere(tree, path):
    assert tree.find(path) is None
