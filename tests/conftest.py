"""What the tests share: one Spark session per process, started when the first test asks for it."""

from __future__ import annotations

import pytest

from tests.support.session import URLS, URLS_OF_SLOW_TESTS, shared_session


def pytest_configure(config):
    if "not slow" not in config.option.markexpr:
        URLS.extend(URLS_OF_SLOW_TESTS)


@pytest.fixture(scope="session")
def spark():
    return shared_session()
