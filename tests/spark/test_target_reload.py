"""A key that changes, what a reload retires, and what was set aside and so is not retired."""

from __future__ import annotations

import json

import pytest

from singer_spark.assignment import PIPELINE, RUN_FILE, Assignment
from singer_spark.errors import ProtocolError, RecordError, SchemaError, SettingsError
from tests.support.singer import activate, batch, read, record, schema, state

TEXT = {"type": ["string", "null"]}
COLUMNS = {"id": {"type": "integer"}, "region": TEXT, "v": TEXT}
BY_ID, BY_BOTH = schema("s", COLUMNS, ["id"]), schema("s", COLUMNS, ["region", "id"])
DONE = state({"bookmarks": {"s": {}}})
HARD = {"hard_delete": True}
BY_REGION = {"partition_by": ["region"]}
SLOW_HARD = pytest.param(HARD, marks=pytest.mark.slow)


@pytest.fixture
def reload(tmp_path, monkeypatch):
    """Say that streams are loaded afresh."""

    def reload(*streams):
        file = tmp_path / "run"
        file.write_text(Assignment(run_id="", reload=frozenset(streams)).to_json())
        monkeypatch.setenv(RUN_FILE, str(file))

    return reload


def rows(*ids, **more):
    return [record("s", {"id": one, "region": "r", "v": "x"}, **more) for one in ids]


def live(lake):
    return [row["id"] for row in lake.rows("s") if row.get("_sdc_deleted_at") is None]


class TestAnotherKey:
    def test_is_refused_until_the_stream_is_loaded_afresh(self, lake, reload, monkeypatch):
        lake.load(BY_ID, *rows(1, 2), DONE)
        assert lake.table("s").metadata().configuration["singer_spark.key"] == '["id"]'
        before = lake.version("s")
        monkeypatch.setenv(PIPELINE, "shop")
        with pytest.raises(SchemaError, match="singer-spark run shop --refresh s") as raised:
            lake.load(BY_BOTH, *rows(1), DONE)
        assert raised.value.exit_code == 65
        assert (lake.version("s"), lake.states) == (before, [])
        reload("s")
        part = read(BY_BOTH, "range", column="id", start=1)
        with pytest.raises(SchemaError, match="merged by id"):
            lake.load(part, *rows(1), DONE)
        assert lake.load(read(BY_BOTH), *rows(1), *rows(1, 3), DONE) == [DONE["value"]]
        assert live(lake) == [1, 3]
        assert lake.table("s").metadata().configuration["singer_spark.key"] == '["region", "id"]'
        monkeypatch.delenv(RUN_FILE)
        other = schema("s", COLUMNS, ["id", "region"])
        lake.load(other, record("s", {"id": 3, "region": "q", "v": "x"}), DONE)
        assert live(lake) == [1, 3, 3]

    def test_is_refused_where_the_stream_has_none_any_more(self, lake):
        lake.load(BY_ID, *rows(1, 2), DONE)
        keyless = {**schema("s", COLUMNS), "bookmark_properties": ["id"]}
        with pytest.raises(SchemaError, match=r"its key is none.*append-only"):
            lake.load(keyless, *rows(2, 3), DONE)
        assert live(lake) == [1, 2]

    def test_is_noted_beside_a_change_in_a_table_that_has_none(self, lake, spark):
        lake.load(BY_ID, *rows(1), DONE)
        path = lake.root / "s"
        spark.sql(f"alter table delta.`{path}` unset tblproperties ('singer_spark.key')")
        before = lake.version("s")
        lake.load(BY_ID, *rows(1), DONE)
        assert lake.version("s") == before, "nothing changed"
        lake.load(BY_ID, *rows(2), DONE)
        assert lake.table("s").metadata().configuration["singer_spark.key"] == '["id"]'

    def test_does_not_matter_where_rows_are_replaced_or_appended(self, lake):
        lake.load(BY_ID, *rows(1), DONE)
        lake.load(BY_BOTH, *rows(2), DONE, load_method="append-only")
        lake.load(BY_BOTH, *rows(3), DONE, load_method="overwrite")
        assert live(lake) == [3]

    def test_of_a_stream_with_another_name_is_told_by_that_of_the_tap(self, lake, reload):
        maps = {"stream_maps": {"s": {"__alias__": "t"}}}
        lake.load(BY_ID, *rows(1, 2), DONE, **maps)
        with pytest.raises(SchemaError, match="PIPELINE --refresh s`"):
            lake.load(BY_BOTH, *rows(1), DONE, **maps)
        # The tap has renamed it, and says so.
        by_both = read({**BY_BOTH, "stream": "t"})
        by_both["singer_spark"]["stream"] = "s"
        renamed = [{**one, "stream": "t"} for one in rows(1, 3)]
        with pytest.raises(SchemaError, match="PIPELINE --refresh s`"):
            lake.load(by_both, *renamed, DONE)
        reload("s")
        half = state({"bookmarks": {"s": {"full_table": {"version": 1}}}})
        with pytest.raises(ProtocolError, match="nothing says that t is complete"):
            lake.load(by_both, *renamed, half)
        lake.load(by_both, *renamed, DONE)
        assert [row["id"] for row in lake.rows("t")] == [1, 3]
        assert lake.commits("t")[-1]["state_of"] == "s"


