"""What `spark_conf` cannot turn, and what it can."""

from __future__ import annotations

import pytest

from singer_spark.settings import SparkSettings, spark_problems
from singer_spark.spark_conf import GUARDS, START_GUARDS

REFUSED = {
    **dict.fromkeys((*GUARDS, *START_GUARDS), "x"),
    "delta.enableFastS3AListFrom": True,
    "spark.hadoop.fs.s3a.create.performance": True,
    "spark.hadoop.textinputformat.record.delimiter": "|",
    "spark.sql.sources.commitProtocolClass": "x.Y",
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.legacy.castComplexTypesToString.enabled": True,
    "spark.databricks.delta.write.txnVersion": 1,
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": False,
    "spark.databricks.delta.commitLock.enabled": False,
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": False,
    "spark.delta.logStore.class": "io.delta.storage.HDFSLogStore",
    "spark.delta.logStore.s3a.impl": "io.delta.storage.HDFSLogStore",
    "spark.driver.extraJavaOptions": "-Xss4m -Duser.timezone=Europe/Berlin",
    "spark.executor.extraJavaOptions": "-Dspark.sql.ansi.enabled=false",
    "spark.sql.ansi.enabled ": False,
    "spark.x=y": 1,
    "spark.x\nspark.sql.ansi.enabled": False,
}
TUNING = {
    "spark.sql.shuffle.partitions": 8,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.legacy.parquet.nanosAsLong": True,
    "spark.databricks.delta.snapshotPartitions": 4,
    "spark.databricks.delta.optimizeWrite.enabled": True,
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": True,
    "spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore",
    "spark.delta.logStore.gs.impl": "io.delta.storage.GCSLogStore",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.hadoop.fs.s3a.endpoint": "http://localhost:9000",
    "spark.driver.memory": "8g",
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_guard_cannot_be_turned_and_the_reason_is_given(key):
    (problem,) = spark_problems({"spark_conf": {key: REFUSED[key]}})
    shown = key if key == key.strip() and "\n" not in key and "=" not in key else repr(key)
    assert problem.startswith(f"spark_conf: {shown} cannot be set: ")
    assert len(problem) < 230


@pytest.mark.parametrize("key", TUNING)
def test_tuning_passes(key):
    assert spark_problems({"spark_conf": {key: TUNING[key]}}) == []


DIR = {"spark.sql.warehouse.dir": "/lake"}
HIVE = {"spark.sql.catalogImplementation": "hive"}
URIS = {"spark.hadoop.hive.metastore.uris": "thrift://h:9083"}
DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"


@pytest.mark.parametrize(
    ("conf", "lacks"),
    [
        ({}, "has no place for its tables"),
        ({"spark.driver.memory": "1g"}, "has no place for its tables"),
        (DIR, None),
        ({"spark.sql.warehouse.dir": "lake"}, None),
        ({"spark.hadoop.hive.metastore.warehouse.dir": "/lake"}, None),
        # New schemas would get their folder from Spark, which works in a temporary one.
        (URIS, "has no place for its tables"),
        ({**URIS, **DIR}, None),
        ({**HIVE, **DIR}, "of Hive has no metastore"),
        (
            {**HIVE, **DIR, DERBY: "jdbc:derby:;databaseName=metastore_db;create=true"},
            "no metastor",
        ),
        ({**HIVE, **DIR, DERBY: "jdbc:derby:;databaseName=/lake/metastore;create=true"}, None),
        ({**HIVE, **DIR, DERBY: "jdbc:postgresql://h/metastore"}, None),
    ],
)
@pytest.mark.parametrize("name", ["spark_catalog", "Spark_Catalog"])
def test_tables_of_a_catalog_never_go_to_a_temporary_folder(name, conf, lacks):
    problems = spark_problems({"catalog": name, "spark_conf": conf})
    assert len(problems) == (lacks is not None)
    assert (lacks or "") in "".join(problems)
    assert all(one.startswith("catalog: ") and " spark_conf" in one for one in problems)


@pytest.mark.parametrize(
    "more", [{"spark_remote": "sc://h"}, {"catalog": "unity"}, {"catalog": ""}]
)
def test_of_other_catalogs_and_servers_their_own_settings_know(more):
    assert spark_problems({"catalog": "spark_catalog", **more}) == []


def test_a_file_of_hive_tells_where_its_metastore_is(tmp_path, monkeypatch):
    config = {"catalog": "spark_catalog", "spark_conf": {**HIVE, **DIR}}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert spark_problems(config)
    site = "<property><name>hive.metastore.uris</name><value>thrift://h</value></property>"
    (tmp_path / "hive-site.xml").write_text(site)
    assert spark_problems(config) == []


def test_folders_of_a_catalog_are_those_of_the_user_and_a_metastore_that_is_named_is_used(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def conf(given, **more):
        return SparkSettings.from_config({"spark_conf": given, **more}).conf

    relative = {"spark.sql.warehouse.dir": "a/lake"}
    assert conf(relative) == {"spark.sql.warehouse.dir": f"{tmp_path}/a/lake"}
    assert conf(relative, spark_remote="sc://h") == relative
    for whole in (DIR, {"spark.sql.warehouse.dir": "s3a://lake/x"}, {}):
        assert conf(whole) == whole
    assert conf(URIS) == {**URIS, **HIVE}
    chosen = {**URIS, "spark.sql.catalogImplementation": "in-memory"}
    assert conf(chosen) == chosen


@pytest.mark.parametrize(
    ("key", "value"), [("spark.speculation", False), ("spark.sql.ansi.enabled", "TRUE")]
)
def test_a_guard_may_be_given_the_value_that_it_has(key, value):
    assert spark_problems({"spark_conf": {key: value}}) == []
