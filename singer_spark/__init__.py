"""Singer on Apache Spark: a tap, a target and the thin runner between them.

    tap_spark_source    plan -> sources -> readers -> output
    target_spark_delta  intake -> commits -> rows -> table -> methods
    singer_spark        what both share (errors, names, types, settings, plugin, the engine),
                        and the runner (pipeline, state in a storage, runner, health, cli)

Tap and target never import each other, and the runner imports neither: it starts commands.
"""

from __future__ import annotations

from importlib import metadata

__version__ = metadata.version("singer-spark")