class TestReload:
    @pytest.mark.parametrize("chosen", [{}, SLOW_HARD])
    def test_rows_that_are_gone_are_retired_also_those_without_a_version(
        self, lake, reload, chosen
    ):
        lake.load(BY_ID, *rows(1, 2), DONE, **chosen)
        reload("*")
        lake.load(read(BY_ID), *rows(2, 3, 4), DONE, batch_size_rows=2, **chosen)
        assert live(lake) == [2, 3, 4]
        assert len(lake.rows("s")) == (3 if chosen else 4)
        before = lake.version("s")
        lake.load(read(BY_ID), *rows(4, 3, 2), DONE, **chosen)
        assert lake.version("s") == before, "nothing is gone"
        lake.load(read(BY_ID), DONE, **chosen)
        assert live(lake) == []

    def test_a_limited_read_or_one_that_is_not_complete_retires_nothing(self, lake, reload, caplog):
        lake.load(BY_ID, *rows(1, 2), DONE)
        reload("s")
        for message, end in (
            (read(BY_ID, "some", why="where"), [DONE]),
            (read(BY_ID), []),
            (read(BY_ID), [state({"bookmarks": {"s": {"full_table": {}}}})]),
        ):
            caplog.clear()
            lake.load(message, *rows(3), *end)
            assert live(lake) == [1, 2, 3]
            assert sum("gone at the source stay" in one for one in caplog.messages) == 1

    def test_a_table_of_which_nothing_is_gone_gets_no_column_also_under_freeze(self, lake, reload):
        lake.load(BY_ID, *rows(1, 2), DONE)
        reload("s")
        before = lake.version("s")
        lake.load(read(BY_ID), *rows(1, 2), DONE, schema_changes="freeze")
        assert lake.version("s") == before
        assert "_sdc_deleted_at" not in lake.rows("s")[0]

    def test_versions_of_a_history_are_closed(self, lake, reload):
        chosen = {"load_method": "scd2"}
        lake.load(BY_ID, *rows(1, 2), DONE, **chosen)
        reload("s")
        lake.load(read(BY_ID), *rows(2), DONE, **chosen)
        assert [(row["id"], row["is_current"]) for row in lake.rows("s")] == [(1, False), (2, True)]

    @pytest.mark.parametrize("chosen", [{}, SLOW_HARD, {"keys": None}])
    def test_partitions_that_are_gone_are_retired(self, lake, reload, chosen, caplog):
        chosen = dict(chosen)
        message = schema("s", COLUMNS, chosen.pop("keys", ["id"]))
        method = {"load_method": "partition-overwrite", "stream_options": {"s": BY_REGION}}

        def there(id_, region):
            return record("s", {"id": id_, "region": region, "v": "x"})

        def load(*messages):
            lake.load(*messages, **method, **chosen)
            return live(lake)

        parts = [there(1, "a"), there(2, "b"), there(3, None)]
        load(message, *parts, there(4, "a"), DONE)
        reload("s")
        assert load(read(message), parts[0]) == [1, 2, 3], "not complete"
        assert "gone at the source stay" in caplog.text
        assert load(read(message), parts[0], DONE) == [1]
        assert len(lake.rows("s")) == (3 if message.get("key_properties") and not chosen else 1)

    @pytest.mark.parametrize("chosen", [{}, {"on_invalid_record": "quarantine"}])
    def test_partitions_by_a_column_that_the_table_lacks(self, lake, reload, chosen):
        config = {"load_method": "partition-overwrite", "stream_options": {"s": BY_REGION}}
        plain = schema("s", {name: COLUMNS[name] for name in ("id", "v")}, ["id"])
        lake.load(plain, *(record("s", {"id": n, "v": "x"}) for n in (1, 2)), DONE)
        before = lake.version("s")
        with pytest.raises(SettingsError, match=r"no column region.*--refresh s`"):
            lake.load(BY_ID, *rows(1), DONE, **config, **chosen)
        lake.load(BY_ID, DONE, **config, **chosen)
        assert (live(lake), lake.version("s")) == ([1, 2], before)
        reload("s")
        lake.load(read(BY_ID), DONE, **config, **chosen)
        assert live(lake) == [], "the source is empty"
        lake.load(read(BY_ID), *rows(1), DONE, **config, **chosen)
        assert live(lake) == [1]

    def test_a_stream_that_nothing_tells_apart_is_not_appended_afresh(self, lake, reload):
        keyless = read(schema("s", COLUMNS), "some", why="changes only")
        reload("s")
        lake.load(keyless, *rows(1), DONE)
        with pytest.raises(SettingsError, match="remove the table"):
            lake.load(keyless, *rows(1), DONE)
        assert live(lake) == [1]


