"""What the tests share: one Spark session per process, started when the first test asks for it."""

from __future__ import annotations

import logging

import pytest

from singer_spark.session import open_session
from singer_spark.settings import SparkSettings


@pytest.fixture(scope="session")
def spark(request):
    """The session of this test process, with every driver that the tests use."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    urls = ["jdbc:postgresql://", "jdbc:sqlite:", "avro:", "s3a://"]
    if "not slow" not in request.config.option.markexpr:
        urls += ["jdbc:mariadb:", "jdbc:mysql:", "kafka:"]
    return open_session(SparkSettings.from_config({}), urls=urls)
