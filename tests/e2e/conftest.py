"""The commands that tests start find the engine of the test run, unless they ask for another."""

from __future__ import annotations

import pytest

from tests.support.session import shared_session


@pytest.fixture(autouse=True, scope="session")
def _warm():
    shared_session()
