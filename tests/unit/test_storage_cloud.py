"""What is particular to state in Google Cloud Storage and Azure, as far as no server is needed."""

from __future__ import annotations

import json
import sys

import obstore
import pytest
from obstore.exceptions import PreconditionError
from obstore.store import LocalStore, MemoryStore

from singer_spark.errors import SettingsError, StateError
from singer_spark.state import StateStore, create_state_store
from singer_spark.storage import cloud
from singer_spark.storage.cloud import CloudObjects
from singer_spark.storage.objects import ConflictError, Expect
from tests.support.stores import STATE


@pytest.fixture(autouse=True)
def account(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "keeper")


class TestChoice:
    @pytest.mark.parametrize(
        ("url", "options"),
        [
            ("gs://lake/state", {}),
            ("az://lake/state", {"account_key": "ZG8tbm90LXRlbGw="}),
            ("abfss://lake@keeper.dfs.core.windows.net/state", {}),
            ("meltano+gs://lake/state", {}),
        ],
    )
    def test_a_bucket_is_opened_without_a_request(self, url, options):
        store = create_state_store({"url": url, **options})
        assert store.objects.place == url.removeprefix("meltano+")

    def test_a_missing_package_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "obstore", None)
        monkeypatch.delitem(sys.modules, "singer_spark.storage.cloud")
        with pytest.raises(SettingsError) as caught:
            create_state_store("gs://lake/state")
        assert "pip install 'singer-spark[cloud]'" in caught.value.message

    @pytest.mark.parametrize(
        "config",
        [
            "gs://",
            "az://",
            {"url": "gs://lake", "colour": "red"},
            {"url": "az://x", "account_key": "?"},
        ],
    )
    def test_what_names_no_bucket_is_error_78(self, config):
        with pytest.raises(SettingsError, match="state"):
            create_state_store(config)

    def test_an_account_is_needed(self, monkeypatch):
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
        with pytest.raises(SettingsError, match="AZURE_STORAGE_ACCOUNT_NAME"):
            create_state_store("az://lake/state")


class TestErrors:
    def test_a_server_out_of_reach_is_error_74_without_secrets(self, monkeypatch):
        monkeypatch.setattr(cloud, "RETRIES", {"max_retries": 0})
        secret = {"endpoint": "http://127.0.0.1:9", "sas_key": "sv=1&sig=do-not-tell"}
        store = create_state_store({"url": "az://lake/state", **secret})
        with pytest.raises(StateError, match="az://lake/state: cannot read") as caught:
            store.get("p")
        assert caught.value.exit_code == 74
        assert "do-not-tell" not in caught.value.message

    def test_a_place_that_cannot_be_written_is_error_74(self, tmp_path):
        (tmp_path / "shop-orders").write_text("")
        store = StateStore(CloudObjects(LocalStore(tmp_path), "local"))
        with pytest.raises(StateError, match=r"cannot (read|write)"):
            store.save(STATE)


class TestConditions:
    def test_a_put_whose_answer_was_lost_is_no_lost_race(self, monkeypatch):
        store = StateStore(CloudObjects(MemoryStore(), "memory://"))
        put = obstore.put

        def put_twice(*arguments, **options):
            put(*arguments, **options)
            raise PreconditionError("already there")

        monkeypatch.setattr(obstore, "put", put_twice)
        store.save(STATE)
        assert store.get("shop-orders") == STATE

    def test_a_new_file_on_a_real_disk_is_created_once(self, tmp_path):
        objects = CloudObjects(LocalStore(tmp_path), "local")
        objects.write("p/x", b"1", Expect.ABSENT)
        with pytest.raises(ConflictError):
            objects.write("p/x", b"2", Expect.ABSENT)
        assert objects.read("p/x").body == b"1"
        assert objects.list("") == ["p/"]

    def test_a_tag_keeps_what_either_cloud_compares(self):
        objects = CloudObjects(MemoryStore(), "memory://")
        assert len(json.loads(objects.write("p/x", b"1", Expect.ABSENT))) == 2
