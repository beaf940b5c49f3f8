"""The commands that tests start find the engine of the test run, unless they ask for another."""

from __future__ import annotations

import uuid

import pytest

from singer_spark.assignment import RUN_ID
from singer_spark.engine.lease import ENGINE
from tests.support.session import shared_session


@pytest.fixture(autouse=True, scope="session")
def _warm():
    shared_session()


@pytest.fixture
def alone(monkeypatch):
    """Keep a test's commands from the engine of the others, and know its own by its run."""
    monkeypatch.delenv(ENGINE, raising=False)
    monkeypatch.setenv(RUN_ID, uuid.uuid4().hex)
