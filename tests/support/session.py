"""The one Spark session of a test process, with every driver that its tests use."""

from __future__ import annotations

import logging

from singer_spark.engine.session import open_session
from singer_spark.settings import SparkSettings

URLS = ["jdbc:postgresql://", "jdbc:sqlite:", "avro:", "s3a://", "kafka:"]
URLS_OF_SLOW_TESTS = ["jdbc:mariadb:", "jdbc:mysql:"]


def shared_session():
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return open_session(SparkSettings.from_config({}), urls=URLS)
