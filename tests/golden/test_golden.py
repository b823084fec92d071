"""What users, stored data and other releases rely on, compared with the files beside this one.

A difference is either a mistake or a change that they will notice. If the change is wanted, write the files anew and
read the diff before you commit it: ROTA_WRITE_GOLDEN=1 pytest tests/golden
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import collected_api
import collected_commands
import collected_names
import collected_storage
import pytest

HERE = Path(__file__).parent
WRITE = "ROTA_WRITE_GOLDEN"


@pytest.fixture(name="stays")
def compare_with_file():
    """stays("name.txt", text) fails when the text is no longer what the file says."""

    def compare(name, text):
        path, now = HERE / name, text.strip() + "\n"
        if os.environ.get(WRITE):
            path.write_text(now, encoding="utf-8")
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if now != before:
            lines = difflib.unified_diff(before.splitlines(), now.splitlines(), name, "now", lineterm="", n=2)
            words = f"If this change is wanted, write the files anew: {WRITE}=1 pytest tests/golden"
            pytest.fail("\n".join([f"{name} is not what it was:", "", *lines, "", words]), pytrace=False)

    return compare


def test_the_openapi_document_stays(stays):
    stays("openapi.json", collected_api.openapi())


def test_every_problem_keeps_its_type_and_status(stays):
    stays("problem_types.txt", collected_api.problem_types())


def test_operations_keep_their_names_in_the_document_and_in_the_audit_trail(stays):
    stays("audit_actions.txt", collected_api.audit_actions())


def test_events_keep_their_names(stays):
    stays("events.txt", collected_api.events())


def test_applications_find_every_name_and_parameter(stays):
    stays("public_names.txt", collected_names.public_names())


def test_every_command_says_the_same_about_itself(stays):
    stays("help.txt", collected_commands.help_texts())


def test_the_command_line_ends_with_the_same_exit_codes(stays):
    stays("exit_codes.txt", collected_commands.exit_codes())


def test_settings_keep_their_names_defaults_and_bounds(stays):
    stays("settings.txt", collected_commands.settings())


def test_what_is_stored_as_json_keeps_its_shape(stays):
    stays("stored_shapes.txt", collected_storage.stored_shapes())


def test_processes_of_other_releases_find_the_same_names(stays):
    stays("names_shared_with_other_builds.txt", collected_storage.shared_names())