class TestState:
    """A commit carries a bookmark only if nothing of the stream is left to be removed."""

    CHOSEN = {"on_invalid_record": "quarantine", "batch_size_rows": 1}

    @pytest.mark.parametrize("method", ["upsert", "partition-overwrite"])
    def test_of_a_run_that_was_killed_before_its_end(self, lake, reload, monkeypatch, method):
        config = {**self.CHOSEN, "load_method": method, "stream_options": {"s": BY_REGION}}
        first, second = (state({"bookmarks": {"s": {"at": n}}}) for n in (1, 2))

        def bookmarks():
            said = [json.loads(one["userMetadata"]) for one in lake.table("s").history()]
            return [one["state"]["at"] for one in reversed(said) if one["state"]]

        lake.load(BY_ID, *rows(1, 2), first, **config)
        assert bookmarks() == [1]
        reload("s")
        with monkeypatch.context() as killed:
            for name in ("retire_gone", "end_parts"):
                killed.setattr(f"target_spark_delta.commits.closing.{name}", ended_early)
            with pytest.raises(InterruptedError):
                lake.load(read(BY_ID), *rows(2, 3), second, **config)
        assert bookmarks() == [1]
        # A kill inside of the end: the column that marks rows is added by a commit of its own.
        with monkeypatch.context() as killed:
            killed.setattr("target_spark_delta.table.commit.execute", ended_early)
            with pytest.raises(InterruptedError):
                lake.load(read(BY_ID), *rows(2, 3), second, **config)
        assert bookmarks() == [1]
        lake.load(read(BY_ID), *rows(2, 3, 4), second, **config)
        assert (live(lake), bookmarks()) == ([2, 3, 4], [1, 2])
        lake.load(read(BY_ID), *rows(2, 3, 4), second, **config)
        assert bookmarks() == [1, 2], "nothing changed"
        third = state({"bookmarks": {"s": {"at": 3}}})
        lake.load(read(BY_ID), *rows(2, 3, 4, 5), third, **config)
        assert bookmarks() == [1, 2, 3], "nothing is gone"


