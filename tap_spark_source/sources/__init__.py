"""Sources: one class per kind, chosen by the scheme of source_url."""

from __future__ import annotations

from singer_spark.engine.session import open_session
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import Source
from tap_spark_source.sources.catalog import CatalogSource
from tap_spark_source.sources.files import FileSource
from tap_spark_source.sources.jdbc import JdbcSource
from tap_spark_source.sources.kafka.topics import KafkaSource


def open_source(settings: Settings) -> Source:
    """Start Spark, if it does not run yet, and return the source."""
    spark = open_session(settings.spark, urls=settings.urls)
    kinds: dict[str, type[Source]] = {
        "jdbc": JdbcSource,
        "catalog": CatalogSource,
        "kafka": KafkaSource,
    }
    return kinds.get(settings.kind, FileSource)(spark, settings)
