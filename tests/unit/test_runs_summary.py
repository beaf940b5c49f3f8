"""The summary of a pipeline's runs: what it holds, what it costs, how it heals."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from sqlalchemy import event

from singer_spark.cli import main
from singer_spark.errors import StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state import runs as summary_module
from singer_spark.state.lock import RunLock
from singer_spark.state.runs import KEPT_RUNS, Summary, list_runs, look_at, save_run
from singer_spark.state.store import NewerSchemaError
from singer_spark.storage.objects import ConflictError, Expect


def record(number, **more):
    return {"run_id": f"r{number:05}", "exit_code": 0, "streams": {"s": {"records": 1}}, **more}


@pytest.fixture
def store(tmp_path):
    return create_state_store(tmp_path)


@contextmanager
def counted(store):
    """Count the requests that a client makes to S3."""
    requests = []
    events = store.objects._client.meta.events

    def note(request, **_):
        requests.append(f"{request.method} {request.url}")

    events.register("before-send.s3", note)
    yield requests
    events.unregister("before-send.s3", note)


class TestCost:
    @pytest.mark.parametrize("runs", [10, 1000])
    def test_a_look_at_a_pipeline_is_two_requests_however_many_runs_there_were(self, s3, runs):
        store = create_state_store(f"s3://{s3}/state")
        for name in ("a", "b"):
            # As if each had been saved by its run, which would take a while.
            records = [record(number) for number in range(runs)]
            for one in records[-20:]:
                store.documents.write_own(f"{name}/runs/{one['run_id']}.json", one, Expect.ABSENT)
            summary = Summary.of(name, records)
            store.documents.write_own(f"{name}/summary.json", {"runs": summary.runs}, Expect.ABSENT)
            save_run(store, name, record(runs))

        with counted(store) as requests:
            names = store.list_names()
        assert names == ["a", "b"]
        assert len(requests) == 1
        with counted(store) as requests:
            seen = [look_at(store, name) for name in names]
        assert len(requests) == 4
        assert [summary.runs[0]["run_id"] for summary, _ in seen] == [record(runs)["run_id"]] * 2
        with counted(store) as requests:
            assert len(list_runs(store, "a", 10)) == 10
        assert len(requests) == 1

    @pytest.mark.parametrize("runs", [10, 1000])
    def test_a_look_into_a_database_is_two_queries(self, tmp_path, runs):
        store = create_state_store(f"sqlite:///{tmp_path}/state.db")
        engine = store.objects._database.engine
        save_run(store, "p", record(runs))
        with engine.connect() as connection:
            connection.exec_driver_sql(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
                "INSERT INTO singer_spark_state SELECT 'p/runs', i || '.json', '', '' FROM n",
                (runs,),
            )

        asked = []
        event.listen(engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
        assert store.list_names() == ["p"]
        assert len(asked) == 1
        look_at(store, "p")
        assert len(asked) == 3

    def test_a_pipeline_without_runs_costs_no_more(self, s3):
        store = create_state_store(f"s3://{s3}/state")
        store.save(PipelineState("fresh", {"x": 1}))

        with counted(store) as requests:
            assert look_at(store, "fresh") == (Summary("fresh"), None)
        assert len(requests) == 2


class TestContent:
    def test_runs_are_newest_first_and_whole(self, store):
        for number in (2, 1, 3):
            save_run(store, "p", record(number))

        assert look_at(store, "p")[0].runs == (record(3), record(2), record(1))
        assert look_at(store, "nobody")[0] == Summary("nobody")

    def test_who_runs_now_is_told_beside(self, store):
        lock = RunLock(store, "p", "now")
        lock.acquire()
        assert look_at(store, "p")[1].run_id == "now"
        save_run(store, "p", record(1))
        summary, holder = look_at(store, "p")
        assert (len(summary.runs), holder.run_id) == (1, "now")

    def test_it_stays_bounded_and_the_history_does_not(self, store):
        for number in range(KEPT_RUNS + 5):
            save_run(store, "p", record(number))

        summary = look_at(store, "p")[0]
        assert len(summary.runs) == KEPT_RUNS
        assert not summary.is_complete
        assert len(list_runs(store, "p")) == KEPT_RUNS + 5
        assert len(list_runs(store, "p", KEPT_RUNS + 3)) == KEPT_RUNS + 3
        assert list_runs(store, "p", 1) == [record(KEPT_RUNS + 4)]

    def test_large_records_are_kept_without_their_streams(self, store, monkeypatch):
        monkeypatch.setattr(summary_module, "WHOLE_BYTES", 10_000)
        big = {f"stream-{n}": {"records": n} for n in range(200)}
        for number in range(4):
            save_run(store, "p", record(number, streams=big, error="e"))

        runs = look_at(store, "p")[0].runs
        assert len(json.dumps(runs)) < 10_000
        assert ["streams" in run for run in runs] == [True, False, False, False]
        assert all(run["error"] == "e" for run in runs)
        assert [run["streams"] == big for run in list_runs(store, "p", 3)] == [True] * 3

    def test_of_a_run_told_of_twice_the_last_counts(self, store):
        save_run(store, "p", record(1, exit_code=1))
        save_run(store, "p", record(1, exit_code=2))
        assert [run["exit_code"] for run in look_at(store, "p")[0].runs] == [2]

    def test_others_do_not_replace_what_a_run_told_of_itself(self, store):
        save_run(store, "p", record(1))
        with pytest.raises(ConflictError):
            save_run(store, "p", record(1, exit_code=137), Expect.ABSENT)
        assert look_at(store, "p")[0].runs == (record(1),)

        # A run that died between the two writes.
        store.objects.delete("p/runs/r00001.json")
        save_run(store, "p", record(1, exit_code=137), Expect.ABSENT)
        assert list_runs(store, "p") == [record(1)]


class TestHealing:
    @pytest.mark.parametrize(
        "body", [None, b"", b"?", b"[]", b"{}", b'{"runs": 5}', b'{"runs":[5]}']
    )
    def test_a_lost_or_damaged_summary_is_built_again(self, store, body):
        for number in range(3):
            save_run(store, "p", record(number))
        store.objects.delete("p/summary.json")
        if body is not None:
            store.objects.write("p/summary.json", body, Expect.ABSENT)

        assert len(look_at(store, "p")[0].runs) == 3
        assert len(look_at(store, "p")[0].runs) == 3
        assert len(list_runs(store, "p", 2)) == 2
        save_run(store, "p", record(3))
        assert len(json.loads(store.objects.read("p/summary.json").body)["runs"]) == 4

    def test_a_damaged_record_does_not_stop_it(self, store):
        for number in range(2):
            save_run(store, "p", record(number))
        store.objects.delete("p/summary.json")
        store.objects.write("p/runs/r00000.json", b"?", Expect.ANYTHING)

        assert look_at(store, "p")[0].runs == (record(1),)

    def test_a_store_out_of_reach_is_no_damage(self, store, monkeypatch):
        save_run(store, "p", record(1))

        def fail(_key):
            raise StateError("out of reach")

        monkeypatch.setattr(store.objects, "read", fail)
        with pytest.raises(StateError, match="out of reach"):
            look_at(store, "p")[0]


class TestNewerVersion:
    def test_every_document_of_ours_says_to_upgrade(self, store):
        save_run(store, "p", record(1))
        store.save(PipelineState("p", {"x": 1}, run_count=1))
        readers = {
            "summary.json": lambda: look_at(store, "p")[0],
            "runs/r00001.json": lambda: list_runs(store, "p"),
            "meta.json": lambda: store.get("p"),
        }
        for file, read in readers.items():
            document = json.loads(store.objects.read(f"p/{file}").body)
            assert document["schema"] == 1
            newer = json.dumps({**document, "schema": 2, "colour": "red"})
            store.objects.write(f"p/{file}", newer.encode(), Expect.ANYTHING)
            with pytest.raises(NewerSchemaError, match=r"newer singer-spark.*upgrade") as caught:
                read()
            assert caught.value.exit_code == 74
            assert f"{store.objects.place}/p/{file}" in caught.value.message

    def test_it_does_not_hide_the_other_pipelines(self, store):
        for name in ("a", "b"):
            save_run(store, name, record(1, started_at="2026-01-31T10:00:00+00:00"))
        store.objects.write("a/summary.json", b'{"schema": 2}', Expect.ANYTHING)

        for command, code in (("runs", 74), ("status", 2)):
            result = CliRunner().invoke(main, [command, "--state", store.objects.place])
            assert result.exit_code == code
            assert "newer singer-spark" in " ".join(result.output.split())
            assert "2026-01-31 10:00" in result.stdout

    def test_a_run_leaves_the_summary_of_a_newer_version_alone(self, store):
        newer = b'{"schema": 2}'
        store.objects.write("p/summary.json", newer, Expect.ABSENT)
        save_run(store, "p", record(1))

        assert store.objects.read("p/summary.json").body == newer
        assert list_runs(store, "p") == [record(1)]
