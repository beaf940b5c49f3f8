"""What `spark_conf` cannot turn, and what it can."""

from __future__ import annotations

import pytest

from singer_spark.guards import GUARDS, START_GUARDS
from singer_spark.settings import spark_problems

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


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, False),
        ({"spark_conf": {"spark.driver.memory": "1g"}}, False),
        ({"spark_conf": {"spark.sql.warehouse.dir": "/lake"}}, True),
        ({"spark_conf": {"spark.hadoop.hive.metastore.uris": "thrift://h:9083"}}, True),
        ({"spark_remote": "sc://h"}, True),
        ({"catalog": "unity"}, True),
        ({"catalog": None}, True),
    ],
)
def test_tables_of_a_catalog_never_go_to_a_temporary_folder(more, fits):
    problems = spark_problems({"catalog": "spark_catalog", **more})
    assert [fits] == [not problems]
    if problems:
        assert "spark.sql.warehouse.dir" in problems[0]
        assert problems[0].startswith("catalog: ")


@pytest.mark.parametrize(
    ("key", "value"), [("spark.speculation", False), ("spark.sql.ansi.enabled", "TRUE")]
)
def test_a_guard_may_be_given_the_value_that_it_has(key, value):
    assert spark_problems({"spark_conf": {key: value}}) == []


def test_a_metastore_is_a_place_for_the_tables_of_a_catalog():
    assert spark_problems({"catalog": "spark_catalog"})
    conf = {"spark.sql.catalogImplementation": "hive"}
    assert spark_problems({"catalog": "spark_catalog", "spark_conf": conf}) == []
