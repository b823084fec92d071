"""How tables give way, and how times and durations are read and shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from rota.cli.main import app
from rota.cli.terminal.tables import clean, lay_out, text, time
from rota.cli.terminal.times import (
    check_time,
    parse_duration,
    show_age,
    show_interval,
    show_length,
    show_time,
    show_time_briefly,
)
from rota.errors import BadInputError

NOW = datetime(2030, 6, 15, 12, 0, tzinfo=UTC)
COLUMNS = (
    text("ID", "id"),
    text("NAME", "name", least=5),
    text("TASK", "task", drop=1),
    time("CREATED", "created", drop=2),
)
ITEMS = [
    {"id": "run_1234567890", "name": "a name that is long", "task": "rota.echo", "created": "2001-01-31T09:30:00Z"},
    {"id": "run_0987654321", "name": "short", "task": "rota.fail", "created": None},
]


def lines(width):
    _, rows = lay_out(ITEMS, COLUMNS, width)
    return ["  ".join(row) for row in rows]


def headings(width):
    return [column.heading for column in lay_out(ITEMS, COLUMNS, width)[0]]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.5, "0.5 s"),
        (60.0, "1 min"),
        (90.0, "90 s"),
        (900.0, "15 min"),
        (5400.0, "90 min"),
        (7200.0, "2 h"),
        (86400.0, "1 d"),
    ],
)
def test_intervals_are_shown_whole_in_their_largest_unit(seconds, words):
    assert show_interval(seconds) == words


def test_without_a_terminal_nothing_is_shortened():
    assert lines(None)[1] == "run_1234567890  a name that is long  rota.echo  2001-01-31 09:30:00Z"


def test_times_are_shown_briefly_before_a_column_is_left_out():
    full = len(lines(None)[0])
    assert headings(full) == ["ID", "NAME", "TASK", "CREATED"]
    assert lines(full - 1)[1] == "run_1234567890  a name that is long  rota.echo  2001-01-31"


def test_columns_are_left_out_in_their_order_and_names_are_cut_last():
    assert headings(44) == ["ID", "NAME", "TASK", "CREATED"]
    assert headings(43) == ["ID", "NAME", "TASK"]
    assert headings(31) == ["ID", "NAME"]
    assert lines(24)[1] == "run_1234567890  a name …"


def test_every_line_fits_as_long_as_ids_do():
    for width in range(21, 80):
        assert max(map(len, lines(width))) <= width


def test_ids_are_whole_however_narrow_it_gets():
    assert all("run_" in line and "…" not in line.split("  ")[0] for line in lines(5)[1:])


def test_wide_characters_count_for_two():
    _, rows = lay_out([{"id": "x", "name": "日本語日本語"}], COLUMNS[:2], 9)
    assert rows[1][1] == "日本…"


def test_control_characters_become_visible_and_lines_stay():
    assert clean("a\x1b[31mb\nc\td\x9b") == "a\ufffd[31mb\nc\td\ufffd"


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2030-06-15T09:30:01.5Z", "09:30:01Z"),
        ("2030-06-15T01:30:00+02:00", "06-14 23:30Z"),
        ("2030-01-31T09:30:00Z", "01-31 09:30Z"),
        ("2031-01-31T09:30:00Z", "2031-01-31"),
        (None, ""),
    ],
)
def test_a_brief_time_is_the_clock_today_and_a_date_otherwise(moment, shown):
    assert show_time_briefly(moment, NOW) == shown


def test_a_time_is_shown_in_utc_and_says_so():
    assert show_time("2030-06-15T01:30:00+02:00") == "2030-06-14 23:30:00Z"


def test_an_age_is_never_negative():
    assert show_age("2030-06-15T11:59:57Z", NOW) == "3 s ago"
    assert show_age("2030-06-15T12:00:07Z", NOW) == "0 s ago"
    assert show_age("2030-06-15T09:00:00Z", NOW) == "3 h ago"


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("12:00:00.000100Z", "<1 ms"),
        ("12:00:00.250Z", "250 ms"),
        ("12:00:12.340Z", "12.3 s"),
        ("12:05:00Z", "5 min"),
        ("23:00:00Z", "11 h"),
    ],
)
def test_a_length_is_shown_in_its_own_unit(end, shown):
    assert show_length("2030-06-15T12:00:00Z", f"2030-06-15T{end}") == shown


@pytest.mark.parametrize(
    ("content", "seconds"),
    [("90", 90), ("1.5s", 1.5), ("15m", 900), ("2h30m", 9000), ("1d", 86400), (" 1H ", 3600)],
)
def test_durations_are_read(content, seconds):
    assert parse_duration(content, "--in") == seconds


@pytest.mark.parametrize("content", ["", "s", "-5", "5x", "1e5", "30m2h", "٣"])
def test_what_is_no_duration_is_refused(content):
    with pytest.raises(BadInputError, match="is not a duration"):
        parse_duration(content, "--in")


def test_a_time_without_an_offset_is_refused():
    assert check_time("2030-01-31T09:30:00+01:00", "--at") == "2030-01-31T09:30:00+01:00"
    with pytest.raises(BadInputError, match="has no offset"):
        check_time("2030-01-31 09:30", "--at")


def test_the_usage_of_every_command_names_its_arguments_as_people_write_them():
    listed = CliRunner().invoke(app, ["--help"]).stdout.partition("Commands:\n")[2]
    names = [line.split()[0] for line in listed.splitlines()]
    usages = [CliRunner().invoke(app, [name, "--help"]).stdout.partition("\n")[0] for name in names]
    assert "Usage: rota submit [OPTIONS] [NAME]" in usages
    assert not [usage for usage in usages if "[[" in usage]


def test_the_list_of_commands_is_whole_on_80_columns():
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.partition("Commands:")[2]
    assert "top" in listed
    assert "..." not in listed
    assert max(map(len, listed.splitlines())) <= 76  # a real terminal loses two columns that this one has
