"""Services that the tests share: one server, on which each module has a database of its own."""

from __future__ import annotations

import pytest

from tests.support.tap import Postgres


@pytest.fixture(scope="session")
def server(spark):
    found = Postgres()
    yield found
    found.stop()
