"""What is particular to state in SQL databases."""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import replace

import pytest
import sqlalchemy

from singer_spark.errors import SettingsError, StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.lock import RunLock
from tests.support.stores import STATE

SECRET = "do-not-tell"  # noqa: S105


class TestSQLite:
    def test_the_file_is_kept_in_wal_mode_and_readable_by_anyone(self, tmp_path):
        create_state_store(f"sqlite:///{tmp_path}/a b/state.db").save(STATE)

        with sqlite3.connect(tmp_path / "a b" / "state.db") as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            rows = other.execute(
                "SELECT name, json_extract(body, '$.run_count') FROM singer_spark_state "
                "WHERE folder = 'shop-orders' ORDER BY name"
            )
            assert rows.fetchall() == [("meta.json", 1), ("state.json", None)]

    def test_reading_creates_nothing(self, tmp_path):
        store = create_state_store(f"sqlite:///{tmp_path}/state.db")
        assert store.get("p") is None
        assert store.list_names() == []
        store.delete("p")
        assert list(tmp_path.iterdir()) == []

    def test_a_relative_path_starts_in_the_working_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        create_state_store("sqlite:///state.db").save(STATE)
        assert create_state_store(f"sqlite:///{tmp_path}/state.db").get("shop-orders") == STATE

    def test_a_store_that_is_read_only_can_be_read_and_is_error_74_to_write(self, tmp_path):
        url = f"sqlite:///{tmp_path}/state.db"
        create_state_store(url).save(STATE)
        store = create_state_store(f"{url}?mode=ro")

        read = store.get("shop-orders")
        assert read == STATE
        for change in (
            lambda: store.save(replace(read, run_count=2)),
            lambda: store.delete("shop-orders"),
            lambda: RunLock(store, "shop-orders", "r").acquire(),
        ):
            with pytest.raises(
                StateError, match=r"readonly database.*may read and write"
            ) as caught:
                change()
            assert caught.value.exit_code == 74

    def test_what_is_no_database_is_error_74(self, tmp_path):
        (tmp_path / "state.db").write_text("x" * 5000)
        with pytest.raises(StateError, match="file is not a database"):
            create_state_store(f"sqlite:///{tmp_path}/state.db").get("p")

    def test_a_folder_in_the_way_is_error_74(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StateError, match="folder can be written"):
            create_state_store(f"sqlite:///{tmp_path}/file/state.db").save(STATE)

    @pytest.mark.parametrize(
        "url", ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:///x.db?colour=red"]
    )
    def test_what_names_no_file_is_error_78(self, url):
        with pytest.raises(SettingsError, match="SQLite URL"):
            create_state_store(url)


class TestServers:
    def test_a_user_without_rights_can_read_but_not_write(self, postgres_url):
        create_state_store(postgres_url).save(PipelineState("rights", {"x": 1}))
        url = sqlalchemy.make_url(postgres_url)
        engine = sqlalchemy.create_engine(url.set(drivername="postgresql+psycopg"))
        with engine.begin() as admin:
            admin.execute(sqlalchemy.text("CREATE USER reader PASSWORD 'do-not-tell'"))
            admin.execute(sqlalchemy.text("GRANT SELECT ON singer_spark_state TO reader"))
        mine = url.set(username="reader", password=SECRET)
        store = create_state_store(mine.render_as_string(hide_password=False))

        read = store.get("rights")
        assert read.watermark == {"x": 1}
        with pytest.raises(StateError, match="permission denied for table") as caught:
            store.save(replace(read, run_count=2))
        assert caught.value.exit_code == 74
        assert "do-not-tell" not in caught.value.message

    def test_the_table_may_lie_in_a_schema(self, postgres_url):
        url = sqlalchemy.make_url(postgres_url).set(drivername="postgresql+psycopg")
        with sqlalchemy.create_engine(url).begin() as admin:
            admin.execute(sqlalchemy.text("CREATE SCHEMA etl"))
        config = {"url": postgres_url, "table": "etl.kept"}
        assert create_state_store(config).get("p") is None
        create_state_store(config).save(PipelineState("p", {"x": 1}))

        with sqlalchemy.create_engine(url).connect() as other:
            count = other.execute(sqlalchemy.text("SELECT count(*) FROM etl.kept")).scalar_one()
        assert count == 2
        assert create_state_store(config).get("p").watermark == {"x": 1}

    @pytest.mark.parametrize("table", ["", "a b", "a.b.c", "x; drop", 5])
    def test_a_table_has_a_plain_name(self, table, tmp_path):
        with pytest.raises(SettingsError, match=r"state\.table"):
            create_state_store({"url": f"sqlite:///{tmp_path}/x.db", "table": table})

    def test_a_wrong_password_and_a_missing_database_are_told_without_secrets(self, postgres_url):
        url = sqlalchemy.make_url(postgres_url)
        wrong = url.set(password="do/not:" + SECRET).render_as_string(hide_password=False)
        missing = url.set(database="nowhere").render_as_string(hide_password=False)
        for given, told in ((wrong, "password authentication failed"), (missing, "does not exist")):
            with pytest.raises(StateError, match=told) as caught:
                create_state_store(given).get("p")
            assert caught.value.exit_code == 74
            message = caught.value.message
            assert f"postgresql://127.0.0.1:{url.port}/" in message
            for secret in (SECRET, url.password):
                assert secret not in message

    @pytest.mark.parametrize("scheme", ["postgresql", "postgres", "mysql", "mariadb"])
    def test_a_server_out_of_reach_is_error_74(self, scheme):
        with pytest.raises(StateError, match="can be reached") as caught:
            create_state_store(f"{scheme}://me:do-not-tell@127.0.0.1:9/db").get("p")
        assert caught.value.exit_code == 74
        assert "do-not-tell" not in caught.value.message

    @pytest.mark.parametrize(
        ("url", "module", "extra"),
        [
            ("postgresql://me:do-not-tell@h/d", "psycopg", "postgres"),
            ("mysql://me:do-not-tell@h/d", "pymysql", "mysql"),
        ],
    )
    def test_a_missing_driver_names_the_extra(self, url, module, extra, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SettingsError) as caught:
            create_state_store(url)
        assert f"pip install 'singer-spark[{extra}]'" in caught.value.message
        assert "do-not-tell" not in caught.value.message

    @pytest.mark.parametrize(
        "url",
        ["postgresql://me:do-not-tell@h", "postgresql://me:do-not-tell@h:port/db", "mysql://"],
    )
    def test_what_is_no_database_url_is_error_78_without_secrets(self, url):
        with pytest.raises(SettingsError, match="state") as caught:
            create_state_store(url)
        assert "do-not-tell" not in caught.value.message
