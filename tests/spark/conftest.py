"""Tests that need a JVM share one session."""

from __future__ import annotations

import pytest

from tests.support.derby import STATEMENTS
from tests.support.singer import Loaded
from tests.support.tap import make_derby

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def _session(spark):
    return spark


@pytest.fixture
def lake(tmp_path):
    """A folder of Delta tables and a target that loads into it."""
    return Loaded(tmp_path / "lake")


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The URL of a small shop's database."""
    return make_derby(tmp_path_factory.mktemp("derby") / "shop", STATEMENTS)
