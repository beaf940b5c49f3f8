"""Where a target keeps its Delta tables, so that their logs can be read without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from singer_spark.engine.machine import expects_shared_disk
from singer_spark.errors import SettingsError
from singer_spark.pipeline.plugins import OUR_TARGET, Plugin
from singer_spark.settings import OWN_CATALOG, WAREHOUSE, SparkSettings, own_catalog

_S3 = ("s3a://", "s3://", "s3n://")


def find_tables(target: Plugin, given: str | None = None) -> dict[str, str]:
    """Find the folder of the tables that a target writes, as `create_state_store` takes a place.

    Args:
        target: The target; only ours is known.
        given: The folder, where the user names it.

    Raises:
        SettingsError: Nobody knows.
    """
    if not given and not target.is_ours:
        raise SettingsError(
            f"{target.command} does not write its state into its tables; recover works with "
            f"{OUR_TARGET} only. Set the state by hand: singer-spark state set"
        )
    spark = SparkSettings.from_config(target.config if target.is_ours else {})
    folder = given or _folder(target.config, spark.conf)
    if not given and not expects_shared_disk(spark) and not re.match(r"\w[\w+.-]*://", folder):
        raise SettingsError(
            f"Spark runs elsewhere, so that {folder} is no folder of this machine; give the folder "
            "of the tables with --tables if it is one"
        )
    return place_of(folder, spark.conf)


def place_of(folder: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Name a folder of tables as a store is named; Spark's configuration says where S3 is."""
    if folder.startswith(_S3):
        return {"url": re.sub(r"^s3[an]?://", "s3://", folder), **s3_options(conf)}
    # Hadoop writes a folder of this machine with one slash.
    return {"url": re.sub(r"^file:/(?!/)", "file:///", folder)}


def s3_options(conf: Mapping[str, str]) -> dict[str, str]:
    """Take over from Spark's configuration where S3 is."""
    endpoint = conf.get("spark.hadoop.fs.s3a.endpoint", "")
    if endpoint and "://" not in endpoint:
        secure = conf.get("spark.hadoop.fs.s3a.connection.ssl.enabled", "true") != "false"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    region = conf.get("spark.hadoop.fs.s3a.endpoint.region", "")
    given = {"endpoint_url": endpoint, "region": region}
    return {key: value for key, value in given.items() if value}


def _folder(config: Mapping[str, Any], conf: Mapping[str, str]) -> str:
    path, schema = config.get("path"), config.get("default_target_schema")
    if path:
        return "/".join([str(path).rstrip("/"), *([str(schema)] if schema else [])])
    warehouse = conf.get(WAREHOUSE)
    if not warehouse or own_catalog(config.get("catalog")) != OWN_CATALOG:
        raise SettingsError(
            "the destination has no path (tables of a catalog?); give the folder of the tables "
            "with --tables"
        )
    # Spark's own catalog keeps names in small letters, and a schema of another name in a folder.
    name = str(schema or "default").lower()
    return warehouse.rstrip("/") + ("" if name == "default" else f"/{name}.db")