def ended_early(*_, **__):
    raise InterruptedError


class TestSetAside:
    """A row whose new record was set aside is in the source, so it is not retired."""

    CHOSEN = {"on_invalid_record": "quarantine"}
    NUMBERS = {**COLUMNS, "v": {"type": "integer"}}

    def wrong(self, *ids, **more):
        return [record("s", {"id": one, "region": "r", "v": "wrong"}, **more) for one in ids]

    def numbers(self, *ids, **more):
        return [record("s", {"id": one, "region": "r", "v": 1}, **more) for one in ids]

    @pytest.mark.parametrize("chosen", [{}, SLOW_HARD, {"load_method": "scd2"}])
    def test_by_a_version(self, lake, chosen):
        message, config = schema("s", self.NUMBERS, ["id"]), {**self.CHOSEN, **chosen}
        lake.load(message, *self.numbers(1, 2, 3, version=1), activate("s", 1), DONE, **config)
        # The first run of the version ends early, the second goes on with it.
        lake.load(message, *self.wrong(1, version=2), **config)
        rest = [*self.wrong(2, version=2), *self.numbers(4, version=2), activate("s", 2), DONE]
        lake.load(message, *rest, **config)
        there = [row for row in lake.rows("s") if row.get("is_current", True)]
        marked = [row for row in there if row.get("_sdc_deleted_at") is None]
        assert [row["id"] for row in marked] == [1, 2, 4]

    def test_by_a_reload(self, lake, reload):
        message = schema("s", self.NUMBERS, ["id"])
        lake.load(message, *self.numbers(1, 2, 3), DONE, **self.CHOSEN)
        reload("s")
        lake.load(read(message), *self.wrong(2), *self.numbers(3), DONE, **self.CHOSEN)
        assert live(lake) == [2, 3]

    RANGE = {"stream_options": {"s": {"load_method": "delete-insert", "range_column": "id"}}}

    @pytest.mark.parametrize("is_told", [True, False], ids=["range", "other tap"])
    def test_by_a_range_that_is_replaced(self, lake, is_told):
        message, config = schema("s", self.NUMBERS, ["id"]), {**self.CHOSEN, **self.RANGE}
        lake.load(message, *self.numbers(0, 1, 2, 3, 4, 5), DONE, **config)
        part = read(message, "range", column="id", start=1, end=5) if is_told else message
        # The rejected ones are of later batches than the one that would empty the range.
        rest = [*self.numbers(1, 4), *self.wrong(2, 7)]
        assert lake.load(part, *rest, DONE, batch_size_rows=2, **config) == [DONE["value"]]
        assert live(lake) == [0, 1, 2, 4, 5]
        if is_told:
            lake.load(part, *self.wrong(2, 4), DONE, **config)
            assert live(lake) == [0, 2, 4, 5]

    def test_by_a_range_without_a_key_of_which_nothing_else_came(self, lake, caplog):
        message, config = schema("s", self.NUMBERS), {**self.CHOSEN, **self.RANGE}
        part = read(message, "range", by="id", column="id", start=1)
        lake.load(part, *self.numbers(1, 2), DONE, **config)
        lake.load(part, *self.wrong(2), DONE, **config)
        assert live(lake) == [1, 2]
        assert "so no row is removed" in caplog.text
        lake.load(part, DONE, **config)
        assert live(lake) == []

    @pytest.mark.parametrize("method", ["delete-insert", "partition-overwrite"])
    def test_by_a_part_without_a_key(self, lake, method):
        by = {"range_column": "id"} if method == "delete-insert" else BY_REGION
        chosen = {"stream_options": {"s": {"load_method": method, **by}}, "batch_size_rows": 1}
        message, config = schema("s", self.NUMBERS), {**self.CHOSEN, **chosen}
        if method == "delete-insert":
            message = read(message, "range", by="id", column="id", start=1)
        other = record("s", {"id": 0, "region": "q", "v": 1})
        lake.load(message, *self.numbers(1, 2, 2), other, DONE, **config)
        before = lake.version("s")
        # The rejected one comes after those that would replace its part.
        with pytest.raises(
            RecordError, match=r"1 record.* have no key.* the table stays as it was"
        ):
            lake.load(message, *self.numbers(1, 2, 3), *self.wrong(2), DONE, **config)
        assert (live(lake), lake.version("s"), lake.states) == ([0, 1, 2, 2], before, [])
        rest = [*self.numbers(2, 2, 3, 1), *self.wrong(4)]
        assert lake.load(message, *rest, DONE, **config) == [DONE["value"]]
        assert live(lake) == [0, 1, 2, 2, 3], "no row of the table is lost"
        assert lake.load(message, *self.numbers(2, 5), DONE, **config) == [DONE["value"]]
        assert live(lake) == [0, 2, 5], "nothing was set aside"
        assert lake.version("s") == before + 2, "in one commit each"

    def test_by_a_version_of_a_part_without_a_key(self, lake):
        chosen = {"load_method": "partition-overwrite", "stream_options": {"s": BY_REGION}}
        message, config = schema("s", self.NUMBERS), {**self.CHOSEN, **chosen, **HARD}
        other = record("s", {"id": 9, "region": "q", "v": 1}, version=1)
        first = [*self.numbers(1, 2, version=1), other, activate("s", 1), DONE]
        lake.load(message, *first, **config)
        second = [DONE, *self.numbers(2, 3, version=2), activate("s", 2)]
        with pytest.raises(ProtocolError, match="nothing says that s is complete"):
            lake.load(message, *second, *self.numbers(4, version=2), **config)
        assert (live(lake), lake.states) == ([1, 2, 9], [DONE["value"]])
        lake.load(message, *second, **config)
        assert live(lake) == [2, 3]
        lake.load(message, activate("s", 3), DONE, **config)
        assert live(lake) == []

    def test_beside_a_column_that_a_later_schema_drops(self, lake):
        chosen = {"load_method": "partition-overwrite", "stream_options": {"s": BY_REGION}}
        message, config = schema("s", self.NUMBERS), {**self.CHOSEN, **chosen}
        narrow = {name: kind for name, kind in self.NUMBERS.items() if name != "v"}
        lake.load(message, *self.numbers(1), DONE, **config)
        last = schema("s", narrow), record("s", {"id": 3, "region": "r"}), DONE
        lake.load(message, *self.numbers(2), *last, **config)
        assert [(row["id"], row["v"]) for row in lake.rows("s")] == [(2, 1), (3, None)]

    def test_by_a_partition_that_is_replaced(self, lake):
        chosen = {"load_method": "partition-overwrite", "stream_options": {"s": BY_REGION}}
        message, config = schema("s", self.NUMBERS, ["id"]), {**self.CHOSEN, **chosen}
        lake.load(message, *self.numbers(1, 2, 3), DONE, **config)
        lake.load(message, *self.numbers(1), *self.wrong(2), DONE, batch_size_rows=1, **config)
        assert live(lake) == [1, 2]

    def test_by_rows_of_another_key(self, lake, reload):
        lake.load(schema("s", self.NUMBERS, ["id"]), *self.numbers(1, 2, 3), DONE, **self.CHOSEN)
        reload("s")
        other = read(schema("s", self.NUMBERS, ["id", "region"]))
        nobody = record("s", {"id": 1, "v": 1})
        with pytest.raises(RecordError, match="the table stays as it was"):
            lake.load(other, *self.numbers(1), nobody, DONE, **self.CHOSEN)
        assert live(lake) == [1, 2, 3]
        rest = [*self.wrong(1, 2), *self.numbers(1, 4)]
        lake.load(other, *rest, DONE, **self.CHOSEN)
        assert live(lake) == [1, 2, 4]

    @pytest.mark.parametrize("chosen", [{}, {"load_method": "overwrite"}])
    def test_by_a_whole_read_without_a_key(self, lake, chosen):
        message, config = read(schema("s", self.NUMBERS)), {**self.CHOSEN, **chosen}
        lake.load(message, *self.numbers(1, 2, 2), *self.wrong(3), DONE, **config)
        assert live(lake) == [1, 2, 2], "the first load has nothing to lose"
        before = lake.version("s")
        for rest in (self.wrong(1, 2, 2), [*self.numbers(1, 2), *self.wrong(2)]):
            with pytest.raises(RecordError, match=r"set key_properties .* and run again") as raised:
                lake.load(message, *rest, DONE, batch_size_rows=1, **config)
            assert raised.value.exit_code == 65
            assert (live(lake), lake.version("s"), lake.states) == ([1, 2, 2], before, [])
        rest = [*self.numbers(2, 1, 4, 2), *self.wrong(3)]
        assert lake.load(message, *rest, DONE, **config) == [DONE["value"]]
        assert live(lake) == [1, 2, 2, 4], "no row of the table would be lost"

    def test_by_an_overwrite_with_a_key(self, lake):
        config = {**self.CHOSEN, "load_method": "overwrite"}
        lake.load(schema("s", self.NUMBERS, ["id"]), *self.numbers(1, 2, 3), DONE, **config)
        message = schema("s", {**self.NUMBERS, "v": {"type": "number"}}, ["id"])
        message["schema"]["properties"]["v"]["x-sql-datatype"] = "decimal(20,1)"
        lake.load(message, *self.wrong(1, 2), *self.numbers(4), DONE, **config)
        assert [(row["id"], str(row["v"])) for row in lake.rows("s")] == [
            (1, "1.0"),
            (2, "1.0"),
            (4, "1.0"),
        ]
        lake.load(message, *self.wrong(1, 2, 5), DONE, **config)
        assert live(lake) == [1, 2], "all were set aside"

    MAP = {"pk": "str(id) + '-'", "w": "int(v)", "__key_properties__": ["pk"]}

    @pytest.mark.parametrize("lane", ["records", "files"])
    def test_by_a_map_that_fails_before_the_key_is_known(
        self, lake, reload, caplog, tmp_path, lane
    ):
        message, config = schema("s", COLUMNS, ["id"]), {**self.CHOSEN, "hard_delete": True}
        mapped = {**config, "stream_maps": {"s": self.MAP}}

        def sent(**values):
            bodies = [{"id": int(id_[1:]), "region": "r", "v": v} for id_, v in values.items()]
            if lane == "records":
                return [record("s", body) for body in bodies]
            file = tmp_path / "rows"
            file.write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
            return [batch("s", file.as_uri())]

        lake.load(message, *sent(_1="1", _2="2", _3="3"), DONE, **mapped)
        reload("s")
        lake.load(read(message), *sent(_1="x", _2="2"), DONE, **mapped)
        assert live(lake) == [1, 2, 3]
        said = (
            "Stream s: 1 record(s) that were set aside have no readable key, so no row is retired"
        )
        assert caplog.messages.count(said) == 1
        # Where the map leaves the key alone the record says it.
        plain = {**config, "stream_maps": {"s": {"w": "int(v)", "pk": "str(id)"}}}
        lake.load(read(message), *sent(_1="x", _2="2"), DONE, **plain, load_method="overwrite")
        assert live(lake) == [1, 2]

    def test_without_a_readable_key_nothing_is_retired(self, lake, caplog):
        message = schema("s", self.NUMBERS, ["id"])
        lake.load(message, *self.numbers(1, 2, version=1), activate("s", 1), DONE, **self.CHOSEN)
        nobody = record("s", {"region": "r", "v": 1}, version=2)
        rest = [nobody, *self.numbers(2, version=2), activate("s", 2), DONE]
        lake.load(message, *rest, **self.CHOSEN)
        assert live(lake) == [1, 2]
        assert "1 record(s) that were set aside have no readable key" in caplog.text
