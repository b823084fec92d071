"""Zones: found by name, cut into spans, and followed when their data is replaced while we run."""

from __future__ import annotations

import os
import shutil
import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from rota.domain import timezones
from rota.domain.cron import Cron
from rota.domain.timezones import load_zone, refresh_zones, spans_of, zone_data_version
from rota.errors import BadInputError

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def zone_files(tmp_path):
    """A directory of zone data that is in use, and may be changed."""
    before = zoneinfo.TZPATH
    package = timezones._package_directory() / "Europe"
    (tmp_path / "Test").mkdir()
    shutil.copy(package / "Berlin", tmp_path / "Test" / "Town")
    (tmp_path / "tzdata.zi").write_text("# version 2030a\n# This zic input file is in the public domain.\n")
    zoneinfo.reset_tzpath([str(tmp_path)])
    refresh_zones()
    yield tmp_path
    zoneinfo.reset_tzpath(before)
    refresh_zones()


def replace(directory: Path, zone: str) -> None:
    """An update puts another file into the place of the old one, and may keep its time."""
    shutil.copy(timezones._package_directory() / zone, directory / "new")
    (directory / "new").rename(directory / "Test" / "Town")
    later = directory.stat().st_mtime_ns + 1_000_000_000  # file systems are not that exact
    os.utime(directory / "Test", ns=(later, later))


@pytest.mark.parametrize(
    "name",
    ["", "Nowhere/Land", "europe/berlin", "Europe", "../../etc/passwd", "/etc/localtime", "\x00", "A" * 5000, "+01:00"],
    ids=lambda name: repr(name[:20]),
)
def test_a_zone_that_does_not_exist_is_refused_with_its_field(name):
    with pytest.raises(BadInputError) as refused:
        load_zone(name)
    ((field, message),) = refused.value.fields
    assert field == "timezone"
    assert len(message) < 250


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia"])
@pytest.mark.parametrize("year", [2, 1900, 2011, 2026, 2100, 9998])
def test_spans_cover_a_year_without_holes_and_have_one_offset_each(zone, year):
    spans = spans_of(zone, year)
    assert spans[0].start == datetime(year, 1, 1, tzinfo=UTC)
    assert spans[-1].end == datetime(year + 1, 1, 1, tzinfo=UTC)
    for one, two in pairwise(spans):
        assert one.end == two.start
        assert one.offset != two.offset
        assert two.opens == two.start + one.offset
    for span in spans:
        for moment in (span.start, span.start + (span.end - span.start) / 2, span.end - timedelta(seconds=1)):
            assert moment.astimezone(load_zone(zone)).utcoffset() == span.offset


def test_the_version_of_the_zone_data_names_its_release(zone_files):
    assert zone_data_version().startswith("2030a of ")


def test_the_package_is_the_zone_data_where_the_system_has_none():
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([])
    try:
        version = zone_data_version()
        timezones.ZoneInfo.clear_cache()
        assert timezones.ZoneInfo("Europe/Berlin").utcoffset(datetime(2026, 7, 1)) == timedelta(hours=2)  # noqa: DTZ001
    finally:
        zoneinfo.reset_tzpath(before)
    assert version[:2] == "20"


def test_nothing_is_forgotten_while_the_data_stays_the_same(zone_files):
    zone = load_zone("Test/Town")
    assert not refresh_zones()
    assert load_zone("Test/Town") is zone


def test_a_schedule_follows_its_zone_when_the_data_is_replaced(zone_files):
    cron = Cron("0 9 * * *", "Test/Town")
    assert cron.next_after(NEW_YEAR).hour == 8
    replace(zone_files, "America/New_York")
    assert cron.next_after(NEW_YEAR).hour == 8, "a running round of questions gets answers of one kind"
    assert refresh_zones()
    assert cron.next_after(NEW_YEAR).hour == 14
    assert not refresh_zones()


def test_a_new_release_is_a_change_even_if_the_directory_looks_the_same(zone_files):
    version = zone_data_version()
    stamp = zone_files.stat()
    (zone_files / "tzdata.zi").write_text("# version 2030b\n")
    os.utime(zone_files, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert zone_data_version() != version
    assert zone_data_version().startswith("2030b of ")
