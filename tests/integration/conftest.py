"""Services that the tests share: one server, on which each module has a database of its own."""

from __future__ import annotations

import pytest

from singer_spark.engine.jars import KAFKA, resolve
from tests.support.kafka import KafkaBroker
from tests.support.tap import Postgres


@pytest.fixture(scope="session")
def server(spark):
    found = Postgres()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def database(server, request):
    """A database with what the module's SCHEMA creates, one statement after the other."""
    fresh = server.fresh(request.module.__name__.rpartition("test_")[2])
    for statement in request.module.SCHEMA.split(";\n"):
        if statement.strip():
            fresh.run(statement, autocommit=True)
    return fresh


@pytest.fixture(scope="module")
def broker(spark):
    assert resolve([KAFKA])
    found = KafkaBroker()
    yield found
    found.stop()
