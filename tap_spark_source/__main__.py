"""`python -m tap_spark_source` is the command tap-spark-source."""

from __future__ import annotations

from tap_spark_source.tap import TapSparkSource

TapSparkSource.cli()
