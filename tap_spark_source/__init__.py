"""Singer tap: reads source tables with Spark and writes Singer messages.

The stages are folders, in the order of the data; each imports only those before it:

    settings -> plan (pure) -> dialects, sources -> readers -> output -> stream -> tap
"""

from __future__ import annotations
