"""The commands of a run: found, told their part in private, given their streams."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace

import pytest

from singer_spark import scratch
from singer_spark.assignment import Assignment
from singer_spark.errors import ProtocolError, SettingsError
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import find_command
from singer_spark.runner.commands import Job, open_folder
from singer_spark.runner.supervisor import ChildError
from tests.support.bench import TAP, TARGET


@pytest.mark.parametrize("assignment", [None, Assignment(run_id="r")])
def test_the_streams_of_a_run_around_us_are_not_ours(bench, monkeypatch, assignment):
    monkeypatch.setenv("SINGER_SPARK_STREAMS", '["other"]')
    job = Job(pipeline=bench.pipeline(), run_id="r", folder=bench.folder, assignment=assignment)
    assert job.env["SINGER_SPARK_STREAMS"] == ""


def test_what_killed_processes_have_left_goes_when_a_run_begins(bench, tmp_path, monkeypatch):
    """Whether the run has something to do or not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    spools = tmp_path / "spools"
    dead = [tmp_path / "tmp" / f"{prefix}dead" for prefix in scratch.OURS]
    dead.append(spools / "target-spark-delta-dead")
    for folder in dead:
        folder.mkdir(parents=True)
        (folder / ".owner").touch()
        (folder / "rows").write_text("rows")
    living = scratch.make_scratch(scratch.TAP)
    target = Plugin("target-spark-delta", {"temp_dir": str(spools)})
    with open_folder(replace(bench.pipeline(), target=target)) as folder:
        assert {*(tmp_path / "tmp").iterdir()} == {living, folder}
    assert list(spools.iterdir()) == []


class TestSelection:
    CATALOG = {
        "streams": [
            {
                "tap_stream_id": "orders",
                "metadata": [
                    {"breadcrumb": [], "metadata": {"table-key-properties": ["id"]}},
                    {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "automatic"}},
                    {"breadcrumb": ["properties", "x"], "metadata": {"inclusion": "unsupported"}},
                ],
            },
            {"stream": "users"},
        ]
    }

    @pytest.fixture
    def choosy(self, bench):
        return self.write(bench, self.CATALOG)

    @staticmethod
    def write(bench, catalog):
        discover = f"if '--discover' in sys.argv: print({json.dumps(catalog)!r}); sys.exit()\n"
        tell = (
            'note("catalog", open(option("--catalog")).read() if option("--catalog") else "none")\n'
        )
        bench.write("tap-fake", discover + tell + TAP)
        return bench

    def test_chosen_streams_are_marked_and_no_others(self, choosy):
        choosy.run(streams=("orders",))

        orders, users = json.loads(choosy.note("catalog"))["streams"]
        chosen = {tuple(node["breadcrumb"]): node["metadata"] for node in orders["metadata"]}
        assert chosen == {
            (): {"table-key-properties": ["id"], "selected": True},
            ("properties", "id"): {"inclusion": "automatic", "selected": True},
            ("properties", "x"): {"inclusion": "unsupported", "selected": False},
        }
        assert users["metadata"] == [{"breadcrumb": [], "metadata": {"selected": False}}]

    def test_patterns_choose_many(self, choosy):
        choosy.run(streams=("*s",))
        assert all(
            entry["metadata"][0]["metadata"]["selected"]
            for entry in json.loads(choosy.note("catalog"))["streams"]
        )

    def test_our_own_tap_chooses_itself(self, choosy):
        """One process less, and the source is looked at once."""
        ours = choosy.folder / "tap-spark-source"
        tell = 'note("streams", os.environ["SINGER_SPARK_STREAMS"])\n'
        choosy.write(ours.name, "if '--discover' in sys.argv: sys.exit(9)\n" + tell + TAP)
        choosy.run(tap=Plugin(str(ours), {}), streams=("orders", "a*"))
        assert json.loads(choosy.note("streams")) == ["orders", "a*"]
        choosy.run(tap=Plugin(str(ours), {}))
        assert choosy.note("streams") == ""

    def test_without_a_choice_the_tap_gets_no_catalog(self, choosy):
        choosy.run()
        assert choosy.note("catalog") == "none"

    def test_a_run_without_a_stream_is_warned_of(self, bench, capfd):
        bench.write("tap-fake", "pass")
        bench.run()
        assert "Warning: the tap sent no stream at all" in capfd.readouterr().err

    def test_an_unknown_stream_lists_those_there_are(self, choosy):
        error = choosy.fail(SettingsError, streams=("orders", "nix", "nada"))
        assert error.exit_code == 78
        assert "offers no nada, nix; available: orders, users" in error.message
        assert choosy.note("target-fake.pid") is None

    def test_a_failing_discovery_keeps_its_exit_code(self, bench):
        bench.write("tap-fake", "if '--discover' in sys.argv: sys.exit(69)")
        assert bench.fail(ChildError, streams=("x",)).exit_code == 69

    @pytest.mark.parametrize("output", ["", "hello", "[]", '{"streams": 5}'])
    def test_a_discovery_without_catalog_is_error_76(self, bench, output):
        bench.write("tap-fake", f"if '--discover' in sys.argv: print({output!r})")
        assert bench.fail(ProtocolError, streams=("x",)).exit_code == 76


class TestSecrets:
    def test_secrets_travel_in_files_without_a_name_that_can_be_read_twice(self, bench, capfd):
        spy = """
path = option("--config")
note("%s-seen", json.dumps({"argv": sys.argv, "config": json.load(open(path)),
    "again": json.load(open(path)), "mode": os.stat(path).st_mode, "links": os.stat(path).st_nlink,
    "is_file": os.path.isfile(path)}))
"""
        bench.write("tap-fake", spy % "tap" + TAP)
        bench.write("target-fake", spy % "target" + TARGET + "sys.exit(1)")
        error = bench.fail(ChildError)

        for name in ("tap", "target"):
            seen = json.loads(bench.note(f"{name}-seen"))
            assert seen["config"] == seen["again"] == {"password": "do-not-tell"}
            assert "do-not-tell" not in str(seen["argv"])
            assert stat.S_IMODE(seen["mode"]) == 0o600
            assert (seen["links"], seen["is_file"]) == (0, True)
        output = capfd.readouterr()
        assert "do-not-tell" not in output.out + output.err + error.message + str(bench.lines)

    def test_a_caller_that_closed_its_standard_files_disturbs_nothing(self):
        code = """
import os, subprocess, sys
from singer_spark.runner.process import Command, pass_values
for standard in (0, 2): os.close(standard)
given = Command("cat", ("cat",)).given("--", {"a": 1})
with pass_values(given) as (argv, descriptors):
    pipe = subprocess.PIPE
    done = subprocess.run(argv, pass_fds=descriptors, stdout=pipe, stderr=pipe, stdin=pipe)
print(done.stdout.decode(), end="")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == '{"a": 1}'


class TestCommands:
    def test_a_command_is_found_beside_the_python_that_runs_us(self, bench, monkeypatch):
        monkeypatch.setenv("PATH", os.defpath)
        monkeypatch.setattr(sys, "executable", str(bench.folder / "python"))

        command = find_command("source.tap", Plugin("tap-fake", {}))
        assert command.argv == (str(bench.folder / "tap-fake"),)

    def test_a_missing_command_says_what_to_install(self):
        with pytest.raises(SettingsError, match="pip install tap-that-is-not-there") as caught:
            find_command("source.tap", Plugin("tap-that-is-not-there", {}))
        assert caught.value.exit_code == 78
        assert caught.value.message.startswith("source.tap:")
