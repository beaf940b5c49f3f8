"""How tables are made and looked after: partitions, clusters, comments, constraints, catalogs."""

from __future__ import annotations

import json
import logging
import shutil
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from singer_spark.assignment import PIPELINE, RUN_FILE, Assignment
from singer_spark.errors import RecordError, SettingsError
from target_spark_delta import target
from target_spark_delta.methods import overwrite, staging
from target_spark_delta.table import ddl, races
from tests.support.singer import Loaded, data, record, runs, schema

ID = {"type": "integer"}


def test_a_table_is_partitioned_and_has_its_properties(lake):
    chosen = {
        "partition_by": ["day"],
        "table_properties": {"delta.appendOnly": "false", "own": "x"},
    }
    first, *_ = runs("tables/days")
    lake.load(first, table_properties={"own": "y", "other": "z"}, stream_options={"s": chosen})
    metadata = lake.table("s").metadata()
    assert metadata.partition_columns == ["day"]
    chosen = {"delta.appendOnly": "false", "own": "x", "other": "z"}
    assert metadata.configuration == {**chosen, "singer_spark.key": '["id"]'}
    assert lake.table("s").history()[-1]["operation"] == "CREATE TABLE"


def test_a_table_is_clustered_and_compacted_after_so_many_commits(lake):
    chosen = {"stream_options": {"s": {"cluster_by": ["id"], "optimize_after_commits": 2}}}
    operations = []
    for run in runs("tables/days"):
        lake.load(run, **chosen)
        operations = [entry["operation"] for entry in lake.table("s").history()[::-1]]
    assert [name for name in operations if name != "CREATE TABLE"] == [
        "WRITE",
        "MERGE",
        "OPTIMIZE",
        "MERGE",
    ]
    assert "clustering" in (lake.table("s").protocol().writer_features or [])
    assert len(lake.rows("s")) == 6


def test_files_are_vacuumed_within_the_limit_of_delta_only(lake):
    first, *_ = runs("tables/days")
    with pytest.raises(SettingsError, match="vacuum_retention_hours must satisfy minimum 168"):
        lake.load(first, stream_options={"s": {"vacuum_retention_hours": 1}})
    lake.load(first, stream_options={"s": {"vacuum_retention_hours": 168}})
    operations = [entry["operation"] for entry in lake.table("s").history()]
    assert "VACUUM END" in operations
    assert len(lake.rows("s")) == 2
    # Delta refuses to remove what the table itself keeps for longer.
    longer = {"table_properties": {"delta.deletedFileRetentionDuration": "interval 30 days"}}
    chosen = {"t": {"vacuum_retention_hours": 168, **longer}}
    lake.load(first.replace('"s"', '"t"'), stream_options=chosen)
    assert "VACUUM END" in [entry["operation"] for entry in lake.table("t").history()]


def test_descriptions_become_comments(lake):
    lake.load(data("tables/described"))
    fields = json.loads(lake.table("items").schema().to_json())["fields"]
    comments = {field["name"]: field["metadata"].get("comment") for field in fields}
    assert comments == {"id": "the item's number", "price": "Price", "size": None}
    (width,) = fields[2]["type"]["fields"]
    assert width["metadata"]["comment"] == 'width "in" cm'
    assert lake.table("items").metadata().description == "What we sell; it's all there"


def test_required_columns_are_not_null_where_asked_and_only_while_the_schema_says_so(lake):
    def nullable():
        return {field.name: field.nullable for field in lake.table("r").schema().fields}

    asked = {"stream_options": {"r": {"required_constraints": True}}}
    lake.load(data("tables/required"), **asked)
    assert nullable() == {"id": False, "name": False, "note": True}
    with pytest.raises(RecordError, match="name"):
        lake.load(data("tables/required_no_more"))
    lake.load(data("tables/required_no_more"), **asked)
    assert nullable() == {"id": False, "name": True, "note": True}
    assert [one["name"] for one in lake.rows("r")] == ["a", None]
    lake.load(data("tables/required"), **asked)
    assert nullable() == {"id": False, "name": True, "note": True}, "null values may be there"


def test_a_deletion_of_an_unknown_key_that_lacks_required_values_has_nothing_to_mark(lake):
    asked = {"stream_options": {"r": {"required_constraints": True}}}
    lake.load(data("tables/required"), **asked)
    lake.load(data("tables/required_deleted"), **asked)
    told = [(one["id"], one["name"], one["_sdc_deleted_at"] is None) for one in lake.rows("r")]
    assert told == [(1, "a", False), (8, "told", False)]
    before = lake.version("r")
    lake.load(data("tables/required_deleted"), **asked)
    assert lake.version("r") == before


