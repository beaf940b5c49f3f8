"""The tap's settings: all problems at once, by name, and never a secret."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError
from singer_spark.settings import spark_problems
from tap_spark_source.plan.replication import read_catalog
from tap_spark_source.plan.source_settings import limiting_option, source_problems
from tap_spark_source.settings import Settings, StreamOptions
from tap_spark_source.tap import TapSparkSource

GOOD = {"source_url": "parquet:/lake"}


def problems(config: dict) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        TapSparkSource(config=config, catalog={"streams": []})
    assert caught.value.exit_code == 78
    return caught.value.problems


def test_a_url_is_all_that_is_needed():
    settings = Settings.from_config(GOOD)
    assert settings.kind == "parquet"
    assert settings.tables == ("*",)
    assert settings.fetch_rows == 10_000


def test_a_relative_path_of_snapshots_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, expected in {
        "a/b/": f"{tmp_path}/a/b",
        "/c/": "/c",
        "s3a://lake/d/": "s3a://lake/d",
        "": None,
        None: None,
    }.items():
        assert Settings.from_config({**GOOD, "snapshot_path": given}).snapshot_path == expected


def test_every_problem_is_reported_at_once():
    found = problems(
        {
            "source_url": "ftp:/x",
            "lookback": -1,
            "null_replication_key": "maybe",
            "source_options": {"dbTable": "x", "partitionColumn": "id"},
            "stream_options": {"*": {"replication_kee": "id"}},
            "spark_conf": {"spark.sql.ansi.enabled": "false"},
        }
    )
    text = "; ".join(found)
    for name in (
        "source_url",
        "lookback",
        "null_replication_key",
        "dbTable",
        "partitionColumn",
        "stream_options.*",
        "spark.sql.ansi.enabled",
    ):
        assert name in text
    assert len(found) == 7


@pytest.mark.parametrize(
    "option",
    [
        "minPartitions",
        "maxRecordsPerPartition",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "maxOffsetsPerTrigger",
    ],
)
def test_options_that_would_tear_or_cut_off_a_log_are_refused(option):
    (found,) = problems({"source_url": "kafka:h:1", "source_options": {option: "1"}})
    assert found.startswith(f"source_options: {option} cannot be set: ")


def test_session_variables_stand_in_the_options_and_leave_the_zone_alone():
    url = "jdbc:mysql://h/d"
    (found,) = problems({"source_url": f"{url}?sessionVariables=a=1"})
    assert "source_url: sessionVariables" in found
    (found,) = problems(
        {"source_url": url, "source_options": {"sessionVariables": "Time_Zone='+01:00'"}}
    )
    assert "source_options: sessionVariables cannot set time_zone" in found


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("json:/x", {"ignoreCorruptFiles": True}),
        ("parquet:/x", {"IGNOREMISSINGFILES": "true"}),
        ("csv:/x", {"ignoreInvalidPartitionPaths": True}),
        ("csv:/x", {"MODE": "dropmalformed"}),
        ("json:/x", {"mapreduce.input.lineRecordReader.line.maxlength": 10}),
        ("delta:/x", {"readChangeFeed": True}),
        ("jdbc:mysql://h/d", {"maxRows": 5}),
        ("jdbc:mysql://h/d", {"sessionVariables": "sql_select_limit=5"}),
        ("jdbc:mysql://h/d?a=b&maxRows=5", {}),
    ],
    ids=str,
)
def test_options_by_which_rows_would_vanish_are_refused_with_the_reason(url, options):
    (found,) = problems({"source_url": url, "source_options": options})
    assert " cannot " in found
    assert found.startswith(tuple(f"source_options: {name}" for name in options) or "source_url: ")
    assert len(found) < 150


@pytest.mark.parametrize(
    ("url", "option", "value", "is_limit"),
    [
        ("csv:/x", "pathGlobFilter", "*.csv", True),
        ("parquet:/x", "MODIFIEDAFTER", "2026-01-01T00:00:00", True),
        ("json:/x", "modifiedBefore", "2026-01-01T00:00:00", True),
        ("avro:/x", "ignoreExtension", False, True),
        ("avro:/x", "ignoreExtension", True, False),
        ("csv:/x", "recursiveFileLookup", True, False),
        ("csv:/x", "mode", "PERMISSIVE", False),
        ("jdbc:h2:mem", "modifiedAfter", "x", False),
    ],
)
def test_options_that_keep_files_out_are_told(url, option, value, is_limit):
    config = {"source_url": url, "source_options": {option: value}}
    assert not source_problems(config)
    assert limiting_option(Settings.from_config(config)) == (
        f"source_options {option}" if is_limit else None
    )


def test_a_missing_url_is_named():
    assert problems({}) == ("source_url is required",)


def test_an_unknown_key_of_stream_options_lists_the_known_ones():
    (found,) = problems({**GOOD, "stream_options": {"a": {"where_": "x"}}})
    assert "replication_key" in found
    assert "where" in found


def test_incremental_by_default_needs_some_key():
    (found,) = problems({**GOOD, "default_replication_method": "INCREMENTAL"})
    assert "default_replication_key" in found


def test_no_secret_is_shown():
    config = {
        "source_url": "jdbc:postgresql://u:hunter2@h/d",
        "source_password": "hunter3",
        "fetch_rows": "many",
    }
    assert "hunter" not in "; ".join(problems(config))
    assert "hunter" not in repr(Settings.from_config({**config, "fetch_rows": 1}))


def test_of_each_option_the_last_matching_pattern_wins():
    options = {
        "*": {"lookback": 1, "where": "a"},
        "public-*": {"lookback": 2},
        "other": {"lookback": 3},
    }
    settings = Settings.from_config({**GOOD, "stream_options": options})
    assert settings.of_stream("public-orders") == StreamOptions(lookback=2, where="a")


def test_a_catalog_that_is_none_is_a_settings_error():
    with pytest.raises(SettingsError, match="--discover"):
        TapSparkSource(config=GOOD, catalog={"streams": [{"stream": "x"}]})


def test_null_leaves_the_default():
    config = {**GOOD, "slice_rows": None, "spark_master": None}
    tap = TapSparkSource(config=config, catalog={"streams": []})
    assert tap.config["slice_rows"] > 0


def test_flattening_needs_a_depth():
    assert problems({**GOOD, "flattening_enabled": True}) == (
        "flattening_enabled needs flattening_max_depth",
    )


def test_a_remote_spark_has_its_own_packages():
    (found,) = problems({**GOOD, "spark_remote": "sc://h", "spark_packages": ["a:b:1"]})
    assert found.startswith("spark_remote and spark_packages exclude each other")


@pytest.mark.parametrize(
    ("metadata", "expected"), [({"table-key-properties": ["id"]}, ["id"]), ({}, ["was"])]
)
def test_a_key_in_the_catalogs_metadata_beats_the_streams_own_field(metadata, expected):
    stream = {
        "tap_stream_id": "s",
        "key_properties": ["was"],
        "schema": {},
        "metadata": [{"breadcrumb": [], "metadata": metadata}],
    }
    assert read_catalog({"streams": [stream]})["s"].key_properties == expected


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[1,1,1024]"])
def test_a_secret_in_the_options_of_workers_is_refused(master):
    key, secret = "spark.executor.extraJavaOptions", "-Djavax.net.ssl.trustStorePassword=s3cr3t"
    (problem,) = spark_problems({"spark_master": master, "spark_conf": {key: secret}})
    assert "list of processes" in problem
    assert "s3cr3t" not in problem
    assert spark_problems({"spark_master": master, "spark_conf": {key: "@/etc/options"}}) == []
    assert spark_problems({"spark_master": "local[2]", "spark_conf": {key: secret}}) == []


def test_a_whole_number_may_be_written_with_a_point():
    options = {"stream_options": {"t": {"num_partitions": 3.0}}}
    config = {"source_url": "csv:/x", "slice_rows": 5.0, **options}
    tap = TapSparkSource(config=config, catalog={"streams": []})
    assert (tap.settings.slice_rows, type(tap.settings.slice_rows)) == (5, int)
    assert type(tap.settings.of_stream("t").num_partitions) is int
