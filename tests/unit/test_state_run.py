"""A whole run over every store, and over stores that cannot be written."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from singer_spark.errors import StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.holder import LockedError
from singer_spark.state.lock import locked
from singer_spark.state.runs import list_runs, look_at
from singer_spark.storage.s3 import S3Objects


def test_a_run_keeps_state_record_and_lock_in_its_store(bench, place):
    if place.config is None:
        pytest.skip("only this process can reach it")
    store = place.open()
    store.save(PipelineState("p", {"bookmarks": {"orders": 1}}, run_count=1))
    with locked(store, "p"):
        assert bench.fail(LockedError, state=place.config).exit_code == 75
    result = bench.run(state=place.config)

    after = place.open().get("p")
    assert after.watermark == {"bookmarks": {"orders": 3}}
    assert (after.run_count, after.last_run_id) == (2, result.run_id)
    summary, holder = look_at(place.open(), "p")
    assert [run["run_id"] for run in summary.runs] == [result.run_id]
    assert list_runs(place.open(), "p") == [result.record]
    assert holder is None


class TestReadOnly:
    def test_a_database_that_is_read_only_fails_before_anything_starts(self, bench, tmp_path):
        url = f"sqlite:///{tmp_path}/state.db"
        create_state_store(url).save(PipelineState("p", {"x": 1}))

        error = bench.fail(StateError, state=f"{url}?mode=ro")
        assert error.exit_code == 74
        assert "cannot write (attempt to write a readonly database)" in error.message
        assert bench.note("tap-fake.pid") is None

    def test_a_bucket_that_is_read_only_fails_before_anything_starts(self, bench, s3, monkeypatch):
        connect = S3Objects.__init__

        def connect_as_reader(self, *arguments, **options):
            connect(self, *arguments, **options)

            def refuse(**_):
                raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")

            self._client.put_object = refuse

        monkeypatch.setattr(S3Objects, "__init__", connect_as_reader)
        error = bench.fail(StateError, state=f"s3://{s3}/state")
        assert error.exit_code == 74
        assert "cannot write (AccessDenied); check the bucket" in error.message
        assert bench.note("tap-fake.pid") is None
