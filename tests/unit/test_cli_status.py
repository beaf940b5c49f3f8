"""`status` as people, monitors and scrapers meet it, what it costs, and whom it tells."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner
from moto.backends import get_backend
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from singer_spark.cli import main
from singer_spark.health.collect import Checked, check_store
from singer_spark.health.notify import send_alerts
from singer_spark.pipeline import Alerts
from singer_spark.runner.record import RunRecord
from singer_spark.runner.state_store import StateInStore
from singer_spark.state import create_state_store
from singer_spark.state.holder import Holder
from singer_spark.state.lock import RunLock, locked
from singer_spark.state.runs import save_run
from singer_spark.storage.objects import Expect
from tests.support.web import webhook

PIPELINE = "name: {0}\nsource: {{tap: t}}\ndestination: {{target: x}}\nstate: store\n{1}"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pipelines").mkdir()


def add(name, more="", **last):
    Path(f"pipelines/{name}.yml").write_text(PIPELINE.format(name, more))
    if last is not None and "never" not in last:
        save_run(create_state_store("store"), name, record(**last))


def record(number=0, **more):
    started = datetime.now(timezone.utc) - timedelta(minutes=5)
    return {
        "run_id": f"r{number:05}",
        "exit_code": 0,
        "mode": "incremental",
        "started_at": started.isoformat(timespec="milliseconds"),
        "milliseconds": 4200,
        "records": 340,
        "bytes": 12_345,
        "streams": {"orders": {"records": 340}},
        "bookmarks_after": {"orders": {"replication_key_value": started.isoformat()}},
        **more,
    }


def status(*arguments):
    return CliRunner().invoke(main, ["status", *arguments])


class TestTable:
    def test_without_pipelines_it_is_an_empty_list(self):
        result = status()
        assert result.exit_code == 0
        assert "singer-spark init" in result.output
        assert json.loads(status("--json").output) == []

    def test_each_pipeline_has_its_line_and_its_reasons(self):
        add("good")
        add("never", never=True)
        add("slow-one", "alerts: {max_duration: 2s}\n")
        add("a-pipeline-with-a-very-very-long-name", exit_code=3, error="tap failed: " + "x" * 99)
        Path("pipelines/broken.yml").write_text("name: broken\ncolour: red\n")
        result = status()

        assert result.exit_code == 2
        lines = result.output.splitlines()
        assert lines[0].split() == [
            "PIPELINE", "HEALTH", "LAST", "RUN", "(UTC)", "TOOK", "RECORDS", "LAG",
        ]  # fmt: skip
        assert all(len(line) <= 80 for line in lines)
        words = [line.split()[1] for line in lines[1:] if not line.startswith(" ")]
        assert words == ["critical", "critical", "ok", "new", "warning"]
        assert "  the last run took 4.2 s (limit 2 s)" in lines
        assert any(line.startswith("  the last run failed: tap failed: xxx") for line in lines)
        assert "colour: unknown key" in result.output
        (good,) = [line for line in lines if line.startswith("good")]
        assert good.split()[-5:-2] + good.split()[-1:] == ["4.2", "s", "340", "min"]

    @pytest.mark.parametrize(
        ("last", "code"), [({}, 0), ({"quarantined": 30}, 1), ({"exit_code": 75}, 2)]
    )
    def test_the_exit_code_is_for_monitors(self, last, code):
        add("p", **last)
        assert status().exit_code == code
        assert status("--json").exit_code == code

    def test_only_the_named_are_told(self):
        add("shop-a")
        add("shop-b", exit_code=3)
        assert status("shop-a").exit_code == 0
        assert status("shop-*").exit_code == 2
        assert status("nix").exit_code == 78

    def test_a_running_and_a_dead_pipeline_are_told(self):
        add("p")
        with locked(create_state_store("store"), "p"):
            assert "running" in status().output
            assert json.loads(status("--json").output)[0]["running"] is True
        old = "2026-01-01T00:00:00+00:00"
        dead = Holder(host="h", pid=1, run_id="dead", started_at=old, heartbeat_at=old)
        create_state_store("store").documents.write("p/lock", dead.to_dict(), Expect.ABSENT)
        assert "died and left its lock" in status().output

    def test_two_files_of_one_name_are_critical(self):
        add("p")
        Path("pipelines/q.yml").write_text(Path("pipelines/p.yml").read_text())
        result = status("--json")
        reasons = [health["reasons"][0]["reason"] for health in json.loads(result.output)]
        assert len(reasons) == 2
        assert all("pipelines/p.yml and pipelines/q.yml" in reason for reason in reasons)

    def test_a_summary_of_a_newer_version_is_one_line(self):
        add("p")
        Path("store/p/summary.json").write_text('{"schema": 99, "runs": []}')
        result = status()
        assert result.exit_code == 2
        assert "written by a newer singer-spark" in result.output

    def test_a_store_is_addressed_directly(self):
        save_run(create_state_store("other"), "q", record())
        told = json.loads(status("--state", "other", "--json").output)
        assert [one["pipeline"] for one in told] == ["q"]
        assert told[0]["health"] == "ok"
        assert told[0]["last_run"]["records"] == 340

    def test_a_name_that_the_store_does_not_know_is_not_green(self):
        save_run(create_state_store("other"), "q", record())
        result = status("--state", "other", "typo", "q")
        assert result.exit_code == 2
        assert "other knows no pipeline typo; there are q" in " ".join(result.output.split())
        listed = CliRunner().invoke(main, ["runs", "typo", "--state", "other"])
        assert (listed.exit_code, listed.output.count("\n")) == (74, 1)


class TestCost:
    def test_a_first_run_in_progress_costs_two_requests(self, s3):
        store = create_state_store(f"s3://{s3}/state")
        with locked(store, "p"):
            lock = RunLock(store, "p", "r")
            StateInStore(store, lock, RunRecord(pipeline="p", run_id="r")).read()
            requests = []
            store.objects._client.meta.events.register(
                "before-send.s3", lambda request, **_: requests.append(request.url)
            )
            (looked,) = check_store(store)
            assert looked.health.word == "running"
            assert len(requests) == 1 + 2

    @pytest.mark.parametrize("runs", [10, 1000])
    def test_each_pipeline_costs_two_requests(self, s3, runs):
        store = create_state_store(f"s3://{s3}/state")
        backend = get_backend("s3")["123456789012"]["aws"]
        names = [f"p{number}" for number in range(5)]
        for name in names:
            newest = [record(number) for number in range(runs - 100, runs) if number >= 0]
            body = {"runs": newest[::-1]}
            store.documents.write_own(f"{name}/summary.json", body, Expect.ABSENT)
            for number in range(runs):  # into the server itself, which is a hundred times faster
                backend.put_object(s3, f"state/{name}/runs/r{number:05}.json", b"{}")
        requests = []
        store.objects._client.meta.events.register(
            "before-send.s3", lambda request, **_: requests.append(request.url)
        )
        looked = check_store(store)

        assert [one.health.pipeline for one in looked] == names
        assert all(one.health.word == "ok" for one in looked)
        assert len(requests) <= 1 + 2 * len(names)
        assert len(store.objects.list("p0/runs")) == runs


class TestMetrics:
    def test_the_file_is_openmetrics(self):
        add("good", inserted=7)
        add("bad", exit_code=3)
        add("never", never=True)
        assert status("--metrics", "m.prom").exit_code == 2

        families = {
            one.name: one for one in text_string_to_metric_families(Path("m.prom").read_text())
        }

        def value(name, **labels):
            samples = families[f"singer_spark_{name}"].samples
            found = [one.value for one in samples if one.labels == labels]
            return found[0] if found else None

        assert value("health", pipeline="good") == 0
        assert value("health", pipeline="bad") == 2
        assert value("last_run_records", pipeline="good") == 340
        assert value("last_run_inserted", pipeline="good") == 7
        assert value("last_run_inserted", pipeline="bad") is None
        assert value("last_run_duration_seconds", pipeline="good") == 4.2
        assert value("last_run_exit_code", pipeline="bad") == 3
        assert value("last_success_timestamp_seconds", pipeline="bad") is None
        assert 299 < value("watermark_lag_seconds", pipeline="good", stream="orders") < 400
        assert value("last_run_timestamp_seconds", pipeline="good") > 1_700_000_000
        assert value("last_run_timestamp_seconds", pipeline="never") is None

    def test_a_place_that_cannot_be_written_is_one_line(self):
        result = status("--metrics", "none/m.prom")
        assert result.exit_code == 78
        assert "none/m.prom: No such file" in result.output


class TestAlerts:
    def test_a_condition_is_told_once_and_its_end_once(self):
        with webhook() as (url, got):
            add("p", f"alerts: {{webhook: '{url}'}}\n", exit_code=3, error="no table")
            status()
            status()
            assert [one["level"] for one in got] == ["critical"]
            assert got[0]["text"] == ("singer-spark: p: critical: the last run failed: no table")
            assert got[0].items() >= {"pipeline": "p", "kind": "failed"}.items()

            save_run(create_state_store("store"), "p", record(1))
            status()
            status()
            assert [one["level"] for one in got] == ["critical", "resolved"]

            save_run(create_state_store("store"), "p", record(2, exit_code=3))
            status()
            assert len(got) == 3

    def test_a_condition_that_grows_worse_is_told_again(self):
        with webhook() as (url, got):
            more = f"alerts: {{webhook: '{url}'}}\nschedule: {{cron: '* * * * *'}}\n"
            add("p", more, never=True)
            status()
            old = (datetime.now(timezone.utc) - timedelta(days=1)).isoformat()
            save_run(create_state_store("store"), "p", record(started_at=old))
            status()
            status()
            assert [one["level"] for one in got] == ["warning", "critical"]

    def test_a_store_that_cannot_be_read_is_told(self):
        with webhook() as (url, got):
            add("p", f"alerts: {{webhook: '{url}'}}\n", never=True)
            Path("store").write_text("a file")
            assert status().exit_code == 2
            assert [(one["kind"], one["level"]) for one in got] == [("unreadable", "critical")]

    def test_what_could_not_be_sent_is_sent_by_the_next_look(self):
        with webhook([500]) as (url, got):
            add("p", f"alerts: {{webhook: '{url}'}}\n", exit_code=3)
            first = status()
            assert first.exit_code == 2
            assert "could not be sent by webhook (HTTP 500)" in first.output
            assert "hidden" not in first.output
            assert got == []
            assert "could not" not in status().output
            assert len(got) == 1

    def test_a_server_that_is_not_there_does_not_hide_the_status(self):
        add("p", "alerts: {webhook: 'http://127.0.0.1:9/hidden'}\n", exit_code=3)
        result = status("--json")
        assert "URLError" in result.stderr
        assert json.loads(result.stdout)[0]["health"] == "critical"

    def test_a_command_gets_the_message_as_its_input(self):
        Path("tell").write_text("#!/bin/sh\ncat >> told\n")
        Path("tell").chmod(0o755)
        add("p", f"alerts: {{command: '{Path.cwd()}/tell'}}\n", quarantined=99)
        status()
        status()
        assert json.loads(Path("told").read_text())["kind"] == "error_rate"

    @pytest.mark.parametrize("command", ["'false'", "/nix/nix", "'\"'"])
    def test_a_command_that_fails_is_one_line(self, command):
        add("p", f"alerts: {{command: {command}}}\n", exit_code=3)
        result = status()
        assert "p: its alert could not be sent by command" in result.output

    def test_all_pipelines_of_a_store_share_one_note(self, s3):
        store = create_state_store(f"s3://{s3}/state")
        for name in ("a", "b", "c"):
            save_run(store, name, record(exit_code=3))
        alerts = Alerts(command="true")
        looked = [
            Checked(replace(one.health, history=replace(one.health.history, alerts=alerts)), store)
            for one in check_store(store)
        ]
        requests = []
        store.objects._client.meta.events.register(
            "before-send.s3", lambda request, **_: requests.append(request.method)
        )
        assert send_alerts(looked) == []
        assert requests == ["GET", "PUT"]
        assert send_alerts(looked) == []
        assert requests == ["GET", "PUT", "GET"]
        assert store.list_names() == ["a", "b", "c"]