def test_a_rewrite_keeps_comments_properties_partitions_and_clusters_but_not_null(lake):
    def layout(name):
        told = lake.table(name).metadata()
        features = lake.table(name).protocol().writer_features or []
        comments = [field.metadata.get("comment") for field in lake.table(name).schema().fields]
        return (
            told.description,
            told.configuration,
            told.partition_columns,
            "clustering" in features,
            clusters(lake.root / name),
            comments,
        )

    chosen = {
        "load_method": "upsert",
        "stream_options": {
            "p": {"partition_by": ["day"], "required_constraints": True},
            "c": {"cluster_by": ["day"]},
            "w": {"cluster_by": ["day"], "load_method": "overwrite"},
        },
        "table_properties": {"own": "x"},
    }
    lake.load(data("tables/layout"), **chosen)
    before = {name: layout(name) for name in "pcw"}
    lake.load(data("tables/layout_next"), **chosen)
    assert layout("w") == before["w"], "its rows were replaced, its columns are the same"
    assert not lake.table("p").schema().fields[0].nullable
    lake.load(data("tables/layout_wider"), **chosen)
    for name in "pcw":
        assert [one["n"] for one in lake.rows(name)][-1] == Decimal("1.50"), "rewritten"
        assert layout(name) == before[name], name
    assert clusters(lake.root / "c") == clusters(lake.root / "w") == [["day"]]
    assert lake.table("p").schema().fields[0].nullable, "as docs/loading.md says"


@pytest.mark.parametrize("name", ["c", pytest.param("w", marks=pytest.mark.slow)])
def test_clusters_that_a_crash_after_a_rewrite_has_lost_are_given_back(lake, monkeypatch, name):
    def of_stream(file):
        told = data(file).splitlines(keepends=True)
        return "".join(line for line in told if f'"stream": "{name}"' in line or "STATE" in line)

    def crash(*_):
        raise ZeroDivisionError

    chosen = {
        "c": {"cluster_by": ["day"]},
        "w": {"cluster_by": ["day"], "load_method": "overwrite"},
    }
    lake.load(of_stream("tables/layout"), stream_options=chosen)
    with monkeypatch.context() as patched:
        patched.setattr(ddl, "cluster", crash)
        patched.setattr(overwrite, "cluster", crash)
        with pytest.raises(ZeroDivisionError):
            lake.load(of_stream("tables/layout_wider"), stream_options=chosen)
    assert clusters(lake.root / name) == []
    lake.load(of_stream("tables/layout_wider"), stream_options=chosen)
    assert clusters(lake.root / name) == [["day"]]


def clusters(path):
    """Read the columns by which a table is clustered from its log."""
    told = []
    for file in sorted((path / "_delta_log").glob("*.json")):
        for line in file.read_text().splitlines():
            domain = json.loads(line).get("domainMetadata", {})
            if domain.get("domain") == "delta.clustering":
                columns = json.loads(domain["configuration"] or "{}").get("clusteringColumns", [])
                told = [] if domain["removed"] else columns
    return told


def test_without_being_asked_no_column_is_required(lake):
    lake.load(data("tables/required"))
    assert all(field.nullable for field in lake.table("r").schema().fields)


@pytest.fixture
def catalog(spark, tmp_path):
    """A schema of Spark's own catalog and a target that loads into it."""
    spark.sql(f"create schema if not exists shop location '{tmp_path / 'shop.db'}'")
    place = {"path": None, "catalog": "spark_catalog", "default_target_schema": "shop"}
    place["spark_conf"] = {"spark.sql.warehouse.dir": str(tmp_path)}
    yield Loaded(tmp_path / "shop.db", **place)
    spark.sql("drop schema shop cascade")
    spark.sql("drop schema if exists _singer_spark cascade")


def test_tables_of_a_catalog(spark, catalog):
    first, second, third, fourth = runs("tables/catalog")
    catalog.load(first)
    catalog.load(second)
    assert [one["id"] for one in catalog.rows("s")] == [1, 2, 3]
    catalog.load(third, load_method="overwrite", hard_delete=True, batch_size_rows=2)
    assert [one["id"] for one in catalog.rows("s")] == [7]
    assert spark.catalog.listTables("_singer_spark") == []
    catalog.load(fourth, on_invalid_record="quarantine")
    assert [one["id"] for one in catalog.rows("s")] == [7, 8]
    (place,) = spark.catalog.listTables("_singer_spark")
    assert place.name == "quarantine_s"
    detail = spark.sql("describe detail _singer_spark.quarantine_s").first()
    (aside,) = DeltaTable(detail["location"]).to_pyarrow_table().to_pylist()
    assert json.loads(aside["record"])["id"] == "no number"
    assert (aside["stream"], aside["line"]) == ("s", 3)


