"""singer-sdk's own suite for targets."""

from __future__ import annotations

import tempfile

import pytest
from singer_sdk.testing import get_target_test_class

from target_spark_delta.target import TargetSparkDelta

StandardTargetTests = get_target_test_class(
    target_class=TargetSparkDelta,
    config={"path": tempfile.mkdtemp(), "add_record_metadata": True},
)


@pytest.mark.usefixtures("spark")
class TestTargetSparkDelta(StandardTargetTests):
    """The standard tests, all of them."""
