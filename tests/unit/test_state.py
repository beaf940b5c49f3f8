"""One contract for all state stores, and what is particular to each."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import fields, replace

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from singer_spark.errors import SettingsError, StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.folder import FolderObjects
from singer_spark.state.objects import Expect

STATE = PipelineState(
    pipeline_name="shop-orders",
    watermark={"bookmarks": {"public-orders": {"replication_key_value": "2026-01-31 ü"}}},
    last_run_id="run-1",
    last_run_at="2026-01-31T10:00:00+00:00",
    run_count=1,
    metadata={"note": {"deep": [1, 2.5, None]}},
)


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint, monkeypatch):
    """Credentials and endpoint by the usual means; a bucket that is emptied by its name."""
    for name, value in {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "do-not-tell",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{os.urandom(4).hex()}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture(params=["folder", "file-url", "s3"])
def place(request, tmp_path):
    if request.param == "s3":
        return f"s3://{request.getfixturevalue('s3')}/.singer-spark/state"
    return (
        f"file://{tmp_path}/a%20b" if request.param == "file-url" else tmp_path / "deep" / "state"
    )


@pytest.fixture
def store(place):
    return create_state_store(place)


class TestEveryStore:
    def test_an_unknown_pipeline_has_no_state(self, store):
        assert store.get("nobody") is None
        assert store.list_pipelines() == []

    def test_what_was_saved_is_read_back_by_another_process(self, store, place):
        store.save(STATE)

        assert create_state_store(place).get("shop-orders") == STATE

    def test_state_json_is_the_plain_singer_state(self, store):
        store.save(STATE)

        stored = store.objects.read("shop-orders/state.json")
        assert json.loads(stored.body) == STATE.watermark

    def test_a_state_json_put_there_by_hand_is_a_known_pipeline(self, store):
        store.objects.write("by-hand/state.json", b'{"bookmarks": {}, "x": 1}', Expect.ABSENT)

        state = store.get("by-hand")
        assert state == PipelineState("by-hand", {"bookmarks": {}, "x": 1})
        assert store.list_pipelines() == ["by-hand"]

    def test_a_run_without_state_is_remembered_without_inventing_one(self, store):
        store.save(PipelineState("empty", run_count=1))

        assert store.objects.read("empty/state.json") is None
        assert store.get("empty") == PipelineState("empty", run_count=1)

    def test_one_store_saves_again_and_again(self, store):
        store.save(STATE)
        store.save(replace(STATE, run_count=2))
        third = store.save(replace(store.get("shop-orders"), run_count=3))
        store.save(replace(third, run_count=4))

        assert store.get("shop-orders").run_count == 4

    def test_of_two_first_saves_the_second_is_refused(self, store, place):
        other = create_state_store(place)
        assert store.get("shop-orders") is None
        assert other.get("shop-orders") is None
        store.save(STATE)

        with pytest.raises(StateError, match="someone else"):
            other.save(replace(STATE, run_count=9))
        assert store.get("shop-orders") == STATE

    def test_a_save_over_a_newer_state_is_refused(self, store):
        store.save(STATE)
        mine, theirs = store.get("shop-orders"), store.get("shop-orders")
        store.save(replace(theirs, watermark={"newer": True}))

        with pytest.raises(StateError, match=r"shop-orders/state\.json.*someone else"):
            store.save(replace(mine, watermark={"older": True}))
        assert store.get("shop-orders").watermark == {"newer": True}

    def test_a_save_over_a_state_that_nobody_read_is_refused(self, store, place):
        store.save(STATE)

        with pytest.raises(StateError, match="someone else"):
            create_state_store(place).save(replace(STATE, run_count=2))

    def test_a_save_over_a_deleted_state_is_refused(self, store, place):
        read = store.save(STATE)
        create_state_store(place).delete("shop-orders")

        with pytest.raises(StateError, match="someone else"):
            store.save(replace(read, run_count=2))
        assert create_state_store(place).get("shop-orders") is None

    def test_delete_forgets_one_pipeline_only(self, store):
        store.save(STATE)
        store.save(replace(STATE, pipeline_name="other"))
        store.save_checkpoint("shop-orders", {"a": 1})
        store.delete("shop-orders")
        store.delete("nobody")

        assert store.get("shop-orders") is None
        assert store.get_checkpoint("shop-orders") is None
        assert store.list_pipelines() == ["other"]
        store.save(STATE)

    def test_the_list_is_sorted_and_knows_state_from_other_folders(self, store):
        for name in ("b", "a.1", "c_2"):
            store.save(PipelineState(name, {"x": 1}))
        store.objects.write("d/runs/1.json", b"{}", Expect.ABSENT)
        store.objects.write("a.1/runs/1.json", b"{}", Expect.ABSENT)

        assert store.list_pipelines() == ["a.1", "b", "c_2"]

    def test_a_checkpoint_is_overwritten_and_removed(self, store):
        assert store.get_checkpoint("p") is None
        store.save_checkpoint("p", {"n": 1})
        store.save_checkpoint("p", {"n": 2})
        assert store.get_checkpoint("p") == {"n": 2}

        store.delete_checkpoint("p")
        assert store.get_checkpoint("p") is None

    @pytest.mark.parametrize("file", ["state.json", "meta.json"])
    def test_a_damaged_file_is_named_in_one_line(self, store, file):
        for body in (b"", b"{", b"[1]", b"null", b"\xff\xfe\x00"):
            store.objects.write(f"p/{file}", body, Expect.ANYTHING)

            with pytest.raises(StateError) as caught:
                store.get("p")
            assert caught.value.exit_code == 74
            assert f"{store.objects.place}/p/{file}" in caught.value.message
            assert "repair it, or delete it" in caught.value.message

    def test_meta_of_the_wrong_kind_is_damage_too(self, store):
        store.objects.write("p/meta.json", b'{"run_count": "many"}', Expect.ABSENT)

        with pytest.raises(StateError, match=r"meta\.json is damaged"):
            store.get("p")

    def test_an_unsafe_name_reaches_no_file(self, store):
        for name in ("", "..", "../x", "a/b", ".hidden", "a b", "a\n", "x" * 200):
            for call in (store.get, store.delete, store.get_checkpoint):
                with pytest.raises(SettingsError, match="name"):
                    call(name)
            with pytest.raises(SettingsError, match="name"):
                store.save(PipelineState(name, {"x": 1}))

    def test_what_json_cannot_carry_is_refused_before_anything_is_written(self, store):
        for value in (float("nan"), float("inf"), object()):
            with pytest.raises(StateError, match="JSON cannot carry"):
                store.save(PipelineState("p", {"x": value}))
        assert store.get("p") is None


class TestPipelineState:
    def test_to_dict_and_from_dict_are_inverse(self):
        values = STATE.to_dict()

        assert PipelineState.from_dict(json.loads(json.dumps(values))) == STATE
        assert list(values) == [f.name for f in fields(PipelineState) if f.compare]

    def test_missing_keys_have_their_defaults(self):
        assert PipelineState.from_dict({"pipeline_name": "p"}) == PipelineState("p", {}, None, None)

    def test_it_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            STATE.run_count = 2


class TestFolder:
    def test_an_interrupted_write_leaves_the_old_file_and_no_rubbish(self, tmp_path, monkeypatch):
        store = create_state_store(tmp_path)
        saved = store.save(STATE)

        def fail(_descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("singer_spark.state.folder.os.fsync", fail)
        with pytest.raises(StateError, match="No space left on device"):
            store.save(replace(saved, watermark={"new": 1}))
        assert create_state_store(tmp_path).get("shop-orders") == STATE
        names = {path.name for path in (tmp_path / "shop-orders").iterdir()}
        assert names == {"state.json", "meta.json"}

    def test_of_many_writers_exactly_one_wins(self, tmp_path):
        wins, start = [], threading.Barrier(8)

        def race(number):
            store = create_state_store(tmp_path)
            store.get("p")
            start.wait()
            try:
                store.save(PipelineState("p", {"writer": number}))
            except StateError:
                return
            wins.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert create_state_store(tmp_path).get("p").watermark == {"writer": wins[0]}

    def test_a_place_that_is_no_folder_is_error_74(self, tmp_path):
        (tmp_path / "file").write_text("")

        with pytest.raises(StateError) as caught:
            create_state_store(tmp_path / "file").save(STATE)
        assert caught.value.exit_code == 74
        assert str(tmp_path / "file") in caught.value.message

    def test_the_group_that_shares_the_folder_may_read(self, tmp_path):
        before = os.umask(0o027)
        try:
            create_state_store(tmp_path).save(STATE)
        finally:
            os.umask(before)
        assert (tmp_path / "shop-orders" / "state.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.usefixtures("s3")
class TestS3:
    def test_the_top_of_a_bucket_is_a_place_too(self, s3):
        store = create_state_store(f"s3a://{s3}")
        store.save(STATE)

        assert store.list_pipelines() == ["shop-orders"]
        assert store.objects.place == f"s3://{s3}"
        assert boto3.client("s3").get_object(Bucket=s3, Key="shop-orders/state.json")

    def test_a_missing_bucket_is_error_74_without_secrets(self):
        with pytest.raises(StateError) as caught:
            create_state_store("s3://no-such-bucket/state").get("p")
        assert caught.value.exit_code == 74
        assert "s3://no-such-bucket/state" in caught.value.message
        assert "NoSuchBucket" in caught.value.message
        assert "do-not-tell" not in caught.value.message

    def test_a_server_out_of_reach_is_error_74(self, s3, monkeypatch):
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        with pytest.raises(StateError, match="EndpointConnectionError") as caught:
            create_state_store(f"s3://{s3}/state").get("p")
        assert caught.value.exit_code == 74

    def test_missing_credentials_are_error_74(self, s3, monkeypatch, tmp_path):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        with pytest.raises(StateError, match="NoCredentials"):
            create_state_store(f"s3://{s3}/state").get("p")

    def test_a_put_whose_answer_was_lost_is_no_lost_race(self, s3):
        store = create_state_store(f"s3://{s3}/state")
        client = store.objects._client
        put = client.put_object

        def put_twice(**arguments):
            put(**arguments)
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")

        client.put_object = put_twice
        store.save(STATE)
        assert store.get("shop-orders") == STATE

    def test_any_aws_endpoint_variable_and_the_config_are_heard(self, s3, endpoint, monkeypatch):
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        config = {"type": "s3", "bucket": s3, "prefix": "p", "endpoint_url": endpoint}
        create_state_store(config).save(STATE)

        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert create_state_store(f"s3://{s3}/p").get("shop-orders") == STATE

    def test_only_foreign_servers_are_asked_by_path(self, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio.example:9000")
        own = create_state_store("s3://lake/x").objects._client
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        amazon = create_state_store("s3://lake/x").objects._client

        def url(client):
            return client.generate_presigned_url(
                "get_object", Params={"Bucket": "lake", "Key": "k"}
            )

        assert url(own).startswith("http://minio.example:9000/lake/k")
        assert url(amazon).startswith("https://lake.s3")

    def test_more_objects_than_one_page_are_listed(self, s3):
        store = create_state_store(f"s3://{s3}/many")
        pages = store.objects._client.get_paginator("list_objects_v2")
        store.objects._client.get_paginator = lambda _: _SmallPages(pages)
        for number in range(5):
            store.save(PipelineState(f"p{number}", {"x": 1}))

        assert store.list_pipelines() == [f"p{number}" for number in range(5)]


class _SmallPages:
    def __init__(self, pages):
        self.pages = pages

    def paginate(self, **arguments):
        return self.pages.paginate(**arguments, PaginationConfig={"PageSize": 2})


class TestChoice:
    @pytest.mark.parametrize(
        "config",
        [
            "{}/s",
            "file://{}/s",
            "file://localhost{}/s",
            {"url": "{}/s"},
            {"type": "file", "path": "{}/s"},
        ],
    )
    def test_a_folder_by_path_url_or_mapping(self, config, tmp_path):
        def fill(text):
            return text.format(tmp_path) if "{}" in text else text

        filled = (
            fill(config) if isinstance(config, str) else {k: fill(v) for k, v in config.items()}
        )
        store = create_state_store(filled)
        assert isinstance(store.objects, FolderObjects)
        assert store.objects.place == f"{tmp_path}/s"

    def test_an_unknown_scheme_lists_the_known_ones_and_hides_the_rest(self):
        with pytest.raises(SettingsError) as caught:
            create_state_store("mongodb://me:do-not-tell@host/db")
        assert caught.value.exit_code == 78
        assert "file://" in caught.value.message
        assert "s3://" in caught.value.message
        assert "mongodb" in caught.value.message
        assert "do-not-tell" not in caught.value.message

    @pytest.mark.parametrize(
        "config",
        [
            {},
            {"type": "s3"},
            {"type": "nothing", "path": "x"},
            {"url": "x", "colour": "red"},
            {"url": "s3://b/x", "colour": "red"},
            "file://host/folder",
            "s3://",
            "",
        ],
    )
    def test_what_names_no_place_is_error_78(self, config):
        with pytest.raises(SettingsError, match="state"):
            create_state_store(config)
