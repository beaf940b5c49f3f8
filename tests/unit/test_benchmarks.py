"""The benchmarks choose, count, judge and draw as they say; those with a limit fail beyond it."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from benchmarks import report, watch
from benchmarks.__main__ import choose
from benchmarks.contestants import WORKS
from benchmarks.environments import OURS, PINNED
from benchmarks.parts import merge, shapes
from benchmarks.results import Results, verdicts

MACHINE = {
    "processor": "a", "cores": 2, "memory_gb": 8, "system": "Linux", "python": "3.11", "java": "17",
}  # fmt: skip
BUSY = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def a_run(work, contestant, wall, *, size=1_000_000, rows=1_000_000, peak_mb=1000.0):
    return {
        "work": work, "contestant": contestant, "round": 0, "rows": rows, "wall": wall,
        "cpu": wall, "peak_mb": peak_mb, "gone": wall, "size": size, "date": "2026-01-31",
    }  # fmt: skip


def reached(*runs):
    found = verdicts(Results(MACHINE, list(runs)).medians())
    return {(one.work, one.ours): one.reached for one in found if one.ratio is not None}


@pytest.mark.parametrize(("wall", "verdict"), [(4, "aim"), (7, "must"), (9, "missed")])
def test_a_goal_is_judged_by_the_median(wall, verdict):
    others = [a_run("small", "script", seconds) for seconds in (10, 9, 50)]
    assert reached(a_run("small", "runner-files", wall), *others) == {
        ("small", "runner-files"): verdict
    }


def test_rows_per_second_count_where_the_other_reads_fewer():
    ours = a_run("full", "pipe-records", 20)
    theirs = a_run("full", "tap-postgres", 20, rows=200_000)
    assert reached(ours, theirs) == {("full, rows per second", "pipe-records"): "must"}


def test_growth_leaves_the_start_out():
    ten = {"size": 10_000_000, "rows": 10_000_000}
    lane = "runner-files"
    runs = [a_run("no change", lane, 10), a_run("full", lane, 15), a_run("full", lane, 60, **ten)]
    found = reached(*runs)
    assert found[("full, growth of wall less start", lane)] == "aim"
    assert found[("full, growth of memory", lane)] == "aim"


def test_newer_results_replace_only_what_they_measured(tmp_path):
    old = Results(MACHINE, [a_run("full", "dlt", 1), a_run("small", "dlt", 2)])
    old.write(tmp_path / "speed.json")
    new = Results(MACHINE, [a_run("full", "dlt", 3)])
    both = Results.read(tmp_path / "speed.json").followed_by(new)
    assert [(run["work"], run["wall"]) for run in both.runs] == [("small", 2), ("full", 3)]
    elsewhere = Results({**MACHINE, "cores": 4}, new.runs)
    assert old.followed_by(elsewhere).runs == new.runs


def test_the_report_has_a_table_and_a_picture_of_every_work(tmp_path):
    runs = [a_run(work, name, 5) for work in WORKS for name in ("runner-files", "script")]
    report.write(Results(MACHINE, runs), tmp_path)
    assert (tmp_path / "speed.md").read_text().count("**singer-spark run, files, cold**") == 4
    bars = ET.parse(tmp_path / "speed.svg").getroot().findall("{*}rect")  # noqa: S314 - our own
    assert len(bars) == 1 + len(runs)


def test_contestants_have_the_environments_they_need():
    everyone = choose([], [])
    assert {name for one in everyone for name in one.environments} == {*PINNED, *OURS}
    assert [one.name for one in choose(["no change"], []) if one.works == {"no change"}] == [
        "session"
    ]
    assert [*choose(["small"], ["dlt"]).values()] == [{"small"}]
    with pytest.raises(SystemExit, match="No such contestant: nobody"):
        choose([], ["nobody"])


def test_what_outlives_the_command_is_counted(tmp_path):
    left = f'setsid {sys.executable} -c "$BUSY" & exit 3'
    command = ["env", f"BUSY={BUSY}", "sh", "-c", left]
    result = tmp_path / "result"
    subprocess.run([sys.executable, watch.__file__, result, "--", *command], check=True)
    found = json.loads(result.read_text())
    assert found["code"] == 3
    assert found["wall"] < found["gone"]
    assert 0.5 <= found["cpu"] < 2
    assert found["peak_mb"] > 1


@pytest.mark.parametrize(
    ("rates", "peak", "beyond"),
    [
        ((60, 100), 499, []),
        ((40, 100), 499, ["validation takes more than 50% of the speed"]),
        ((60, 100), 501, [f"{shape.name}: 501 MB, above 500 MB" for shape in shapes.SHAPES]),
    ],
    ids=["within", "validation", "memory"],
)
def test_shapes_report_what_is_beyond_its_limit(monkeypatch, tmp_path, rates, peak, beyond):
    checked, unchecked = rates

    def rate(_folder, _shape, _scale, *, validate_records=True):
        return shapes._Found(checked if validate_records else unchecked, 1, peak)

    monkeypatch.setattr(shapes, "_rate", rate)
    assert shapes.run(tmp_path, 1) == beyond


@pytest.mark.parametrize(("ratio", "code"), [(1.9, False), (2.1, True)])
def test_a_merge_that_grows_with_its_table_fails(monkeypatch, ratio, code):
    monkeypatch.setattr(sys, "argv", ["merge"])
    monkeypatch.setattr(merge, "merge", lambda *_: ratio)
    with pytest.raises(SystemExit) as ended:
        merge.main()
    assert ended.value.code == code
