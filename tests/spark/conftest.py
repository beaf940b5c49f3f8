"""Tests that need a JVM share one session."""

from __future__ import annotations

import pytest

from tests.support.singer import Loaded

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def _session(spark):
    return spark


@pytest.fixture
def lake(tmp_path):
    """A folder of Delta tables and a target that loads into it."""
    return Loaded(tmp_path / "lake")
