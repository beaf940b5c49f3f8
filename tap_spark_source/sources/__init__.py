"""Sources: one class per kind, chosen by the scheme of source_url."""

from __future__ import annotations

from typing import TypeAlias

from singer_spark.engine.session import open_session
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import TableSource
from tap_spark_source.sources.files import FileSource
from tap_spark_source.sources.jdbc import JdbcSource
from tap_spark_source.sources.kafka.topics import KafkaSource
from tap_spark_source.sources.lake import CatalogSource

AnySource: TypeAlias = TableSource | KafkaSource


def open_source(settings: Settings) -> AnySource:
    """Start Spark, if it does not run yet, and return the source."""
    spark = open_session(settings.spark, urls=settings.urls)
    if settings.kind == "kafka":
        return KafkaSource(spark, settings)
    kinds = {"jdbc": JdbcSource, "catalog": CatalogSource}
    return kinds.get(settings.kind, FileSource)(spark, settings)
