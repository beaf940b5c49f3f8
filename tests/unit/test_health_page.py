"""The dashboard: what it shows, that everything in it is escaped, and how a browser sees it."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from singer_spark.figures import format_bytes, format_count, format_distance
from singer_spark.health.history import FoundLock, History
from singer_spark.health.page import write_page
from singer_spark.health.rules import Health
from singer_spark.pipeline import Alerts

NOW = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
EVIL = "<script>alert('x')</script>\"&"


def run(number, **more):
    started = NOW - timedelta(hours=number + 1)
    facts = {"records": 100, "inserted": 60, "updated": 40, "late": 2, "lag_seconds": 30.0}
    return {
        "run_id": f"r{number}",
        "mode": "incremental",
        "exit_code": 0,
        "started_at": started.isoformat(),
        "milliseconds": 90_000,
        "records": 100,
        "inserted": 60,
        "lag_seconds": 1800.0,
        "streams": {"public-orders": facts},
        "bookmarks_after": {"public-orders": {"replication_key_value": started.isoformat()}},
        "peak_memory_bytes": {"tap": 5 * 2**20, "target": None},
        **more,
    }


def healths():
    failed = run(0, exit_code=69, error="no such table", streams={}, records=0)
    histories = [
        History(pipeline="good", now=NOW, runs=[run(n) for n in range(30)], cron="0 * * * *"),
        History(pipeline="bad", now=NOW, runs=[failed, *(run(n) for n in range(1, 9))]),
        History(pipeline="late", now=NOW, runs=[run(0)], alerts=Alerts(max_duration=60)),
        History(pipeline="busy", now=NOW, runs=[run(0)], lock=FoundLock(NOW, is_dead=False)),
        History(pipeline="fresh", now=NOW),
    ]
    return [Health.of(history) for history in histories]


class Balanced(HTMLParser):
    """Follows the elements, so that one that is not closed is found; collects the text."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, _attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return " ".join(parser.text)


class TestContent:
    def test_the_worst_come_first_with_their_reasons(self):
        page = write_page(healths())
        text = parse(page)
        assert re.findall(r"<h2><i[^>]*></i>(\w+)</h2>", page) == [
            "bad", "late", "busy", "fresh", "good",
        ]  # fmt: skip
        assert "the last run failed: no such table" in text
        assert "the last run took 90 s (limit 60 s)" in text
        assert "2 of 5 need a look" in text

    def test_each_run_has_its_streams_and_each_chart_its_bars(self):
        page = write_page(healths()[:1])
        text = parse(page)
        assert page.count("<rect") == 60
        assert page.count("<circle") == 30
        for told in (
            "public-orders",
            "inserted",
            "5.0 MB",
            "60 min ago",
            "incremental",
            "0 * * * *",
        ):
            assert told in text
        assert "deleted" not in text

    def test_nothing_at_all_is_a_page_too(self):
        assert "singer-spark init" in parse(write_page([]))

    def test_everything_is_escaped(self):
        evil = run(
            0, error=EVIL, mode=EVIL, run_id=EVIL, host=EVIL, exit_code=1, started_at=EVIL,
            mismatches={EVIL: EVIL}, streams={EVIL: {"records": EVIL}},
        )  # fmt: skip
        page = write_page([Health.of(History(pipeline=EVIL, now=NOW, runs=[evil], cron=None))])
        parse(page)
        assert "<script" not in page
        assert str(escape(EVIL)) in page

    def test_it_needs_no_network_and_no_script(self):
        page = write_page(healths())
        assert not re.search(r"https?:|src=|url\(|@import|<link|<script|javascript", page)

    @pytest.mark.parametrize(
        ("value", "told"),
        [(None, "-"), (12_345, "12,345"), (4e6, "4,000,000"), (4e7, "40.0M"), (0, "0")],
    )
    def test_numbers_are_brief(self, value, told):
        assert format_count(value) == told

    def test_sizes_and_ages_have_units(self):
        assert format_bytes(3 * 2**30) == "3.0 GB"
        assert format_distance(NOW - timedelta(minutes=3, seconds=9), NOW) == "3 min ago"
        assert format_distance(NOW, NOW) == "just now"
        assert format_distance(NOW + timedelta(hours=3), NOW) == "in 3 h"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not on the PATH")
class TestBrowser:
    """What a real browser makes of the page, in a frame as wide as a phone or a desk."""

    MEASURE = """
    <script>
    const frame = document.querySelector('iframe');
    frame.onload = () => {
      const page = frame.contentDocument, root = page.documentElement;
      page.querySelectorAll('details').forEach(one => one.open = true);
      const charts = getComputedStyle(page.querySelector('.charts')).gridTemplateColumns;
      document.title = [root.scrollWidth, getComputedStyle(page.body).backgroundColor,
        charts.split(' ').length, page.querySelectorAll('section').length].join('|');
    };
    frame.srcdoc = atob(document.querySelector('template').content.textContent.trim());
    </script>"""

    def look(self, folder, width, *options):
        body = base64.b64encode(write_page(healths()).encode("ascii", "xmlcharrefreplace")).decode()
        frame = folder / "frame.html"
        frame.write_text(
            f"<iframe style='width:{width}px;height:900px;border:0'></iframe>"
            f"<template>{body}</template>{self.MEASURE}"
        )
        done = subprocess.run(
            [
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                f"--user-data-dir={folder}/profile", "--virtual-time-budget=2000", *options,
                frame.as_uri(),
            ],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        title = re.search(r"<title>(.*?)</title>", done.stdout)
        scroll, ground, columns, sections = title[1].split("|")
        assert sections == "5"
        return int(scroll), ground, int(columns)

    def test_a_phone_gets_one_column_and_no_sideways_scrolling(self, tmp_path):
        scroll, _, columns = self.look(tmp_path, 390)
        assert scroll <= 390
        assert columns == 1

    def test_a_desk_gets_three_columns_in_light_and_dark(self, tmp_path):
        scroll, light, columns = self.look(
            tmp_path, 1200, "--blink-settings=preferredColorScheme=1"
        )
        assert scroll <= 1200
        assert columns == 3
        _, dark, _ = self.look(tmp_path, 1200, "--blink-settings=preferredColorScheme=0")
        assert light == "rgb(244, 245, 247)"
        assert dark == "rgb(13, 16, 21)"
