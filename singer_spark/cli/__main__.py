"""`python -m singer_spark.cli`, for those who cannot rely on the PATH."""

from __future__ import annotations

from singer_spark.cli import main

main(prog_name="singer-spark")
