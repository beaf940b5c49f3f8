"""Singer on Apache Spark: a tap, a target and the thin runner between them.

    tap_spark_source    settings -> plan -> sources -> messages -> stream -> tap
    target_spark_delta  intake -> commits -> rows -> table -> methods
    singer_spark        what both share (errors, names, settings, typemap, session) and
                        the runner (pipeline, state, runner, cli)

Tap and target never import each other, and the runner imports neither: it starts commands.
"""

from __future__ import annotations

from importlib import metadata

__version__ = metadata.version("singer-spark")
