"""Run the target as `python -m target_spark_delta`."""

from __future__ import annotations

from target_spark_delta.target import TargetSparkDelta

TargetSparkDelta.cli()
