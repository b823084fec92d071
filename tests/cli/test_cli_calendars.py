"""Calendars on the command line, against a real `rota up`."""

from __future__ import annotations

import json


def test_a_calendar_from_its_file_to_its_end(rota, tmp_path):
    file = tmp_path / "holidays"
    file.write_text(json.dumps(["2090-01-02", "2090-01-03"]))
    put = rota.in_process("calendar", "put", "holidays", str(file))
    assert put.out.strip() == "holidays: 2 days, 0 schedules"
    assert "holidays" in rota.in_process("calendar").out
    assert "2090-01-02 Mon" in rota.in_process("calendar", "show", "holidays").out
    asked = ("0 2 * * *", "--after", "2090-01-01T12:00:00Z", "-n", "1", "--exclude-calendar", "holidays")
    assert rota.json("schedule", "preview", *asked)["fireTimes"] == ["2090-01-04T02:00:00Z"]
    days = ("--exclude-calendar", "holidays", "--on-excluded-day", "next")
    job = rota.json("submit", "with holidays", "--task", "rota.echo", "--cron", "0 2 * * *", *days)
    assert rota.json("job", job["jobId"])["excludeCalendars"] == ["holidays"]
    refused = rota.in_process("calendar", "delete", "holidays")
    assert refused.code != 0
    assert "with holidays" in refused.err
    rota.json("cancel", job["jobId"])
    assert rota.json("calendar", "delete", "holidays")["name"] == "holidays"
    assert rota.in_process("calendar", "show", "holidays").code != 0


def test_an_icalendar_file_is_read_and_what_is_neither_is_refused(rota, tmp_path):
    file = tmp_path / "days.ics"
    lines = ("BEGIN:VCALENDAR", "BEGIN:VEVENT", "DTSTART;VALUE=DATE:20900105", "END:VEVENT", "END:VCALENDAR", "")
    file.write_text("\r\n".join(lines))
    assert rota.json("calendar", "put", "closed", str(file))["days"] == ["2090-01-05"]
    file.write_text("days off: some")
    refused = rota.in_process("calendar", "put", "closed", str(file))
    assert refused.code == 2
    assert "neither iCalendar nor JSON" in refused.err
    assert rota.in_process("calendar", "put", "closed", str(tmp_path / "none")).code == 2


def test_a_preview_without_weekends_needs_no_server(rota):
    asked = ("0 2 * * *", "--after", "2026-11-20T12:00:00Z", "-n", "1", "--exclude-weekends")
    assert rota.json("schedule", "preview", *asked)["fireTimes"] == ["2026-11-23T02:00:00Z"]
    refused = rota.in_process("schedule", "preview", "0 2 * * *", "--on-excluded-day", "next")
    assert refused.code == 2
