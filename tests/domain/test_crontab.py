"""Crontabs: every line as cron reads it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cron_expressions import full_expressions
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.cron import Cron
from rota.domain.cron_grammar import MACROS, parse_fields
from rota.domain.crontab import parse_crontab, split_input
from rota.domain.schedule import fire_times
from rota.errors import BadInputError

AFTER = datetime(2026, 11, 16, tzinfo=UTC)


def only(text, **options):
    found = parse_crontab(text, **options)
    assert not found.problems
    (entry,) = found.entries
    return entry


def problems(text, **options):
    return [(problem.line, problem.words) for problem in parse_crontab(text, **options).problems]


def test_comments_and_empty_lines_are_passed_over_and_lines_are_counted():
    entry = only("# a comment\n\n   \t\n  # another\n\t*/5  *\t* * *   echo hi # not a comment \n")
    assert (entry.line, entry.expression, entry.command) == (5, "*/5 * * * *", "echo hi # not a comment")


def test_a_last_line_without_an_end_and_lines_of_windows_are_read():
    entries = parse_crontab("0 1 * * * one\r\n0 2 * * * two").entries
    assert [entry.command for entry in entries] == ["one", "two"]


def test_variables_hold_for_the_lines_below_them():
    text = """
PATH=/usr/local/bin:/usr/bin
0 1 * * * first
 NAME = "two  words "
'QUOTED' = 'a "b" c'
EMPTY =
PLAIN = a b # c
0 2 * * * second
"""
    first, second = parse_crontab(text).entries
    assert first.environment == {"PATH": "/usr/local/bin:/usr/bin"}
    assert second.environment == first.environment | {
        "NAME": "two  words ",
        "QUOTED": 'a "b" c',
        "EMPTY": "",
        "PLAIN": "a b # c",
    }


def test_the_shell_and_the_zone_are_told_apart_from_what_a_command_sees():
    entry = only("SHELL=/bin/bash\nCRON_TZ=Europe/Berlin\nTZ=Asia/Tokyo\n@daily x")
    assert (entry.shell, entry.timezone) == ("/bin/bash", "Europe/Berlin")
    assert entry.environment == {"SHELL": "/bin/bash", "TZ": "Asia/Tokyo"}
    assert only("@daily x").shell == "/bin/sh"


def test_what_can_not_be_kept_is_told():
    found = parse_crontab("MAILTO=me\n@reboot start\nMAILTO=\n@Daily x")
    assert [remark.line for remark in found.remarks] == [1, 2]
    assert [(entry.expression, entry.environment) for entry in found.entries] == [("@daily", {})]


@pytest.mark.parametrize("name", MACROS)
def test_names_of_times_are_kept(name):
    assert only(f"{name.upper()} x").expression == name


def test_a_systems_crontab_has_accounts():
    entry = only("17 * * * * root cd / && run-parts /etc/cron.hourly", system=True)
    assert (entry.user, entry.command) == ("root", "cd / && run-parts /etc/cron.hourly")
    entry = only("@daily nobody x", system=True)
    assert (entry.user, entry.command) == ("nobody", "x")


@pytest.mark.parametrize(
    ("text", "command", "given"),
    [
        ("date +\\%F", "date +%F", ""),
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        ("cat%one%", "cat", "one\n"),
        ("cat%100\\% sure", "cat", "100% sure\n"),
        ("echo 'a\\nb'", "echo 'a\\nb'", ""),
        ("echo a\\\\%b", "echo a\\\\", "b\n"),
        ("mail -s 'no % quotes' me", "mail -s 'no ", " quotes' me\n"),
    ],
)
def test_a_percent_sign_ends_the_command_and_breaks_lines_of_its_input(text, command, given):
    assert split_input(text) == (command, given)


def test_a_minus_before_the_minute_and_values_at_random_are_understood():
    assert only("-*/5 * * * * x").expression == "*/5 * * * *"
    assert only("0~29 ~ 3~ * ~5 x").expression == "H(0-29) H(0-23) H(3-28) * H(0-5)"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("61 * * * * x", "bad minute field: '61' is not within 0-59"),
        ("* * * * x y", "bad day-of-week field"),
        ("* * * *", "is incomplete"),
        ("* * * * *", "is incomplete"),
        ("* * * * *   ", "is incomplete"),
        ("* * * * * %only input", "has no command"),
        ("@daily", "is incomplete"),
        ("@fortnightly x", "'@fortnightly' is not known"),
        ("0 0 30 2 * x", "never fires"),
        ("nonsense", "is incomplete"),
        ("CRON_TZ=Mars/Base", "no time zone called 'Mars/Base'"),
        ("SHELL=bash", "whole path"),
        ("ROTA_TOKEN=x", "can't be set"),
        ("* * * * * a\x00b", "has no command"),
    ],
)
def test_a_line_that_can_not_be_read_is_told_with_its_number_and_the_others_are_read(line, words):
    found = parse_crontab(f"0 1 * * * before\n{line}\n0 2 * * * after")
    assert [problem.line for problem in found.problems][:1] == [2]
    assert words in found.problems[0].words
    assert found.entries[0].command == "before"
    if "=" not in line.partition(" ")[0]:  # a variable is missed by the lines below
        assert found.entries[-1].command == "after"


def test_without_its_column_a_systems_crontab_is_short_of_a_command():
    assert problems("@daily root", system=True)[0][1].startswith("is incomplete")


def is_understood(expression):
    try:
        return len(expression.split()) == 5 and bool(parse_fields(expression))
    except BadInputError:
        return False


@given(full_expressions().filter(is_understood), st.sampled_from([" ", "\t", "  \t "]))
def test_every_expression_that_is_understood_survives_in_a_crontab(expression, gap):
    line = gap.join([*expression.split(), "echo 'a  b'"])
    entry = only(f" {line}\n")
    assert entry.command == "echo 'a  b'"
    assert parse_fields(entry.expression) == parse_fields(expression)


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    found = parse_crontab(text)
    assert all(1 <= remark.line <= text.count("\n") + 1 for remark in [*found.problems, *found.remarks])
    assert all(entry.command.strip() for entry in parse_crontab(text, system=True).entries)


@given(st.text(alphabet=st.sampled_from("ab%\\ '")))
def test_a_percent_sign_is_lost_nowhere(text):
    command, given = split_input(text)
    signs = command.count("%") + given.count("%") + given.count("\n")
    assert text.count("%") - 1 <= signs <= text.count("%") + 1


@pytest.mark.parametrize(
    "expression",
    ["0 0 13 * fri", "0 12 1,15 * mon-wed", "*/20 9-17/2 * * 1-5", "5 4 * 2,jun sun", "0 0 1 */3 *", "30 6 * * 7"],
)
def test_an_entry_fires_when_others_read_cron_alike(expression):
    entry = only(f"{expression} x")
    ours = fire_times(Cron(entry.expression, "UTC"), AFTER, AFTER + timedelta(days=400), 50)
    theirs = croniter(expression, AFTER, day_or=True)
    assert ours == [theirs.get_next(datetime) for _ in ours]


def test_no_line_is_read_without_a_variable_that_could_not_be_set():
    found = parse_crontab("SHELL=bash\n0 2 * * * two\nSHELL=/bin/sh\n0 3 * * * three\nCRON_TZ=Nowhere\n0 4 * * * four")
    assert [entry.command for entry in found.entries] == ["three"]
    assert [problem.line for problem in found.problems] == [1, 2, 5, 6]