def forget(spark, tmp_path) -> None:
    """Leave the catalog as a Spark finds it that was just started, and its files as they are."""
    kept, folder = tmp_path / "kept", tmp_path / "shop.db"
    shutil.copytree(folder, kept)
    spark.sql("drop schema shop cascade")
    shutil.rmtree(folder, ignore_errors=True)
    kept.rename(folder)
    spark.sql(f"create schema shop location '{folder}'")


def test_a_catalog_without_a_metastore_finds_its_tables_again(spark, catalog, tmp_path):
    first, second, third, _ = runs("tables/catalog")
    catalog.load(first)
    forget(spark, tmp_path)
    catalog.load(second)
    assert [one["id"] for one in catalog.rows("s")] == [1, 2, 3]
    forget(spark, tmp_path)
    warehouse = spark.conf.get("spark.sql.warehouse.dir")
    # What a run has staged that was killed, and so has its Spark.
    spark.range(3).write.format("delta").save(f"{warehouse}/_singer_spark.db/staging_shop_s_0")
    catalog.load(third, load_method="overwrite", hard_delete=True, batch_size_rows=2)
    assert [one["id"] for one in catalog.rows("s")] == [7]
    assert spark.catalog.listTables("_singer_spark") == []
    assert [one.name for one in spark.catalog.listTables("shop")] == ["s"]


def test_what_killed_runs_have_staged_in_a_catalog_is_dropped(spark, catalog, monkeypatch):
    """Of the same pipeline, and by who holds its lock."""
    first, _, third, _ = runs("tables/catalog")
    monkeypatch.setattr(staging, "discard", lambda *_: None)
    for pipeline in ("a", "a_b"):
        monkeypatch.setenv(PIPELINE, pipeline)
        catalog.load(third, load_method="overwrite", hard_delete=True)
    monkeypatch.undo()
    left = [one.name for one in spark.catalog.listTables("_singer_spark")]
    assert len(left) == 2
    monkeypatch.setattr(target, "confirm_lock", lambda _: None)
    monkeypatch.setattr(races, "confirm_lock", lambda _: None)
    file = catalog.root / "run"
    file.write_text(Assignment(run_id="", generation=1, cleans=True).to_json())
    monkeypatch.setenv(RUN_FILE, str(file))
    monkeypatch.setenv(PIPELINE, "a")
    catalog.load(first)
    (kept,) = spark.catalog.listTables("_singer_spark")
    assert kept.name.startswith("staging_a_b_")


def test_every_method_and_layout_works_in_a_catalog(catalog, caplog):
    methods = {
        "upserted": {"load_method": "upsert"},
        "replaced": {"load_method": "partition-overwrite"},
        "fresh": {"load_method": "delete-insert"},
        "swapped": {"load_method": "overwrite", "optimize_after_commits": 2},
        "dated": {"load_method": "scd2", "dedupe_by": "day"},
    }
    chosen = {
        "table_properties": {"own": "x"},
        "stream_options": {"*": {"partition_by": ["day"]}, **methods},
    }
    first, second = runs("tables/catalog_methods")
    catalog.load(first, **chosen)
    with caplog.at_level(logging.INFO, logger="target_spark_delta.table.maintenance"):
        catalog.load(second, **chosen)
    values = {name: sorted(one["v"] for one in catalog.rows(name)) for name in methods}
    assert values == {
        "upserted": ["a", "c", "changed", "d"],
        "replaced": ["c", "changed", "d"],
        "fresh": ["a", "c", "changed", "d"],
        "swapped": ["changed", "d"],
        "dated": ["a", "c", "changed", "d"],
    }
    for name in methods:
        told = catalog.table(name).metadata()
        assert told.partition_columns == ["day"], name
        ours = {"singer_spark.key": '["id"]'} if name in ("upserted", "fresh", "dated") else {}
        assert told.configuration == {"own": "x", **ours}, name
        assert told.description == "what was seen", name
        field = next(f for f in catalog.table(name).schema().fields if f.name == "v")
        assert field.metadata["comment"] == "its value", name
    assert "shop.swapped: compacted" in caplog.text, "two commits wrote rows"


def test_a_place_for_the_tables_is_required():
    with pytest.raises(SettingsError, match="path is required, or catalog"):
        Loaded("", path=None).load(data("tables/required"))


def test_column_mapping_is_used_only_where_a_name_needs_it(lake):
    lake.load(schema("plain", {"a.b": ID, "ü": ID}), record("plain", {"ü": 1}))
    lake.load(schema("odd", {"a b": ID}), record("odd", {"a b": 1}))
    modes = [
        DeltaTable(str(lake.root / name)).metadata().configuration.get("delta.columnMapping.mode")
        for name in ("plain", "odd")
    ]
    assert modes == [None, "name"]
