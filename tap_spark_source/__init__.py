"""Singer tap: reads source tables with Spark and writes Singer messages.

The order of the modules is the order of the data:

    settings -> table, catalog, plan (pure) -> sources/ -> bookmark -> messages -> stream -> tap
"""

from __future__ import annotations
