"""`state recover`: a lost state, built again from real Delta tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from singer_spark.state import PipelineState, create_state_store
from tests.support.states import state

PIPELINE = """
name: shop
source: {tap: t}
destination:
  target: target-spark-delta
  config: {path: lake}
state: store
"""
ORDERS = {"replication_key": "at", "replication_key_value": "2026-01-31"}
ITEMS = {"replication_key": "id", "replication_key_value": 20}


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pipelines").mkdir()
    Path("pipelines/shop.yml").write_text(PIPELINE)


def write_pipeline(config):
    text = PIPELINE.replace("{path: lake}", config)
    Path("pipelines/shop.yml").write_text(text)


def commit(table, stream, bookmark, *, pipeline="shop", root="lake", said=None, **storage):
    """Append a row in a commit like those of target-spark-delta."""
    told = {"pipeline": pipeline, "run_id": "r1", "stream": stream, "rows": 1, "state": bookmark}
    told |= said or {}
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
    rows = pa.table({"id": [1]})
    write_deltalake(f"{root}/{table}", rows, mode="append", commit_properties=properties, **storage)


def note_rows(table, version, rows):
    """Have a commit say how many rows it wrote, as those of Spark do."""
    path = Path(table, "_delta_log", f"{version:020}.json")
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["operationMetrics"] = {"numOutputRows": str(rows)}
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def load_shop():
    """Two tables with several commits, and things that are no tables of this pipeline."""
    commit("public_orders", "public-orders", {**ORDERS, "replication_key_value": "2025"})
    commit("public_orders", "public-orders", ORDERS)
    commit("public_orders", "public-orders", None)
    commit("public_orders", "public-orders", {"other": 1}, pipeline="another")
    write_deltalake("lake/public_orders", pa.table({"id": [1]}), mode="append")
    commit("items", "items", ITEMS)
    commit("strangers", "strangers", {"x": 1}, pipeline="another")
    commit("_quarantine", "q", {"x": 1})
    Path("lake/files").mkdir()
    Path("lake/note.txt").write_text("")


class TestRecover:
    def test_the_newest_bookmark_of_each_stream_is_shown_and_stored(self):
        load_shop()
        result = state("recover", "shop", input="y\n")

        assert result.exit_code == 0, result.output
        head, items, orders, *_ = result.stdout.splitlines()
        assert head.split() == ["STREAM", "VERSION", "COMMITTED", "(UTC)", "BOOKMARK"]
        assert (items.split()[:2], items.split()[-1]) == (["items", "0"], "20")
        assert (orders.split()[:2], orders.split()[-1]) == (["public-orders", "1"], "2026-01-31")
        assert "public-orders: 1 newer commit(s) carry no bookmark" in result.stdout
        assert "strangers: no commit of this pipeline carries a bookmark" in result.stdout
        assert '+      "replication_key_value": "2026-01-31"' in result.stdout
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
        assert create_state_store("store").get("shop").watermark == {
            "bookmarks": {"public-orders": ORDERS, "items": ITEMS}
        }
        assert "The stored state says the same." in state("recover", "shop").stdout

    def test_a_table_that_was_restored_has_no_bookmark_that_is_true(self):
        load_shop()
        commit("items", "items", ITEMS)
        DeltaTable("lake/items").restore(0)
        result = state("recover", "shop", "--yes")
        assert result.exit_code == 74
        assert "items was restored" in result.output
        assert "--refresh STREAM" in result.output
        assert create_state_store("store").get("shop") is None

    def test_the_bookmark_of_a_commit_that_lacks_rows_does_not_count(self):
        """A run was killed before it could take that commit back."""
        commit("events", "events", {"files": 1}, said={"appends": True})
        commit("events", "events", {"files": 2}, said={"appends": True, "rows": 3})
        for version in range(2):
            note_rows("lake/events", version, 1)
        result = state("recover", "shop", "--yes")
        assert create_state_store("store").get("shop").watermark == {
            "bookmarks": {"events": {"files": 1}}
        }
        assert "events: version 1 lacks rows" in result.stdout
        assert "singer-spark run shop --refresh events" in result.stdout
        Path("lake/events/_delta_log/00000000000000000000.json").unlink()
        result = state("recover", "shop", "--yes")
        assert result.exit_code == 74

    def test_nothing_is_stored_without_a_yes_or_in_a_dry_run(self):
        load_shop()
        assert "shop: state unchanged" in state("recover", "shop", input="n\n").stdout
        assert state("recover", "shop", "--dry-run").exit_code == 0
        assert create_state_store("store").get("shop") is None

    def test_what_the_tables_do_not_know_is_kept(self):
        load_shop()
        before = {"bookmarks": {"items": {"old": 1}, "empty": {"x": 1}}, "currently_syncing": None}
        create_state_store("store").save(PipelineState("shop", before, run_count=7))
        assert state("recover", "shop", "--yes").exit_code == 0

        after = create_state_store("store").get("shop")
        assert after.run_count == 7
        assert after.watermark == {
            "bookmarks": {"items": ITEMS, "empty": {"x": 1}, "public-orders": ORDERS},
            "currently_syncing": None,
        }

    def test_a_state_without_bookmarks_is_taken_whole_from_the_newest_commit(self):
        commit("a", "a", {"since": 5})
        commit("b", "b", {"since": 6})
        create_state_store("store").save(PipelineState("shop", {"since": 1}))
        assert state("recover", "shop", "--yes").exit_code == 0
        assert create_state_store("store").get("shop").watermark == {"since": 6}

    def test_a_whole_state_is_known_as_such_also_where_nothing_is_stored(self):
        commit("items", "items", {"items": 19})
        commit("orders", "orders", {"items": 20, "orders": 5})
        state("recover", "shop", "--yes")
        assert create_state_store("store").get("shop").watermark == {"items": 20, "orders": 5}

    def test_tables_of_one_stream_tell_its_bookmark_that_is_furthest_behind(self):
        commit("sales", "sales", {"id": 1}, said={"state_of": "orders"})
        commit("orders", "orders", {"id": 2})
        state("recover", "shop", "--yes")
        assert create_state_store("store").get("shop").watermark == {
            "bookmarks": {"orders": {"id": 1}}
        }

    def test_json_tells_all_of_it(self):
        load_shop()
        told = json.loads(state("recover", "shop", "--json", "--yes").stdout)

        assert told["pipeline"] == "shop"
        assert told["stored"] is told["changed"] is True
        assert {one["stream"]: one["version"] for one in told["found"]} == {
            "items": 0,
            "public-orders": 1,
        }
        assert told["found"][0]["run_id"] == "r1"
        assert [one["table"] for one in told["silent"]] == ["strangers"]
        assert told["state"] == create_state_store("store").get("shop").watermark

    def test_a_schema_is_a_folder_more(self):
        commit("items", "items", ITEMS, root="lake/bronze")
        schema = PIPELINE.replace("path: lake", "path: lake, default_target_schema: bronze")
        Path("pipelines/shop.yml").write_text(schema)
        assert "items" in state("recover", "shop", "--dry-run").stdout

    @pytest.mark.parametrize(
        ("schema", "folder"), [("", ""), ("default", ""), ("Bronze", "/bronze.db")]
    )
    @pytest.mark.parametrize("start", ["", "file:", "file://"])
    def test_the_tables_of_sparks_catalog_are_found_in_its_warehouse(self, schema, folder, start):
        commit("items", "items", ITEMS, root=f"warehouse{folder}")
        conf = {"spark.sql.warehouse.dir": f"{start}{Path('warehouse').absolute()}/"}
        config = {"catalog": "spark_catalog", "spark_conf": conf}
        config |= {"default_target_schema": schema} if schema else {}
        write_pipeline(json.dumps(config))
        assert state("recover", "shop", "--yes").exit_code == 0
        assert create_state_store("store").get("shop").watermark == {"bookmarks": {"items": ITEMS}}

    def test_tables_named_by_hand_lie_where_spark_is_told_that_s3_is(
        self, s3, s3_endpoint, monkeypatch
    ):
        storage = {
            "AWS_ENDPOINT_URL": s3_endpoint,
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        commit("items", "items", ITEMS, root=f"s3://{s3}/lake", storage_options=storage)
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        conf = {"spark.hadoop.fs.s3a.endpoint": s3_endpoint}
        write_pipeline(json.dumps({"catalog": "other", "spark_conf": conf}))
        tables = ["--tables", f"s3a://{s3}/lake"]
        assert state("recover", "shop", "--yes", *tables).exit_code == 0
        assert create_state_store("store").get("shop").watermark == {"bookmarks": {"items": ITEMS}}

    def test_a_state_that_says_the_same_is_accepted(self):
        commit("items", "items", ITEMS)
        same = PipelineState(
            "shop", {"bookmarks": {"items": ITEMS}}, metadata={"tables": {"items": {}}, "note": 1}
        )
        create_state_store("store").save(same)
        state("recover", "shop", "--dry-run")
        assert create_state_store("store").get("shop").metadata == same.metadata
        assert "state unchanged" in state("recover", "shop", "--yes").output
        assert create_state_store("store").get("shop").metadata == {"note": 1}

    def test_a_store_and_its_tables_may_be_named_without_a_file(self):
        commit("items", "items", ITEMS, root="elsewhere")
        where = ["--state", "other", "--tables", "elsewhere"]
        assert state("recover", "shop", *where, "--yes").exit_code == 0
        assert create_state_store("other").get("shop").watermark == {"bookmarks": {"items": ITEMS}}
        assert "give --tables" in state("recover", "shop", "--state", "other").stderr

    def test_tables_in_s3_are_read_as_the_state_is(self, s3, s3_endpoint):
        storage = {
            "AWS_ENDPOINT_URL": s3_endpoint,
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        root = f"s3://{s3}/lake"
        commit("items", "items", ITEMS, root=root, storage_options=storage)
        short = f"destination: {{bucket: {s3}, path: lake}}"
        Path("pipelines/shop.yml").write_text(
            f"name: shop\nsource: {{tap: t}}\n{short}\nstate: store\n"
        )
        assert state("recover", "shop", "--yes").exit_code == 0
        assert create_state_store("store").get("shop").watermark == {"bookmarks": {"items": ITEMS}}


class TestBookmarksThatAreNotTrue:
    """A bookmark in a commit may say less than it seems to, or be one of several."""

    MIDDLE = {"full_table": {"version": 1, "key": 1000, "key_columns": ["id"]}}
    FIRST = {"delta_snapshot": {"version": 1, "key": 1000}, "delta_table": "t"}

    @pytest.mark.parametrize(("said", "left"), [(MIDDLE, {}), (FIRST, {"delta_table": "t"})])
    def test_one_of_the_middle_of_a_read_reads_all_of_it(self, said, left):
        """The slices after it may have had nothing new, and made no commit."""
        commit("items", "items", said, said={"appends": False})
        state("recover", "shop", "--yes")
        assert create_state_store("store").get("shop").watermark == {"bookmarks": {"items": left}}

    def test_of_rows_that_are_appended_it_goes_on(self):
        commit("items", "items", self.MIDDLE, said={"appends": True})
        state("recover", "shop", "--yes")
        assert create_state_store("store").get("shop").watermark == {
            "bookmarks": {"items": self.MIDDLE}
        }

    def test_tables_that_are_appended_to_must_be_at_one_bookmark(self):
        """One of them may be filled no more, and going back to it would double rows."""
        old = {"appends": True, "state_of": "events"}
        commit("events_old", "events_old", {"files": 1}, said=old)
        commit("events", "events", {"files": 2}, said={"appends": True})
        result = state("recover", "shop", "--yes")
        assert result.exit_code == 74
        assert "events: its tables events_old, events are at different bookmarks" in result.stderr
        assert create_state_store("store").get("shop") is None
        commit("events_old", "events_old", {"files": 2}, said=old)
        assert state("recover", "shop", "--yes").exit_code == 0


class TestNothingToRecover:
    def fail(self, code, *arguments):
        result = state("recover", "shop", *arguments)
        assert result.exit_code == code, result.output
        assert result.stderr.count("\n") == 1
        return result.stderr

    def test_history_that_was_cleaned_up_is_told(self):
        load_shop()
        DeltaTable("lake/items").create_checkpoint()
        commit("items", "items", None)
        Path("lake/items/_delta_log/00000000000000000000.json").unlink()

        shown = state("recover", "shop", "--dry-run").stdout
        assert "items: no bookmark since version 1, where its log begins" in shown
        assert "public-orders" in shown

    def test_a_log_that_says_nothing_at_all(self):
        commit("items", "items", None)
        commit("items", "items", None)
        assert "not loaded by singer-spark run" in self.fail(74)
        Path("lake/items/_delta_log/00000000000000000000.json").unlink()
        assert "older commits were cleaned up" in self.fail(74)

    def test_another_name_is_offered(self):
        commit("items", "items", ITEMS, pipeline="shop-old")
        assert "commits of shop-old do; is the name right?" in self.fail(74)

    def test_no_table_at_all(self):
        assert "there is no Delta table" in self.fail(74)

    @pytest.mark.parametrize(
        ("destination", "told"),
        [
            ("{target: target-jsonl}", "works with target-spark-delta only"),
            ("{target: target-spark-delta, config: {catalog: c}}", "give the folder of the tables"),
            (
                "{target: target-spark-delta, config: {path: 'hdfs://n'}}",
                "recover reads the logs",
            ),
        ],
    )
    def test_a_destination_that_keeps_no_such_log_is_one_line(self, destination, told):
        text = f"name: shop\nsource: {{tap: t}}\ndestination: {destination}\nstate: store\n"
        Path("pipelines/shop.yml").write_text(text)
        assert told in self.fail(78)
